"""The search on machines small enough to count by hand, and its reduction against the search without it."""

from __future__ import annotations

import pytest
from test_pipelines import BROKEN

from sm90_verify.counterexample.trace import execute, initial_state, is_enabled, make_trace, reason, shows_again, take
from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field

PIPELINES = kernels("pipeline")

HERE = Source("here.py", 1)

WITH_CONSUMERS = tuple(name for name, kernel in PIPELINES.items() if "consumers" in kernel.parameter_names())


def step(name: str, role: str, frm: int, to: int, guard: Expr = TRUE, updates=(), checks=()) -> Action:
    return Action(name, role, name, "", frm, to, guard, tuple(updates), tuple(checks), HERE)


def line(name: str, places: int, final: bool = True) -> Role:
    locations = tuple(Location(str(i), "", HERE, final=final and i == places - 1) for i in range(places))
    return Role(name, f"at.{name}", locations, 1)


def machine(roles, actions, variables=(), checks=()) -> Machine:
    counters = tuple(Variable(role.counter, 4, 0, "") for role in roles)
    return Machine(
        "hand", {}, (*counters, *variables), tuple(roles), tuple(actions), tuple(checks), ("deadlock", "race")
    )


def test_two_independent_lines_interleave():
    a, b = line("a", 3), line("b", 4)
    actions = [step(f"a{i}", "a", i, i + 1) for i in range(2)] + [step(f"b{i}", "b", i, i + 1) for i in range(3)]
    found = explore(machine([a, b], actions))
    assert (found.states, found.transitions, found.depth) == (12, 17, 5)
    assert found.complete and found.finished and not found.violations and not found.unreached


def test_the_first_violation_of_a_step_counts_the_step():
    a = line("a", 3)
    bad = Check("race", TRUE, "wrong", "x")
    found = explore(machine([a], [step("one", "a", 0, 1), step("two", "a", 1, 2, checks=[bad])]))
    assert found.violations["race"].actions == (0, 1) and found.violations["race"].by_step


def test_a_violation_of_a_state_counts_the_steps_to_it():
    a = line("a", 3)
    bad = Check("race", Field("at.a", 4) == 1, "wrong", "x")
    found = explore(machine([a], [step("one", "a", 0, 1), step("two", "a", 1, 2)], checks=[bad]))
    assert found.violations["race"].actions == (0,) and not found.violations["race"].by_step


def test_the_shortest_of_two_ways_is_found():
    a = line("a", 4)
    actions = [
        step("slow1", "a", 0, 1),
        step("slow2", "a", 1, 2),
        step("slow3", "a", 2, 3),
        step("fast", "a", 0, 3),
    ]
    bad = Check("race", Field("at.a", 4) == 3, "wrong", "x")
    assert explore(machine([a], actions, checks=[bad])).violations["race"].actions == (3,)


def test_a_halting_step_is_not_followed():
    a = line("a", 3)
    halt = Check("arrival-count", TRUE, "wrong", "x", halts=True)
    later = Check("race", Field("at.a", 4) == 2, "wrong", "x")
    found = explore(machine([a], [step("one", "a", 0, 1, checks=[halt]), step("two", "a", 1, 2)], checks=[later]))
    assert set(found.violations) == {"arrival-count"} and found.halted == ["arrival-count"]
    assert found.states == 1


def test_nothing_enabled_is_a_deadlock_of_those_who_have_not_ended():
    a, b = line("a", 2), line("b", 2)
    found = explore(machine([a, b], [step("a", "a", 0, 1), step("b", "b", 0, 1, guard=FALSE)]))
    assert found.violations["deadlock"].stuck == ("b",)
    assert found.violations["deadlock"].actions == (0,)


def test_a_role_that_is_stuck_while_another_goes_on_for_ever():
    a, b = line("a", 2, final=False), line("b", 2)
    actions = [step("round", "a", 0, 1), step("back", "a", 1, 0), step("b", "b", 0, 1, guard=FALSE)]
    found = explore(machine([a, b], actions))
    assert found.violations["deadlock"].stuck == ("b",)
    loops = explore(machine([a], actions[:2]))
    assert not loops.violations and loops.states == 2


