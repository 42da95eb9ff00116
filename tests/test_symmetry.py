"""Roles that do the same are found, and one order of them stands for all: nothing is missed, nothing is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import ALONE, OPERATIONS, agree, soup

from sm90_verify.counterexample.trace import make_trace
from sm90_verify.engines.search import packed as packing
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from sm90_verify.spec.cutlass.launch_control import LaunchControl
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import Field, Lit, apply

NOWHERE = Source("", 0)


def interchangeable(pipeline):
    machine = compile_kernel(walk.trace(pipeline))
    return [[machine.roles[role].name for role in group.roles] for group in find_groups(machine)]


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (TmaAsync(stages=2, consumers=1), []),
        (TmaAsync(stages=2, consumers=3), [["consumer0", "consumer1", "consumer2"]]),
        (Async(stages=1, consumers=2), [["consumer0", "consumer1"]]),
        (TransactionAsync(stages=1, consumers=2), [["consumer0", "consumer1"]]),
        (Mainloop(stages=2, consumers=2), [["consumer0", "consumer1"]]),
        (TmaStore(stages=2), []),
        (OrderedSequence(stages=2), []),
        (LaunchControl(), [["mainloop_load", "mma_warp"]]),
    ],
)
def test_which_roles_are_interchangeable(pipeline, expected):
    assert interchangeable(pipeline) == expected


class Twins(Pipeline):
    """Two roles that do the same but for one thing."""

    differ: str = ""

    full = barrier(arrivals=2, slots=2)
    go = barrier(arrivals=1, slots=2)

    @role(warps=1, copies=2)
    def twin(self, me: Threads):
        other = me.copy if self.differ else 0
        if self.differ == "start" and me.copy:
            yield self.go[0].wait(1)
        yield self.full[other if self.differ == "barrier" else 0].arrive(count=1 + (self.differ == "count" and me.copy))
        yield self.go[0].wait(other if self.differ == "parity" else 0)
        if self.differ == "end" and me.copy:
            yield self.go[0].wait(0)

    @role(warps=1)
    def boss(self):
        yield self.full[0].wait(0)
        if self.differ != "nobody":
            yield self.go[0].arrive()


@pytest.mark.parametrize("differ", ["", "start", "barrier", "count", "parity", "end"])
def test_one_difference_is_enough(differ):
    assert interchangeable(Twins(differ=differ)) == ([] if differ else [["twin0", "twin1"]])


@pytest.mark.parametrize(("stages", "consumers", "states"), [(2, 2, 270), (2, 3, 420), (4, 2, 1500), (4, 5, 10920)])
def test_states_with_consumers_in_one_order(stages, consumers, states):
    found = explore(compile_kernel(walk.trace(TmaAsync(stages=stages, consumers=consumers))), reduced=True)
    assert found.complete and not found.violations and not found.unreached
    assert found.states == states


class Quits(Pipeline):
    """Three that do the same: each goes round and round, unless it comes before the boss (or after, if `late`), and
    then it waits for what never comes.
    """

    late: bool = False

    never = barrier(arrivals=1)
    go = barrier(arrivals=1)

    @role(warps=1, copies=3)
    def twin(self, me: Threads):
        for _ in self.loop():
            gone = yield self.go[0].try_wait(0)
            if gone == self.late:
                yield self.never[0].wait(0)
            yield self.go[0].try_wait(0)

    @role(warps=1)
    def boss(self):
        yield self.go[0].arrive()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("trips", [1, 2, "forever"])
def test_one_that_is_stuck_is_told_from_those_that_go_on(late, trips):
    """Who is where changes places with the others whenever they pass it."""
    machine = compile_kernel(walk.trace(Quits(late=late, trips=trips)))
    assert len(find_groups(machine)[0].roles) == 3
    assert list(explore(machine).violations) == ["deadlock"]
    found = explore(machine, reduced=True).violations["deadlock"]
    trace = make_trace(machine, "deadlock", found.because, found.actions, found.stuck)
    assert [blocked.role for blocked in trace.blocked] == list(found.stuck)
    assert all(blocked.waits_for == "never" for blocked in trace.blocked)


def overtakers():
    """Two that do the same: the first to start waits at 1 until the other has passed it, from 0 to the end at 2."""
    at = {name: Field(f"at.{name}", 2) for name in "ab"}
    places = tuple(Location("go", "", NOWHERE, final=place == 2, kind="other") for place in range(3))

    def step(name, here, there, guard):
        return Action(f"{name}:{here}", name, "go", "", here, there, guard, (), (), NOWHERE)

    actions = [
        step(name, here, there, at["b" if name == "a" else "a"] == other)
        for name in "ab"
        for here, there, other in [(0, 1, 0), (0, 2, 1), (1, 2, 2)]
    ]
    return Machine(
        "overtakers",
        {},
        tuple(Variable(field.name, 2, 0, "", kind="location", role=name) for name, field in at.items()),
        tuple(Role(name, f"at.{name}", places, 32) for name in "ab"),
        tuple(actions),
        (),
        ("deadlock",),
    )


def test_who_is_passed_can_still_run():
    """It takes its last step in the place that the other had before."""
    machine = overtakers()
    assert len(find_groups(machine)) == 1
    full, reduced = explore(machine), explore(machine, reduced=True)
    assert (full.states, reduced.states) == (6, 4)
    assert not full.violations and not reduced.violations and reduced.finished


def test_what_one_has_done_all_have_done():
    """Which of four equal warps is the last to leave a barrier of two is a matter of their order."""
    machine = compile_kernel(walk.trace(soup(((("sync", "", 0),),) * 4, trips=1)))
    assert explore(machine).unreached == explore(machine, reduced=True).unreached == ()


BODIES = st.lists(OPERATIONS, min_size=1, max_size=4).map(tuple)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(BODIES, BODIES, st.integers(2, 3), st.fixed_dictionaries({**ALONE, "p_arrivals": st.integers(1, 3)}))
def test_the_search_agrees_where_several_roles_do_the_same(one, other, copies, parameters):
    agree((*((one,) * copies), other), **parameters)


@pytest.mark.parametrize("reduced", [False, True])
def test_only_the_reduced_search_exchanges_roles(monkeypatch, reduced):
    asked = []
    monkeypatch.setattr(packing, "find_groups", lambda machine, tick: asked.append(machine) or ())
    explore(compile_kernel(walk.trace(Twins())), reduced=reduced)
    assert len(asked) == reduced


def changed(machine, change, role="twin1"):
    """The machine with one thing changed of one role's first step or place, or of what has no role."""
    twins = [Field(f"at.{name}", width) for name, width in AT.items()]
    first = next(i for i, action in enumerate(machine.actions) if action.role == role)
    action, number = machine.actions[first], [one.name for one in machine.roles].index(role)
    check = Check("race", twins[1] == 0, "", "")
    steps, roles = list(machine.actions), list(machine.roles)
    place = roles[number].locations[0]
    match change:
        case "guard":
            steps[first] = action._replace(guard=action.guard & (twins[0] == 0))
        case "conjunct":
            for index, name in enumerate(AT):
                at = next(i for i, one in enumerate(steps) if one.role == name)
                steps[at] = steps[at]._replace(guard=(Field("free", 1) == index) & (Field(f"at.{name}", 2) == 0))
        case "update":
            steps[first] = action._replace(updates=(*action.updates, ("free", Lit(1, 1))))
        case "value":
            steps[first] = action._replace(updates=(("free", Field("free", 1) ^ 1), *action.updates))
        case "target":
            steps[first] = action._replace(target=action.target + 1)
        case "check":
            steps[first] = action._replace(checks=(check,))
        case "halts":
            steps[first] = action._replace(checks=tuple(one._replace(halts=not one.halts) for one in action.checks))
        case "standing":
            locations = (place._replace(checks=(check,)), *roles[number].locations[1:])
            roles[number] = roles[number]._replace(locations=locations)
        case "whole":
            return replace(machine, checks=(*machine.checks, check))
        case "agent":
            steps.append(action._replace(role="copies", location=None, target=None, guard=twins[1] == 0))
        case "initial":
            return replace(
                machine,
                variables=tuple(replace(v, initial=v.initial ^ (v.name == "at.twin1")) for v in machine.variables),
            )
        case "less" | "difference":
            pair = (twins[0], twins[1]) if change == "less" else (twins[0] - twins[1], Lit(1, twins[0].width))
            return replace(machine, checks=(*machine.checks, Check("race", apply("lt", pair, 1), "", "")))
        case "either":
            nested = (twins[0] == 0) & ((twins[1] == 0) & (twins[0] != twins[1]))
            return replace(machine, checks=(*machine.checks, Check("race", nested, "", "")))
    return replace(machine, actions=tuple(steps), roles=tuple(roles))


