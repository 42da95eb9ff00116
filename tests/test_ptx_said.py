"""What is said beside a verdict on PTX, and of what no verdict is given."""

from __future__ import annotations

import json

import pytest
from ptx_rings import ring
from ptx_text import asked, kernel, launch, wait
from test_ptx import handoff

from sm90_verify.cli.main import main
from sm90_verify.decide.ptx import check_ptx
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError

STORE = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	st.shared.b32 [%r2+1024], %r0;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra DONE;
	mov.u64 %d0, 0x400000000000;
	cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1+1024], 128;
	cp.async.bulk.commit_group;
	{wait}
DONE:
"""
WAIT = "cp.async.bulk.wait_group.read 0;"


def test_a_store_in_flight_at_exit_is_noted(tmp_path):
    without = asked(tmp_path, kernel(STORE.format(wait="")), launch(32), redundancy=True)
    assert without.verdict == PROVED
    assert [note for note in without.notes if "warp0.0 ends while a bulk store of its own" in note]
    waits = asked(tmp_path, kernel(STORE.format(wait=WAIT)), launch(32), redundancy=True)
    assert waits.verdict == PROVED
    assert not [note for note in waits.notes if "ends while a bulk store" in note]
    assert not [one for one in waits.redundant if "wait_group" in one.what]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[%r1+1024], 128", "[%r1+1028], 128"), "the source is 0x804: it must be a multiple of 16"),
        (("[%r1+1024], 128", "[%r1+1024], 120"), "the size is 0x78: it must be a multiple of 16"),
    ],
)
def test_a_bulk_copy_that_is_not_aligned_is_refused(tmp_path, change, words):
    with pytest.raises(SpecError, match=words):
        asked(tmp_path, kernel(STORE.format(wait=WAIT).replace(*change)), launch(32))


def test_no_replay_is_promised_of_ptx(tmp_path, capsys):
    (tmp_path / "k.ptx").write_text(handoff(waits=""))
    told = {"launch": 1, "grid": [1, 1, 1], "block": [64, 1, 1], "dynamic_shared": 2048}
    (tmp_path / "l.json").write_text(json.dumps(told))
    assert main(["ptx", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "l.json")]) == 1
    out = capsys.readouterr().out
    assert "trace: " in out and "verify replay" not in out


def test_a_grid_of_many_ctas_keeps_to_its_time(tmp_path):
    """Where all CTAs are executed one after the other, and each takes little."""
    result = asked(tmp_path, handoff(), launch(64, grid=[1000, 1, 1]), timeout=0.05)
    assert result.verdict == "undetermined"
    assert "executing" in result.findings[0].note


@pytest.mark.parametrize("option", [["-o", "y.txt"], ["--format", "json"], ["--timeout", "3"], ["--redundant"]])
def test_options_behind_against_are_refused(tmp_path, capsys, option):
    (tmp_path / "x.log").write_text("synclog at 1: cluster_barrier_init\n")
    given = ["log", str(tmp_path / "x.log"), "--against", "gemm", "--schedule", "ws", *option]
    assert main(given) == 2
    assert f"{option[0]} behind --against" in capsys.readouterr().err


def test_the_option_that_names_no_folder_is_named(tmp_path, capsys):
    assert main(["ptx", "k.ptx", "--launch", "l.json", "--emit", f"{tmp_path}/none/x.py"]) == 2
    assert "--emit" in capsys.readouterr().err


RELOADED = (
    "setp.le.u32 %p6, %r21, 8; @%p6 bra SKIP; ld.param.u32 %r20, [n]; sub.u32 %r22, %r20, %r21; "
    "setp.eq.u32 %p5, %r22, 40; @%p5 bra DONE; SKIP: sub.u32 %r21, %r21, 1;"
)
"""The consumer counts down from n, and stops when it has done 40: n is read again in each round."""


def swept(tmp_path, text: str, sweep: str):
    (tmp_path / "k.ptx").write_text(text)
    (tmp_path / "l.json").write_text('{"launch": 1, "grid": 1, "block": 64, "dynamic_shared": 65536}')
    return check_ptx(str(tmp_path / "k.ptx"), str(tmp_path / "l.json"), sweep=sweep)


def test_a_parameter_that_is_read_inside_of_a_loop_has_no_form_there(tmp_path):
    text = ring(reading=RELOADED).replace("mov.u32 %r3, 0;", "mov.u32 %r3, 0;\n\tmov.u32 %r21, %r10;", 1)
    assert swept(tmp_path, text, "n=52..52").verdict == VIOLATED
    assert swept(tmp_path, text, "n=0..:4").verdict != PROVED


def test_values_end_where_the_parameter_does(tmp_path):
    """No period can be seen up to there: nothing is claimed."""
    text = ring().replace(".param .u32 n", ".param .u8 n").replace("ld.param.u32", "ld.param.u8")
    result = swept(tmp_path, text, "n=250..")
    assert result.verdict == UNDETERMINED
    assert [note for note in result.notes if "n holds no more than 255" in note]


RANKS = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %cluster_ctarank;
	add.u32 %r2, %r1, 1;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra DONE;
	mbarrier.init.shared.b64 [smem], {count};
	setp.eq.u32 %p1, %r1, {rank};
	@%p1 bra DONE;
	mbarrier.init.shared.b64 [smem+8], 1;
DONE:
"""
"""A CTA of the cluster has one barrier less; or they have other counts."""


