"""Places what a pipeline's class declares, and puts handles into its roles' hands: from declarations to a Layout."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from functools import cache
from typing import Any, NamedTuple, assert_never, get_args

from sm90_verify.spec.errors import SpecError, placed
from sm90_verify.spec.language.declarations import BarrierDeclaration, Declaration, TileDeclaration, WordDeclaration
from sm90_verify.spec.language.handles import Array, Barrier, Owner, Tile
from sm90_verify.spec.language.instances import instances
from sm90_verify.spec.language.word import Word
from sm90_verify.spec.model.layout import Layout, Region, WordValues, barriers_over
from sm90_verify.spec.ptx.limits import COUNT_LIMIT, MBARRIER_BYTES, SHARED_OF_CTA, WORD_BYTES, WORD_VALUES
from sm90_verify.spec.ptx.memory import Access, Space

ALIGNMENT = 128
"""Of what is declared without an address."""


REGISTERS = 1 << 32
"""Bytes from the registers of one program to those of the next: more than any has."""


class Home(NamedTuple):
    """Who has an instance of a declaration: a CTA, or with `owner` a program. prefix: what its name begins with."""

    prefix: str
    cta: int
    owner: str = ""


class Component:
    """A part of a pipeline that brings its own barriers or buffers, declared as a class attribute of the pipeline.

    `arrays` gives its declarations by name; they become `<attribute>.<name>` of the owner and attributes of the
    component.
    """

    def arrays(self, owner: Owner) -> Mapping[str, Declaration]:
        raise SpecError(f"{type(self).__name__} must say which barriers and buffers it has")

    def bind(self, owner: Owner, prefix: str, arrays: dict[str, Array]) -> Component:
        """The component with its owner and its arrays in place; a copy, so that a class attribute serves many
        owners.
        """
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__, owner=owner, prefix=prefix, **arrays)
        return bound


def lay_out(pipeline: Owner) -> Layout:
    """Places every declaration of the pipeline's class, binds its arrays and components, and gives their byte
    ranges.
    """
    declared = _declarations(pipeline)
    _check(pipeline, declared)
    regions: list[Region] = []
    arrivals: dict[str, int] = {}
    starts: dict[str, int] = {}
    counts: dict[str, int] = {}
    holds: dict[str, Hashable] = {}
    words: dict[str, WordValues] = {}
    free = dict.fromkeys(get_args(Space), 0)
    highest = [d.address + _extent(pipeline, d) for d in declared.values() if d.address is not None]
    free["shared"] = _align(max(highest, default=0))
    for name, declaration in declared.items():
        slots = counts[name] = _slots(pipeline, name, declaration)
        size = _bytes(pipeline, name, declaration)
        space = "shared" if isinstance(declaration, BarrierDeclaration) else declaration.space
        stride = size
        shared: frozenset[str] = frozenset()
        start = declaration.address
        if isinstance(declaration, TileDeclaration):
            stride = size if declaration.stride is None else pipeline.value(declaration.stride)
            shares = (declaration.shares,) if isinstance(declaration.shares, str) else declaration.shares
            shared = frozenset(shares)
            if start is None and shares:
                start = starts[shares[0]] + pipeline.value(declaration.offset)
        if start is None:
            start = _align(free[space])
            free[space] = start + max(stride, size) * slots
        starts[name] = start
        homes = _homes(pipeline, space)
        for slot, (prefix, cta, owner) in ((slot, home) for slot in range(slots) for home in homes):
            label = prefix + (f"{name}[{slot}]" if slots > 1 else name)
            at = start + stride * slot
            if owner:
                at += REGISTERS * homes.index((prefix, cta, owner))
            regions.append(Region(label, space, at, at + size, shared, name, cta, owner))
            if isinstance(declaration, TileDeclaration) and declaration.holds is not None:
                holds[label] = declaration.holds(pipeline) if callable(declaration.holds) else declaration.holds
            if isinstance(declaration, WordDeclaration):
                words[label] = _word(pipeline, name, declaration)
        if isinstance(declaration, BarrierDeclaration):
            count = pipeline.value(declaration.arrivals)
            if declaration.initialised:
                arrivals.update((region.object, count) for region in regions if region.declaration == name)
    barriers = tuple(name for name, declaration in declared.items() if isinstance(declaration, BarrierDeclaration))
    under = barriers_over(regions, barriers)
    _bind(pipeline, declared, regions, {region.object for found in under.values() for region in found})
    places = {name: declaration.where for name, declaration in declared.items()}
    return Layout(tuple(regions), arrivals, barriers, counts, holds, places, under, words)


def _check(pipeline: Owner, declared: dict[str, Declaration]) -> None:
    """Refuses declarations whose numbers cannot be meant, each at its own line."""
    before: list[str] = []
    for name, declaration in declared.items():
        with placed(declaration.where):
            _slots(pipeline, name, declaration)
            if not isinstance(declaration.address, int | None):
                raise SpecError(f"{name} lies at address {declaration.address!r}: use a number of bytes")
            if isinstance(declaration, BarrierDeclaration):
                count = pipeline.value(declaration.arrivals)
                if not 0 <= count <= COUNT_LIMIT:
                    raise SpecError(f"{name} expects {count} arrivals: use 1 to {COUNT_LIMIT}")
            else:
                _bytes(pipeline, name, declaration)
                if isinstance(declaration, WordDeclaration):
                    _word(pipeline, name, declaration)
                if declaration.space not in get_args(Space):
                    spaces = ", ".join(map(repr, get_args(Space)))
                    raise SpecError(f"{name} lies in {declaration.space!r}: use {spaces}")
                if isinstance(declaration, WordDeclaration):
                    continue
                if not isinstance(declaration.shares, str | tuple | list):
                    raise SpecError(
                        f"{name} shares bytes with {declaration.shares!r}: name a tile that is declared before it"
                    )
                for other in (declaration.shares,) if isinstance(declaration.shares, str) else declaration.shares:
                    if other not in before:
                        raise SpecError(f"{name} shares bytes with {other!r}, which is not declared before it")
        before.append(name)


def _declarations(pipeline: Owner) -> dict[str, Declaration]:
    found: dict[str, Declaration] = {}
    for base in reversed(type(pipeline).__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Declaration):
                found[name] = value
            elif isinstance(value, Component):
                for part, declaration in value.arrays(pipeline).items():
                    found[f"{name}.{part}"] = declaration
    return found


def _bind(
    pipeline: Owner,
    declared: dict[str, Declaration],
    regions: list[Region],
    crowded: Container[str],
) -> None:
    """crowded: barriers in whose bytes a buffer lies."""
    parts: dict[str, dict[str, Array]] = {}
    for name, declaration in declared.items():
        mine = [region for region in regions if region.declaration == name]
        array = _array(pipeline, name, declaration, mine, crowded)
        component, _, part = name.rpartition(".")
        if component:
            parts.setdefault(component, {})[part] = array
        else:
            object.__setattr__(pipeline, name, array)
    for base in reversed(type(pipeline).__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Component):
                object.__setattr__(pipeline, name, value.bind(pipeline, name, parts.get(name, {})))


def _array(
    pipeline: Owner,
    name: str,
    declaration: Declaration,
    regions: list[Region],
    crowded: Container[str],
) -> Array:
    slots, homes = _slots(pipeline, name, declaration), _homes(pipeline, regions[0].space) if regions else ()
    copies = len(homes)
    owners = {owner: number for number, (_, _, owner) in enumerate(homes)}

    def place(index: int, cta: int) -> Region:
        if copies and homes[0].owner:
            if cta != pipeline._cta:
                far = pipeline._launch.called(cta)
                raise SpecError(f"{name} of CTA {far}: registers belong to the threads that use them, and to no other")
            return regions[index * copies + owners.get(pipeline._program, 0)]
        return regions[index * copies + (cta if copies > 1 else 0)]

    def peer(rank: int) -> int:
        if not 0 <= rank < pipeline._shape.size:
            raise SpecError(f"CTA {rank} of a cluster of {pipeline._shape.size}: use 0 to {pipeline._shape.size - 1}")
        return pipeline._launch.peer(pipeline._cta, rank)

    if isinstance(declaration, BarrierDeclaration):

        @cache
        def barrier_on(index: int, cta: int) -> Barrier:
            region = place(index, cta)
            write = region.access(write=True) if region.object in crowded else None
            return Barrier(pipeline, region.object, region.cta, lambda rank: barrier_on(index, peer(rank)), write)

        return Array(name, slots, lambda index, tag: barrier_on(index, pipeline._cta), Barrier)

    if isinstance(declaration, WordDeclaration):
        values = pipeline.value(declaration.values)

        def word_on(index: int, tag: Hashable) -> Word:
            return Word(pipeline, place(index, pipeline._cta).access(), values)

        return Array(name, slots, word_on, Word)

    @cache
    def bytes_on(index: int, cta: int, program: str) -> Access:
        return place(index, cta).access()

    def tile_on(index: int, cta: int, tag: Any) -> Tile:
        mine = bytes_on(index, cta, pipeline._program)
        return Tile(pipeline, mine, tag, lambda rank: tile_on(index, peer(rank), tag))

    get = lambda index, tag: tile_on(index, pipeline._cta, tag)
    return Array(name, slots, get, Tile, _bytes(pipeline, name, declaration))


def _homes(pipeline: Owner, space: Space) -> tuple[Home, ...]:
    """Who has an instance of its own of what lies in a space."""
    match space:
        case "global":
            return (Home("", 0),)
        case "shared":
            return tuple(Home(pipeline._launch.home(cta), cta) for cta in range(pipeline._launch.ctas))
        case "registers":
            return tuple(Home(f"{one.me.name}.", one.me.number, one.me.name) for one in instances(pipeline))
        case _:
            assert_never(space)


def _slots(pipeline: Owner, name: str, declaration: Declaration) -> int:
    slots = pipeline.value(declaration.slots)
    if slots < 0:
        raise SpecError(f"{name} has {slots} slots: use 0 or more")
    size = 1 if isinstance(declaration, TileDeclaration) else _bytes(pipeline, name, declaration)
    if slots > SHARED_OF_CTA // size and getattr(declaration, "space", "shared") == "shared":
        raise SpecError(f"{name} has {slots} slots: a CTA's {SHARED_OF_CTA} bytes have room for fewer")
    return slots


def _word(pipeline: Owner, name: str, declaration: WordDeclaration) -> WordValues:
    values, initial = pipeline.value(declaration.values), pipeline.value(declaration.initial)
    if not 2 <= values <= WORD_VALUES:
        raise SpecError(f"{name} has {values} values: use 2 to {WORD_VALUES}")
    if not 0 <= initial < values:
        raise SpecError(f"{name} begins with {initial}: use 0 to {values - 1}, or give it more values")
    return WordValues(initial, values, declaration.wraps)


def _bytes(pipeline: Owner, name: str, declaration: Declaration) -> int:
    if not isinstance(declaration, TileDeclaration):
        return MBARRIER_BYTES if isinstance(declaration, BarrierDeclaration) else WORD_BYTES
    size = pipeline.value(declaration.bytes)
    if size < 1:
        raise SpecError(f"{name} has {size} bytes: use 1 or more")
    return size


def _extent(pipeline: Owner, declaration: Declaration) -> int:
    size = _bytes(pipeline, "", declaration)
    stride = size
    if isinstance(declaration, TileDeclaration) and declaration.stride is not None:
        stride = pipeline.value(declaration.stride)
    return stride * max(0, pipeline.value(declaration.slots) - 1) + size


def _align(address: int) -> int:
    return (address + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
