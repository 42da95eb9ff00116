"""An explorer of small mbarrier programs, written from the PTX ISA alone: it shares nothing with the specification or
the engines.

A program is a tuple of roles, a role a tuple of operations, each a name, a barrier by number, and what the name needs:

    ("arrive", b, count)    mbarrier.arrive by `count` threads
    ("arm", b, bytes)       mbarrier.arrive.expect_tx
    ("expect", b, bytes)    mbarrier.expect_tx
    ("complete", b, bytes)  mbarrier.complete_tx
    ("load", b, bytes)      cp.async.bulk of so many bytes that signals b, landing at any later time
    ("wait", b, parity)     a loop around mbarrier.try_wait.parity

All roles run once from their first to their last operation. States are visited breadth first, without any reduction.
Section numbers are those of the PTX ISA.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LARGEST = 2**20 - 1
"""Of the magnitude of a tx-count (9.7.13.15.2)."""

Operation = tuple[str, int, int]
Program = tuple[tuple[Operation, ...], ...]
Barrier = tuple[int, int, int]
"""(phases completed, pending arrivals, tx-count)."""
State = tuple[tuple[int, ...], tuple[Barrier, ...], tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]
"""(place of each role, barriers, by role and barrier the phases completed when it last passed a wait, copies in flight
as (barrier, bytes))."""


@dataclass
class Verdicts:
    """The properties that some schedule violates, and the number of reachable states."""

    violated: set[str] = field(default_factory=set)
    states: int = 0


def explore(program: Program, counts: tuple[int, ...], most: int = 100_000) -> Verdicts | None:
    """Decides a program whose barriers are initialised with `counts` arrivals; None beyond `most` states."""
    explorer = _Explorer(program, counts)
    return explorer.found if explorer.visit(most) else None


class _Explorer:
    def __init__(self, program: Program, counts: tuple[int, ...]) -> None:
        self.program, self.counts = program, counts
        self.found = Verdicts()
        self.meant = [_meant(role) for role in program]
        self.standing = [_standing(role, meant) for role, meant in zip(program, self.meant, strict=True)]
        self.waiters = [
            [number for number, role in enumerate(program) if any(one[:2] == ("wait", b) for one in role)]
            for b in range(len(counts))
        ]
        self.copies = any(one[0] == "load" for role in program for one in role)
        self.undefined = False

    def visit(self, most: int) -> bool:
        start: State = (
            (0,) * len(self.program),
            tuple((0, count, 0) for count in self.counts),
            ((0,) * len(self.counts),) * len(self.program),
            (),
        )
        known, queue = {start}, [start]
        for state in queue:
            if len(known) > most:
                return False
            self.undefined = False
            self._look_at_waits(state)
            following = self._steps(state)
            if not following and not self.undefined:
                self._look_at_the_end(state)
            for one in following:
                if one not in known:
                    known.add(one)
                    queue.append(one)
        self.found.states = len(known)
        return True

    # -- what a state violates

    def _look_at_waits(self, state: State) -> None:
        """A wait is defined for the current phase and the one before it (9.7.13.15.16). Who has passed one and done
        nothing since but wait could as well be standing there still.
        """
        at, barriers, _, flying = state
        for role, place in enumerate(at):
            for b, phase, _, _ in self.standing[role][place]:
                if not phase <= barriers[b][0] <= phase + 1:
                    self.found.violated.add("phase-lapped")
        if flying and all(place == len(role) for place, role in zip(at, self.program, strict=True)):
            self.found.violated.add("exit-hazard")

    def _look_at_the_end(self, state: State) -> None:
        at, barriers, _, _ = state
        if any(place < len(role) for place, role in zip(at, self.program, strict=True)):
            self.found.violated.add("deadlock")
        elif any(tx for _, _, tx in barriers):
            self.found.violated.add("tx-count")

    # -- steps

    def _steps(self, state: State) -> list[State]:
        at, barriers, seen, flying = state
        out: list[State] = []
        for role, place in enumerate(at):
            if place == len(self.program[role]):
                continue
            name, b, amount = self.program[role][place]
            then = (*at[:role], place + 1, *at[role + 1 :])
            if name == "wait":
                completed = barriers[b][0]
                if completed & 1 != amount:
                    mine = (*seen[role][:b], completed, *seen[role][b + 1 :])
                    out.append((then, barriers, (*seen[:role], mine, *seen[role + 1 :]), flying))
            elif name == "load":
                out.append((then, barriers, seen, tuple(sorted((*flying, (b, amount))))))
            else:
                after = self._signal(state, role)
                if after is not None:
                    out.append((then, (*barriers[:b], after, *barriers[b + 1 :]), seen, flying))
        for index, (b, amount) in enumerate(flying):
            after = self._deliver(b, barriers[b], amount)
            if after is not None:
                rest = (*flying[:index], *flying[index + 1 :])
                out.append((at, (*barriers[:b], after, *barriers[b + 1 :]), seen, rest))
        return out

    def _signal(self, state: State, role: int) -> Barrier | None:
        """What an arrival or a transaction leaves of its barrier (9.7.13.15.5 to .7, .11 to .13); None if undefined."""
        name, b, amount = self.program[role][state[0][role]]
        completed, pending, tx = state[1][b]
        if name == "complete":
            return self._deliver(b, state[1][b], amount)
        if name in ("expect", "arm"):
            tx += amount
            if tx > LARGEST:
                return self._undefined("tx-count")
        if name == "expect":
            # the ISA does not say whether the phase completes by it
            return self._undefined("tx-count") if pending == 0 and tx == 0 else (completed, pending, tx)
        arrivals = 1 if name == "arm" else amount
        if self.waiters[b] and not self._is_observed(state, role, b):
            self.found.violated.add("unobserved-phase")
        if arrivals > pending:
            return self._undefined("arrival-count")
        return self._settle(b, completed, pending - arrivals, tx)

    def _is_observed(self, state: State, arriving: int, b: int) -> bool:
        """Some thread has seen the last phase complete before this arrival (9.7.13.15.4)."""
        at, barriers, seen, _ = state
        for role in self.waiters[b]:
            if seen[role][b] != barriers[b][0]:
                continue
            only_just = any(where == b and new and passed for where, _, new, passed in self.standing[role][at[role]])
            if role == arriving or not only_just:
                return True
        return False

    def _deliver(self, b: int, barrier: Barrier, amount: int) -> Barrier | None:
        """complete-tx (9.7.13.15.12), also of a copy that lands."""
        completed, pending, tx = barrier[0], barrier[1], barrier[2] - amount
        if tx < -LARGEST or (pending == 0 and tx < 0):
            return self._undefined("tx-count")
        return self._settle(b, completed, pending, tx)

    def _settle(self, b: int, completed: int, pending: int, tx: int) -> Barrier:
        """A phase completes when no arrival and no byte is pending (9.7.13.15.6)."""
        return (completed + 1, self.counts[b], 0) if pending == 0 and tx == 0 else (completed, pending, tx)

    def _undefined(self, property: str) -> Barrier | None:
        self.found.violated.add(property)
        self.undefined = True
        return None


def _meant(role: tuple[Operation, ...]) -> list[int]:
    """By operation, the phase that a wait is meant for: the next of its parity that the role has not gone beyond. A
    fresh barrier has completed phase -1.
    """
    last: dict[int, int] = {}
    found = []
    for name, b, parity in role:
        if name == "wait":
            before = last.get(b, -1)
            last[b] = before + (before - parity) % 2
        found.append(last.get(b, -1))
    return found


def _standing(role: tuple[Operation, ...], meant: list[int]) -> list[tuple[tuple[int, int, bool, bool], ...]]:
    """By place, (barrier, phase, whether it is a new one, whether it has passed) of the wait there and of the waits
    that it has passed with nothing but waits since.
    """
    found: list[tuple[tuple[int, int, bool, bool], ...]] = []
    passed: list[tuple[int, int, bool, bool]] = []
    last: dict[int, int] = {}
    for place in range(len(role) + 1):
        if place == len(role) or role[place][0] != "wait":
            found.append(tuple(passed))
            passed = []
            continue
        b = role[place][1]
        new = meant[place] > last.get(b, -1)
        found.append((*passed, (b, meant[place], new, False)))
        passed.append((b, meant[place], new, True))
        last[b] = meant[place]
    return found
