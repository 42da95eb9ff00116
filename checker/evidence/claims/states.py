"""Claims about PipelineState: for every stage count and every number of steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from sm90_verify.evidence.claims import arithmetic
from sm90_verify.evidence.claims.arithmetic import for_all
from sm90_verify.evidence.claims.claim import Claim, Condition, Point
from sm90_verify.evidence.claims.models.first_laps import HandParity
from sm90_verify.evidence.claims.models.state_arithmetic import (
    NUMBERS,
    UNBOUNDED,
    WORD,
    State,
    advance,
    increment,
    increment_by_count,
)
from sm90_verify.evidence.claims.runs import box, enumerated, over
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.language.state import PipelineState

STAGES = range(1, 65)
Cases = Iterable[tuple[bool, str]]


def _lemma() -> Point:
    return Point({"lemma": "division"}, for_all("division by the stage count", arithmetic.unique_division))


def _small(what: Callable[[int, int], Cases]) -> Cases:
    """Every stage count up to 64, two laps and more."""
    for stages in STAGES:
        for n in range(3 * stages + 2):
            yield from what(stages, n)


def _advance_in_numbers(stages: int, n: int) -> Cases:
    """The formula, the increments and the specification's own state, from every index."""
    for index in range(stages) if stages <= 8 else (0, 1, stages - 1):
        for phase in (0, 1):
            start = State(index, phase, index)
            jumped, stepped = advance(NUMBERS, start, n, stages), start
            for _ in range(n):
                stepped = increment(NUMBERS, stepped, stages)
            mine = PipelineState.start(stages, producer=phase == 1).advance(index).advance(n)
            known = (mine.index, int(mine.phase), mine.number)
            right = jumped == stepped and known == (jumped.index, jumped.phase, jumped.count)
            yield right, f"from ({index}, {phase}) by {n} with {stages} stages: {jumped}, {stepped}, {known}"


def _example() -> Cases:
    state = State(0, 0, 0)
    for n, wanted in ((3, (3, 0)), (2, (1, 1)), (5, (2, 0))):
        state = advance(NUMBERS, state, n, 4)
        yield (
            (state.index, state.phase) == wanted,
            f"advancing by {n} gives ({state.index}, {state.phase}), not {wanted}",
        )


def _wrapping(stages: int) -> Cases:
    """Every argument for which index + n does not fit 32 bits: the truth is what unbounded numbers give."""
    for index in range(stages):
        for n in range(WORD - index, WORD):
            there, exact = (advance(a, State(index, 0, 0), n, stages) for a in (NUMBERS, UNBOUNDED))
            right = (there.index, there.phase) == (exact.index, exact.phase)
            yield (
                right,
                f"from index {index} by {n}: ({there.index}, {there.phase}), not ({exact.index}, {exact.phase})",
            )
    yield True, ""


def _wrapping_count(stages: int) -> Cases:
    """The step in which the count wraps."""
    laps, index = divmod(WORD - 1, stages)
    state = State(index, laps & 1, WORD - 1)
    after, counted = increment(NUMBERS, state, stages), increment_by_count(NUMBERS, state, stages)
    right = after.phase == (after.count // stages) & 1 and (after.index, after.phase) == (counted.index, counted.phase)
    yield right, f"after 2^32 steps: index {after.index}, phase {after.phase}, count {after.count}"


def _wraps(name: str, cases: Callable[[int], Cases]) -> list[Point]:
    """Beyond the scope: right for powers of two only."""
    return [
        Point(
            {"stages": s},
            enumerated(name, {"stages": s}, partial(cases, s)),
            PROVED if s & (s - 1) == 0 else VIOLATED,
            True,
        )
        for s in STAGES
    ]


def _claim_12() -> Iterable[Point]:
    yield _lemma()
    yield Point({"proof": "start"}, for_all("phase = count / stages", arithmetic.at_the_start(0)))
    yield Point({"proof": "increment"}, for_all("phase = count / stages", arithmetic.phase_is_laps))
    yield Point(
        {"proof": "start of a producer"}, for_all("phase = count / stages", arithmetic.at_the_start(1)), VIOLATED, True
    )
    yield from _wraps("count wraps", _wrapping_count)


def _claim_62() -> Iterable[Point]:
    yield _lemma()
    for role, wanted in (("consumer", 0), ("producer", 1)):
        yield Point({"loop": role}, for_all("parity kept by hand", arithmetic.by_hand(0, wanted)))
    yield from (
        Point({"loop": "consumer", **point.at}, point.run) for point in over(HandParity, box(stages=(1, 2, 3, 4)))
    )
    yield from (
        Point({"loop": "producer", **point.at}, point.run)
        for point in over(HandParity, box(stages=(1, 2, 3, 4), producer_parity=(0,)))
    )


def _claim_72() -> Iterable[Point]:
    yield Point({"example": "3, 2, 5"}, enumerated("advance", {"stages": 4}, _example))
    yield _lemma()
    yield Point({"proof": "advance(0)"}, for_all("advance = increments", arithmetic.advance_zero))
    yield Point({"proof": "advance(n + 1)"}, for_all("advance = increments", arithmetic.advance_one_more))
    yield Point({"numbers": "64 stages"}, enumerated("advance = increments", {}, lambda: _small(_advance_in_numbers)))
    yield from _wraps("index + n wraps", _wrapping)


def _claim_76() -> Iterable[Point]:
    yield _lemma()
    yield Point({"proof": "step"}, for_all("flip by count", arithmetic.same_by_count))
    yield from _wraps("count wraps", _wrapping_count)


WRAPS = "numbers below 2^32, the range of uint32_t; where they wrap it goes on for powers of two only (1 to 64 stages)"

ROWS: tuple[Claim, ...] = (
    Claim(
        12,
        "PipelineState.phase flips each time index wraps, so phase == (count / Stages) & 1 for a consumer",
        "it is so at a consumer's start, and every increment keeps it so, for every stage count",
        _claim_12,
        scope=WRAPS,
    ),
    Claim(
        62,
        "a loop that starts at parity 0 and flips it when (i + 1) % Stages == 0 is right for consumer and producer",
        "in every iteration the parity is the one to wait with",
        _claim_62,
        (
            Condition(
                "it is the consumer's loop; the producer's starts at parity 1",
                lambda p: p.get("loop", "consumer") == "consumer",
            ),
        ),
    ),
    Claim(
        72,
        "from (index 0, phase 0) with four stages, advancing by 3, 2, 5 gives (3,0), (1,1), (2,0); advance(n) equals n"
        " increments",
        "the three states are these, and advance(n) is n increments for every state, n and stage count",
        _claim_72,
        scope=WRAPS,
    ),
    Claim(
        76,
        "`if (count % Stages == 0) phase ^= 1` after each step is the same as operator++",
        "from every state with index = count mod Stages the two do the same, and it is so again",
        _claim_76,
        scope=WRAPS,
    ),
)
