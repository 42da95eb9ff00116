"""The tx-count in every order of the contributions to a phase, whether or not the phase completes."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from test_order import agreement
from traced import traced

from sm90_verify.counterexample.trace import shows_again
from sm90_verify.engines.order import Outcome, order
from sm90_verify.engines.order.counts import extreme
from sm90_verify.engines.order.schedule import confirm, trace_of
from sm90_verify.engines.order.state import Contribution
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

# ---------------------------------------------------------------- programs of signals only


AGAIN = ("again", "")


class Signals(Pipeline):
    """Each role does what its program says, (verb, barrier, number, ...); what is after AGAIN, for ever."""

    unseen = True
    p_arrivals = 1
    q_arrivals = 1
    programs: tuple[tuple[tuple[Any, ...], ...], ...] = ()

    p = barrier(arrivals="p_arrivals", slots=1)
    q = barrier(arrivals="q_arrivals", slots=1)
    a = tile(bytes=32, slots=2)

    @role(warps=1, copies=lambda self: len(self.programs))
    def cook(self, me: Threads):
        steps = self.programs[me.copy]
        if AGAIN in steps:
            place = steps.index(AGAIN)
            yield from self.taking(steps[:place])
            for _ in self.loop("forever"):
                yield from self.taking(steps[place + 1 :])
        else:
            yield from self.taking(steps)

    def taking(self, steps):
        token = None
        for verb, name, *numbers in steps:
            b = getattr(self, name)[0] if name else None
            match verb:
                case "expect":
                    yield b.expect_tx(*numbers)
                case "complete":
                    yield b.complete_tx(*numbers)
                case "arrive":
                    yield b.arrive(*numbers)
                case "token":
                    token = yield b.arrive(*numbers)
                    yield b.wait(token)
                case "arm":
                    yield b.arrive_expect_tx(*numbers)
                case "drop":
                    yield b.arrive_drop(*numbers)
                case "early":
                    yield b.arrive_no_complete(*numbers)
                case "load":
                    yield self.a[numbers[0]].load(signals=b, pieces=numbers[1])
                case "wait":
                    yield b.wait(*numbers)
                case "inval":
                    yield b.inval()
                case "init":
                    yield b.init(*numbers)
                case "sync":
                    yield self.named_sync(1, 64)


def signals(*programs: tuple[tuple[Any, ...], ...], **parameters: Any) -> Signals:
    pipeline = Signals(**parameters)
    object.__setattr__(pipeline, "programs", programs)
    return pipeline


MOST = COUNT_LIMIT
UP_TO_16 = MOST - 15
"""16 bytes more are one too many."""


def decided(pipeline: Pipeline) -> Outcome:
    """What order says, after search without reduction has said the same about every property."""
    said = order(traced(pipeline))
    machine = compile_kernel(said.kernel)
    full = explore(machine)
    assert full.complete or full.violations
    shown = confirm(said, machine)
    if VIOLATED in (said.verdict, *said.verdicts.values()) or said.verdict == PROVED:
        assert set(shown) <= set(full.violations)
    assert all(failure.property in shown for failure in said.failures if failure.certain), said.failures
    assert said.verdict != PROVED or not full.violations
    return said


# ---------------------------------------------------------------- the range of the tx-count

LEAVES_ITS_RANGE = {
    "expected by another role before these have landed": signals(
        (("expect", "p", UP_TO_16), ("complete", "p", UP_TO_16)),
        (("expect", "p", 16), ("complete", "p", 16), ("arrive", "p"), ("wait", "p", 0)),
        (("arrive", "p"),),
        p_arrivals=2,
    ),
    "the first role is the one with an arrival": signals(
        (("expect", "p", UP_TO_16), ("complete", "p", UP_TO_16), ("arrive", "p")),
        (("expect", "p", 16), ("complete", "p", 16), ("arrive", "p")),
        p_arrivals=2,
    ),
    "an incomplete phase": signals(
        (("expect", "p", MOST), ("complete", "p", 16)),
        (("expect", "p", 16), ("arrive", "p")),
        p_arrivals=2,
    ),
    "an incomplete phase of which somebody waits for ever": signals(
        (("expect", "p", MOST), ("complete", "p", 16)),
        (("expect", "p", 16), ("wait", "p", 0)),
        p_arrivals=2,
    ),
    "landed by another role before these are expected": signals(
        (("expect", "p", MOST), ("complete", "p", MOST)),
        (("complete", "p", 1), ("expect", "p", 1), ("arrive", "p")),
        (("complete", "p", MOST), ("expect", "p", MOST), ("arrive", "p")),
        p_arrivals=2,
    ),
    "landed before these are expected, on the way to what else may go wrong": signals(
        (("expect", "p", 16),),
        (("complete", "p", 1), ("arrive", "q")),
        (("complete", "p", MOST), ("inval", "q")),
        p_arrivals=2,
        q_arrivals=2,
    ),
    "a piece of a copy that lands early": signals(
        (("load", "p", 0, 2), ("arm", "p", 32)),
        (("complete", "p", MOST - 31), ("arm", "p", MOST - 31)),
        p_arrivals=2,
    ),
    "a copy that lands late": signals(
        (("expect", "p", 32), ("load", "p", 0, 1), ("expect", "p", MOST - 31), ("arrive", "p")),
        p_arrivals=1,
    ),
    "a phase that an inval cuts short": signals(
        (("expect", "p", MOST), ("complete", "p", MOST), ("arrive", "q")),
        (("expect", "p", 1), ("complete", "p", 1), ("arrive", "q")),
        (("wait", "q", 0), ("inval", "p")),
        q_arrivals=2,
    ),
    "a phase that begins anew after an init": signals(
        (("inval", "p"), ("init", "p", 2), ("sync", ""), ("expect", "p", MOST), ("complete", "p", MOST)),
        (("sync", ""), ("expect", "p", 1), ("complete", "p", 1)),
    ),
    "a phase that is open while others go on for ever": signals(
        (("expect", "q", MOST), ("complete", "q", MOST), AGAIN, ("sync", "")),
        (("expect", "q", 1), ("complete", "q", 1), AGAIN, ("sync", "")),
    ),
    "bytes of an arrival by several threads": signals(
        (("arm", "p", 1 << 18, 2), ("complete", "p", 1 << 19)),
        (("expect", "p", 1 << 19), ("complete", "p", 1 << 19), ("arrive", "p")),
        p_arrivals=3,
    ),
    "bytes of an arrive_drop": signals(
        (("drop", "p", 1, MOST), ("complete", "p", 16)),
        (("expect", "p", 16), ("complete", "p", MOST), ("arrive", "p")),
        p_arrivals=3,
    ),
}
STAYS_IN_ITS_RANGE = {
    "one byte less": signals(
        (("expect", "p", UP_TO_16 - 1), ("complete", "p", UP_TO_16 - 1), ("arrive", "p")),
        (("expect", "p", 16), ("complete", "p", 16), ("arrive", "p")),
        p_arrivals=2,
    ),
    "one byte less, landed first": signals(
        (("complete", "p", MOST - 1), ("expect", "p", MOST - 1), ("arrive", "p")),
        (("complete", "p", 1), ("expect", "p", 1), ("arrive", "p")),
        p_arrivals=2,
    ),
    "one after the other": signals(
        (*(("expect", "p", MOST), ("complete", "p", MOST)) * 3, ("arrive", "p")),
    ),
    "one after the other by two roles": signals(
        (("expect", "p", MOST), ("complete", "p", MOST), ("sync", ""), ("arrive", "p")),
        (("sync", ""), ("expect", "p", MOST), ("complete", "p", MOST), ("arrive", "p")),
        p_arrivals=2,
    ),
    "landed first, one after the other by two roles": signals(
        (("complete", "p", MOST), ("expect", "p", MOST), ("sync", ""), ("arrive", "p")),
        (("sync", ""), ("complete", "p", MOST), ("expect", "p", MOST), ("arrive", "p")),
        p_arrivals=2,
    ),
    "a phase for each role": signals(
        (("arm", "p", MOST), ("complete", "p", MOST), ("wait", "p", 0), ("sync", "")),
        (("sync", ""), ("arm", "p", MOST), ("complete", "p", MOST)),
    ),
    "a copy that lands in between at most": signals(
        (
            *(("arm", "p", 32), ("load", "p", 0, 2), ("expect", "p", MOST - 32), ("complete", "p", MOST - 32)),
            *(("arrive", "p"), ("wait", "p", 0)),
        ),
        p_arrivals=2,
    ),
    "bytes of an arrive_drop": signals(
        (("drop", "p", 2, 1 << 18), ("complete", "p", 1 << 19)),
        (("expect", "p", MOST - (1 << 19)), ("complete", "p", MOST - (1 << 19)), ("arrive", "p")),
        p_arrivals=3,
    ),
}


@pytest.mark.parametrize("pipeline", LEAVES_ITS_RANGE.values(), ids=LEAVES_ITS_RANGE)
def test_tx_count_that_leaves_its_range_in_another_order(pipeline):
    said = decided(pipeline)
    assert said.verdict_on("tx-count") == VIOLATED
    trace = trace_of(said, "tx-count")
    assert trace is not None and "leaves its range of +-(2^20-1) bytes" in trace.because
    assert shows_again(compile_kernel(said.kernel), trace)


@pytest.mark.parametrize("pipeline", STAYS_IN_ITS_RANGE.values(), ids=STAYS_IN_ITS_RANGE)
def test_tx_count_that_stays_in_its_range_in_every_order(pipeline):
    assert decided(pipeline).verdict == PROVED


def test_an_arrive_no_complete_is_not_the_last_if_a_copy_is_sure_to_land_later():
    """Not if the copy may land before it, issued by the same role or by another that knows what came just before."""
    expect, early, load, wait = ("expect", "p", 32), ("early", "p", 1), ("load", "p", 0, 2), ("wait", "p", 0)
    assert decided(signals((expect, early, load, wait), p_arrivals=1)).verdict == PROVED
    before = signals((expect, load, early, wait), p_arrivals=1)
    beside = signals((expect, ("arrive", "q"), early), (("wait", "q", 0), load, wait), p_arrivals=1)
    for wrong in (before, beside):
        assert decided(wrong).verdict_on("arrival-count") == VIOLATED


def test_an_expect_tx_that_no_arrival_follows_is_in_time_while_bytes_are_missing_that_are_expected_for_certain():
    """Not if another role delivers them all: then the phase can complete without it."""
    first = (("expect", "p", 64), ("arrive", "p"), ("wait", "p", 0))
    assert decided(signals(first, (("expect", "p", 16), ("complete", "p", 80)), p_arrivals=1)).verdict == PROVED
    rest = (("complete", "p", 64),)
    late = decided(signals(first, (("expect", "p", 16), ("complete", "p", 16)), rest, p_arrivals=1))
    assert late.verdict != PROVED


def test_extreme_is_that_of_all_closed_sets():
    """Against all sets of contributions that are closed under happens-before, of three roles that learn of each other
    now and then, some of their contributions being copies that land."""
    rng = random.Random(0)
    for _ in range(200):
        contributions: list[Contribution] = []
        clocks = [[0, 0, 0] for _ in range(3)]
        for _ in range(rng.randint(1, 8)):
            role, other = rng.randrange(3), rng.randrange(3)
            if rng.random() < 0.3:
                clocks[role] = list(map(max, clocks[role], clocks[other]))
            event = clocks[role][role]
            clocks[role][role] += 1
            copy = rng.random() < 0.3
            moved = -rng.randint(1, 9) if copy else rng.randint(-9, 9)
            contributions.append(Contribution(moved, list(clocks[role]), ~role if copy else role, event))
        sums = [sum(one.moved for one in some) for some in closed_sets(contributions)]
        for sign, most in ((1, max(sums)), (-1, min(sums))):
            cut = extreme(contributions, sign)
            assert sum(one.moved for one in cut) == most
            assert cut in closed_sets(contributions)


def closed_sets(contributions: list[Contribution]) -> list[list[Contribution]]:
    found = []
    for bits in range(1 << len(contributions)):
        some = [one for number, one in enumerate(contributions) if bits >> number & 1]
        missing = [one for one in contributions if one not in some and one.role >= 0]
        if not any(one.clock[other.role] > other.event for one in some for other in missing):
            found.append(some)
    return found


# ---------------------------------------------------------------- random programs

BYTES = (16, 16, 32, 32, 48, MOST, MOST - 15, MOST - 16, 1 << 19)


def random_step(rng: random.Random) -> tuple[Any, ...]:
    b, bytes, threads = rng.choice("ppq"), rng.choice(BYTES), rng.choice((0, 1, 1, 1, 2))
    steps: list[tuple[Any, ...]] = [
        *((("expect", b, bytes), ("complete", b, bytes)) * 2),
        *(("arrive", b, 1), ("arrive", b, threads), ("arm", b, min(bytes, MOST // 2), threads), ("early", b, threads)),
        *(("drop", b, threads, rng.choice((None, bytes))), ("load", b, rng.randrange(2), rng.choice((1, 2)))),
        *(("wait", b, 0), ("wait", b, rng.randrange(2)), ("token", b, threads), ("sync", ""), AGAIN),
    ]
    if rng.random() < 0.2:
        steps += [("inval", b), ("init", b, rng.choice((1, 2)))]
    return rng.choice(steps)


def random_mess(rng: random.Random) -> Signals:
    programs = [tuple(random_step(rng) for _ in range(rng.randint(1, 4))) for _ in range(rng.choice((1, 2, 2, 3)))]
    arrivals = {"p_arrivals": rng.randint(1, 3), "q_arrivals": rng.randint(1, 2)}
    return signals(*programs, unseen=rng.random() >= 0.3, **arrivals)


def random_phase(rng: random.Random) -> Signals:
    """The contributions of one phase, shared out among the roles, and sometimes a step too many."""
    roles: list[list[tuple[Any, ...]]] = [[] for _ in range(rng.choice((2, 2, 3)))]
    bytes = [rng.choice(BYTES) for _ in range(rng.randint(1, 3))]
    arrivals = rng.randint(0, 1)
    steps = [step for some in bytes for step in (("expect", "p", some), ("complete", "p", some))]
    if rng.random() < 0.4:
        steps += [("load", "p", 0, rng.choice((1, 2))), ("expect", "p", 32)]
    steps += [("arrive", "p", 1)] * arrivals
    rng.shuffle(steps)
    for step in steps:
        rng.choice(roles).append(step)
    for mine in roles:
        if rng.random() < 0.8 or not arrivals:
            mine.append(("arrive", "p", 1))
            arrivals += 1
        if rng.random() < 0.6:
            mine.append(("wait", "p", 0))
        if rng.random() < 0.2:
            mine.insert(rng.randrange(len(mine) + 1), ("sync", ""))
    if rng.random() < 0.3:
        roles[0].insert(rng.randrange(len(roles[0]) + 1), random_step(rng))
    return signals(*(tuple(mine) for mine in roles), p_arrivals=arrivals, unseen=rng.random() >= 0.3)


@pytest.mark.parametrize("make, number, least", [(random_mess, 50, 1), (random_phase, 100, 15)])
def test_random_signals(make, number, least):
    rng = random.Random(1)
    pairs = []
    while len(pairs) < number:
        with suppress(SpecError):
            pairs.append(agreement(make(rng), limit=3_000))
    assert len([pair for pair in pairs if UNDETERMINED not in pair]) > 0.8 * number
    assert len([pair for pair in pairs if pair == (PROVED, PROVED)]) > least
