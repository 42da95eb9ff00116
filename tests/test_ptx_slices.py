"""What the slice leaves out does not matter: random programs do the same with it and without it."""

from __future__ import annotations

from random import Random

import pytest
from ptx_text import kernel

from sm90_verify.frontends.ptx.events import LaneEvent, LanesAccessed
from sm90_verify.frontends.ptx.execute import ClusterRun, code_of
from sm90_verify.frontends.ptx.inline import inlined
from sm90_verify.frontends.ptx.instruction import Function
from sm90_verify.frontends.ptx.launch import Bytes, Launch
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.slices import Slice, everything, slice_of
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.tick import unheard

PARAMETERS = bytes(range(3, 19))
LAUNCH = Launch("launch", "k", (2, 1, 1), (64, 1, 1), (1, 1, 1), 65_536, Bytes(0, PARAMETERS, b"\1" * 12 + b"\0" * 4))
"""Of the last four bytes of the parameters nothing is known."""
BEGIN = """
	.local .align 8 .b8 own[64];
	.shared .align 8 .b64 bars[8];
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, %laneid;
	mov.u32 %r2, %ctaid.x;
	ld.param.u32 %r3, [first];
	ld.param::entry.s16 %r4, [second];
	mov.u32 %r5, smem;
	mov.u32 %r15, 0;
"""
"""%r5: shared memory; %r6 to %r14: anything; %r15: zero."""
BINARY = [
    "add.u32",
    "sub.u32",
    "xor.b32",
    "and.b32",
    "or.b32",
    "min.s32",
    "max.u32",
    "mul.lo.u32",
    "shl.b32",
    "shr.s32",
]
OTHERS = [
    "mad.lo.s32 {x}, {a}, {b}, {c};",
    "prmt.b32 {x}, {a}, {b}, {c};",
    "lop3.b32 {x}, {a}, {b}, {c}, 0xCA;",
    "selp.b32 {x}, {a}, {b}, {p};",
    "setp.lt.s32 {p}|{q}, {a}, {b};",
    "setp.eq.and.u32 {p}, {a}, {b}, !{q};",
    "not.pred {p}, {q};",
    "mul.wide.u32 %d0, {a}, {b}; mov.b64 {{{x}, {c}}}, %d0;",
    "add.cc.u32 {x}, {a}, {b}; addc.u32 {y}, {a}, 0;",
    "sub.cc.u32 %r20, {a}, {b}; subc.cc.u32 %r20, {c}, {a}; addc.u32 {x}, {b}, {c};",
    "cvt.u16.u32 %h0, {a}; cvt.s32.s16 {x}, %h0;",
    "shfl.sync.bfly.b32 {x}|{p}, {a}, 3, 31, -1;",
    "vote.sync.ballot.b32 {x}, {p}, -1;",
    "redux.sync.add.s32 {x}, {a}, -1;",
    "activemask.b32 {x};",
    "call (%r21), mixed, ({a}, {b}); mov.u32 {x}, %r21;",
    "cvt.rn.f32.s32 %f0, {a}; fma.rn.f32 %f1, %f0, %f0, %f1;",
    "mov.b32 {x}, %f1; mov.u32 {x}, {a};",
    "and.b32 %r27, %r1, 1; setp.eq.u32 %p8, %r27, 7; @%p8 cvt.rzi.s32.f32 {x}, %f1;",
]
"""Of which registers are written, and which are read."""
SHARED = "and.b32 %r16, {a}, 0xFC; add.u32 %r16, %r16, %r5; "
LOCAL = "mov.u64 %d1, own; and.b32 %r17, {a}, 60; cvt.u64.u32 %d2, %r17; add.u64 %d1, %d1, %d2; "
ACCESSES = [
    SHARED + "st.shared.b32 [%r16], {b};",
    SHARED + "ld.shared.b32 {x}, [%r16]; and.b32 {x}, {x}, 255;",
    SHARED + "@{p} st.shared.b32 [%r16+256], {b};",
    SHARED + "ld.shared.u8 %r18, [%r16+257];",
    SHARED + "atom.shared.add.u32 %r18, [%r16], {b};",
    SHARED + "cvta.shared.u64 %d3, %d4; cvt.u64.u32 %d4, %r16; cvta.shared.u64 %d3, %d4; st.b32 [%d3], {b};",
    LOCAL + "st.local.b32 [%d1], {b};",
    LOCAL + "ld.local.b32 {x}, [%d1];",
    "st.local.b32 [own+4], {a};",
    "ld.local.b32 {x}, [own+4];",
    "mov.u32 %r19, bars; and.b32 %r16, {a}, 56; add.u32 %r19, %r19, %r16; mbarrier.init.shared.b64 [%r19], 64;",
    "ld.global.b32 %r18, [%d5]; st.global.b32 [%d5], {a};",
]
FUNCTION = """
.func (.reg .b32 z) mixed (.reg .b32 x, .param .b32 y)
{
	.reg .b32 t;
	.reg .pred p;
	ld.param.u32 t, [y];
	setp.gt.s32 p, x, t;
	@p bra OTHER;
	add.u32 z, x, t;
	ret;
OTHER:
	xor.b32 z, x, 7;
	ret;
}
"""


