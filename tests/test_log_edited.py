"""One edit of a real log, or of a simulated kernel, for each rule that the random edits do not reach."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from log_edits import records_of, renumbered, with_value
from short_logs import MATH, assert_violated
from test_log_machine import Shape, idle, kernel, producer

from sm90_verify.frontends.log.check import check_records
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.result import Result


def edited(log: str, edit: Callable[[list[Record]], None]) -> Result:
    records = list(records_of(log))
    edit(records)
    return check_records(renumbered(records), "edited.log")


# ---------------------------------------------------------------- simulated kernels


def test_load_that_nobody_waits_for_is_under_way_at_the_exit() -> None:
    shape = Shape(2, 4, tail=False)
    machine = kernel(shape, random.Random(1))
    assert check_records(machine.run(), "log").verdict == "allowed"
    machine = kernel(shape, random.Random(1))
    machine.programs[0] = producer(Shape(2, 5, tail=False))
    assert_violated(check_records(machine.run(), "log"), "exit-hazard", "no warp waits for phase 2")


def test_idle_warps_are_optional() -> None:
    machine = kernel(Shape(2, 3), random.Random(2))
    for warp in (1, 2, 3):
        del machine.programs[warp]
    assert check_records(machine.run(), "log").verdict == "allowed"
    assert list(idle(Shape(2, 3, early_exit=True), 3)) == []


# ---------------------------------------------------------------- edits of real logs


def first(records: list[Record], kind: str, **where: int) -> int:
    """The first entry of a kind, by that warp or at that address if they are given."""
    return next(
        i
        for i, r in enumerate(records)
        if r.kind == kind
        and where.get("warp", r.warp) == r.warp
        and ("address" not in where or r.values[0] == where["address"])
    )


def test_load_that_goes_elsewhere_leaves_old_bytes() -> None:
    def edit(records: list[Record]) -> None:
        loads = [i for i, r in enumerate(records) if r.kind == "tma_load"]
        second = next(i for i in loads if records[i].values == records[loads[0]].values and i != loads[0])
        records[second] = with_value(records[second], "smem_int_ptr", 1 << 19)

    assert_violated(edited("ws", edit), "stale-read", "should have delivered")


def test_read_after_the_release() -> None:
    def edit(records: list[Record]) -> None:
        release = first(records, "cluster_barrier_arrive_cluster", warp=5)
        entry = records.pop(release)
        wait = first(records, "cluster_barrier_try_wait", warp=5)
        after = next(i for i in range(wait + 1, len(records)) if records[i].warp == 5)
        records.insert(after, replace(entry, time=records[after].time))

    assert_violated(edited("ws", edit), "race", "after warp 5 has released it")


def test_operand_outside_all_loads() -> None:
    def edit(records: list[Record]) -> None:
        for warp in MATH:
            i = first(records, "wgmma_smem_smem", warp=warp)
            records[i] = with_value(records[i], "desc_a_smem_int_ptr", (1 << 18) - 16)

    assert_violated(edited("ws", edit), "stale-read", "where no load of this log writes")


def test_order_that_orders_nothing() -> None:
    def edit(records: list[Record]) -> None:
        i = first(records, "cluster_barrier_wait", warp=2)
        records[i] = with_value(records[i], "phase", 1)

    assert_violated(edited("coop", edit), "phase-lapped", "the arrivals order nothing")


def test_bystander_at_an_empty_barrier() -> None:
    def edit(records: list[Record]) -> None:
        i = first(records, "cluster_barrier_wait", warp=2)
        records[i] = with_value(records[i], "smem_addr", 1080)

    assert_violated(edited("pp", edit), "phase-lapped", "never fills one")


def test_stranger_at_a_full_barrier() -> None:
    def edit(records: list[Record]) -> None:
        own = [i for i, r in enumerate(records) if r.kind == "cluster_barrier_arrive_cluster" and r.warp == 0]
        records[own[1]] = replace(records[own[1]], warp=3)

    assert_violated(edited("ws_2x1", edit), "arrival-count", "never acquires one")


def test_arrival_before_the_init() -> None:
    def edit(records: list[Record]) -> None:
        used = next(r.values[0] for r in records if r.kind == "cluster_barrier_arrive")
        i = first(records, "cluster_barrier_init", address=used)
        entry = records.pop(i)
        records.append(replace(entry, warp=1))
        records.append(replace(entry, warp=1, kind="fence_barrier_init", values=()))

    assert_violated(edited("coop_void", edit), "barrier-init", "used before it is initialised")


@pytest.mark.parametrize("log", ["ws", "pp"])
def test_log_that_is_cut_off_is_not_accepted(log: str) -> None:
    records = records_of(log)
    cuts = range(1, len(records), len(records) // 20)
    verdicts = [check_records(records[:n], "cut.log").verdict for n in cuts]
    assert set(verdicts) == {"undetermined", "violated"}
