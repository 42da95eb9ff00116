"""Executes the cases on a GPU, and finds what each touched."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sm90_verify.evidence.hardware.footprints import forms
from sm90_verify.evidence.hardware.footprints.cases import PIECES, REGION, WINDOW, Case, Product
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, encode
from sm90_verify.gpu.device import Module, sources

PASSES = ((0, 0), (1, 1), (2, 0), (3, 0), (1, 0), (0, 1))
"""What the memory of the executing CTA and of the other one is before: `before` of kernels/footprints.cu."""
POISON = {0: 0, 1: 255}
"""By the pattern that is the same everywhere, the byte."""
SOURCE = 1 << 20
"""Bytes that loads are from."""
SHARED = WINDOW + 1024 + 1024


@dataclass(frozen=True)
class Touched:
    """What a case touched, in bytes of the windows: of the executing CTA and of the other one. signalled: bytes that
    complete_tx counted at the barrier of each.
    """

    writes: tuple[tuple[int, int], ...]
    reads: tuple[tuple[int, int], ...]
    far_writes: tuple[tuple[int, int], ...]
    signalled: tuple[int, ...]


def module() -> Module:
    text = (sources() / "footprints.cu").read_text()
    return Module(forms.source(forms.touching(), forms.products()) + text)


def touch(module: Module, cases: Sequence[Case], ctas: int) -> tuple[int, list[Touched]]:
    """Where the windows start, and what each case touched."""
    cupy = module.cupy
    source = (cupy.arange(SOURCE, dtype=cupy.uint32) * 2654435761 >> 13).astype(cupy.uint8)
    results = cupy.zeros(len(cases) * REGION, dtype=cupy.uint8)
    regions = [
        results.data.ptr + number * REGION if one.stores else source.data.ptr for number, one in enumerate(cases)
    ]
    maps = b"".join(
        _bytes(one, where, number % 2 > 0) for number, (one, where) in enumerate(zip(cases, regions, strict=True))
    )
    on_device = cupy.asarray(list(maps), dtype=cupy.uint8)
    numbers = {form: number for number, form in enumerate(forms.touching())}
    rows = b"".join(
        _row(one, numbers[one.form], on_device.data.ptr + k * MAP_BYTES if one.map else where + one.there)
        for k, (one, where) in enumerate(zip(cases, regions, strict=True))
    )
    given = cupy.asarray(list(rows), dtype=cupy.uint8)
    shared = cupy.zeros((len(cases), ctas, WINDOW), dtype=cupy.uint8)
    signalled = cupy.zeros(len(cases) * ctas + 1, dtype=cupy.uint32)
    dumps, kept = [], []
    for own, others in PASSES:
        results[:] = 0
        arguments = (given, cupy.int32(ctas), cupy.int32(own), cupy.int32(others), shared, results, signalled)
        module.launch("touch", len(cases) * ctas, 128, arguments, shared=SHARED, cluster=ctas)
        dumps.append(shared.get())
        kept.append(dumps[-1][:, 1] if ctas > 1 else results.get().reshape(len(cases), REGION))
    *counts, start = signalled.get().tolist()
    found = []
    for number in range(len(cases)):
        written = []
        for cta in range(ctas):
            changed = dumps[0][number][cta] != POISON[PASSES[0][cta]]
            for dump, poison in zip(dumps[1:], PASSES[1:], strict=True):
                if poison[cta] in POISON:
                    changed |= dump[number][cta] != POISON[poison[cta]]
            written.append(ranges(changed.nonzero()[0].tolist()))
        copied = (kept[0][number] != kept[4][number]).nonzero()[0]
        low, high = kept[2][number][copied], kept[3][number][copied]
        read = ranges(sorted({one | other << 8 for one, other in zip(low.tolist(), high.tolist(), strict=True)}))
        found.append(
            Touched(
                written[0], read, written[1] if ctas > 1 else (), tuple(counts[number * ctas : number * ctas + ctas])
            )
        )
    return start, found


def _bytes(case: Case, where: int, short: bool) -> bytes:
    """The map of a case, if it has one. short: without what the driver adds to it, which no copy should go by."""
    if case.map is None:
        return bytes(MAP_BYTES)
    whole = encode(replace(case.map, address=where + case.there))
    return whole[: MAP_BYTES // 2] + bytes(MAP_BYTES // 2) if short else whole


def _row(case: Case, number: int, there: int) -> bytes:
    """A struct Case of kernels/footprints.cu."""
    coordinates = (*case.coordinates, *(0,) * 5)[:5]
    values = (*case.values, *(0,) * 3)[:3]
    head = (number, case.completion, case.lanes, case.offset, case.target, there)
    return struct.pack("<15q32i", *head, *coordinates, *values, int(case.copied), *case.apart)


def multiply(module: Module, cases: Sequence[Product], parts: int = 8) -> list[tuple[tuple[int, int], ...]]:
    """Of each product, the places that it read, as bytes of the window."""
    cupy = module.cupy
    numbers = {form: number for number, form in enumerate(forms.products())}
    found = []
    for first in range(0, len(cases), 4096):
        some = cases[first : first + 4096]
        rows = []
        for one in some:
            pair = (one.descriptor, 0) if one.tested == 0 else (0, one.descriptor)
            rows += [numbers[one.form], *pair, one.unit, one.ones, one.tested, one.pattern]
        given = cupy.asarray(rows, dtype=cupy.uint64)
        read = cupy.zeros((len(some), PIECES), dtype=cupy.uint8)
        _launch(module, parts, len(some), (given, read))
        for one, places in zip(some, read.get(), strict=True):
            found.append(ranges(places.nonzero()[0].tolist(), one.unit))
    return found


def _launch(module: Module, parts: int, cases: int, arguments: tuple[Any, ...]) -> None:
    function = module.module.get_function("multiply")
    function.max_dynamic_shared_size_bytes = SHARED
    function((parts, cases), (128,), arguments, shared_mem=SHARED)
    module.cupy.cuda.runtime.deviceSynchronize()


def ranges(places: Iterable[int], unit: int = 1) -> tuple[tuple[int, int], ...]:
    """The places, in order, as half-open ranges of bytes."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place * unit:
            found[-1] = (found[-1][0], (place + 1) * unit)
        else:
            found.append((place * unit, (place + 1) * unit))
    return tuple(found)