class Writer:
    """Writes a random kernel."""

    def __init__(self, random: Random, reads: bool) -> None:
        """reads: also from memory, so that values that are stored matter."""
        self.random, self.labels = random, 0
        self.accesses = [one for one in ACCESSES if reads or "ld." not in one]

    def kernel(self) -> str:
        body = "".join(f"\tmov.u32 %r{number}, {self.random.randrange(256)};\n" for number in range(6, 15))
        body += "".join(f"\tsetp.eq.u32 %p{number}, %r{number}, %r6;\n" for number in range(1, 6))
        parts = [self.block(3) for _ in range(4)]
        text = BEGIN + body + "\tbar.sync 0;\n".join(parts)
        return kernel(text, ".param .b64 first, .param .b64 second", FUNCTION)

    def block(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self.random.randrange(2, 7)))

    def statement(self, depth: int) -> str:
        match self.random.randrange(10 if depth else 8):
            case 0 | 1 | 2:
                return self.filled(f"{self.random.choice(BINARY)} {{x}}, {{a}}, {{b}};")
            case 3 | 4 | 5:
                # what lanes do together is only where all of them are
                return self.filled(self.random.choice([one for one in OTHERS if depth == 3 or ".sync" not in one]))
            case 6 | 7:
                return self.filled(self.random.choice(self.accesses))
            case 8:
                label = self.label()
                jump = self.filled(f"setp.lt.u32 {{p}}, {{a}}, {{b}}; @{{p}} bra {label};")
                return f"{jump}{self.block(depth - 1)}{label}:\n"
            case _:
                label, count = self.label(), self.random.choice(["%r2", "%r22", "2"])
                counter = f"%r{22 + depth}"
                return (
                    f"\tand.b32 %r22, %r1, 1;\n\tmov.u32 {counter}, 0;\n{label}:\n{self.block(depth - 1)}"
                    f"\tadd.u32 {counter}, {counter}, 1;\n\tsetp.le.u32 %p9, {counter}, {count};\n\t@%p9 bra {label};\n"
                )

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def filled(self, text: str) -> str:
        """With registers, and sometimes under a guard."""
        random = self.random
        targets = random.sample([f"%r{number}" for number in range(6, 15)], 2)
        sources = random.choices([f"%r{number}" for number in (0, 1, 2, 3, 4, *range(6, 16))] + ["9", "64"], k=3)
        if "ld.local" in text or "shfl" in text or "call" in text or "st." in text or "lop3" in text:
            sources = [one if one.startswith("%") else "%r9" for one in sources]
        p, q = random.sample(["%p1", "%p2", "%p3", "%p4", "%p5"], 2)
        said = text.format(x=targets[0], y=targets[1], a=sources[0], b=sources[1], c=targets[1], p=p, q=q)
        guarded = "; " not in said and ".sync" not in said and "@" not in said and random.random() < 0.2
        return f"\t{f'@!{q} ' if guarded else ''}{said}\n"


def outcome(function: Function, module, sliced: Slice | None) -> list[LaneEvent] | str:
    """What both warps of the second CTA do, or why that is not known."""
    try:
        code, addresses = code_of(module, function, LAUNCH, sliced)
        run = ClusterRun(code, addresses, LAUNCH, ((1, 0, 0),), unheard)
        run.run()
    except SpecError as error:
        return str(error)
    assert not any(warp.fragments for warp in run.cluster.ctas[0].warps)
    return [_without_value(one) for warp in run.cluster.ctas[0].warps for one in warp.events]


