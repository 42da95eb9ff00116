"""Who is stuck in a Machine by hand: nothing but failing tests is left, also among interchangeable roles."""

from __future__ import annotations

import pytest

from sm90_verify.counterexample.trace import initial_state
from sm90_verify.counterexample.waiting import reproduces
from sm90_verify.engines.check import check_machine
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.result import UNDETERMINED, VIOLATED, Blocked, Trace
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field, Lit

HERE = Source("here.py", 1)


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


@pytest.mark.parametrize("reduced", [True, False])
def test_who_waits_where_no_such_step_can_come_any_more_is_stuck(reduced):
    halts = Check("race", TRUE, "wrong", "x", halts=True)
    actions = [
        step("opens", "a", 0, 3, checks=[halts]),
        step("turns away", "a", 0, 1),
        step("goes", "a", 1, 2),
        step("comes back", "a", 2, 1),
        step("waits", "b", 0, 1, FALSE),
    ]
    machine = by_hand([line("a", 4), line("b", 2)], actions)
    found = explore(machine, reduced=reduced)
    assert found.complete and found.halted == ["race"]
    assert found.violations["deadlock"].stuck == ("b",) and found.violations["deadlock"].actions == (1,)
