"""From a schedule to turns: who waits for what, who is held, and which copies are late."""

from __future__ import annotations

from dataclasses import replace

import pytest
from corpus.named_barriers import CountsTwoWarpsOfFive
from simulated import Overwrites

from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.packed import pack
from sm90_verify.gpu.directed import (
    APART,
    BUSY,
    HELD,
    LANDING,
    LATE,
    LIMIT,
    PATIENCE,
    _copies,
    directions,
    race_directions,
    with_turns_of,
)
from sm90_verify.gpu.executor import BALLAST, shared_bytes
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Twice(Overwrites):
    """The same, and the producer waits for nothing in between."""

    @role(warps=1)
    def producer(self):
        for k in range(2):
            yield self.full[0].arrive_expect_tx(1024)
            yield self.a[0].load(signals=self.full[0], tag=k)


class StoresItself(Pipeline):
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=1)
        yield self.a.store(tag=1)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


def test_the_steps_of_a_schedule_take_turns():
    pipeline = Overwrites()
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    race = explore(machine).violations["race"]
    free, *held = directions(plan, machine, race.actions)
    assert free.held == "" and [way.held for way in held][:2] == ["consumer", "producer"]  # who stands before an access
    turns = sorted(one.gate for lowered in free.roles for one in lowered.instructions if 0 <= one.gate < free.steps)
    assert turns == list(range(free.steps))
    consumer = next(way for way in held if way.held == "consumer").roles[1].instructions
    assert [(one.code, one.gate, one.hold > 0) for one in consumer][-1] == ("read", free.steps, True)


def test_the_other_access_of_a_race_may_come_first():
    pipeline = Overwrites()
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    actions = explore(machine).violations["race"].actions
    last = machine.actions[actions[-1]].role
    ways = race_directions(plan, machine, actions)
    assert {way.steps for way in ways} == {ways[0].steps, ways[0].steps - 1}
    assert any(way.held == last and way.steps < ways[0].steps for way in ways)


def test_a_copy_in_flight_can_be_made_late():
    """And no other: the first one is there before anything else happens."""
    pipeline = Overwrites()
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    stale = explore(machine).violations["stale-read"].actions
    ways = directions(plan, machine, stale[: stale.index(stale[-1])])
    late = [way for way in ways if way.late]
    assert late and len(late) * 2 == len(ways)
    loads = [[one.late > 0 for one in way.roles[0].instructions if one.code == "load"] for way in (ways[0], late[0])]
    assert loads[0] == [False, False] and loads[1][1]
    assert [max(one.hold for role in way.roles for one in role.instructions) for way in (ways[0], late[0])] == [
        LANDING,
        LATE,
    ]
    assert {way.limit for way in late} == {4 * LIMIT} and ways[0].limit == LIMIT
    assert {way.patience for way in late} == {PATIENCE + LATE} and ways[0].patience == PATIENCE
    holds = {
        (way.late, one.hold)
        for way in ways
        for role in way.roles
        for one in role.instructions
        if role.name == way.held and one.gate == way.steps
    }
    assert holds == {(False, HELD), (True, LATE)}
    assert all(not one.late for one in late[0].roles[1].instructions)


def until(machine, last, role, before=()):
    """What a role does alone, up to an operation, after what it has done; and what is possible then."""
    packed = pack(machine)
    state, actions = packed.initial, []
    for index in before:
        state = dict(packed.successors(state))[index]
        actions.append(index)
    while len(actions) == len(before) or last not in machine.actions[actions[-1]].name:
        mine = [one for one in packed.successors(state) if machine.actions[one[0]].role == role]
        index, state = mine[0]
        actions.append(index)
    return actions, packed.successors(state)


def test_a_copy_to_several_ctas_is_in_flight_until_it_has_landed_in_each():
    pipeline = TmaAsync(stages=1, trips=1, cluster="2x1", bytes=4096)
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    actions, after = until(machine, "load k=0 cta0.parts_of_b[0]", "cta0.producer")
    own, *landings = [index for index, _ in after if machine.actions[index].location is None]
    assert len(landings) == 2

    def late(*landed):
        return [
            made_late(way) for way in directions(plan, machine, (*actions, own, *landed)) if way.late and not way.held
        ]

    assert late(landings[0]) == [[BUSY, 0], [BUSY, 0], [0, BUSY]] and late(*landings) == [[BUSY, 0]]
    at = len(actions) + 1
    assert _copies(plan, machine, (*actions, own, *landings))[1].landings == (at, at + 1)


def made_late(way):
    """By copy of the first role, what the copy engine has to do before it."""
    return [one.late for one in way.roles[0].instructions if one.code in ("load", "store")]


