"""What a log would show of a kernel that lacks one arrival: all that can still happen, and nothing behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from log_edits import renumbered

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import recover

EXPECTS = "expect"


def hung(records: Sequence[Record], dropped: int) -> tuple[Record, ...]:
    """The log without the entry `dropped`, an arrival, and without all that then cannot happen. Copies land at once,
    and other CTAs do their part.
    """
    table = recover(records)
    programs: dict[int, list[int]] = {}
    for index, record in enumerate(records):
        if index != dropped:
            programs.setdefault(record.warp, []).append(index)
    at, done = Counter[int](), []
    arrived: Counter[int] = Counter()
    bytes: Counter[int] = Counter()
    gone: dict[object, int] = {}

    def phases(address: int) -> int:
        arrivals = table.array[address].arrivals
        assert arrivals is not None
        complete = arrived[address] // max(1, arrivals.logged * arrivals.lanes + arrivals.leaders)
        return complete if bytes[address] <= 0 or table.cluster else complete - 1

    def passes(record: Record) -> bool:
        return bool(phases(record.values[0]) & 1) != bool(record.values[1])

    def can(record: Record, warp: int) -> bool:
        """Whether the entry before this one, a wait, has passed, and whether all have come to a bar.sync."""
        before = records[programs[warp][at[warp] - 1]] if at[warp] else None
        if before is not None and _blocks(warp) and not passes(before):
            return False
        if before is not None and before.kind == "syncthreads":
            return all(_syncs(other) >= _syncs(warp) for other in programs)
        if record.kind == "named_barrier_arrive_and_wait":
            key = record.values
            here = [w for w in programs if at[w] < len(programs[w]) and records[programs[w][at[w]]].values == key]
            ready = [w for w in here if records[programs[w][at[w]]].kind == record.kind and _passed(w)]
            return 32 * len(ready) >= key[0] or gone.get((warp, key, at[warp])) is not None
        return True

    def _passed(warp: int) -> bool:
        before = records[programs[warp][at[warp] - 1]] if at[warp] else None
        return before is None or not _blocks(warp) or passes(before)

    def _blocks(warp: int) -> bool:
        """Whether the warp's last entry is a wait, or a try_wait that no wait follows."""
        own = [records[index] for index in programs[warp][at[warp] - 1 :]]
        if own[0].kind == "cluster_barrier_try_wait":
            return len(own) < 2 or own[1].kind != "cluster_barrier_wait" or own[1].values != own[0].values
        return own[0].kind == "cluster_barrier_wait"

    def _syncs(warp: int) -> int:
        return sum(records[index].kind == "syncthreads" for index in programs[warp][: at[warp]])

    moved = True
    while moved:
        moved = False
        for warp in sorted(programs, key=lambda w: programs[w][at[w]] if at[w] < len(programs[w]) else len(records)):
            if at[warp] == len(programs[warp]):
                continue
            index = programs[warp][at[warp]]
            record = records[index]
            if not can(record, warp):
                continue
            if record.kind == "named_barrier_arrive_and_wait" and (warp, record.values, at[warp]) not in gone:
                for other, own in programs.items():
                    if at[other] < len(own) and records[own[at[other]]].values == record.values:
                        gone[other, record.values, at[other]] = 1
            _signal(record, table, arrived, bytes)
            at[warp] += 1
            done.append(index)
            moved = True
            break
    found = [records[index] for index in done]
    for warp, program in programs.items():
        last = records[program[at[warp] - 1]]
        if at[warp] < len(program) and last.kind == "cluster_barrier_try_wait" and not passes(last):
            found.append(replace(last, kind="cluster_barrier_wait"))
    return renumbered(found)


def _signal(record: Record, table, arrived: Counter[int], bytes: Counter[int]) -> None:
    if "barrier_arrive" in record.kind and record.kind.startswith("cluster"):
        is_expect = EXPECTS in record.kind
        if not is_expect and len(record.values) == 3 and (record.values[1] or not record.values[2]):
            return
        arrived[record.values[0]] += 1 if is_expect else table.array[record.values[0]].arrivals.lanes
    if EXPECTS in record.kind:
        bytes[record.values[0]] += record.values[1]
    if record.kind == "tma_load":
        bytes[record.values[1]] -= table.box_bytes[record.values[0]]
