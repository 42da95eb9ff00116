"""What CUTLASS's collective builder chooses for a tile shape: stages, subtiles, and the bytes that they take.

Line numbers are those of epilogue/collective/builders/sm90_builder.inl (E) and gemm/collective/builders/
sm90_gmma_builder.inl (G) in CUTLASS 4.2. Sizes of types are in bits, sizes of memory in bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sm90_verify.spec.cutlass.gemm import GEMMS, Gemm
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.layout import ALIGNMENT
from sm90_verify.spec.ptx.limits import SHARED_OF_CTA

MBARRIER_PAIR = 16
"""The full and the empty barrier of one stage."""


@dataclass(frozen=True)
class EpiloguePolicy:
    """Sm90TmaWarpSpecialized<StagesC, StagesD, ..., ReuseSmemC, DelayTmaStore> with what its tensors need.

    subtiles: epilogue tiles of an output tile. bytes_c, bytes_d: of one stage. storage: bytes of
    CollectiveEpilogue::SharedStorage.
    """

    stages_c: int
    stages_d: int
    reuse_smem_c: bool
    delay_tma_store: bool
    void_c: bool
    subtiles: int
    bytes_c: int
    bytes_d: int
    storage: int


def epilogue_tile(schedule: str, m: int, n: int, bits_d: int) -> tuple[int, int]:
    """EpilogueTileAuto (E:112-130): 128 x 32 in the cooperative kernel, else 64 x 32, or 64 x 64 for 8-bit output."""
    if schedule == "cooperative":
        return min(128, m), math.gcd(min(32, n), n)
    columns = 64 if bits_d == 8 and n % 64 == 0 else 32
    return min(64, m), math.gcd(min(columns, n), n)


def epilogue_policy(
    schedule: str, m: int, n: int, *, bits_c: int = 16, bits_d: int = 16, column_major: bool = False
) -> EpiloguePolicy:
    """The epilogue of a CTA tile of m x n (E:63-85). bits_c: 0 for no source."""
    rows, columns = epilogue_tile(schedule, m, n, bits_d)
    if m % rows or n % columns:
        raise SpecError(f"a tile of {m} x {n}: the epilogue tile {rows} x {columns} must divide it")
    subtiles = (m // rows) * (n // columns)
    reuse = bits_c == bits_d and bits_d > 8
    stages_d = min(subtiles, 2)
    stages_c = max(min(subtiles, 4), stages_d + 1) if reuse else min(subtiles, 4)
    bytes_c, bytes_d = rows * columns * bits_c // 8, rows * columns * bits_d // 8
    contiguous = rows if column_major else columns
    align_c, align_d = (_swizzle_alignment(contiguous * bits // 8) for bits in (bits_c or bits_d, bits_d))
    align = max(align_c, align_d) if bits_c else align_d
    tensors = stages_c * bytes_c if reuse else _round_up(stages_c * bytes_c, align_d) + stages_d * bytes_d
    fusion_storage = 1  # an empty struct
    storage = _round_up(_round_up(tensors, align) + fusion_storage, align) + stages_c * MBARRIER_PAIR
    return EpiloguePolicy(
        stages_c, stages_d, reuse, bits_c == 0, bits_c == 0, subtiles, bytes_c, bytes_d, _round_up(storage, align)
    )


def mainloop_stages(
    m: int, n: int, k: int, *, bits_a: int = 16, bits_b: int = 16, carveout: int = 0, capacity: int = SHARED_OF_CTA
) -> int:
    """StageCountAutoCarveout (G:69-85): the stages that fit beside `carveout` bytes, the epilogue's storage."""
    stage = _round_up(m * k * bits_a // 8 + n * k * bits_b // 8, ALIGNMENT) + MBARRIER_PAIR
    return (capacity // ALIGNMENT * ALIGNMENT - _round_up(carveout, ALIGNMENT)) // stage


def build(
    schedule: str,
    tile: tuple[int, int, int] = (128, 128, 64),
    *,
    bits_a: int = 16,
    bits_b: int = 16,
    bits_c: int = 16,
    bits_d: int = 16,
    **changes: Any,
) -> Gemm:
    """The kernel that CollectiveBuilder makes for a CTA tile of m x n x k, with `changes` to its parameters."""
    if schedule not in GEMMS:
        raise SpecError(f"schedule {schedule!r}: use one of {', '.join(GEMMS)}")
    return GEMMS[schedule](**{**parameters(schedule, tile, bits_a, bits_b, bits_c, bits_d), **changes})


def parameters(
    schedule: str, tile: tuple[int, int, int], bits_a: int = 16, bits_b: int = 16, bits_c: int = 16, bits_d: int = 16
) -> dict[str, Any]:
    """The parameters of that kernel; raises SpecError where CUTLASS would not compile."""
    m, n, k = tile
    threads = 256 if schedule == "cooperative" else 128
    if schedule == "cooperative" and m < 128:
        raise SpecError(f"a cooperative kernel with {m} rows: use 128 or more")
    policy = epilogue_policy(schedule, m, n, bits_c=bits_c, bits_d=bits_d)
    stages = mainloop_stages(m, n, k, bits_a=bits_a, bits_b=bits_b, carveout=policy.storage)
    if stages < 2:
        raise SpecError(f"a tile of {m} x {n} x {k}: {stages} stages fit into shared memory, a mainloop needs 2")
    found = {name: value for name, value in vars(policy).items() if name != "storage"}
    found |= {"stages": stages, "bytes_a": m * k * bits_a // 8, "bytes_b": n * k * bits_b // 8}
    if policy.void_c:
        found["bytes_c"] = policy.bytes_d
    if schedule != "ws" and m * n // threads >= 208:
        found |= {"load_registers": 24, "mma_registers": 240}
    return found


def _swizzle_alignment(contiguous: int) -> int:
    """ss_smem_selector takes the widest swizzle that divides the contiguous extent: atoms of 8 rows of 128 to 16
    bytes.
    """
    for width in (128, 64, 32):
        if contiguous % width == 0:
            return 8 * width
    return 128


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
