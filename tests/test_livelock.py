"""Roles that poll for what never comes: they are stuck, though they never stand still."""

from __future__ import annotations

import json

import pytest

from checker.check import check_pipeline
from checker.cli import main
from checker.result import PROVED, VIOLATED
from checker.search import explore
from spec.compile import compile_pipeline
from spec.pipeline import Pipeline, barrier, role, tile


class Polls(Pipeline):
    """One of two arrivals comes."""

    arrivals = 2
    full = barrier(arrivals="arrivals")

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=4)
    def consumer(self):
        for _ in self.forever():
            if (yield self.full.try_wait(0)):
                break


class PollsTwoInTurn(Pipeline):
    second = 2
    one = barrier(arrivals=2)
    other = barrier(arrivals="second")

    @role(warps=1)
    def producer(self):
        yield self.one.arrive()
        yield self.other.arrive()

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            if (yield self.one.test_wait(0)):
                break
            if (yield self.other.test_wait(0)):
                break


class PollEachOther(Pipeline):
    """Each waits for the other's arrival before its own, unless one arrives first."""

    first = False
    a = barrier(arrivals=1)
    b = barrier(arrivals=1)

    @role(warps=1)
    def one(self):
        if self.first:
            yield self.a.arrive()
        for _ in self.forever():
            if (yield self.b.try_wait(0)):
                break
        if not self.first:
            yield self.a.arrive()

    @role(warps=1)
    def two(self):
        for _ in self.forever():
            if (yield self.a.try_wait(0)):
                break
        yield self.b.arrive()


class PollsWhileOthersGoOn(Pipeline):
    """Two roles play ping-pong for ever; a third polls a barrier on which one of them arrives, or nobody."""

    arrives = False
    ping = barrier(arrivals=1)
    pong = barrier(arrivals=1)
    done = barrier(arrivals=1)

    @role(warps=1)
    def one(self, at):
        if self.arrives and at.count == 0:
            yield self.done.arrive()
        yield self.ping.arrive()
        yield self.pong.wait(at.phase)

    @role(warps=1)
    def two(self, at):
        yield self.ping.wait(at.phase)
        yield self.pong.arrive()

    @role(warps=1)
    def watcher(self):
        for _ in self.forever():
            if (yield self.done.try_wait(0)):
                break


class PollsForACopy(Pipeline):
    """The copy lands while everybody polls; `bytes` less than expected never complete the phase."""

    expected = 64
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(self.expected)
        yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            if (yield self.full.try_wait(0)):
                break


class WorksWhilePolling(Pipeline):
    """What is done between two tests is progress."""

    full = barrier(arrivals=1)
    tick = barrier(arrivals=1)

    @role(warps=1)
    def consumer(self, at):
        yield self.full.test_wait(0)
        yield self.tick.arrive()
        yield self.tick.wait(at.phase)


class GivesUp(Pipeline):
    """A test that fails, and the role ends."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def consumer(self):
        yield self.full.test_wait(0)


BROKEN = [
    (Polls(), ("consumer",)),
    (PollsTwoInTurn(), ("consumer",)),
    (PollEachOther(), ("one", "two")),
    (PollsWhileOthersGoOn(trips="forever"), ("watcher",)),
    (PollsForACopy(expected=128), ("consumer",)),
]
RIGHT = [
    Polls(arrivals=1),
    PollsTwoInTurn(second=1),
    PollEachOther(first=True),
    PollsWhileOthersGoOn(trips="forever", arrives=True),
    PollsForACopy(),
    WorksWhilePolling(trips="forever"),
    GivesUp(),
]


@pytest.mark.parametrize(("pipeline", "stuck"), BROKEN, ids=lambda one: getattr(one, "name", ""))
def test_who_polls_for_ever_is_stuck(pipeline, stuck):
    machine = compile_pipeline(pipeline)
    assert explore(machine).violations["deadlock"].stuck == stuck
    assert "deadlock" in explore(machine, reduced=True).violations
    result = check_pipeline(pipeline, command="spec")
    assert next(one.verdict for one in result.findings if one.id == "deadlock") == VIOLATED


@pytest.mark.parametrize("pipeline", RIGHT, ids=lambda one: one.name)
def test_who_can_still_pass_or_do_something_else_is_not(pipeline):
    machine = compile_pipeline(pipeline)
    assert explore(machine).violations == {}
    assert explore(machine, reduced=True).violations == {}
    assert check_pipeline(pipeline, command="spec").verdict == PROVED


@pytest.mark.parametrize(("pipeline", "stuck"), BROKEN[:3], ids=lambda one: getattr(one, "name", ""))
def test_z3_does_not_prove_it(pipeline, stuck):
    result = check_pipeline(pipeline, command="spec", engine="smt", timeout=3)
    assert next(one.verdict for one in result.findings if one.id == "deadlock") != PROVED


def test_z3_proves_a_poll_that_ends():
    assert check_pipeline(Polls(arrivals=1), command="spec", engine="smt").verdict == PROVED


def test_the_trace_shows_where_nobody_can_do_anything_and_replays(tmp_path, capsys):
    path = tmp_path / "polls.py"
    path.write_text(
        "from spec.pipeline import Pipeline, barrier, role\n"
        "class Polls(Pipeline):\n"
        "    full = barrier(arrivals=2)\n"
        "    @role(warps=1)\n"
        "    def producer(self):\n"
        "        yield self.full.arrive()\n"
        "    @role(warps=1)\n"
        "    def consumer(self):\n"
        "        for _ in self.forever():\n"
        "            if (yield self.full.try_wait(0)):\n"
        "                break\n"
    )
    trace = tmp_path / "trace.json"
    assert main(["spec", str(path), "--format", "json", "-o", str(trace)]) == 1
    (blocked,) = json.loads(trace.read_text())["trace"]["blocked"]
    assert blocked["role"] == "consumer" and blocked["missing"] == "1 of 2 arrivals, nobody can arrive any more"
    assert main(["replay", str(trace)]) == 1
