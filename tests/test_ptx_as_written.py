"""What people write in PTX and compilers do not: in other people's kernels, and all that they rely on."""

from __future__ import annotations

import pytest
from ptx_text import asked, executed, kernel, launch, verdicts, wait

from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError

# ---------------------------------------------------------------- text


def test_an_opcode_may_be_written_in_pieces():
    whole, pieces = (parse(kernel(f"lop3{gap}.b32 %r1, %r2, %r3, %r4, 106;"), "k").entries[0] for gap in ("", " "))
    assert [(one.opcode, one.modifiers) for one in pieces.code] == [(one.opcode, one.modifiers) for one in whole.code]


VECTORS = """
{
	.reg .v2 .b32 pair;
	.reg .v4 .b32 %q<2>;
	mov.u32 pair.x, 3;
	mov.b64 %d0, 0x500000000;
	mov.b64 pair, %d0;
	mov.u32 %q1.w, pair.y;
	add.u32 %r1, %q1.a, pair.r;
}
	mov.u32 %r2, smem;
	add.u32 %r2, %r2, %r1;
	st.shared.b8 [%r2], %r1;
"""


def test_the_elements_of_a_vector_are_registers():
    (event,) = executed(kernel(VECTORS), launch(32)).cluster.ctas[0].warps[0].events
    assert set(event.what.addresses) == {1024 + 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".reg .v2 .b32 %r1;", "two declarations of %r1 in one scope"),
        (".reg .v2 .b32 a; mov.u32 a.z, 1;", "a.z: the register has 2 elements, which are .x, .y"),
        (".reg .v2 .nothing a;", ".reg .nothing is not known"),
    ],
)
def test_what_is_no_vector_is_refused(text, words, tmp_path):
    with pytest.raises(SpecError, match=words):
        asked(tmp_path, kernel(text + "\n mov.u32 %r3, smem; st.shared.b32 [%r3], %r3;"), launch(32))


# ---------------------------------------------------------------- shared memory


LAST = """
	mov.u32 %r1, smem;
	st.shared.b32 [%r1+{last}], %r1;
"""


def test_shared_memory_may_be_used_to_its_end(tmp_path):
    most = 227 * 1024
    given = launch(1, dynamic_shared=most)
    assert asked(tmp_path, kernel(LAST.format(last=most - 4)), given).verdict == PROVED
    with pytest.raises(SpecError, match="of which the launch has 232448"):
        asked(tmp_path, kernel(LAST.format(last=most)), given)


COPIES = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared.b64 [%r1], 32;
READY:
	bar.sync 0;
	and.b32 %r2, %r0, {mask};
	shl.b32 %r2, %r2, 2;
	add.u32 %r2, %r2, %r1;
	mov.u64 %d0, 0x400000000000;
	cp.async.ca.shared.global [%r2+1024], [%d0], 4;
	cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];
	{wait}
	ld.shared.b32 %r3, [%r2+1024];
"""


@pytest.mark.parametrize(("mask", "waits", "race"), [(31, True, PROVED), (31, False, VIOLATED), (30, True, VIOLATED)])
def test_lanes_copy_their_own_bytes(tmp_path, mask, waits, race):
    """The first lane alone initialises the barrier, and so does other things than the rest of its warp."""
    text = kernel(COPIES.format(mask=mask, wait=wait("%r1", 0) if waits else ""))
    for engine in ("order", "search"):
        assert verdicts(asked(tmp_path, text, launch(32), engine=engine))["race"] == race, engine


MAP = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	mov.u64 %d0, 0x400000000000;
	cvta.shared.u64 %d1, smem;
	cvt.u64.u32 %d1, %r1;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	st.shared.b32 [%r2], 0;
	{first}
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra MADE;
	tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%d1], %d0;
MADE:
	{second}
	tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [%d1], 128;
"""


@pytest.mark.parametrize(
    ("first", "second", "race"), [(True, True, PROVED), (False, True, VIOLATED), (True, False, VIOLATED)]
)
def test_a_map_in_shared_memory_is_written_and_read_as_a_whole(tmp_path, first, second, race):
    sync = "bar.warp.sync 0xffffffff;"
    text = kernel(MAP.format(first=sync if first else "", second=sync if second else ""))
    assert verdicts(asked(tmp_path, text, launch(32)))["race"] == race
    again = text.replace("\n\tret;", "\n\tsetp.ne.u32 %p1, %r0, 0;\n\t@%p1 ret;\n\tst.shared.b32 [%r1], 1;\n\tret;")
    assert verdicts(asked(tmp_path, again, launch(32)))["race"] == race


# ---------------------------------------------------------------- what is not known, and does not matter


EITHER = """
	mov.u32 %r1, smem;
	mov.u64 %d0, 0x400000000000;
	ld.global.u32 %r2, [%d0];
	mov.u32 %r3, 0;
	setp.eq.u32 %p0, %r2, 7;
	@%p0 bra MEET;
	mov.u32 %r3, 4;
MEET:
	{store}
"""


@pytest.mark.parametrize(
    ("store", "known"),
    [
        ("st.global.u32 [%d0], %r3;", True),
        ("st.shared.u32 [%r1], %r3;", True),
        ("add.u32 %r1, %r1, %r3; st.shared.u32 [%r1], %r3;", False),
        ("setp.eq.u32 %p1, %r3, 0; @%p1 bar.sync 0;", False),
    ],
)
def test_a_branch_matters_to_addresses_and_guards_and_not_to_what_is_stored(tmp_path, store, known):
    result = asked(tmp_path, kernel(EITHER.format(store=store)), launch(1))
    assert (result.verdict == PROVED) == known


def test_a_launch_may_begin_before_the_one_before_has_ended(tmp_path):
    text = kernel(LAST.format(last=0))
    assert asked(tmp_path, text, launch(1, programmatic_serialization=True)).verdict == PROVED
    with pytest.raises(SpecError, match="programmatic_serialization: 1: use true or false"):
        launch(32, programmatic_serialization=1)


STEERED = """
	mov.u32 %r1, smem;
	mov.f32 %f1, 0f3F000000;
	mul.f32 %f2, %f1, %f1;
	setp.eq.f32 %p0, %f2, 0f00000000;
	@%p0 bra DONE;
	bar.sync 1, 64;
DONE:
"""


def test_what_a_float_gives_that_steers_a_branch_may_be_assumed(tmp_path):
    text = kernel(STEERED)
    line = text[: text.index("mul.f32")].count("\n") + 1
    (note,) = {one.note for one in asked(tmp_path, text, launch(32)).findings}
    assert f'depends on what mul.f32 gives, from line {line}: say what it gives with {{"line": {line}' in note
    for value, verdict in ((0, PROVED), (0x3E800000, VIOLATED)):
        result = asked(tmp_path, text, launch(32, assume=[{"line": line, "value": value}]))
        assert result.verdict == verdict
        assert [one for one in result.notes if f"mul.f32 gives {value}" in one]
