"""What orders lanes of a warp, and whose lanes must come to a barrier together: cases that were decided wrongly."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts, wait

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

START = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	setp.eq.u32 %p0, %r0, 0;
"""
MEETS = "shfl.sync.idx.b32 %r20, %r0, 0, 31, -1;"
ORDERS = "bar.warp.sync -1;"
HANDS_OVER = START + "@%p0 st.shared.u32 [%r1], %r0; {between} @!%p0 ld.shared.u32 %r3, [%r1];"


@pytest.mark.parametrize(
    ("between", "verdict"),
    [(MEETS + ORDERS, PROVED), (ORDERS + MEETS, PROVED), (MEETS, VIOLATED), (MEETS + MEETS, VIOLATED)],
)
def test_a_barrier_of_the_warp_behind_a_meeting_orders(tmp_path, between, verdict):
    result = asked(tmp_path, kernel(HANDS_OVER.format(between=between)), launch(32))
    assert verdicts(result)["race"] == verdict


@pytest.mark.parametrize("engine", ["default", "order", "search", "order+search"])
def test_lanes_that_race_are_seen_whatever_engine_is_asked(tmp_path, engine):
    result = asked(tmp_path, kernel(START + "st.shared.u32 [%r1], %r0;"), launch(32), engine=engine)
    assert verdicts(result)["race"] == result.verdict == UNDETERMINED
    only = asked(tmp_path, kernel(START + "st.shared.u32 [%r1], %r0;"), launch(32), properties=("deadlock",))
    assert list(verdicts(only)) == ["deadlock"]


TOLD = (
    START
    + """
	add.u32 %r4, %r1, 8192;
	setp.eq.u32 %p1, %r0, 32;
	@%p1 mbarrier.init.shared.b64 [%r4], 32;
	bar.sync 0;
	setp.ge.u32 %p2, %r0, 32;
	@%p2 bra DONE;
	WRITES
	ARRIVES
"""
    + wait("%r4", 0)
    + """
	xor.b32 %r5, %r2, 4;
	ld.shared.u32 %r10, [%r5];
DONE:
"""
)
NOINC, ARRIVE = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r4];", "mbarrier.arrive.shared.b64 _, [%r4];"
COPIES = "cp.async.ca.shared.global [%r2], [%d0], 4;"


@pytest.mark.parametrize(
    ("writes", "arrives", "verdict"),
    [
        ("st.shared.u32 [%r2], %r0;", NOINC, UNDETERMINED),
        ("st.shared.u32 [%r2], %r0;", ARRIVE, PROVED),
        (COPIES, NOINC, PROVED),
        (COPIES, ARRIVE, VIOLATED),
    ],
    ids=["store, noinc", "store, arrive", "copy, noinc", "copy, arrive"],
)
def test_an_arrival_that_follows_cp_asyncs_tells_of_these_and_of_nothing_else(tmp_path, writes, arrives, verdict):
    result = asked(tmp_path, kernel(TOLD.replace("WRITES", writes).replace("ARRIVES", arrives)), launch(64))
    assert verdicts(result)["race"] == verdict


TWO_PLACES = (
    START
    + """
	{parts}
	@%p3 bra OTHER;
	bar.sync 1, 64;
	bra DONE;
OTHER:
	bar.sync 1, 64;
DONE:
	bar.warp.sync -1;
	wgmma.fence.sync.aligned;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
"""
)
EVEN = "shr.u32 %r6, %r0, 5; and.b32 %r6, %r6, 1; setp.ne.u32 %p3, %r6, 0;"


@pytest.mark.parametrize("engine", ["order", "search"])
def test_different_warps_may_come_to_a_barrier_at_different_lines(tmp_path, engine):
    stores = "and.b32 %r7, %r0, 31; setp.ne.u32 %p4, %r7, 0; @%p4 bra APART; st.shared.u32 [%r2], %r0; APART: "
    text = TWO_PLACES.replace("64;", "128;").format(parts=stores + EVEN)
    assert verdicts(asked(tmp_path, kernel(text), launch(128), engine=engine))["named-barrier"] == PROVED
