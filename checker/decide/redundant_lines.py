"""What a pipeline synchronises more than it has to: lines of its roles without which the proof still holds.

As decide.redundant does it for the straight programs of a launch, here for classes whose loops may be of any number of
iterations: a line is left out of the role, which is then traced and decided like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from sm90_verify.decide.redundant import left_out
from sm90_verify.engines.check import check
from sm90_verify.engines.effort import Effort, RanOut, Told, memory_bound
from sm90_verify.made_of import LeftOut
from sm90_verify.mutation.stream import Edit, Place, Sites, edited
from sm90_verify.result import PROVED, Result
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.pipeline import Pipeline, one_iteration_each
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Node
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.limits import MMA_GROUPS


@dataclass(frozen=True)
class _Line:
    """What is left out together: the same line of a role; of a barrier of threads, all that meet there. places: with
    their roles.
    """

    first: Place
    what: str
    places: tuple[tuple[str, Place], ...]

    def said(self, together: bool) -> LeftOut:
        around = one_iteration_each.__code__.co_filename
        file, line = next((one for one in self.first if one[0] != around), self.first[0])
        return LeftOut(self.what, file, line, together)


def with_redundant(
    result: Result,
    kernel: type[Pipeline],
    parameters: Mapping[str, Any],
    *,
    timeout: float = 0.0,
    memory: int = 0,
    progress: Told | None = None,
    **asked: Any,
) -> Result:
    """The result of a pipeline that is proved, with what can be left out of it; or a note, if there is no time to try
    all lines. timeout: of all of them together; the others are arguments of `check`.
    """
    effort = Effort(timeout, memory or memory_bound(), progress)

    def holds(pipeline: Pipeline) -> bool:
        left = max(1e-3, timeout - (time.perf_counter() - effort.since)) if timeout else 0.0
        return check(pipeline, timeout=left, memory=memory, **asked).verdict == PROVED

    def tick(done: int, of: int) -> None:
        effort.tick(f"leaving out one of {of}", "lines", done, None)

    try:
        return replace(result, redundant=redundant_lines(kernel, parameters, holds, tick))
    except RanOut as error:
        return replace(result, notes=(*result.notes, f"what is redundant was not looked for to the end: {error}"))


def redundant_lines(
    kernel: type[Pipeline],
    parameters: Mapping[str, Any],
    holds: Callable[[Pipeline], bool],
    tick: Callable[[int, int], None],
) -> tuple[LeftOut, ...]:
    """What can be left out of a pipeline that is proved: each line by itself, and `together` those of one choice.

    holds: whether a pipeline is proved; tick: is told how many lines are done of how many.
    """
    lines = _lines(kernel, parameters)
    alone = []
    for number, one in enumerate(lines):
        tick(number, len(lines))
        if _holds_without(kernel, parameters, (one,), holds):
            alone.append(one)
    together: list[_Line] = []
    for number, one in enumerate(alone):
        tick(number, len(alone))
        if _holds_without(kernel, parameters, (*together, one), holds):
            together.append(one)
    return tuple(one.said(one in together) for one in alone)


def _lines(kernel: type[Pipeline], parameters: Mapping[str, Any]) -> list[_Line]:
    sites = Sites()
    trace(edited(kernel, None, sites)(**parameters))
    found: dict[Hashable, _Line] = {}
    for (role, place), by_instance in sites.operations.items():
        operation = next(iter(by_instance.values()))[0]
        key = _key(operation, place)
        if key is None:
            continue
        known = found.get(key)
        if known is None:
            said = left_out(Node(operation, Source("", 0), IDLE))
            found[key] = _Line(place, said, ((role, place),))
        else:
            found[key] = replace(known, places=(*known.places, (role, place)))
    return list(found.values())


def _key(operation: op.Operation, place: Place) -> Hashable | None:
    """What is left out together with an operation; None for what is not tried."""
    effects = effects_of(operation)
    if effects.waits is not None:
        return place if effects.waits.kind == "wait" else None
    if effects.meets is not None:
        match effects.meets:
            case op.NamedSync(id):
                return "bar", id
            case op.CtaSync():
                return "bar", 0
            case op.ClusterArrive() | op.ClusterWait():
                return "cluster"
            case op.WarpSync(orders=orders):
                return place if orders else None
            case _:
                assert_never(effects.meets)
    if effects.ends is not None:
        return place if effects.ends.pending < MMA_GROUPS - 1 else None
    return place if effects.shows and not effects.begins else None


def _holds_without(
    kernel: type[Pipeline], parameters: Mapping[str, Any], lines: Sequence[_Line], holds: Callable[[Pipeline], bool]
) -> bool:
    places: dict[str, set[Place]] = {}
    for line in lines:
        for role, place in line.places:
            places.setdefault(role, set()).add(place)
    edits = tuple(Edit(role, frozenset(some), _less) for role, some in places.items())
    try:
        return holds(edited(kernel, edits)(**parameters))
    except SpecError:
        return False


def _less(operation: op.Operation) -> tuple[op.Operation, ...]:
    """Nothing, or a wait for groups that leaves one more pending."""
    return (replace(operation, pending=operation.pending + 1),) if isinstance(operation, op.Group) else ()
