"""Barriers of threads, which are no mbarriers: named barriers, __syncthreads and barrier.cluster.

Each `*_ways` function gives the ways in which a role can take one operation. exited, total: threads that have exited,
and all that there are, of the CTA or the cluster. A role that waits inside a barrier has its flag set until the barrier
completes.

A named barrier counts threads, and nothing else (PTX ISA 9.7.13.1): a warp may execute bar.arrive and then bar.sync,
or bar.arrive again, in one generation, and is counted each time. FlashAttention-3 gives a warpgroup the first turn in
this way. PTX asks to take care that no warp executes more of them than intended before the barrier completes; what
comes of it if one does is a deadlock, a race, or a count that does not add up, and is found as that.
"""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, where
from sm90_verify.spec.ptx.limits import NAMED_BARRIERS
from sm90_verify.spec.ptx.step import Illegal, Step, Updates, Way

THREADS_WIDTH = 12
"""Bits: a CTA has at most 1024 threads, and twice as many can be counted before a barrier is found to be over-full."""

CLUSTER_WIDTH = 16
"""Bits: a cluster has at most 16 CTAs of 1024 threads."""


@dataclass(frozen=True)
class ThreadBarrier:
    """A named barrier or __syncthreads: threads that have arrived, and a flag per role that may wait inside."""

    arrived: Field
    count: Expr
    flags: dict[str, Field]

    def release(self, completes: Expr, role: str | None = None) -> Updates:
        """What completion does to the flags: all waiters may leave; `role` is inside unless it completed the
        barrier.
        """
        updates: list[tuple[str, Expr]] = []
        for name, flag in self.flags.items():
            waiting = TRUE if name == role else flag
            updates.append((flag.name, where(completes, FALSE, waiting)))
        return tuple(updates)


def named_ways(
    meeting: ThreadBarrier, role: str, threads: int, id: int | None, count: int, *, blocks: bool
) -> list[Way]:
    """bar.sync (blocks) or bar.arrive; id None is a barrier of the role's own threads."""
    barrier = NamedBarrier(meeting.arrived, meeting.count)
    step = named_arrive(barrier, threads, count)
    illegal = list(step.illegal)
    if id is not None and not 0 <= id < NAMED_BARRIERS:
        illegal.append(Illegal("named-barrier", TRUE, f"named barriers have ids 0 to {NAMED_BARRIERS - 1}"))
    if id is not None and (count % 32 or count < 1):
        illegal.append(Illegal("named-barrier", TRUE, "the thread count of a named barrier is a multiple of 32"))
    counts = [("arrived", meeting.arrived), ("count", meeting.count)]
    state = tuple((field.name, step.then[part]) for part, field in counts if isinstance(field, Field))
    updates = (*state, *meeting.release(step.completes, role if blocks else None))
    if not blocks:
        return [Way(TRUE, updates, tuple(illegal), completes=step.completes)]
    return [
        Way(step.completes, updates, tuple(illegal), label="last", kind="completes"),
        Way(~step.completes, updates, tuple(illegal), kind="enters"),
    ]


def leave_ways(meeting: ThreadBarrier, role: str) -> list[Way]:
    """The second half of bar.sync: the barrier has completed."""
    return [Way(meeting.flags[role] == 0, (), kind="leaves")]


def cta_ways(meeting: ThreadBarrier, role: str, threads: int, exited: Expr, total: int) -> list[Way]:
    """__syncthreads(): completes when all threads that have not exited have arrived."""
    wide = meeting.arrived + Lit(threads, meeting.arrived.width)
    completes = (wide + exited) == total
    updates = ((meeting.arrived.name, where(completes, Lit(0, THREADS_WIDTH), wide)), *meeting.release(completes, role))
    again = Illegal("named-barrier", meeting.flags[role] == 1, "the same threads arrive twice at __syncthreads()")
    return [
        Way(completes, updates, (again,), label="last", kind="completes"),
        Way(~completes, updates, (again,), kind="enters"),
    ]


