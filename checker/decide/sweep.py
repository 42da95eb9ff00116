"""Every value of one launch parameter in a range: `verify ptx --sweep NAME=A..B`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sm90_verify.frontends.ptx.instruction import Function
from sm90_verify.frontends.ptx.launch import Launch
from sm90_verify.result import UNDETERMINED, VIOLATED, Finding, Result, worst
from sm90_verify.spec.errors import SpecError

MOST_VALUES = 10_000
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}


class Swept(NamedTuple):
    """name: as it was given. offset, size: bytes in the block of parameters. values: all that are tried. open: larger
    ones are asked about as well, so many apart.
    """

    name: str
    offset: int
    size: int
    values: range
    open: bool = False


def read_sweep(text: str, function: Function) -> Swept:
    """`NAME=A..B`, `NAME=A..B:STEP`, or without B: NAME is that of a parameter, or an offset with a type, `+8:u32`.

    Raises SpecError for what is none.
    """
    name, equals, values = text.partition("=")
    found = re.fullmatch(r"(-?\d+)\.\.(-?\d+)?(?::(\d+))?", values)
    if not equals or found is None:
        raise SpecError(f"--sweep {text}: use NAME=A..B, or NAME=A.. for all from A on, such as --sweep +8:u32=0..48")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or step < 1:
        raise SpecError(f"--sweep {text}: no value lies there: use A..B with A not above B")
    tried = range(first, last + 1, step)
    count = (last - first) // step + 1
    if count > MOST_VALUES:
        raise SpecError(f"--sweep {text}: {count} values: use {MOST_VALUES} at most")
    offset, size = _place(name, function)
    if not -(1 << 8 * size - 1) <= first or last >= 1 << 8 * size:
        raise SpecError(f"--sweep {text}: {name} has {size} bytes, which do not hold all of these values")
    if found[2] is None and first < 0:
        raise SpecError(f"--sweep {text}: begin with 0 or more, if all larger values are asked about")
    return Swept(name, offset, size, tried, found[2] is None)


def _place(name: str, function: Function) -> tuple[int, int]:
    at = re.fullmatch(r"\+(\d+):[us](8|16|32|64)", name)
    if at is not None:
        offset, size = int(at[1]), SIZES[at[2]]
        if offset + size > function.size:
            raise SpecError(f"--sweep {name}: the parameters have {function.size} bytes")
        return offset, size
    for one in function.parameters:
        if one.name == name and one.size in SIZES.values():
            return one.offset, one.size
    names = [one.name for one in function.parameters if one.size in SIZES.values()]
    listed = ", ".join(names[:6]) or "none of a single value"
    raise SpecError(f"--sweep {name}: no parameter of that name: use one of {listed}, or an offset, such as +8:u32")


def sweep(launch: Launch, swept: Swept, decide: Callable[[Launch], Result]) -> Result:
    """The result for all values."""

    def each() -> Iterator[tuple[int, Result]]:
        for value in swept.values:
            bits = value & ((1 << 8 * swept.size) - 1)
            yield value, decide(launch.with_value(swept.offset, swept.size, bits))

    return found_among(each(), swept)


def found_among(results: Iterable[tuple[int, Result]], swept: Swept) -> Result:
    """One result of those by value: on each property the worst, with its trace; all else is that of the first value
    which is violated, or else undetermined, or else the last. scope: the range of those looked at.
    """
    done: list[Result] = []
    tried: list[int] = []
    for value, result in results:
        tried.append(value)
        done.append(replace(result, parameters={**result.parameters, swept.name: value}))
        if result.verdict == VIOLATED:
            break
    bad = (one for verdict in (VIOLATED, UNDETERMINED) for one in done if one.verdict == verdict)
    lead = next(bad, done[-1])
    decided = sum(one.verdict != UNDETERMINED for one in done)
    values = f"{len(done)} values of {swept.name}"
    note = f"{values} decided" if decided == len(done) else f"of {values}, {decided} are decided"
    return replace(
        lead,
        findings=_worst(lead, done),
        scope={**lead.scope, "sweep": {swept.name: [tried[0], tried[-1]], "step": swept.values.step}},
        notes=(f"{note}, {tried[0]} to {tried[-1]}", *lead.notes),
        shown=(*lead.shown, swept.name),
        states=sum(one.states for one in done),
        events=sum(one.events for one in done),
        seconds=sum(one.seconds for one in done),
    )


def _worst(lead: Result, done: Sequence[Result]) -> tuple[Finding, ...]:
    """On each property that some result is about, the worst finding, that of the leading one if it is as bad: so what
    is violated is violated by the value that is named.
    """
    some = [{one.id: one for one in result.findings} for result in (lead, *done)]
    found = []
    for id in dict.fromkeys(id for each in some for id in each):
        mine = [each[id] for each in some if id in each]
        verdict = worst(one.verdict for one in mine)
        found.append(next(one for one in mine if one.verdict == verdict))
    return tuple(found)
