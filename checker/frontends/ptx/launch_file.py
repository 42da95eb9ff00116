"""Launch files: JSON, version 1, which docs/ptx_launch.md describes field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from sm90_verify.frontends.ptx.launch import Assumption, Block, Bytes, Launch, Shape
from sm90_verify.frontends.ptx.tensor_map import ELEMENTS, SPANS, TensorMap
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.ptx.limits import CLUSTER_LIMIT, CTA_THREADS, REGISTERS_OF_THREAD, SHARED_OF_CTA

FORMAT = 1
PARAMETER_BYTES = 32_764
"""Of all parameters (PTX 5.1.6.3)."""
GRID = (1 << 31, 1 << 16, 1 << 16)
"""Extents of a grid are below these."""
MEMORY_BYTES = 1 << 28
"""Of global memory that a launch describes, in one piece."""
VALUE_BYTES = {f"{kind}{bits}": bits // 8 for kind in "us" for bits in (8, 16, 32, 64)}
KEYS = (
    "launch",
    "kernel",
    "grid",
    "block",
    "cluster",
    "programmatic_serialization",
    "dynamic_shared",
    "parameters",
    "tensor_maps",
    "memory",
    "registers",
    "ctas",
    "assume",
    "note",
)
OF_BYTES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
"""An element of so many bytes."""
TENSOR_KEYS = (
    "offset",
    "address",
    "element",
    "element_bytes",
    "box",
    "swizzle",
    "interleave",
    "shape",
    "element_strides",
    "name",
)


def read_launch(path: str) -> Launch:
    """The launch in a file. Raises SpecError with the field that is wrong and what to write there."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{path}: no text: a launch file is JSON") from None
    except json.JSONDecodeError as error:
        raise SpecError(f"{error.msg}: a launch file is JSON", Source(path, error.lineno)) from None
    except RecursionError:
        raise SpecError(f"{path}: nested too deeply: a launch file is one flat object") from None
    return launch_of(told, path)


def launch_of(told: Any, path: str) -> Launch:
    """The launch that a JSON object says."""
    reader = _Reader(path)
    if not isinstance(told, dict):
        raise reader.wrong("launch", "the file holds no object", '{"launch": 1, …}')
    for key in told:
        if key not in KEYS:
            raise reader.wrong(key, "no field has this name", ", ".join(KEYS))
    if told.get("launch") != FORMAT:
        raise reader.wrong("launch", f"{told.get('launch')!r}", f"{FORMAT}, the version of the format")
    kernel = told.get("kernel", "")
    if not isinstance(kernel, str):
        raise reader.wrong("kernel", f"{kernel!r}", "the name of an .entry")
    depends = told.get("programmatic_serialization", False)
    if not isinstance(depends, bool):
        raise reader.wrong("programmatic_serialization", f"{_short(depends)}", "true or false")
    grid = reader.shape(told, "grid", GRID)
    block = reader.shape(told, "block", (CTA_THREADS + 1, CTA_THREADS + 1, 65))
    cluster = reader.shape(told, "cluster", (CLUSTER_LIMIT + 1,) * 3, (1, 1, 1))
    if prod(block) > CTA_THREADS:
        raise reader.wrong("block", f"{prod(block)} threads", f"at most {CTA_THREADS}")
    if prod(cluster) > CLUSTER_LIMIT:
        raise reader.wrong("cluster", f"{prod(cluster)} CTAs", f"at most {CLUSTER_LIMIT}")
    for extent, size in zip(grid, cluster, strict=True):
        if extent % size:
            raise reader.wrong("grid", f"{list(grid)} is no multiple of the cluster {list(cluster)}", "a multiple")
    return Launch(
        path,
        kernel,
        grid,
        block,
        cluster,
        reader.number(told, "dynamic_shared", 0, SHARED_OF_CTA, 0),
        reader.parameters(told.get("parameters", "")),
        reader.tensor_maps(told.get("tensor_maps", []), "offset"),
        reader.tensor_maps(told.get("tensor_maps", []), "address"),
        reader.memory(told.get("memory", [])),
        reader.number(told, "registers", 0, REGISTERS_OF_THREAD, 0),
        reader.blocks(told.get("ctas", "all"), grid),
        reader.assumptions(told.get("assume", [])),
    )


