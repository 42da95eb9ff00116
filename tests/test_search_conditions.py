"""What the conditions of the search are for, one by one, on machines small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from small_machines import AT, HERE, counts_to, line, machine, race, step

from sm90_verify.engines import effort
from sm90_verify.engines.search import bounds
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.spec.model.machine import LIMIT, Check, Location, Role, Variable
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field

# ---------------------------------------------------------------- bounds


def test_a_bound_is_the_most_that_is_allowed(monkeypatch):
    monkeypatch.setattr(bounds, "resident_bytes", lambda: 5)
    assert not SearchBounds(7, 2.0, 5).ran_out(7, 2.0) and not SearchBounds().ran_out(7, 2.0)
    assert "states" in SearchBounds(7).ran_out(8, 0.0)
    assert "timeout" in SearchBounds(seconds=2.0).ran_out(0, 2.5)
    assert "memory" in SearchBounds(memory=4).ran_out(0, 0.0)


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_resident_memory_is_in_kib_but_on_macos(monkeypatch, platform, unit):
    monkeypatch.setattr(effort.sys, "platform", platform)
    monkeypatch.setattr(effort.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=3))
    assert effort.resident_bytes() == 3 * unit


def test_the_limit_is_looked_at_in_every_state_beyond_it():
    assert explore(counts_to(98), limit=100).complete
    found = explore(counts_to(4000), limit=100)
    assert (found.states, found.ran_out) == (101, "the limit of 100 states (--limit)")


def test_no_more_states_than_enough_are_visited_after_a_violation_and_all_without_one():
    """Without a limit, that is looked at in every 1024th state; after the violation, for the first time when there are
    1025.
    """
    assert explore(counts_to(3500), enough=10).complete
    assert explore(counts_to(3500, race(Field("x", 12) == 5))).complete
    visited = {}
    for enough in (1, 1023, 1024):
        found = explore(counts_to(3500, race(Field("x", 12) == 5)), enough=enough)
        assert found.ran_out == f"the search ended {enough} states after the first violation"
        visited[enough] = found.states
    assert visited == {1: 2049, 1023: 2049, 1024: 3073}


def test_a_model_that_is_bounded_itself_says_so_when_the_search_ends():
    bounded = Check(LIMIT, Field("x", 12) == 5, "more are not modelled", "x")
    assert explore(counts_to(3500, bounded), enough=1).ran_out == "more are not modelled"
    both = explore(counts_to(3500, bounded, race(Field("x", 12) == 6)), enough=1)
    assert both.ran_out == "the search ended 1 states after the first violation"


def test_how_long_the_search_took():
    assert explore(counts_to(5)).seconds > 0


# ---------------------------------------------------------------- what is not followed


def test_nothing_is_explored_behind_a_state_that_halts():
    found = explore(counts_to(5, race(Field("x", 12) == 3, halts=True)))
    assert (found.states, found.transitions, found.halted, found.finished) == (4, 3, ["race"], False)


def test_all_is_explored_that_is_not_behind_it():
    standing = [(1, (race(halts=True),)), (3, (Check("stale-read", TRUE, "", "x"),))]
    actions = [step("a", 0, 1), step("a", 0, 2), step("a", 1, 0), step("a", 2, 3)]
    found = explore(machine([line("a", *["other"] * 4, standing=standing)], actions))
    assert (found.states, found.transitions, list(found.violations)) == (4, 3, ["race", "stale-read"])


def test_all_is_explored_behind_a_state_that_violates_something_else():
    found = explore(counts_to(5, race(Field("x", 12) == 3)))
    assert (found.states, found.halted, found.finished) == (7, [], True)


def test_the_other_steps_of_a_state_are_followed_where_one_halts():
    halts = race(halts=True)
    actions = [step("a", 0, 2, TRUE, halts), step("a", 0, 1), step("b", 0, 1)]
    found = explore(machine([line("a", "other", "other", "end"), line("b", "other", "end")], actions))
    assert (found.states, found.halted) == (4, ["race"])


def test_a_property_that_halts_in_two_places_is_named_once_and_one_that_does_not_halt_never():
    actions = [step("a", 0, 1, TRUE, race(halts=True)), step("b", 0, 1, TRUE, Check("stale-read", TRUE, "", "x"))]
    found = explore(machine([line("a", "other", "end"), line("b", "other", "end")], actions))
    assert found.halted == ["race"] and list(found.violations) == ["race", "stale-read"]


def test_a_step_is_followed_if_only_what_does_not_halt_it_holds():
    checks = (race(AT["a"] == 1, halts=True), Check("stale-read", TRUE, "", "x"))
    found = explore(machine([line("a", "other", "end")], [step("a", 0, 1, TRUE, *checks)]))
    assert (found.states, found.halted, list(found.violations)) == (2, [], ["stale-read"])


def test_a_search_that_is_to_stop_at_the_first_violation_does():
    found = explore(counts_to(9, race(Field("x", 12) == 3)), stop_at_first=True)
    assert (found.states, found.ran_out) == (4, "the search was asked to stop at the first violation")


# ---------------------------------------------------------------- prompt steps


@pytest.mark.parametrize("halts", [False, True])
@pytest.mark.parametrize("last", [1, 2])
def test_what_prompt_steps_violate_is_shown_with_all_that_lead_to_it(last, halts):
    """The start of a copy is prompt: after the first step the others are taken at once."""
    actions = [step("a", place, place + 1, TRUE, *([race(halts=halts)] if place == last else [])) for place in range(3)]
    model = machine([line("a", "other", "load", "load", "end")], actions)
    reduced, whole = (explore(model, reduced=reduced).violations["race"] for reduced in (True, False))
    assert reduced == whole and (reduced.actions, reduced.by_step) == (tuple(range(last + 1)), True)


@pytest.mark.parametrize("place", [1, 2])
def test_a_state_between_prompt_steps_that_is_wrong_is_shown(place):
    roles = [line("a", "other", "load", "load", "end", standing=[(place, (race(),))])]
    model = machine(roles, [step("a", place, place + 1) for place in range(3)])
    reduced, whole = (explore(model, reduced=reduced).violations["race"] for reduced in (True, False))
    assert reduced == whole and (reduced.actions, reduced.by_step) == (tuple(range(place)), False)


def test_prompt_steps_are_taken_at_once_and_as_often_as_there_are_any():
    """b's is prompt only once a's has been taken, which comes after it in the order of the roles."""
    opened = Field("opened", 1)
    passes = Location("b0", "", HERE, kind="wait", settled=opened == 1)
    b = Role("b", "at.b", (passes, Location("b1", "", HERE, final=True, kind="end")), 32)
    actions = [
        step("b", 0, 1, opened == 1),
        step("a", 0, 1),
        step("a", 1, 2, TRUE, updates=[("opened", opened ^ 1)]),
    ]
    model = machine([b, line("a", "other", "load", "end")], actions, [Variable("opened", 1, 0, "")])
    whole, reduced = explore(model), explore(model, reduced=True)
    assert (whole.states, reduced.states, reduced.transitions) == (4, 2, 1)
    assert not whole.unreached and not reduced.unreached and reduced.finished


# ---------------------------------------------------------------- the shortest


def test_a_state_that_is_wrong_is_shown_before_a_step_from_another_one_as_far_away():
    """The step is found first, in a state as many steps from the start as the state that is wrong."""
    standing = [(2, (race(because="state"),))]
    actions = [step("a", 0, 1), step("a", 0, 2), step("a", 1, 3, TRUE, race(because="step"))]
    found = explore(machine([line("a", *["other"] * 4, standing=standing)], actions)).violations["race"]
    assert (found.because, found.actions, found.by_step) == ("state", (1,), False)


def test_what_is_found_later_is_no_shorter():
    x = Field("x", 12)
    states = explore(counts_to(5, race(x == 1, "first"), race(x == 2, "second"))).violations["race"]
    assert (states.because, states.actions) == ("first", (0,))
    steps = counts_to(5, more=[step("a", 0, 1, x == 1, race()), step("a", 0, 1, x == 2, race())])
    assert explore(steps).violations["race"].actions == (0, 2)


def test_the_first_of_two_deadlocks_is_shown():
    actions = [step("a", 0, 1), step("a", 0, 2), step("a", 2, 3)]
    found = explore(machine([line("a", *["other"] * 4, final=False)], actions)).violations["deadlock"]
    assert found.actions == (0,)


def test_a_deadlock_counts_whatever_is_left_to_search():
    """a may stop at 2, from the start or later; the search does not come to its end."""
    endless = counts_to(3500, more=[step("a", 0, 2)])
    found = explore(replace(endless, roles=(line("a", "other", "end", "other", final=False),)), limit=50)
    assert found.ran_out and found.violations["deadlock"].actions == (2,) and not found.finished


def test_who_is_stuck_while_others_go_on_is_shown_where_it_is_so_first():
    around = [step("a", here, (here + 1) % 3) for here in range(3)]
    roles = [line("a", *["other"] * 3, final=False), line("b", "other", "wait", "end")]
    found = explore(machine(roles, [*around, step("b", 0, 1), step("b", 1, 2, FALSE)])).violations["deadlock"]
    assert (found.actions, found.stuck, found.by_step) == ((3,), ("b",), False)


def test_a_role_that_can_run_where_the_search_began_is_not_stuck():
    """b's only step is there, and a comes back for ever."""
    around = [step("a", here, (here + 1) % 3) for here in range(3)]
    roles = [line("a", *["other"] * 3, final=False), line("b", "wait", "end")]
    assert not explore(machine(roles, [*around, step("b", 0, 1, AT["a"] == 0)])).violations


