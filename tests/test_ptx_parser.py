"""PTX as text: what each construct becomes, and what is said, with its line, about text that is broken."""

from __future__ import annotations

import time

import pytest

from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Function,
    Guard,
    Immediate,
    Negated,
    Pair,
    Parameter,
    Place,
    PtxInstruction,
    PtxModule,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
    registers_in,
)
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.spec.errors import SpecError

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def module(text: str) -> PtxModule:
    return parse(HEAD + text, "x.ptx")


def function(body: str, before: str = "") -> Function:
    """A kernel with these instructions, which begin in line 6 if nothing stands before it."""
    (entry,) = module(f"{before}.visible .entry k()\n{{\n{body}\n}}\n").entries
    return entry


def code(body: str) -> tuple[PtxInstruction, ...]:
    return function(".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<4>;\n" + body).code


def operands(text: str) -> tuple[object, ...]:
    """Of one instruction. Registers 0 to 3 are %p, 4 to 7 %h, 8 to 15 %r, 16 to 19 %d."""
    (one,) = code(text)
    return one.operands


# ---------------------------------------------------------------- operands


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mov.u32 %r1, -5;", (Register(9), Immediate(-5))),
        ("mov.b32 %r1, 0xFFU;", (Register(9), Immediate(255))),
        ("mov.b32 %r1, 017;", (Register(9), Immediate(15))),
        ("mov.b32 %r1, 0b101;", (Register(9), Immediate(5))),
        ("mov.f32 %r1, 0f3F800000;", (Register(9), Immediate(0x3F800000))),
        ("mov.f32 %r1, 1.5;", (Register(9), Immediate(0x3FC00000))),
        ("mov.f32 %r1, -1.5e0;", (Register(9), Immediate(-0x3FC00000))),
        ("mov.f32 %r1, 0d3FF8000000000000;", (Register(9), Immediate(0x3FC00000))),
        ("mov.f64 %d1, 0d3FF8000000000000;", (Register(17), Immediate(0x3FF8000000000000))),
        ("mov.f64 %d1, 1.5;", (Register(17), Immediate(0x3FF8000000000000))),
        ("mov.u32 %r1, WARP_SZ;", (Register(9), Immediate(32))),
        ("mov.u32 %r1, %ctaid.y;", (Register(9), Special("%ctaid.y"))),
        ("mov.u32 %r1, %lanemask_lt;", (Register(9), Special("%lanemask_lt"))),
        ("mov.u64 %d1, buffer;", (Register(17), Symbol("buffer"))),
        ("mov.u64 %d1, buffer+16;", (Register(17), Sum(Symbol("buffer"), 16))),
        ("ld.shared.b32 %r1, [%r2];", (Register(9), AddressOperand(Register(10)))),
        ("ld.shared.b32 %r1, [%r2+8];", (Register(9), AddressOperand(Sum(Register(10), 8)))),
        ("ld.shared.b32 %r1, [%r2+-8];", (Register(9), AddressOperand(Sum(Register(10), -8)))),
        ("ld.shared.b32 %r1, [%r2-8];", (Register(9), AddressOperand(Sum(Register(10), -8)))),
        ("ld.shared.b32 %r1, [64];", (Register(9), AddressOperand(Immediate(64)))),
        ("ld.v2.b32 {%r1, _}, [%d0];", (Vector((Register(9), Sink())), AddressOperand(Register(16)))),
        ("mov.b64 {%r1, %r2}, %d0;", (Vector((Register(9), Register(10))), Register(16))),
        ("and.pred %p1, %p2, !%p3;", (Register(1), Register(2), Negated(Register(3)))),
        ("setp.lt.s32 %p1|%p2, %r1, 5;", (Pair(Register(1), Register(2)), Register(9), Immediate(5))),
        (
            "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;",
            (Pair(Register(9), Register(1)), Register(10), *map(Immediate, (0, 31, -1))),
        ),
        ("elect.sync _|%p1, -1;", (Pair(Sink(), Register(1)), Immediate(-1))),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r1], [%d0, {%r2, 64}], [%r3+8];",
            (
                AddressOperand(Register(9)),
                AddressOperand(Register(16), (Register(10), Immediate(64))),
                AddressOperand(Sum(Register(11), 8)),
            ),
        ),
        ("call.uni (%r1), f, (%r2, 3);", (Vector((Register(9),)), Symbol("f"), Vector((Register(10), Immediate(3))))),
        ("call f;", (Symbol("f"),)),
        (
            "call (%r1), %d1, (%r2), proto;",
            (Vector((Register(9),)), Register(17), Vector((Register(10),)), Symbol("proto")),
        ),
        ("bar.sync 0;", (Immediate(0),)),
        ("membar.gl;", ()),
    ],
)  # fmt: skip
def test_operands(text, found):
    assert operands(text) == found
    assert all(isinstance(number, int) for operand in found for number in registers_in(operand))


