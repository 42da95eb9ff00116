"""Random operands for the forms of forms.py, the same for the same seed: what a GPU executes to show footprints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from sm90_verify.evidence.hardware.footprints import forms
from sm90_verify.frontends.ptx.tensor_map import ELEMENTS, TensorMap

WINDOW = 1 << 16
"""Bytes of shared memory that are watched, as in kernels/footprints.cu."""
REGION = 1 << 15
"""Bytes of global memory that a case may write."""
ALL_LANES = (1 << 32) - 1
ALTERED = ("f32.ftz", "tf32", "tf32.ftz")
"""Elements that a store may change, so that it does not tell where a byte is from."""
KINDS = ("whole", "narrow", "narrow", "whole", "narrow", "steps", "steps", "interleaved")
"""Of tensor maps: whole boxes are as wide as the swizzling and no wider than the tensor."""
BOXES, TENSORS = 1 << 14, 1 << 13
"""Bytes of shared memory that a box takes at most, and of global memory that a tensor does."""
COMPLETIONS = {"mbarrier::complete_tx": 1, ".bulk_group": 2, "cp.async.c": 3}
"""By a part of the form, how its end is waited for: enum Completion of the kernel."""


@dataclass(frozen=True)
class Trial:
    """One execution of a form. Addresses are relative: offset and target to the windows of the executing CTA and of
    the other one, apart to these by lane, and that of the map to the global memory that the case uses.

    lanes: a mask of those that execute it. there: bytes from the start of that memory to what is copied.
    """

    form: str
    offset: int = 0
    target: int = 0
    apart: tuple[int, ...] = (0,) * 32
    lanes: int = 1
    coordinates: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    there: int = 0
    map: TensorMap | None = None

    @property
    def completion(self) -> int:
        return next((code for part, code in COMPLETIONS.items() if part in self.form), 0)

    @property
    def stores(self) -> bool:
        """Whether it writes global memory."""
        return "global.shared::cta" in self.form

    @property
    def copied(self) -> bool:
        """Whether it leaves what it read in registers."""
        return self.form.startswith(("ld.", "ldmatrix"))


def of_threads(random: Random, each: int) -> Iterator[Trial]:
    """Forms of ordinary threads and cp.async: lanes at random places, each of its own."""
    for form in forms.ordinary():
        size = _size(form)
        for _ in range(each):
            slots = random.sample(range(2048 // size), 32)
            lanes = ALL_LANES if "matrix" in form else random.getrandbits(32) | 1 << random.randrange(32)
            value = random.choice((0, 1, size)) if "src" in form else 0x01020304
            yield Trial(form, 1024 * random.randrange(60), 0, tuple(slot * size for slot in slots), lanes, (), (value,))


def between_ctas(random: Random, each: int) -> Iterator[Trial]:
    """Forms that reach the shared memory of another CTA."""
    for form in forms.asynchronous():
        for _ in range(each):
            offset, target = (1024 * random.randrange(32) + 128 * random.randrange(8) for _ in range(2))
            if "tensor" in form:
                map = TensorMap(0, "f16", (256, 16), (512,), (64, 8), (1, 1), swizzle=128)
                yield Trial(form, offset, 0, coordinates=(0, 12), values=(0, random.choice((1, 2, 3))), map=map)
            elif "bulk" in form:
                value = 16 * random.randrange(1, 500)
                yield Trial(form, offset, target, values=(value, random.choice((1, 2, 3))))
            else:
                size = _size(form)
                apart = tuple(slot * size for slot in random.sample(range(2048 // size), 32))
                yield Trial(form, 0, target, apart, random.getrandbits(32) | 1, (), (0x01020304,))


def bulk(random: Random, each: int) -> Iterator[Trial]:
    """Copies between shared and global memory that have no map."""
    for form in forms.bulk():
        if "tensor" not in form:
            for _ in range(each):
                size = 16 * random.choice((1, 2, random.randrange(1, 64), random.randrange(1, 2048)))
                yield Trial(form, 16 * random.randrange(2000), values=(size,))


def tiled(random: Random, each: int) -> Iterator[Trial]:
    """Tiled tensor copies of every rank, in bounds and not, of every element, box, stride and swizzling.

    A GPU faults at a store with a negative coordinate.
    """
    for form, rank in _tensor_forms("tile"):
        for number in range(3 if "prefetch" in form else each):
            map = tile(random, rank, form, KINDS[number % len(KINDS)])
            least = 0 if "global.shared" in form or map.interleave else -32
            first = tuple(
                random.choice((0, random.randint(max(least, -extent - 1), length + 1), random.randint(0, length)))
                for extent, length in zip(map.box, map.shape, strict=True)
            )
            yield _of_map(random, form, map, first)


def im2col(random: Random, each: int) -> Iterator[Trial]:
    """Tensor copies in im2col mode; a GPU faults if they do not begin within the corners."""
    for form, rank in _tensor_forms("im2col"):
        for number in range(each):
            map = columns(random, rank, form, KINDS[number % len(KINDS)])
            spans = [range(length) for length in map.shape]
            within = slice(0, rank - 2) if map.interleave else slice(1, rank - 1)
            assert map.corners is not None
            spans[within] = [
                range(max(low, 0) if "global.shared" in form else low, length + high)
                for length, low, high in zip(map.shape[within], *map.corners, strict=True)
            ]
            first = tuple(
                random.choice(span) if span and random.random() < 0.7 else max(span.start, 0) for span in spans
            )
            yield _of_map(random, form, map, first, tuple(random.choice((0, 0, 1, 2)) for _ in range(rank - 2)))


def tile(random: Random, rank: int, form: str, kind: str) -> TensorMap:
    """A map whose tensor fits into 8 KB of global memory, and its box into 16 KB of shared memory."""
    while True:
        element, row, interleave, swizzle = _rows(random, form, kind)
        size = ELEMENTS[element]
        box = (row // size, *(random.choice((1, 2, 3, 4, 8, random.randint(1, 16))) for _ in range(rank - 1)))
        steps = tuple(random.choice((1, 1, 2, 3, 5, 8)) if kind == "steps" else 1 for _ in range(rank))
        shape = tuple(random.randint(1, max(2, 3 * extent // 2)) for extent in box)
        if kind == "whole":
            shape = tuple(map(max, shape, box))
        strides = _strides(random, shape, size, interleave or 16)
        if prod(box[1:]) * max(row, swizzle) <= BOXES and strides[-1] <= TENSORS:
            nan = element.startswith(("f", "bf", "tf")) and random.random() < 0.3
            return TensorMap(0, element, shape, strides[:-1], box, steps, interleave, swizzle, nan)


def columns(random: Random, rank: int, form: str, kind: str) -> TensorMap:
    """A map in im2col mode, as small."""
    while True:
        element, row, interleave, swizzle = _rows(random, form, kind)
        size = ELEMENTS[element]
        box = (row // size, random.choice((1, 2, 7, 8, 16, 64, random.randint(1, 100))))
        shape = (random.randint(1, 3 * box[0] // 2 + 1), *(random.randint(1, 6) for _ in range(rank - 1)))
        steps = tuple(random.choice((1, 1, 2, 3)) if kind == "steps" else 1 for _ in range(rank))
        low, high = (tuple(random.randint(-2, 2) for _ in range(rank - 2)) for _ in range(2))
        strides = _strides(random, shape, size, interleave or 16)
        inner = shape[:-2] if interleave else shape[1:-1]
        some = all(length + last > max(first, 0) for length, first, last in zip(inner, low, high, strict=True))
        if some and box[1] * max(row, swizzle) <= BOXES and strides[-1] <= TENSORS:
            return TensorMap(0, element, shape, strides[:-1], box, steps, interleave, swizzle, corners=(low, high))


def _rows(random: Random, form: str, kind: str) -> tuple[str, int, int, int]:
    """An element, and the bytes of a row of a box, of a slice of channels, and of a row of swizzling."""
    elements = [one for one in ELEMENTS if "global.shared" not in form or one not in ALTERED]
    if "reduce" in form:
        elements = ["u32", "s32", "u64"] if ".add." in form else ["u32", "u64"]
    interleave = random.choice((16, 32)) if kind == "interleaved" else 0
    swizzle = 32 if interleave == 32 else random.choice((0, 32, 64, 128))
    most = 128 if interleave or not swizzle else swizzle
    row = most if kind == "whole" and swizzle else 16 * random.randint(1, most // 16)
    return random.choice(elements), row, interleave, swizzle


def _strides(random: Random, shape: Sequence[int], size: int, unit: int) -> tuple[int, ...]:
    """Bytes from one index to the next of each dimension but the first, and those of the whole tensor."""
    found = [-(-shape[0] * size // unit) * unit + unit * random.randrange(2)]
    for length in shape[1:]:
        found.append(found[-1] * length + unit * random.randrange(2))
    return tuple(found)


def _tensor_forms(mode: str) -> Iterator[tuple[str, int]]:
    """The forms of a mode, and their ranks."""
    for form in forms.bulk():
        found = re.search(rf"tensor\.(\d)d.*\.{mode}", form)
        if found is not None:
            yield form, int(found[1])


def _of_map(random: Random, form: str, map: TensorMap, first: tuple[int, ...], values: tuple[int, ...] = ()) -> Trial:
    """A GPU faults unless the innermost coordinate is of a multiple of 16 bytes."""
    unit = 1 if map.interleave else max(1, 16 // map.element_bytes)
    first = (first[0] // unit * unit, *first[1:])
    there = TENSORS if map.interleave else 0
    return Trial(form, 128 * random.randrange(100), coordinates=first, values=values, there=there, map=map)


def touches(seed: int, each: int) -> list[Trial]:
    """All cases of the kernel `touch` that one CTA executes. each: of the forms with a tensor map."""
    random = Random(seed)
    found = [*of_threads(random, 2), *bulk(random, 6), *tiled(random, each), *im2col(random, each)]
    return [one for one in found if one.map is None or executable(one, one.map)]


def executable(case: Trial, map: TensorMap) -> bool:
    """Whether a GPU does it without a fault: stores in im2col mode fault, although the driver makes such maps, and so
    does interleaving of fewer than three dimensions, which it refuses. Interleaved stores, whose rows overlap in global
    memory here, are left out.
    """
    if "global.shared" in case.form:
        return map.corners is None and not map.interleave
    return not map.interleave or map.rank > 2


def _size(form: str) -> int:
    """Bytes of a lane."""
    if form.startswith("cp.async."):
        return int(form.split()[1])
    if "matrix" in form:
        return 16
    vector = re.search(r"\.v(\d)", form)
    types = re.search(r"\.(?:[busf])(\d+)(x2)?$", form)
    assert types is not None
    return int(types[1]) // 8 * (2 if types[2] else 1) * (int(vector[1]) if vector else 1)


# ---------------------------------------------------------------- wgmma

PIECES = 4096
"""Places of an operand that are tried, as in kernels/footprints.cu."""
ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Product:
    """One wgmma: the descriptor of the operand that is tested, relative to the window, and the bytes of a place."""

    form: str
    descriptor: int
    unit: int = 16

    @property
    def tested(self) -> int:
        """0: A, 1: B."""
        return "AB".index(self.form[-1])

    @property
    def ones(self) -> int:
        """A word of ones of the other operand."""
        return forms.ONES[self._types[1 - self.tested]]

    @property
    def pattern(self) -> int:
        """What a place is filled with: ones, or, if it is less than an element, all bits."""
        return ALL_BITS if self.unit < 16 else forms.ONES[self._types[self.tested]]

    @property
    def _types(self) -> list[str]:
        return self.form.split()[0].split(".m64")[1].split(".")[2:4]


def products(seed: int, each: int) -> list[Product]:
    """Random descriptors for every wgmma. each: of a form; and one whose bytes are tried singly, where that fits."""
    random = Random(seed)
    found = []
    for form in forms.products():
        rows = 64 if form.endswith("A") else int(re.findall(r"n(\d+)k", form)[0])
        for number in range(each):
            most = min((WINDOW - 8192) // (rows // 8 + 8), 4096) // 16
            found.append(Product(form, _descriptor(random, number % 4, most, 4096)))
        if rows <= 64 and "tf32" not in form:
            found.append(Product(form, _descriptor(random, random.randrange(4), 2048 // (rows // 8 + 4) // 16, 512), 1))
    return found


def _descriptor(random: Random, layout: int, most: int, starts: int) -> int:
    """most: of the strides, in 16 bytes. starts: bytes within which it starts."""
    strides = [random.choice((random.randint(0, most), 8 * random.randint(0, most // 8))) for _ in range(2)]
    start = random.choice((0, 1024, 16 * random.randrange(starts // 16))) % starts // 16
    base = random.choice((0, 0, random.randrange(8))) if layout else 0
    return layout << 62 | base << 49 | strides[0] << 32 | strides[1] << 16 | start
