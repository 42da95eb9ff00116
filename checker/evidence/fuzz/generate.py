"""Random programs from a seed, and the pipeline of the specification that says the same."""

from __future__ import annotations

from random import Random
from typing import Any

from sm90_verify.evidence.fuzz.explorer import Operation, Program
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT


def random_program(seed: int) -> tuple[Program, tuple[int, ...]]:
    """A program of 2 to 4 roles on 1 to 3 barriers, and the arrivals that these expect: phases that follow each other
    as they should, with up to three changes.
    """
    random = Random(seed)
    counts = tuple(random.choice((1, 1, 1, 2, 2, 3)) for _ in range(random.choice((1, 1, 2, 2, 3))))
    roles: list[list[Operation]] = [[] for _ in range(random.choice((2, 2, 3, 3, 4)))]
    phases = [0] * len(counts)
    for _ in range(random.choice((1, 2, 2, 3))):
        b = random.randrange(len(counts))
        _phase(random, roles, b, counts[b], phases[b])
        phases[b] += 1
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        _change(random, roles, len(counts))
    return tuple(map(tuple, roles)), counts


def _phase(random: Random, roles: list[list[Operation]], b: int, count: int, phase: int) -> None:
    """One phase of a barrier: its arrivals, some of them with bytes, and waits for it. Whoever has not seen the phase
    before waits for that first.
    """
    parity = phase & 1
    left = count
    while left:
        mine = random.randint(1, left)
        left -= mine
        role = random.choice(roles)
        if phase and not any(one == ("wait", b, 1 - parity) for one in role[-3:]):
            role.append(("wait", b, 1 - parity))
        role += random.choice(_WITH_BYTES)(b, mine) if random.random() < 0.6 else [("arrive", b, mine)]
    for role in random.sample(roles, random.randint(1, len(roles))):
        role.append(("wait", b, parity))


_WITH_BYTES = (
    lambda b, n: [*_rest(b, n), ("arm", b, BULK_ALIGNMENT), ("load", b, BULK_ALIGNMENT)],
    lambda b, n: [("load", b, BULK_ALIGNMENT), ("expect", b, BULK_ALIGNMENT), ("arrive", b, n)],
    lambda b, n: [("load", b, BULK_ALIGNMENT), *_rest(b, n), ("arm", b, BULK_ALIGNMENT)],
    lambda b, n: [("expect", b, BULK_ALIGNMENT), ("arrive", b, n), ("complete", b, BULK_ALIGNMENT)],
    lambda b, n: [("complete", b, BULK_ALIGNMENT), ("expect", b, BULK_ALIGNMENT), ("arrive", b, n)],
    lambda b, n: [("complete", b, BULK_ALIGNMENT), *_rest(b, n), ("arm", b, BULK_ALIGNMENT)],
)


def _rest(b: int, n: int) -> list[Operation]:
    return [("arrive", b, n - 1)] if n > 1 else []


def _change(random: Random, roles: list[list[Operation]], barriers: int) -> None:
    role = random.choice(roles)
    at = random.randrange(len(role) + 1)
    name = random.choice(("arrive", "arm", "expect", "complete", "load", "wait", "wait"))
    amount = {"arrive": random.choice((1, 1, 2)), "wait": random.randrange(2)}.get(
        name, random.choice((BULK_ALIGNMENT, 2 * BULK_ALIGNMENT))
    )
    new = (name, random.randrange(barriers), amount)
    match random.randrange(4) if at < len(role) else 0:
        case 0:
            role.insert(at, new)
        case 1:
            del role[at]
        case 2:
            role[at] = new
        case _:
            other = random.randrange(len(role))
            role[at], role[other] = role[other], role[at]


def pipeline_of(program: Program, counts: tuple[int, ...]) -> Pipeline:
    """The program in the language of the specification."""
    names: dict[str, Any] = {f"b{number}": barrier(arrivals=count) for number, count in enumerate(counts)}
    loads = [(r, i) for r, one in enumerate(program) for i, operation in enumerate(one) if operation[0] == "load"]
    for r, i in loads:
        names[f"x{r}_{i}"] = tile(bytes=program[r][i][2])
    for number, operations in enumerate(program):
        names[f"r{number}"] = role(threads=32)(_body(number, operations))
    found: Pipeline = type("Random", (Pipeline,), names)()
    return found


def _body(number: int, operations: tuple[Operation, ...]) -> Any:
    def body(self: Any) -> Any:
        for index, (name, b, amount) in enumerate(operations):
            on = getattr(self, f"b{b}")
            match name:
                case "arrive":
                    yield on.arrive(amount)
                case "arm":
                    yield on.arrive_expect_tx(amount)
                case "expect":
                    yield on.expect_tx(amount)
                case "complete":
                    yield on.complete_tx(amount)
                case "load":
                    yield getattr(self, f"x{number}_{index}").load(signals=on)
                case "wait":
                    yield on.wait(amount)

    return body


def text_of(program: Program, counts: tuple[int, ...]) -> str:
    """The program as a file for `verify spec`."""
    lines = ["from sm90_verify import Pipeline, barrier, role, tile", "", "", "class Found(Pipeline):"]
    lines += [f"    b{number} = barrier(arrivals={count})" for number, count in enumerate(counts)]
    for r, operations in enumerate(program):
        for i, (name, _, amount) in enumerate(operations):
            if name == "load":
                lines.append(f"    x{r}_{i} = tile(bytes={amount})")
    for r, operations in enumerate(program):
        lines += ["", "    @role(threads=32)", f"    def r{r}(self):"]
        for i, (name, b, amount) in enumerate(operations):
            call = {
                "arm": f"b{b}.arrive_expect_tx({amount})",
                "expect": f"b{b}.expect_tx({amount})",
                "complete": f"b{b}.complete_tx({amount})",
                "load": f"x{r}_{i}.load(signals=self.b{b})",
            }.get(name, f"b{b}.{name}({amount})")
            lines.append(f"        yield self.{call}")
    return "\n".join(lines)
