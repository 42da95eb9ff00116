"""A role is run again for each of its branches: up to there as before, without a look at what is known already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.closing import Closing
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace

OTHER = "does not do the same when it is run again"


class Runs:
    """How often a role has been run, which it must not know."""

    count = 0


class Replayed(Pipeline):
    """A role that is run twice, and waits before it branches, for what `first` gives; and holds what `held` gives."""

    b = barrier(arrivals=1)

    @role(warps=1)
    def runs(self):
        Runs.count += 1
        first = self.first(Runs.count > 1)
        held = self.held(first, Runs.count > 1)
        yield self.b[0].wait(first.phase)
        if (yield self.choose("side", False, True)):
            yield self.b[0].wait(held.phase)

    def first(self, again: bool) -> PipelineState:
        return PipelineState.start(1)

    def held(self, first: PipelineState, again: bool) -> PipelineState:
        return first


class WaitsForALaterLap(Replayed):
    """Of the same parity."""

    def first(self, again):
        return PipelineState.start(1) + 2 * again


class HoldsALaterLap(Replayed):
    def held(self, first, again):
        return first + 2 * again


class HoldsAnotherState(Replayed):
    """Equal to the one that it waits with, and not made of it."""

    def held(self, first, again):
        return PipelineState.start(1) if again else first


class HoldsTheSameState(Replayed):
    """Of another, which it held when it was run first."""

    def held(self, first, again):
        return first if again else PipelineState.start(1)


@pytest.fixture
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Roles are taken for the library's, which nobody watches for what they have to do with each other."""
    monkeypatch.setattr("sm90_verify.spec.language.walk.is_own", lambda kernel: False)
    monkeypatch.setattr(Runs, "count", 0)


@pytest.mark.usefixtures("_unwatched")
@pytest.mark.parametrize("wrong", [WaitsForALaterLap, HoldsALaterLap, HoldsAnotherState, HoldsTheSameState])
def test_a_role_with_other_states_when_run_again_is_refused(wrong: type[Pipeline]) -> None:
    assert len(trace(Replayed()).programs[0].nodes) == 5
    Runs.count = 0
    with pytest.raises(SpecError, match=OTHER):
        trace(wrong())


@pytest.mark.usefixtures("_unwatched")
@pytest.mark.parametrize("ends", [False, True])
def test_a_role_with_other_operations_when_run_again_is_refused(ends: bool) -> None:
    class Other(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def runs(self):
            Runs.count += 1
            if Runs.count > 1:
                if ends:
                    return
                yield self.b[0].arrive()
            yield self.choose("side", False, True)

    with pytest.raises(SpecError, match=OTHER):
        trace(Other())


@pytest.mark.usefixtures("_unwatched")
def test_a_role_that_does_something_else_once_more_is_asked_of_its_loop_is_refused() -> None:
    class Other(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def runs(self):
            Runs.count += 1
            for k in self.forever(period=2):
                yield self.b[0].arrive(1 + (Runs.count > 1))
                if k % 2:  # asked for here, the number is told apart from the start
                    yield self.b[0].arrive()

    with pytest.raises(SpecError, match=OTHER):
        trace(Other())


@pytest.mark.usefixtures("_unwatched")
def test_a_role_with_another_phase_once_more_is_asked_of_its_loop_is_refused() -> None:
    class Other(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def runs(self):
            Runs.count += 1
            state = PipelineState.start(1) + 2 * (Runs.count > 1)
            yield self.b[0].wait(state.phase)
            for k in self.forever(period=2):
                yield self.b[0].arrive()
                if k % 2:
                    yield self.b[0].arrive()

    with pytest.raises(SpecError, match=OTHER):
        trace(Other())


def test_what_a_role_kept_before_it_branched_must_stay_as_it_is() -> None:
    class Keeps(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def keeps(self):
            class Box:
                number = 0

            yield self.choose("one", False, True)
            if (yield self.choose("other", False, True)):
                Box.number = 1
            yield self.choose("last", False, True)
            yield self.b[0].arrive(1 + Box.number)

    with pytest.raises(SpecError, match=r"a role changes Box\.number"):
        trace(Keeps())


def test_a_branch_after_many_iterations_is_followed() -> None:
    """Iterations that were passed again are none that go round without an operation."""

    class Late(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def late(self):
            for k in self.forever(period=1_200):
                if k == 1_100:
                    yield self.choose("side", False, True)
                yield self.b[0].arrive()

    assert len(trace(Late()).programs[0].nodes) == 1_102


def test_what_is_known_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three choices in each iteration, so that each is reached by a run that repeats all that came before."""

    class Tagged(Pipeline):
        stages = 2
        b = barrier(arrivals=1, slots=2)

        @role(warps=1)
        def chooses(self):
            at = PipelineState.start(2)
            for _ in self.forever():
                for _ in range((yield self.choose("blocks", 1, 2, 3))):
                    yield self.b[at].wait(at.phase)
                    at = at + 1

    looks = steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1

    def counted(look: Callable[..., object]) -> Callable[..., object]:
        def counting(*given: object) -> object:
            nonlocal looks
            looks += 1
            return look(*given)

        return counting

    for name in ("of_head", "of_suspended"):
        monkeypatch.setattr(Closing, name, counted(getattr(Closing, name)))
    trace(Tagged(), step)
    assert looks * 4 < steps