class _Reader:
    """Reads fields; every error names the file and the field."""

    def __init__(self, path: str) -> None:
        self.path = path

    def wrong(self, field: str, what: str, use: str) -> SpecError:
        return SpecError(f"{self.path}: {field}: {what}: use {use}")

    def number(self, told: Mapping[str, Any], name: str, least: int, most: int, default: int | None = None) -> int:
        found = told.get(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.wrong(name, f"{_short(found)}", f"a whole number, {least} to {most}")
        return found

    def shape(self, told: Mapping[str, Any], name: str, below: Shape, default: Shape | None = None) -> Shape:
        found = told.get(name, default)
        if isinstance(found, int) and not isinstance(found, bool):
            found = [found]
        if not isinstance(found, list | tuple) or not 1 <= len(found) <= 3:
            raise self.wrong(name, f"{_short(found)}", "three extents, such as [4, 1, 1]")
        x, y, z = (*found, 1, 1)[:3]
        for extent, limit in zip((x, y, z), below, strict=True):
            if not isinstance(extent, int) or isinstance(extent, bool) or not 1 <= extent < limit:
                raise self.wrong(
                    name, f"{_short(found)}", f"extents of 1 to {', '.join(str(one - 1) for one in below)}"
                )
        return x, y, z

    def parameters(self, told: Any) -> Bytes:
        if isinstance(told, str):
            data = self.hexadecimal("parameters", told)
            return Bytes(0, data, b"\1" * len(data))
        if not isinstance(told, list):
            raise self.wrong("parameters", _short(told), "the bytes in hexadecimal, or a list of values")
        whole, known = bytearray(), bytearray()
        for number, one in enumerate(told):
            name = f"parameters[{number}]"
            piece, offset = self._piece(name, one)
            stop = offset + len(piece)
            for grown in (whole, known):
                grown.extend(bytes(max(0, stop - len(grown))))
            if any(known[offset:stop]):
                raise self.wrong(name, f"bytes {offset} to {stop - 1} are given twice", "each offset once")
            whole[offset:stop], known[offset:stop] = piece, b"\1" * len(piece)
        return Bytes(0, bytes(whole), bytes(known))

    def _piece(self, name: str, one: Any) -> tuple[bytes, int]:
        if not isinstance(one, dict) or not set(one) <= {"offset", "bytes", "size", "type", "value", "name"}:
            raise self.wrong(
                name, _short(one), '{"offset": 0, "type": "u32", "value": 7} or {"offset": 0, "bytes": "…"}'
            )
        offset = self._number(f"{name}.offset", one.get("offset"), 0, PARAMETER_BYTES)
        if "bytes" in one:
            return self.hexadecimal(f"{name}.bytes", one["bytes"]), offset
        kind, value = one.get("type"), one.get("value")
        if kind not in VALUE_BYTES:
            raise self.wrong(f"{name}.type", _short(kind), ", ".join(VALUE_BYTES))
        bits = VALUE_BYTES[kind] * 8
        least, most = (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        value = self._number(f"{name}.value", value, least, most)
        return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little"), offset

    def _number(self, name: str, told: Any, least: int, most: int) -> int:
        if isinstance(told, str):
            try:
                told = int(told, 0)
            except ValueError:
                raise self.wrong(name, _short(told), f"a whole number, {least} to {most}") from None
        return self.number({name: told}, name, least, most)

    def hexadecimal(self, name: str, told: Any) -> bytes:
        try:
            data = bytes.fromhex(told)
        except (TypeError, ValueError):
            raise self.wrong(name, _short(told), "bytes in hexadecimal, two digits each") from None
        return data

    def tensor_maps(self, told: Any, placed_by: str) -> dict[int, TensorMap]:
        """Those of an offset in the parameters, or those of an address in global memory."""
        found: dict[int, TensorMap] = {}
        for number, one in enumerate(self._list("tensor_maps", told)):
            name = f"tensor_maps[{number}]"
            if not isinstance(one, dict):
                raise self.wrong(
                    name, _short(one), '{"offset": 128, "element": "f16", "box": [64, 128], "swizzle": 128}'
                )
            for key in one:
                if key not in TENSOR_KEYS:
                    raise self.wrong(f"{name}.{key}", "no field has this name", ", ".join(TENSOR_KEYS))
            if ("offset" in one) == ("address" in one):
                raise self.wrong(name, _short(one), "either offset, in the parameters, or address, in global memory")
            if placed_by not in one:
                continue
            element, swizzle = one.get("element", OF_BYTES.get(one.get("element_bytes", 0))), one.get("swizzle", 0)
            if element not in ELEMENTS:
                raise self.wrong(f"{name}.element", _short(element), ", ".join(ELEMENTS))
            if swizzle not in SPANS:
                raise self.wrong(f"{name}.swizzle", _short(swizzle), ", ".join(map(str, SPANS)))
            box = self._extents(f"{name}.box", one.get("box"), 256)
            shape = self._extents(f"{name}.shape", one.get("shape", [1 << 31] * len(box)), 1 << 32)
            steps = self._extents(f"{name}.element_strides", one.get("element_strides", [1] * len(box)), 8)
            if len({len(box), len(shape), len(steps)}) > 1:
                raise self.wrong(f"{name}.shape", f"{len(shape)} extents", f"as many as box, {len(box)}")
            interleave = self._number(f"{name}.interleave", one.get("interleave", 0), 0, 32)
            most = PARAMETER_BYTES if placed_by == "offset" else (1 << 64) - 1
            found[self._number(f"{name}.{placed_by}", one[placed_by], 0, most)] = TensorMap(
                0, element, shape, (0,) * (len(box) - 1), box, steps, interleave, swizzle
            )
        return found

    def _extents(self, name: str, told: Any, most: int) -> tuple[int, ...]:
        listed = self._list(name, told)
        if not 1 <= len(listed) <= 5:
            raise self.wrong(name, _short(told), "one to five extents")
        return tuple(self._number(name, one, 1, most) for one in listed)

    def memory(self, told: Any) -> tuple[Bytes, ...]:
        found = []
        for number, one in enumerate(self._list("memory", told)):
            name = f"memory[{number}]"
            if not isinstance(one, dict) or not set(one) <= {"address", "bytes", "size", "byte", "name"}:
                raise self.wrong(name, _short(one), '{"address": "0x7f0000000000", "bytes": "…"}')
            address = self._number(f"{name}.address", one.get("address"), 0, (1 << 64) - 1)
            if "size" in one and "bytes" not in one:
                byte = self._number(f"{name}.byte", one.get("byte", 0), 0, 255)
                data = bytes([byte]) * self._number(f"{name}.size", one["size"], 1, MEMORY_BYTES)
            else:
                data = self.hexadecimal(f"{name}.bytes", one.get("bytes"))
            found.append(Bytes(address, data, b"\1" * len(data)))
        return tuple(found)

    def blocks(self, told: Any, grid: Shape) -> tuple[Block, ...] | None:
        if told == "all":
            return None
        found = []
        for number, one in enumerate(self._list("ctas", told)):
            if not isinstance(one, list) or not 1 <= len(one) <= 3:
                raise self.wrong(f"ctas[{number}]", _short(one), "the index of a CTA, such as [0, 0, 0]")
            x, y, z = (
                self._number(f"ctas[{number}]", index, 0, extent - 1)
                for index, extent in zip((*one, 0, 0)[:3], grid, strict=True)
            )
            found.append((x, y, z))
        if not found:
            raise self.wrong("ctas", "none", '"all", or some indices')
        return tuple(found)

    def assumptions(self, told: Any) -> tuple[Assumption, ...]:
        found = []
        for number, one in enumerate(self._list("assume", told)):
            name = f"assume[{number}]"
            if not isinstance(one, dict) or not set(one) <= {"line", "value", "values", "why"}:
                raise self.wrong(name, _short(one), '{"line": 812, "value": 0} or {"line": 812, "values": [0, 1]}')
            given = one["values"] if "values" in one else [one.get("value")]
            values = tuple(
                self._number(f"{name}.value", value, -(1 << 63), (1 << 64) - 1)
                for value in self._list(f"{name}.values", given)
            )
            if not values:
                raise self.wrong(f"{name}.values", "none", "one value or more")
            found.append(Assumption(self._number(f"{name}.line", one.get("line"), 1, 1 << 31), values))
        return tuple(found)

    def _list(self, name: str, told: Any) -> Sequence[Any]:
        if not isinstance(told, list):
            raise self.wrong(name, _short(told), "a list")
        return told


def _short(told: Any) -> str:
    said = json.dumps(told, ensure_ascii=False) if told is not None else "missing"
    return said if len(said) <= 60 else said[:59] + "…"
