"""Random programs of bar.arrive and bar.sync by several roles, and whether all engines agree on them."""

from __future__ import annotations

import random
from typing import NamedTuple

from sm90_verify.counterexample.trace import execute
from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.induction import prove
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import LIMIT
from sm90_verify.spec.ptx import operations as op

Step = tuple[str, int]
MOST_STATES = 2_000


class Program(NamedTuple):
    """By role its warps, what it does once, and what it does in every iteration; by barrier, what it counts."""

    warps: tuple[int, ...]
    before: tuple[tuple[Step, ...], ...]
    bodies: tuple[tuple[Step, ...], ...]
    counts: tuple[int, ...]
    trips: int | str


class Meetings(Pipeline):
    """Roles that do what `program` says."""

    program = Program((1, 1, 1), ((), (), ()), ((), (), ()), (64, 64), 1)
    m = barrier(arrivals=1)
    x = tile(bytes=16, slots=2)

    @role(threads=lambda self: 32 * self.program.warps[0])
    def one(self):
        yield from self.steps(0)

    @role(threads=lambda self: 32 * self.program.warps[1])
    def two(self):
        yield from self.steps(1)

    @role(threads=lambda self: 32 * self.program.warps[2])
    def three(self):
        yield from self.steps(2)

    def steps(self, number: int) -> Body:
        for step in self.program.before[number]:
            yield self.step(*step)
        for _ in self.loop():
            for step in self.program.bodies[number]:
                yield self.step(*step)

    def step(self, verb: str, which: int) -> op.Operation:
        match verb:
            case "sync":
                return self.named_sync(1 + which, self.program.counts[which])
            case "arrive":
                return self.named_arrive(1 + which, self.program.counts[which])
            case "other sync":
                return self.named_sync(1 + which, self.program.counts[which] + 32)
            case "other arrive":
                return self.named_arrive(1 + which, self.program.counts[which] + 32)
            case "write":
                return self.x[which].write(tag=0)
            case "signal":
                return self.m.arrive()
            case "wait":
                return self.m.wait(which)
        return self.x[which].read()


def random_program(seed: int) -> Program:
    """Generations of two barriers, one after the other, whose threads add up; then up to three changes."""
    dice = random.Random(seed)
    warps = tuple(dice.choice((1, 1, 2, 4)) for _ in range(3))
    parties = [[dice.randrange(3) for _ in range(dice.choice((2, 2, 3)))] for _ in range(2)]
    parts: list[list[list[Step]]] = []
    for most in (2, 3):
        lists: list[list[Step]] = [[], [], []]
        for _ in range(dice.randrange(most + 1)):
            which = dice.randrange(2)
            for number in dice.sample(parties[which], len(parties[which])):
                lists[number].append((dice.choice(("sync", "arrive")), which))
        for number in range(3):
            if dice.random() < 0.4:
                other: Step = (dice.choice(("write", "read", "read", "signal", "wait")), dice.randrange(2))
                lists[number].insert(dice.randint(0, len(lists[number])), other)
        parts.append(lists)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 3))):
        _change(dice, dice.choice(dice.choice(parts)))
    counts = tuple(32 * sum(warps[number] for number in them) for them in parties)
    before, bodies = (tuple(map(tuple, lists)) for lists in parts)
    trips: int | str = dice.choice((1, 1, 2, 3, "forever", "all"))
    return Program(warps, before, bodies, counts, trips if all(bodies) else 1)


def _change(dice: random.Random, steps: list[Step]) -> None:
    """Something is left out, repeated, moved, or done to the other barrier, with another count, or without waiting."""
    if not steps:
        steps.append((dice.choice(("sync", "arrive")), dice.randrange(2)))
        return
    at = dice.randrange(len(steps))
    verb, which = steps[at]
    match dice.randrange(6):
        case 0:
            del steps[at]
        case 1:
            steps.insert(at, steps[at])
        case 2:
            steps.insert(dice.randrange(len(steps)), steps.pop(at))
        case 3:
            steps[at] = (verb, 1 - which)
        case 4 if verb in ("sync", "arrive"):
            steps[at] = (f"other {verb}", which)
        case _:
            steps[at] = ({"sync": "arrive", "arrive": "sync"}.get(verb, verb), which)


def agree(seed: int, proof: float = 0.0) -> str:
    """What the unreduced search says, after everybody else has been held to it; smt only where it may take so many
    seconds.
    """
    program = random_program(seed)
    pipeline = Meetings(trips=program.trips)
    object.__setattr__(pipeline, "program", program)
    kernel = trace(pipeline)
    machine = compile_kernel(kernel)
    full = explore(machine, limit=MOST_STATES)
    violated = set(full.violations)
    if LIMIT in violated or not full.complete:
        return UNDETERMINED
    for violation in full.violations.values():
        execute(machine, violation.actions)
    reduced = explore(machine, reduced=True, limit=MOST_STATES)
    assert reduced.complete
    assert set(reduced.violations) <= violated
    assert bool(reduced.violations) == bool(violated), (program, violated)
    said = order(kernel)
    shown = set(confirm(said, machine))
    assert shown <= violated, (program, violated, shown)
    for property in violated - shown:
        assert said.verdict_on(property) != PROVED, (program, property)
    for failure in said.failures:
        assert not failure.certain or failure.property in shown, (program, said.describe(failure))
    if proof:
        proved = prove(machine, timeout=proof)
        assert set(proved.violations) <= violated, (program, proved.violations)
        for property, verdict in proved.verdicts.items():
            assert property not in violated or verdict != PROVED, (program, property)
    if violated:
        return VIOLATED
    return PROVED if said.verdict == PROVED else f"{PROVED}, and order leaves it open"
