"""Tensor maps as the driver encodes them, and as tensormap.replace changes them, for random fields.

`python -m sm90_verify.evidence.hardware.footprints.maps --to tensor_maps.jsonl.gz` records both.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import prod
from random import Random
from typing import Any

from sm90_verify.frontends.ptx.tensor_map import ELEMENTS, MAP_BYTES, PROMOTIONS, SLICES, SPANS, TensorMap
from sm90_verify.gpu.device import Module, gpu, sources
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError

MAPS_KIND = "sm90-tensor-maps"
DRIVER_ELEMENTS = (
    *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz"),
)
"""By CUtensorMapDataType."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""By rank, the least and the greatest coordinate of an im2col corner."""
MAPS = 400
"""Of the driver, unless the command says otherwise."""
SHARED_MEMORY = 227 << 10
"""Bytes: the driver makes no map of a larger box."""


@dataclass(frozen=True)
class Replacement:
    """A tensormap.replace: what the map was, the field, its ordinal or 0, the value, and what the map is then."""

    before: bytes
    field: str
    ordinal: int
    value: int
    after: bytes


def random_map(random: Random) -> TensorMap:
    """Fields that the driver accepts: of any rank, element, mode, stride and swizzling."""
    while True:
        rank = random.randint(1, 5)
        element, interleave = random.choice(DRIVER_ELEMENTS), random.choice(SLICES) if rank > 2 else 0
        size, unit, swizzle = ELEMENTS[element], max(interleave, 16), random.choice(SPANS)
        shape = tuple(_up_to(random, 1 << 32) for _ in range(rank))
        strides = tuple(unit * _up_to(random, (1 << 40) // unit - 1) for _ in range(rank - 1))
        most = min(256 * size, swizzle if swizzle and not interleave else 256 * size) // 16
        row = 16 * random.randint(1, most) // size
        steps = tuple(random.choice((1, 1, 1, random.randint(1, 8))) for _ in range(rank))
        nan = element[0] in "fbt" and random.random() < 0.5
        address, corners = unit * _up_to(random, (1 << 57) // unit - 1), None
        if rank > 2 and random.random() < 0.5:
            box: tuple[int, ...] = (row, _up_to(random, 1024))
            low, high = CORNERS[rank]
            corners = (
                tuple(random.randint(low, high) for _ in range(rank - 2)),
                tuple(random.randint(low, high) for _ in range(rank - 2)),
            )
            inner = shape[:-2] if interleave else shape[1:-1]
            fits = max(shape) < 1 << 31
            fits &= all(length + last > first for length, first, last in zip(inner, *corners, strict=True))
        else:
            box = (row, *(_up_to(random, 256) for _ in range(rank - 1)))
            fits = prod(extent // step for extent, step in zip(box, steps, strict=True)) * size <= SHARED_MEMORY
        if fits and prod(box) * size <= SHARED_MEMORY:
            promotion = random.choice(PROMOTIONS)
            return TensorMap(address, element, shape, strides, box, steps, interleave, swizzle, nan, promotion, corners)


def _up_to(random: Random, most: int) -> int:
    """From 1 to `most`, each number of bits as likely, and the ends more than others."""
    return random.choice((1, most, min(most, 1 + random.getrandbits(random.randint(1, most.bit_length())))))


def driver() -> Any:
    """The CUDA driver with a context: without one it makes no map."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SpecError("tensor maps are made by the CUDA driver, and this machine has none") from error
    device, context = ctypes.c_int(), ctypes.c_void_p()
    codes = (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
    )
    if any(codes):
        raise SpecError(f"the CUDA driver has no context on the first GPU: {codes}")
    return cuda


def encoded(cuda: Any, map: TensorMap) -> bytes | None:
    """What the driver makes of the fields; None if it refuses them."""
    room = ctypes.create_string_buffer(2 * MAP_BYTES)
    at = -(-ctypes.addressof(room) // 64) * 64
    words, numbers, signed = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
    head = [
        ctypes.c_void_p(at),
        signed(DRIVER_ELEMENTS.index(map.element)),
        numbers(map.rank),
        ctypes.c_void_p(map.address),
        (words * map.rank)(*map.shape),
        (words * map.rank)(*map.strides),
    ]
    tail = [
        (numbers * map.rank)(*map.element_strides),
        signed(SLICES.index(map.interleave)),
        signed(SPANS.index(map.swizzle)),
        signed(PROMOTIONS.index(map.promotion)),
        signed(map.nan),
    ]
    if map.corners is None:
        code = cuda.cuTensorMapEncodeTiled(*head, (numbers * map.rank)(*map.box), *tail)
    else:
        low, high = ((signed * map.rank)(*corner) for corner in map.corners)
        code = cuda.cuTensorMapEncodeIm2col(*head, low, high, numbers(map.box[0]), numbers(map.box[1]), *tail)
    return None if code else ctypes.string_at(at, MAP_BYTES)


FIELDS = {
    "global_address": ("b64", 0, (0, 4096, 0x123456789ABCDEF0)),
    "rank": ("b32", 0, (0, 1, 4)),
    "box_dim": ("b32", 5, (1, 64, 256)),
    "global_dim": ("b32", 5, (1, 777, (1 << 32) - 1)),
    "global_stride": ("b64", 4, (16, 24, 4096, (1 << 40) - 16, 1 << 40)),
    "element_stride": ("b32", 5, (1, 2, 8)),
}
"""By field, its type, how many ordinals it has, and values to try."""
IMMEDIATES = {"elemtype": 13, "interleave_layout": 3, "swizzle_mode": 4, "fill_mode": 2}
"""By field whose value is an immediate, how many values sm_90 has."""


def replacements() -> Iterator[tuple[str, int, int, str]]:
    """Field, ordinal and value, and the text of PTX, whose operands are %0, the address, and %1, the value."""
    for field, (type, ordinals, values) in FIELDS.items():
        for ordinal in range(max(ordinals, 1)):
            where = f" {ordinal}," if ordinals else ""
            operand = "%1" if type == "b64" else "v"
            text = f"tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%0],{where} {operand};"
            for value in values:
                yield field, ordinal, value, f".reg .b32 v; cvt.u32.u64 v, %1; {text}"
    for field, count in IMMEDIATES.items():
        for value in range(count):
            yield field, 0, value, f"tensormap.replace.tile.{field}.shared::cta.b1024.b32 [%0], {value};"


def replaced(maps: Sequence[bytes]) -> list[Replacement]:
    """Every replacement on each map."""
    texts = list(replacements())
    cases = (
        f'case {number}: asm volatile("{{{text}}}" ::"r"(at), "l"(value) : "memory"); break;'
        for number, (*_, text) in enumerate(texts)
    )
    module = Module(f"#define REPLACE {' '.join(cases)}\n" + (sources() / "tensor_maps.cu").read_text())
    cupy = module.cupy
    chosen = [(number, one) for one in maps for number in range(len(texts))]
    fields = cupy.asarray([number for number, _ in chosen], dtype=cupy.int32)
    values = cupy.asarray([texts[number][2] for number, _ in chosen], dtype=cupy.uint64)
    before = cupy.asarray(list(b"".join(one for _, one in chosen)), dtype=cupy.uint8)
    after = cupy.zeros(len(chosen) * MAP_BYTES, dtype=cupy.uint8)
    module.launch("replace", len(chosen), 32, (fields, values, before, after))
    left = bytes(after.get().tolist())
    return [
        Replacement(one, *texts[number][:3], left[k * MAP_BYTES : (k + 1) * MAP_BYTES])
        for k, (number, one) in enumerate(chosen)
    ]


def record_maps(path: str, count: int = MAPS, seed: int = 1) -> tuple[int, int]:
    """Writes so many maps of the driver, and every replacement on maps of zeros, of ones, and of the driver.

    Maps that the driver refuses are left out. Raises SpecError without a Hopper GPU.
    """
    machine, cuda, random = gpu(), driver(), Random(seed)
    lines: list[dict[str, Any]] = []
    for map in (random_map(random) for _ in range(2 * count)):
        data = encoded(cuda, map)
        if data is not None and len(lines) < count:
            lines.append({"map": asdict(map), "bytes": data.hex()})
    if len(lines) < count:
        raise SpecError(f"the driver made {len(lines)} of {2 * count} tensor maps")
    maps = [bytes(MAP_BYTES), b"\xff" * MAP_BYTES, *(bytes.fromhex(line["bytes"]) for line in lines[:2])]
    changes = replaced(maps)
    for one in changes:
        lines.append(asdict(one) | {"before": one.before.hex(), "after": one.after.hex()})
    write_lines(MAPS_KIND, asdict(machine), lines, path)
    return count, len(changes)


def read_maps(path: str) -> tuple[list[tuple[TensorMap, bytes]], list[Replacement]]:
    """What `record_maps` wrote."""
    maps, changes = [], []
    for line in read_lines(path, MAPS_KIND):
        if "map" in line:
            fields: dict[str, Any] = {
                name: tuple(one) if isinstance(one, list) else one for name, one in line["map"].items()
            }
            if fields["corners"]:
                fields["corners"] = tuple(map(tuple, fields["corners"]))
            maps.append((TensorMap(**fields), bytes.fromhex(line["bytes"])))
        else:
            sides = {name: bytes.fromhex(line[name]) for name in ("before", "after")}
            changes.append(Replacement(**(line | sides)))
    return maps, changes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.hardware.footprints.maps", description=__doc__
    )
    parser.add_argument("--count", type=int, default=MAPS, help="maps of the driver")
    parser.add_argument("--to", default="tensor_maps.jsonl.gz", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        maps, changes = record_maps(options.to, options.count)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{maps} maps and {changes} replacements")
    return 0


if __name__ == "__main__":
    sys.exit(main())
