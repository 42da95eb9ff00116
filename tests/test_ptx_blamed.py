"""Which line of the PTX a report marks, and which it shows beside that."""

from __future__ import annotations

import re

import pytest
from ptx_text import asked, kernel, launch, wait
from test_ptx import handoff

from sm90_verify.report.blame import MOST_ROWS, that_matter
from sm90_verify.report.text import render
from sm90_verify.result import Trace, TraceStep

EXITS = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %cluster_ctarank;
	mov.u32 %r2, smem;
	setp.ne.u32 %p0, %r0, 0;
	barrier.cluster.arrive.aligned;
	barrier.cluster.wait.aligned;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra DONE;
	@%p0 bra DONE;
	mapa.shared::cluster.u32 %r3, %r2, 0;
	st.shared::cluster.u32 [%r3+2048], %r0;
DONE:
"""
"""CTA 0 ends while CTA 1 may still store there."""
UNFENCED = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	st.shared.b32 [%r2+1024], %r0;
	bar.sync 0;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra DONE;
	mov.u64 %d0, 0x400000000000;
	cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1+1024], 256;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group.read 0;
DONE:
"""
UNSEEN = f"""
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra DONE;
	mbarrier.init.shared.b64 [smem], 1;
	mbarrier.arrive.expect_tx.shared.b64 _, [smem], 64;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+1024], [%d0], 64, [smem];
{wait("smem", 0)}
DONE:
"""
TWICE = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared.b64 [%r1], 33;
READY:
	bar.sync 0;
	setp.ge.u32 %p1, %r0, 32;
	@%p1 bra OTHER;
	@%p0 bra ONCE;
	mbarrier.arrive.shared.b64 _, [%r1];
	mbarrier.arrive.shared.b64 _, [%r1], 2;
ONCE:
	bra DONE;
OTHER:
	mbarrier.arrive.shared.b64 _, [%r1];
DONE:
"""
"""The first thread of warp 0 arrives twice, and warp 1 as it should."""


def shown(tmp_path, text: str, given) -> tuple[str, list[str], list[str]]:
    """The property, the text of the line that is marked, and those beside it."""
    told = render(asked(tmp_path, text, given))
    (marked,) = re.findall(r"^> *\d+\|\s*(.*?);", told, re.MULTILINE)
    beside = re.findall(r"^  and \S+k\.ptx:(\d+):((?:.|\n)*?)\n     \|", told, re.MULTILINE)
    lines = text.split("\n")
    found = re.match(r"error\[(.*?)\]", told)
    assert found is not None
    return (
        found[1],
        [marked],
        [f"{lines[int(line) - 1].strip().strip(';')}: {' '.join(why.split())}" for line, why in beside],
    )


@pytest.mark.parametrize(
    ("text", "given", "property", "marked", "beside"),
    [
        (
            kernel(EXITS),
            launch(32, grid=[2, 1, 1], cluster=[2, 1, 1]),
            "exit-hazard",
            "barrier.cluster.wait.aligned",
            ["st.shared::cluster.u32 [%r3+2048], %r0: what is executed while the CTA may have exited"],
        ),
        (
            kernel(UNFENCED),
            launch(64),
            "missing-fence",
            "st.shared.b32 [%r2+1024], %r0",
            [
                "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1+1024], 256: "
                "the access that a proxy fence has to come before"
            ],
        ),
        (
            kernel(UNSEEN),
            launch(32),
            "barrier-init",
            "mbarrier.init.shared.b64 [smem], 1",
            [
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+1024], [%d0], 64, [smem]: "
                "what uses the barrier"
            ],
        ),
        (
            kernel(TWICE),
            launch(64),
            "arrival-count",
            "mbarrier.arrive.shared.b64 _, [%r1], 2",
            ["mbarrier.init.shared.b64 [%r1], 33: how many arrivals are expected"],
        ),
        (
            handoff(count=33),
            launch(64),
            "deadlock",
            "mbarrier.init.shared::cta.b64 [%r1], 33",
            ["mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], 0: who waits for more"],
        ),
        (
            handoff(waits=""),
            launch(64),
            "race",
            "ld.shared.b32 %r4, [%r1+1024]",
            ["st.shared.b32 [%r3+1024], %r0: one of the two accesses"],
        ),
    ],
    ids=["exit", "fence", "init unseen", "arrival", "count", "race"],
)
def test_the_line_to_blame_is_where_it_goes_wrong(tmp_path, text, given, property, marked, beside):
    assert shown(tmp_path, text, given) == (property, [marked], beside)


def test_an_init_is_not_blamed_where_somebody_has_not_arrived(tmp_path):
    """A thread that does not wait leaves its arrival out: whether the count or that is wrong nobody knows."""
    text = handoff(arrives="@%p0 mbarrier.arrive.shared::cta.b64 _, [%r1];")
    property, marked, _ = shown(tmp_path, text, launch(64))
    assert (property, marked) == ("deadlock", ["mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], 0"])


def step(role: str, op: str, *things: str, kind="other") -> TraceStep:
    return TraceStep(role, op, ",".join(things), "k.ptx", 1, kind=kind, things=things)


def test_of_a_long_way_what_concerns_the_accesses_is_shown():
    """The write of the one, its signal to others, and the wait and the read of the other; not what others do."""
    noise = [step("c", "read", "out"), step("a", "lanes meet", "warp"), step("a", "leave lanes meet", "warp")]
    steps = [
        step("a", "init 1", "bar"),
        step("a", "write", "x"),
        *(100 * noise),
        step("a", "arrive", "bar", kind="signals"),
        *(100 * noise),
        step("b", "wait parity 0", "bar", kind="waits"),
        step("b", "read", "x"),
    ]
    trace = Trace("race", "nothing orders the read of x by b after the write of x by a", tuple(steps))
    assert [steps[at].op for at in that_matter(trace)] == ["init 1", "write", "arrive", "wait parity 0", "read"]


def test_of_a_way_that_is_longer_still_the_end_is_shown_and_the_access():
    waits = [step("b", "wait parity 0", "bar", kind="waits"), step("a", "arrive", "bar", kind="signals")]
    steps = [step("a", "write", "x"), step("a", "arrive", "bar", kind="signals"), *(50 * waits), step("b", "read", "x")]
    trace = Trace("race", "nothing orders the read of x by b after the write of x by a", tuple(steps))
    found = that_matter(trace)
    assert found[:2] == (0, 1) and found[2:] == tuple(range(len(steps) - MOST_ROWS, len(steps)))


def test_bytes_that_are_too_many_are_counted(tmp_path):
    """In the second phase; of the first one, in which all is well, nothing is counted."""
    copy = "\tcp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [smem+{at}], [%d0], 64, [smem];\n"
    both = copy.format(at=1024) + copy.format(at=2048)
    expect = "\tmbarrier.arrive.expect_tx.shared.b64 _, [smem], {bytes};\n"
    body = UNSEEN[: UNSEEN.index("\tmbarrier.arrive")] + "\tfence.mbarrier_init.release.cluster;\n"
    body += expect.format(bytes=128) + both + wait("smem", 0) + expect.format(bytes=112) + both + wait("smem", 1)
    result = asked(tmp_path, kernel(body + "DONE:\n"), launch(32), properties=["tx-count"])
    assert result.trace is not None
    assert result.trace.because.endswith("(112 bytes are expected in this phase, and 128 have come)")