AT = {"twin0": 2, "twin1": 2}
"""Widths of their locations."""
CHANGES = (
    "guard",
    "conjunct",
    "update",
    "value",
    "target",
    "check",
    "halts",
    "standing",
    "whole",
    "agent",
    "initial",
    "less",
    "difference",
)


@pytest.mark.parametrize("change", [*CHANGES, "either"])
def test_any_difference_in_the_machine_is_enough(change):
    """`either` is none: it says the same of both, in another order."""
    machine = compile_kernel(walk.trace(Twins()))
    widths = {variable.name: variable.width for variable in machine.variables}
    assert {name: widths[f"at.{name}"] for name in AT} == AT and len(find_groups(machine)) == 1
    free = replace(machine, variables=(*machine.variables, Variable("free", 1, 0, "")))
    assert bool(find_groups(changed(free, change))) == (change == "either")


class Fleet(Pipeline):
    """Clusters that fill a stage of their own by a copy, or all but the first one do."""

    clusters = 2
    differ: bool = False
    jam: bool = False
    full = barrier(arrivals=1)
    a = tile(bytes=64)
    out = tile(bytes=64, slots=3, space="global")

    @role(warps=1)
    def producer(self, me: Threads):
        yield self.full[0].arrive_expect_tx(64)
        yield self.a[0].load(signals=self.full[0], tag=me.cluster if self.differ else 0)

    @role(warps=1, copies=2)
    def consumer(self, me: Threads):
        yield self.full[0].wait(0)
        yield self.a[0].read(tag=1 if self.differ else 0)
        yield self.out[0].read()
        if self.jam and me.copy:
            yield self.full[0].wait(1)


