"""Executes the cases of cases.py on a GPU, and records what each touched.

`python -m sm90_verify.evidence.hardware.footprints.record --to footprints.jsonl.gz` takes a few seconds.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import Any

from sm90_verify.evidence.hardware.footprints import forms
from sm90_verify.evidence.hardware.footprints.cases import (
    PIECES,
    REGION,
    WINDOW,
    Product,
    Trial,
    between_ctas,
    products,
    touches,
)
from sm90_verify.frontends.ptx.footprints import Ranges
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, encode
from sm90_verify.gpu.device import Module, gpu, sources
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError

FOOTPRINTS_KIND = "sm90-footprints"
PASSES = ((0, 0), (1, 1), (2, 0), (3, 0), (1, 0), (0, 1))
"""What the memory of the executing CTA and of the other one is before: `before` of kernels/footprints.cu."""
POISON = {0: 0, 1: 255}
"""By the pattern that is the same everywhere, the byte."""
SOURCE = 1 << 20
"""Bytes that loads are from."""
SHARED = WINDOW + 1024 + 1024
"""Bytes of dynamic shared memory: the window, its alignment, and ones for the operand that is not tested."""
EACH = 24
"""Cases of a form with a tensor map, unless the command says otherwise."""
HALF = MAP_BYTES // 2
"""Bytes of a map that copies go by."""


@dataclass(frozen=True)
class TrialSeen:
    """What an execution touched, in addresses of shared memory: of the executing CTA and of the other one.

    at, far: the operands of the lanes that executed it. map: the first half of a tensor map, without its address.
    signalled: bytes that complete_tx counted at the barrier of each CTA.
    """

    form: str
    at: tuple[int, ...]
    far: tuple[int, ...]
    coordinates: tuple[int, ...]
    values: tuple[int, ...]
    map: str
    writes: Ranges
    reads: Ranges
    far_writes: Ranges
    signalled: tuple[int, ...]


@dataclass(frozen=True)
class ProductSeen:
    """What a wgmma read by a descriptor, in places of `unit` bytes."""

    form: str
    descriptor: int
    unit: int
    reads: Ranges


def module() -> Module:
    text = (sources() / "footprints.cu").read_text()
    return Module(forms.source(forms.touching(), forms.products()) + text)


def touch(module: Module, cases: Sequence[Trial], ctas: int) -> list[TrialSeen]:
    """What each case touched, executed by the first CTA of a cluster of so many."""
    cupy = module.cupy
    source = (cupy.arange(SOURCE, dtype=cupy.uint32) * 2654435761 >> 13).astype(cupy.uint8)
    results = cupy.zeros(len(cases) * REGION, dtype=cupy.uint8)
    regions = [results.data.ptr + k * REGION if one.stores else source.data.ptr for k, one in enumerate(cases)]
    maps = b"".join(_map(one, where, k % 2 > 0) for k, (one, where) in enumerate(zip(cases, regions, strict=True)))
    on_device = cupy.asarray(list(maps), dtype=cupy.uint8)
    numbers = {form: number for number, form in enumerate(forms.touching())}
    rows = b"".join(
        packed(one, numbers[one.form], on_device.data.ptr + k * MAP_BYTES if one.map else where + one.there)
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
    for number, one in enumerate(cases):
        written = []
        for cta in range(ctas):
            changed = dumps[0][number][cta] != POISON[PASSES[0][cta]]
            for dump, poison in zip(dumps[1:], PASSES[1:], strict=True):
                if poison[cta] in POISON:
                    changed |= dump[number][cta] != POISON[poison[cta]]
            written.append(ranges(changed.nonzero()[0].tolist(), 1, start))
        copied = (kept[0][number] != kept[4][number]).nonzero()[0]
        low, high = kept[2][number][copied].tolist(), kept[3][number][copied].tolist()
        read = ranges(sorted({byte | upper << 8 for byte, upper in zip(low, high, strict=True)}), 1, start)
        lanes = [one.apart[lane] for lane in range(32) if one.lanes >> lane & 1]
        found.append(
            TrialSeen(
                one.form,
                tuple(start + one.offset + apart for apart in lanes),
                tuple(start + one.target + apart for apart in lanes) if ctas > 1 else (),
                one.coordinates,
                one.values,
                encode(one.map)[:HALF].hex() if one.map else "",
                written[0],
                read,
                written[1] if ctas > 1 else (),
                tuple(counts[number * ctas : number * ctas + ctas]) if one.completion == 1 else (),
            )
        )
    return found


def _map(case: Trial, where: int, short: bool) -> bytes:
    """The map of a case, if it has one. short: without what the driver adds to it, which no copy should go by."""
    if case.map is None:
        return bytes(MAP_BYTES)
    whole = encode(replace(case.map, address=where + case.there))
    return whole[:HALF] + bytes(HALF) if short else whole


def packed(case: Trial, number: int, there: int) -> bytes:
    """A struct Case of kernels/footprints.cu."""
    coordinates = (*case.coordinates, *(0,) * 5)[:5]
    values = (*case.values, *(0,) * 3)[:3]
    head = (number, case.completion, case.lanes, case.offset, case.target, there)
    return struct.pack("<15q32i", *head, *coordinates, *values, int(case.copied), *case.apart)


def multiply(module: Module, cases: Sequence[Product], parts: int = 8) -> list[ProductSeen]:
    """What each product read, its places shared out among so many CTAs."""
    cupy = module.cupy
    numbers = {form: number for number, form in enumerate(forms.products())}
    rows = []
    for one in cases:
        pair = (one.descriptor, 0) if one.tested == 0 else (0, one.descriptor)
        rows += [numbers[one.form], *pair, one.unit, one.ones, one.tested, one.pattern]
    given = cupy.asarray(rows, dtype=cupy.uint64)
    read = cupy.zeros((len(cases), PIECES), dtype=cupy.uint8)
    function = module.module.get_function("multiply")
    function.max_dynamic_shared_size_bytes = SHARED
    window = cupy.zeros(1, dtype=cupy.uint32)
    function((parts, len(cases)), (128,), (given, read, window), shared_mem=SHARED)
    start = int(window.get()[0])
    return [
        ProductSeen(
            one.form, one.descriptor + (start >> 4), one.unit, ranges(places.nonzero()[0].tolist(), one.unit, start)
        )
        for one, places in zip(cases, read.get(), strict=True)
    ]


def ranges(places: Iterable[int], unit: int, start: int) -> Ranges:
    """The places of `unit` bytes, in order and counted from `start`, as half-open ranges."""
    found: list[tuple[int, int]] = []
    for place in places:
        at = start + place * unit
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + unit)
        else:
            found.append((at, at + unit))
    return tuple(found)


def record_footprints(path: str, each: int = EACH, seed: int = 1) -> tuple[int, int]:
    """Writes what random cases touched. each: cases of a form. Raises SpecError without a Hopper GPU."""
    machine, compiled = gpu(), module()
    seen = touch(compiled, touches(seed, each), 1) + touch(compiled, list(between_ctas(Random(seed), 4)), 2)
    read = multiply(compiled, products(seed, min(each, 12)))
    write_lines(FOOTPRINTS_KIND, asdict(machine), [*map(line, seen), *map(line, read)], path)
    return len(seen), len(read)


PACKED = ("writes", "reads", "far_writes")


def line(one: TrialSeen | ProductSeen) -> dict[str, Any]:
    """What is kept of it: what is empty is left out."""
    return {
        name: gaps(value) if name in PACKED else value
        for name, value in ((field.name, getattr(one, field.name)) for field in fields(one))
        if value
    }


def gaps(ranges: Ranges) -> list[int]:
    """Ranges as the lengths of what lies between them and of themselves, by turns: fewer digits."""
    found, last = [], 0
    for start, stop in ranges:
        found += [start - last, stop - start]
        last = stop
    return found


def from_gaps(gaps: Sequence[int]) -> Ranges:
    found, last = [], 0
    for gap, length in zip(gaps[::2], gaps[1::2], strict=True):
        found.append((last + gap, last + gap + length))
        last += gap + length
    return tuple(found)


def read_footprints(path: str) -> tuple[list[TrialSeen], list[ProductSeen]]:
    """What `record_footprints` wrote."""
    seen: list[TrialSeen] = []
    read: list[ProductSeen] = []
    for line in read_lines(path, FOOTPRINTS_KIND):
        for name in PACKED:
            line[name] = from_gaps(line.get(name, ()))
        if "descriptor" in line:
            read.append(ProductSeen(**{one.name: line[one.name] for one in fields(ProductSeen)}))
        else:
            values: dict[str, Any] = {one.name: line.get(one.name, ()) for one in fields(TrialSeen)}
            values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            seen.append(TrialSeen(**(values | {"map": line.get("map", "")})))
    return seen, read


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.hardware.footprints.record", description=__doc__
    )
    parser.add_argument("--each", type=int, default=EACH, help="cases of a form")
    parser.add_argument("--to", default="footprints.jsonl.gz", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        seen, read = record_footprints(options.to, options.each)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{seen} executions and {read} products")
    return 0


if __name__ == "__main__":
    sys.exit(main())
