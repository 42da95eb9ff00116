"""A role that polls for what never comes is stuck, whatever else stands in its loop that helps nobody."""

from __future__ import annotations

import pytest

from sm90_verify import Pipeline, barrier, check, replay_trace, role, tile, trace
from sm90_verify.engines.smt.induction import prove
from sm90_verify.engines.smt.walk import walk
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.spinning import spinning


class Between(Pipeline):
    """`between` is what stands between two tests of a barrier on which nobody arrives."""

    trips = 1
    between = "read"
    full = barrier(arrivals=1, slots=1)
    buffer = tile(bytes=1024, slots=1)

    @role(warps=1)
    def poller(self):
        for _ in self.forever():
            if (yield self.full.test_wait(0)):
                break
            if self.between == "read":
                yield self.buffer.read()
            elif self.between == "fence":
                yield self.fence_proxy_async()
            elif self.between == "groups":
                yield self.bulk_wait(0)
            elif self.between == "warp":
                yield self.warp_sync()
            elif self.between == "alone at a barrier":
                yield self.named_arrive(1, 32)
            elif self.between.startswith("with"):
                yield self.buffer.read()
                yield self.named_sync(1, 64)
                yield self.fence_proxy_async()

    @role(warps=1)
    def other(self):
        if self.between.startswith("with"):
            for _ in self.forever():
                if self.between == "with another poller" and (yield self.full.test_wait(0)):
                    break
                yield self.named_sync(1, 64)


WORDS = ("read", "fence", "groups", "warp", "alone at a barrier", "with another poller")


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("between", WORDS)
def test_a_loop_around_a_test_that_fails_for_ever(between, reduced):
    result = check(Between(between=between), reduced=reduced, engine="search")
    found = next(finding for finding in result.findings if finding.id == "deadlock")
    assert found.verdict == VIOLATED and found.trace is not None
    stuck = [(entry.role, entry.waits_for) for entry in found.trace.blocked]
    assert stuck == [("poller", "full"), ("other", "full")][: 1 + between.startswith("with")]
    assert replay_trace(Between(between=between), found.trace).verdict == VIOLATED


@pytest.mark.parametrize("between", WORDS)
def test_induction_does_not_prove_it(between):
    """The rest of the answer is a search for a schedule to a state in which nobody can do anything: there is none."""
    proof = prove(compile_kernel(trace(Between(between=between))), depth=4)
    assert (
        proof.verdicts["deadlock"] == UNDETERMINED
        and "nothing can happen but tests that fail" in proof.reasons["deadlock"]
    )
    assert {verdict for id, verdict in proof.verdicts.items() if id != "deadlock"} == {PROVED}


def test_walks_end_when_they_find_nothing_new():
    """A step that cannot be taken is not waited for: 400 walks would be some 400,000 steps."""
    found = walk(compile_kernel(trace(Between(between="read"))), seconds=1e9)
    assert not all(found.taken) and sum(found.taken) < 40_000


@pytest.mark.parametrize("reduced", [True, False])
def test_who_lets_another_go_on_for_ever_does_not_spin(reduced):
    """The other role goes on only because the poller meets it in each round."""
    result = check(Between(between="with a worker"), reduced=reduced, engine="search")
    assert next(finding.verdict for finding in result.findings if finding.id == "deadlock") == PROVED


class TwoFlags(Pipeline):
    """A loop around a test that fails for ever and what passes at once in each round but the first: `seen`."""

    trips = 1
    seen = "test"
    comes = False
    full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()
        if self.comes:
            yield self.full[1].arrive()

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            first = True
            if self.seen == "test":
                first = yield self.full[0].test_wait(0)
            elif self.seen == "wait":
                yield self.full[0].wait(0)
            elif self.seen == "loop":
                for _ in self.forever():
                    if (yield self.full[0].try_wait(0)):
                        break
            if (yield self.full[1].test_wait(0)) and first:
                break


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("seen", ["test", "wait", "loop"])
def test_a_phase_that_was_seen_before_is_nothing_new(seen, reduced):
    result = check(TwoFlags(seen=seen), reduced=reduced, engine="search")
    assert result.trace.property == "deadlock"
    assert [(entry.role, entry.waits_for) for entry in result.trace.blocked] == [("consumer", "full[1]")]
    right = check(TwoFlags(seen=seen, comes=True), reduced=reduced, engine="search")
    assert next(finding.verdict for finding in right.findings if finding.id == "deadlock") == PROVED


