"""Reads a CUTLASS synclog: what `synclog_print` of arch/synclog.hpp writes, every record kind, and nothing else.

The log is a dump of a device buffer. `at` is the index of a record in that buffer, and the next record starts where
this one ends, so a line that was removed, added or moved leaves a gap that the reader sees. Anything that
`synclog_print` cannot have written is a SpecError with the line: a log that was damaged is refused, never repaired.
"""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from dataclasses import dataclass

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.ptx.limits import CTA_THREADS, WARP

PREFIX_WORDS = 10
"""Words of a record before its own fields: header, line, time (2), thread (3), block (3) (synclog.hpp:96)."""
CAPACITY_WORDS = 1 << 26
"""Size of the device buffer (synclog.hpp:56)."""
U32, U64 = (1 << 32) - 1, (1 << 64) - 1

BARRIER_PHASE = ("smem_addr", "phase")
COPY = ("smem_addr", "gmem_addr", "pred", "size")
FIELDS: dict[str, tuple[str, ...]] = {
    "syncthreads": (),
    "syncwarp": (),
    "named_barrier_arrive_and_wait": ("num_threads", "barrier_id"),
    "named_barrier_arrive": ("num_threads", "barrier_id"),
    "cluster_barrier_init": ("smem_addr", "arrive_count"),
    "cluster_barrier_wait": BARRIER_PHASE,
    "cluster_barrier_test_wait": (*BARRIER_PHASE, "pred"),
    "cluster_barrier_try_wait": BARRIER_PHASE,
    "cluster_barrier_arrive_cluster": ("smem_addr", "cta_id", "pred"),
    "cluster_barrier_arrive": ("smem_addr",),
    "cluster_barrier_invalidate": ("smem_addr",),
    "cluster_transaction_barrier_arrive_and_expect_tx": ("smem_addr", "transaction_bytes"),
    "cluster_transaction_barrier_arrive_and_expect_tx_cluster": ("smem_addr", "transaction_bytes", "cta_id", "pred"),
    "cluster_transaction_barrier_expect_transaction": ("smem_addr", "transaction_bytes"),
    "cluster_transaction_barrier_complete_transaction": ("smem_addr", "dst_cta_id", "transaction_bytes", "pred"),
    "fence_barrier_init": (),
    "fence_view_async_shared": (),
    "cp_async_wait": ("n",),
    "cp_async_wait_all": (),
    "cp_async_fence": (),
    "cp_async_nan": COPY[:3],
    "cp_async_zfill": COPY,
    "cp_async": COPY,
    "tma_load": ("gmem_int_desc", "smem_int_mbar", "smem_int_ptr"),
    "tma_store": ("gmem_int_desc", "smem_int_ptr"),
    "tma_store_arrive": (),
    "tma_store_wait": ("count",),
    "warpgroup_arrive": (),
    "warpgroup_wait": ("n",),
    "warpgroup_commit_batch": (),
    "wgmma_reg_smem": ("desc_b_smem_int_ptr",),
    "wgmma_smem_smem": ("desc_a_smem_int_ptr", "desc_b_smem_int_ptr"),
    "cpasync_barrier_arrive": ("smem_addr",),
}
"""The fields that each kind prints after the prefix, in order (synclog.hpp:940-1230)."""

WORDS_64 = ("gmem_int_desc", "gmem_addr", "desc_a_smem_int_ptr", "desc_b_smem_int_ptr")
"""Fields that take two words of the buffer; a matrix descriptor is stored whole but printed as its address."""
LIMITS = {"phase": 1, "pred": 1, "desc_a_smem_int_ptr": (1 << 18) - 16, "desc_b_smem_int_ptr": (1 << 18) - 16}
"""Largest printable value where it is not that of the word: a parity, a predicate, a 14-bit address in 16-byte units.
"""

LENGTH = {kind: PREFIX_WORDS + sum(1 + (f in WORDS_64) for f in fields) for kind, fields in FIELDS.items()}
"""Words that a record of each kind takes in the buffer."""

NUMBER = "(0|[1-9][0-9]*)"
PREFIX = re.compile(
    rf"synclog at {NUMBER}: ([a-z_]+) line={NUMBER} time={NUMBER} "
    rf"thread={NUMBER},{NUMBER},{NUMBER} block={NUMBER},{NUMBER},{NUMBER}(?: (.*))?"
)
OWN_FIELDS = {kind: re.compile(" ".join(f"{name}={NUMBER}" for name in fields)) for kind, fields in FIELDS.items()}


@dataclass(frozen=True, slots=True)
class Record:
    """One entry: its line in the file, its place `at` in the buffer, and what it says.

    source_line is the line of the CUTLASS header that logged it, time is globaltimer in ns, values are the fields of
    FIELDS[kind] in that order. The thread is lane 0 of `warp`; the block is (0, 0, 0).
    """

    line: int
    at: int
    kind: str
    source_line: int
    time: int
    warp: int
    values: tuple[int, ...]


def read_log(path: str) -> tuple[Record, ...]:
    """The records of a log file, plain or compressed with gzip or xz.

    Raises SpecError with file and line for anything that synclog_print cannot have written.
    """
    return parse_log(read_text(path), path)


