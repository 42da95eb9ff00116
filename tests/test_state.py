"""PipelineState and Count: ordinary numbers while a role is traced, periodic for ever after."""

from __future__ import annotations

from copy import copy, deepcopy

import pytest

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.state import Count, PipelineState, ring_period


def shown(state: PipelineState) -> tuple[int, int, int]:
    return state.index, int(state.phase), state.number


@pytest.mark.parametrize("producer", [False, True])
@pytest.mark.parametrize("stages", range(7))
def test_advance_is_that_many_increments(stages: int, producer: bool) -> None:
    """sm90_pipeline.hpp:204-241."""
    start = PipelineState.start(stages, producer=producer)
    for offset in range(2 * stages + 1):
        stepped = start.advance(offset)
        for steps in range(4 * stages + 2):
            assert stepped == start.advance(offset).advance(steps)
            assert shown(stepped) == shown(start.advance(offset + steps))
            stepped += 1


def test_advance_by_three_two_and_five() -> None:
    state = PipelineState.start(4)
    seen = []
    for steps in (3, 2, 5):
        state = state.advance(steps)
        seen.append((state.index, int(state.phase)))
    assert seen == [(3, 0), (1, 1), (2, 0)]


@pytest.mark.parametrize("stages", range(1, 6))
def test_phase_is_the_parity_of_the_lap(stages: int) -> None:
    consumer, producer = PipelineState.start(stages), PipelineState.start(stages, producer=True)
    assert shown(consumer) == (0, 0, 0)
    assert shown(producer) == (0, 1, 0)
    for k in range(5 * stages):
        assert shown(consumer) == (k % stages, k // stages & 1, k)
        assert shown(producer) == (k % stages, k // stages & 1 ^ 1, k)
        consumer, producer = consumer + 1, producer + 1


def test_state_of_no_stages_never_moves() -> None:
    """sm90_pipeline.hpp:204: Stages == 0."""
    state = PipelineState.start(0)
    assert state.advance(5) == state


def test_state_of_fewer_than_no_stages() -> None:
    with pytest.raises(SpecError, match="use 0 or more"):
        PipelineState.start(-1)


@pytest.mark.parametrize("again", [copy, deepcopy, lambda value: deepcopy([value])[0]])
def test_a_copy_is_the_state_itself(again) -> None:
    state = PipelineState.start(2) + 3
    assert again(state) is state
    assert again(state.phase).lineage is state.lineage
    assert again(Count(3, 8, observer=pytest.fail)).period == 8


def test_inverted_phase_stands_for_the_phase_before() -> None:
    consumer = PipelineState.start(2).advance(4)
    assert (consumer.phase.lap, (consumer.phase ^ 1).lap) == (2, 1)
    producer = PipelineState.start(2, producer=True).advance(4)
    assert (producer.phase.lap, (producer.phase ^ 1).lap) == (1, 2)
    assert producer.flip().phase.lap == 2
    assert producer.flip().flip() == producer


@pytest.mark.parametrize("stages", range(1, 6))
def test_tag_tells_data_from_data_that_is_one_period_older(stages: int) -> None:
    """The period of (index, phase) is two laps: data that is stale by as much must still look stale."""
    state = PipelineState.start(stages)
    older = state.advance(2 * stages)
    assert (state.index, state.phase) == (older.index, older.phase)
    assert state.tag != older.tag
    assert state.tag == state.advance(ring_period(stages)).tag


@pytest.mark.parametrize("period", [4, 12])
def test_count_answers_like_its_number(period: int) -> None:
    divisors = [m for m in range(1, period + 1) if period % m == 0]
    for k in range(3 * period):
        count = Count(k, period)
        for m in divisors:
            assert count % m == k % m
            assert (count + 3) % m == (k + 3) % m
            assert (count * 2) % m == (2 * k) % m
            assert count // m % (period // m) == k // m % (period // m)
        assert count & 3 == k & 3
        for other in range(period):
            assert (count == other, count < other, count >= other) == (k == other, k < other, k >= other)
            assert (count != other, count <= other, count > other) == (k != other, k <= other, k > other)


def test_counts_of_equal_key_answer_alike_for_ever() -> None:
    period = 6
    for k in range(4 * period):
        for later in range(4 * period):
            one, other = Count(k, period), Count(later, period)
            if one.key == other.key:
                assert all((one + i) % m == (other + i) % m for i in range(period) for m in (1, 2, 3, 6))
                assert all((one < n, one == n) == (other < n, other == n) for n in range(period))


def test_count_of_one_lap_differs_from_the_next() -> None:
    assert Count(1, 4).key != Count(5, 4).key
    assert Count(5, 4).key == Count(9, 4).key


@pytest.mark.parametrize(
    ("question", "hint"),
    [
        (lambda count: count % 3, "a multiple of 3"),
        (lambda count: count // 3, "a multiple of 3"),
        (lambda count: count & 2, "2\\*\\*n - 1"),
        (lambda count: count < 9, "only with numbers"),
        (lambda count: count == 9, "only with numbers"),
        (lambda count: [0, 1][count], "reduce it first"),
    ],
)
def test_count_refuses_what_does_not_recur(question, hint: str) -> None:
    with pytest.raises(SpecError, match=hint):
        question(Count(2, 8))


def test_count_says_that_it_is_asked() -> None:
    asked = []
    count = Count(3, 4, lambda: asked.append(True))
    assert asked == []
    assert count % 2 == 1
    assert asked


def test_the_number_of_an_iteration_is_written_as_a_number():
    asked = []
    assert f"k{Count(3, 8, lambda: asked.append(True))}" == "k3" and asked == [True]
