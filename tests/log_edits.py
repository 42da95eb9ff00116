"""The recorded synclogs, and edits of them, each with the argument that makes it legal if there is one."""

from __future__ import annotations

import functools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from legal_edits import (
    COMMUTES,
    Log,
    why_change_is_legal,
    why_cut_is_legal,
    why_duplicate_is_legal,
    why_release_may_come_first,
    why_removal_is_legal,
)

from sm90_verify.frontends.log.synclog import FIELDS, LENGTH, Record, read_log, read_text

FOLDERS = tuple(Path(__file__).parent / "data" / name for name in ("synclog", "cutlass_h100"))
LOGS = ("coop", "coop_2x1", "coop_void", "pp", "pp_s2", "pp_void", "ws", "ws_2x1", "ws_c22", "ws_void")


def path_of(log: str) -> str:
    return str(next(path for folder in FOLDERS if (path := folder / f"{log}.log.xz").exists()))


@functools.cache
def records_of(log: str) -> tuple[Record, ...]:
    return read_log(path_of(log))


@functools.cache
def text_of(log: str) -> str:
    return read_text(path_of(log))


def config_of(log: str) -> dict[str, str]:
    """The `#` line, which only these tests read."""
    return dict(pair.split("=") for pair in text_of(log).split("\n")[0].lstrip("# ").split())


def as_text(records: Sequence[Record]) -> str:
    lines = ["synclog start"]
    for r in records:
        own = " ".join(f"{name}={value}" for name, value in zip(FIELDS[r.kind], r.values, strict=True))
        lines.append(
            f"synclog at {r.at}: {r.kind} line={r.source_line} time={r.time} thread={32 * r.warp},0,0 block=0,0,0 {own}"
        )
    return "\n".join([*lines, "synclog end", ""])


def renumbered(records: Sequence[Record]) -> tuple[Record, ...]:
    """The entries with lines and `at` as if the log had been printed so."""
    at, out = 1, []
    for number, record in enumerate(records):
        r = record
        moved = (r.line, r.at) != (number + 2, at)
        out.append(Record(number + 2, at, r.kind, r.source_line, r.time, r.warp, r.values) if moved else r)
        at += LENGTH[record.kind]
    return tuple(out)


# ---------------------------------------------------------------- edits


@dataclass(frozen=True)
class Edit:
    """An edited log: what was done to which entry, and the argument that makes it legal, if there is one."""

    kind: str
    records: tuple[Record, ...]
    index: int
    argument: str = ""


def misplaces(edit: Edit) -> bool:
    """Whether the edited entry has its barrier where no mbarrier can lie."""
    record = edit.records[edit.index]
    fields = dict(zip(FIELDS[record.kind], record.values, strict=True))
    return fields.get("smem_addr", 0) % 8 != 0 and fields.get("pred", 1) == 1


def with_value(record: Record, name: str, value: int) -> Record:
    values = list(record.values)
    values[FIELDS[record.kind].index(name)] = value
    return replace(record, values=tuple(values))


def edits_of(log_name: str, seed: int) -> Iterator[Edit]:
    """Edits that leave a well-formed log: at least 200 of each log, the same ones each time."""
    log = Log(records_of(log_name))
    rs, rng = log.records, random.Random(f"{log_name} {seed}")
    by_kind: dict[str, list[int]] = defaultdict(list)
    for index, record in enumerate(rs):
        by_kind[record.kind].append(index)
    for kind, indices in by_kind.items():
        for i in rng.sample(indices, min(3, len(indices))):
            yield Edit(f"remove {kind}", rs[:i] + rs[i + 1 :], i, why_removal_is_legal(log, i))
        for i in rng.sample(indices, min(2, len(indices))):
            yield Edit(f"duplicate {kind}", rs[: i + 1] + rs[i:], i, why_duplicate_is_legal(log, i))
        for i in rng.sample(indices, min(2, len(indices))):
            for name in FIELDS[kind]:
                for value in other_values(log, i, name, rng):
                    changed = with_value(rs[i], name, value)
                    argument = why_change_is_legal(log, i, name, value)
                    yield Edit(f"change {kind} {name}", (*rs[:i], changed, *rs[i + 1 :]), i, argument)
    yield from swaps(log, rng, 20)
    yield from moves(log, rng, 24)
    for _ in range(10):
        cut = rng.randrange(1, len(rs))
        yield Edit("cut off", rs[:cut], cut - 1, why_cut_is_legal(rs[:cut]))
    for _ in range(12):
        i = rng.randrange(len(rs))
        warp = rng.choice([w for w in log.program if w != rs[i].warp])
        legal = {
            "fence_barrier_init": why_removal_is_legal(log, i),
            "syncthreads": "",
            "fence_view_async_shared": why_removal_is_legal(log, i),
            "tma_store_wait": why_removal_is_legal(log, i),
            "syncwarp": "lanes of one warp: nothing of it is logged",
            "cluster_barrier_try_wait": why_removal_is_legal(log, i),
            "cluster_barrier_arrive_cluster": why_removal_is_legal(log, i),
            "cluster_transaction_barrier_expect_transaction": "any thread may expect the bytes",
            "cluster_transaction_barrier_arrive_and_expect_tx": "any thread may expect the bytes and arrive",
        }
        after = [r.kind for r in rs[i:] if r.warp == warp]
        needed = {"fence_barrier_init", "syncthreads"} & set(by_kind)
        if rs[i].kind == "cluster_barrier_init" and needed <= {*after}:
            legal["cluster_barrier_init"] = "any thread may initialise; its fence and __syncthreads follow"
        moved = (*rs[:i], replace(rs[i], warp=warp), *rs[i + 1 :])
        yield Edit(f"other warp {rs[i].kind}", moved, i, legal.get(rs[i].kind, ""))


