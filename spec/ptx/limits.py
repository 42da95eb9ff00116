"""Numbers that Hopper and PTX fix: sizes, alignments and the largest counts; and what is wrong with an address."""

from __future__ import annotations

COUNT_LIMIT = (1 << 20) - 1
"""Largest expected or pending arrival count, and largest magnitude of the tx-count (9.7.13.15.2)."""


NAMED_BARRIERS = 16
"""Named barriers per CTA, ids 0 to 15 (9.7.13.1)."""


WARP, WARPGROUP = 32, 128
"""Threads of a warp, and of the four warps that execute wgmma together."""


CTA_THREADS = 1024
"""Threads of a CTA at most."""


BULK_ALIGNMENT = 16
"""cp.async.bulk: size and addresses are multiples of 16 bytes (9.7.9.25.4)."""


WORD_BYTES = 4
"""A word on whose value roles depend."""


WORD_VALUES = 1 << 16
"""Values of a word that are told apart at most."""


SHARED_OF_SM = 228 * 1024
"""Bytes of shared memory of an SM; of every CTA on it, 1 KiB is the system's."""


SHARED_OF_CTA = 227 * 1024
"""Bytes of shared memory that a CTA can use (sm90_common.inl:57, sm90_smem_capacity_bytes)."""


REGISTERS_OF_SM = 65_536
"""32-bit registers, all of which one CTA can have."""


REGISTERS_OF_THREAD = 255
"""Registers per thread that a kernel can be launched with."""


MBARRIER_BYTES = MBARRIER_ALIGNMENT = 8
"""An mbarrier is 8 bytes at a multiple of 8 (9.7.13.15.1)."""


MATRIX_ALIGNMENT = 16
"""A matrix descriptor of wgmma holds an address in units of 16 bytes (9.7.15.5.1)."""


TENSORMAP_BYTES, TENSORMAP_ALIGNMENT = 128, 64
"""A CUtensorMap."""


CLUSTER_LIMIT = 16
"""CTAs of a cluster at most (non-portable size on an H100)."""


MMA_GROUPS = 8
"""wgmma.wait_group takes 0 to 7 (cute/arch/mma_sm90_gmma.hpp:64), so groups older than the newest 7 are only
ever waited for together.
"""


BULK_GROUPS = 32
"""Likewise for bulk groups: a wait that leaves more of them pending is refused."""


CP_GROUPS = 32
"""Likewise for groups of cp.asyncs."""


CP_ALIGNMENT = 4
"""cp.async copies 4, 8 or 16 bytes, from and to multiples of as many (9.7.9.25.3.1)."""


def outside_shared(name: str, start: int, stop: int, size: int = SHARED_OF_CTA) -> str:
    """What is wrong with bytes [start, stop) of shared memory of which `size` bytes are there; "" if nothing is."""
    if start < 0:
        return f"{name} begins at address {start}: use 0 or more"
    if stop > size:
        has = f"a CTA has {SHARED_OF_CTA} (227 KiB; 228 KiB an SM, less 1 KiB that the system keeps for each CTA)"
        return f"{name} ends at byte {stop} of shared memory: {has}; use smaller slots, or fewer"
    return ""


def misplaced_mbarrier(name: str, start: int) -> str:
    """What is wrong with the address of an mbarrier."""
    if start % MBARRIER_ALIGNMENT:
        return f"{name} lies at address {start}: an mbarrier is 8 bytes at a multiple of {MBARRIER_ALIGNMENT}"
    return ""


def misplaced_tensormap(name: str, start: int, size: int) -> str:
    """What is wrong with a tensormap of `size` bytes from `start` on (5.5.8)."""
    if start % TENSORMAP_ALIGNMENT == 0 and size == TENSORMAP_BYTES:
        return ""
    has = f"a tensormap is {TENSORMAP_BYTES} bytes at a multiple of {TENSORMAP_ALIGNMENT}"
    return f"the tensormap {name} has {size} bytes at address {start}: {has}"


def misaligned_copy(what: str, name: str, start: int, size: int) -> str:
    """What is wrong with one side of a bulk copy, `size` bytes from `start` on (9.7.9.25.4)."""
    if start % BULK_ALIGNMENT:
        return f"{what} {name} at address {start}: a bulk copy begins at a multiple of {BULK_ALIGNMENT} bytes"
    if size < BULK_ALIGNMENT or size % BULK_ALIGNMENT:
        return f"{what} {name}, {size} bytes: a bulk copy has a positive multiple of {BULK_ALIGNMENT}"
    return ""