def cta_leave_ways(meeting: ThreadBarrier, role: str, exited: Expr, total: int) -> list[Way]:
    """Leaves when it has completed, or completes it because the threads that were missing have exited."""
    done = (meeting.arrived + exited) == total
    reset = ((meeting.arrived.name, Lit(0, THREADS_WIDTH)), *meeting.release(TRUE))
    flag = meeting.flags[role]
    return [Way(flag == 0, (), kind="leaves"), Way((flag == 1) & done, reset, label="last", kind="completes")]


NOT_ARRIVED, ARRIVED, MAY_LEAVE = range(3)
"""Where a role is at barrier.cluster."""


def cluster_arrive_ways(meeting: ThreadBarrier, role: str, threads: int, exited: Expr, total: int) -> list[Way]:
    """barrier.cluster.arrive (PTX ISA 9.7.13.3): completes when all threads of the cluster that have not exited have
    arrived.
    """
    wide = meeting.arrived + Lit(threads, CLUSTER_WIDTH)
    completes = (wide + exited) == total
    updates: list[tuple[str, Expr]] = [(meeting.arrived.name, where(completes, Lit(0, CLUSTER_WIDTH), wide))]
    for name, flag in meeting.flags.items():
        waits = TRUE if name == role else flag == ARRIVED
        here: Expr = Lit(ARRIVED, 2) if name == role else flag
        updates.append((flag.name, where(completes & waits, Lit(MAY_LEAVE, 2), here)))
    again = Illegal(
        "named-barrier",
        meeting.flags[role] != NOT_ARRIVED,
        "the same threads arrive twice at barrier.cluster without a wait in between",
    )
    return [Way(TRUE, tuple(updates), (again,), completes=completes)]


def cluster_wait_ways(meeting: ThreadBarrier, role: str, exited: Expr, total: int) -> list[Way]:
    """barrier.cluster.wait: leaves when the generation is complete, be it because the missing threads have exited."""
    flag = meeting.flags[role]
    leave, reset = (flag.name, Lit(NOT_ARRIVED, 2)), (meeting.arrived.name, Lit(0, CLUSTER_WIDTH))
    done = (meeting.arrived + exited) == total
    others = tuple(
        (other.name, where(other == ARRIVED, Lit(MAY_LEAVE, 2), other))
        for name, other in meeting.flags.items()
        if name != role
    )
    alone = Illegal("named-barrier", TRUE, "barrier.cluster.wait without an arrive before it")
    return [
        Way(flag == MAY_LEAVE, (leave,), kind="leaves"),
        Way((flag == ARRIVED) & done, (reset, leave, *others), label="last", kind="completes"),
        Way(flag == NOT_ARRIVED, (), (alone,), label="alone"),
    ]


@dataclass(frozen=True)
class NamedBarrier:
    """barrier.sync / barrier.arrive (9.7.13.1): threads arrived in the generation, and the count that it was opened
    with.
    """

    arrived: Expr
    count: Expr


def named_arrive(b: NamedBarrier, threads: int, count: int) -> Step:
    """bar.arrive id, count; also the first half of bar.sync."""
    wide = b.arrived + Lit(threads, b.arrived.width)
    full = Lit(count, b.arrived.width)
    completes = wide >= full
    return Step(
        when=TRUE,
        then={
            "arrived": where(completes, Lit(0, b.arrived.width), wide),
            "count": where(completes, Lit(0, b.count.width), Lit(count, b.count.width)),
        },
        completes=completes,
        illegal=(
            Illegal("named-barrier", wide > full, f"more threads arrive than the {count} that the barrier counts"),
            Illegal(
                "named-barrier",
                (b.count != 0) & (b.count != Lit(count, b.count.width)),
                "two instructions of one generation name different thread counts",
            ),
        ),
    )
