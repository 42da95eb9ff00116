"""PTX that is broken at random: it is read, or refused in one sentence with its line, and never takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_text import REGISTERS, wait

from sm90_verify.frontends.ptx.execute import ClusterRun, code_of
from sm90_verify.frontends.ptx.inline import inlined
from sm90_verify.frontends.ptx.launch import Bytes, Launch
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.spec.errors import SpecError

HEAD = ".version 8.0\n.target sm_90a, debug\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
SEEDS = (
    HEAD
    + """.const .align 4 .s32 table[2][2] = {{1, -2}, {3, 4}};
.global .f32 half = 0f3F000000, other;
.func (.param .b32 y) twice (.param .b32 x, .reg .pred p)
{
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	@p shl.b32 %r1, %r1, 1;
	st.param.b32 [y+0], %r1;
	ret;
}
.visible .entry k(.param .u64 .ptr .global .align 8 out, .param .align 64 .b8 map[128]) .maxntid 128, 1, 1
{"""
    + REGISTERS
    + """
	.shared .align 8 .b64 bars[4];
	.loc 1 10 3
	mov.u32 %r0, %tid.x;
	setp.lt.and.s32 %p1|%p2, %r0, -5, !%p0;
	{ .param .b32 param0; st.param.b32 [param0], %r0; .param .b32 ret0;
	call.uni (ret0), twice, (param0, %p1); ld.param.b32 %r1, [ret0+0]; }
	.loc 2 7 3, function_name $L1, inlined_at 1 10 3
	@!%p2 bra $DONE;
T: .branchtargets $A, $DONE;
	brx.idx %r1, T;
$A: { .reg .b64 %r0; mov.b64 %r0, {%r1, %r2}; mov.b64 {_, %r3}, %r0; }
	ld.shared::cta.v2.b32 {%r4, %r5}, [%r1+-8];
	lop3.b32 %r6, %r4, %r5, 0x0F, 0x96;
	call f, (%r1), prototype;
$DONE: ret;
}
.file 1 "k.cu"
.section .debug_str { $L1: .b8 95, 90 }
""",
    HEAD
    + ".visible .entry k(.param .u64 out) {"
    + REGISTERS
    + f"""
	mov.u32 %r1, smem;
	mbarrier.init.shared::cta.b64 [%r1], 32;
	fence.mbarrier_init.release.cluster;
	bar.sync 0, 64;
	elect.sync %r2|%p1, -1;
	@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+1024], [%d0, {{%r2, 64}}], [%r1];
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+1024], [%d0], 64, [%r1];
	{wait("%r1", 0)}
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d2, 1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	shfl.sync.idx.b32 %r3|%p3, %r2, 0, 31, -1;
	vote.sync.ballot.b32 %r4, %p3, -1;
	redux.sync.add.s32 %r4, %r3, -1;
	ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r5, %r6}}, [%r1];
	atom.shared.add.u32 %r7, [%r1+4], 1;
	st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r2, [%r1];
	cvta.to.global.u64 %d3, %d0;
	mapa.shared::cluster.u32 %r8, %r1, 1;
	isspacep.shared %p4, %d3;
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	cp.async.cg.shared.global [%r1], [%d0], 16;
	cp.async.wait_group 0;
	setmaxnreg.dec.sync.aligned.u32 40;
	st.global.f32 [%d0], %f0;
	exit;
}}
""",
)
"""Small files with most constructs."""
TOKEN = re.compile(r'"[^"]*"|[A-Za-z_.%$0-9][\w.$%:]*|//[^\n]*|/\*|\*/|\s+|.', re.DOTALL)
WORDS = sorted({word for seed in SEEDS for word in TOKEN.findall(seed)})
ODD = [
    "\0",
    "é",
    "0x",
    "1e999",
    "99999999999999999999",
    "%r99",
    "'",
    "\\",
    "/*",
    '"',
    ".align",
    "-",
    "{",
    "}",
    "[",
    "]",
    "(",
]


def broken(seed: str, changes: list[tuple[str, int, str]]) -> str:
    """The text with tokens dropped, repeated, exchanged, replaced, or cut off."""
    tokens = TOKEN.findall(seed)
    for how, where, word in changes:
        if not tokens:
            break
        at = where % len(tokens)
        match how:
            case "drop":
                del tokens[at]
            case "repeat":
                tokens.insert(at, tokens[at])
            case "exchange":
                other = where // 7 % len(tokens)
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case "replace":
                tokens[at] = word
            case _:
                del tokens[at + (where % 3 > 0) * len(tokens) // 2 :]
    return "".join(tokens)


def taken(text: str, *, execute: bool = False) -> None:
    """All that is done before a kernel is executed, or the first steps of that too."""
    module = parse(text, "k.ptx")
    given = Launch("launch", "k", (1, 1, 1), (32, 1, 1), (1, 1, 1), 65_536, Bytes(0, b"", b""))
    for entry in module.entries:
        code, addresses = code_of(module, inlined(module, entry), given)
        if execute:
            ClusterRun(code, addresses, given, ((0, 0, 0),), too_long).run()


def too_long(*_: object) -> None:
    """Is called after some hundred blocks."""
    raise SpecError("k.ptx: a loop without end")


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["drop", "repeat", "exchange", "replace", "replace", "cut"]),
        st.integers(0, 10_000),
        st.sampled_from(WORDS) | st.sampled_from(ODD),
    ),
    min_size=1,
    max_size=4,
)


def test_the_seeds_are_taken():
    for seed in SEEDS:
        taken(seed)


def refused_at_most(text: str, *, execute: bool = False) -> None:
    """The text is taken, or refused in one line, within five seconds."""
    start = time.process_time()
    try:
        taken(text, execute=execute)
    except SpecError as error:
        assert re.fullmatch(r"\S.*", str(error))
    assert time.process_time() - start < 5


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(SEEDS), CHANGES)
def test_text_that_is_changed_is_taken_or_refused(seed, changes):
    refused_at_most(broken(seed, changes))


OPERANDS = [
    *("%r1", "%d1", "%p1", "%h1", "%f1", "5", "-1", "_", "smem", "%tid.x", "%clock", "!%p1", "%r1|%p2"),
    *("[%r2]", "[%d1]", "[smem+4]", "{%r1,%r2}", "{}", "{%f1}", "[%d1, {%r1}]"),
]
INSTRUCTION = re.compile(r"\t(@!?\S+ )?([a-z][\w.:]*) ?([^;]*);$")
MODIFIERS = [
    *("b8", "b32", "s64", "b128", "f32", "f16x2", "pred", "sync", "aligned", "shared", "global", "v2"),
    *("cc", "sat", "wide", "lo", "lt", "and"),
]


def altered(seed: str, changes: list[tuple[str, int, int, str, str]]) -> str:
    """The text with instructions that have other operands or other modifiers."""
    lines = seed.split("\n")
    at = [number for number, line in enumerate(lines) if INSTRUCTION.match(line)]
    for how, which, where, operand, modifier in changes:
        number = at[which % len(at)]
        guard, name, rest = INSTRUCTION.match(lines[number]).groups()
        words, operands = name.split("."), re.split(r",\s*(?![^{\[]*[}\]])", rest) if rest else []
        place = where % (len(operands) + 1)
        match how:
            case "none":
                operands = []
            case "less":
                del operands[place : place + 1]
            case "more":
                operands.insert(place, operand)
            case "other":
                operands[place : place + 1] = [operand]
            case "word":
                words[1 + where % len(words) : 2 + where % len(words)] = [modifier]
            case _:
                del words[1 + where % len(words) : 2 + where % len(words)]
        lines[number] = f"\t{guard or ''}{'.'.join(words)} {', '.join(operands)};"
    return "\n".join(lines)


ALTERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["none", "less", "more", "other", "other", "word", "wordless"]),
        st.integers(0, 1000),
        st.integers(0, 12),
        st.sampled_from(OPERANDS),
        st.sampled_from(MODIFIERS),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(SEEDS), ALTERATIONS)
def test_instructions_with_other_operands_are_executed_or_refused(seed, changes):
    refused_at_most(altered(seed, changes), execute=True)


MARKS = [*"{}[]();:,@!%.$_-+|<>=\"'/\\*\n\t 01", "add", "%r1", ".reg", ".b32"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(MARKS), max_size=100).map("".join))
def test_any_text_is_taken_or_refused(text):
    with pytest.raises(SpecError):
        taken(text)
    refused_at_most(HEAD + ".entry k() {" + text + "}")
