"""What a run did has an order that the model allows, or the reason why there is none is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated import PIPELINES, Overwrites, changed, model_of, simulated

from sm90_verify.gpu.wrong import wrong_data
from sm90_verify.recordings.linearise import FlyingCopy, Linearise, Overlaps
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: f"{one.name}-{one.cluster}")
def test_what_the_model_did_is_allowed(pipeline):
    plan, model = model_of(pipeline)
    for seed in range(6):
        run = simulated(plan, model.machine, seed)
        order = model.order(run)
        assert order.accepted, order.because
        assert wrong_data(plan, run) == ""
        state = model.packed.initial
        for action in order.actions:
            state = dict(model.packed.successors(state))[action]
        assert model.packed.successors(state) == []


@pytest.mark.parametrize("seed", range(6))
def test_what_no_order_explains(seed):
    plan, model = model_of(TmaAsync(stages=2, trips=5))
    run = simulated(plan, model.machine, seed)
    arrive = run.roles[0].events[1]
    wait = run.roles[1].events[0]
    too_early = changed(run, "consumer", 0, before=0, after=arrive.before - 1)
    if arrive.before:
        assert model.order(too_early).property == "phase-lapped"
    read = run.roles[1].events[5]
    stale = changed(run, "consumer", 5, reads=tuple((buffer, low - 1, high) for buffer, low, high in read.reads))
    order = model.order(stale)
    assert not order.accepted and order.property == "stale-read" and "found words" in order.because
    lost = replace(run, roles=(replace(run.roles[0], events=run.roles[0].events[:-3]), run.roles[1]))
    assert wait.node == 0 and not model.order(lost).accepted
    other = model.order(changed(run, "consumer", 0, node=1))
    assert not other.accepted and "another operation" in other.because


def test_the_resolution_of_the_clock_is_allowed_for():
    pipeline = TmaAsync(stages=1, trips=1)
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    run = simulated(plan, machine, 1)
    arrive = run.roles[0].events[1]
    shifted = changed(run, "producer", 1, before=arrive.before + 300, after=arrive.after + 300)
    shifted = changed(shifted, "consumer", 0, before=0, after=arrive.after + 200)
    assert not Linearise(plan, machine).order(shifted).accepted
    assert Linearise(plan, machine, tolerance=400).order(shifted).accepted


def test_a_remote_arrival_may_take_effect_later():
    """The clock is read before it is known to have arrived."""
    plan, model = model_of(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096))
    run = simulated(plan, model.machine, 2)
    nodes = {program.name: program.nodes for program in plan.programs}
    for one in run.roles:
        for number, event in enumerate(one.events):
            operation = nodes[one.name][event.node].operation
            if isinstance(operation, op.Arrive) and operation.cta >= 0:
                run = changed(run, one.name, number, before=0, after=0)
    assert model.order(run).accepted


def test_a_run_in_which_something_is_wrong_has_no_order():
    """The second copy landed before the read, which found its words: that happened, and is a race all the same."""
    _, model = model_of(Overwrites())
    producer = [Event(node, 10 * node, 10 * node + 9, False) for node in range(6)]
    consumer = [Event(0, 0, 15, True), Event(1, 90, 99, False, (("a", 2, 2),))]
    order = model.order(
        GpuRun(False, (RoleRun("producer", -1, tuple(producer)), RoleRun("consumer", -1, tuple(consumer))))
    )
    assert not order.accepted and order.property in ("race", "stale-read")


def test_a_race_is_told_of_what_was_to_come():
    """The reader has waited for the first write, and not for the second."""

    class WritesTwice(Pipeline):
        done = barrier()
        a = tile(bytes=64)
        b = tile(bytes=64, shares="a")

        @role(warps=1)
        def writer(self):
            yield self.a.write()
            yield self.done.arrive()
            yield self.b.write()

        @role(warps=1)
        def reader(self):
            yield self.done.wait(0)
            yield self.a.read()

    _, model = model_of(WritesTwice())
    writes = [Event(node, begin, begin + 9, False) for node, begin in enumerate((0, 10, 60))]
    reads = [Event(0, 20, 29, False), Event(1, 30, 39, False, (("a", 1, 1),))]
    order = model.order(GpuRun(False, (RoleRun("writer", -1, tuple(writes)), RoleRun("reader", -1, tuple(reads)))))
    assert order.property == "race"
    assert "read of a by reader and the generic-proxy write of b by writer, which can start" in order.because


def test_a_copy_that_lands_in_pieces_is_there_with_the_last_one():
    plan, model = model_of(TmaAsync(stages=1, trips=3, bytes=64))
    run = simulated(plan, model.machine, 1)
    _, model = model_of(TmaAsync(stages=1, trips=3, bytes=64, pieces=2))
    order = model.order(run)
    kinds = [model.machine.actions[action].kind for action in order.actions]
    assert order.accepted and kinds.count("piece") == kinds.count("lands") == 3
    stale = tuple((buffer, low - 1, high) for buffer, low, high in run.roles[1].events[1].reads)
    assert model.order(changed(run, "consumer", 1, reads=stale)).property == "stale-read"


def test_a_write_replaces_all_that_it_overlaps():
    def at(start, stop, cta=0):
        return Access("x", "shared", start, stop, True, "generic", cta)

    def after(start, stop, number=4, adds=False):
        left = overlaps.landed(content, FlyingCopy("x", "", number, at(start, stop), adds))
        assert {key[0] for key in left} == {"shared", "global"} and left["global", 0, 0, 64] == 5
        return {key[1:]: value for key, value in left.items() if key[0] == "shared"}

    overlaps, content = Overlaps(), {}
    for number, written in enumerate((at(0, 64), at(64, 128), at(0, 64, cta=1)), 1):
        content = overlaps.landed(content, FlyingCopy("x", "", number, written))
    content = overlaps.landed(content, FlyingCopy("x", "", 5, at(0, 64)._replace(space="global")))
    assert after(32, 48) == {(0, 32, 48): 4, (0, 64, 128): 2, (1, 0, 64): 3}
    assert after(32, 80) == {(0, 32, 80): 4, (1, 0, 64): 3}
    assert after(64, 128) == {(0, 0, 64): 1, (0, 64, 128): 4, (1, 0, 64): 3}
    assert content["shared", 0, 0, 64] == 1
    # what is added to known words is known, and what is copied from unknown ones is not
    assert after(64, 128, adds=True) == {(0, 0, 64): 1, (0, 64, 128): 6, (1, 0, 64): 3}
    assert after(32, 128, adds=True) == {(1, 0, 64): 3}
    assert after(64, 128, number=-1) == {(0, 0, 64): 1, (1, 0, 64): 3}


def run_of(**events):
    """Per role its events: their node, when they began, when they were over, and what they found in `a`."""
    return GpuRun(
        False,
        tuple(
            RoleRun(
                role, -1, tuple(Event(node, before, after, False, tuple(reads)) for node, before, after, *reads in one)
            )
            for role, one in events.items()
        ),
    )


class Signals(Pipeline):
    done = barrier()

    @role(warps=1)
    def arriver(self):
        yield self.done.arrive()

    @role(warps=1)
    def waiter(self):
        yield self.done.wait(0)


@pytest.mark.parametrize(("over", "accepted"), [(19, False), (20, True), (21, True)])
def test_an_event_may_come_first_that_began_when_the_other_was_over(over, accepted):
    """Only what had begun strictly later is known to come later."""
    _, model = model_of(Signals())
    assert model.order(run_of(arriver=[(0, 20, 29)], waiter=[(0, 0, over)])).accepted == accepted


def test_a_write_may_take_effect_late():
    """It comes after a setmaxnreg that the model grants when the other role, at 20, has come so far; the clock does not
    wait for it.
    """

    class Hands(Pipeline):
        registers = 168
        done = barrier()
        a = tile(bytes=64)

        @role(warpgroups=1)
        def gives(self):
            yield self.done.arrive()
            yield self.setmaxnreg_dec(40)

        @role(warpgroups=1)
        def takes(self):
            yield self.setmaxnreg_inc(232)
            yield self.a.write()

    _, model = model_of(Hands())
    assert model.order(run_of(gives=[(0, 20, 29), (1, 30, 30)], takes=[(0, 0, 0), (1, 0, 9)])).accepted


class WriteBoth(Pipeline):
    """Two roles write the same bytes, in either order."""

    done = barrier(arrivals=2)
    begun = barrier(arrivals=2)
    a = tile(bytes=64)

    @role(warps=1, copies=2)
    def writer(self):
        yield self.begun.arrive()
        yield self.a.write()
        yield self.done.arrive()

    @role(warps=1)
    def reader(self):
        yield self.done.wait(0)
        yield self.a.read()


@pytest.mark.parametrize(("low", "high", "accepted"), [(1, 1, True), (2, 2, True), (1, 2, False), (3, 3, False)])
def test_orders_that_differ_only_in_what_is_left_are_told_apart(low, high, accepted):
    """The last of the writes has left its words, all of them, whichever it was."""
    _, model = model_of(WriteBoth())
    writes = [(0, 0, 99), (1, 0, 99), (2, 0, 99)]
    reads = [(0, 0, 99), (1, 0, 99, ("a", low, high))]
    assert model.order(run_of(writer0=writes, writer1=writes, reader=reads)).accepted == accepted