def read_log_so_far(path: str) -> tuple[tuple[Record, ...], bool]:
    """As read_log, of a log that may be cut: its records, and whether it has its end. A last line without its end is
    left out.
    """
    text = read_text(path)
    if text.endswith("\n") and "\nsynclog end" in text:
        return parse_log(text, path), True
    return parse_log(text.rpartition("\n")[0] + "\n", path, whole=False), False


def read_text(path: str) -> str:
    """The text of a file, decompressed if it starts as gzip or xz do; SpecError if it cannot be read as text."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}: give a synclog or a recording") from None
    except ValueError as error:
        raise SpecError(f"{path!r}: {error}: give a synclog or a recording") from None
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        elif data[:6] == b"\xfd7zXZ\x00":
            data = lzma.decompress(data)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
        raise SpecError(
            f"cannot read the log: {error}; give a synclog as text, or compressed with gzip or xz", Source(path, 1)
        ) from None
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SpecError(
            "this is not text: a synclog is what a kernel built with CUTLASS_ENABLE_SYNCLOG prints", Source(path, line)
        ) from None


def parse_log(text: str, path: str, *, whole: bool = True) -> tuple[Record, ...]:
    """The records of a log's text. See read_log. whole: it must have its end, and else must not."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    first = 0
    while first < len(lines) and lines[first].startswith("#"):
        first += 1
    if first == len(lines) or lines[first] != "synclog start":
        raise SpecError("expected `synclog start`: keep the log from its first line on", Source(path, first + 1))
    records: list[Record] = []
    at = 1
    last_time: dict[int, int] = {}
    for number in range(first + 1, len(lines)):
        text_line = lines[number]
        if text_line == "synclog end":
            _check_end(lines, number, records, path)
            return tuple(records)
        record = parse_record(text_line, Source(path, number + 1))
        if record.at != at:
            raise SpecError(
                f"the entry is at {record.at}, but the one before it ends at {at}: an entry is missing, added or "
                f"moved; "
                "use the log as it was printed",
                Source(path, number + 1),
            )
        if record.time < last_time.get(record.warp, 0):
            raise SpecError(
                f"thread {record.warp * WARP} logged its entry before this one {last_time[record.warp] - record.time} "
                "ns later: entries of a thread are in time order; use the log as it was printed",
                Source(path, number + 1),
            )
        last_time[record.warp] = record.time
        at += LENGTH[record.kind]
        if at >= CAPACITY_WORDS:
            raise SpecError("the entry lies beyond the end of the log buffer", Source(path, number + 1))
        records.append(record)
    if records and not whole:
        return tuple(records)
    raise SpecError(
        "the log ends without `synclog end`: it was cut off; keep everything that was printed", Source(path, len(lines))
    )


def parse_record(text: str, where: Source) -> Record:
    """One line of the log. Raises SpecError if synclog_print cannot have written it."""
    match = PREFIX.fullmatch(text)
    if match is None:
        raise SpecError(_not_a_record(text), where)
    kind = match[2]
    if kind not in FIELDS:
        raise SpecError(f"unknown kind of entry `{kind}`: CUTLASS 4.2 prints {len(FIELDS)} kinds", where)
    own = OWN_FIELDS[kind].fullmatch(match[11] or "")
    if own is None:
        fields = " ".join(f"{name}=N" for name in FIELDS[kind]) or "nothing"
        raise SpecError(f"`{kind}` must be followed by {fields} and is followed by `{(match[11] or '')[:60]}`", where)
    values = tuple(int(value) for value in own.groups())
    for name, value in zip(FIELDS[kind], values, strict=True):
        limit = LIMITS.get(name, U64 if name in WORDS_64 else U32)
        if value > limit or (name.startswith("desc_") and value % 16):
            raise SpecError(f"{name}={value} is out of range", where)
    at, source_line, time = int(match[1]), int(match[3]), int(match[4])
    if at >= CAPACITY_WORDS or source_line > U32 or time > U64:
        raise SpecError("a number of the entry is out of range", where)
    thread, y, z = int(match[5]), int(match[6]), int(match[7])
    if thread % WARP or y or z or thread >= CTA_THREADS:
        raise SpecError(
            f"thread {thread},{y},{z} does not log: only lane 0 of each warp does (thread 0, 32, 64 ...,0,0)", where
        )
    if match[8] != "0" or match[9] != "0" or match[10] != "0":
        raise SpecError(
            f"block {match[8]},{match[9]},{match[10]} does not log: only block 0,0,0 does; do not mix logs", where
        )
    return Record(where.line, at, kind, source_line, time, thread // WARP, values)


def _check_end(lines: list[str], number: int, records: list[Record], path: str) -> None:
    if number + 1 < len(lines):
        again = "synclog start" in lines[number + 1 :]
        raise SpecError(
            "a second log starts: give one log per file" if again else "there is text after `synclog end`: remove it",
            Source(path, number + 2),
        )
    if not records:
        raise SpecError("the log has no entry: call cutlass::arch::synclog_setup() first", Source(path, number + 1))


def _not_a_record(text: str) -> str:
    if text.startswith("synclog was truncated"):
        return "the device buffer was full and entries are lost: log a smaller problem"
    return f"not an entry of a synclog: `{text[:60]}`; expected `synclog at N: KIND line=N time=N thread=... block=...`"
