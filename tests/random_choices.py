"""Random programs whose roles share loops and choices, and how far what is said of them depends on how many decisions
are remembered.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Kernel, Threads

LIMIT = 3_000
"""States of one search."""


class Body(NamedTuple):
    """What a role does: before its loop, in every iteration, and behind it. loop: its name, "" for one iteration.

    A step is (verb, which), or ("choose", name, steps by option).
    """

    loop: str
    before: tuple[tuple, ...]
    inside: tuple[tuple, ...]
    after: tuple[tuple, ...]


class Choosers(Pipeline):
    """Roles that do what `bodies` says."""

    bodies: tuple[Body, ...] = ()
    p = barrier(arrivals=1, slots=1)
    q = barrier(arrivals=1, slots=1)
    a = tile(bytes=16, slots=1)

    @role(warps=1, copies=lambda self: len(self.bodies))
    def one(self, me: Threads):
        body = self.bodies[me.copy]
        yield from self.steps(body.before)
        if body.loop:
            for _ in self.loop(name=body.loop):
                yield from self.steps(body.inside)
        else:
            yield from self.steps(body.inside)
        yield from self.steps(body.after)

    def steps(self, steps):
        for verb, which, *more in steps:
            match verb:
                case "choose":
                    taken = yield self.choose(which, *range(len(more[0])))
                    yield from self.steps(more[0][taken])
                case "arrive":
                    yield (self.p if which else self.q).arrive()
                case "wait":
                    yield (self.p if which else self.q).wait(0)
                case "flip":
                    yield (self.p if which else self.q).wait(1)
                case "meet":
                    yield self.named_sync(1, 32 * (which + 1))
                case "tell":
                    yield self.named_arrive(2 + which, 64)
                case "hear":
                    yield self.named_sync(2 + which, 64)
                case "write":
                    yield self.a.write(tag=which)
                case "read":
                    yield self.a.read(tag=which)


def a_kernel(seed: int, trips: int | str = "all") -> Kernel | None:
    """The kernel of that number; None if it has no meaning."""
    rng = random.Random(seed)
    verbs = ("arrive", "wait", "flip", "meet", "tell", "hear", "tell", "hear", "read", "write")
    chosen = rng.sample(verbs, rng.choice((0, 1, 1, 2, 3))) or ["read"]
    options = {"c": rng.randint(2, 3), "d": 2}

    def steps(most: int, depth: int) -> tuple[tuple, ...]:
        found: list[tuple] = []
        for _ in range(rng.randint(0, most)):
            if depth and rng.random() < 0.55:
                name = "c" if rng.random() < 0.8 else "d"
                found.append(("choose", name, tuple(steps(1, depth - 1) for _ in range(options[name]))))
            else:
                found.append((rng.choice(chosen), rng.randint(0, 1)))
        return tuple(found)

    def body() -> Body:
        loop = rng.choice(("trips", "trips", "trips", "own", ""))
        return Body(loop, steps(1, 0), steps(2, 1), steps(1, 1))

    bodies = tuple(body() for _ in range(rng.choice((2, 2, 2, 3))))
    if rng.random() < 0.7:
        twin = bodies[0]
        swap = {"tell": "hear", "hear": "tell", "arrive": "wait", "wait": "arrive"}

        def other(steps: tuple[tuple, ...]) -> tuple[tuple, ...]:
            return tuple(
                (verb, which, tuple(other(way) for way in more[0])) if more else (swap.get(verb, verb), which)
                for verb, which, *more in steps
            )

        bodies = (twin, Body(twin.loop, other(twin.before), other(twin.inside), other(twin.after)), *bodies[2:])
    pipeline = Choosers(trips=trips)
    object.__setattr__(pipeline, "bodies", bodies)
    try:
        return trace(pipeline)
    except SpecError:
        return None


def said(kernel: Kernel, kept: int | None, *, reduced: bool) -> tuple[str, Exploration]:
    """violated, proved, open, or cut short."""
    found = explore(compile_kernel(kernel, kept=kept), limit=LIMIT, reduced=reduced, stop_at_first=True)
    if found.violations.keys() - {"limit"}:
        return "violated", found
    if not found.complete and not found.open:
        return "cut short", found
    return ("open" if is_undetermined(found) else "proved"), found
