"""A trace on another pipeline than the one that it was found on, and a trace that says what was not done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sm90_verify import Pipeline, barrier, check, replay_trace, role, tile, trace
from sm90_verify.counterexample.afterwards import wait_for_ever
from sm90_verify.counterexample.trace import initial_state
from sm90_verify.result import UNDETERMINED, VIOLATED
from sm90_verify.spec.model.compile import compile_kernel


class Handoff(Pipeline):
    """Of two arrivals one never comes, unless it is mended: by the producer later, or by a role of its own."""

    trips = 1
    mended = ""
    full = barrier(arrivals=2, slots=1)
    other = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()
        if self.mended == "later":
            yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        if self.mended == "behind":
            yield self.other.arrive()

    @role(warps=1)
    def helper(self):
        if self.mended == "helper":
            yield self.full.arrive()
        if self.mended == "behind":
            yield self.other.wait(0)


def found(**parameters):
    trace_ = check(Handoff(**parameters)).trace
    assert trace_ is not None and trace_.property == "deadlock"
    return trace_


@pytest.mark.parametrize("mended", ["later", "helper"])
def test_who_waits_at_the_end_and_can_go_on_is_not_stuck(mended):
    result = replay_trace(Handoff(mended=mended), found())
    assert result.verdict == UNDETERMINED
    assert result.findings[0].note == "the trace can be executed, but consumer can go on after it"


def test_who_waits_for_those_who_wait_too_is_stuck():
    result = replay_trace(Handoff(mended="behind"), found(mended="behind"))
    assert [entry.role for entry in result.trace.blocked] == ["consumer", "helper"]


@pytest.mark.parametrize("property", ["race", "phase-lapped", "anything"])
def test_a_wait_for_ever_is_a_deadlock_and_nothing_else(property):
    assert replay_trace(Handoff(), replace(found(), property=property)).verdict == UNDETERMINED


def test_starved_from_the_first_phase_on_is_what_the_end_shows():
    assert replay_trace(Handoff(), replace(found(), property="arrival-count")).verdict == VIOLATED
    swapped = check(Swapped()).trace
    assert swapped.property == "deadlock"
    assert replay_trace(Swapped(), replace(swapped, property="arrival-count")).verdict == UNDETERMINED


class Swapped(Pipeline):
    """Each role waits for the other one first."""

    trips = 1
    mine = barrier(arrivals=1, slots=1)
    yours = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def first(self):
        yield self.mine.wait(0)
        yield self.yours.arrive()

    @role(warps=1)
    def second(self):
        yield self.yours.wait(0)
        yield self.mine.arrive()


class Races(Pipeline):
    trips = 1
    x = tile(bytes=64, slots=1)

    @role(warps=1)
    def writer(self):
        yield self.x.write()

    @role(warps=1)
    def reader(self):
        yield self.x.read()


@pytest.mark.parametrize("kernel", [Handoff, Races])
def test_what_a_replay_tells_is_the_machines(kernel):
    """Of a file that somebody has edited, no word is repeated as if it had been executed."""
    honest = check(kernel()).trace
    steps = [replace(step, op="foo", object="bar", line=1, changes={"x.y": "1->2"}) for step in honest.steps]
    blocked = [replace(entry, missing="the moon", waits_for="nothing") for entry in honest.blocked]
    edited = replace(honest, because="the moon is full", steps=tuple(steps), blocked=tuple(blocked), next=())
    assert replay_trace(kernel(), edited).trace == honest


class GivesUp(Handoff):
    """The consumer tests once, and goes on whatever comes."""

    @role(warps=1)
    def consumer(self):
        yield self.full.test_wait(0)
        yield self.other.arrive()


class Again(Handoff):
    """The barrier that the consumer waits on is made anew, for one arrival."""

    @role(warps=1)
    def helper(self):
        yield self.full.inval()
        yield self.full.init(1)


def ahead(pipeline, waits, most=20_000):
    machine = compile_kernel(trace(pipeline))
    return wait_for_ever(machine, initial_state(machine), waits, most)


def test_whether_somebody_waits_for_ever():
    assert ahead(Handoff(), ["producer"]) == ahead(GivesUp(), ["consumer"]) == "no"
    assert ahead(Handoff(), ["consumer"]) == "yes"


def test_too_much_may_follow_to_say():
    """Unless nobody else could bring what is missing."""
    assert ahead(Handoff(), ["consumer"], most=1) == "open"
    assert ahead(Swapped(), ["first", "second"], most=1) == "yes"
    assert ahead(Again(), ["consumer"], most=1) == "open"
