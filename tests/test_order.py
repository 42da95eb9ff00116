"""Order says what search says: on the library, on the corpus, and on random programs."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any

import pytest
from corpus_table import CASES
from random_programs import soup
from traced import traced

from sm90_verify.counterexample.trace import shows_again
from sm90_verify.engines.order import Outcome, order
from sm90_verify.engines.order.schedule import confirm, trace_of
from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels, rows
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.gemm import GemmCooperative, GemmPingpong
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import LIMIT

PIPELINES = kernels("pipeline")


def agreement(pipeline: Pipeline, limit: int = 6_000) -> tuple[str, str]:
    """What search and order say, after checking that they contradict each other on no property: order's violations are
    executed, and everything that it is certain of must be shown."""
    said = order(traced(pipeline))
    machine = compile_kernel(said.kernel)
    full = explore(machine, limit=limit)
    shown = confirm(said, machine)
    found = [property for property in full.violations if property != LIMIT]
    for property in found:
        assert property in shown or said.verdict_on(property) != PROVED, property
    if full.complete and LIMIT not in full.violations:
        assert set(shown) <= set(found)
    for failure in said.failures:
        assert not failure.certain or failure.property in shown, said.describe(failure)
    searched = VIOLATED if found else UNDETERMINED if is_undetermined(full) else PROVED
    ordered = VIOLATED if shown else said.verdict
    assert {searched, ordered} != {PROVED, VIOLATED}, (found, shown, said.why)
    return searched, ordered


class HalfWarps(Pipeline):
    """Two halves of a warp arrive at one barrier of 64 threads at two lines; bar.sync is .aligned."""

    leader_blocks = True
    rest_blocks = True
    ordered = ""
    again = False
    m = barrier(arrivals=16)

    @role(threads=32, split=(16, 16))
    def warp(self, me):
        if me.leader:
            if self.ordered == "first last":
                yield self.m.wait(0)
            yield self.named_sync(1, 64) if self.leader_blocks else self.named_arrive(1, 64)
            if self.ordered == "first first":
                yield self.m.arrive(16)
        else:
            if self.ordered == "first last":
                yield self.m.arrive(16)
            if self.ordered == "first first":
                yield self.m.wait(0)
            yield self.named_sync(1, 64) if self.rest_blocks else self.named_arrive(1, 64)
        if self.again:
            yield self.named_sync(1, 64)

    @role(warps=1)
    def other(self):
        yield self.named_sync(1, 64)
        if self.again:
            yield self.named_sync(1, 64)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("ordered", ["", "first last", "first first"])
@pytest.mark.parametrize("leader_blocks", [False, True])
@pytest.mark.parametrize("rest_blocks", [False, True])
def test_parts_of_a_warp_at_an_aligned_barrier(leader_blocks, rest_blocks, ordered, again):
    halves = HalfWarps(leader_blocks=leader_blocks, rest_blocks=rest_blocks, ordered=ordered, again=again)
    searched, said = agreement(halves)
    apart = leader_blocks or (rest_blocks and ordered != "first first")
    assert (searched == PROVED) == (not apart and not again)
    assert searched == VIOLATED or said == PROVED


# ---------------------------------------------------------------- the library


SIZES = [(row.name, sizes) for row in rows("pipeline") for sizes in row.search]


@pytest.mark.parametrize(("name", "sizes"), SIZES)
def test_library_is_proved_for_every_trip_count(name, sizes):
    for trips in (*range(10), "forever", "all"):
        said = order(walk.trace(PIPELINES[name](**sizes, trips=trips)))
        assert (said.verdict, said.why, said.failures) == (PROVED, "", ()), trips
        assert said.events or trips == 0


@pytest.mark.parametrize("kernel", (GemmCooperative, GemmPingpong))
def test_whole_kernels_at_their_real_size(kernel):
    said = order(walk.trace(kernel(stages=6, k_tiles=13, tiles=3)))
    assert said.verdict == PROVED
    assert said.events > 1_000


def test_a_cluster_of_16_ctas():
    said = order(walk.trace(TmaAsync(stages=3, cluster="4x4", trips=5)))
    assert said.verdict == PROVED
    assert len(said.programs) == 32


# ---------------------------------------------------------------- the corpus

BROKEN = [pytest.param(case.broken, case.finds, id=case.id) for case in CASES]
FIXED = [
    pytest.param(pipeline, id=f"{case.id} {pipeline.name} {number}")
    for case in CASES
    for number, pipeline in enumerate(case.fixed)
]
AMBIGUOUS = ("RendezvousOfAll",)
"""Right, although an arrival can be counted in either of two phases."""


@cache
def said_of(pipeline: Pipeline) -> Outcome:
    return order(walk.trace(pipeline))


def refused(pipeline: Pipeline) -> bool:
    return said_of(pipeline).plan is None


@pytest.mark.parametrize("broken, finds", BROKEN)
def test_broken_pipeline_is_violated(broken, finds):
    if refused(broken):
        assert said_of(broken).verdict == UNDETERMINED
        return
    machine = compile_kernel(said_of(broken).kernel)
    shown = confirm(said_of(broken), machine)
    assert shown
    assert set(shown) <= set(finds)
    for property in finds:
        assert property in shown or said_of(broken).verdict_on(property) != PROVED, property
    for failure in said_of(broken).failures:
        assert not failure.certain or failure.property in shown, said_of(broken).describe(failure)
    trace = trace_of(said_of(broken))
    assert trace is not None
    assert trace.property in finds
    assert shows_again(machine, trace)


@pytest.mark.parametrize("pipeline", FIXED)
def test_fixed_twin_is_proved(pipeline):
    expected = UNDETERMINED if refused(pipeline) or pipeline.name in AMBIGUOUS else PROVED
    assert said_of(pipeline).verdict == expected


def test_only_what_the_moment_decides_and_weaker_orders_are_refused():
    cases = [*(case.broken for case in CASES), *(pipeline for case in CASES for pipeline in case.fixed)]
    reasons = {said_of(pipeline).why for pipeline in cases if refused(pipeline)}
    known = (
        r"control flow depends on (the value of |what is found in |the answer of (try|test)_wait on )|"
        r"an operation orders less |cp.async.mbarrier.arrive without |st.async |red.async "
    )
    assert reasons and not [reason for reason in reasons if not re.match(known, reason)]


# ---------------------------------------------------------------- random programs


VERBS = [
    *(("wait", name, parity) for name in "pq" for parity in (0, 1)),
    *(("arrive", name, 0) for name in "pqpq"),
    *(("arm", "p", 0), ("load", "p", 0), ("expect", "q", 0), ("load", "q", 1)),
    *((verb, "", which) for verb in ("read", "write", "mma", "store") for which in (0, 1)),
    *(("mma_wait", "", 0), ("bulk_wait", "", 0), ("fence", "", 0), ("sync", "", 0)),
]
RING = (
    (("wait", "q", 1), ("arm", "p", 0), ("load", "p", 0), ("wait", "q", 0), ("arm", "p", 0), ("load", "p", 0)),
    (("wait", "p", 0), ("read", "", 0), ("arrive", "q", 0), ("wait", "p", 1), ("read", "", 0), ("arrive", "q", 0)),
)
MEETING = (
    (("write", "", 0), ("fence", "", 0), ("sync", "", 0), ("store", "", 0), ("bulk_wait", "", 0), ("sync", "", 0)),
    (("write", "", 1), ("fence", "", 0), ("sync", "", 0), ("sync", "", 0)),
)
EXPECTS = (
    (("load", "p", 0), ("arrive", "p", 0), ("wait", "p", 0), ("read", "", 0), ("sync", "", 0)),
    (("expect", "p", 0), ("arrive", "p", 0), ("wait", "p", 0), ("read", "", 0), ("sync", "", 0)),
)
BASES = ((RING, 1, 1), (MEETING, 1, 1), (EXPECTS, 2, 1))


def mutated(rng: random.Random, programs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A few operations left out, swapped or put in."""
    new = [list(program) for program in programs]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        program = rng.choice(new)
        place = rng.randrange(len(program))
        match rng.randrange(3):
            case 0 if len(program) > 1:
                program.pop(place)
            case 1:
                program.insert(rng.randrange(len(program)), program.pop(place))
            case _:
                program.insert(place, rng.choice(VERBS))
    return tuple(tuple(program) for program in new)


def test_random_programs():
    rng = random.Random(0)
    pairs = []
    for number in range(80):
        programs, p, q = rng.choice(BASES)
        if number % 4:
            programs = mutated(rng, programs)
        else:
            programs = tuple(tuple(rng.choice(VERBS) for _ in range(rng.randint(1, 6))) for _ in range(3))
            p, q = rng.randint(1, 2), rng.randint(1, 2)
        trips = rng.choice((1, 2, 3, "forever", "all"))
        unseen = rng.random() >= 0.6
        pairs.append(agreement(soup(programs, p_arrivals=p, q_arrivals=q, trips=trips, unseen=unseen), limit=3_000))
    decided = [pair for pair in pairs if UNDETERMINED not in pair]
    assert len(decided) > 70
    assert {PROVED, VIOLATED} == {searched for searched, _ in decided}
