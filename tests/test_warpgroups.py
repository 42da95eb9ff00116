"""wgmma by four warps that are programs of their own: a group is complete when all have issued it, and over for all."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts, wait

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

KERNEL = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	add.u32 %r2, %r1, 8;
	add.u32 %r3, %r1, 1024;
	shr.u32 %r4, %r0, 5;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 1;
	mbarrier.init.shared::cta.b64 [%r2], 1;
	fence.mbarrier_init.release.cluster;
READY:
	bar.sync 0;
	setp.ge.u32 %p1, %r0, 128;
	@%p1 bra COPIES;
	{waits}
	{before}
	wgmma.fence.sync.aligned;
	mov.b64 %d0, 0x0000001000080080;
	mov.b64 %d1, 0x0000001000080100;
	setp.ne.b32 %p2, 0, 0;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d0, %d1, %p2, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	{between}
	wgmma.wait_group.sync.aligned {pending};
	{after}
	setp.ne.u32 %p3, %r0, 64;
	@%p3 bra RELEASED;
	mbarrier.arrive.shared::cta.b64 _, [%r2];
RELEASED:
	{waits_again}
	bra END;
COPIES:
	setp.ne.u32 %p4, %r0, 128;
	@%p4 bra END;
	ld.param.u64 %d2, [a];
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d2], 4096, [%r1];
	{waits_for_release}
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d2], 4096, [%r1];
END:
"""
"""A warpgroup multiplies what a copy has brought; one thread of its third warp gives the bytes back."""
RIGHT = {
    "waits": wait("%r1", 0),
    "before": "",
    "between": "",
    "pending": 0,
    "after": "",
    "waits_again": wait("%r1", 1),
    "waits_for_release": wait("%r2", 0),
}
WRITES = "setp.ne.u32 %p5, %r0, 0; @%p5 bra {label}; st.shared.b32 [%r1+512], %r0; {label}:"
READS = "setp.ne.u32 %p6, %r0, 64; @%p6 bra SEEN; ld.shared.b32 %r9, [%r1+512]; SEEN:"


def text(**changes) -> str:
    return kernel(KERNEL.format(**{**RIGHT, **changes}), ".param .u64 a")


GIVEN = launch(160, parameters="0000100000000000")


@pytest.mark.parametrize("engine", ["order", "search"])
def test_one_thread_gives_back_what_four_warps_have_read(tmp_path, engine):
    assert asked(tmp_path, text(), GIVEN, engine=engine).verdict == PROVED


@pytest.mark.parametrize("engine", ["order", "search"])
def test_bytes_that_are_given_back_too_early_race(tmp_path, engine):
    assert verdicts(asked(tmp_path, text(pending=1), GIVEN, engine=engine))["race"] == VIOLATED


@pytest.mark.parametrize("engine", ["order", "search"])
def test_a_copy_that_waits_for_no_release_is_violated(tmp_path, engine):
    assert asked(tmp_path, text(waits_for_release=wait("%r2", 1)), GIVEN, engine=engine).verdict == VIOLATED


@pytest.mark.parametrize("engine", ["order", "search"])
@pytest.mark.parametrize(
    ("where", "verdict"), [("before", PROVED), ("between", VIOLATED), ("after", VIOLATED)], ids=str
)
def test_what_another_warp_did_before_its_wgmma_is_over_and_no_more(tmp_path, engine, where, verdict):
    """The first warp stores, the third one reads once it has waited for the wgmma that both execute."""
    changes = {where: WRITES.format(label="STORED")}
    changes["after"] = changes.get("after", "") + READS
    assert verdicts(asked(tmp_path, text(**changes), GIVEN, engine=engine))["race"] == verdict


FENCE = "fence.proxy.async.shared::cta; "
OWN = """
	and.b32 %r8, %r0, 31;
	setp.ne.u32 %p5, %r8, 0;
	@%p5 bra STORED;
	shl.b32 %r7, %r4, 4;
	add.u32 %r7, %r7, %r3;
	st.shared.b32 [%r7], %r0;
	{fence}
STORED:
	bar.warp.sync -1;
"""
"""A lane of each warp stores sixteen bytes further than that of the one before: in A, of which all four read all."""


@pytest.mark.parametrize("engine", ["order", "search"])
@pytest.mark.parametrize(
    ("where", "fence", "violated"),
    [
        ("before", FENCE, set()),  # nothing but the wgmma orders it with what the other warps read
        ("before", "", {"missing-fence"}),
        ("between", FENCE, {"race"}),
    ],
    ids=["fenced", "unfenced", "in flight"],
)
def test_a_warp_may_store_what_all_four_multiply(tmp_path, engine, where, fence, violated):
    found = verdicts(asked(tmp_path, text(**{where: OWN.format(fence=fence)}), GIVEN, engine=engine))
    wrong = {property for property, verdict in found.items() if verdict == VIOLATED}
    assert violated <= wrong and bool(violated) == bool(wrong)


def test_another_role_may_not(tmp_path):
    """The fifth warp stores there, and nothing orders it."""
    stores = OWN.format(fence=FENCE).replace("%r4, 4", "%r4, 0") + wait("%r2", 0)
    assert verdicts(asked(tmp_path, text(waits_for_release=stores), GIVEN))["race"] == VIOLATED


def test_a_warp_that_does_not_come_to_the_wgmma_keeps_the_others_waiting(tmp_path):
    """Its lanes stand at a barrier before the wgmma for which nobody else comes."""
    before = "setp.ne.u32 %p5, %r4, 3; @%p5 bra GOES; bar.sync 1, 64; GOES:"
    result = asked(tmp_path, text(before=before), GIVEN)
    assert verdicts(result)["deadlock"] == VIOLATED


def test_more_groups_than_are_counted_are_not_followed_by_search(tmp_path):
    many = text(between="wgmma.commit_group.sync.aligned;" * 70)
    assert asked(tmp_path, many, GIVEN, engine="order").verdict == PROVED
    assert asked(tmp_path, many, GIVEN, engine="search", limit=2000).verdict == UNDETERMINED


def test_no_time_for_a_shorter_trace_leaves_what_is_violated(tmp_path):
    """Not even if it ends before the first state."""
    assert verdicts(asked(tmp_path, text(pending=1), GIVEN, engine="search", trace_seconds=1e-9))["race"] == VIOLATED
