"""Whether an access is over for a role, by what a clock says."""

from __future__ import annotations

from sm90_verify.engines.order import warpgroups
from sm90_verify.engines.order.clocks import Clock
from sm90_verify.engines.order.plan import Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import Spans


def is_open(run: Progress, role: int, clock: Clock, use: Use, other: int, number: int, spans: Spans) -> bool:
    """Another role has a conflicting access that need not be over, for all that a role with that clock knows."""
    known = clock[other]
    if may_go_on(known, spans.write, spans.loosened_write, spans.loose_write):
        return True
    if not use.write or not may_go_on(known, spans.read, spans.loosened_read, spans.loose_read):
        return False
    return spans.group < 0 or not warpgroups.is_over(run, role, clock, number, other, spans)


def may_go_on(known: int, end: int, loosened: int, loose: int) -> bool:
    """An access that has that end is not before what somebody does who knows so many events. Who knows of none that
    comes after the one with which the access was left without release has learnt of it by a release before.
    """
    return known <= end or loosened < known <= loose
