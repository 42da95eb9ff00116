"""Where a wrong protocol happens to work: each condition of the corpus, decided on both sides of its boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, product

from corpus.arrivals import SignalsFromAnotherWarpgroup
from corpus.epilogue import OutputRing, ReuseSmemC, SlotRestartsEachTile
from corpus.groups import LaggingRelease
from corpus.named_barriers import ArrivesTwiceBeforeTheSync
from corpus.parity import ConstantPhaseOnGuard, FewerBarriersThanLoads, ParityRestartsEachTile
from corpus.registers import MoreThanThePool
from corpus.trips import LoadsMoreThanItReads

from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


def findings(pipeline: Pipeline) -> frozenset[str]:
    """What an exploration of all schedules finds; nothing means proved."""
    exploration = explore(compile_kernel(trace(pipeline)))
    assert exploration.complete
    assert exploration.violations or is_undetermined(exploration) == ""
    return frozenset(exploration.violations)


def clean(model: Callable[..., Pipeline], **box: Iterable[object]) -> Iterator[tuple[dict[str, object], bool]]:
    """Every point of the box of parameters, and whether the model is proved there."""
    for values in product(*box.values()):
        point = dict(zip(box, values, strict=True))
        yield point, not findings(model(**point))


def holds(condition: Callable[..., bool], points: Iterator[tuple[dict[str, object], bool]]) -> list[dict[str, object]]:
    """The points at which the verdict is not what the condition says; both sides of it must be among the points."""
    found = [(point, proved, condition(**point)) for point, proved in points]
    assert {expected for _, _, expected in found} == {True, False}
    return [point for point, proved, expected in found if proved != expected]


def test_t1_nobody_releases() -> None:
    """D03: a ring of S stages that nobody releases hangs for more than S iterations."""
    points = clean(SignalsFromAnotherWarpgroup, stages=range(1, 4), trips=range(7))
    assert holds(lambda stages, trips: trips <= stages, points) == []


def test_t1_is_a_hang() -> None:
    for stages in range(1, 4):
        assert findings(SignalsFromAnotherWarpgroup(stages=stages, trips=stages + 1)) == {"deadlock"}


def test_t2_more_loads_than_reads() -> None:
    """D06: e loads too many hang if e > S, or with a tail if e >= 1; else they are still in flight at exit."""
    for stages, reads, extra, tail in product(range(1, 4), range(4), range(5), (False, True)):
        found = findings(LoadsMoreThanItReads(stages=stages, reads=reads, extra=extra, tail=tail))
        hangs = extra >= 1 if tail else extra > stages
        leaves_early = not tail and 1 <= extra <= stages
        expected = {"deadlock"} if hangs else {"exit-hazard"} if leaves_early else set()
        assert found == expected, (stages, reads, extra, tail)


def test_t3_parity_restarts_each_tile() -> None:
    """D12: the parity of the restarted count is right only if every tile takes an even number of laps."""
    points = clean(ParityRestartsEachTile, stages=range(1, 4), loads=range(1, 14))
    assert holds(lambda stages, loads: loads % (2 * stages) == 0, points) == []


def test_t4_lagging_release() -> None:
    """F03: with a release that lags D groups behind, the ring needs more than D stages, or all iterations at once."""
    points = clean(LaggingRelease, stages=range(1, 5), lag=range(4), trips=range(7))
    assert holds(lambda stages, lag, trips: lag < stages or trips <= stages, points) == []


def test_t5_epilogue_that_reuses_c() -> None:
    """D34 without delay: the stores hold up to StagesD - 1 stages beyond the one at work."""
    points = clean(ReuseSmemC, stages_c=range(1, 5), stages_d=range(1, 4), subtiles=(6,))
    assert holds(lambda stages_c, stages_d, subtiles: stages_c >= stages_d, points) == []


def test_t6_epilogue_that_reuses_c_and_delays_the_store() -> None:
    """D34 with delay: one more. This is the compile-time assertion of the library."""
    points = clean(ReuseSmemC, stages_c=range(1, 5), stages_d=range(1, 4), subtiles=(6,), delay=(True,))
    assert holds(lambda stages_c, stages_d, subtiles, delay: stages_c >= stages_d + 1, points) == []


def test_t5_t6_are_hangs_and_need_more_subtiles_than_stages() -> None:
    assert findings(ReuseSmemC(stages_c=2, stages_d=3, subtiles=3)) == {"deadlock"}
    assert findings(ReuseSmemC(stages_c=2, stages_d=3, subtiles=2)) == set()
    assert findings(ReuseSmemC(stages_c=3, stages_d=3, subtiles=4, delay=True)) == {"deadlock"}
    assert findings(ReuseSmemC(stages_c=3, stages_d=3, subtiles=3, delay=True)) == set()


def test_t8_output_ring() -> None:
    """R15: a slot of S may be written when at most S - 1 groups are still reading."""
    points = clean(OutputRing, stages=range(1, 5), pending=range(-1, 5))
    assert holds(lambda stages, pending: 0 <= pending <= stages - 1, points) == []


def test_t9_slot_restarts_each_tile() -> None:
    """R14: the slot restarts with each tile, which is right only if a tile takes whole laps."""
    points = clean(SlotRestartsEachTile, stages=range(2, 5), subtiles=range(1, 9))
    assert holds(lambda stages, subtiles: subtiles % stages == 0, points) == []


def test_t10_arrivals_without_sync() -> None:
    """D28: with as many ids in turn, one side may run ahead of the other by as many arrivals."""
    points = clean(ArrivesTwiceBeforeTheSync, ids=range(1, 4), trips=range(1, 6))
    assert holds(lambda ids, trips: trips <= ids, points) == []


def test_t11_barriers_for_concurrent_loads() -> None:
    """D17: one-shot loads need a barrier each."""
    points = clean(FewerBarriersThanLoads, barriers=range(1, 6), loads=range(1, 5))
    assert holds(lambda barriers, loads: barriers >= loads, points) == []


def test_t13_constant_phase() -> None:
    """D14: a guard with a constant phase is right for one tile."""
    points = clean(ConstantPhaseOnGuard, trips=range(1, 6))
    assert holds(lambda trips: trips == 1, points) == []


def test_t14_register_pool() -> None:
    """D31: the registers asked for by all warps must not exceed those that the CTA was launched with."""
    changes = {"less": (24, 40), "more": range(168, 257, 8)}
    points = chain(
        clean(MoreThanThePool, producers=(1, 2), consumers=(1, 2), registers=(80, 128), **changes),
        clean(MoreThanThePool, producers=(1,), consumers=(1, 2), registers=(168,), **changes),
    )
    assert (
        holds(
            lambda producers, consumers, registers, less, more: (
                producers * less + consumers * more <= (producers + consumers) * registers
            ),
            points,
        )
        == []
    )
