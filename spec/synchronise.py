"""Synchronisation that is not an mbarrier: named barriers, __syncthreads, and decisions that all roles share.

Each `*_steps` function gives the ways in which a role can take one operation, as `Way`s for the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spec.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of, where
from spec.hopper import NAMED_BARRIERS, Illegal, NamedBarrier, named_arrive, saturating_increment

THREADS_WIDTH = 12
"""A CTA has at most 1024 threads; twice that many can be counted before a barrier is found to be over-full."""

CLUSTER_WIDTH = 16
"""A cluster has at most 16 CTAs."""

Updates = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Way:
    """One way to take an operation. `goes`: "on" to the successor for `answer`, or "inside" the barrier to wait
    there.
    """

    guard: Expr
    updates: Updates
    illegal: tuple[Illegal, ...] = ()
    goes: str = "on"
    answer: object = None
    label: str = ""


@dataclass(frozen=True)
class Meeting:
    """A named barrier or __syncthreads: threads that have arrived, and a flag per role that waits inside."""

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


def named_ways(meeting: Meeting, role: str, threads: int, id: int | None, count: int, *, blocks: bool) -> list[Way]:
    """bar.sync (blocks) or bar.arrive; id None is a barrier of the role's own threads."""
    barrier = NamedBarrier(meeting.arrived, meeting.count)
    step = named_arrive(barrier, threads, count, meeting.flags[role] == 1)
    illegal = list(step.illegal)
    if id is not None and not 0 <= id < NAMED_BARRIERS:
        illegal.append(Illegal("named-barrier", TRUE, f"named barriers have ids 0 to {NAMED_BARRIERS - 1}"))
    if id is not None and (count % 32 or count < 1):
        illegal.append(Illegal("named-barrier", TRUE, "the thread count of a named barrier is a multiple of 32"))
    counts = [("arrived", meeting.arrived), ("count", meeting.count)]
    state = tuple((field.name, step.then[part]) for part, field in counts if isinstance(field, Field))
    updates = (*state, *meeting.release(step.completes, role))
    if not blocks:
        return [Way(TRUE, updates, tuple(illegal))]
    return [
        Way(step.completes, updates, tuple(illegal), label="last"),
        Way(~step.completes, updates, tuple(illegal), goes="inside"),
    ]


def leave_ways(meeting: Meeting, role: str) -> list[Way]:
    """The second half of bar.sync: the barrier has completed."""
    return [Way(meeting.flags[role] == 0, ())]


def cta_ways(meeting: Meeting, role: str, threads: int, exited: Expr, total: int) -> list[Way]:
    """__syncthreads(): completes when all threads that have not exited have arrived."""
    wide = meeting.arrived + Lit(threads, meeting.arrived.width)
    completes = (wide + exited) == total
    updates = ((meeting.arrived.name, where(completes, Lit(0, THREADS_WIDTH), wide)), *meeting.release(completes, role))
    again = Illegal("named-barrier", meeting.flags[role] == 1, "the same threads arrive twice at __syncthreads()")
    return [
        Way(completes, updates, (again,), label="last"),
        Way(~completes, updates, (again,), goes="inside"),
    ]


def cta_leave_ways(meeting: Meeting, role: str, exited: Expr, total: int) -> list[Way]:
    """Leaves when it has completed, or completes it because the threads that were missing have exited."""
    done = (meeting.arrived + exited) == total
    reset = ((meeting.arrived.name, Lit(0, THREADS_WIDTH)), *meeting.release(TRUE))
    flag = meeting.flags[role]
    return [Way(flag == 0, ()), Way((flag == 1) & done, reset, label="last")]


NOT_ARRIVED, ARRIVED, MAY_LEAVE = range(3)
"""Where a role is at barrier.cluster."""