def test_a_copy_that_lands_is_no_step_of_a_role():
    flying = Field("flying", 1)
    actions = [
        step("a", 0, 1, FALSE),
        step("b", 0, 0, flying == 0, updates=[("flying", flying ^ 1)]),
        step("", None, None, flying == 1, updates=[("flying", flying ^ 1)]),
    ]
    roles = [line("a", "wait", "end"), line("b", "load", final=False)]
    found = explore(machine(roles, actions, [Variable("flying", 1, 0, "")])).violations["deadlock"]
    assert (found.actions, found.stuck) == ((), ("a",))


# ---------------------------------------------------------------- interchangeable roles


def twins(where):
    """a and b do the same: one step to 1 or to 3, and then what is wrong, which says who does it."""
    names = "ab"
    actions, standing, checks = [], {name: [] for name in names}, []
    for name, other in zip(names, "ba", strict=True):
        wrong = race(because=f"{name} is wrong")
        first = [race(AT[other] == 1, f"{name} is wrong")] if where == "another step" else []
        actions += [step(name, 0, 3, TRUE, *first), step(name, 0, 1)]
        if where == "step":
            actions.append(step(name, 1, 2, TRUE, Check("stale-read", TRUE, "stale", "x"), wrong))
        elif where == "another step":
            actions.append(step(name, 1, 2, TRUE, race(because=f"{name} is late")))
        elif where == "place":
            standing[name] = [(1, (wrong,))]
        elif where == "machine":
            checks.append(race(AT[name] == 1, f"{name} is wrong"))
    if where == "agent":
        wrong = [race(AT[name] == 1, f"{name} is wrong") for name in names]
        actions.append(step("", None, None, (AT["a"] == 1) | (AT["b"] == 1), *wrong))
    roles = [line(name, *["other"] * 4, standing=standing[name]) for name in names]
    return machine(roles, actions, checks=checks)


@pytest.mark.parametrize("where", ["step", "another step", "place", "machine", "agent"])
def test_a_violation_is_told_of_the_role_that_commits_it(where):
    """In the states that are kept, interchangeable roles have changed places."""
    model = twins(where)
    assert len(find_groups(model)) == 1
    found = explore(model, reduced=True).violations["race"]
    at = {"a": 0, "b": 0}
    for index in found.actions[: len(found.actions) - found.by_step]:
        assert model.actions[index].location == at[model.actions[index].role]
        at[model.actions[index].role] = model.actions[index].target
    if "step" in where:
        assert found.because == f"{model.actions[found.actions[-1]].role} is wrong"
    else:
        assert [f"{name} is wrong" for name in at if at[name] == 1] == [found.because]
