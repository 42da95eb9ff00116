"""Clocks of a run: what is before what.

A clock is a list with a component for each role (how many of its events are before), then one for each mbarrier and
meeting (how many of its completions, inits and invals are before), then one for each role again: how many of its
events are before a proxy fence that is before (and, where arrivals follow cp.asyncs, one for each mbarrier: how many
of its completions are before such a fence). A clock that is stored is never changed.
"""

from __future__ import annotations

Clock = list[int]
NEVER = 1 << 60
"""The end of what has not ended."""


def join(one: Clock | None, other: Clock) -> Clock:
    """The least clock after both."""
    return (
        other if one is None else [mine if mine > theirs else theirs for mine, theirs in zip(one, other, strict=True)]
    )
