"""The search on machines small enough to count by hand, and its generated code against the specification."""

from __future__ import annotations

from sm90_verify.counterexample.trace import initial_state, is_enabled, take
from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role
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

    result = check(Silent(), command="spec", engine="search")
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

    found = {f.id: f for f in check(TooMany(), command="spec", engine="search").findings}
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
        result = check(EndsEarly(**parameters), command="spec", engine="search")
        return {finding.id: finding.verdict for finding in result.findings}

    assert verdict()["deadlock"] == VIOLATED and verdict()["arrival-count"] == UNDETERMINED
    assert verdict(arrivals=2)["deadlock"] == verdict(arrivals=2)["arrival-count"] == VIOLATED


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
    result = check(PIPELINES["async"](stages=2), command="pipeline", engine="search")
    assert result.verdict == PROVED and all(finding.verdict == PROVED for finding in result.findings)
