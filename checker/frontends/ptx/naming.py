"""Names for what a kernel has in shared memory: rings of barriers by what they are for, and the stages of buffers.

A barrier that copies signal is `full`. One that the issuers of these copies wait for is `empty`. Any other is `order`
if its waiters and those who arrive there take turns, on it or on another one, and `bar` otherwise. Barriers of one use
side by side are the slots of a ring.
Buffers are called a, b, … by the ring that tells when they are filled, and `out` if they are only copied out of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import (
    Arrived,
    BarrierAt,
    CopiedIn,
    CopiedOut,
    Expected,
    Initialised,
    StoredAsync,
    Triggered,
    Waited,
    What,
)
from sm90_verify.spec.ptx.limits import MBARRIER_BYTES

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Doing(NamedTuple):
    """Something that a role of a CTA did. role: without what names of its CTA begin with."""

    role: str
    rank: int
    what: What


@dataclass
class _Use:
    """count: of the initialisation. filled: copies signal it; issuers: who issues these."""

    count: int = 0
    filled: bool = False
    issuers: dict[str, None] = field(default_factory=dict)
    waiters: dict[str, None] = field(default_factory=dict)
    arrivers: dict[str, None] = field(default_factory=dict)

    def is_like(self, other: _Use) -> bool:
        """Both are of one use. Nobody has to arrive at one of them: it is missing in a kernel that hangs."""
        arrivers, others = sorted(self.arrivers), sorted(other.arrivers)
        return (
            (self.count, self.filled) == (other.count, other.filled)
            and sorted(self.waiters) == sorted(other.waiters)
            and sorted(self.issuers) == sorted(other.issuers)
            and (arrivers == others or not arrivers or not others)
        )


class BarrierRing(NamedTuple):
    """Barriers of one use. name: without the slot; addresses: of its slots, in order."""

    name: str
    addresses: tuple[int, ...]
    arrivals: int
    waiters: tuple[str, ...]
    arrivers: tuple[str, ...]

    def slot(self, address: int) -> str:
        """The name of one of its barriers."""
        return f"{self.name}[{self.addresses.index(address)}]" if len(self.addresses) > 1 else self.name


@dataclass(frozen=True)
class Names:
    """rings: of mbarriers, by address in every CTA. buffers: by (start, stop) of a buffer."""

    rings: tuple[BarrierRing, ...]
    buffers: Mapping[tuple[int, int], str]

    def barrier(self, address: int) -> str:
        """The name of the barrier at an address."""
        return next(ring.slot(address) for ring in self.rings if address in ring.addresses)


def names_of(done: Iterable[Doing], base: int) -> Names:
    """The names, from all that was done. base: the address that others count from."""
    once = dict.fromkeys(done)
    uses: dict[int, _Use] = {}
    for one in once:
        _note(uses, one)
    rings = _rings(uses)
    return Names(rings, _buffers(once, rings, base))


def _note(uses: dict[int, _Use], one: Doing) -> None:
    def use(at: BarrierAt) -> _Use:
        return uses.setdefault(at.address, _Use())

    match one.what:
        case Initialised(barrier, count):
            use(barrier).count = count
        case Waited(barrier):
            use(barrier).waiters[one.role] = None
        case Arrived(barrier) | Triggered(barrier) | Expected(barrier):
            use(barrier).arrivers[one.role] = None
        case StoredAsync():
            use(one.what.barrier).filled = True
        case CopiedIn():
            for barrier in one.what.barriers:
                use(barrier).filled = True
                use(barrier).issuers[one.role] = None
        case _:
            pass


def _rings(uses: Mapping[int, _Use]) -> tuple[BarrierRing, ...]:
    groups: list[list[int]] = []
    for address in sorted(uses):
        last = groups[-1] if groups else []
        if last and address == last[-1] + MBARRIER_BYTES and uses[address].is_like(uses[last[-1]]):
            last.append(address)
        else:
            groups.append([address])
    issuers = {role for use in uses.values() for role in use.issuers}
    numbers: dict[str, int] = {}
    found = []
    for addresses in groups:
        use = max((uses[one] for one in addresses), key=lambda one: len(one.arrivers))
        kind = _kind(use, issuers, uses.values())
        number = numbers[kind] = numbers.get(kind, 0) + 1
        name = kind if number == 1 else f"{kind}{number}"
        found.append(BarrierRing(name, tuple(addresses), use.count, tuple(use.waiters), tuple(use.arrivers)))
    return tuple(found)


def _kind(use: _Use, issuers: set[str], others: Iterable[_Use]) -> str:
    if use.filled:
        return "full"
    if use.waiters and set(use.waiters) <= issuers:
        return "empty"
    swapped = any(set(one.waiters) == set(use.arrivers) and set(one.arrivers) == set(use.waiters) for one in others)
    return "order" if use.waiters and swapped else "bar"


def _buffers(done: Iterable[Doing], rings: Sequence[BarrierRing], base: int) -> dict[tuple[int, int], str]:
    """By what fills them: for each ring and slot, in the order of their addresses."""
    filled: dict[int, dict[int, dict[tuple[int, int], None]]] = {}
    emptied: dict[tuple[int, int], None] = {}
    for one in done:
        if isinstance(one.what, CopiedIn) and one.what.ranges:
            address = one.what.barriers[0].address
            number = next(number for number, ring in enumerate(rings) if address in ring.addresses)
            of_slot = filled.setdefault(number, {}).setdefault(rings[number].addresses.index(address), {})
            of_slot[one.what.ranges[0][0], one.what.ranges[-1][1]] = None
        elif isinstance(one.what, CopiedOut) and one.what.ranges:
            emptied[one.what.ranges[0][0], one.what.ranges[-1][1]] = None
    found: dict[tuple[int, int], str] = {}
    letter = 0
    for number, slots in sorted(filled.items()):
        several = len(rings[number].addresses) > 1
        for slot, some in slots.items():
            for place, where in enumerate(sorted(some)):
                name = LETTERS[letter + place] if letter + place < len(LETTERS) else f"t{letter + place}"
                found.setdefault(where, f"{name}[{slot}]" if several else name)
        letter += max(map(len, slots.values()))
    rest = [one for one in sorted(emptied) if one not in found]
    for place, where in enumerate(rest):
        found[where] = f"out[{place}]" if len(rest) > 1 else "out"
    return found
