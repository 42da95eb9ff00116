"""cutlass::PipelineState (sm90_pipeline.hpp:169-249) as arithmetic that is written once and read two ways.

With plain numbers it computes, count and argument being 32 bits wide as in CUTLASS; with symbols of a solver it stands
for every stage count, state and argument at once. `Arithmetic` says how the two choose and divide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORD = 1 << 32
"""index + n and count are uint32_t."""


@dataclass(frozen=True)
class Arithmetic:
    """where(condition, a, b); all(conditions); divmod(number, stages); word(number): as a uint32_t."""

    where: Callable[[Any, Any, Any], Any]
    all: Callable[..., Any]
    divmod: Callable[[Any, Any], tuple[Any, Any]]
    word: Callable[[Any], Any]


def _plain_word(number: int) -> int:
    return number % WORD


NUMBERS = Arithmetic(lambda c, a, b: a if c else b, lambda *conditions: all(conditions), divmod, _plain_word)
UNBOUNDED = Arithmetic(
    lambda c, a, b: a if c else b, lambda *conditions: all(conditions), divmod, lambda number: number
)


@dataclass(frozen=True)
class State:
    """(index, phase, count), numbers or symbols."""

    index: Any
    phase: Any
    count: Any


def increment(a: Arithmetic, state: State, stages: Any) -> State:
    """operator++ (:205-215)."""
    wraps = state.index + 1 == stages
    return State(
        a.where(wraps, 0, state.index + 1), a.where(wraps, 1 - state.phase, state.phase), a.word(state.count + 1)
    )


def advance(a: Arithmetic, state: State, n: Any, stages: Any) -> State:
    """advance(n) (:225-241): the phase flips if fewer than a lap crosses the end, or if the laps are odd."""
    total = a.word(state.index + n)
    laps, index = a.divmod(total, stages)
    crosses = a.all(n < stages, total >= stages)
    odd = a.all(n >= stages, laps % 2 == 1)
    phase = a.where(crosses, 1 - state.phase, a.where(odd, 1 - state.phase, state.phase))
    return State(index, phase, a.word(state.count + n))


def increment_by_count(a: Arithmetic, state: State, stages: Any) -> State:
    """The loop that flips its phase when, after the step, `count % stages == 0`; its index is count % stages."""
    count = a.word(state.count + 1)
    _, index = a.divmod(count, stages)
    return State(index, a.where(index == 0, 1 - state.phase, state.phase), count)
