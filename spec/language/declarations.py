"""What the class body of a pipeline declares: barriers, buffers and roles."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sm90_verify.spec.errors import Source, SpecError, here, place_of, place_of_class
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import CTA_THREADS
from sm90_verify.spec.ptx.memory import Space

Body: TypeAlias = Generator[op.Operation, Any, Any]


Parameter: TypeAlias = int | str | Callable[[Any], int]
"""A number, the name of a parameter of the pipeline, or a function of the pipeline."""


ENDLESS = ("all", "forever")
"""What a number of iterations can be instead of a number."""


class Placed:
    """What has a place in memory: every pipeline gets an Array of handles under its name, once all have a place."""

    def __get__(self, pipeline: object, kind: type | None = None) -> Any:
        if pipeline is None:
            return self
        raise SpecError("a size that asks for a barrier or a tile, which has no place yet: ask for parameters alone")


@dataclass(frozen=True)
class BarrierDeclaration(Placed):
    """What barrier() declares."""

    arrivals: Parameter = 1
    slots: Parameter = "stages"
    initialised: bool = True
    address: int | None = None
    where: Source | None = field(default_factory=here, compare=False, repr=False)


@dataclass(frozen=True)
class TileDeclaration(Placed):
    """What tile() declares."""

    bytes: Parameter = 1024
    slots: Parameter = "stages"
    shares: str | tuple[str, ...] = ()
    address: int | None = None
    offset: Parameter = 0
    stride: Parameter | None = None
    space: Space = "shared"
    holds: Hashable | Callable[[Any], Hashable] = None
    where: Source | None = field(default_factory=here, compare=False, repr=False)


@dataclass(frozen=True)
class WordDeclaration(Placed):
    """What word() declares."""

    initial: Parameter = 0
    values: Parameter = 2
    wraps: bool = False
    slots: Parameter = 1
    space: Space = "global"
    address: int | None = None
    where: Source | None = field(default_factory=here, compare=False, repr=False)


Declaration: TypeAlias = BarrierDeclaration | TileDeclaration | WordDeclaration
"""Of what has a place in memory."""


def word(
    initial: Parameter = 0,
    values: Parameter = 2,
    *,
    wraps: bool = False,
    slots: Parameter = 1,
    space: Space = "global",
    address: int | None = None,
) -> Any:
    """An array of words of 4 bytes, flags or counters on whose value roles depend.

    values: they can have 0 to values - 1, and `initial` at the start; a run in which one would have another is not
    decided. wraps: they count modulo `values`, as a counter that is only ever compared for equality may be taken to.
    space: "global" or "shared".
    """
    return WordDeclaration(initial, values, wraps, slots, space, address)


def barrier(
    arrivals: Parameter = 1, slots: Parameter = "stages", *, initialised: bool = True, address: int | None = None
) -> Any:
    """An array of mbarriers, one per stage unless `slots` says otherwise, initialised before the roles start.

    arrivals: the count of mbarrier.init (PTX ISA 9.7.13.15.9), 1 to 2^20-1 (0 violates barrier-init); a number, the
    name of a parameter, or a function of the pipeline, as every count of a declaration. initialised=False leaves the
    init to a role. address: of its first byte in shared memory, a multiple of 8, if it matters. What is out of range is
    a SpecError at the line of the declaration, when the pipeline is made or checked.
    """
    return BarrierDeclaration(arrivals, slots, initialised, address)


def tile(
    bytes: Parameter = 1024,
    slots: Parameter = "stages",
    *,
    shares: str | tuple[str, ...] = (),
    address: int | None = None,
    offset: Parameter = 0,
    stride: Parameter | None = None,
    space: Space = "shared",
    holds: Hashable | Callable[[Any], Hashable] = None,
) -> Any:
    """An array of buffers of `bytes` bytes each, one per stage unless `slots` says otherwise.

    shares: the name of another tile, or of a barrier while that is dead, whose bytes this one is meant to overlay,
    `offset` bytes from its start. address: of its first byte, if the layout matters. stride: bytes from slot to slot
    (`bytes` unless said). space: "shared", "global" or "registers". holds: the tag of what is there at the start. What
    has no place is a SpecError at the line of the declaration, when the pipeline is made or checked.
    """
    return TileDeclaration(bytes, slots, shares, address, offset, stride, space, holds)


Part: TypeAlias = int | Sequence[int]
"""Of a split role: so many threads, or their numbers in the role."""


@dataclass(frozen=True)
class RoleDeclaration:
    """A role's body and the threads that run it."""

    body: Callable[..., Body]
    threads: Parameter
    copies: Parameter
    split: tuple[Part, ...]
    ctas: tuple[int, ...] | None = None
    clusters: tuple[int, ...] | None = None
    grid: int = 0

    def parts(self, threads: int) -> tuple[tuple[int, ...], ...]:
        """The numbers of the threads of each part, for a role of so many threads."""
        found, next = [], 0
        for part in self.split or (threads,):
            found.append(tuple(range(next, next + part)) if isinstance(part, int) else tuple(part))
            next = max((*found[-1], next - 1)) + 1
        return tuple(found)

    def has(self, rank: int, cluster: int, grid: int) -> bool:
        """Whether a CTA has the role."""
        here = self.ctas is None or rank in self.ctas
        return here and (self.clusters is None or cluster in self.clusters) and grid == self.grid


