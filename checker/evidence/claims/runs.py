"""How evidence is made: a model searched, a machine with a statement of its own searched, or a box enumerated."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from sm90_verify.counterexample.trace import make_trace
from sm90_verify.engines.check import check_machine
from sm90_verify.engines.effort import memory_bound
from sm90_verify.engines.search.engine import ENOUGH
from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.claims.claim import Point
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Definition, Finding, Result, Trace
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Check, Machine, Role
from sm90_verify.spec.ptx.expr import Expr, Field, any_of

TIMEOUT_MS = 20_000
"""For Z3, to settle one statement."""
COMMAND = "claims"
STATEMENT = "statement"
"""The property of a check that is a claim's own statement, not a fault of a pipeline."""


def model(kernel: type[Pipeline], *properties: str, **parameters: Any) -> Callable[[], Result]:
    """A search of a pipeline, for these properties (default: all that apply). What is only noted of pipelines that are
    not strict violates a claim: its Machine is asked, which knows no notes.
    """

    def run() -> Result:
        compiled = compile_kernel(walk.trace(kernel(**parameters)))
        result = check_machine(compiled, command=COMMAND, properties=properties, engine="search")
        definition = Definition(inspect.getfile(kernel), kernel.__name__)
        return replace(result, definition=definition, shown=tuple(parameters))

    return run


def machine(make: Callable[..., Machine], *properties: str, **parameters: Any) -> Callable[[], Result]:
    """A search of the machine that `make` gives, every schedule of it, for these properties (default: all)."""
    asked: dict[str, Any] = {"properties": properties, "engine": "search", "reduced": False}
    return lambda: check_machine(make(**parameters), command=COMMAND, **asked)


def stated(
    kernel: type[Pipeline], state: Callable[[Machine], tuple[Expr, str]], **parameters: Any
) -> Callable[[], Result]:
    """A search of a pipeline for states in which the claim's own statement is wrong: `state` gives when, and why."""

    def run() -> Result:
        start = time.perf_counter()
        compiled = compile_kernel(walk.trace(kernel(**parameters)))
        when, because = state(compiled)
        check = Check(STATEMENT, when, because, "")
        watched = replace(compiled, checks=(*compiled.checks, check))
        exploration = explore(watched, memory=memory_bound(), enough=ENOUGH)
        violation = exploration.violations.get(STATEMENT)
        why = is_undetermined(exploration)
        finding = Finding(STATEMENT, UNDETERMINED if why else PROVED, note=why)
        if violation is not None:
            trace = make_trace(watched, STATEMENT, violation.because, violation.actions)
            finding = Finding(STATEMENT, VIOLATED, trace)
        trips = compiled.parameters.get("trips")
        return Result(
            COMMAND,
            compiled.name,
            compiled.parameters,
            "search",
            (finding,),
            {"trips": trips},
            exploration.states,
            exploration.transitions,
            time.perf_counter() - start,
            shortest=True,
        )

    return run


def enumerated(
    name: str, parameters: dict[str, Any], cases: Callable[[], Iterable[tuple[bool, str]]]
) -> Callable[[], Result]:
    """Every case of a finite box computed: (whether the statement is right there, what is so if not)."""

    def run() -> Result:
        start = time.perf_counter()
        count, wrong = 0, ""
        for right, because in cases():
            count += 1
            wrong = wrong or ("" if right else because)
        if not count:
            raise ValueError(f"{name}: an enumeration of nothing")
        trace = Trace(STATEMENT, wrong, ()) if wrong else None
        finding = Finding(STATEMENT, VIOLATED if wrong else PROVED, trace)
        seconds = time.perf_counter() - start
        return Result(COMMAND, name, parameters, "enumeration", (finding,), {}, count, 0, seconds)

    return run


# ---------------------------------------------------------------- places in programs


def at(machine: Machine, role: str, where: Callable[[int], bool]) -> Expr:
    """The role is at one of the locations for which `where` says so."""
    found = next(one for one in machine.roles if one.name == role)
    width = next(variable.width for variable in machine.variables if variable.name == found.counter)
    return any_of(Field(found.counter, width) == place for place in range(len(found.locations)) if where(place))


def arrived(machine: Machine, role: str, barrier: str) -> tuple[int, ...]:
    """By location, how often the role has arrived on the barrier (exact if its loops have a trip count)."""
    for progress in machine.structure.progress:
        if (progress.role, progress.kind, progress.object) == (role, "arrived", barrier):
            return tuple(-1 if number is None else number for number in progress.by_location)
    found = next(one for one in machine.roles if one.name == role)
    return (0,) * len(found.locations)


def behind(machine: Machine, role: str, barrier: str, needed: int) -> Expr:
    """The role has arrived on the barrier less than `needed` times."""
    counts = arrived(machine, role, barrier)
    return at(machine, role, lambda place: counts[place] < needed)


def ended(machine: Machine, role: Role) -> Expr:
    """The role is at its end."""
    return at(machine, role.name, lambda place: role.locations[place].final)


# ---------------------------------------------------------------- boxes


def box(**ranges: Iterable[Any]) -> tuple[dict[str, Any], ...]:
    """Every combination of the values of each parameter, the last one varying fastest."""
    names = tuple(ranges)
    return tuple(dict(zip(names, values, strict=True)) for values in product(*ranges.values()))


def over(
    kernel: type[Pipeline],
    points: Iterable[dict[str, Any]],
    predicts: str | Callable[[dict[str, Any]], str] = PROVED,
    *properties: str,
    beyond: bool = False,
) -> list[Point]:
    """A search of the pipeline at each point of a box."""
    return [
        Point(at, model(kernel, *properties, **at), predicts if isinstance(predicts, str) else predicts(at), beyond)
        for at in points
    ]


def unless(wrong: bool) -> str:
    """The verdict that a claim predicts where it says that something is wrong, or that nothing is."""
    return VIOLATED if wrong else PROVED
