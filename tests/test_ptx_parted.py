"""Lanes that have parted, and meet at copies of one bar.warp.sync (PTX ISA 9.7.13.2)."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, lifted

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.ptx import operations as op

ALL = "bar.warp.sync -1;"
PARTED = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.eq.u32 %p0, %r0, 0;
	@%p0 bra FIRST;
	{others}
	ld.shared.b32 %r2, [%r1];
	bra END;
FIRST:
	st.shared.b32 [%r1], %r0;
	{first}
END:
"""
"""Lane 0 stores, and the others load."""


@pytest.mark.parametrize(
    ("first", "others", "verdict"),
    [
        (ALL, ALL, PROVED),
        (ALL, ALL + ALL, PROVED),
        ("", "", VIOLATED),
        ("bar.warp.sync 1;", "bar.warp.sync -2;", VIOLATED),
        ("bar.warp.sync 1;", ALL, VIOLATED),
    ],
)
def test_lanes_meet_at_different_instructions_with_the_same_members(tmp_path, first, others, verdict):
    """Who has exited is not waited for, and orders nothing."""
    result = asked(tmp_path, kernel(PARTED.format(first=first, others=others)), launch(32))
    assert result.verdict == verdict
    assert result.verdict != VIOLATED or [one.id for one in result.findings if one.verdict == VIOLATED] == ["race"]


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ("bar.warp.sync 3;", ALL),
        (ALL, "elect.sync _|%p3, -1;"),
        ("shfl.sync.idx.b32 %r4, %r0, 0, 31, -1;", "shfl.sync.idx.b32 %r4, %r0, 0, 31, -1;"),
    ],
)
def test_other_instructions_and_other_members_do_not_meet(tmp_path, first, others):
    """What shfl.sync hands over from another instruction is not followed."""
    result = asked(tmp_path, kernel(PARTED.format(first=first, others=others)), launch(32))
    assert result.verdict == UNDETERMINED
    assert all("let all lanes come to one of them" in one.note for one in result.findings)


LOOPS = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	mov.u32 %r3, 0;
	setp.eq.u32 %p0, %r0, 0;
	@%p0 bra FIRST;
OTHERS:
	bar.warp.sync -1;
	ld.shared.b32 %r2, [%r1];
	{back}
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, 5;
	@%p1 bra OTHERS;
	bra END;
FIRST:
	st.shared.b32 [%r1], %r0;
	bar.warp.sync -1;
	{back}
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, 5;
	@%p1 bra FIRST;
END:
"""


@pytest.mark.parametrize(("back", "verdict"), [(ALL, PROVED), ("", VIOLATED)])
def test_a_word_is_handed_over_in_every_round(tmp_path, back, verdict):
    assert asked(tmp_path, kernel(LOOPS.format(back=back)), launch(32)).verdict == verdict


def test_a_lane_that_comes_to_where_others_have_met_already_meets_them_later():
    """Lane 0 comes to the first instruction of the others while they still stand there."""
    text = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.eq.u32 %p0, %r0, 0;
	@%p0 bra FIRST;
AGAIN:
	bar.warp.sync -1;
	@%p0 bra END;
	ld.shared.b32 %r2, [%r1];
	bar.warp.sync -1;
	bra END;
FIRST:
	st.shared.b32 [%r1], %r0;
	bar.warp.sync -1;
	bra AGAIN;
END:
"""
    programs = lifted(kernel(text), launch(32)).programs
    done = [[type(node.operation) for node in one.nodes if node.operation is not None] for one in programs]
    assert done == [[op.Touch, op.WarpSync, op.WarpSync], [op.WarpSync, op.Touch, op.WarpSync]]