def test_an_instruction_has_its_words_its_guard_and_its_line():
    first, second = code("@!%p2 ld.shared::cta.v4.f32 {%r0, %r1, %r2, %r3}, [%r4];\n\n@%p0 exit;")
    assert (first.opcode, first.modifiers, first.type) == ("ld", ("shared::cta", "v4", "f32"), "f32")
    assert (first.name, first.guard, first.line) == ("ld.shared::cta.v4.f32", Guard(2, True), 7)
    assert (second.name, second.guard, second.line) == ("exit", Guard(0, False), 9)


def test_one_instruction_over_several_lines_and_several_in_one():
    one, two, three = code(
        "add.u32\n\t%r1,\n\t%r2, // the sum\n\t%r3;\nadd.u32 %r1, %r1, 1; /* and\n*/ add.u32 %r1, %r1, 2;;"
    )
    assert [one.line, two.line, three.line] == [7, 11, 12]


# ---------------------------------------------------------------- scopes


def test_registers_of_inner_scopes_hide_those_outside():
    found = function(
        ".reg .b32 a, b<2>;\nmov.u32 a, 1;\n{ .reg .b64 a; .reg .pred b1; mov.u64 a, 2;\n"
        "{ .reg .b16 a; mov.u16 a, 3; }\nmov.u64 a, 4; }\nmov.u32 a, 5;\nmov.u32 b1, 6;"
    )
    assert found.types == ("b32", "b32", "b32", "b64", "pred", "b16")
    assert [one.operands[0] for one in found.code] == [Register(number) for number in (0, 3, 5, 3, 0, 2)]


def test_labels_of_two_scopes_may_have_one_name():
    wait = "{ .reg .pred P; WAIT: mov.pred P, 0; @P bra DONE; bra WAIT; DONE: }\n"
    found = code(wait + "DONE: mov.u32 %r1, 1;\n" + wait + "bra DONE;")
    assert [one.target for one in found] == [-1, 3, 0, -1, -1, 7, 4, 3]


def test_a_jump_finds_the_label_of_the_scopes_around_it_wherever_it_stands():
    found = code("{ { bra OUT; } OUT: { bra OUT; } }\nOUT: exit;")
    assert [one.target for one in found] == [1, 1, -1]
    assert [one.target for one in code("bra END; END:")] == [1]


def test_indirect_branches_have_tables_before_or_after_them():
    table = "T: .branchtargets A, B, A;\n"
    jump = "brx.idx %r1, T;\nA: mov.u32 %r1, 1;\nB: mov.u32 %r1, 2;\n"
    for text in (table + jump, jump + table):
        found = code(text)
        assert (found[0].targets, found[0].target) == ((1, 2, 1), -1)


def test_variables_of_functions():
    found = function(
        ".reg .b32 r;\n.shared .align 1024 .b8 tile[2048];\n"
        "{ .shared .u32 tile; .local .v4 .f32 spill[3]; mov.u32 r, tile; }\n"
        ".shared .b64 bars[2][2], one;\nmov.u32 r, tile;"
    )
    told = [(one.name, one.space, one.align, one.size, one.address) for one in found.variables]
    assert told == [
        ("tile", "shared", 1024, 2048, 0),
        ("tile@1", "shared", 4, 4, 2048),
        ("spill@2", "local", 16, 48, 0),
        ("bars", "shared", 8, 32, 2056),
        ("one", "shared", 8, 8, 2088),
    ]
    assert [one.operands[1] for one in found.code] == [Symbol("tile@1"), Symbol("tile")]


# ---------------------------------------------------------------- the file


def test_variables_of_a_file_and_what_they_hold():
    found = module(
        ".extern .shared .align 128 .b8 smem[];\n.global .align 4 .u32 counter;\n.const .b8 text[] = {72, 105, 0};\n"
        ".const .align 8 .s16 table[2][2] = {{1, -2}, {3, 4}};\n.global .u64 pointers[2] = {counter, 0};\n"
        ".const .f32 half = 0f3F000000;\n.visible .global .u8 last = 0xFF, next;\n"
        ".global .attribute(.managed) .u32 managed;\n.entry k() { ret; }"
    )
    told = [(one.name, one.space, one.size, one.address, one.initial) for one in found.variables]
    assert told == [
        ("smem", "shared", 0, 0, None),
        ("counter", "global", 4, 0, None),
        ("text", "const", 3, 0, b"Hi\0"),
        ("table", "const", 8, 8, b"\x01\0\xfe\xff\x03\0\x04\0"),
        ("pointers", "global", 16, 8, None),
        ("half", "const", 4, 16, b"\0\0\0\x3f"),
        ("last", "global", 1, 24, b"\xff"),
        ("next", "global", 1, 25, None),
        ("managed", "global", 4, 28, None),
    ]


