"""Branches on what nobody knows: they may decide nothing that others notice."""

from __future__ import annotations

import pytest
from ptx_text import asked, launch
from ptx_text import kernel as small

from sm90_verify.frontends.ptx.events import Arrived, NamedMet
from sm90_verify.frontends.ptx.execute import execute
from sm90_verify.frontends.ptx.launch import Bytes, Launch
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.result import PROVED, UNDETERMINED

KERNEL = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry kernel(.param .u64 where)
{{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %rd<5>;
  .shared .align 8 .b64 full;
  ld.param.u64 %rd1, [where];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, full;
  mbarrier.init.shared::cta.b64 [%r1], 32;
  mov.u32 %r3, 1;
  ld.global.u32 %r2, [%rd2];
  setp.eq.s32 %p1, %r2, 0;
  @%p1 bra DONE;
{between}
DONE:
  bar.sync %r3, 32;
  mbarrier.arrive.shared::cta.b64 %rd4, [%r1];
  ret;
}}
"""


def events(between: str):
    module = parse(KERNEL.format(between=between), "kernel.ptx")
    launch = Launch(
        "", "kernel", (1, 1, 1), (32, 1, 1), parameters=Bytes(0, (1 << 40).to_bytes(8, "little"), b"\1" * 8)
    )
    run = execute(module, module.entries[0], launch, ((0, 0, 0),))
    return [type(one.what) for one in run.cluster.ctas[0].warps[0].events][1:]


@pytest.mark.parametrize(
    "between",
    [
        "",
        "  add.s32 %r4, %r2, 1;\n  st.global.u32 [%rd2], %r4;",
        "  add.s64 %rd3, %rd2, 4;\n  red.global.add.u32 [%rd3], 1;\n  bra.uni DONE;",
    ],
)
def test_what_nobody_notices(between):
    assert events(between) == [NamedMet, Arrived]


@pytest.mark.parametrize(
    "between",
    [
        "  mbarrier.arrive.shared::cta.b64 %rd4, [%r1];",  # an arrival
        "  mov.u32 %r3, 2;",  # the number of the barrier of threads
        "  st.shared.u32 [%r1+8], %r2;",  # a write that others can race with
        "  @%p1 bra DONE;\n  ret;",  # an end
    ],
)
def test_what_others_notice(between):
    with pytest.raises(Undetermined, match=r"bra: whether it is executed depends on what global memory holds"):
        events(between)


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("", "a register that was never written: write it before it is read"),
        ("mov.u64 %d1, %globaltimer;", "%globaltimer, which the launch does not determine: let it depend on what a"),
        ("ld.global.u64 %d1, [%d0];", "of the launch file"),
    ],
)
def test_what_to_do_about_a_value_depends_on_where_it_comes_from(tmp_path, first, why):
    text = small(f"mov.u64 %d0, 4096; {first} setp.eq.u64 %p1, %d1, 0; @%p1 bar.sync 0;")
    result = asked(tmp_path, text, launch(32))
    assert result.verdict == UNDETERMINED and all(why in one.note for one in result.findings)


@pytest.mark.parametrize(
    ("use", "verdict"),
    [("mov.u32 %r5, %r4;", PROVED), ("setp.eq.u32 %p1, %r4, 0; @%p1 bar.sync 0;", UNDETERMINED)],
)
def test_how_many_arrivals_were_pending_is_not_known(tmp_path, use, verdict):
    text = f"""
	mov.u32 %r1, smem;
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p0, %r2, 0;
	@%p0 bra END;
	mbarrier.init.shared::cta.b64 [%r1], 1;
	mbarrier.arrive.shared::cta.b64 %d1, [%r1];
	mbarrier.pending_count.b64 %r4, %d1;
	{use}
END:
"""
    result = asked(tmp_path, small(text), launch(32))
    assert result.verdict == verdict
    assert verdict == PROVED or "depends on what mbarrier.pending_count.b64 gives" in result.findings[0].note
