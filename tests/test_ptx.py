"""Kernels in PTX: what is executed, what becomes of it, and what is said where something is not known."""

from __future__ import annotations

import pytest
from ptx_text import asked, executed, kernel, launch, lifted, verdicts, wait

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.frontends.ptx.events import LanesAccessed, LanesMet, NamedMet, Peeked, Waited
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op

HANDOFF = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], {count};
READY:
	bar.sync 0;
	shr.u32 %r2, %r0, 5;
	setp.ne.u32 %p1, %r2, 0;
	@%p1 bra READS;
	shl.b32 %r3, %r0, 2;
	add.u32 %r3, %r3, %r1;
	st.shared.b32 [%r3+1024], %r0;
	{arrives}
	bra DONE;
READS:
	{waits}
	ld.shared.b32 %r4, [%r1+1024];
DONE:
"""
"""Warp 0 writes and arrives, warp 1 waits and reads."""
ARRIVES, WAITS = "mbarrier.arrive.shared::cta.b64 _, [%r1];", wait("%r1", 0)


def handoff(count: int = 32, arrives: str = ARRIVES, waits: str = WAITS) -> str:
    return kernel(HANDOFF.format(count=count, arrives=arrives, waits=waits))


@pytest.mark.parametrize("engine", ["default", "search+order"])
def test_a_handoff_is_proved(tmp_path, engine):
    result = asked(tmp_path, handoff(), launch(64), engine=engine)
    assert result.verdict == PROVED
    assert set(verdicts(result)) >= {"deadlock", "race", "barrier-init", "arrival-count"}


@pytest.mark.parametrize(
    ("change", "property"),
    [
        ({"waits": ""}, "race"),
        ({"arrives": ""}, "deadlock"),
        ({"count": 33}, "deadlock"),
        ({"count": 31}, "arrival-count"),
        ({"waits": wait("%r1", 1)}, "race"),
        ({"arrives": "mbarrier.arrive.shared::cta.b64 _, [%r1+8];"}, "barrier-init"),
    ],
    ids=lambda one: str(one)[:24],
)
def test_a_broken_handoff_is_violated(tmp_path, change, property):
    result = asked(tmp_path, handoff(**change), launch(64))
    assert verdicts(result)[property] == VIOLATED
    assert result.trace is not None
    assert result.trace.steps[-1].file.endswith("k.ptx")


def test_what_follows_a_hang_is_open(tmp_path):
    result = asked(tmp_path, handoff(arrives=""), launch(64))
    assert verdicts(result) == {**dict.fromkeys(verdicts(result), UNDETERMINED), "deadlock": VIOLATED}
    assert all("what would come then was not looked at" in one.note for one in result.findings if one.id != "deadlock")


TOO_MANY = (
    "mbarrier.arrive.shared::cta.b64 _, [%r1];\n" + "@%p0 bra DONE;\nmbarrier.arrive.shared::cta.b64 _, [%r1], {more};"
)


@pytest.mark.parametrize(("more", "verdict"), [(31, VIOLATED), (29, UNDETERMINED)])
def test_an_arrival_too_many_before_a_hang_is_one(tmp_path, more, verdict):
    """Of 62 arrivals, 63 come and nobody can go on behind them; or 61, which is a hang and no more."""
    text = handoff(count=62, arrives=TOO_MANY.format(more=more), waits=wait("%r1", 0))
    result = asked(tmp_path, text, launch(64))
    assert verdicts(result)["arrival-count"] == verdict


@pytest.mark.parametrize("bound", [{"limit": 100}, {"reduced": False}])
def test_what_bounds_a_search_goes_with_a_hang(tmp_path, bound):
    """Order alone is asked of it, and needs no such bound."""
    assert verdicts(asked(tmp_path, handoff(arrives=""), launch(64), **bound))["deadlock"] == VIOLATED


def test_lanes_of_a_warp_are_programs_where_they_do_different_things():
    one = lifted(handoff(), launch(64))
    assert [(program.name, program.me.threads) for program in one.programs] == [
        ("warp0.0", 1),
        ("warp0.1", 31),
        ("warp1", 32),
    ]


ELECTED = """
	mov.u32 %r1, smem;
	elect.sync %r2|%p0, -1;
	@%p0 st.shared.b32 [%r1], %r2;
	{between}
	ld.shared.b32 %r3, [%r1];
