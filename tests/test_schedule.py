"""Schedules in another order, in which copies land as soon as they can."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated import Overwrites

from sm90_verify.engines.search.explore import explore
from sm90_verify.gpu.directed import deadlock_directions, directions, race_directions
from sm90_verify.gpu.schedule import Schedule, promptly
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class LooksAtFull(Pipeline):
    """The producer waits for its own copies instead of the consumer; the consumer misses a phase and waits for ever."""

    full = barrier(slots=2)
    a = tile(bytes=1024, slots=2)

    @role(warps=1)
    def producer(self):
        for k in range(5):
            yield self.full[k % 2].wait((k // 2 & 1) ^ 1)
            yield self.full[k % 2].arrive_expect_tx(1024)
            yield self.a[k % 2].load(signals=self.full[k % 2])

    @role(warps=1)
    def consumer(self):
        for k in range(5):
            yield self.full[k % 2].wait(k // 2 & 1)


def model(pipeline):
    plan = lower(trace(pipeline))
    return plan, compile_kernel(plan.kernel)


def copies_of(machine, actions):
    """Where each copy is started and where it lands, in order: there is one role that starts any, and they land so."""
    loads = [n for n, index in enumerate(actions) if machine.actions[index].op.startswith("load")]
    lands = [n for n, index in enumerate(actions) if machine.actions[index].location is None]
    return dict(zip(loads, [*lands, *[len(actions)] * (len(loads) - len(lands))], strict=True))


def between(machine, actions):
    """Steps of roles that come between the start of a copy and its landing."""
    steps = [machine.actions[index].location is not None for index in actions]
    return sum(sum(steps[start + 1 : end]) for start, end in copies_of(machine, actions).items() if end < len(actions))


def sooner(machine, actions):
    return promptly(machine, actions, list(copies_of(machine, actions)))


def late_deadlock():
    """A schedule into the deadlock of LooksAtFull, with copies that land late, but in their order."""
    _, machine = model(LooksAtFull())
    found = explore(machine).violations["deadlock"].actions
    names = Counter(machine.actions[index].role for index in found if machine.actions[index].location is not None)
    assert set(names) == {"producer", "consumer"}
    return machine, found


def test_copies_land_before_the_next_step_where_they_can():
    machine, found = late_deadlock()
    assert between(machine, found) > 0
    schedule = sooner(machine, found)
    assert between(machine, schedule) == 0
    assert Schedule(machine, schedule).states[-1] == Schedule(machine, found).states[-1]


def test_the_schedule_of_a_deadlock_is_run_with_copies_in_time():
    """Nothing has to be late, though the schedule that was found lets copies land late."""
    plan, machine = model(LooksAtFull())
    found = explore(machine).violations["deadlock"].actions
    assert [way.late for way in deadlock_directions(plan, machine, found)] == [False]
    assert any(way.late for way in directions(plan, machine, found))


def test_every_role_does_the_same_in_its_own_order():
    machine, found = late_deadlock()
    schedule = sooner(machine, found)
    assert sorted(schedule) == sorted(found) and list(schedule) != list(found)
    for name in ("producer", "consumer"):
        of = [[index for index in one if machine.actions[index].role == name] for one in (found, schedule)]
        assert of[0] == of[1]


def test_steps_of_one_role_and_steps_that_touch_each_other_do_not_change_places():
    _, machine = model(TmaAsync(stages=1, trips=1))
    packed = Schedule(machine, ()).packed
    state, run = packed.initial, []
    while after := packed.successors(state):
        index, state = after[0]
        run.append(index)
    schedule = Schedule(machine, run)
    at = next(n for n, index in enumerate(run) if machine.actions[index].location is None)
    assert machine.actions[run[at + 1]].role == "consumer" and not schedule.swap(at)  # it waits for that copy
    roles = [machine.actions[index].role for index in run]
    same = next(n for n in range(len(run) - 1) if roles[n] == roles[n + 1] == "producer")
    assert not schedule.swap(same) and schedule.actions == run


class WritesTwice(Pipeline):
    """Two roles write one buffer: either may be first, and which one was last is to be seen."""

    a = tile(bytes=64)
    done = barrier(arrivals=2)

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=1)
        yield self.done.arrive()

    @role(warps=1)
    def other(self):
        yield self.a.write(tag=2)
        yield self.done.arrive()

    @role(warps=1)
    def reader(self):
        yield self.done.wait(0)
        yield self.a.read(tag=2)


def test_steps_that_are_possible_in_both_orders_must_have_the_same_effect():
    _, machine = model(WritesTwice())
    packed = Schedule(machine, ()).packed
    at = {action.role: index for index, action in reversed([*enumerate(machine.actions)])}
    between = dict(packed.successors(packed.initial))
    again = dict(packed.successors(between[at["one"]]))
    assert at["other"] in again
    assert not Schedule(machine, (at["one"], at["other"])).swap(0)
    arrives = next(index for index in again if machine.actions[index].role == "one")
    assert Schedule(machine, (at["one"], arrives, at["other"])).swap(1)


class Apart(Pipeline):
    """Three roles that have nothing to do with each other."""

    a = tile(bytes=64, slots=3)

    @role(warps=1)
    def one(self):
        yield self.a[0].write(tag=1)
        yield self.a[0].write(tag=2)

    @role(warps=1)
    def two(self):
        yield self.a[1].write(tag=1)

    @role(warps=1)
    def three(self):
        yield self.a[2].write(tag=1)


def test_a_step_is_postponed_behind_others_and_what_was_before_it_stays_there():
    _, machine = model(Apart())
    first, second, two, three = range(4)
    assert [machine.actions[index].role for index in range(4)] == ["one", "one", "two", "three"]
    schedule = Schedule(machine, (first, second, two, three))
    schedule.postpone(1)
    assert schedule.actions == [first, three, two, second] and schedule.order == [0, 3, 2, 1]
    schedule.postpone(0)
    assert schedule.actions == [two, three, first, second]


def test_every_start_is_postponed_from_where_it_is_by_then():
    _, machine = model(Apart())
    assert promptly(machine, (0, 2, 3), [0, 2]) == (0, 2, 3)


def test_what_is_not_possible_is_no_schedule():
    machine, found = late_deadlock()
    with pytest.raises(SpecError, match="is not possible where the schedule has it"):
        Schedule(machine, found[1:])


def test_a_copy_that_is_in_flight_at_the_end_starts_as_late_as_it_can():
    """The reader has waited before the copy over what it is to read has begun."""
    plan, machine = model(Overwrites())
    packed = Schedule(machine, ()).packed
    state, before = packed.initial, []
    for who in ("producer", "producer", None, "producer", "producer", "producer", "consumer"):
        wanted = [
            (index, after)
            for index, after in packed.successors(state)
            if (machine.actions[index].role == who) == (who is not None)
            and (machine.actions[index].location is None) == (who is None)
        ]
        (index, state) = wanted[0]
        before.append(index)
    read = next(index for index, _ in packed.successors(state) if machine.actions[index].role == "consumer")
    assert max(copies_of(machine, before).values()) == len(before)
    (*_, last) = sooner(machine, before)
    assert machine.actions[last].op.startswith("load")
    ways = race_directions(plan, machine, (*before, read))
    assert any(way.late for way in ways)
    for way in ways:
        wait = next(one.gate for one in way.roles[1].instructions if one.code == "wait")
        (*_, load) = [one.gate for one in way.roles[0].instructions if one.code == "load"]
        assert wait < load
