"""Runs of PTX that cannot go on: what they would do next, names that take it into account, and loops without end."""

from __future__ import annotations

import pytest
from dumps import path_of, ptx_of
from ptx_text import asked, kernel, launch, verdicts, wait

from sm90_verify.frontends.core_launch import launch_from_core
from sm90_verify.frontends.ptx.beyond import beyond
from sm90_verify.frontends.ptx.events import BarrierAt
from sm90_verify.frontends.ptx.execute import execute
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.parser import parse


def executed(name):
    module = parse("\n".join(ptx_of(name)), f"{name}.ptx")
    found = launch_from_core(path_of(name), module)
    return execute(module, found.function, found.launch, found.launch.clusters()[0])


def test_what_would_come_next():
    """Nobody has come to arrive: the producer waits for the wrong phase from the start."""
    run = executed("tma_async_producer_phase")
    done = [len(warp.events) for cta in run.cluster.ctas for warp in cta.warps]
    found = beyond(run)
    full = found.brings[BarrierAt(0, 0x400)]
    assert {(one.warp, one.verb, one.bytes, one.later) for one in full} == {
        (0, "expects", 4096, True),
        (0, "copies", 4096, True),
    }
    empty = found.brings[BarrierAt(0, 0x480)]
    assert [(one.warp, one.verb, one.later) for one in empty] == [(warp, "arrives", True) for warp in (4, 5, 6, 7)]
    assert run.stuck is not None and done == [len(warp.events) for cta in run.cluster.ctas for warp in cta.warps]


def test_what_has_come_and_does_not_again():
    found = beyond(executed("ws_no_tail_release"))
    empty = found.brings[BarrierAt(0, 0x410)]
    assert {(one.warp, one.later) for one in empty} == {(warp, False) for warp in (4, 5, 6, 7)}
    assert found.whole


def test_names_are_those_of_the_kernel_that_goes_on():
    kernel = lift(executed("tma_async_producer_phase"), "kernel")
    names = list(kernel.layout.barriers)
    assert names == ["full[0]", "full[1]", "empty[0]", "empty[1]"]


def test_a_slot_at_which_nobody_arrives_belongs_to_its_ring():
    kernel = lift(executed("cooperative_store_tail"), "kernel")
    assert [name for name in kernel.layout.barriers if name.startswith("empty2")] == [
        f"empty2[{slot}]" for slot in range(5)
    ]


def test_a_loop_that_waits_for_memory():
    with pytest.raises(Undetermined, match=r"places.ptx:\d+: cta0.warp0 waits in a loop for memory to change"):
        executed("places")


EXPECTS = "\tmbarrier.expect_tx.shared::cta.b64 [%r1], 16;\n"
ARRIVES = "\tmbarrier.arrive.shared::cta.b64 _, [%r1];\n"


@pytest.mark.parametrize(
    ("does", "found"),
    [
        (EXPECTS + ARRIVES + ARRIVES, {"arrival-count": "violated", "deadlock": "undetermined"}),
        (EXPECTS + ARRIVES, {"arrival-count": "undetermined", "deadlock": "violated"}),
        (ARRIVES, {"arrival-count": "proved", "deadlock": "proved"}),
    ],
)
def test_an_arrival_too_many_is_a_fault_even_if_the_kernel_hangs(tmp_path, does, found):
    """That arrivals or bytes never come is one only in the deadlock."""
    init = "\tmov.u32 %r1, smem;\n\tmov.u32 %r2, %tid.x;\n\tsetp.ne.u32 %p1, %r2, 0;\n\t@%p1 bra OUT;\n"
    init += "\tmbarrier.init.shared::cta.b64 [%r1], 1;\n"
    result = asked(tmp_path, kernel(init + does + wait("%r1", 0) + "OUT:\n"), launch())
    assert {name: verdicts(result)[name] for name in found} == found


COUNTED_TWICE = """
	mov.u32 %r1, smem;
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p0, %r2, 0;
	@%p0 bra MET;
	mbarrier.init.shared::cta.b64 [%r1], 32;
MET:
	bar.sync 0;
	mad.lo.u32 %r3, %r2, 4, %r1;
	cp.async.ca.shared.global [%r3+16], [%d1], 4;
	cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [%r1];
"""


@pytest.mark.parametrize(("noinc", "verdict"), [("", "violated"), (".noinc", "proved")])
def test_an_arrival_that_raises_what_its_phase_waits_for(tmp_path, noinc, verdict):
    """Order has no answer for it; a search shows who waits for ever, and at which line."""
    text = kernel(COUNTED_TWICE.format(noinc=noinc) + wait("%r1", 0))
    result = asked(tmp_path, text, launch())
    assert verdicts(result)["deadlock"] == verdict
    if noinc == "":
        assert result.trace is not None
        line = 1 + next(at for at, one in enumerate(text.splitlines()) if "try_wait" in one)
        assert {(one.line, one.missing[:17]) for one in result.trace.blocked} == {(line, "0 of 32 arrivals,")}
        assert asked(tmp_path, text, launch(), limit=3).verdict == "undetermined"


def test_a_large_kernel_that_cannot_go_on_is_not_searched(tmp_path):
    more = "bar.warp.sync -1; st.shared.b32 [%r3+2048], %r2;" * 600 + wait("%r1", 0)
    result = asked(tmp_path, kernel(COUNTED_TWICE.format(noinc="") + more), launch(33))
    assert verdicts(result)["deadlock"] == "undetermined"