"""


@pytest.mark.parametrize(
    ("between", "verdict"),
    [("bar.warp.sync -1;", PROVED), ("", VIOLATED), ("shfl.sync.idx.b32 %r4, %r2, 0, 31, -1;", VIOLATED)],
    ids=["syncwarp", "nothing", "shfl"],
)
@pytest.mark.parametrize("engine", ["default", "search"])
def test_lanes_that_meet_see_each_others_stores_only_behind_syncwarp(tmp_path, between, verdict, engine):
    """PTX ISA 9.7.13.2: bar.warp.sync orders memory; elect.sync and shfl.sync do not."""
    result = asked(tmp_path, kernel(ELECTED.format(between=between)), launch(32), engine=engine)
    assert verdicts(result)["race"] == verdict


def test_accesses_of_different_lanes_do_not_race_where_their_bytes_differ(tmp_path):
    text = kernel("""
	mov.u32 %r1, smem;
	mov.u32 %r0, %laneid;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	setp.eq.u32 %p0, %r0, 3;
	@%p0 mbarrier.init.shared::cta.b64 [%r1+1024], 1;
	st.shared.b32 [%r2+{offset}], %r0;
	setp.eq.u32 %p1, %r0, 3;
	@%p1 st.shared.b32 [%r1], %r0;
""")
    assert verdicts(asked(tmp_path, text.replace("{offset}", "4"), launch(32)))["race"] == PROVED
    assert verdicts(asked(tmp_path, text.replace("{offset}", "0"), launch(32)))["race"] == VIOLATED


def test_stores_of_the_same_value_do_not_race(tmp_path):
    text = (
        "mov.u32 %r1, smem; mov.u32 %r2, {value}; shr.u32 %r2, %r2, 5; st.shared.b32 [%r1], %r2; bar.sync 0;"
        "ld.shared.b32 %r3, [%r1]; setp.eq.u32 %p0, %r3, 7; @%p0 bra END; END:"
    )
    assert asked(tmp_path, kernel(text.format(value=7 * 32)), launch(64)).verdict == PROVED
    assert verdicts(asked(tmp_path, kernel(text.format(value="%tid.x")), launch(64)))["race"] == VIOLATED


# ---------------------------------------------------------------- what is not known


READS_GLOBAL = """
	ld.param.u64 %d0, [a];
	ld.global.u32 %r0, [%d0];
	setp.eq.u32 %p0, %r0, 5;
	@%p0 bra OVER;
	bar.sync 1, 64;
OVER:
"""


def test_a_branch_on_unknown_data_is_open_and_says_what_to_assume(tmp_path):
    text = kernel(READS_GLOBAL, ".param .u64 a")
    given = {"parameters": "0000001000000000"}
    note = asked(tmp_path, text, launch(32, **given)).findings[0].note
    assert "bra: whether it is executed depends on what global memory holds, from line 14" in note
    assert '{"line": 14, "value": …} in `assume` of the launch file' in note
    assumed = asked(tmp_path, text, launch(32, **given, assume=[{"line": 14, "value": 5}]))
    assert assumed.verdict == PROVED
    assert "assumed: line 14: ld.global.u32 gives 5" in assumed.notes
    hangs = asked(tmp_path, text, launch(32, **given, assume=[{"line": 14, "value": 4}]))
    assert verdicts(hangs)["deadlock"] == VIOLATED


def test_memory_that_the_launch_describes_is_known(tmp_path):
    text = kernel(READS_GLOBAL, ".param .u64 a")
    for told, meets in (("04000000", True), ("05000000", False)):
        given = {"parameters": "0000100000000000", "memory": [{"address": "0x100000", "bytes": told}]}
        run = executed(text, launch(32, **given))
        assert any(isinstance(one.what, NamedMet) for one in run.cluster.ctas[0].warps[0].events) is meets


def test_parameters_that_are_left_out_are_open(tmp_path):
    text = kernel(READS_GLOBAL.replace("ld.global.u32 %r0, [%d0]", "cvt.u32.u64 %r0, %d0"), ".param .u64 a")
    assert "parameters, which the launch leaves out" in asked(tmp_path, text, launch(32)).findings[0].note


def test_an_instruction_that_nobody_knows_is_refused_with_its_line(tmp_path):
    with pytest.raises(SpecError, match=r"k\.ptx:13: frobnicate.sync.b32 is not known here"):
        asked(tmp_path, kernel("\n\tfrobnicate.sync.b32 %r0, %r1;"), launch(32))


# ---------------------------------------------------------------- waits and peeks

PEEK = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 32;
READY:
	bar.sync 0;
	setp.ge.u32 %p1, %r0, 32;
	@%p1 bra READS;
	mbarrier.arrive.shared::cta.b64 _, [%r1];
	bra DONE;
READS:
	mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], {parity};
	@%p2 bra SKIP;
	{inside}
SKIP:
DONE:
"""