def role(
    body: object = None,
    /,
    *,
    threads: Parameter | None = None,
    warps: int = 0,
    warpgroups: int = 0,
    copies: Parameter = 1,
    split: tuple[Part, ...] = (),
    ctas: tuple[int, ...] | None = None,
    clusters: tuple[int, ...] | None = None,
    grid: int = 0,
) -> Callable[[Callable[..., Body]], RoleDeclaration]:
    """Marks a generator method as a role of `threads` threads (or 32 * warps, or 128 * warpgroups).

    copies: as many instances of the role, each with its own threads. split: representatives of one role, by number of
    threads, where not all threads do the same: (1, 31) is a warp with an elected lane. Parts that are ranges have these
    threads of the role, and those that are in none do nothing: (range(0, 4), range(32, 64)). ctas: the CTAs of a
    cluster that have the role, all unless said; clusters: the clusters. grid: 1 for a role of the grid that depends on
    the one of all other roles (programmatic dependent launch). The body may take `at` (the state of this iteration) and
    `me` (a Threads). Raises SpecError for a body that never yields.
    """
    if body is not None:
        said = "warps=1" if callable(body) else f"warps={body!r}"
        raise SpecError(f"a role does not say how many threads run it: write @role({said})", here())
    for what, number in (("warps", warps), ("warpgroups", warpgroups)):
        if not isinstance(number, int):
            raise SpecError(f"@role({what}={number!r}): use a number", here())
    some = (
        (
            "split",
            [one for part in split for one in ((part,) if isinstance(part, int) else part)]
            if isinstance(split, tuple | list)
            else split,
        ),
        ("ctas", () if ctas is None else ctas),
        ("clusters", () if clusters is None else clusters),
    )
    for what, numbers in some:
        if not isinstance(numbers, tuple | list) or not all(isinstance(one, int) for one in numbers):
            raise SpecError(f"@role({what}={numbers!r}): use a tuple of numbers", here())
    if grid not in (0, 1):
        raise SpecError(f"@role(grid={grid!r}): use 0, or 1 for the dependent grid", here())
    if threads is not None and (warps or warpgroups):
        more = f"warps={warps}" if warps else f"warpgroups={warpgroups}"
        raise SpecError(f"@role(threads={threads!r}, {more}): say it once", here())
    count = threads if threads is not None else 32 * warps + 128 * warpgroups or 32

    def declare(body: Callable[..., Body]) -> RoleDeclaration:
        if not inspect.isgeneratorfunction(body):
            what = f"role {body.__name__} never yields: write `yield` in front of each operation"
            raise SpecError(what, place_of(body))
        return RoleDeclaration(body, count, copies, split, ctas, clusters, grid)

    return declare


