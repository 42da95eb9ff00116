"""Clocks of a run: what is before what.

A clock is a list with a component for each role (how many of its events are before), then one for each mbarrier and
meeting (how many of its completions, inits and invals are before), then one for each role again: how many of its
events are before a proxy fence that is before (and, where arrivals follow cp.asyncs, one for each mbarrier: how many
of its completions are before such a fence). A clock that is stored is never changed.

What is before in time need not be before in causality order: an arrival without a release hands nothing on. A clock
behind one is twice as long where that makes a difference: the components again, of what is before in causality order.
"""

from __future__ import annotations

Clock = list[int]
NEVER = 1 << 60
"""The end of what has not ended."""


def join(one: Clock | None, other: Clock) -> Clock:
    """The least clock after both."""
    if one is None:
        return other
    if len(one) != len(other):
        return _joined_in_halves(one, other)
    return [mine if mine > theirs else theirs for mine, theirs in zip(one, other, strict=True)]


def _joined_in_halves(one: Clock, other: Clock) -> Clock:
    short, long = sorted((one, other), key=len)
    both = join(short + short, long)
    half = len(short)
    return both[:half] if both[:half] == both[half:] else both


def handed_on(clock: Clock, width: int) -> Clock:
    """What others learn of a clock by an arrival that releases nothing: that all this was before, and no more. width:
    of a clock in which nothing is told apart.
    """
    return clock[:width] + [0] * width
