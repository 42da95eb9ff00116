"""The loops of a role in its program: unrolled, closed where their states recur, or refused."""

from __future__ import annotations

import pytest
from programs import Ring, explored, operations, program

from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import LAPS, PipelineState, ring_period
from sm90_verify.spec.language.walk import trace


@pytest.mark.parametrize("stages", range(1, 5))
def test_endless_loop_closes_when_its_states_recur(stages: int) -> None:
    """A decision and three operations for each iteration of the period, and of a first lap of its own."""
    for number in range(2):
        closed = program(Ring(stages=stages), number)
        iterations = ring_period(stages) + stages
        assert sum(bool(node.loop) for node in closed.nodes) == iterations
        assert len(operations(closed)) == 3 * iterations
        assert all(node.successors for node in closed.nodes if node.operation is not None)


def test_loop_without_end_has_no_end() -> None:
    assert all(node.successors for node in program(Ring(trips="forever")).nodes)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_loop_of_some_trips_is_unrolled(trips: int) -> None:
    unrolled = program(Ring(trips=trips))
    assert len(operations(unrolled)) == 3 * trips
    assert len(unrolled.nodes) == 3 * trips + 1


@pytest.mark.parametrize("trips", [0, 1])
def test_no_trip_and_one_trip_are_proved(trips: int) -> None:
    exploration = explored(Ring(trips=trips))
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")
    assert exploration.states == (1 if trips == 0 else 8)


def test_all_trip_counts_include_none_and_every_other() -> None:
    """Both roles stop at the same iteration, whichever asks first."""
    exploration = explored(Ring())
    assert exploration.finished
    assert exploration.unreached == ()
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")


class Counts(Ring):
    """The consumer counts modulo `turns` beside the ring."""

    turns = 2

    @role(warps=4)
    def consumer(self):
        at, turn = PipelineState.start(self.stages), 0
        for _ in self.loop("forever"):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
            at, turn = at + 1, (turn + 1) % self.turns


def test_variable_with_a_shorter_period_closes_with_the_ring() -> None:
    assert len(program(Counts(), 1).nodes) == len(program(Ring(trips="forever"), 1).nodes)


def test_variable_whose_period_does_not_divide_makes_the_loop_longer() -> None:
    period = LAPS * 2
    assert len(program(Counts(turns=3), 1).nodes) >= 3 * (3 * period)


def test_variable_that_grows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Grows(Ring):
        @role(warps=4)
        def consumer(self):
            total = 0
            for _ in self.loop("forever"):
                yield self.full[0].wait(0)
                total += 2

    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_LOCATIONS", 500)
    with pytest.raises(SpecError, match="still running after"):
        trace(Grows())


@pytest.mark.parametrize("forever", [False, True])
def test_polls_of_two_barriers_need_a_loop_that_closes(monkeypatch: pytest.MonkeyPatch, forever: bool) -> None:
    """Without one every answer is another way from the start: told with its line, in seconds."""

    class Polls(Ring):
        @role(warps=4)
        def consumer(self):
            seen = [False, False]
            for _ in self.forever() if forever else iter(int, 1):
                if all(seen):
                    return
                for stage in (0, 1):
                    seen[stage] = seen[stage] or (yield self.full[stage].test_wait(0))

    monkeypatch.setattr("sm90_verify.spec.language.course.MAX_STEPS", 20_000)
    if forever:
        trace(Polls(stages=2))
        return
    with pytest.raises(SpecError, match=r"branches on and on.*self\.forever") as error:
        trace(Polls(stages=2))
    assert error.value.where is not None and error.value.where.file == __file__


def test_count_must_recur_with_the_loop() -> None:
    class OfThree(Ring):
        period = 0

        @role(warps=4)
        def consumer(self):
            for k in self.loop("forever", period=self.period):
                yield self.full[k % 3 % 2].wait(k // 6 & 1)

    with pytest.raises(SpecError, match="a multiple of 3"):
        trace(OfThree())
    assert len(program(OfThree(period=12), 1).nodes) >= 12


def test_number_of_the_iteration_costs_nothing_unless_it_is_asked_for() -> None:
    class Counts(Ring):
        asks = False
        stages = 1

        @role(warps=4)
        def consumer(self):
            for k in self.loop("forever", period=6):
                yield self.full[0].wait(0)
                if self.asks and k % 3 == 0:
                    yield self.empty[0].arrive()

    assert len(program(Counts(), 1).nodes) < len(program(Counts(asks=True), 1).nodes)


def test_the_same_loop_entered_again_is_another():
    """Two passes of a finite loop around a loop without end: what follows the second pass is still there."""

    class Twice(Pipeline):
        stages = 1
        done = barrier(arrivals=1)

        @role(warps=1)
        def loops(self):
            for _same in (5, 5):
                for _ in self.forever():
                    if (yield self.choose("leave", False, True)):
                        break
            yield self.done.arrive()

    (program,) = trace(Twice()).programs
    operations = [type(node.operation).__name__ for node in program.nodes]
    assert operations.count("Choose") == 2 and operations.count("Arrive") == 1
