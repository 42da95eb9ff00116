"""Logs of kernels that were never recorded: a small machine runs warp programs under random schedules and logs them as
CUTLASS would, with any delay between an operation and its entry. Every such log is a legal behaviour and must be
accepted.

The machine's mbarrier is written here from the PTX text, not taken from the spec, so that the two are compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from sm90_verify.frontends.log.check import check_records
from sm90_verify.frontends.log.synclog import LENGTH, Record

FULL, EMPTY, C_FULL, C_EMPTY = 1024, 2048, 4096, 5120
TILE, A_BYTES, B_BYTES, C_BYTES = 32768, 8192, 16384, 4096
BEFORE = {
    "cluster_barrier_wait",
    "cluster_barrier_try_wait",
    "syncthreads",
    "fence_barrier_init",
    "fence_view_async_shared",
    "tma_load",
    "tma_store",
    "tma_store_arrive",
    "warpgroup_arrive",
    "warpgroup_wait",
    "warpgroup_commit_batch",
    "wgmma_smem_smem",
    "named_barrier_arrive",
}
Op = tuple[str, tuple[int, ...]]


@dataclass
class Mbarrier:
    count: int
    pending: int
    tx: int = 0
    phase: int = 0

    def settle(self) -> None:
        assert self.pending >= 0
        if self.pending == 0 and self.tx == 0:
            self.pending, self.phase = self.count, self.phase + 1


@dataclass
class Machine:
    """Runs warp programs. An operation is two steps, its effect and its entry, in the order in which CUTLASS has
    them.
    """

    programs: dict[int, Iterator[Op]]
    lanes: dict[int, int]
    """Barrier address -> threads per arrival of a warp."""
    box: dict[int, int]
    rng: random.Random
    others: int = 0
    """Arrivals per phase of the empty barriers that come from CTAs that do not log."""
    barriers: dict[int, Mbarrier] = field(default_factory=dict)
    flying: list[tuple[int, int]] = field(default_factory=list)
    named: dict[int, list[int]] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    synced: set[int] = field(default_factory=set)
    log: list[Record] = field(default_factory=list)
    tried: dict[int, bool] = field(default_factory=dict)

    def run(self) -> tuple[Record, ...]:
        current = {warp: self.steps(warp, program) for warp, program in self.programs.items()}
        idle = 0
        while current:
            choices = [*current, *range(-1, -1 - len(self.flying), -1)]
            pick = self.rng.choice(choices)
            idle += 1
            if pick < 0:
                full, size = self.flying.pop(-1 - pick)
                self.barriers[full].tx -= size
                self.barriers[full].settle()
                idle = 0
                continue
            # A warp often runs for a while: delays between the entries of different warps are what is to be tested.
            for _ in range(self.rng.choice((1, 1, 2, 5, 20))):
                progress = next(current[pick], None)
                if progress is None:
                    del current[pick]
                    idle = 0
                    break
                if not progress:
                    break
                idle = 0
            assert idle < 20_000, "the simulated kernel hangs"
        return tuple(self.log)

    def steps(self, warp: int, program: Iterator[Op]) -> Iterator[bool]:
        for kind, values in program:
            if kind in BEFORE:
                self.append(warp, kind, values)
                yield True
                yield from self.effect(warp, kind, values)
            else:
                yield from self.effect(warp, kind, values)
                self.append(warp, kind, values)
                yield True
        self.left[warp] = 1
        self.programs.pop(warp)

    def append(self, warp: int, kind: str, values: tuple[int, ...]) -> None:
        at = self.log[-1].at + LENGTH[self.log[-1].kind] if self.log else 1
        time = 10**18 + 32 * len(self.log)
        self.log.append(Record(len(self.log) + 2, at, kind, 1, time, warp, values))

    def effect(self, warp: int, kind: str, values: tuple[int, ...]) -> Iterator[bool]:
        if kind == "cluster_barrier_init":
            self.barriers[values[0]] = Mbarrier(values[1], values[1])
        elif kind == "cluster_barrier_wait":
            while self.barriers[values[0]].phase % 2 == values[1]:
                yield False
        elif kind == "cluster_barrier_try_wait":
            passes = self.barriers[values[0]].phase % 2 != values[1]
            self.tried[warp] = passes and self.rng.random() < 0.8
        elif kind in ("cluster_barrier_arrive", "cluster_barrier_arrive_cluster"):
            if kind == "cluster_barrier_arrive" or values[2]:
                barrier = self.barriers[values[0]]
                barrier.pending -= self.lanes[values[0]]
                if self.others and values[0] in range(EMPTY, EMPTY + 512) and barrier.pending == self.others:
                    barrier.pending = 0
                barrier.settle()
        elif kind.endswith("arrive_and_expect_tx"):
            self.barriers[values[0]].tx += values[1]
            self.barriers[values[0]].pending -= 1
            self.barriers[values[0]].settle()
        elif kind.endswith("expect_transaction"):
            self.barriers[values[0]].tx += values[1]
        elif kind == "tma_load":
            self.flying.append((values[1], self.box[values[0]]))
        elif kind.startswith("named_barrier_arrive"):
            arrived = self.named.setdefault(values[1], [])
            arrived.append(warp)
            generation = self.left.setdefault(1000 + values[1], 0)
            if 32 * len(arrived) == values[0]:
                self.left[1000 + values[1]] += 1
                arrived.clear()
            while kind == "named_barrier_arrive_and_wait" and self.left[1000 + values[1]] == generation:
                yield False
        elif kind == "syncthreads":
            self.synced.add(warp)
            while not self.synced >= set(self.programs):
                yield False
        yield True


# ---------------------------------------------------------------- kernels


@dataclass(frozen=True)
class Shape:
    """A kernel: stages, k tiles per tile, tiles, consumer warpgroups, and the habits in which kernels differ."""

    stages: int
    k_tiles: int
    tiles: int = 1
    groups: int = 1
    slots: int = 2
    tokens: bool = True
    first_lap: bool = True
    tail: bool = True
    c_stages: int = 0
    early_exit: bool = False


def position(k: int, stages: int) -> tuple[int, int]:
    return k % stages, k // stages % 2


def kernel(shape: Shape, rng: random.Random) -> Machine:
    warps = {0: producer(shape), **{w: idle(shape, w) for w in (1, 2, 3)}}
    if shape.c_stages:
        warps[2] = c_producer(shape)
    for group in range(shape.groups):
        for warp in range(4):
            warps[4 + 4 * group + warp] = consumer(shape, group, warp)
    lanes = {EMPTY + 8 * s: 32 for s in range(shape.stages)}
    lanes |= {a + 8 * s: 32 for s in range(shape.c_stages) for a in (C_FULL, C_EMPTY)}
    machine = Machine({}, lanes, {1: A_BYTES, 2: B_BYTES, 3: C_BYTES}, rng)
    machine.programs = {w: resolve(machine, w, program) for w, program in warps.items()}
    return machine


def resolve(machine: Machine, warp: int, program: Iterator[Op]) -> Iterator[Op]:
    """Drops the wait that finishes a try_wait if that one returned true."""
    for kind, values in program:
        if kind != "finish":
            yield kind, values
        elif not machine.tried[warp]:
            yield "cluster_barrier_wait", values


def start(initialise: bool, shape: Shape) -> Iterator[Op]:
    if initialise:
        for s in range(shape.stages):
            yield "cluster_barrier_init", (FULL + 8 * s, 1)
            yield "cluster_barrier_init", (EMPTY + 8 * s, 128 * shape.groups)
        for s in range(shape.c_stages):
            yield "cluster_barrier_init", (C_FULL + 8 * s, 32)
            yield "cluster_barrier_init", (C_EMPTY + 8 * s, 128 * shape.groups)
        yield "fence_barrier_init", ()
    yield "syncthreads", ()


def idle(shape: Shape, warp: int) -> Iterator[Op]:
    if not (shape.early_exit and warp == 3):
        yield from start(False, shape)


def producer(shape: Shape) -> Iterator[Op]:
    yield from start(True, shape)
    total = shape.k_tiles * shape.tiles
    for k in range(total):
        s, phase = position(k, shape.stages)
        if k >= shape.stages or shape.first_lap:
            yield "cluster_barrier_wait", (EMPTY + 8 * s, phase ^ 1)
        yield "cluster_transaction_barrier_arrive_and_expect_tx", (FULL + 8 * s, A_BYTES + B_BYTES)
        yield "tma_load", (1, FULL + 8 * s, 65536 + A_BYTES * s)
        yield "tma_load", (2, FULL + 8 * s, 131072 + B_BYTES * s)
    for k in range(total, total + shape.stages * shape.tail):
        s, phase = position(k, shape.stages)
        yield "cluster_barrier_wait", (EMPTY + 8 * s, phase ^ 1)


def c_producer(shape: Shape) -> Iterator[Op]:
    yield from start(False, shape)
    total = shape.tiles * 4
    for k in range(total + shape.c_stages):
        s, phase = position(k, shape.c_stages)
        yield "cluster_barrier_wait", (C_EMPTY + 8 * s, phase ^ 1)
        if k < total:
            yield "tma_load", (3, C_FULL + 8 * s, 16384 + C_BYTES * s)
            yield "cluster_transaction_barrier_expect_transaction", (C_FULL + 8 * s, C_BYTES)
            yield "cluster_barrier_arrive_cluster", (C_FULL + 8 * s, 0, 1)


def consumer(shape: Shape, group: int, warp: int) -> Iterator[Op]:
    yield from start(False, shape)
    g = k = 0
    lag = int(shape.stages > 1)
    for _tile in range(shape.tiles):
        for step in range(shape.k_tiles):
            s, phase = position(k, shape.stages)
            if shape.tokens:
                yield "cluster_barrier_try_wait", (FULL + 8 * s, phase)
                yield "finish", (FULL + 8 * s, phase)
            else:
                yield "cluster_barrier_wait", (FULL + 8 * s, phase)
            yield "warpgroup_arrive", ()
            for part in (0, 32):
                yield "wgmma_smem_smem", (65536 + A_BYTES * s + part, 131072 + B_BYTES * s + part)
            yield "warpgroup_commit_batch", ()
            yield "warpgroup_wait", (lag,)
            if step >= lag:
                yield "cluster_barrier_arrive_cluster", (EMPTY + 8 * position(k - lag, shape.stages)[0], 0, 1)
            k += 1
        if lag:
            yield "warpgroup_wait", (0,)
            yield "cluster_barrier_arrive_cluster", (EMPTY + 8 * position(k - 1, shape.stages)[0], 0, 1)
        for _subtile in range(4):
            if shape.c_stages:
                s, phase = position(g, shape.c_stages)
                yield "cluster_barrier_wait", (C_FULL + 8 * s, phase)
                yield "fence_view_async_shared", ()
                yield "cluster_barrier_arrive_cluster", (C_EMPTY + 8 * s, 0, 1)
            yield "fence_view_async_shared", ()
            yield "named_barrier_arrive_and_wait", (128 * shape.groups, 1)
            if warp == 0 and group == 0:
                yield "tma_store", (9, 1 << 15 | 4096 * (g % shape.slots))
                yield "tma_store_arrive", ()
                yield "tma_store_wait", (shape.slots - 1,)
            yield "named_barrier_arrive_and_wait", (128 * shape.groups, 1)
            g += 1
    yield "tma_store_wait", (0,)


SHAPES = (
    Shape(1, 3, tokens=False),
    Shape(2, 5, tiles=2),
    Shape(2, 1, tiles=5, first_lap=False),
    Shape(3, 7, groups=2, slots=1, tail=False),
    Shape(4, 9, tiles=2, groups=2, c_stages=3),
    Shape(7, 3, c_stages=2, early_exit=True),
    Shape(5, 12, tiles=3, groups=3, slots=3, c_stages=1, first_lap=False, tail=False),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_schedule_of_a_correct_kernel_is_accepted(shape: Shape) -> None:
    for seed in range(12):
        records = kernel(shape, random.Random(seed)).run()
        result = check_records(records, "log")
        assert result.verdict == "allowed", (seed, result.trace)
        rows = {(row.ring, row.part): row for row in result.recovered.barriers}
        assert rows["mainloop", "full"].stages == shape.stages
        assert rows["mainloop", "full"].phases == shape.k_tiles * shape.tiles
        assert rows["mainloop", "empty"].lanes == 32
