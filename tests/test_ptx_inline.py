"""Functions that a PTX file defines, and calls: the kernel does what it would do with their bodies in place."""

from __future__ import annotations

import pytest
from ptx_computed import FOUND, stored
from ptx_text import HEAD, asked, kernel, launch, verdicts, wait

from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.inline import inlined
from sm90_verify.frontends.ptx.instruction import Function, Place
from sm90_verify.frontends.ptx.launch import Bytes, Launch
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.slices import everything
from sm90_verify.frontends.ptx.values import Unknown
from sm90_verify.spec.errors import SpecError

THREADS = 8
OUT = """
	ld.param.u64 %d0, [out];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %d1, %r0, 8;
	add.u64 %d0, %d0, %d1;
"""
"""%r0: the thread; %d0: where it leaves a result."""
LEAVE = "\tst.global.b32 [%d0], %r9;\n"


def whole(before: str, body: str) -> tuple[Function, Function]:
    """The kernel as it is written, and with its calls inlined."""
    module = parse(kernel(OUT + body, ".param .u64 out", before), "k.ptx")
    (entry,) = module.entries
    return entry, inlined(module, entry)


def ran(before: str, body: str) -> list[object]:
    """What each thread leaves, None for one that leaves nothing."""
    module = parse(kernel(OUT + body, ".param .u64 out", before), "k.ptx")
    function = inlined(module, module.entries[0])
    pointer = FOUND.to_bytes(8, "little")
    given = Launch("launch", "k", (1, 1, 1), (THREADS, 1, 1), parameters=Bytes(0, pointer, b"\1" * 8))
    code, addresses = code_of(module, function, given, everything(function))
    assert not any(one.space == "param" for one in function.variables)
    found = stored(code, addresses, given, (0, 0, 0))
    return [found.get(FOUND + 8 * thread) for thread in range(THREADS)]


def refused(before: str, body: str) -> str:
    with pytest.raises(SpecError) as error:
        whole(before, body)
    return str(error.value)


TWICE = """
.func (.param .b32 result) twice (.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	shl.b32 %r2, %r1, 1;
	st.param.b32 [result+0], %r2;
	ret;
}
"""
CALL = """
	{
	.param .b32 param0;
	st.param.b32 [param0+0], %r0;
	.param .b32 retval0;
	call.uni (retval0), twice, (param0);
	ld.param.b32 %r9, [retval0+0];
	}
"""


# ---------------------------------------------------------------- what is passed


def test_arguments_and_results_in_param():
    assert ran(TWICE, CALL + LEAVE) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_arguments_and_results_in_registers():
    add = ".func (.reg .u32 z, .reg .pred q) add (.reg .u32 x, .reg .u32 y, .reg .pred p)\n"
    add += "{ @p add.u32 z, x, y; @!p sub.u32 z, x, y; not.pred q, p; ret; }\n"
    body = "\tsetp.lt.u32 %p1, %r0, 4;\n\tcall (%r8, %p2), add, (%r0, 10, %p1);\n\tselp.b32 %r9, %r8, 99, %p2;\n"
    assert ran(add, body + LEAVE) == [99, 99, 99, 99, 4 - 10 + 2**32, 5 - 10 + 2**32, 6 - 10 + 2**32, 7 - 10 + 2**32]


def test_registers_for_parameters_in_param_and_the_other_way():
    assert ran(TWICE, "\tcall (%r9), twice, (%r0);\n" + LEAVE) == ran(TWICE, CALL + LEAVE)
    assert ran(TWICE, "\tcall (%r9), twice, (21);\n" + LEAVE) == [42] * THREADS
    in_registers = ".func (.reg .b32 y) twice (.reg .b32 x) { add.u32 y, x, x; }\n"
    assert ran(in_registers, CALL + LEAVE) == ran(TWICE, CALL + LEAVE)
    assert ran(TWICE, CALL.replace("(retval0)", "(_)") + LEAVE)[0].why == "a register that was never written"


STRUCT = """
.func (.param .align 8 .b8 result[24]) make (.param .b32 x)
{
	.reg .b32 %r<4>;
	.reg .b64 %d<4>;
	ld.param.u32 %r1, [x];
	mul.wide.u32 %d1, %r1, 1000;
	add.u64 %d1, %d1, 0x7700000000;
	sub.u32 %r2, %r1, 5;
	st.param.b32 [result], %r1;
	st.param.b64 [result+8], %d1;
	st.param.v2.b16 [result+16], {%r1, %r2};
	ret;
}
"""


