"""Forms of the collectives of a warp (PTX ISA 9.7.9.6 and 9.7.13): by all lanes, by halves, and by lanes that operands
choose. And special registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.evidence.hardware.arithmetic.forms import form
from sm90_verify.evidence.hardware.arithmetic.snippets import Snippet

ALL, LOW, EVEN = "0xffffffff", "0x0000ffff", "0x55555555"
CHOSEN = "m"
"""The name of a register with the lanes that an operand chooses."""
SEGMENTS = ("0x1f", "0x101f", "0x181f", "0x1c1f", "0x1e1f")
"""The last operand but one of shfl.sync, for parts of 32, 16, 8, 4 and 2 lanes."""


def within(lanes: str, instruction: str, given: str, kept: str) -> Snippet:
    """An instruction that only these lanes execute. Results that are kept by the others are operands before."""
    if lanes == ALL:
        return form(instruction, given, kept)
    outside = {
        LOW: "setp.gt.u32 out_of_it, l, 15;",
        EVEN: "and.b32 l, l, 1;\nsetp.ne.u32 out_of_it, l, 0;",
        CHOSEN: "not.pred out_of_it, p;\nvote.sync.ballot.b32 m, p, 0xffffffff;",
    }[lanes]
    results = dict(zip("xyz", kept.split(), strict=False))
    given = f"{given} votes" if lanes == CHOSEN else given
    before = "".join(
        f"\n.reg .{kind} {name};\n" + (f"setp.ne.b32 {name}, 0, 0;" if kind == "pred" else f"mov.{kind} {name}, 7;")
        for name, kind in results.items()
    )
    text = f".reg .b32 l, m;\n.reg .pred out_of_it;{before}\nmov.u32 l, %laneid;\n{outside}\n"
    return form(f"{text}@out_of_it bra OVER;\n{instruction}\nOVER:", given, kept)


def shuffles() -> Iterator[Snippet]:
    """shfl.sync: lanes read from lanes that take part."""
    for mode in ("up", "down", "bfly", "idx"):
        for segment in SEGMENTS:
            clamp = segment if mode != "up" else f"{int(segment, 0) & ~0x1F:#x}"
            yield form(f"shfl.sync.{mode}.b32 x|y, a, b, {clamp}, {ALL};", "b32 lane", "b32 pred")
            yield form(f"shfl.sync.{mode}.b32 x, a, {len(segment) + 3}, {clamp}, {ALL};", "b32", "b32")
        yield form(f"shfl.sync.{mode}.b32 x|y, a, b, c, {ALL};", "b32 amount amount", "b32 pred")
        clamp = "0x101f" if mode != "up" else "0x1000"
        yield within(LOW, f"shfl.sync.{mode}.b32 x|y, a, b, {clamp}, {LOW};", "b32 lane", "b32 pred")
    for step in (2, 4, 8, 16):
        yield within(EVEN, f"shfl.sync.bfly.b32 x|y, a, {step}, 0x1f, {EVEN};", "b32", "b32 pred")
    first = ".reg .b32 f;\nbfind.u32 f, m;\n"
    yield within(CHOSEN, f"{first}shfl.sync.idx.b32 x|y, a, f, 0x1f, m;", "b32", "b32 pred")


def votes() -> Iterator[Snippet]:
    """vote.sync"""
    for lanes in (ALL, LOW, EVEN, CHOSEN):
        for mode in ("all", "any", "uni"):
            for sign in ("", "!"):
                test = f".reg .pred v;\nsetp.ne.b32 v, a, b;\nvote.sync.{mode}.pred x, {sign}v, {lanes};"
                yield within(lanes, test, "few32 few32", "pred")
        yield within(
            lanes, f".reg .pred v;\nsetp.lt.s32 v, a, b;\nvote.sync.ballot.b32 x, v, {lanes};", "few32 few32", "b32"
        )


def matches() -> Iterator[Snippet]:
    """match.sync"""
    for lanes in (ALL, LOW, EVEN, CHOSEN):
        for wide in (32, 64):
            yield within(lanes, f"match.any.sync.b{wide} x, a, {lanes};", f"few{wide}", "b32")
            yield within(lanes, f"match.all.sync.b{wide} x|y, a, {lanes};", f"few{wide}", "b32 pred")
            yield within(lanes, f"match.all.sync.b{wide} x, a, {lanes};", f"few{wide}", "b32")


def reductions() -> Iterator[Snippet]:
    """redux.sync"""
    for lanes in (ALL, LOW, EVEN, CHOSEN):
        for how in ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"):
            yield within(lanes, f"redux.sync.{how} x, a, {lanes};", "b32", "b32")


def meetings() -> Iterator[Snippet]:
    """activemask where lanes have met, and elect.sync."""
    for lanes in (ALL, LOW, EVEN, CHOSEN):
        yield within(lanes, f"bar.warp.sync {lanes};\nactivemask.b32 x;", "", "b32")
        yield within(lanes, f"elect.sync x|y, {lanes};", "", "b32 pred")


def specials() -> Iterator[Snippet]:
    """10: special registers."""
    for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"):
        for axis in "xyz":
            yield form(f"mov.u32 x, %{name}.{axis};", "", "b32")
    for mask in ("eq", "le", "lt", "ge", "gt"):
        yield form(f"mov.u32 x, %lanemask_{mask};\nshr.s32 y, x, 3;", "", "b32 b32")
    for name in ("laneid", "cluster_ctarank", "cluster_nctarank", "dynamic_smem_size"):
        yield form(f"mov.u32 x, %{name};\ncvt.s64.s32 y, x;", "", "b32 b64")
    yield form("mov.pred x, %is_explicit_cluster;", "", "pred")


def collectives() -> list[Snippet]:
    """Of warps of which all lanes are there, and what tells their lanes apart."""
    return [*shuffles(), *votes(), *matches(), *reductions(), *meetings(), *specials()]
