"""Four kernels in Triton for Hopper: products and attention, two of them with specialised warps.

`python triton_kernels.py FOLDER NAME...` compiles kernels of LAUNCHES, keeps their PTX in FOLDER and launches them, on
operands that need not exist; `build.py` gives it a driver that needs no GPU.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

FIRST_ADDRESS, DISTANCE = 0x400000000000, 2 << 20
"""Where the operands are said to be: nothing reads them where the driver is a stand-in."""


@triton.jit
def product(a, b, d, rows, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """D[m, n] = sum of A[m, k] * B[k, n], one tile a CTA, each element loaded by its address."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    from_a = a + row[:, None] * depth + inner[None, :]
    from_b = b + inner[:, None] * columns + column[None, :]
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(tl.cdiv(depth, DEPTH)):
        sums = tl.dot(tl.load(from_a), tl.load(from_b), sums)
        from_a += DEPTH
        from_b += DEPTH * columns
    tl.store(d + row[:, None] * columns + column[None, :], sums.to(tl.float16))


@triton.jit
def persistent_product(
    a, b, d, rows, columns, depth, ctas, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    """D[m, n] = sum of A[m, k] * B[n, k], CTAs take the tiles in turn, through tensor maps that the kernel makes."""
    maps_a = tl.make_tensor_descriptor(a, [rows, depth], [depth, 1], [ROWS, DEPTH])
    maps_b = tl.make_tensor_descriptor(b, [columns, depth], [depth, 1], [COLUMNS, DEPTH])
    maps_d = tl.make_tensor_descriptor(d, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(columns, COLUMNS)
    for tile in tl.range(tl.program_id(0), down * across, ctas):
        row, column = (tile % down) * ROWS, (tile // down) * COLUMNS
        sums = tl.zeros((ROWS, COLUMNS), tl.float32)
        for k in range(tl.cdiv(depth, DEPTH)):
            sums = tl.dot(maps_a.load([row, k * DEPTH]), maps_b.load([column, k * DEPTH]).T, sums)
        maps_d.store([row, column], sums.to(tl.float16))


@triton.jit
def specialised_product(maps_a, maps_b, maps_d, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """D[m, n] = sum of A[m, k] * B[n, k], one tile a CTA; some warps load and others multiply."""
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in tl.range(0, tl.cdiv(depth, DEPTH), warp_specialize=True):
        sums = tl.dot(maps_a.load([row, k * DEPTH]), maps_b.load([column, k * DEPTH]).T, sums)
    maps_d.store([row, column], sums.to(tl.float16))


@triton.jit
def specialised_attention(
    maps_q, maps_k, maps_v, maps_o, keys, ROWS: tl.constexpr, KEYS: tl.constexpr, WIDTH: tl.constexpr
):
    """O = softmax(Q K^T / sqrt(WIDTH)) V, one tile of rows a CTA; some warps load and others compute."""
    scale: tl.constexpr = 1.4426950408889634 / WIDTH**0.5
    row = tl.program_id(0) * ROWS
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, WIDTH), tl.float32)
    q = maps_q.load([row, 0])
    for key in tl.range(0, keys, KEYS, warp_specialize=True):
        scores = tl.dot(q, maps_k.load([key, 0]).T) * scale
        top = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - top[:, None])
        shrink = tl.exp2(highest - top)
        total = total * shrink + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), maps_v.load([key, 0]), sums * shrink[:, None])
        highest = top
    maps_o.store([row, 0], (sums / total[:, None]).to(tl.float16))


class Half:
    """The element type of an operand, by Triton's name for it."""

    itemsize = 2
    is_floating_point = True

    def __str__(self) -> str:
        return "fp16"

    def __hash__(self) -> int:
        return hash("fp16")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Half)


@dataclass
class Matrix:
    """What Triton asks of an operand: f16, row by row, and where it is."""

    shape: tuple[int, int]
    address: int
    dtype = Half()

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, int]:
        return self.shape[1], 1


def matrices(*shapes: tuple[int, int]) -> list[Matrix]:
    return [Matrix(shape, FIRST_ADDRESS + DISTANCE * i) for i, shape in enumerate(shapes)]


@dataclass(frozen=True)
class Launch:
    """A kernel, its arguments and Triton's options."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: Callable[[], list[Any]]
    options: Mapping[str, int]


def described(shapes: list[tuple[int, int]], blocks: list[list[int]]) -> list[TensorDescriptor]:
    return [TensorDescriptor.from_tensor(at, block) for at, block in zip(matrices(*shapes), blocks, strict=True)]


TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64}
M, N, K, KEYS, WIDTH = 256, 256, 512, 512, 64
LAUNCHES: Mapping[str, Launch] = {
    "triton_product": Launch(
        product,
        (M // 128, N // 128),
        lambda: [*matrices((M, K), (K, N), (M, N)), M, N, K],
        {**TILE, "num_warps": 8, "num_stages": 3},
    ),
    "triton_persistent": Launch(
        persistent_product,
        (2,),
        lambda: [*matrices((M, K), (N, K), (M, N)), M, N, K, 2],
        {**TILE, "num_warps": 8, "num_stages": 3},
    ),
    "triton_specialised": Launch(
        specialised_product,
        (M // 64, N // 128),
        lambda: [*described([(M, K), (N, K), (M, N)], [[64, 64], [128, 64], [64, 128]]), K],
        {**TILE, "ROWS": 64, "num_warps": 4, "num_stages": 3},
    ),
    "triton_attention": Launch(
        specialised_attention,
        (M // 64,),
        lambda: [*described([(M, WIDTH), (KEYS, WIDTH), (KEYS, WIDTH), (M, WIDTH)], [[64, 64]] * 4), KEYS],
        {"ROWS": 64, "KEYS": 64, "WIDTH": WIDTH, "num_warps": 4, "num_stages": 2},
    ),
}


def compile_and_launch(name: str, ptx: Path) -> None:
    """Compile a kernel of LAUNCHES, write its PTX, and launch it."""
    launch = LAUNCHES[name]
    triton.set_allocator(lambda size, alignment, stream: Matrix((size, 1), FIRST_ADDRESS + 100 * DISTANCE))
    arguments = launch.arguments()
    compiled = launch.kernel.warmup(*arguments, grid=launch.grid, **launch.options)
    ptx.write_text(compiled.asm["ptx"])
    os.environ["STAND_IN_PTX"] = str(ptx)
    launch.kernel[launch.grid](*arguments, **launch.options)


if __name__ == "__main__":
    for name in sys.argv[2:] or LAUNCHES:
        compile_and_launch(name, Path(sys.argv[1]) / f"{name}.ptx")
