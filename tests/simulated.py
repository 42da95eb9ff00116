"""Runs of pipelines as a GPU would have recorded them, made by random walks through their models."""

from __future__ import annotations

import random
from dataclasses import replace

from sm90_verify.engines.search.packed import pack
from sm90_verify.recordings.linearise import Linearise
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GemmPingpong
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx import operations as op

GPU = {"name": "simulated"}
PIPELINES = [
    TmaAsync(stages=2, trips=5),
    TmaAsync(stages=2, trips=3, cluster="2x1", bytes=4096),
    TransactionAsync(stages=2, trips=3),
    Async(stages=2, trips=3, consumers=2),
    TmaStore(stages=2, trips=3),
    OrderedSequence(stages=2, trips=2),
    Epilogue(schedule="cooperative", stages_c=2, stages_d=1, subtiles=2, tiles=2),
    GemmPingpong(stages=2, k_tiles=2, subtiles=2, stages_c=2, stages_d=1, tiles=2, bytes_a=4096, bytes_b=4096),
]


def simulated(plan, machine, seed):
    """A run as a GPU would have recorded it, from a random walk through the model."""
    chance = random.Random(seed)
    packed = pack(machine)
    state, now = packed.initial, 0
    names = [one.name for one in machine.roles]
    inside = {one.name: [place.kind == "inside" for place in one.locations] for one in machine.roles}
    events = {name: [] for name in names}
    began = dict.fromkeys(names, 0)
    memory, flying, stores = {}, [], {}
    nodes = {program.name: program.nodes for program in plan.programs}
    numbers = {}
    for number, key in plan.writers.items():
        numbers.setdefault(key, []).append(number)

    def words(access):
        return [memory.get((access.cta, at), 0) for at in range(access.start, access.stop, 16)]

    def fill(access, number):
        memory.update({(access.cta, at): number for at in range(access.start, access.stop, 16)})

    reads, groups, opened = {name: {} for name in names}, {name: [] for name in names}, {name: [] for name in names}
    while choices := packed.successors(state):
        index, state = chance.choice(choices)
        action, now = machine.actions[index], now + 10
        if action.location is None:
            touched = dict(action.updates)
            info = next(one for one in machine.structure.copies if one.variable in touched)
            one = next(one for one in flying if (one[0].object, one[1]) == (info.buffer, info.barrier))
            flying.remove(one)
            fill(one[0], one[2])
            continue
        name = action.role
        node = len(events[name])
        operation = nodes[name][node].operation
        if inside[name][action.target]:
            continue
        found = []
        match operation:
            case op.Load():
                (number,) = numbers[name, node]
                flying += [(access, barrier, number) for access, barrier in operation.destinations]
            case op.Touch(kind="write"):
                for access, number in zip(operation.accesses, numbers[name, node], strict=True):
                    fill(access, number)
            case op.Touch():
                found = [(access.object, min(words(access)), max(words(access))) for access in operation.accesses]
                if operation.kind == "mma":
                    opened[name] += operation.accesses
                    if operation.commit:
                        groups[name].append(opened[name])
                        opened[name] = []
            case op.Group(kind="mma_wait"):
                done = groups[name][: len(groups[name]) - operation.pending]
                groups[name] = groups[name][len(done) :]
                found = [(one.object, min(words(one)), max(words(one))) for group in done for one in group]
            case op.Store():
                for access in operation.sources:
                    stores[name, node, access] = (min(words(access)), max(words(access)))
        after = now + chance.randrange(12)
        events[name].append(Event(node, began[name], after, chance.random() < 0.2, tuple(found)))
        began[name] = now + chance.randrange(5)
    assert all(len(events[name]) == len(nodes[name]) - 1 for name in names), reads
    return GpuRun(
        False,
        tuple(RoleRun(name, -1, tuple(events[name])) for name in names),
        tuple(stores[name, node, access] for name, node, access, _ in plan.stores),
    )


def model_of(pipeline):
    plan = lower(trace(pipeline))
    return plan, Linearise(plan, compile_kernel(plan.kernel))


def changed(run, name, number, **changes):
    """The run with one event of a role changed."""
    roles = []
    for one in run.roles:
        events = list(one.events)
        if one.name == name:
            events[number] = replace(events[number], **changes)
        roles.append(replace(one, events=tuple(events)))
    return replace(run, roles=tuple(roles))


def later(run, time):
    """The run by a clock that shows so much more."""
    return replace(
        run,
        roles=tuple(
            replace(
                one,
                events=tuple(replace(each, before=each.before + time, after=each.after + time) for each in one.events),
            )
            for one in run.roles
        ),
    )


class Overwrites(Pipeline):
    """A slot is filled again before it has been read."""

    stages = 1
    full = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        for k in range(2):
            yield self.full[0].arrive_expect_tx(1024)
            yield self.a[0].load(signals=self.full[0], tag=k)
            yield self.full[0].wait(k & 1)

    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(0)
        yield self.a[0].read(tag=0)


class Simulated:
    """An executor without a GPU: every run takes the whole schedule, and finds what it is told."""

    runs = ()

    def __init__(self, plan, *, record=True):
        pass

    def run(self, runs, **options):
        assert runs == len(self.runs)
        return list(self.runs)
