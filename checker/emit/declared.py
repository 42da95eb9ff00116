"""The barriers and buffers of a kernel as declarations of a class, and how a role names one of them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.layout import REGISTERS
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.layout import Region
from sm90_verify.spec.ptx.memory import Space
from sm90_verify.spec.ptx.operations import Arrive, Inval


@dataclass(frozen=True)
class DeclaredRing:
    """One declaration: slots of so many bytes from an address on, `stride` bytes from one to the next."""

    name: str
    is_barrier: bool
    slots: int
    start: int
    bytes: int
    stride: int
    shares: tuple[str, ...] = ()
    arrivals: int | None = None
    space: Space = "shared"

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The bytes of its slots."""
        starts = (self.start + slot * self.stride for slot in range(self.slots))
        return [(start, start + self.bytes) for start in starts]

    def declaration(self) -> str:
        """Its line in the body of the class."""
        slots = f"slots={self.slots}, "
        if self.is_barrier:
            made = "initialised=False, " if self.arrivals is None else f"arrivals={self.arrivals}, "
            return f"{self.name} = barrier({slots}{made}address={self.start:#x})"
        apart = f"stride={self.stride}, " if self.slots > 1 and self.stride != self.bytes else ""
        shares = f", shares={self.shares!r}" if self.shares else ""
        if self.space == "registers":
            return f'{self.name} = tile(bytes={self.bytes}, {slots}{apart}address={self.start:#x}, space="registers")'
        return f"{self.name} = tile(bytes={self.bytes}, {slots}{apart}address={self.start:#x}{shares})"


@dataclass(frozen=True)
class Slot:
    """An object of the kernel: one slot of a ring, in the CTA of that rank. start: of its bytes, as the ring has it."""

    ring: DeclaredRing
    slot: int
    rank: int
    start: int


@dataclass(frozen=True)
class Declared:
    """rings: in the order of the class; slots: by the name of an object in the kernel; far: the rings to whose barriers
    in other CTAs somebody arrives; anew: the barriers that are initialised again.
    """

    rings: tuple[DeclaredRing, ...]
    slots: Mapping[str, Slot]
    far: frozenset[str]
    anew: frozenset[str]


def declared(kernel: Kernel) -> Declared:
    """What the class declares. Raises SpecError for what is neither shared memory of a CTA nor registers."""
    layout = kernel.layout
    found: dict[str, dict[int, list[Region]]] = {}
    for region in layout.regions:
        if region.space == "global" or region.object in layout.words:
            raise SpecError(f"{region.object} is global memory or a word: that no front end makes")
        owned = region.space == "registers"
        name = region.object.removeprefix(f"{region.owner}." if owned else kernel.launch.home(region.cta))
        array, slot = _array(name)
        found.setdefault(array, {}).setdefault(slot, []).append(region)
    rings: list[DeclaredRing] = []
    slots: dict[str, Slot] = {}
    barriers = set(layout.barriers)
    ordered = sorted(found.items(), key=lambda one: next(iter(one[1].values()))[0].declaration not in barriers)
    names: set[str] = set()
    for array, by_slot in ordered:
        for ring, members in _rings(array, by_slot, barriers, layout.arrivals, names):
            rings.append(ring)
            for slot, region in members:
                place = ring.start + slot * ring.stride
                slots[region.object] = Slot(ring, slot, region.cta, place + region.start // REGISTERS * REGISTERS)
    operations = [node.operation for program in kernel.programs for node in program.nodes]
    far = {slots[one.barrier].ring.name for one in operations if isinstance(one, Arrive) and one.cta >= 0}
    anew = {one.barrier for one in operations if isinstance(one, Inval)}
    return Declared(tuple(_sharing(rings)), slots, frozenset(far), frozenset(anew))


def _array(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*)\[(\d+)\]", name)
    return (match[1], int(match[2])) if match else (name, 0)


Member = tuple[int, Region]


def _rings(
    array: str,
    by_slot: dict[int, list[Region]],
    barriers: set[str],
    arrivals: Mapping[str, int],
    names: set[str],
) -> Iterator[tuple[DeclaredRing, list[Member]]]:
    """The slots as one ring where they lie at even distances, else each by itself."""
    places = [
        (slot, min(map(_first, some)), max(_first(r) + r.stop - r.start for r in some), some)
        for slot, some in sorted(by_slot.items())
    ]
    counts = {arrivals.get(region.object) for _, _, _, some in places for region in some}
    size = max(stop - start for _, start, stop, _ in places)
    strides = {second[1] - first[1] for first, second in pairwise(places)}
    is_barrier, space = places[0][3][0].declaration in barriers, places[0][3][0].space
    even = [slot for slot, _, _, _ in places] == list(range(len(places))) and len(strides) < 2 and len(counts) == 1
    whole = all(stop - start == size for _, start, stop, _ in places) and min(strides, default=size) >= size
    if even and whole and (not is_barrier or strides <= {size}):
        stride = strides.pop() if strides else size
        ring = DeclaredRing(
            _name(array, names), is_barrier, len(places), places[0][1], size, stride, (), counts.pop(), space
        )
        yield ring, [(slot, region) for slot, _, _, some in places for region in some]
        return
    for slot, start, stop, some in places:
        count = next((arrivals[region.object] for region in some if region.object in arrivals), None)
        alone = DeclaredRing(
            _name(f"{array}_{slot}", names), is_barrier, 1, start, stop - start, stop - start, (), count, space
        )
        yield alone, [(0, region) for region in some]


def _first(region: Region) -> int:
    """Its first byte; of registers, among those of its program."""
    return region.start % REGISTERS


def _name(array: str, names: set[str]) -> str:
    name = re.sub(r"\W", "_", array)
    while keyword.iskeyword(name) or hasattr(Pipeline, name) or name in names or not name.isidentifier():
        name = f"{name}_" if name.isidentifier() else f"_{name}"
    names.add(name)
    return name


def _sharing(rings: Iterable[DeclaredRing]) -> Iterator[DeclaredRing]:
    """Each with the earlier ones whose bytes it has, in some CTA or as the kernel has it."""
    found = list(rings)
    shares: dict[str, list[str]] = {one.name: [] for one in found}
    for one, other in combinations(found, 2):
        if one.space == other.space and any(a < d and c < b for a, b in one.ranges for c, d in other.ranges):
            shares[other.name].append(one.name)
    for one in found:
        yield DeclaredRing(**{**vars(one), "shares": tuple(shares[one.name])}) if shares[one.name] else one