class EachForTheOther(Pipeline):
    """Each tests what the other one does afterwards; `first` begins."""

    trips = 1
    begins = False
    mine = barrier(arrivals=1, slots=1)
    yours = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def first(self):
        if self.begins:
            yield self.yours.arrive()
        for _ in self.forever():
            if (yield self.mine.test_wait(0)):
                break
            yield self.fence_proxy_async()
            yield self.warp_sync()
        if not self.begins:
            yield self.yours.arrive()

    @role(warps=1)
    def second(self):
        for _ in self.forever():
            if (yield self.yours.test_wait(0)):
                break
            yield self.fence_proxy_async()
        yield self.mine.arrive()


@pytest.mark.parametrize("engine", ["search", "smt"])
def test_who_is_let_go_on_is_not_stuck(engine):
    result = check(EachForTheOther(begins=True), engine=engine)
    assert next(finding.verdict for finding in result.findings if finding.id == "deadlock") == PROVED


def test_both_are_stuck_at_their_tests():
    trace_ = check(EachForTheOther(), engine="search").trace
    assert [(entry.role, entry.waits_for) for entry in trace_.blocked] == [("first", "mine"), ("second", "yours")]


class Endless(Pipeline):
    """No test, a test once, tests in a loop before the work, and a test on the way of work."""

    tests = ""
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)
    buffer = tile(bytes=1024, slots=1)

    @role(warps=1)
    def worker(self):
        if self.tests == "once":
            yield self.full.test_wait(0)
        if self.tests == "before":
            for _ in self.forever():
                if (yield self.full.test_wait(0)):
                    break
                yield self.warp_sync()
        for _ in self.forever():
            if self.tests == "at work":
                yield self.full.test_wait(1)
                yield self.empty.arrive()
                yield self.empty.wait(0)
                yield self.empty.arrive()
                yield self.empty.wait(1)
            yield self.buffer.read()
            yield self.warp_sync()

    @role(warps=1)
    def other(self):
        if self.tests == "before":
            yield self.full.arrive()


@pytest.mark.parametrize("tests", ["", "once", "before", "at work"])
def test_an_endless_program_is_no_deadlock(tests):
    result = check(Endless(tests=tests), engine="search")
    assert next(finding.verdict for finding in result.findings if finding.id == "deadlock") == PROVED


@pytest.mark.parametrize(
    ("pipeline", "roles"),
    [
        (Between(between="read"), {"poller": {"test_wait", "read"}}),
        (
            Between(between="with another poller"),
            {"poller": {"test_wait", "read", "bar.sync", "fence.proxy.async"}, "other": {"test_wait", "bar.sync"}},
        ),
        (Between(between="with a worker"), {"poller": {"test_wait"}}),
        (Endless(tests=""), {}),
        (Endless(tests="once"), {"worker": {"test_wait"}}),
        (Endless(tests="at work"), {"worker": {"test_wait"}}),
    ],
)
def test_what_spins(pipeline, roles):
    machine = compile_kernel(trace(pipeline))
    found: dict[str, set[str]] = {}
    for index in spinning(machine):
        action = machine.actions[index]
        found.setdefault(action.role, set()).add(action.op)
    said = {
        role: {word for word in words if any(word in op for op in found.get(role, ()))} for role, words in roles.items()
    }
    assert set(found) == set(roles) and said == roles


class Chooses(Pipeline):
    """What a role chooses between its tests helps nobody, unless it can leave the loop so."""

    how = "looks"
    full = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def poller(self):
        for _ in self.forever():
            if self.how == "only chooses":
                yield self.choose("nothing", True, False)
                continue
            chosen = yield self.choose(self.how, True, False)
            if self.how == "leaves" and chosen:
                break
            if (self.how != "looks" or chosen) and (yield self.full.test_wait(0)):
                break


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize(("how", "verdict"), [("looks", VIOLATED), ("works", VIOLATED), ("leaves", PROVED)])
def test_a_choice_between_tests_is_no_going_on(how, verdict, reduced):
    result = check(Chooses(how=how), reduced=reduced)
    found = next(finding for finding in result.findings if finding.id == "deadlock")
    assert found.verdict == verdict


def test_a_loop_of_choices_alone_is_no_spinning():
    assert not spinning(compile_kernel(trace(Chooses(how="only chooses"))))


class Watches(Pipeline):
    """One role goes from phase to phase and looks at a flag, another one waits for the same phase again and again."""

    full = barrier(arrivals=1, slots=1)
    stop = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def follows(self, at):
        yield self.full.wait(at.phase)
        yield self.stop.test_wait(0)

    @role(warps=1)
    def stays(self):
        for _ in self.forever():
            yield self.full.wait(0)
            if (yield self.stop.test_wait(0)):
                break


def test_a_wait_for_the_next_phase_is_a_step():
    machine = compile_kernel(trace(Watches(trips="forever")))
    spun = {(machine.actions[index].role, machine.actions[index].object) for index in spinning(machine)}
    assert spun == {("follows", "stop"), ("stays", "stop"), ("stays", "full")}
