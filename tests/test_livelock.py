"""Roles that poll for what never comes: they are stuck, though they never stand still."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.engines.search import engine as search_engine
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


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


class PollsBeforeTheLast(Pipeline):
    """Nobody stands at the barrier of the copy in flight until a poll of another barrier ends, which its landing does
    not bring about. `arrivals`: 2, of which one comes.
    """

    arrivals = 2
    full = barrier(arrivals=1)
    go = barrier(arrivals="arrivals")
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.go.arrive()

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            if (yield self.go.test_wait(0)):
                break
        for _ in self.forever():
            if (yield self.full.try_wait(0)):
                break


class ManyPoll(Pipeline):
    """Interchangeable roles that poll the same barrier, each of whom could bring the last arrival."""

    arrivals = 3
    full = barrier(arrivals="arrivals")

    @role(warps=1, copies=3)
    def worker(self):
        yield self.full.arrive()
        for _ in self.forever():
            if (yield self.full.try_wait(0)):
                break


class PollsInTheLoop(Pipeline):
    """How often the loop goes round is a decision, and so is its end: nobody is stuck there."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def consumer(self):
        for _ in self.loop():
            yield self.full.try_wait(0)


BROKEN = [
    (PollsBeforeTheLast(), ("consumer",), 4),
    (ManyPoll(arrivals=4), ("worker0", "worker1", "worker2"), 3),
    (Polls(), ("consumer",), 1),
    (PollsTwoInTurn(), ("consumer",), 2),
    (PollEachOther(), ("one", "two"), 0),
    (PollsWhileOthersGoOn(trips="forever"), ("watcher",), 0),
    (PollsForACopy(expected=128), ("consumer",), 3),
]
"""With who is stuck, and after how many steps at least nothing but failing tests is left to them."""
RIGHT = [
    PollsBeforeTheLast(arrivals=1),
    ManyPoll(),
    PollsInTheLoop(trips="all"),
    Polls(arrivals=1),
    PollsTwoInTurn(second=1),
    PollEachOther(first=True),
    PollsWhileOthersGoOn(trips="forever", arrives=True),
    PollsForACopy(),
    WorksWhilePolling(trips="forever"),
    GivesUp(),
]


@pytest.mark.parametrize(("pipeline", "stuck", "steps"), BROKEN, ids=lambda one: getattr(one, "name", ""))
def test_who_polls_for_ever_is_stuck(pipeline, stuck, steps):
    machine = compile_kernel(trace(pipeline))
    found = explore(machine).violations["deadlock"]
    assert found.stuck == stuck and len(found.actions) == steps
    assert "deadlock" in explore(machine, reduced=True).violations
    result = check(pipeline, command="spec", engine="search")
    assert next(one.verdict for one in result.findings if one.id == "deadlock") == VIOLATED


@pytest.mark.parametrize("pipeline", RIGHT, ids=lambda one: one.name)
def test_who_can_still_pass_or_do_something_else_is_not(pipeline):
    machine = compile_kernel(trace(pipeline))
    assert explore(machine).violations == {}
    assert explore(machine, reduced=True).violations == {}
    assert check(pipeline, command="spec", engine="search").verdict == PROVED


@pytest.mark.parametrize("pipeline", [one for one, _, _ in BROKEN[2:5]], ids=lambda one: one.name)
def test_z3_does_not_prove_it(pipeline):
    result = check(pipeline, command="spec", engine="smt", timeout=3)
    assert next(one.verdict for one in result.findings if one.id == "deadlock") != PROVED


def test_z3_says_why_it_does_not_prove_it_and_that_it_knows_nothing_of_arrivals_that_never_come():
    """What search says of arrival-count follows from the deadlock: who does not find it cannot deny it."""
    found = {one.id: one for one in check(Polls(), command="spec", engine="smt", timeout=2).findings}
    assert found["deadlock"].note.startswith("the invariant does not rule out a state in which nothing can happen but")
    assert found["arrival-count"].verdict == UNDETERMINED and "nobody can bring" in found["arrival-count"].note
    alone = check(Polls(), command="spec", engine="smt", timeout=2, properties=("arrival-count",))
    assert [(one.id, one.verdict) for one in alone.findings] == [("arrival-count", UNDETERMINED)]
    both = check(Polls(), command="spec", engine="search+smt", timeout=2)
    assert {one.id: one.verdict for one in both.findings}["arrival-count"] == VIOLATED


@pytest.mark.parametrize("pipeline", [Polls(arrivals=1), WorksWhilePolling(trips="forever")], ids=lambda one: one.name)
def test_z3_proves_who_is_not_stuck(pipeline):
    assert check(pipeline, command="spec", engine="smt").verdict == PROVED


def test_z3_proves_that_arrivals_come_where_nobody_is_stuck():
    alone = check(Polls(arrivals=1), command="spec", engine="smt", properties=("arrival-count",))
    assert [(one.id, one.verdict) for one in alone.findings] == [("arrival-count", PROVED)]


def test_a_violation_that_only_the_reduced_search_finds_counts_until_the_whole_search_is_complete(monkeypatch):
    def verdict():
        result = check(Polls(), command="spec", properties=("deadlock",), engine="search")
        return result.findings[0].verdict

    with monkeypatch.context() as patched:
        patched.setattr(search_engine, "REFINED", 1)
        assert verdict() == VIOLATED

    def without_it(machine, *, reduced=False, **bounds):
        found = explore(machine, reduced=reduced, **bounds)
        if not reduced:
            found.violations.clear()
        return found

    monkeypatch.setattr(search_engine, "explore", without_it)
    assert verdict() == PROVED


def test_a_copy_in_flight_lands_when_nothing_is_left_but_failing_tests():
    """What is still expected where the consumer is stuck is what no copy brings; until then the copy is left to land
    later, though a test fails.
    """
    (blocked,) = check(PollsForACopy(expected=128), command="spec", engine="search").findings[0].trace.blocked
    assert blocked.missing == "64 bytes are still expected"
    machine = compile_kernel(trace(PollsBeforeTheLast()))
    search = Search(pack(machine, exchange=True), SearchBounds(), False)
    search.reduced = True
    search.run()
    lands = [
        place for place, action in enumerate(search.via) if action >= 0 and machine.actions[action].location is None
    ]
    counters = [search.packed.unpack(search.order[search.parent[place]])["at.producer"] for place in lands]
    (producer,) = [one for one in machine.roles if one.name == "producer"]
    assert counters and all(producer.locations[at].final for at in counters)


def test_the_trace_shows_where_nobody_can_do_anything_and_replays(tmp_path, capsys):
    path = tmp_path / "polls.py"
    path.write_text(
        "from sm90_verify import Pipeline, barrier, role\n"
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
    assert blocked["role"] == "consumer"
    assert blocked["missing"] == "1 of 2 arrivals (1 from producer), nobody can arrive any more"
    assert main(["replay", str(trace)]) == 1
