"""PipelineState and the numbers that a role's control flow is made of.

All of them are ordinary values while a role is traced, and all of them are periodic, so that a loop without end can be
closed: a `Count` grows for ever but can only be asked questions whose answers repeat; a PipelineState repeats with its
ring. `lap` is the ghost of a phase bit: the number of the phase that the bit stands for, -1 for a producer's first lap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.phase import EXACT, RECURS, Lineage, Phase

LAPS = 4
"""Laps of a ring after which a count recurs: even, because parity is, and more than 2, so that data that is stale by
one whole period of (index, phase) still differs from the right data."""


def ring_period(stages: int) -> int:
    """Iterations after which the state of a ring recurs: LAPS laps, and twice that for a single stage, where an
    iteration is a lap and roles that are two apart must not look like roles that are two apart the other way round.
    """
    return LAPS * max(stages, 2)


class PipelineState:
    """cutlass::PipelineState<Stages> (sm90_pipeline.hpp:169-249): a value; `state + 1` is what `++state` leaves.

    With 0 stages it never moves. Whoever asks for its number, and not only for its index and phase, is remembered in
    its lineage: where nobody asks, a loop is closed as if there were none.
    """

    __slots__ = ("_lap", "_number", "doubt", "flipped", "index", "lineage", "stages")
    stages: int
    index: int
    _lap: int
    _number: int
    lineage: Lineage
    flipped: bool
    doubt: object

    def __init__(
        self, stages: int, index: int, lap: int, number: int, lineage: Lineage, flipped: bool, doubt: object = None
    ) -> None:
        for name, value in zip(
            ("stages", "index", "_lap", "_number", "lineage", "flipped", "doubt"),
            (stages, index, lap, number, lineage, flipped, doubt),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise SpecError(f"a pipeline state is a value: its {name} cannot be set, write `state = state + 1`")

    def __copy__(self) -> PipelineState:
        return self

    def __deepcopy__(self, memo: object) -> PipelineState:
        """Itself, as a value: a copy of its lineage would be another one."""
        return self

    def __bool__(self) -> bool:
        raise SpecError("a pipeline state has no truth value: use its count, index or phase")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PipelineState) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return f"PipelineState{self._all()}"

    def _all(self) -> tuple[object, ...]:
        return self.stages, self.index, self.lap, self.number, self.lineage, self.flipped

    @property
    def number(self) -> int:
        """How often the state was advanced: a number that does not recur, so that no loop is closed beside it."""
        self.lineage.asked = EXACT
        return self._number

    @property
    def lap(self) -> int:
        """The number of the phase that its bit stands for, which does not recur either."""
        self.lineage.asked = EXACT
        return self._lap

    @staticmethod
    def start(stages: int, *, producer: bool = False) -> PipelineState:
        """The consumer's start (0, 0, 0), or the producer's (0, 1, 0) whose first lap passes on fresh barriers
        (:252).
        """
        if stages < 0:
            raise SpecError(f"a pipeline state of {stages} stages: use 0 or more")
        return PipelineState(stages, 0, -1 if producer else 0, 0, Lineage(), producer)

    @property
    def phase(self) -> Phase:
        """The phase bit to wait with."""
        return Phase(self._lap, self.lineage, self.flipped, self.doubt)

    @property
    def count(self) -> Count:
        """How often the state was advanced; it can be compared with numbers up to the number of stages."""
        return Count(self._asked(), ring_period(self.stages), exact=self.stages)

    @property
    def tag(self) -> int:
        """The count as a content tag: what the buffer of this stage should hold."""
        return self._asked() % ring_period(self.stages) if self.stages else 0

    def _asked(self) -> int:
        self.lineage.asked = max(self.lineage.asked, RECURS)
        return self._number

    def advance(self, steps: int) -> PipelineState:
        """The state `steps` further on (:225-241); equal to that many increments for every number of steps."""
        if self.stages == 0:
            return self
        laps, index = divmod(self.index + steps, self.stages)
        lap, number = self._lap + laps, self._number + steps
        return PipelineState(self.stages, index, lap, number, self.lineage, self.flipped, self.doubt)

    def __add__(self, steps: int) -> PipelineState:
        return self.advance(steps)

    def flip(self) -> PipelineState:
        """The state with its phase bit inverted, as the epilogue makes a wait state from a store state."""
        phase: Phase = self.phase ^ 1
        return PipelineState(self.stages, self.index, phase._lap, self._number, self.lineage, phase.flipped, self.doubt)


class Count:
    """The number of an iteration of a loop without end, exact, that answers only what recurs with its period.

    `k % m`, `k // m` and `k & mask` need an m that divides the period; comparisons need a number within the first
    period.
    """

    __slots__ = ("exact", "observer", "period", "value")

    def __init__(
        self, value: int, period: int, observer: Callable[[], None] | None = None, exact: int | None = None
    ) -> None:
        self.value, self.period, self.observer = value, period, observer
        self.exact = period if exact is None else exact

    def __deepcopy__(self, memo: object) -> Count:
        return self

    @property
    def key(self) -> tuple[int, int]:
        """Equal keys, equal answers for ever after."""
        settled = self.exact + (self.value - self.exact) % self.period
        return (min(self.value, settled), self.period)

    @property
    def tag(self) -> int:
        """The number as a content tag."""
        return self._used() % self.period

    def _used(self) -> int:
        if self.observer is not None:
            self.observer()
        return self.value

    def __mod__(self, m: int) -> int:
        self._divides(m, "%")
        return self._used() % m

    def __floordiv__(self, m: int) -> Count:
        self._divides(m, "//")
        return Count(self._used() // m, self.period // m, exact=self.exact // m)

    def __and__(self, mask: int) -> int:
        if mask & (mask + 1):
            raise SpecError(f"count & {mask}: use a mask of the form 2**n - 1")
        return self % (mask + 1)

    def __add__(self, n: int) -> Count:
        return Count(self._used() + n, self.period, exact=self.exact)

    def __sub__(self, n: int) -> Count:
        return Count(self._used() - n, self.period, exact=max(0, self.exact - n))

    def __mul__(self, n: int) -> Count:
        return Count(self._used() * n, self.period * n, exact=self.exact * n)

    def __eq__(self, other: object) -> bool:
        return self._used() == self._comparable(other)

    def __lt__(self, other: int) -> bool:
        return self._used() < self._comparable(other)

    def __le__(self, other: int) -> bool:
        return self._used() <= self._comparable(other)

    def __gt__(self, other: int) -> bool:
        return self._used() > self._comparable(other)

    def __ge__(self, other: int) -> bool:
        return self._used() >= self._comparable(other)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self.key)

    def __index__(self) -> int:
        raise SpecError(
            "the number of an iteration without end cannot be used as a plain number: "
            "reduce it first, for example k % stages"
        )

    def __repr__(self) -> str:
        return str(self._used())

    def _divides(self, m: int, operator: str) -> None:
        if m < 1 or self.period % m:
            raise SpecError(
                f"count {operator} {m} does not recur with the period {self.period} of the loop: "
                f"write self.loop(period=...) with a multiple of {m}"
            )

    def _comparable(self, other: object) -> int:
        if not isinstance(other, int) or other > self.exact:
            raise SpecError(
                f"a count without end cannot be compared with {other!r}: only with numbers up to {self.exact} "
                "(for a loop's own count, write self.loop(period=...))"
            )
        return other