@pytest.mark.parametrize(
    ("body", "alike"),
    [
        (RANKS.format(count=4, rank=9), [(0, [1, 2])]),
        (RANKS.format(count=4, rank=1), [(0, [2]), (1, [])]),
        (RANKS.format(count="%r2", rank=9), [(0, []), (1, []), (2, [])]),
    ],
)
def test_each_cta_with_other_rings_has_its_table(tmp_path, body, alike):
    result = asked(tmp_path, kernel(body), launch(32, grid=[3, 1, 1], cluster=[3, 1, 1]), table=True)
    assert result.table is not None and result.table.base == 0x400
    tables = (result.table, *result.table.others)
    assert [(one.block[0], [block[0] for block in one.alike]) for one in tables] == alike
    text = render(result)
    assert text.count("of dynamic shared memory, which has the shared::cta address 0x400") == len(alike)
    assert ("CTA (0, 0, 0), with the same rings as (1, 0, 0), (2, 0, 0)" in text) == (len(alike) == 1)


def test_a_table_says_who_orders_whom(tmp_path):
    table = asked(tmp_path, handoff(), launch(64), table=True).table
    (ring,), roles, (buffer,) = table.rings, table.roles, table.buffers
    assert (ring.ring, ring.slots, ring.arrivals, ring.arrive, ring.waits) == ("bar", 1, 32, ("warp0",), ("warp1",))
    assert [(one.role, one.classes) for one in roles] == [("warp0", (1, 31)), ("warp1", (32,))]
    assert (buffer.writers, buffer.readers) == (("warp0 st",), ("warp1 ld",))
    assert buffer.orders == ("warp0 -bar-> warp1",)


def test_what_can_be_left_out_is_said(tmp_path):
    """A second wait for the same phase; and not the first, nor the barrier behind the initialisation."""
    text = handoff(waits=wait("%r1", 0) + "\n" + wait("%r1", 0))
    found = asked(tmp_path, text, launch(64), redundancy=True).redundant
    assert [(one.what, one.together) for one in found] == [("wait parity 0", True), ("wait parity 0", False)]
    assert asked(tmp_path, handoff(), launch(64), redundancy=True).redundant == ()
    assert asked(tmp_path, handoff(waits=""), launch(64), redundancy=True).redundant is None


EXITED_LANES = """
	mov.u32 %r0, %tid.x;
	setp.ge.u32 %p0, %r0, 16;
	@%p0 bra DONE;
	bar.warp.sync {mask};
DONE:
"""


@pytest.mark.parametrize(("mask", "noted"), [("0xffffffff", True), ("0xffff", False)])
def test_a_membermask_with_lanes_that_have_exited_is_noted(tmp_path, mask, noted):
    result = asked(tmp_path, kernel(EXITED_LANES.format(mask=mask)), launch(32))
    assert result.verdict == PROVED
    line = "assumed: line 16: lanes in its membermask that have exited need not come to it"
    assert result.notes == ((line,) if noted else ())


@pytest.mark.parametrize(
    "one",
    [
        "fence.proxy.tensormap::generic.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%r1], 128;",
    ],
)
def test_the_proxy_of_tensor_maps_is_noted(tmp_path, one):
    result = asked(tmp_path, kernel(f"mov.u32 %r1, smem;\nmov.u64 %d0, 0x400000000000;\n{one}"), launch(32))
    assert result.verdict == PROVED
    (note,) = result.notes
    assert note.startswith("assumed: line 14: who changes a tensor map releases it") and "not looked at" in note