def test_updates_read_the_state_before():
    x, y = Variable("x", 4, 1, ""), Variable("y", 4, 2, "")
    swap = step("swap", "a", 0, 1, updates=[("x", Field("y", 4)), ("y", Field("x", 4))])
    bad = Check("race", (Field("x", 4) == 2) & (Field("y", 4) == 1), "swapped", "x")
    assert explore(machine([line("a", 2)], [swap], [x, y], [bad])).violations["race"].actions == (0,)


def test_bounds_leave_the_rest_open():
    big = compile_kernel(walk.trace(PIPELINES["tma-async"](stages=2)))
    assert explore(big, limit=100).ran_out == "the limit of 100 states (--limit)"
    assert not explore(big, limit=100).complete
    assert "timeout" in explore(big, timeout=1e-9).ran_out
    assert "memory" in explore(big, memory=1).ran_out
    assert explore(big).complete


def test_a_machine_that_never_moves_proves_nothing():
    class Silent(Pipeline):
        stages = 1
        full = barrier(arrivals=1)

        @role(warps=1)
        def waits(self):
            yield self.full.wait(0)

    result = check(Silent(), command="spec")
    assert {f.id: f.verdict for f in result.findings}["deadlock"] == VIOLATED

    frozen = machine([line("a", 2)], [step("never", "a", 0, 1, guard=FALSE)])
    assert explore(frozen).violations["deadlock"].stuck == ("a",)


def test_what_follows_undefined_behaviour_is_undetermined():
    class TooMany(Pipeline):
        stages = 1
        full = barrier(arrivals=1)

        @role(warps=1)
        def arrives(self):
            yield self.full.arrive(2)

        @role(warps=1)
        def waits(self):
            yield self.full.wait(0)

    found = {f.id: f for f in check(TooMany(), command="spec").findings}
    assert found["arrival-count"].verdict == VIOLATED
    assert found["deadlock"].verdict == UNDETERMINED and "undefined" in found["deadlock"].note


def test_a_barrier_that_worked_before_does_not_count_too_many_arrivals():
    """The producer ends one iteration early: a trip count to blame, not the barrier's count."""

    class EndsEarly(Pipeline):
        stages = 1
        arrivals = 1
        loads = 1
        full = barrier(arrivals="arrivals")

        @role(warps=1)
        def producer(self):
            for _ in range(self.loads):
                yield self.full.arrive()

        @role(warps=1)
        def consumer(self):
            for k in range(2):
                yield self.full.wait(k & 1)

    def verdict(**parameters):
        result = check(EndsEarly(**parameters), command="spec")
        return {finding.id: finding.verdict for finding in result.findings}

    assert verdict()["deadlock"] == VIOLATED and verdict()["arrival-count"] == UNDETERMINED
    assert verdict(arrivals=2)["deadlock"] == verdict(arrivals=2)["arrival-count"] == VIOLATED


# ---------------------------------------------------------------- reduction