def check_role(name: str, threads: int, copies: int, declaration: RoleDeclaration, launch: LaunchShape) -> None:
    """Refuses what a role's declaration cannot mean; 0 copies are a role that is left out."""
    if not 1 <= threads <= CTA_THREADS:
        raise SpecError(f"role {name} has {threads} threads: use 1 to {CTA_THREADS}")
    split, parts = tuple(declaration.split), declaration.parts(threads)
    if not all(parts):
        raise SpecError(f"role {name} is split into {split}: each part has 1 thread or more")
    named = [one for part in parts for one in part]
    if all(isinstance(part, int) for part in split) and len(named) != threads:
        raise SpecError(f"role {name} has {threads} threads and is split into {split}: the parts must add up")
    if len(set(named)) < len(named) or not all(0 <= one < threads for one in named):
        raise SpecError(
            f"role {name} is split into {split}: each of its threads, 0 to {threads - 1}, is in one part at most"
        )
    if copies < 0:
        raise SpecError(f"role {name} has {copies} copies: use 0 or more")
    shape = launch.cluster
    for cta in declaration.ctas or ():
        if not 0 <= cta < shape.size:
            has = f"a cluster of {shape.x}x{shape.y} has CTAs 0 to {shape.size - 1}"
            raise SpecError(f"role {name} is that of CTA {cta}, and {has}: set cluster, or name one of these")
    for cluster in declaration.clusters or ():
        if not 0 <= cluster < launch.clusters:
            has = f"there are {launch.clusters} clusters, 0 to {launch.clusters - 1}"
            raise SpecError(f"role {name} is that of cluster {cluster}, and {has}: set clusters, or name one of these")


def is_own(kernel: type) -> bool:
    """Whether a class, or one that it inherits from, is the user's: not of this package."""
    known = {__name__.partition(".")[0], *sys.stdlib_module_names}
    return any(base.__module__.partition(".")[0] not in known for base in kernel.__mro__)


def of_its_kind(kernel: type, name: str, value: Any, default: object, where: Source | None) -> Any:
    """A parameter's value; SpecError if it is of another kind than the default: "False" would count as true."""
    if isinstance(default, bool):
        if value in (0, 1):
            return bool(value)
        kind = "True or False"
    elif default in ENDLESS or any(
        str(inspect.get_annotations(base).get(name)) == "int | str" for base in kernel.__mro__
    ):
        if isinstance(value, int) or value in ENDLESS:
            return value
        kind = "a number, 'all' or 'forever'"
    else:
        if isinstance(value, type(default)):
            return value
        kind = "a word" if isinstance(default, str) else "a number"
    raise SpecError(f"{kernel.__name__}: parameter {name!r} is {kind}, not {value!r}", where)


GONE = {
    "observation": "an arrival in a phase after one that nobody has seen is noted, and a violation with strict=True"
}
"""Parameters that every pipeline had once, and what is so now."""


def check_gone(kernel: type, given: Iterable[str]) -> None:
    """Refuses a class or a keyword that sets a parameter of GONE."""
    for name, now in GONE.items():
        base = next((base for base in kernel.__mro__ if isinstance(vars(base).get(name), bool)), None)
        if base is not None or (name in given and not hasattr(kernel, name)):
            where = here() if base is None else _place_in_body(base, name)
            raise SpecError(f"{kernel.__name__}: there is no {name!r} any more: {now}; leave it out", where)


def without_gone(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a file names, without those that there were when it was written and that are gone."""
    return {name: value for name, value in parameters.items() if name not in GONE}


def check_parameters(kernel: type) -> None:
    """Refuses a value in the body of a class that is of another kind than in its base, as it would be as a keyword."""
    known: dict[str, object] = {}
    for base in reversed(kernel.__mro__):
        for name, value in vars(base).items():
            if name in known and not hasattr(value, "__get__"):
                try:
                    of_its_kind(kernel, name, value, known[name], None)
                except SpecError as error:
                    raise error.at(_place_in_body(base, name)) from None
            elif not name.startswith("_") and isinstance(value, int | str) and name != "default_period":
                known.setdefault(name, value)


def _place_in_body(kernel: type, name: str) -> Source | None:
    """The line of a class's body that gives a name a value, or else that of the class."""
    where = place_of_class(kernel)
    if where is not None:
        lines, first = inspect.getsourcelines(kernel)
        for line, text in enumerate(lines, first):
            if re.match(rf"\s+{re.escape(name)}\s*(:.*)?=", text):
                return Source(where.file, line)
    return where


def check_names(kernel: type, needed: Iterable[str]) -> None:
    """Refuses barriers, buffers and roles of a class called like what every pipeline needs: it would be there no more.
    One called like a verb is no worse than that: the verb is there no more.
    """
    for name in needed:
        value = next((vars(base)[name] for base in kernel.__mro__ if name in vars(base)), None)
        if isinstance(value, Declaration | RoleDeclaration):
            where = place_of(value.body) if isinstance(value, RoleDeclaration) else value.where
            raise SpecError(f"{name!r} is what every pipeline needs: give your own another name", where)
