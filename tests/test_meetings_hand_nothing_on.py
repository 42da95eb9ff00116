"""What a role has learnt by a wait is not passed on where others meet it and nothing is released."""

from __future__ import annotations

import random

import pytest
from lanes_that_meet import Hands
from ptx_text import asked, kernel, launch, verdicts, wait

from sm90_verify import Pipeline, barrier, check, role, tile
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED


def race(pipeline: Pipeline, engine: str = "default", *, reduced: bool = True) -> tuple[str, str]:
    result = check(pipeline, properties=("race",), engine=engine, reduced=reduced)
    return result.findings[0].verdict, result.findings[0].note


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ("Ms", "sr", VIOLATED),  # only the first lane has waited for the write
        ("Ms", "sMr", PROVED),
        ("Ms", "Msr", PROVED),
        ("MS", "Sr", PROVED),
        ("MsS", "sSr", PROVED),
        ("Mss", "ssr", VIOLATED),
        ("MsB", "sNr", PROVED),  # the arrival releases what the lane has learnt
    ],
)
def test_what_a_lane_has_waited_for_is_not_handed_on_where_nothing_is_released(first, second, verdict):
    pipeline = Hands(first=first.replace("B", "p"), second=second.replace("N", "q"), other="wA")
    assert race(pipeline)[0] == race(pipeline, "search")[0] == race(pipeline, "search", reduced=False)[0] == verdict
    ordered, note = race(pipeline, "order")
    assert ordered == (UNDETERMINED if verdict == VIOLATED else PROVED)
    assert verdict == PROVED or "met others that released nothing" in note


class Relaxed(Pipeline):
    """A warp of one CTA waits for another warp of it, and meets the other CTA, which reads what that has written."""

    cluster = "2x1"
    release = False
    full = barrier(arrivals=32)
    a = tile(bytes=16)

    @role(warps=1, ctas=(0,))
    def writes(self, me):
        yield self.a.write()
        yield self.full.arrive(32)
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()

    @role(warps=1, ctas=(0,))
    def waits(self, me):
        yield self.full.wait(0)
        yield self.cluster_arrive() if self.release else self.cluster_arrive_relaxed()
        yield self.cluster_wait()

    @role(warps=1, ctas=(1,))
    def reads(self, me):
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.a.on(0).read()


@pytest.mark.parametrize("release", [False, True])
def test_nor_is_it_at_a_relaxed_arrival_of_a_cluster(release):
    pipeline = Relaxed(release=release)
    assert race(pipeline)[0] == race(pipeline, "search")[0] == (PROVED if release else VIOLATED)
    assert race(pipeline, "order")[0] == (PROVED if release else UNDETERMINED)


@pytest.mark.parametrize(
    ("first", "second", "third", "verdict"),
    [
        ("Srsp", "MrSMRsw", "qR", VIOLATED),  # the arrival on part releases the read, and need not come first
        ("rsn", "spwn", "qn", VIOLATED),  # so does the last arrival at a barrier of threads
        ("rsn", "spnw", "qn", PROVED),
        ("sMSw", "MrsMS", "N", PROVED),  # a lane inside a complete __syncwarp has released its read
    ],
)
def test_the_reduced_search_sees_what_is_not_released_yet(first, second, third, verdict):
    count = first.count("p") + 31 * second.count("p") or 1
    pipeline = Hands(first=first, second=second, other="RA", third=third, count=count)
    engines = [race(pipeline, "search"), race(pipeline, "search", reduced=False), race(pipeline, "order")]
    assert [found for found, _ in engines] == [verdict] * 3


@pytest.mark.parametrize("seed", range(60))
def test_engines_agree_on_what_lanes_tell_each_other(seed):
    pick = random.Random(seed)
    meets = [pick.choice("Ssssn") for _ in range(pick.randint(1, 3))]
    between = ["", "", "r", "w", "R", "W", "M", "q", "MR", "Mr", "N"]
    ends = ["", "r", "w", "rB", "p", "R"]
    first, second = ("".join(pick.choice(between) + meet for meet in meets) + pick.choice(ends) for _ in range(2))
    count = first.count("p") + 31 * second.count("p") or 1
    other = pick.choice(["wA", "wWA", "rA", "WA", "AwN", "wAr"])
    third = pick.choice(["", "qr", "qR", "qw", "NW", "Mw", "Mr"]) + "n" * meets.count("n")
    pipeline = Hands(first=first, second=second, other=other, third=third, count=count)
    by_order, by_search = race(pipeline, "order")[0], race(pipeline, "search")[0]
    assert by_search == race(pipeline, "search", reduced=False)[0], (first, second, other, third)
    assert by_order in (by_search, UNDETERMINED), (first, second, other, third)
    assert by_search in (by_order, VIOLATED), "order leaves nothing open that search proves"


HALTS = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 1;
READY:
	bar.sync 0;
	@%p0 bra COPIED;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+1024], [%d0], 1024, [%r1];
COPIED:
"""


def test_a_violation_is_shown_without_following_what_is_before_what(tmp_path, monkeypatch):
    """barrier-init, for want of a fence; what comes behind it is open, and nobody has to tell."""
    monkeypatch.delattr("sm90_verify.spec.model.compile.Causality")
    text = kernel(HALTS + wait("%r1", 0) + "elect.sync %r2|%p1, -1; ld.shared.b32 %r3, [%r1+1024];")
    assert verdicts(asked(tmp_path, text, launch(32)))["barrier-init"] == VIOLATED
