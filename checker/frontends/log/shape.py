"""What the program of each warp must look like, whatever the order of the warps: rules that need no replay.

wgmma is collective (9.7.15): the four warps of a warpgroup execute the same fences, wgmmas, commits and waits, on
the same descriptors. fence.mbarrier_init covers the earlier inits of its own thread only (9.7.13.4). A
PipelineState moves by one stage (sm90_pipeline.hpp:188-200): a role that alone produces or consumes for a ring
visits its stages in turn, treats the first lap of each stage alike, and a producer_tail (sm90_pipeline.hpp:448-454)
drains all stages or, if there is none, no stage.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable, RecoveredArray, RecoveredRing
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.frontends.log.usage import COPY_ARRIVAL, WAITS, WGMMA
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

COLLECTIVE = ("warpgroup_arrive", "warpgroup_commit_batch", "warpgroup_wait", *WGMMA)
WARPS_PER_GROUP = WARPGROUP // WARP
RARE = 3
"""Who does something this many times less often than another does it in that one's place: a warp, or at a bar.sync a
group of warps.
"""
WarpEntries = dict[int, list[int]]
"""By warp, its entries in program order."""


def check_before(records: Sequence[Record], program: WarpEntries, table: BarrierTable) -> None:
    """The rules that hold whatever the replay finds; raises Unexplained."""
    check_collectives(records, program)
    check_init_fences(records, program, table)


def check_after(
    records: Sequence[Record], program: WarpEntries, table: BarrierTable, observed: dict[tuple[int, int], int]
) -> None:
    """The rules about pipelines; `observed`: (warp, barrier) -> last phase that the warp has waited for."""
    for ring in table.rings:
        if ring.empty is not None:
            check_stage_order(records, program, ring)
            check_first_lap(records, table, ring)
            check_bystanders(records, program, ring)
            check_strangers(records, program, ring)
            check_copies(records, program, ring, table)
        elif ring.pipeline == "OrderedSequenceBarrier":
            check_turns(records, program, ring)
    check_tail(program, table, observed)


def check_collectives(records: Sequence[Record], program: WarpEntries) -> None:
    """Every warp of a warpgroup executes the same wgmma instructions on the same operands."""
    groups = dict.fromkeys(
        w // WARPS_PER_GROUP for w in program if any(records[i].kind in COLLECTIVE for i in program[w])
    )
    for group in groups:
        warps = range(WARPS_PER_GROUP * group, WARPS_PER_GROUP * (group + 1))
        own = {w: [i for i in program.get(w, ()) if records[i].kind in COLLECTIVE] for w in warps}
        texts = {w: [(records[i].kind, records[i].values) for i in own[w]] for w in warps}
        if all(texts[w] == texts[warps[0]] for w in warps):
            continue
        step = 0
        while len({texts[w][step] if step < len(texts[w]) else None for w in warps}) == 1:
            step += 1
        votes = Counter(texts[w][step] if step < len(texts[w]) else None for w in warps)
        usual = votes.most_common(1)[0][0]
        odd = next(w for w in warps if (texts[w][step] if step < len(texts[w]) else None) != usual)
        at = own[odd][step] if step < len(own[odd]) else (program[odd][-1] if program.get(odd) else own[warps[0]][step])
        what = _text(texts[odd][step]) if step < len(texts[odd]) else "no more"
        raise Unexplained(
            "deadlock",
            f"warp {odd} executes {what} where the other warps of warpgroup {group} execute "
            f"{_text(usual) if usual else 'no more'}: the instruction needs all four warps",
            at,
            tuple(own[w][step] for w in warps if w != odd and step < len(own[w]))[:2],
        )


def _text(entry: tuple[str, tuple[int, ...]]) -> str:
    kind, values = entry
    return f"{kind}({', '.join(map(str, values))})"


def check_init_fences(records: Sequence[Record], program: WarpEntries, table: BarrierTable) -> None:
    """An init is followed by a fence.mbarrier_init of the same thread before it first synchronises.

    A log of a single CTA without any such fence is accepted: the generic proxy alone does not need it.
    """
    if not table.cluster and all(record.kind != "fence_barrier_init" for record in records):
        return
    for indices in program.values():
        kinds = [records[i].kind for i in indices]
        pending: list[int] = []
        following: int | None = None
        for index, kind in zip(indices, kinds, strict=True):
            if kind == "cluster_barrier_init":
                pending.append(index)
            elif kind == "fence_barrier_init":
                pending = []
            elif pending:
                following = index
                break
        if pending:
            raise Unexplained(
                "barrier-init",
                f"{table.name[records[pending[0]].values[0]]} is initialised, and its thread goes on without "
                "fence.mbarrier_init: other threads and the TMA unit may not see it",
                pending[0],
                () if following is None else (following,),
            )


# ---------------------------------------------------------------- pipelines


def _waits_on(records: Sequence[Record], indices: list[int], array: RecoveredArray) -> list[tuple[int, int]]:
    """(entry, stage) of the waits on an array, a try_wait and the wait that finishes it counted once."""
    stage = {address: n for n, address in enumerate(array.addresses)}
    found: list[tuple[int, int]] = []
    previous: tuple[int, int] | None = None
    for index in indices:
        record = records[index]
        if record.kind in WAITS and record.values[0] in stage:
            key = (record.values[0], record.values[1])
            if key != previous:
                found.append((index, stage[record.values[0]]))
            previous = key
    return found


def check_stage_order(records: Sequence[Record], program: WarpEntries, ring: RecoveredRing) -> None:
    """A warp that acquires or consumes every phase of a ring waits for its stages in turn."""
    assert ring.empty is not None
    roles = [(w, ring.empty) for w in _fillers(ring)]
    arrivals = ring.empty.arrivals
    if arrivals is not None and arrivals.logged == len(ring.empty.arrivers):
        roles += [(w, ring.full) for w in ring.full.waiters]
    for warp, array in roles:
        waits = _waits_on(records, program[warp], array)
        for (before, one), (index, other) in itertools.pairwise(waits):
            if other != (one + 1) % len(array.addresses):
                raise Unexplained(
                    "phase-lapped",
                    f"warp {warp} waits for stage {other} of {ring.name} after stage {one}: a pipeline state "
                    "moves by one stage, so a stage is left out or taken twice",
                    index,
                    (before,),
                )


def _fillers(ring: RecoveredRing) -> tuple[int, ...]:
    """The warps that wait until each stage is empty, every time: the only one, or all that arrive in every phase."""
    assert ring.empty is not None
    arrivals = ring.full.arrivals
    if len(ring.empty.waiters) == 1:
        return ring.empty.waiters
    every = arrivals is not None and arrivals.logged + arrivals.leaders == len(ring.full.arrivers)
    return tuple(w for w in ring.empty.waiters if every and w in ring.full.arrivers)


def check_turns(records: Sequence[Record], program: WarpEntries, ring: RecoveredRing) -> None:
    """A group of an OrderedSequenceBarrier (sm90_pipeline.hpp:1320-1345) passes the turn on once per turn.

    The first group need not wait for its first turn.
    """
    for warp, indices in program.items():
        arrivals, waits = 0, 0
        for index in indices:
            record = records[index]
            if record.values and record.values[0] in ring.full.addresses:
                waits += record.kind == "cluster_barrier_wait"
                arrivals += record.kind == "cluster_barrier_arrive"
                if arrivals > waits + 1:
                    raise Unexplained(
                        "arrival-count",
                        f"warp {warp} passes the turn of {ring.name} on for the {arrivals}. time and has waited for it "
                        f"{waits} times",
                        index,
                        (),
                    )


def check_first_lap(records: Sequence[Record], table: BarrierTable, ring: RecoveredRing) -> None:
    """A producer either acquires all stages in the first lap, where the wait passes on the fresh barrier, or none."""
    assert ring.empty is not None
    first: dict[tuple[int, ...], tuple[int, bool]] = {}
    waited: set[tuple[int, int]] = set()
    for index, record in enumerate(records):
        if record.kind in WAITS:
            waited.add((record.warp, record.values[0]))
        elif record.kind == "tma_load" and record.values[1] in ring.full.addresses:
            acquired = (record.warp, table.partner[record.values[1]]) in waited
            first.setdefault(record.values[1:], (index, acquired))
    if any(acquired for _, acquired in first.values()):
        for (full, _), (index, acquired) in first.items():
            if not acquired:
                raise Unexplained(
                    "race",
                    f"the first load for {table.name[full]} is issued without producer_acquire, with which the other "
                    "stages are loaded",
                    index,
                    (),
                )


def check_bystanders(records: Sequence[Record], program: WarpEntries, ring: RecoveredRing) -> None:
    """Who waits for a stage to be empty fills it: the ring does not wait for any other warp, and can lap it."""
    assert ring.empty is not None
    for warp in ring.empty.waiters:
        own = [records[index] for index in program[warp]]
        if not any(
            a in ring.full.addresses for r in own for a in r.values[: 2 if r.kind == "tma_load" else 1] if fills(r)
        ):
            raise Unexplained(
                "phase-lapped",
                f"warp {warp} waits for a stage of {ring.name} to be empty and never fills one: nothing keeps the "
                "barrier from being two phases ahead of it",
                next(
                    i
                    for i in program[warp]
                    if records[i].kind in WAITS and records[i].values[0] in ring.empty.addresses
                ),
                (),
            )


def check_strangers(records: Sequence[Record], program: WarpEntries, ring: RecoveredRing) -> None:
    """If the warps that arrive at the full barriers acquire the stages, one that hardly ever does either is a
    stranger.
    """
    assert ring.empty is not None
    arrivals = {
        w: [i for i in program[w] if "_barrier_arrive" in records[i].kind and _at(records[i], ring)]
        for w in ring.full.arrivers
    }
    producers = [len(arrivals[w]) for w in arrivals if w in ring.empty.waiters]
    for warp, own in arrivals.items():
        if producers and warp not in ring.empty.waiters and own and len(own) * RARE <= min(producers):
            raise Unexplained(
                "arrival-count",
                f"warp {warp} arrives for a stage of {ring.name} {len(own)} times and never acquires one, in the "
                "place of a warp that does",
                own[0],
                (),
            )


def check_copies(records: Sequence[Record], program: WarpEntries, ring: RecoveredRing, table: BarrierTable) -> None:
    """A warp that fills stages by cp.async acquires a stage, copies, makes its phase wait for the copies, and arrives,
    which with .noinc is one.

    The copies themselves are not logged (memory_sm80.h logs its own, not those of CuTe): they lie between the wait for
    the empty stage and cp.async.mbarrier.arrive.
    """
    assert ring.empty is not None
    stages = dict(zip(ring.full.addresses, ring.empty.addresses, strict=True))
    for warp, indices in program.items():
        own = [i for i in indices if records[i].values]
        if not any(records[i].kind == COPY_ARRIVAL and records[i].values[0] in stages for i in own):
            continue
        acquired: set[int] = set()
        copied: set[int] = set()
        arrived: set[int] = set()
        first_lap = _acquires_at_first(records, own, stages)
        for index in own:
            kind, address = records[index].kind, records[index].values[0]
            if kind in WAITS and address in ring.empty.addresses:
                acquired.add(ring.full.addresses[ring.empty.addresses.index(address)])
            elif address not in stages:
                continue
            elif kind == COPY_ARRIVAL:
                if address not in acquired and (address in arrived or first_lap):
                    raise Unexplained(
                        "race",
                        f"warp {warp} copies to the stage of {table.name[address]} by cp.async and has not waited "
                        "until it is empty, as it does for the others",
                        index,
                        (),
                    )
                copied.add(address)
                if address not in table.delayed:
                    arrived.add(address)
                    acquired.discard(address)
            elif "_arrive" in kind and address in table.delayed:
                if address not in copied:
                    raise Unexplained(
                        "stale-read",
                        f"warp {warp} arrives for the stage of {table.name[address]} without cp.async.mbarrier.arrive, "
                        "with which it arrives for the others: the phase does not wait for its copies",
                        index,
                        (),
                    )
                arrived.add(address)
                acquired.discard(address)
                copied.discard(address)


def _acquires_at_first(records: Sequence[Record], own: list[int], stages: dict[int, int]) -> bool:
    """Whether the warp acquires stages also in the first lap, where they are empty: it waits before its first copy."""
    for index in own:
        if records[index].kind == COPY_ARRIVAL and records[index].values[0] in stages:
            return False
        if records[index].kind in WAITS and records[index].values[0] in stages.values():
            return True
    return False


def _at(record: Record, ring: RecoveredRing) -> bool:
    plain = "expect_tx" not in record.kind
    return plain and record.values[0] in ring.full.addresses


def fills(record: Record) -> bool:
    """Whether the entry is a producer's: a load, an expect or an arrival."""
    return record.kind == "tma_load" or "arrive" in record.kind or "expect" in record.kind


def check_tail(program: WarpEntries, table: BarrierTable, observed: dict[tuple[int, int], int]) -> None:
    """A producer that waits for the last release of some stages waits for that of all; peers may still signal the
    others.
    """
    for ring in table.rings:
        if ring.empty is None:
            continue
        for warp in _fillers(ring):
            _check_tail_of(warp, ring, program, table, observed)


def _check_tail_of(
    warp: int, ring: RecoveredRing, program: WarpEntries, table: BarrierTable, observed: dict[tuple[int, int], int]
) -> None:
    assert ring.empty is not None
    left = {}
    for address in ring.empty.addresses:
        completed = max((p + 1 for (_, a), p in observed.items() if a == table.partner[address]), default=0)
        left[address] = completed - 1 - observed.get((warp, address), -1)
    behind = [address for address, count in left.items() if count > 0]
    if behind and len(behind) < sum(observed.get((warp, a), -1) >= 0 or a in behind for a in left):
        raise Unexplained(
            "exit-hazard",
            f"warp {warp} exits without waiting for the last release of {table.name[behind[0]]}, although it "
            "waits for that of other stages: the producer_tail is cut short",
            program[warp][-1],
            (),
        )
