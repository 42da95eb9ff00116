"""Logs of a few entries that are written by hand, and what the log checker says of them."""

from __future__ import annotations

from log_edits import renumbered

from sm90_verify.frontends.log.check import check_records
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.result import Result

Entry = tuple[int, str, tuple[int, ...]]


def check(entries: list[Entry]) -> Result:
    return check_records(records_from(entries), "short.log")


def records_from(entries: list[Entry]) -> tuple[Record, ...]:
    return renumbered([Record(0, 0, kind, 1, 5, warp, values) for warp, kind, values in entries])


def assert_violated(result: Result, property_id: str, words: str) -> None:
    assert result.trace is not None, result.verdict
    assert (result.trace.property, words in result.trace.because) == (property_id, True), result.trace.because


MATH = (4, 5, 6, 7)


def everyone(kind: str, *values: int) -> list[Entry]:
    return [(warp, kind, values) for warp in MATH]


def one_tile(meet: bool = True, wait: bool = True) -> list[Entry]:
    """A barrier without an empty one: load, wgmma, and a second load into the same place after a bar.sync."""
    load: list[Entry] = [
        (0, "cluster_transaction_barrier_arrive_and_expect_tx", (1024, 4096)),
        (0, "tma_load", (1, 1024, 8192)),
    ]
    return [
        (0, "cluster_barrier_init", (1024, 1)),
        (0, "fence_barrier_init", ()),
        *[(warp, "syncthreads", ()) for warp in (0, *MATH)],
        *load,
        *everyone("cluster_barrier_wait", 1024, 0),
        (0, "cluster_barrier_wait", (1024, 0)),
        *everyone("warpgroup_arrive"),
        *everyone("wgmma_reg_smem", 8192),
        *everyone("warpgroup_commit_batch"),
        *(everyone("warpgroup_wait", 0) if wait else []),
        *([(w, "named_barrier_arrive_and_wait", (160, 1)) for w in (0, *MATH)] if meet else []),
        *load,
        *everyone("cluster_barrier_wait", 1024, 1),
        *everyone("warpgroup_wait", 0),
    ]