class Stores(Pipeline):
    """Two stores of two buffers each, with steps between them, by one CTA or two."""

    between = 0
    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=1)
        yield self.b.write(tag=1)
        for _ in range(2):
            yield self.store(self.a, self.b)
            for _ in range(self.between):
                yield self.a.read()


@pytest.mark.parametrize(("between", "second"), [(0, 0), (APART - 3, 0), (APART - 2, BUSY), (2 * APART, BUSY)])
def test_a_late_copy_makes_those_that_follow_it_late_for_a_while(between, second):
    """What a step copies is late by what comes before the first of it. And each copy can be the only one."""
    pipeline = Stores(between=between)
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    actions, _ = until(machine, "store", "one")
    actions, _ = until(machine, "store", "one", actions)
    ways = [way for way in directions(plan, machine, actions) if not way.held]
    assert [made_late(way) for way in ways] == [[0] * 4, [BUSY, 0, second, 0], [BUSY, 0, 0, 0], [0, 0, BUSY, 0]]
    assert [way.late for way in ways] == [False, True, True, True]


class TwoCtas(Pipeline):
    cluster = "2x1"
    full = barrier()
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        (1, 0, {(0, 0): LANDING, (1, 1): LATE, (1, 0): LANDING, (0, 1): LATE}),
        (0, 1, {(0, 0): LANDING, (1, 0): LANDING}),
    ],
)
def test_a_copy_lands_late_behind_a_late_one_of_its_cta(first, second, holds):
    """Both CTAs start their copies, and that of CTA 1 lands. By which are late, how long the turn after it waits."""
    plan = lower(trace(TwoCtas()))
    machine = compile_kernel(plan.kernel)
    actions, _ = until(machine, "load", f"cta{first}.one")
    actions, after = until(machine, "load", f"cta{second}.one", actions)
    (landing,) = [index for index, _ in after if machine.actions[index].name == "copies cta1.a.flight lands"]
    found = {}
    for way in directions(plan, machine, (*actions, landing)):
        if not way.held:
            late = tuple(int(one.late > 0) for role in way.roles for one in role.instructions if one.code == "load")
            ((turn, found[late]),) = {
                (one.gate, one.hold) for role in way.roles for one in role.instructions if one.hold
            }
            assert turn == way.steps == 4
    assert found == holds


def test_a_launch_with_late_copies_has_the_memory_for_what_delays_them():
    plan = lower(trace(StoresItself()))
    (role,) = plan.roles
    late = replace(role, instructions=(*role.instructions[:-1], replace(role.instructions[-1], late=1)))
    assert plan.shared == 64 and shared_bytes(plan, (role,)) == 64 and shared_bytes(plan, (role, late)) == BALLAST
    assert shared_bytes(replace(plan, shared=BALLAST + 16), (late,)) == BALLAST + 16


def test_a_store_in_flight_can_be_made_late():
    pipeline = StoresItself()
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    actions, _ = until(machine, "store", "one")
    late = [way for way in directions(plan, machine, actions) if way.late]
    assert [(one.code, one.late > 0) for one in late[0].roles[0].instructions][:2] == [
        ("write", False),
        ("store", True),
    ]


def test_the_turn_of_a_barrier_of_threads_is_to_come_to_it():
    pipeline = CountsTwoWarpsOfFive()
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    way, *_ = directions(plan, machine, explore(machine).violations["deadlock"].actions)
    (epilogue,) = [role for role in way.roles if role.name == "epilogue"]
    assert [one.gate for one in epilogue.instructions if one.code == "named_sync"] == [8]


def test_the_twin_takes_the_turns_of_what_it_has_too():
    plan, twin = lower(trace(Twice())), lower(trace(Overwrites()))
    machine = compile_kernel(plan.kernel)
    roles = directions(plan, machine, explore(machine).violations["stale-read"].actions)[0].roles
    own = with_turns_of(twin, roles)
    assert [role.name for role in own] == [role.name for role in twin.roles]
    assert [one.code for role in own for one in role.instructions] == [
        one.code for role in twin.roles for one in role.instructions
    ]
    (producer, _), (gated, _) = own, roles
    kept = [(one.code, one.gate) for one in producer.instructions]
    assert kept[:2] == [(one.code, one.gate) for one in gated.instructions[:2]] and ("wait", -1) in kept
    assert len([gate for _, gate in kept if gate >= 0]) == 4
    marked = [replace(one, instructions=tuple(replace(i, hold=7, late=3) for i in one.instructions)) for one in roles]
    (producer, _) = with_turns_of(twin, marked)
    assert {(one.hold, one.late) for one in producer.instructions} == {(7, 3), (0, 0)}
