"""A fuzzer that holds the mbarrier of spec.ptx.mbarrier to the hardware.

Every block of a launch has one real mbarrier and does random operations on it, those that the spec calls illegal in the
barrier's state excepted; each answer is compared with the spec's on the GPU itself, where the spec is compiled C
(evidence.hardware.mbarrier.generate). What can be seen of an mbarrier is all that is compared: whether the tests of
both parities and of a kept token pass, and the pending count of an arrival's token. A try_wait may return false
although its phase is over; it is then tried again, and that is counted, not held against the hardware.
"""

from __future__ import annotations

import ctypes
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sm90_verify.evidence.hardware.mbarrier.generate import STATE, generated, vocabulary
from sm90_verify.evidence.hardware.mbarrier.menu import Operation, menu
from sm90_verify.gpu.device import Fault, Module, sources
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import WARP
from sm90_verify.spec.ptx.numbers import signed_tx

CLUSTER = 2
RECENT = 16
RECORD = 5 + len(STATE) + RECENT
"""32-bit words of struct Record."""
EXTRAS = ("skipped", "spurious", "late", "undefined", "overdue")
FAILURES = {
    1: "whether it passes",
    2: "the pending count of its token",
    3: "the lanes' smallest pending count, their largest, or their sum",
    4: "whether the asynchronous arrival came",
}


@dataclass(frozen=True)
class FuzzReport:
    """operations: that were executed. by_operation: how many of each, and how many of them completed a phase.

    mismatches: the first of each block, which then ended. seconds: of the launch. skipped: steps for which no legal
    operation was drawn. spurious: false answers of a try_wait whose phase was over. late: in a cluster, tests that had
    to be repeated. undefined: pending counts of several lanes' plain arrivals that are not one count apart from each
    other (PTX defines them for noComplete only). overdue: blocks that ended because the time was up.
    """

    operations: int
    by_operation: dict[str, tuple[int, int]]
    mismatches: tuple[str, ...]
    seconds: float
    skipped: int = 0
    spurious: int = 0
    late: int = 0
    undefined: int = 0
    overdue: int = 0


def source(cluster: bool, *, cautious: bool = False) -> str:
    """The complete CUDA text."""
    folder = sources()
    return "\n".join(
        [
            f"#define CLUSTER {CLUSTER if cluster else 1}",
            vocabulary(),
            (folder / "mbarrier.cuh").read_text(),
            generated(menu(cluster=cluster), cautious=cautious),
            (folder / "mbarrier_fuzz.cu").read_text(),
        ]
    )


def fuzz(
    seed: int,
    blocks: int,
    steps: int,
    *,
    cluster: bool = False,
    first: int = 0,
    without: Iterable[str] = (),
    cautious: bool = False,
    trace: bool = False,
    limit: float = 60.0,
) -> FuzzReport:
    """Random operations in so many CTAs, up to `steps` in each or each pair. Equal arguments do the same operations.

    first: the number of the first block, so that one block of another run can be repeated alone. without: names of menu
    entries that are left out. cautious: no state is entered in which no arrival is pending and the tx-count is
    negative, which the spec allows an arrival to bring about. limit: seconds.

    Raises Fault if the launch faults; the process has no GPU any more then, and another one, with trace, is told
    the operation that each block did last.
    """
    entries = menu(cluster=cluster)
    module = Module(source(cluster, cautious=cautious))
    cupy = module.cupy
    groups = blocks // CLUSTER if cluster else blocks
    if groups < 1 or steps < 1:
        raise SpecError(f"{blocks} blocks of {steps} steps do nothing")
    counts = cupy.zeros(2 * len(entries) + len(EXTRAS), dtype=cupy.uint64)
    records = cupy.zeros(groups * RECORD, dtype=cupy.int32)
    pinned = cupy.cuda.alloc_pinned_memory(8 * blocks) if trace else None
    if pinned is not None:
        ctypes.memset(pinned.ptr, 0xFF, 8 * blocks)
    arguments = (
        cupy.uint64(seed),
        cupy.uint32(first),
        cupy.int32(steps),
        cupy.uint64(int(limit * 1e9)),
        cupy.asarray(_mask(entries, without), dtype=cupy.uint32),
        counts,
        records,
        cupy.uint64(0 if pinned is None else pinned.ptr),
    )
    size = CLUSTER if cluster else 1
    module.module.get_function("fuzz")  # compiles it
    begin = time.perf_counter()
    try:
        module.launch("fuzz", groups * size, WARP, arguments, cluster=size)
    except Fault as error:
        raise Fault(f"{error.what}; {_last(entries, pinned, blocks)}") from error
    seconds = time.perf_counter() - begin
    return _report(entries, counts.get().tolist(), records.get().reshape(groups, RECORD).tolist(), seconds, first)


def _mask(entries: Sequence[Operation], without: Iterable[str]) -> list[int]:
    """One bit per entry that is left out."""
    names = [str(one) for one in entries]
    words = [0] * (len(entries) // 32 + 1)
    for name in without:
        if name not in names:
            raise SpecError(f"{name!r} is not in the menu")
        number = names.index(name)
        words[number // 32] |= 1 << number % 32
    return words


def _last(entries: Sequence[Operation], pinned: Any, blocks: int) -> str:
    """After a fault: what the blocks did last, one of them the one that faults."""
    if pinned is None:
        return "run it again in a new process with trace=True to be told the operations that were done last"
    words = (ctypes.c_uint64 * blocks).from_address(pinned.ptr)
    done = [(block, word >> 32, word & 0xFFFFFFFF) for block, word in enumerate(words) if word != (1 << 64) - 1]
    often = Counter(str(entries[number]) for _, _, number in done)
    some = ", ".join(f"block {block} step {step} {entries[number]}" for block, step, number in done[:4])
    return f"last operations: {', '.join(f'{name} ({n})' for name, n in often.most_common(8))}; {some}"


def _report(
    entries: Sequence[Operation], counts: list[int], records: list[list[int]], seconds: float, first: int
) -> FuzzReport:
    by_operation = {str(one): (counts[2 * n], counts[2 * n + 1]) for n, one in enumerate(entries)}
    return FuzzReport(
        operations=sum(done for done, _ in by_operation.values()),
        by_operation=by_operation,
        mismatches=tuple(_mismatch(entries, block + first, words) for block, words in enumerate(records) if words[0]),
        seconds=seconds,
        **dict(zip(EXTRAS, counts[2 * len(entries) :], strict=True)),
    )


def _mismatch(entries: Sequence[Operation], block: int, words: list[int]) -> str:
    what, step, number, expected, got = words[:5]
    before = dict(zip(STATE, words[5 : 5 + len(STATE)], strict=True))
    before["tx"] = signed_tx(before["tx"])
    recent = [str(entries[n]) for n in reversed(words[5 + len(STATE) :]) if n >= 0]
    state = ", ".join(f"{name} {value}" for name, value in before.items())
    return (
        f"block {block} step {step}: {entries[number]}: {FAILURES[what]} is {got}, the spec says {expected}; "
        f"before it {state}; after {'; '.join(recent) or 'nothing'}"
    )