@pytest.mark.parametrize(
    ("load", "value"),
    [
        ("ld.param.b32 %r9, [y];", lambda x: x),
        ("ld.param.b32 %r9, [y+8];", lambda x: 1000 * x),
        ("ld.param.b32 %r9, [y+12];", lambda x: 0x77),
        ("ld.param.u8 %r9, [y+9];", lambda x: 1000 * x >> 8 & 255),
        ("ld.param.s16 %r9, [y+18];", lambda x: (x - 5) % 2**32),
        ("ld.param.u16 %r9, [y+18];", lambda x: (x - 5) % 2**16),
        ("ld.param.v2.b16 {%h0, %h1}, [y+16]; cvt.s32.s16 %r9, %h1;", lambda x: (x - 5) % 2**32),
        ("ld.param.b64 %d2, [y+16]; cvt.u32.u64 %r9, %d2;", lambda x: None),
        ("ld.param.v2.b32 {_, %r9}, [y+8];", lambda x: 0x77),
    ],
)
def test_a_struct_is_read_by_any_parts(load, value):
    """Bytes that nobody wrote are unknown."""
    body = ".param .align 8 .b8 y[24]; .param .b32 x; st.param.u32 [x], %r0; call (y), make, (x);\n" + load
    found = ran(STRUCT, body + LEAVE)
    assert [None if isinstance(one, Unknown) else one for one in found] == [value(x) for x in range(THREADS)]


def test_an_argument_is_handed_on():
    outer = """
.func (.param .b32 result) outer (.param .b32 x)
{
	.reg .b32 %r<3>;
	.param .b32 half;
	call (half), twice, (x);
	ld.param.b32 %r1, [half];
	add.u32 %r1, %r1, 1;
	{ .param .b32 x; st.param.b32 [x], %r1; call (result), twice, (x); }
}
"""
    assert ran(TWICE + outer, CALL.replace("twice", "outer") + LEAVE) == [2 * (2 * x + 1) for x in range(THREADS)]


# ---------------------------------------------------------------- the flow of control


def test_a_call_and_a_return_under_a_guard():
    body = "\tmov.u32 %r9, 7;\n\tsetp.gt.u32 %p0, %r0, 2;\n\t@%p0 call (%r9), f, (%r0);\n"
    early = ".func (.reg .b32 y) f (.reg .b32 x) { .reg .pred p; mov.u32 y, 100; setp.eq.u32 p, x, 5; @p ret; "
    assert ran(early + "add.u32 y, y, x; ret; }\n", body + LEAVE) == [7, 7, 7, 103, 104, 100, 106, 107]
    assert ran(early + "add.u32 y, y, x; }\n", body.replace("@%p0", "@!%p0") + LEAVE)[:4] == [100, 101, 102, 7]


def test_branches_and_loops_of_a_function():
    loop = """
.func (.reg .b32 sum) upto (.reg .b32 x)
{
	.reg .b32 i;
	.reg .pred p;
	mov.u32 sum, 0;
	mov.u32 i, 0;
AGAIN:
	setp.ge.u32 p, i, x;
	@p bra OUT;
	add.u32 sum, sum, i;
	add.u32 i, i, 1;
	bra AGAIN;
OUT:
	ret;
}
"""
    body = "\tcall (%r1), upto, (%r0);\n\tcall (%r9), upto, (%r1);\n"
    assert ran(loop, body + LEAVE) == [0, 0, 0, 3, 15, 45, 105, 210]


def test_an_indirect_branch_of_a_function():
    table = """
.func (.reg .b32 y) pick (.reg .b32 x)
{
T: .branchtargets A, B, A;
	brx.idx x, T;
A:	mov.u32 y, 10;
	ret;
B:	mov.u32 y, 20;
	ret;
}
"""
    body = "\trem.u32 %r1, %r0, 3;\n\tcall (%r9), pick, (%r1);\n"
    assert ran(table, body + LEAVE) == [10, 20, 10, 10, 20, 10, 10, 20]


def test_a_function_that_exits_ends_the_thread():
    stop = ".func stop (.reg .pred p) { @p exit; ret; }\n"
    assert ran(stop, "\tsetp.gt.u32 %p0, %r0, 5;\n\tcall stop, (%p0);\n\tmov.u32 %r9, 1;\n" + LEAVE)[4:] == [
        1,
        1,
        None,
        None,
    ]


def test_each_call_has_local_memory_and_all_have_the_same_shared_memory():
    use = """
.func (.reg .b32 y) count (.reg .b32 x)
{
	.shared .b32 box[8];
	.local .b32 own;
	.reg .b32 at, old;
	mov.u32 at, box;
	mad.lo.u32 at, x, 4, at;
	st.shared.b32 [at], x;
	ld.shared.b32 old, [at];
	ld.local.b32 y, [own];
	st.local.b32 [own], 3;
	add.u32 y, old, 1;
	st.shared.b32 [at], y;
	ret;
}
"""
    body = "\tcall (%r1), count, (%r0);\n\tcall (%r9), count, (%r0);\n"
    _, function = whole(use, body)
    assert [(one.name, one.space) for one in function.variables] == [
        ("count.box", "shared"),
        ("count.own#1", "local"),
        ("count.own#2", "local"),
    ]
    assert ran(use, body + LEAVE) == [x + 1 for x in range(THREADS)]


