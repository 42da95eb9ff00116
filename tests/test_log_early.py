"""Which entries of a log are taken before their place in it, because a wait or an arrival of another warp says so."""

from __future__ import annotations

import pytest
from short_logs import Entry, assert_violated, check

from sm90_verify.result import Result


def test_warp_asks_for_a_later_phase_first() -> None:
    """try_wait for phase 1 returns false while phase 0 is complete, and the wait then passes on phase 0."""
    start: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 32)),
        (0, "fence_barrier_init", ()),
        (0, "syncthreads", ()),
        (1, "syncthreads", ()),
        (0, "cluster_barrier_arrive", (1024,)),
    ]
    good: list[Entry] = [*start, (1, "cluster_barrier_try_wait", (1024, 0)), (1, "cluster_barrier_wait", (1024, 0))]
    assert check(good).verdict == "allowed"
    bad: list[Entry] = [
        *start,
        (1, "cluster_barrier_try_wait", (1024, 1)),
        (1, "cluster_barrier_try_wait", (1024, 1)),
        (1, "syncwarp", ()),
    ]
    assert check(bad).verdict == "allowed"
    assert_violated(check([*bad, (1, "cluster_barrier_wait", (1024, 0))]), "deadlock", "cannot have returned")


def test_a_try_wait_before_an_arrival_that_is_taken_early_has_failed() -> None:
    """Warp 1 goes on only after the arrival of warp 2, whose try_wait cannot have returned true by then: that the phase
    is complete when warp 2 logs the arrival tells it nothing of what warp 0 did before.
    """
    first, other, late = 1024, 1032, 1040
    entries: list[Entry] = [
        *((0, "cluster_barrier_init", (address, 32)) for address in (first, other)),
        (0, "fence_barrier_init", ()),
        *((warp, "syncthreads", ()) for warp in (0, 1, 2)),
        (2, "cluster_barrier_try_wait", (first, 0)),
        (1, "cluster_barrier_wait", (other, 0)),
        (1, "syncwarp", ()),
        (0, "cluster_barrier_init", (late, 32)),
        (0, "fence_barrier_init", ()),
        (0, "cluster_barrier_arrive", (first,)),
        (2, "cluster_barrier_arrive", (other,)),
    ]
    waits: Entry = (2, "cluster_barrier_wait", (first, 0))
    uses: Entry = (2, "cluster_barrier_arrive", (late,))
    ends: list[Entry] = [(2, "syncwarp", ()), (2, "cluster_barrier_wait", (late, 0))]
    assert check([*entries, waits, uses, *ends]).verdict == "allowed"
    assert_violated(check([*entries, uses, waits, *ends]), "barrier-init", "no __syncthreads lies between")


def phases(count: int, *entries: Entry) -> Result:
    """Entries on barriers 1024 and 1032 of `count` arrivals."""
    start: list[Entry] = [
        *((0, "cluster_barrier_init", (address, count)) for address in (1024, 1032)),
        (0, "fence_barrier_init", ()),
        *((warp, "syncthreads", ()) for warp in (0, 1, 2)),
    ]
    return check([*start, *entries])


def arrives(warp: int, address: int) -> Entry:
    return warp, "cluster_transaction_barrier_arrive_and_expect_tx", (address, 0)


def test_an_arrival_is_taken_early_by_whoever_has_not_arrived_in_the_phase() -> None:
    """What warp 1 logs first is its arrival in the next phase; where it arrives for two, it is the second in this."""
    one, two = arrives(1, 1024), arrives(2, 1024)
    waits: list[Entry] = [(0, "cluster_barrier_wait", (1024, phase)) for phase in (0, 1)]
    goes_on: Entry = (0, "syncwarp", ())
    assert phases(2, one, waits[0], goes_on, one, two, two, waits[1]).verdict == "allowed"
    assert phases(2, one, waits[0], goes_on, one).verdict == "allowed"


AGAIN = (arrives(0, 1032), (2, "cluster_barrier_wait", (1032, 1)))


@pytest.mark.parametrize(("kind", "again"), [("cluster_barrier_wait", ()), ("cluster_barrier_try_wait", AGAIN)])
def test_an_arrival_is_taken_early_behind_a_wait_that_can_pass(kind: str, again: tuple[Entry, ...]) -> None:
    """By another arrival that is taken early, if that can be: not before the wait of warp 0. The try_wait must have
    returned true: what warp 2 waits for next is the phase after.
    """
    waits: list[Entry] = [(2, kind, (1032, 0)), (1, "cluster_barrier_wait", (1024, 0)), (1, "syncwarp", ())]
    later = [arrives(0, 1032), arrives(2, 1024), *again]
    assert phases(1, *waits, *later).verdict == "allowed"
    late: Entry = (0, "cluster_barrier_wait", (1024, 0))
    assert_violated(phases(1, *waits, late, *later), "deadlock", "cannot have returned")