def cluster_arrive_ways(meeting: Meeting, role: str, threads: int, exited: Expr, total: int) -> list[Way]:
    """barrier.cluster.arrive (PTX ISA 9.7.13.4): completes when all threads of the cluster that have not exited have
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
    return [Way(TRUE, tuple(updates), (again,))]


def cluster_wait_ways(meeting: Meeting, role: str, exited: Expr, total: int) -> list[Way]:
    """barrier.cluster.wait: leaves when the generation is complete, be it because the missing threads have exited."""
    flag = meeting.flags[role]
    leave = (flag.name, Lit(NOT_ARRIVED, 2))
    done = (meeting.arrived + exited) == total
    others = tuple(
        (other.name, where(other == ARRIVED, Lit(MAY_LEAVE, 2), other))
        for name, other in meeting.flags.items()
        if name != role
    )
    alone = Illegal("named-barrier", TRUE, "barrier.cluster.wait without an arrive before it")
    return [
        Way(flag == MAY_LEAVE, (leave,)),
        Way((flag == ARRIVED) & done, ((meeting.arrived.name, Lit(0, CLUSTER_WIDTH)), leave, *others), label="last"),
        Way(flag == NOT_ARRIVED, (), (alone,), label="alone"),
    ]


@dataclass(frozen=True)
class Shared:
    """A sequence of decisions that several roles read, each at its own pace.

    behind: by role, how many decisions of the most advanced role it has not read yet, held at its largest value.
    history: the last decisions, newest first. stopped: for a trip-count loop, that the last decision was to stop.
    """

    behind: dict[str, Field]
    history: tuple[Field, ...] = ()
    stopped: Field | None = None

    def lead(self, role: str) -> Updates:
        """Everybody else falls one behind."""
        return tuple(
            (field.name, saturating_increment(field, TRUE)) for name, field in self.behind.items() if name != role
        )

    def settled(self, role: str) -> Expr:
        """The trip-count decision that the role is about to read has been made."""
        if self.stopped is None or len(self.behind) == 1:
            return FALSE
        return (self.behind[role] != 0) | (self.stopped == 1)

    def too_far(self, role: str) -> Illegal:
        top = (1 << self.behind[role].width) - 1
        return Illegal(
            "limit", self.behind[role] == top, f"{role} is {top} or more shared decisions behind another role"
        )


def loop_ways(shared: Shared, role: str) -> list[Way]:
    """The head of a trip-count loop: the most advanced role decides whether there is another iteration, the rest
    follow.
    """
    behind, stopped = shared.behind[role], shared.stopped
    assert stopped is not None
    if len(shared.behind) == 1:
        return [Way(TRUE, (), answer=True, label="goes on"), Way(TRUE, (), answer=False, label="ends here")]
    first = (behind == 0) & (stopped == 0)
    far = (shared.too_far(role),)
    return [
        Way(first, shared.lead(role), far, answer=True, label="goes on"),
        Way(first, ((stopped.name, TRUE),), far, answer=False, label="ends here"),
        Way(behind != 0, ((behind.name, behind - 1),), far, answer=True, label="goes on too"),
        Way((behind == 0) & (stopped == 1), (), far, answer=False, label="ends too"),
    ]


def choice_ways(shared: Shared, role: str, options: Sequence[object]) -> list[Way]:
    """choose(): the most advanced role picks, the others find what was picked."""
    behind = shared.behind[role]
    ways = []
    for number in range(len(options)):
        shift: list[tuple[str, Expr]] = []
        for newer, older in zip((None, *shared.history), shared.history, strict=False):
            shift.append((older.name, newer if newer is not None else Lit(number, older.width)))
        picks = (*shift, *shared.lead(role))
        ways.append(Way(behind == 0, picks, answer=number, label=f"picks {options[number]!r}"))
        if len(shared.behind) > 1:
            found = any_of(
                all_of((behind == distance + 1, entry == number)) for distance, entry in enumerate(shared.history)
            )
            ways.append(Way(found, ((behind.name, behind - 1),), answer=number, label=f"finds {options[number]!r}"))
    return ways