def test_places_lead_from_the_body_to_the_call():
    inner = '.file 1 "a.cu"\n.func (.reg .b32 y) f (.reg .b32 x)\n{\n\t.loc 1 7 3\n\tadd.u32 y, x, x;\n\tret;\n}\n'
    body = "\t.loc 1 40 1\n\tcall (%r9), f, (%r0);\n\t.loc 1 41 1\n"
    _, function = whole(inner, body + LEAVE)
    (add,) = [one for one in function.code if one.name == "add.u32" and one.line == 9]
    assert add.place == Place("a.cu", 7, Place("a.cu", 40))


# ---------------------------------------------------------------- what stays, and what is refused


def test_a_kernel_without_calls_is_left_alone():
    entry, function = whole(TWICE, LEAVE)
    assert function is entry


def test_calls_of_the_runtime_stay_and_their_results_are_unknown():
    printf = ".extern .func (.param .b32 r) vprintf (.param .b64 format, .param .b64 list);\n"
    body = """
	{
	.param .b64 param0;
	st.param.b64 [param0+0], %d0;
	.param .b64 param1;
	st.param.b64 [param1+0], 0;
	.param .b32 retval0;
	call.uni (retval0), vprintf, (param0, param1);
	ld.param.b32 %r9, [retval0+0];
	}
"""
    _, function = whole(printf, body)
    assert [one.name for one in function.code if one.opcode == "call"] == ["call.uni"]
    assert all(isinstance(one, Unknown) for one in ran(printf, body + LEAVE))


def test_a_function_that_calls_itself_is_refused():
    again = ".func f (.reg .b32 x)\n{\n\tcall f, (x);\n\tret;\n}\n"
    assert refused(again, "\tcall f, (%r0);\n") == "k.ptx:7: f calls itself: functions that do are not followed"
    turns = ".func g (.reg .b32 x);\n.func f (.reg .b32 x) { call g, (x); }\n.func g (.reg .b32 x) { call f, (x); }\n"
    assert refused(turns, "\tcall f, (%r0);\n").endswith("f calls itself: functions that do are not followed")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("call (%r9), twice, (%r0, %r1);", "twice takes 1 and gives 1: the call gives it 2 and takes 1"),
        ("call twice, (%r0);", "twice takes 1 and gives 1: the call gives it 1 and takes 0"),
        (".param .b32 x; call (x), twice, (x);", "twice is called with one variable as an argument and as a result"),
        (".param .b32 x; mov.u64 %d1, x;", "mov.u64: the address of x is taken, which is not followed"),
        (".param .b32 x; st.param.b32 [x+4], 1;", "st.param.b32: bytes 4 on of x, which has 4"),
        (".param .b8 x[4100]; st.param.b32 [x+4], 1;", "x has 4100 bytes, of which 4096 are followed"),
    ],
)
def test_what_is_passed_otherwise_is_refused(body, why):
    line = kernel(OUT + body, ".param .u64 out", TWICE).split("\n").index(body) + 1
    assert refused(TWICE, f"{body}\n") == f"k.ptx:{line}: {why}"


def test_so_many_calls_that_a_kernel_grows_too_large_are_refused():
    nested = ".func f0 { " + "bar.sync 0; " * 32 + "}\n"
    for number in range(1, 5):
        nested += f".func f{number} {{ " + f"call f{number - 1}; " * 32 + "}\n"
    assert "262144 instructions, all calls inlined" in refused(nested, "\tcall f4;\n")


# ---------------------------------------------------------------- a kernel that synchronises in functions


def test_a_wait_in_a_function_is_followed(tmp_path):
    function = f"""
.func arrive (.param .b32 bar)
{{
	.reg .b32 %r<2>;
	ld.param.b32 %r1, [bar];
	mbarrier.arrive.shared::cta.b64 _, [%r1];
	ret;
}}
.func await (.param .b32 bar)
{{
	.reg .b32 %r<2>;
	.reg .pred %p<16>;
	ld.param.b32 %r1, [bar];
	{wait("%r1", 0)}
	ret;
}}
"""
    body = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 32;
READY:
	bar.sync 0;
	setp.gt.u32 %p1, %r0, 31;
	@%p1 bra READS;
	shl.b32 %r2, %r0, 2;
	add.u32 %r2, %r2, %r1;
	st.shared.b32 [%r2+1024], %r0;
	call arrive, (%r1);
	bra DONE;
READS:
	call await, (%r1);
	ld.shared.b32 %r4, [%r1+1024];
DONE:
"""
    text = kernel(body, "", function)
    assert text.startswith(HEAD)
    assert set(verdicts(asked(tmp_path, text, launch(64))).values()) == {"proved"}
    unawaited = text.replace("\tcall await, (%r1);\n", "")
    assert verdicts(asked(tmp_path, unawaited, launch(64)))["race"] == "violated"