def test_a_peek_that_only_decides_whether_to_wait_is_no_choice(tmp_path):
    text = kernel(PEEK.format(parity=0, inside=wait("%r1", 0)))
    events = [event.what for event in executed(text, launch(64)).cluster.ctas[0].warps[1].events]
    assert [type(what) for what in events if isinstance(what, Peeked | Waited)] == [Peeked, Waited]
    assert asked(tmp_path, text, launch(64)).verdict == PROVED


@pytest.mark.parametrize(
    ("parity", "inside", "words"),
    [
        (1, wait("%r1", 0), "asks about another barrier or phase"),
        (0, "bar.warp.sync -1;" + wait("%r1", 0), "decides more than whether its lanes wait"),
        (0, "st.shared.b32 [%r1+64], %r0;", "decides more than whether its lanes wait"),
    ],
    ids=["other-phase", "meets", "stores"],
)
def test_a_peek_that_decides_more_leaves_the_verdict_open(tmp_path, parity, inside, words):
    result = asked(tmp_path, kernel(PEEK.format(parity=parity, inside=inside)), launch(64))
    assert result.verdict == UNDETERMINED
    assert words in result.findings[0].note


def test_a_loop_that_gives_up_by_the_clock_is_a_wait_and_says_so(tmp_path):
    loop = """
LOOP:
	mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0;
	@%p2 bra PASSED;
	mov.u32 %r5, %clock;
	setp.lt.u32 %p3, %r5, 1000;
	@%p3 bra LOOP;
	trap;
PASSED:
"""
    result = asked(tmp_path, handoff(waits=loop), launch(64))
    assert result.verdict == PROVED
    assert [note for note in result.notes if "the loop around it does not give up" in note]


def test_a_token_is_the_phase_of_its_arrival(tmp_path):
    waits = """
	mbarrier.arrive.shared::cta.b64 %d0, [%r1];
AGAIN:
	mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %d0;
	@!%p2 bra AGAIN;
"""
    one = lifted(handoff(count=64, waits=waits), launch(64))
    found = [
        node.operation for program in one.programs for node in program.nodes if isinstance(node.operation, op.Wait)
    ]
    assert [type(wait.phase) for wait in found] == [op.Token]
    assert check(one).verdict == PROVED


# ---------------------------------------------------------------- shapes


def test_ctas_that_do_the_same_are_decided_once(tmp_path):
    text = kernel("mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 2; @%p0 bra END; bar.sync 0; END:")
    result = asked(tmp_path, text, launch(64, grid=[4, 1, 1]))
    assert "4 CTAs, 2 of them different: (0, 0, 0) stands for 3, (2, 0, 0) stands for 1" in result.notes


def test_a_barrier_of_some_warps_meets_these(tmp_path):
    text = kernel(
        "mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; setp.ge.u32 %p0, %r0, 2; @%p0 bra END; bar.sync 1, 64; END:"
    )
    assert asked(tmp_path, text, launch(128)).verdict == PROVED


def test_events_of_lanes_keep_their_masks():
    run = executed(kernel("elect.sync %r2|%p0, -1; mov.u32 %r1, smem; @%p0 st.shared.b32 [%r1], %r2;"), launch(32))
    events = run.cluster.ctas[0].warps[0].events
    assert [(type(one.what), one.mask) for one in events] == [(LanesMet, 0xFFFFFFFF), (LanesAccessed, 1)]


def test_shared_memory_that_the_launch_does_not_give_is_refused(tmp_path):
    text = kernel("mov.u32 %r1, smem; st.shared.b32 [%r1+4096], %r1;")
    assert asked(tmp_path, text, launch(1, dynamic_shared=4100)).verdict == PROVED
    with pytest.raises(
        SpecError, match=r"k\.ptx:12: st.shared.b32: up to byte 4100 of dynamic shared memory, of which"
    ):
        asked(tmp_path, text, launch(1, dynamic_shared=4096))


# ---------------------------------------------------------------- the command


def test_the_command(tmp_path, capsys):
    (tmp_path / "k.ptx").write_text(handoff())
    (tmp_path / "k.json").write_text('{"launch": 1, "grid": 1, "block": 64, "dynamic_shared": 65536}')
    assert main(["ptx", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "k.json")]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[-1]
        .startswith("verify: PROVED k.ptx grid=1x1x1 block=64x1x1 cluster=1x1x1")
    )
    assert main(["ptx", str(tmp_path / "k.ptx")]) == 2
    assert "--dump-launch writes one to fill in" in capsys.readouterr().err
    assert main(["ptx", str(tmp_path / "k.ptx"), "--dump-launch", "-o", str(tmp_path / "new.json")]) == 0
    assert main(["ptx", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "new.json")]) == 2
    assert "grid: missing: use three extents" in capsys.readouterr().err
