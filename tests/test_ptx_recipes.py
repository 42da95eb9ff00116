"""The recipes of tests/ptx: a stand-in for CUDA that writes launches, and kernels that are launched on it."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import pytest
from needs import needs_cute, needs_gcc, needs_triton
from packages import built_by

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "ptx"))
from build import CUTE, CUTLASS, TRITON, compile_stand_in  # noqa: E402

MAPS = [json.loads(line) for line in (HERE / "data" / "tensor_maps.jsonl").read_text().splitlines()]
"""Tensor maps that driver 580.159.04 made on an H200; all that follows byte 76 is zero."""
HALVES = {
    "type": 6,
    "address": 0x400000200000,
    "sizes": [256, 512],
    "strides": [512],
    "box": [64, 128],
    "element_strides": [1, 1],
    "interleave": 0,
    "swizzle": 3,
    "promotion": 2,
    "fill": 0,
}
PTX = """
.visible .entry other(.param .u32 other_0) { ret; }
.visible .entry copy(
	.param .u64 .ptr .global .align 16 copy_0,
	.param .align 64 .b8 copy_1[128],
	.param .u8 copy_2,
	.param .f32 copy_3
)
{ ret; }
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """The stand-in, fresh for each test; it writes launches to `launches` and reads the PTX above."""
    monkeypatch.setenv("STAND_IN_LAUNCHES", str(tmp_path / "launches"))
    monkeypatch.setenv("STAND_IN_PTX", str(tmp_path / "kernels.ptx"))
    (tmp_path / "kernels.ptx").write_text(PTX)
    return ctypes.CDLL(str(compile_stand_in(tmp_path / "libstand_in.so")))


def encode(stand_in, one) -> bytes:
    tensor_map = (ctypes.c_ubyte * 128)()
    code = stand_in.cuTensorMapEncodeTiled(
        tensor_map,
        one["type"],
        len(one["sizes"]),
        ctypes.c_void_p(one["address"]),
        (ctypes.c_uint64 * 5)(*one["sizes"]),
        (ctypes.c_uint64 * 5)(*one["strides"]),
        (ctypes.c_uint32 * 5)(*one["box"]),
        (ctypes.c_uint32 * 5)(*one["element_strides"]),
        *(one[key] for key in ("interleave", "swizzle", "promotion", "fill")),
    )
    assert code == 0
    return bytes(tensor_map)


@needs_gcc
def test_tensor_maps_are_those_of_the_driver(stand_in):
    assert {one["type"] for one in MAPS} == set(range(13))
    assert {len(one["sizes"]) for one in MAPS} == {1, 2, 3, 4, 5}
    assert [one for one in MAPS if encode(stand_in, one) != bytes.fromhex(one["map"]).ljust(128, b"\0")] == []


class Configuration(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


def attribute(number: int, *value: int) -> bytes:
    """A cudaLaunchAttribute: its number, padding, and a value of 64 bytes."""
    return bytes(ctypes.c_uint64(number)) + b"".join(bytes(ctypes.c_uint32(word)) for word in value).ljust(64, b"\0")


@needs_gcc
def test_a_launch_is_written_with_its_parameters_where_the_ptx_has_them(stand_in, tmp_path):
    function, data = ctypes.c_void_p(0x1234), ctypes.c_void_p()
    getattr(stand_in, "__cudaRegisterFunction")(None, function, None, b"copy")
    assert stand_in.cudaMalloc(ctypes.byref(data), ctypes.c_size_t(5)) == 0
    assert data.value == 0x400000000000
    assert stand_in.cudaMemcpy(data, b"\1\2\3", ctypes.c_size_t(3), 1) == 0
    assert stand_in.cudaMemset(ctypes.c_void_p(data.value + 3), 255, ctypes.c_size_t(2)) == 0
    tensor_map = encode(stand_in, HALVES)
    values = [data, (ctypes.c_ubyte * 128)(*tensor_map), ctypes.c_uint8(7), ctypes.c_float(1)]
    attributes = attribute(4, 2, 1, 1) + attribute(6, 1)  # the cluster; what this grid depends on may still run
    launch = Configuration((4, 1, 1), (128, 1, 1), 1024, None, ctypes.cast(attributes, ctypes.c_void_p), 2)
    arguments = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    assert stand_in.cudaLaunchKernelExC(ctypes.byref(launch), function, arguments) == 0
    parameters = bytes(data).ljust(64, b"\0") + tensor_map + b"\7\0\0\0" + bytes(ctypes.c_float(1))
    assert json.loads((tmp_path / "launches").read_text()) == {
        "launch": 1,
        "kernel": "copy",
        "grid": [4, 1, 1],
        "block": [128, 1, 1],
        "cluster": [2, 1, 1],
        "programmatic_serialization": True,
        "dynamic_shared": 1024,
        "parameters": parameters.hex(),
        "tensor_maps": [{"offset": 64, "element_bytes": 2, "box": [64, 128], "swizzle": 128, "interleave": 0}],
        "memory": [
            {"address": 0x400000000000, "bytes": "010203"},
            {"address": 0x400000000003, "size": 2, "byte": 255},
        ],
    }


def test_every_kernel_has_one_recipe():
    assert len({*CUTLASS, *CUTE, *TRITON}) == len(CUTLASS) + len(CUTE) + len(TRITON)
    assert all((HERE / "ptx" / program.name).is_file() for program in (*CUTE.values(), *TRITON.values()))


@needs_gcc
@pytest.mark.parametrize(
    ("module", "name", "threads", "maps"),
    [
        pytest.param("cutlass.cute", "cute_gemm_2x1", 384, 0, marks=needs_cute),
        pytest.param("cutlass.cute", "cute_attention", 384, 0, marks=needs_cute),
        pytest.param("triton", "triton_persistent", 256, 0, marks=needs_triton),
        pytest.param("triton", "triton_attention", 384, 4, marks=needs_triton),
    ],
)
def test_a_kernel_is_compiled_and_launched_without_a_gpu(module, name, threads, maps, tmp_path):
    """CuTe DSL makes its tensor maps itself, and the persistent product makes them on the GPU."""
    ptx, launch = map(Path, built_by(module, name, tmp_path))
    written = json.loads(launch.read_text())
    assert f".entry {written['kernel']}(" in ptx.read_text()
    assert written["block"] == [threads, 1, 1]
    assert len(written["tensor_maps"]) == maps
