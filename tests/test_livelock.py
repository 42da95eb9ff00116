"""Roles that poll for what never comes: they are stuck, though they never stand still."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.counterexample.trace import initial_state
from sm90_verify.counterexample.waiting import reproduces
from sm90_verify.engines.check import check, check_machine
from sm90_verify.engines.search import engine as search_engine
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.explore import Search, explore
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Blocked, Trace
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field, Lit

HERE = Source("here.py", 1)


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
    result = check(pipeline, command="spec")
    assert next(one.verdict for one in result.findings if one.id == "deadlock") == VIOLATED


@pytest.mark.parametrize("pipeline", RIGHT, ids=lambda one: one.name)
def test_who_can_still_pass_or_do_something_else_is_not(pipeline):
    machine = compile_kernel(trace(pipeline))
    assert explore(machine).violations == {}
    assert explore(machine, reduced=True).violations == {}
    assert check(pipeline, command="spec").verdict == PROVED


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
        result = check(Polls(), command="spec", properties=("deadlock",))
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
    (blocked,) = check(PollsForACopy(expected=128), command="spec").findings[0].trace.blocked
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


# ---------------------------------------------------------------- by hand: who can still take a step, and from where


def by_hand(roles, actions, variables=()):
    counters = tuple(Variable(role.counter, 4, 0, "", kind="location", role=role.name) for role in roles)
    return Machine("hand", {}, (*counters, *variables), tuple(roles), tuple(actions), (), ("deadlock", "race"))


def line(name, places, final=False):
    locations = tuple(Location(str(i), "", HERE, final=final and i == places - 1) for i in range(places))
    return Role(name, f"at.{name}", locations, 1)


def step(name, role, frm, to, guard=TRUE, updates=(), fails=False, checks=()):
    return Action(name, role, name, "", frm, to, guard, tuple(updates), tuple(checks), HERE, fails)


def who_takes_the_token(passes):
    """Two interchangeable roles; who takes the token polls at 2, the other goes round from 0 to 3: its place among the
    two changes with every step.
    """
    token, opened = Field("token", 1), Field("opened", 1)
    actions = []
    for name in "ab":
        actions += [
            step(f"{name} takes", name, 0, 2, token == 1, [("token", Lit(0, 1))]),
            step(f"{name} goes", name, 0, 3, token == 0),
            step(f"{name} comes back", name, 3, 0, updates=[("opened", Lit(1, 1))]),
            step(f"{name} fails", name, 2, 2, opened == 0 if passes else TRUE, fails=True),
            *([step(f"{name} passes", name, 2, 0, opened == 1)] if passes else []),
        ]
    variables = [Variable("token", 1, 1, ""), Variable("opened", 1, 0, "")]
    return by_hand([line("a", 4), line("b", 4)], actions, variables)


def test_who_polls_among_interchangeable_roles():
    assert all(len(find_groups(who_takes_the_token(passes))) == 1 for passes in (False, True))
    for reduced in (False, True):
        assert len(explore(who_takes_the_token(False), reduced=reduced).violations["deadlock"].stuck) == 1
        assert not explore(who_takes_the_token(True), reduced=reduced).violations


def test_a_failing_test_that_leads_to_the_end_is_a_step_and_one_that_leads_back_is_not():
    back = [step("fails", "a", 0, 0, fails=True), step("on", "b", 0, 1), step("off", "b", 1, 0)]
    goes_on = line("b", 2)
    assert explore(by_hand([line("a", 2, final=True), goes_on], back)).violations["deadlock"].stuck == ("a",)
    ends = [*back, step("gives up", "a", 0, 1, fails=True)]
    assert not explore(by_hand([line("a", 2, final=True), goes_on], ends)).violations
    real = [*back, step("does", "a", 0, 0)]
    assert not explore(by_hand([line("a", 1), goes_on], real)).violations


def test_the_state_in_which_nobody_can_do_anything_is_shown_before_one_in_which_some_go_on():
    """After one step b can only fail while a goes on; after two more, a can only fail as well."""
    actions = [
        step("b starts", "b", 0, 1),
        step("b fails", "b", 1, 1, fails=True),
        step("a goes", "a", 0, 1),
        step("a comes back", "a", 1, 0),
        step("a leaves", "a", 1, 2),
        step("a fails", "a", 2, 2, fails=True),
    ]
    found = explore(by_hand([line("a", 3), line("b", 2)], actions)).violations["deadlock"]
    assert found.stuck == ("a", "b") and len(found.actions) == 3


def test_a_poll_for_ever_is_shown_before_a_state_without_successors_that_takes_more_steps():
    actions = [
        step("starts to poll", "a", 0, 1),
        step("fails", "a", 1, 1, fails=True),
        *(step(f"walks from {place}", "a", place, place + 1) for place in (2, 3)),
        step("starts to walk", "a", 0, 2),
    ]
    found = explore(by_hand([line("a", 5)], actions)).violations["deadlock"]
    assert found.actions == (0,)


def test_a_trace_is_of_a_deadlock_if_those_that_it_calls_blocked_can_do_nothing_but_fail():
    def holds(*actions):
        machine = by_hand([line("a", 2, final=True)], actions)
        blocked = Blocked("a", "x", "", "", "here.py", 1)
        return reproduces(machine, initial_state(machine), Trace("deadlock", "", (), (blocked,)))

    fails = step("fails", "a", 0, 0, fails=True)
    assert holds(fails) and holds()
    assert not holds(fails, step("gives up", "a", 0, 1, fails=True))
    assert not holds(fails, step("does", "a", 0, 0))
    assert holds(fails, step("passes", "a", 0, 1, FALSE))


def test_who_can_run_only_by_a_step_that_is_not_followed_is_not_stuck():
    """What follows the step is undefined: it may be what the role waits for."""
    halts = Check("race", TRUE, "wrong", "x", halts=True)
    actions = [
        step("goes", "a", 0, 1),
        step("comes back", "a", 1, 0),
        step("opens", "a", 0, 2, checks=[halts]),
        step("waits", "b", 0, 1, FALSE),
    ]
    machine = by_hand([line("a", 3), line("b", 2)], actions)
    found = explore(machine)
    assert found.complete and set(found.violations) == {"race"} and found.halted == ["race"]
    verdicts = {one.id: one.verdict for one in check_machine(machine, command="spec").findings}
    assert verdicts == {"race": VIOLATED, "deadlock": UNDETERMINED}


class ExpectsLater(Pipeline):
    """Somebody is about to expect bytes where those of the second copy are in flight: in the same phase, or later."""

    arrivals = 1
    full = barrier(arrivals="arrivals")
    go = barrier(arrivals=1)
    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.expect_tx(64)
        yield self.full.arrive()
        yield self.a.load(signals=self.full)
        yield self.go.arrive()

    @role(warps=1)
    def two(self):
        yield self.full.arrive_expect_tx(64)
        yield self.b.load(signals=self.full)

    @role(warps=1)
    def looks(self):
        yield self.go.wait(0)
        yield self.full.test_wait(0)


@pytest.mark.parametrize("arrivals", [1, 2])
def test_copies_land_where_bytes_are_about_to_be_expected_only_if_no_arrival_is_pending(arrivals):
    machine = compile_kernel(trace(ExpectsLater(arrivals=arrivals)))
    assert any(info.balanced for info in machine.structure.barriers)

    def states(drained=None):
        packed = pack(machine, exchange=True)
        if drained is not None:
            packed = packed._replace(drained=tuple((lambda state: drained) for _ in packed.drained))
        search = Search(packed, SearchBounds(), False)
        search.reduced = True
        return search.run().states

    if arrivals == 1:
        assert states(False) < states() == states(True)
    else:
        assert states(False) == states() < states(True)