def _without_value(one: LaneEvent) -> LaneEvent:
    """What a store writes is only noted where memory is followed."""
    return one._replace(what=one.what._replace(value=None)) if isinstance(one.what, LanesAccessed) else one


@pytest.mark.parametrize("reads", [False, True], ids=["stores", "stores and loads"])
def test_random_kernels_do_the_same_with_the_slice_and_without_it(reads):
    known = left_out = 0
    for seed in range(60):
        module = parse(Writer(Random(seed), reads).kernel(), "k.ptx")
        function = inlined(module, module.entries[0])
        sliced = slice_of(function)
        found = outcome(function, module, sliced)
        assert found == outcome(function, module, everything(function)), seed
        known += not isinstance(found, str)
        left_out += sliced.kept.count(False)
    assert known > 30 and left_out > (200 if reads else 600)


def kept(body: str) -> list[str]:
    """The instructions of a kernel that the slice keeps, without those that begin and end it."""
    module = parse(kernel(body, ".param .u64 out", FUNCTION), "k.ptx")
    function = module.entries[0]
    return [one.name for one, needed in zip(function.code, slice_of(function).kept, strict=True) if needed][:-1]


ADDRESS = "mov.u32 %r0, %tid.x; mad.lo.u32 %r1, %r0, 4, 64; "


def test_a_value_that_is_stored_matters_only_if_it_can_be_read():
    stored = ADDRESS + "mul.lo.u32 %r2, %r0, %r0; st.shared.b32 [%r1], %r2; "
    assert kept(stored) == ["mov.u32", "mad.lo.u32", "st.shared.b32"]
    assert kept(stored + "ld.shared.b32 %r3, [%r1]; bar.sync 0;")[2:] == ["st.shared.b32", "ld.shared.b32", "bar.sync"]
    assert kept(stored + "ld.shared.b32 %r3, [%r1]; bar.sync %r3;")[2] == "mul.lo.u32"


def test_global_memory_does_not_matter_unless_it_is_known():
    copied = "ld.param.u64 %d0, [out]; add.u64 %d1, %d0, 8; ld.global.b32 %r2, [%d1]; "
    assert kept(copied + "st.global.b32 [%d0], %r2;") == ["ld.global.b32", "st.global.b32"]
    assert kept(copied + "bar.sync %r2;") == ["ld.param.u64", "add.u64", "ld.global.b32", "bar.sync"]


def test_what_is_floating_point_ends_the_slice():
    text = "mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %f0, %r0; fma.rn.f32 %f1, %f0, %f0, %f0; "
    assert kept(text + "bar.sync 0;") == ["bar.sync"]
    assert kept(text + "mov.b32 %r1, %f1; bar.sync %r1;") == ["fma.rn.f32", "mov.b32", "bar.sync"]


def test_guards_and_branches_matter():
    text = (
        "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 5; setp.lt.u32 %p1, %r0, 6; mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; "
    )
    assert kept(text + "bar.sync 0;") == ["bar.sync"]
    assert kept(text + "@%p0 bra END; END:") == ["mov.u32", "setp.lt.u32", "bra"]
    assert kept(text + "bar.sync %r1;") == ["mov.u32", "setp.lt.u32", "mov.u32", "mov.u32", "bar.sync"]


def test_the_carry_flag_is_followed():
    text = "mov.u32 %r0, %tid.x; add.cc.u32 %r1, %r0, %r0; addc.cc.u32 %r2, 0, 0; addc.u32 %r3, 1, 1; "
    assert kept(text + "bar.sync %r3;") == ["mov.u32", "add.cc.u32", "addc.cc.u32", "addc.u32", "bar.sync"]
    assert kept(text + "bar.sync 0;") == ["bar.sync"]


def test_what_lanes_give_each_other_matters_if_it_is_used():
    text = "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; "
    assert kept(text) == ["shfl.sync.idx.b32"]
    assert kept(text + "bar.sync %r2;") == ["mov.u32", "shr.u32", "shfl.sync.idx.b32", "bar.sync"]
    text = "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 5; vote.sync.any.pred %p1, %p0, -1; "
    assert kept(text + "@%p1 bra END; END:") == ["mov.u32", "setp.lt.u32", "vote.sync.any.pred", "bra"]
    assert kept("activemask.b32 %r0; " + text) == ["activemask.b32", "vote.sync.any.pred"]