def test_clusters_change_places_with_all_that_is_theirs():
    assert interchangeable(Fleet(clusters=3)) == [
        [f"cluster{cluster}.{role}" for cluster in range(3) for role in ("producer", "consumer0", "consumer1")]
    ]
    assert interchangeable(Fleet(clusters=1)) == [["consumer0", "consumer1"]]
    assert interchangeable(Fleet(differ=True)) == [[f"cluster{n}.consumer{m}" for m in (0, 1)] for n in (0, 1)]


@pytest.mark.parametrize(("clusters", "states"), [(2, 16), (3, 36)])
def test_states_with_clusters_in_one_order(clusters, states):
    """The start, and each choice of one of the five states of a cluster for every one, in whichever order."""
    found = explore(compile_kernel(walk.trace(Fleet(clusters=clusters))), reduced=True)
    assert found.complete and not found.violations and not found.unreached
    assert found.states == states


@pytest.mark.parametrize("clusters", [2, 3])
def test_who_is_stuck_in_which_cluster(clusters):
    machine = compile_kernel(walk.trace(Fleet(clusters=clusters, jam=True)))
    assert len(find_groups(machine)[0].members) == clusters
    for reduced in (False, True):
        found = explore(machine, reduced=reduced).violations["deadlock"]
        assert set(found.stuck) == {f"cluster{cluster}.consumer1" for cluster in range(clusters)}
        trace = make_trace(machine, "deadlock", found.because, found.actions, found.stuck)
        assert [blocked.role for blocked in trace.blocked] == list(found.stuck)