def other_values(log: Log, index: int, name: str, rng: random.Random) -> list[int]:
    """Wrong values for a field, close enough to be plausible."""
    record = log.records[index]
    value = record.values[FIELDS[record.kind].index(name)]
    same = [r.values[FIELDS[r.kind].index(name)] for r in log.records if r.kind == record.kind]
    others = sorted(set(same) - {value})
    if name in ("phase", "pred"):
        return [1 - value]
    if name in ("smem_addr", "smem_int_mbar"):
        return [rng.choice([b for b in log.barriers if b != value]), value + 4]
    if name == "arrive_count":
        return [value + 1, value * 2, 0]
    if name == "transaction_bytes":
        return [value + 16, value // 2]
    if name == "num_threads":
        return [value - 32, value + 32, value + 1]
    if name == "barrier_id":
        return [value + 1, 16]
    if name in ("count", "n"):
        return [value + 1] + [value - 1] * (value > 0)
    if name == "cta_id":
        return [value + 1]
    return [rng.choice(others)] if others else []


def swaps(log: Log, rng: random.Random, number: int) -> Iterator[Edit]:
    """Neighbours within one warp trade places, times staying where they are."""
    rs = log.records
    for _ in range(number):
        own = log.program[rng.choice(list(log.program))]
        p = rng.randrange(len(own) - 1)
        one, other = rs[own[p]], rs[own[p + 1]]
        if (one.kind, one.values) == (other.kind, other.values):
            continue
        new = list(rs)
        new[own[p]], new[own[p + 1]] = replace(other, time=one.time), replace(one, time=other.time)
        argument = COMMUTES.get((one.kind, other.kind), "")
        first = all(rs[i].values[:1] != one.values[:1] for i in own[:p])
        passing = ("fence_view_async_shared", "cpasync_barrier_arrive")
        if one.kind == "cluster_barrier_wait" and other.kind in passing and one.values[1] and first:
            argument = "the wait passes on the fresh barrier and orders nothing"
        if (one.kind, other.kind) == ("syncthreads", "cluster_barrier_wait") and other.values[1]:
            own_init = any(rs[i].kind == "cluster_barrier_init" and rs[i].values[0] == other.values[0] for i in own[:p])
            if own_init:
                argument = "the wait passes on a fresh barrier that its own thread has initialised"
        if (one.kind, other.kind) == ("warpgroup_wait", "cluster_barrier_arrive_cluster"):
            argument = why_release_may_come_first(log, own[p], other.values[0])
        yield Edit(f"swap {one.kind} {other.kind}", tuple(new), own[p], argument)


def moves(log: Log, rng: random.Random, number: int) -> Iterator[Edit]:
    """An entry moves past entries of other warps, between the neighbours of its own warp.

    That is legal exactly if the windows still allow an order; the replay in `explains` is the whole argument.
    """
    rs = log.records
    for _ in range(number):
        own = log.program[rng.choice(list(log.program))]
        p = rng.randrange(len(own))
        low, high = (own[p - 1] + 1 if p else 0), (own[p + 1] - 1 if p + 1 < len(own) else len(rs) - 1)
        target = rng.choice((low, high, rng.randint(low, high)))
        if target != own[p]:
            new = list(rs[: own[p]] + rs[own[p] + 1 :])
            new.insert(target, rs[own[p]])
            yield Edit("move", tuple(new), min(own[p], target), "the windows of all effects still meet")
