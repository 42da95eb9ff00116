"""Two ways to compare a mutant's behaviour with its model's, by all states and by happens-before, give one answer."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.evidence.mutation.behaviour import FEWER, MORE, OPEN, OTHER, SAME, behaviour, compare
from sm90_verify.evidence.mutation.orders import Orders, compare_orders, orders, runs_of
from sm90_verify.evidence.mutation.score import INDISTINGUISHABLE, by_order, by_states, compiled, original
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.result import PROVED
from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

MODELS = {
    "tma-async": (Model(TmaAsync, {"stages": 2, "consumers": 1}, thin=True), {FEWER, MORE, SAME, OTHER, "accesses"}),
    "async": (Model(Async, {"stages": 2, "consumers": 1}, thin=True), {FEWER, MORE, SAME, "accesses"}),
    "ordered-sequence": (Model(OrderedSequence, {"stages": 2}, thin=True), {FEWER, SAME, "accesses"}),
    "mainloop": (Model(Mainloop, {"stages": 2, "k_tiles": 3}, thin=True), {FEWER, MORE, SAME, OTHER, "accesses"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_all_states_and_happens_before_agree(name):
    """But for changes of where a role starts: none is proved, and some take long to be refused."""
    model, expected = MODELS[name]
    found = set()
    for mutant in mutants_of(model):
        if mutant.operator == "start":
            continue
        try:
            machine, kernel, program = compiled(mutant.of(model))
            if program == original(model).program or order(kernel).verdict != PROVED:
                continue
        except SpecError:
            continue
        states, (runs, trips) = by_states(model, machine, kernel.programs), by_order(model, kernel)
        assert runs == (SAME if states == INDISTINGUISHABLE else states) != OPEN, mutant.text
        assert trips == 5
        found.add(runs)
    assert found == expected


class Copies(Pipeline):
    """Two copies, and a read of something else after `waits` of them, or after their issue."""

    waits = 0
    issued = False
    landed = barrier(arrivals=1, slots=2)
    told = barrier(arrivals=1)
    x = tile(bytes=128, slots=2)
    y = tile(bytes=128)

    @role(threads=1)
    def producer(self):
        for slot in range(2):
            yield self.landed[slot].arrive_expect_tx(128)
            yield self.x[slot].load(self.landed[slot], tag=1)
        yield self.told[0].arrive()

    @role(warps=1)
    def reader(self):
        for slot in range(self.waits):
            yield self.landed[slot].wait(0)
        if self.issued:
            yield self.told[0].wait(0)
        yield self.y[0].read()
        for slot in range(self.waits, 2):
            yield self.landed[slot].wait(0)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ({}, {"issued": True}, FEWER),
        ({"waits": 1}, {"waits": 2}, FEWER),
        ({"issued": True}, {"waits": 1, "issued": True}, FEWER),
        ({"waits": 2, "issued": True}, {"waits": 1, "issued": True}, MORE),
        ({"waits": 1}, {"issued": True}, OTHER),
        ({"waits": 2}, {"waits": 2, "issued": True}, SAME),
    ],
)
def test_starts_and_ends_of_copies(first, second, answer):
    found, names = [], {}
    pipelines = [Copies(**one) for one in (first, second)]
    machines = [compile_kernel(trace(pipeline)) for pipeline in pipelines]
    for pipeline, machine, other in zip(pipelines, machines, reversed(machines), strict=True):
        found.append(behaviour(machine, trace(pipeline).programs, "memory", other, 20_000, names))
    assert compare(found[0], found[1], 20_000) == answer
    assert compare_orders(*(orders(runs_of(trace(one), 3), "memory") for one in pipelines)) == answer


def test_runs_for_one_trip_count_more():
    ring = TmaAsync(stages=1)
    assert len(runs_of(trace(ring), 3)) == 5


def run_of(*labels, before=()):
    """One role that accesses these; before: what is before each."""
    return Orders((labels,), tuple(before) or (0,) * len(labels))


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        ([run_of("a", "b")], [run_of("a", "b")], SAME),
        ([run_of("a", "b")], [run_of("b", "a")], OTHER),
        ([run_of("a", "b", before=(0, 1))], [run_of("a", "b", before=(0, 3))], FEWER),
        ([run_of("a", "b", before=(0, 3))], [run_of("a", "b", before=(0, 1))], MORE),
        ([run_of("a", "b", before=(0, 2))], [run_of("a", "b", before=(0, 1))], OTHER),
        ([run_of(), run_of("a"), run_of("a", "a")], [run_of("a"), run_of("a", "a"), run_of(*"aaa")], FEWER),
        ([run_of("a"), run_of("a", "a"), run_of(*"aaa")], [run_of(), run_of("a"), run_of("a", "a")], MORE),
        ([run_of("a"), run_of("a", "a")], [run_of("b"), run_of("a", "a")], OTHER),
    ],
)
def test_orders_are_compared(first, second, answer):
    assert compare_orders(tuple(first), tuple(second)) == answer


class Peeks(Pipeline):
    """What the role does depends on the schedule, or what is read does."""

    asks = True
    b = barrier(arrivals=1)
    x = tile(bytes=128)

    @role(warps=1)
    def reader(self):
        if self.asks:
            yield self.b[0].try_wait(0)
        yield self.x[0].read()

    @role(warps=1)
    def writer(self):
        yield self.b[0].arrive()
        if not self.asks:
            yield self.x[0].write(tag=1)


@pytest.mark.parametrize("asks", [False, True])
def test_one_run_that_does_not_speak_for_all_is_not_compared(asks):
    pipeline = Peeks(asks=asks)
    assert runs_of(trace(pipeline), 1) is None
