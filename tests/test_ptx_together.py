"""Instructions of PTX that threads execute together: .aligned ones, those of a warpgroup, and membermasks."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts, wait
from test_ptx_registers import COMMIT, FENCE, START, WAIT, M

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

HALF = "\tmov.u32 %r10, %laneid;\n\tsetp.lt.u32 %p0, %r10, 16;\n"
ONE_WARP = "\tmov.u32 %r10, %tid.x;\n\tshr.u32 %r10, %r10, 5;\n\tsetp.eq.u32 %p0, %r10, 0;\n"
SETMAXNREG = "\tsetmaxnreg.dec.sync.aligned.u32 40;\n"


def only(instruction: str) -> str:
    """By the lanes of %p0 alone."""
    return f"\t@%p0 {instruction.strip()}\n"


def apart(first: str, second: str) -> str:
    """Lanes of %p0 execute the second one, the others the first one."""
    return f"\t@%p0 bra A;\n\t{first}\n\tbra E;\nA:\n\t{second}\nE:\n"


WRONG = [
    pytest.param(64, HALF + apart("bar.sync 0;", "bar.sync 0;"), "bar.sync", "wait at bar.sync", id="two bar.sync"),
    pytest.param(64, HALF + only("bar.sync 0;") + "\tbar.sync 1, 64;\n", "bar.sync", "bar.sync in", id="not the next"),
    pytest.param(64, HALF + apart("elect.sync %r5|%p5, -1;", "bar.sync 0;"), "bar.sync", "elect.sync", id="elect"),
    pytest.param(
        64,
        HALF + only("barrier.cluster.arrive.aligned;") + "\tbarrier.cluster.wait.aligned;\n",
        "barrier.cluster.arrive.aligned",
        "barrier.cluster.wait.aligned in",
        id="cluster",
    ),
    pytest.param(
        32,
        HALF + only("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r1];"),
        "ldmatrix",
        "others have exited",
        id="ldmatrix",
    ),
    pytest.param(
        32,
        HALF + "\t@%p0 ret;\n\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%f20, %f21, %f22, %f23}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f0, %f1, %f2, %f3};\n",
        "mma.sync",
        "others have exited",
        id="mma behind an exit",
    ),
    pytest.param(128, HALF + only(SETMAXNREG), "setmaxnreg", "others have exited", id="setmaxnreg of lanes"),
    pytest.param(128, HALF + FENCE + only(M) + COMMIT + WAIT, "mma_async", "commit_group", id="wgmma of lanes"),
    pytest.param(128, HALF + FENCE + M + only(COMMIT) + WAIT, "commit_group", "wait_group", id="commit of lanes"),
    pytest.param(128, HALF + FENCE + M + COMMIT + only(WAIT), "wait_group", "others have exited", id="wait of lanes"),
    pytest.param(128, HALF + "\t@%p0 ret;\n" + FENCE, "wgmma.fence", "others have exited", id="behind an exit"),
    pytest.param(128, HALF + only(FENCE), "wgmma.fence", "others have exited", id="fence of lanes"),
    pytest.param(128, HALF + only(FENCE) + FENCE, "wgmma.fence", "others wait at wgmma.fence", id="two fences"),
    pytest.param(128, ONE_WARP + only(FENCE), "wgmma.fence", "the wgmmas of other", id="fence of a warp"),
    pytest.param(96, FENCE, "wgmma.fence", "its warpgroup has fewer than 128 threads", id="three warps"),
    pytest.param(100, FENCE, "wgmma.fence", "its warpgroup has fewer than 128 threads", id="a part of a warp"),
    pytest.param(128, ONE_WARP + FENCE + only(M) + COMMIT + WAIT, "mma_async", "the wgmmas of other", id="of a warp"),
    pytest.param(
        128, ONE_WARP + FENCE + M + COMMIT + only(WAIT), "wait_group", "the wgmmas of other", id="wait of a warp"
    ),
    pytest.param(
        128,
        ONE_WARP + "\tcvt.u64.u32 %d2, %r10;\n\tadd.u64 %d1, %d1, %d2;\n" + FENCE + M + COMMIT + WAIT,
        "mma_async",
        "the wgmmas of other warps of its warpgroup are not the same",
        id="a descriptor for each warp",
    ),
    pytest.param(128, ONE_WARP + only(SETMAXNREG), "setmaxnreg", "the setmaxnreg of other", id="setmaxnreg of a warp"),
    pytest.param(
        128,
        ONE_WARP + apart(SETMAXNREG, SETMAXNREG.replace("40", "32")),
        "setmaxnreg",
        "the setmaxnreg of other",
        id="setmaxnreg of two counts",
    ),
    pytest.param(32, "\telect.sync %r5|%p5, 1;\n", "elect.sync", "membermask leaves", id="elect without itself"),
    pytest.param(
        32, "\tshfl.sync.idx.b32 %r5, %r0, 0, 31, 0xff;\n", "shfl.sync", "membermask leaves", id="shfl without itself"
    ),
]


@pytest.mark.parametrize(("threads", "body", "line", "why"), WRONG)
@pytest.mark.parametrize("engine", ["default", "search"])
def test_what_some_execute_alone_is_violated_at_its_line(tmp_path, threads, body, line, why, engine):
    source = kernel(START + body)
    result = asked(tmp_path, source, launch(threads), engine=engine)
    assert {id for id, verdict in verdicts(result).items() if verdict == VIOLATED} == {"named-barrier"}
    assert all(one.verdict == UNDETERMINED for one in result.findings if one.id != "named-barrier")
    assert why in result.trace.because
    assert line in source.split("\n")[result.trace.steps[-1].line - 1]


HANGS = f"""
	mov.u32 %r12, smem;
	mov.u32 %r11, %tid.x;
	setp.eq.u32 %p5, %r11, 0;
	@%p5 mbarrier.init.shared.b64 [%r12+60000], 1;
	bar.sync 0;
{ONE_WARP}	@!%p0 bra A;
{wait("%r12+60000", 0)}
A:
"""
"""One warp waits for ever before it comes to what the others execute."""


def test_who_hangs_keeps_the_others_waiting_at_a_wgmma(tmp_path):
    result = asked(tmp_path, kernel(START + HANGS + FENCE + M + COMMIT + WAIT), launch(128))
    assert verdicts(result)["deadlock"] == VIOLATED


def test_what_a_warp_never_comes_to_is_open(tmp_path):
    result = asked(tmp_path, kernel(START + HANGS + FENCE), launch(128))
    assert {one.verdict for one in result.findings} == {UNDETERMINED}
    assert "is for all warps of a warpgroup, and warp" in result.findings[0].note


RIGHT = [
    pytest.param(64, HALF + apart("mov.u32 %r5, 1;", "mov.u32 %r5, 2;") + "\tbar.sync 0;\n", id="all, after a branch"),
    pytest.param(64, HALF + "\tnot.pred %p1, %p0;\n" + only("bar.warp.sync 0xffff;"), id="a mask of those that come"),
    pytest.param(64, ONE_WARP + only("bar.sync 1, 32;"), id="one of the warps"),
    pytest.param(64, HALF + only("shfl.sync.idx.b32 %r5, %r0, 0, 31, 0xffff;"), id="the lanes of a membermask"),
    pytest.param(256, FENCE + M + COMMIT + WAIT, id="two warpgroups"),
    pytest.param(128, ONE_WARP + apart(SETMAXNREG, SETMAXNREG), id="setmaxnreg in two places"),
]


@pytest.mark.parametrize(("threads", "body"), RIGHT)
def test_what_all_execute_is_proved(tmp_path, threads, body):
    result = asked(tmp_path, kernel(START + body), launch(threads))
    assert result.verdict == PROVED
    assert not any("have exited" in note for note in result.notes)


def test_lanes_that_have_exited_need_not_come_to_syncthreads_and_that_is_said(tmp_path):
    for body in (HALF + "\t@%p0 ret;\n\tbar.sync 0;\n", HALF + only("bar.sync 0;")):
        result = asked(tmp_path, kernel(START + body), launch(64))
        assert result.verdict == PROVED
        assert any("lanes of its warp that have exited need not come to it" in note for note in result.notes)


OPEN = [
    pytest.param(HALF + apart("barrier.sync 0;", "barrier.sync 0;"), "wait at barrier.sync for others", id="barrier"),
    pytest.param(HALF + apart("barrier.sync 1, 64;", "bar.sync 0;"), "let all lanes come to one of them", id="loose"),
    pytest.param(HALF + "\t@%p0 ret;\n\tbar.sync 1, 64;\n", "have exited, and whole warps count", id="a count"),
    pytest.param(HALF + only("barrier.sync 1, 64;"), "have exited, and whole warps count", id="barrier of some"),
    pytest.param(
        HALF + apart("shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;", "shfl.sync.idx.b32 %r5, %r0, 0, 31, -1;"),
        "let all lanes come to one of them",
        id="two shfl",
    ),
    pytest.param("\tadd.u32 %r3, %r0, 1;\n\tbar.sync %r3, 64;\n", "the barrier differs between the lanes", id="id"),
    pytest.param(
        HALF + "\tselp.b32 %r3, 32, 64, %p0;\n\tbar.sync 1, %r3;\n", "the number of threads differs", id="threads"
    ),
    pytest.param(
        HALF + "\tselp.b32 %r3, 0xffff, 0xffff0000, %p0;\n\tshfl.sync.idx.b32 %r5, %r0, 0, 31, %r3;\n",
        "its membermask differs between the lanes",
        id="masks of halves",
    ),
]


@pytest.mark.parametrize(("body", "why"), OPEN)
def test_what_is_not_certain_is_open_with_its_line(tmp_path, body, why):
    result = asked(tmp_path, kernel(START + body), launch(64))
    assert result.verdict == UNDETERMINED
    assert why in result.findings[0].note and "k.ptx:" in result.findings[0].note