def test_several_kernels_functions_and_declarations():
    found = module(
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n.func helper;\n"
        ".weak .func (.reg .f32 y) helper (.reg .f32 x, .reg .pred p)\n.noreturn\n{ ret; }\n"
        ".visible .entry first(.param .u64 .ptr .global .align 16 a, .param .align 64 .b8 map[128], .param .u8 c)\n"
        '.maxntid 384, 1, 1\n.minnctapersm 1\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n.pragma "nounroll";\n'
        "{ ret; }\n"
        '.entry second() { exit; }\n.alias other, helper;\n.pragma "x";\n'
    )
    assert [(one.name, one.is_entry) for one in found.functions] == [
        ("helper", False),
        ("first", True),
        ("second", True),
    ]
    helper, first, _ = found.functions
    assert [(one.name, one.type, one.register) for one in (*helper.parameters, *helper.results)] == [
        ("x", "f32", 0),
        ("p", "pred", 1),
        ("y", "f32", 2),
    ]
    assert first.parameters == (Parameter("a", 0, 8, 16), Parameter("map", 64, 128, 64), Parameter("c", 192, 1, 1))
    assert (first.size, first.shape(".maxntid"), first.shape(".reqnctapercluster")) == (193, (384, 1, 1), (2, 1, 1))
    assert first.attributes[".explicitcluster"] == () and first.shape(".reqntid") is None
    assert [one.name for one in found.entries] == ["first", "second"]


def test_places_lead_to_the_source_through_what_was_inlined():
    """.file may stand at the end, as nvcc writes it."""
    (entry,) = module(
        ".entry k() { .loc 1 10 1\nbar.sync 0;\n.loc 2 7 3, function_name $L1, inlined_at 1 10 1\nbar.sync 1;\n"
        ".loc 2 8 3, function_name $L1, inlined_at 3 99 1\nbar.sync 2; bar.sync 3;\n.loc x y z\nbar.sync 4;\n}\n"
        '.file 1 "kernel.cu"\n.file 2 "barrier.h", 1234, 77\n.file 3 "with space.h"\n.section .debug_str { $L1: .b8 0 }'
    ).entries
    places = [one.place for one in entry.code]
    outer = Place("kernel.cu", 10)
    assert places[:2] == [outer, Place("barrier.h", 7, outer)]
    assert places[2] == places[3] == places[4] == Place("barrier.h", 8, Place("with space.h", 99))
    assert places[1].chain == (places[1], outer)


def test_what_a_section_holds_is_passed_but_its_lines_count():
    text = (
        "\t.section\t.debug_str\n\t{\n$L1:\n.b8 95,90 // a } in a comment\n/* and } here */ .b8 7/2\n.b32 $L1+4\n\t}\n"
    )
    found = module(text + ".entry k()\n{\nret;\n}\n")
    assert found.entries[0].code[0].line == 13
    with pytest.raises(SpecError, match=r"^x\.ptx:4: the text ends here"):
        module("\t.section .debug_str { .b8 1, 2")


def test_version_and_target():
    found = parse(".version 8.3 .target sm_90a, debug .address_size 64 .entry k() { ret; }", "x.ptx")
    assert (found.version, found.target, found.path) == ("8.3", "sm_90a", "x.ptx")


# ---------------------------------------------------------------- broken text