@pytest.mark.parametrize("name", WITH_CONSUMERS)
@pytest.mark.parametrize(("stages", "consumers"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
def test_reduction_agrees_on_the_library(name, stages, consumers):
    whole = compile_kernel(walk.trace(PIPELINES[name](stages=stages, consumers=consumers)))
    full, reduced = explore(whole), explore(whole, reduced=True)
    assert full.complete and reduced.complete
    assert not full.violations and not reduced.violations
    assert reduced.states <= full.states and not reduced.unreached and not full.unreached


@pytest.mark.parametrize(("kernel", "expected"), BROKEN)
@pytest.mark.parametrize("stages", [1, 2])
def test_reduction_agrees_on_broken_protocols(kernel, expected, stages):
    whole = compile_kernel(walk.trace(kernel(stages=stages)))
    full, reduced = explore(whole, enough=2_000), explore(whole, reduced=True, enough=2_000)
    assert bool(full.violations) == bool(reduced.violations)
    for violation in reduced.violations.values():
        run = execute(whole, violation.actions)
        if violation.property != "deadlock":
            assert violation.property in {check.property for check in run.violated}


def test_reduction_sees_a_wait_that_is_lapped_while_its_role_rests():
    """The waiter passes at once and signals something else at once; the other role could have arrived twice before."""

    class ArrivesTwice(Pipeline):
        stages = 1
        observation = False
        b = barrier(arrivals=1)
        c = barrier(arrivals=1)

        @role(warps=1)
        def arrives(self):
            yield self.b.arrive()
            yield self.b.arrive()

        @role(warps=1)
        def waits(self):
            yield self.b.wait(0)
            yield self.c.arrive()
            yield self.b.wait(1)

    for observation in (False, True):
        whole = compile_kernel(walk.trace(ArrivesTwice(observation=observation)))
        assert "phase-lapped" in explore(whole).violations
        assert "phase-lapped" in explore(whole, reduced=True).violations


def test_reduction_lets_a_copy_land_that_laps_a_resting_role():
    class LoadsTwice(Pipeline):
        stages = 2
        observation = False
        b = barrier(arrivals=1, slots=1)
        c = barrier(arrivals=1, slots=1)
        a = tile(bytes=16)

        @role(warps=1)
        def loads(self):
            for k in range(2):
                yield self.b.arrive_expect_tx(16)
                yield self.a[k].load(signals=self.b[0])
                if k == 0:
                    yield self.b.wait(0)

        @role(warps=1)
        def waits(self):
            yield self.b.wait(0)
            yield self.c.arrive()
            yield self.b.wait(1)

    whole = compile_kernel(walk.trace(LoadsTwice()))
    assert "phase-lapped" in explore(whole).violations
    assert "phase-lapped" in explore(whole, reduced=True).violations


def test_reduction_never_reorders_what_can_be_noticed():
    """Two writers without any barrier: the race is there with and without reduction."""

    class Unordered(Pipeline):
        stages = 1
        x = tile(bytes=64)

        @role(warps=1, copies=2)
        def writer(self):
            yield self.fence_proxy_async()
            yield self.x.write(tag=1)
            yield self.fence_proxy_async()

    whole = compile_kernel(walk.trace(Unordered()))
    assert "race" in explore(whole).violations
    assert "race" in explore(whole, reduced=True).violations


# ---------------------------------------------------------------- traces


@pytest.mark.parametrize(("kernel", "expected"), BROKEN)
def test_every_trace_replays_and_no_shorter_one_does(kernel, expected):
    whole = compile_kernel(walk.trace(kernel(stages=2)))
    for violation in explore(whole, enough=5_000).violations.values():
        if violation.property == "limit":
            continue
        trace = make_trace(whole, violation.property, violation.because, violation.actions, violation.stuck)
        assert shows_again(whole, trace)
        cut = type(trace)(trace.property, trace.because, trace.steps[:-1], trace.blocked)
        if violation.property != "deadlock":
            assert not shows_again(whole, cut)


class StoresFromWhatItRead(Pipeline):
    """Bytes are multiplied as c, stored as d and released; then, if `again`, they are read as c."""

    again = False
    trips = 2
    full = barrier()
    empty = barrier()
    c = tile(bytes=64)
    d = tile(bytes=64, shares="c")

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(64)
        yield self.c[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.c[at].mma()
        yield self.mma_wait(0)
        yield self.d[at].store()
        yield self.bulk_commit()
        yield self.empty[at].arrive()
        if self.again:
            yield self.c[at].read()
        yield self.bulk_wait_read(0)


@pytest.mark.parametrize(
    ("engine", "again"), [("search", False), ("search", True), ("order", False), ("order", True), ("smt", False)]
)
def test_a_race_names_the_access_that_is_in_progress(engine, again):
    """Not another one of the role to the same bytes, which is over, or has not begun."""
    result = check(StoresFromWhatItRead(again=again), command="spec", engine=engine, properties=("race",))
    (finding,) = result.findings
    assert "write of c by producer after the async-proxy read of d by consumer" in finding.trace.because


@pytest.mark.parametrize("own", [False, True])
def test_a_missing_fence_names_what_was_written(own):
    """Not what the store calls the same bytes, and not what was written, and fenced, before."""

    class FencesTheFirst(Pipeline):
        a = tile(bytes=64)
        b = tile(bytes=64, shares="a")
        c = tile(bytes=64, shares="a")

        @role(warps=1)
        def writer(self):
            yield self.a.write()
            yield self.fence_proxy_async()
            yield self.b.write()
            yield self.named_sync(1, threads=64)
            if own:
                yield self.c.store()

        @role(warps=1)
        def other(self):
            yield self.named_sync(1, threads=64)
            if not own:
                yield self.c.store()

    result = check(FencesTheFirst(), command="spec", properties=("missing-fence",))
    (finding,) = result.findings
    storing = "writer" if own else "other"
    assert finding.trace.because == (
        "writer has not executed fence.proxy.async since its generic access to b, and the async-proxy read of c by "
        f"{storing} goes through the async proxy"
    )


def test_a_race_with_what_has_not_begun_names_that():
    class ReadsWithoutWaiting(Pipeline):
        trips = 1
        full = barrier()
        a = tile(bytes=64)
        b = tile(bytes=64, shares="a")

        @role(warps=1)
        def producer(self):
            yield self.full.arrive_expect_tx(64)
            yield self.a.load(signals=self.full)

        @role(warps=1)
        def consumer(self):
            yield self.a.read()
            yield self.full.arrive()
            yield self.b.read()

    whole = compile_kernel(walk.trace(ReadsWithoutWaiting()))
    (check,) = [
        check for action in whole.actions if action.role == "producer" for check in action.checks if check.cases
    ]
    told = [reason(check, {"at.consumer": at}) for at in (0, 2)]
    assert [text.rsplit("read of ", 1)[1] for text in told] == ["a by consumer", "b by consumer"]


def test_a_trace_of_another_model_is_refused():
    whole = compile_kernel(walk.trace(BROKEN[1][0](stages=2)))
    other = compile_kernel(walk.trace(PIPELINES["tma-async"](stages=3)))
    violation = explore(whole).violations["race"]
    trace = make_trace(whole, "race", violation.because, violation.actions)
    with pytest.raises(SpecError, match=r"is not a step of|cannot be taken"):
        assert not shows_again(other, trace)


def test_generated_code_and_the_specification_take_the_same_steps():
    """Successors of the generated Python, state by state, against spec.ptx.expr.evaluate."""
    from sm90_verify.engines.search.packed import pack

    for name in WITH_CONSUMERS:
        whole = compile_kernel(walk.trace(PIPELINES[name](stages=1, consumers=2)))
        packed = pack(whole)
        seen, todo = {packed.initial}, [packed.initial]
        assert packed.unpack(packed.initial) == initial_state(whole)
        while todo and len(seen) < 400:
            state = todo.pop()
            out: list[tuple[int, int]] = []
            for shift, mask, functions in packed.roles:
                functions[state >> shift & mask](state, out, [])
            for agent in packed.agents:
                agent(state, out, [])
            concrete = packed.unpack(state)
            enabled = [i for i, action in enumerate(whole.actions) if is_enabled(whole, action, concrete)]
            assert sorted(action for action, _ in out) == enabled
            for action, successor in out:
                assert packed.unpack(successor) == take(whole, whole.actions[action], concrete)
                if successor not in seen:
                    seen.add(successor)
                    todo.append(successor)


def test_proved_means_every_finding_is_proved():
    result = check(PIPELINES["async"](stages=2), command="pipeline")
    assert result.verdict == PROVED and all(finding.verdict == PROVED for finding in result.findings)


@pytest.mark.parametrize("meets", [False, True])
def test_reduction_tells_what_never_happens_from_who_was_last(meets):
    """A test_wait that always passes: its other answer is never taken, and neither is what would follow it."""

    class Passes(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1, copies=2)
        def warp(self):
            done = yield self.b[0].test_wait(1)
            if not done:
                yield self.named_sync(1, 64)
            if meets:
                yield self.named_sync(2, 64)

    machine = compile_kernel(walk.trace(Passes()))
    whole, reduced = explore(machine), explore(machine, reduced=True)
    never = [machine.actions[index].op for index in reduced.unreached]
    assert whole.unreached == reduced.unreached
    assert "test_wait parity 1: False" in never and any("bar.sync" in text for text in never)
