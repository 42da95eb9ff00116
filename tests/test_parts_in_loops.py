"""Warpgroups whose warps are programs of their own, in loops: order and search say the same, right or wrong."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify.engines.check import check
from sm90_verify.engines.order import Outcome, order
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Mainloop(Pipeline):
    """TMA fills a ring; the parts of a warpgroup multiply together, and the last one gives each tile back. wrong: the
    mistake. behind: each tile is given back an iteration later, by then with one group left in progress.
    """

    stages = 2
    trips = "all"
    wrong = ""
    behind = False
    warpgroups = 1

    a = tile(bytes=1024)
    acc = tile(bytes=512, slots=1, space="registers")
    full = barrier(arrivals=1)
    empty = barrier(arrivals="warpgroups")

    @role(warps=1)
    def tma(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(1024)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1, copies="warpgroups", split=(64, 64))
    def math(self, me):
        yield from self.multiplies(me)

    def multiplies(self, me):
        at, gives = PipelineState.start(self.stages), me.first + me.threads == 128
        last = None
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            if self.wrong != "no wgmma.fence":
                yield self.wgmma_fence()
            yield self.mma(self.a[at], into=self.acc, commit=False)
            if not (self.wrong == "one commits nothing" and me.warp == 0):
                yield self.mma_commit(joint=True)
            if self.wrong == "leaves a group later":
                yield self.named_sync(1, 128)  # all have begun to read
            if self.wrong == "arrives before its wait" and gives:
                yield self.empty[at].arrive()
            if self.wrong == "reads the accumulator too early":
                yield self.acc.read()
            if self._waits(gives):
                leaves = self.wrong == "leaves a group" or (self.wrong == "leaves a group later" and last is not None)
                yield self.mma_wait(1 if self.behind or leaves else 0, joint=True)
            if self.wrong == "another reads behind its wait" and me.warp == 0:
                yield self.a[at].read()
            if self.wrong == "stores what it has multiplied" and gives:
                yield self.a[at].store()
                yield self.bulk_commit()
            given = last if self.behind else at
            if gives and given is not None and self.wrong != "arrives before its wait":
                yield self.empty[given].arrive()
            last = at
            at += 1

    def _waits(self, gives):
        waits = {"nobody waits": False, "only another waits": not gives, "only it waits": gives}
        return waits.get(self.wrong, True)


WRONG = {
    "leaves a group": "race",
    "leaves a group later": "race",
    "nobody waits": "race",
    "only another waits": "race",
    "arrives before its wait": "race",
    "another reads behind its wait": "race",
    "stores what it has multiplied": "race",
    "one commits nothing": "deadlock",
    "no wgmma.fence": "register-hazard",
    "reads the accumulator too early": "register-hazard",
}
RIGHT = ("", "only it waits")


def agreed(pipeline: Pipeline, limit: int = 30_000) -> Outcome:
    """What order says, held to the search of every schedule, which stops after so many states."""
    kernel = trace(pipeline)
    said, found = order(kernel), explore(compile_kernel(kernel), limit=limit)
    for property, verdict in said.verdicts.items():
        if property in found.violations:
            assert verdict != PROVED, property
        elif found.complete and not found.halted:
            assert verdict != VIOLATED, property
    return said


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("wrong", RIGHT)
def test_right_for_every_trip_count(wrong, stages, behind):
    """But for one stage that is given back an iteration later than it is filled again."""
    one = Mainloop(wrong=wrong, stages=stages, behind=behind)
    said = agreed(one)
    stuck = {"deadlock", "arrival-count"} if behind and stages == 1 else set()
    assert {name for name, verdict in said.verdicts.items() if verdict != PROVED} <= stuck
    assert (said.verdict == PROVED) == (not stuck)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("behind", [False, True])
def test_right_for_a_number_of_trips(trips, behind):
    assert agreed(Mainloop(trips=trips, behind=behind)).verdict == PROVED


@pytest.mark.parametrize("parts", [(32, 96), (32, 32, 64), (32, 32, 32, 32), (128,)], ids=str)
def test_any_parts(parts):
    class Split(Mainloop):
        @role(warpgroups=1, split=parts)
        def math(self, me):
            yield from self.multiplies(me)

    assert order(trace(Split())).verdict == PROVED
    assert "race" in violated(Split(wrong="leaves a group"), engine="order")


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_shown_for_every_trip_count(wrong):
    """The schedule of order is executed on the Machine before it is told."""
    assert WRONG[wrong] in violated(Mainloop(wrong=wrong), engine="order")
    assert agreed(Mainloop(wrong=wrong, stages=1)).verdicts[WRONG[wrong]] == VIOLATED


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_shows_from_some_number_of_trips_on(wrong, trips):
    """The one stage is filled again in the second iteration; what is no race needs a single one."""
    first = 3 if wrong == "leaves a group later" else 2 if WRONG[wrong] == "race" else 1
    said = agreed(Mainloop(wrong=wrong, stages=1, trips=trips), limit=3_000)
    assert (said.verdict == VIOLATED) == (trips >= first), said.why


def test_two_warpgroups_give_back_what_both_have_read():
    assert agreed(Mainloop(stages=1, warpgroups=2)).verdict == PROVED
    assert "race" in violated(Mainloop(stages=1, warpgroups=2, wrong="leaves a group"), engine="order")


class Turns(Pipeline):
    """Two warpgroups of two parts multiply by turns, a tile each."""

    trips = "all"
    told = True
    a = tile(bytes=1024, slots=1)
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)
    turn = barrier(arrivals=2, slots=2)

    @role(warps=1)
    def tma(self):
        at = PipelineState.start(1, producer=True)
        for _ in self.loop():
            for _ in range(2):
                yield self.empty[0].wait(at.phase)
                yield self.full[0].arrive_expect_tx(1024)
                yield self.a[0].load(signals=self.full[0])
                at += 1

    @role(warpgroups=1, copies=2, split=(64, 64))
    def math(self, me):
        at, tiles = PipelineState.start(1), PipelineState.start(1)
        at += me.copy
        for _ in self.loop():
            if self.told:
                yield self.turn[me.copy].wait(tiles.phase ^ (1 - me.copy))
            yield self.full[0].wait(at.phase)
            yield self.mma(self.a[0], commit=False)
            yield self.mma_commit(joint=True)
            yield self.mma_wait(0, joint=True)
            yield self.turn[1 - me.copy].arrive()
            if me.first == 0:
                yield self.empty[0].arrive()
            at += 2
            tiles += 1


def test_two_warpgroups_by_turns():
    assert agreed(Turns()).verdict == PROVED
    assert agreed(Turns(told=False)).verdict == VIOLATED


class Meets(Pipeline):
    """A tile is given back by barrier.cluster, which releases what the parts have waited for, or does not."""

    relaxed = False
    a = tile(bytes=1024, slots=1)
    full = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def tma(self):
        for _ in self.loop():
            yield self.full.arrive_expect_tx(1024)
            yield self.a.load(signals=self.full)
            yield self.cluster_arrive()
            yield self.cluster_wait()

    @role(threads=128, split=(64, 64))
    def math(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.full.wait(at.phase)
            yield self.a.mma(commit=False)
            yield self.mma_commit(joint=True)
            yield self.mma_wait(0, joint=True)
            yield self.cluster_arrive_relaxed() if self.relaxed else self.cluster_arrive()
            yield self.cluster_wait()
            at += 1


def test_nobody_is_told_by_who_waited_and_released_nothing():
    assert agreed(Meets()).verdict == PROVED
    assert agreed(Meets(relaxed=True)).verdicts["race"] == VIOLATED


def test_groups_that_nobody_waits_for_are_beyond_what_search_counts():
    """Nothing writes what they read: right, and search does not know after 63 of them."""

    class Unending(Pipeline):
        a = tile(bytes=1024, slots=1)

        @role(threads=128, split=(64, 64))
        def math(self):
            for _ in self.loop():
                yield self.mma(self.a, commit=False)
                yield self.mma_commit(joint=True)

    assert check(Unending(), engine="order").verdict == PROVED
    found = check(Unending(), engine="search")
    assert found.verdict == "undetermined"
    assert any("can commit more than 63 groups of wgmmas that nobody" in one.note for one in found.findings)


@pytest.mark.parametrize(
    ("alone", "words"),
    [
        ("commit", r"wgmma.commit_group by math.0 alone, .* use commit=False and mma_commit\(joint=True\)"),
        ("wait", r"wgmma.wait_group by math.0 alone, where its warpgroup executes others together: use joint=True"),
    ],
)
def test_a_part_does_nothing_alone_where_others_are_joint(alone, words):
    """Its group was taken for over by search, and for one in progress by order."""

    class Mixed(Pipeline):
        a = tile(bytes=1024, slots=1)

        @role(threads=128, split=(64, 64))
        def math(self):
            yield self.mma(self.a, commit=False)
            yield self.mma_commit(joint=alone != "commit")
            yield self.mma_wait(0, joint=alone != "wait")

    with pytest.raises(SpecError, match=words):
        trace(Mixed())