@pytest.mark.parametrize(
    ("body", "line", "why"),
    [
        ("\nadd.u32 %r1 %r2;", 8, "'%r2' where ',' should stand"),
        ("add.u32 %r1, %r2\nexit;", 8, "'exit' where ',' should stand"),
        ("add.u32 %r1, %r9, 1;", 7, "no register %r9 in this scope"),
        ("add.u32 %r1, %tid.q, 1;", 7, "no register %tid.q in this scope"),
        ("@%r1 bra X;", 7, "a guard that is no predicate register"),
        ("@%p9 bra X;", 7, "a guard that is no predicate register"),
        ("@%p1 bra X;", 7, "no label X in this scope"),
        ("{ X: } bra X;", 7, "no label X in this scope"),
        ("bra %r1;", 7, "bra to no label"),
        ("bra;", 7, "bra to no label"),
        ("X: brx.idx %r1, X;", 7, "brx.idx: X is no table: use .branchtargets"),
        ("X: .branchtargets Y; bra X;", 7, "bra: X is a table"),
        ("X: .branchtargets Y; brx.idx %r1, X;", 7, "no label Y in this scope"),
        ("X: Y:\nX: exit;", 8, "two labels X in one scope"),
        (".reg .b32 a;\n.reg .b64 a;", 8, "two declarations of a in one scope"),
        (".shared .b32 a;\n.shared .b64 a;", 8, "two declarations of a in one scope"),
        (".reg .b32 a<400000>;", 7, "400000 registers a"),
        (".reg .b32 a<100000>; { .reg .b32 a<100000>; }", 7, "more than 131072 registers"),
        (".reg .b33 a;", 7, ".reg .b33 is not known"),
        (".shared .b33 a;", 7, ".b33 in a declaration is not known"),
        (".shared .align 3 .b32 a;", 7, ".align 3: use a power of two"),
        (".shared .align 4 a;", 7, "a declaration without a type"),
        (".shared .b32 a[-1];", 7, "a has -1 elements"),
        (".shared .b32 a[99999][99999][99999];", 7, "a has 9999800001 elements"),
        ("mov.u32 %r1, \"x\";", 7, "'\"x\"' where an operand should stand"),
        ("mov.u32 %r1, 1.5;", 7, "1.5 is no number of the type of the instruction"),
        ("mov.f32 %r1, 1e99;", 7, "1e99 is no number of the type of the instruction"),
        ("mov.u32 %r1, 099;", 7, "099 is no number of the type of the instruction"),
        ("ld.shared.b32 %r1, [%r2+x];", 7, "'x' where a number should stand"),
        ("ld.shared.b32 %r1, [%r2;", 7, "';' where ']' should stand"),
        ("mov.b64 {%r1, %r2, %d1;", 7, "';' where ',' should stand"),
        ("mov.u32 %r1, " + "-" * 20 + "1;", 7, "an operand within more than 8 others"),
        ("{" * 120, 7, "braces within more than 100 others"),
        (".foo bar;", 7, "'.foo' where an instruction should begin"),
        ("%r1, %r2;", 7, "'%r1' where an instruction should begin"),
        ("5;", 7, "'5' where a name should stand"),
        ("add.u32 %r1, %r2, #3;", 7, "'#3;' is no PTX: give the text that the compiler writes"),
        ("exit; /* not closed", 7, "'/* not closed' is no PTX: give the text that the compiler writes"),
    ],
)  # fmt: skip
def test_broken_instructions_and_declarations(body, line, why):
    with pytest.raises(SpecError) as error:
        code(body)
    assert str(error.value) == f"x.ptx:{line}: {why}"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "no .version and .target: PTX begins with both, is this the text of a .ptx file?"),
        ("\x7fELF", 1, "'\\x7fELF' is no PTX: give the text that the compiler writes"),
        ("__global__ void k() {}", 1, "'__global__' where a function or a variable should begin"),
        (HEAD + "entry k() {}", 4, "'entry' where a function or a variable should begin"),
        (HEAD + ".entry k() {\nret;", 5, "the text ends here in the middle of something: is the file complete?"),
        (HEAD + ".entry k(.u32 x) { ret; }", 4, "'.u32' where a parameter should stand"),
        (HEAD + ".entry k(.param .u32 x, .reg .q y) { ret; }", 4, ".reg .q is not known"),
        (HEAD + ".entry k() maxntid { ret; }", 4, "'maxntid' where the body of a function should begin"),
        (HEAD + ".entry k() .maxntid x { ret; }", 4, "'x' where a number should stand"),
        (HEAD + ".entry k() { ret; }\n.entry\nk()\n{ ret; }", 5, "two functions are called k"),
        (HEAD + ".func f (.reg .b32 x, .reg .b32 x) { ret; }", 4, "two declarations of x in one scope"),
        (HEAD + ".global .u32 x = ", 4, "the text ends here in the middle of something: is the file complete?"),
        (HEAD + ".global", 4, "a declaration without a type"),
        (".version", 1, "the text ends here in the middle of something: is the file complete?"),
    ],
)  # fmt: skip
def test_broken_files(text, line, why):
    with pytest.raises(SpecError) as error:
        parse(text, "x.ptx")
    assert str(error.value) == f"x.ptx:{line}: {why}"


def test_long_files_are_read_fast():
    """Time that grows with the length of the text, whatever is wrong with it."""
    lines = "\tadd.s32 \t%r1, %r2, 3;\n" * 4_000
    debug = "\t.section .debug_str {\n" + ".b8 1,2,3,4,5,6,7,8\n" * 20_000 + "}\n"
    start = time.perf_counter()
    assert len(function(".reg .b32 %r<4>;\n" + lines, debug).code) == 4_000
    for broken in ("/* " * 50_000, '"' * 50_000, "{" * 50_000, "[" * 50_000, "-" * 50_000, ".section { /* " * 20_000):
        with pytest.raises(SpecError):
            function(broken)
    assert time.perf_counter() - start < 5
