"""The forms of instructions that compute, by chapter of the PTX ISA: one snippet for each.

Operands are called a, b, c and p, results x, y and z.
"""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.evidence.hardware.arithmetic.snippets import THREADS, Snippet

WORDS, SIGNED, UNSIGNED = (16, 32, 64), ("s16", "s32", "s64"), ("u16", "u32", "u64")
TYPES = (*UNSIGNED, *SIGNED)
INTEGER_SIGNS = {"u": ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"), "b": ("eq", "ne")}
FLOAT_SIGNS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
FLOATS = {"f32": ("", ".ftz"), "f64": ("",), "f16": ("", ".ftz"), "bf16": ("",)}
"""With their modifiers."""
NAMES = "abce"


def form(text: str, given: str, kept: str) -> Snippet:
    """text: instructions. given: the kinds of a, b, c and e, and of p if it is pred or votes; kept: of x, y and z."""
    names = iter(NAMES)
    lines = [f"given {kind} {'p' if kind in ('pred', 'votes') else next(names)}" for kind in given.split()]
    results = [f"keep {kind} {name}" for kind, name in zip(kept.split(), "xyz", strict=False)]
    return Snippet("\n".join([*lines, *text.split("\n"), *results]))


def bits(kind: str) -> str:
    """The untyped register of a type."""
    return f"b{32 if kind.endswith('x2') else int(kind.lstrip('busf'))}"


def uniform(name: str, kinds: tuple[str, ...], count: int) -> Iterator[Snippet]:
    """Forms of which all operands and the result have the type of the instruction."""
    names = ", ".join(NAMES[:count])
    for kind in kinds:
        yield form(f"{name}.{kind} x, {names};", " ".join([bits(kind)] * count), bits(kind))


def integers() -> Iterator[Snippet]:
    """9.7.1: integer arithmetic."""
    halves = ("u16x2", "s16x2")
    for name in ("add", "sub"):
        yield from uniform(name, (*TYPES, "u16x2", "s16x2") if name == "add" else TYPES, 2)
        yield from uniform(f"{name}.sat", ("s32",), 2)
    for name in ("min", "max"):
        yield from uniform(name, (*TYPES, *halves), 2)
        yield from uniform(f"{name}.relu", ("s32", "s16x2"), 2)
    for part in ("lo", "hi"):
        yield from uniform(f"mul.{part}", TYPES, 2)
        yield from uniform(f"mad.{part}", TYPES, 3)
        yield from uniform(f"mul24.{part}", ("u32", "s32"), 2)
        yield from uniform(f"mad24.{part}", ("u32", "s32"), 3)
    yield from uniform("mad.hi.sat", ("s32",), 3)
    yield from uniform("mad24.hi.sat", ("s32",), 3)
    for kind in ("u16", "s16", "u32", "s32"):
        one, wide = bits(kind), f"b{2 * int(kind[1:])}"
        yield form(f"mul.wide.{kind} x, a, b;", f"{one} {one}", wide)
        yield form(f"mad.wide.{kind} x, a, b, c;", f"{one} {one} {wide}", wide)
    yield from uniform("sad", TYPES, 3)
    for name in ("div", "rem"):
        yield from uniform(name, TYPES, 2)
    for name in ("abs", "neg"):
        yield from uniform(name, SIGNED, 1)
    for wide in ("b32", "b64"):
        yield form(f"popc.{wide} x, a;", wide, "b32")
        yield form(f"clz.{wide} x, a;", wide, "b32")
        yield form(f"brev.{wide} x, a;", wide, wide)
        yield form(f"bfi.{wide} x, a, b, c, e;", f"{wide} {wide} amount amount", wide)
    for kind in ("u32", "s32", "u64", "s64"):
        for shifted in ("", ".shiftamt"):
            yield form(f"bfind{shifted}.{kind} x, a;", bits(kind), "b32")
        yield form(f"bfe.{kind} x, a, b, c;", f"{bits(kind)} amount amount", bits(kind))
    yield form("fns.b32 x, a, b, c;", "b32 lane lane", "b32")
    yield form(".reg .b32 y;\nneg.s32 y, c;\nfns.b32 x, a, b, y;", "b32 lane lane", "b32")
    yield form("fns.b32 x, a, b, 0;", "b32 lane", "b32")
    for mode in ("clamp", "wrap"):
        yield form(f"szext.{mode}.u32 x, a, b;", "b32 amount", "b32")
        yield form(f"szext.{mode}.s32 x, a, b;", "b32 amount", "b32")
        yield form(f"bmsk.{mode}.b32 x, a, b;", "amount amount", "b32")
    for first in ("u32", "s32"):
        for second in ("u32", "s32"):
            yield form(f"dp4a.{first}.{second} x, a, b, c;", "b32 b32 b32", "b32")
            for half in ("lo", "hi"):
                yield form(f"dp2a.{half}.{first}.{second} x, a, b, c;", "b32 b32 b32", "b32")


def carries() -> Iterator[Snippet]:
    """9.7.2: chains with the carry flag."""
    for kind in ("u32", "s32", "u64", "s64"):
        wide = bits(kind)
        two, three = f"{wide} {wide}", f"{wide} {wide} {wide}"
        for name in ("add", "sub"):
            yield form(
                f"{name}.cc.{kind} x, a, b;\n{name}c.cc.{kind} y, a, c;\n{name}c.{kind} z, b, c;",
                three,
                f"{wide} {wide} {wide}",
            )
            yield form(f"{name}.cc.{kind} x, a, b;\n{name}c.{kind} y, 0, 0;", two, f"{wide} {wide}")
        for part in ("lo", "hi"):
            chain = (
                f"mad.{part}.cc.{kind} x, a, b, c;\nmadc.{part}.cc.{kind} y, a, c, b;\nmadc.{part}.{kind} z, c, c, a;"
            )
            yield form(chain, three, f"{wide} {wide} {wide}")
        product = f"mad.lo.cc.{kind} x, a, b, c;\nmadc.hi.cc.{kind} y, a, b, c;\naddc.{kind} z, a, 0;"
        yield form(product, three, f"{wide} {wide} {wide}")


def comparisons() -> Iterator[Snippet]:
    """9.7.6: set, setp, selp and slct; 9.7.3.2: testp."""
    for sign in "bus":
        for width in WORDS:
            wide = f"b{width}"
            for how in INTEGER_SIGNS.get(sign, INTEGER_SIGNS["u"][:6]):
                yield form(f"setp.{how}.{sign}{width} x|y, a, b;", f"{wide} {wide}", "pred pred")
            for into in ("u32", "s32", "f32"):
                how = ("eq", "ne", "lt", "le", "gt", "ge")[(width // 16 + len(into)) % (2 if sign == "b" else 6)]
                yield form(f"set.{how}.{into}.{sign}{width} x, a, b;", f"{wide} {wide}", "b32")
    for kind, ways in FLOATS.items():
        register = f"b{kind[-2:]}"
        for ftz in ways:
            for how in FLOAT_SIGNS:
                yield form(f"setp.{how}{ftz}.{kind} x, a, b;", f"{kind} {kind}", "pred")
            if kind in ("f32", "f64"):
                for how in ("lt", "neu", "nan"):
                    yield form(f"set.{how}{ftz}.u32.{kind} x, a, b;", f"{kind} {kind}", "b32")
                    yield form(f"set.{how}{ftz}.f32.{kind} x, a, b;", f"{kind} {kind}", "b32")
        yield form(f"selp.{'b16' if register == 'b16' else kind} x, a, b, p;", f"{kind} {kind} pred", register)
    for combined in ("and", "or", "xor"):
        yield form(f"setp.lt.{combined}.s32 x|y, a, b, p;", "b32 b32 pred", "pred pred")
        yield form(f"setp.hi.{combined}.u64 x|y, a, b, !p;", "b64 b64 pred", "pred pred")
        yield form(f"setp.geu.{combined}.ftz.f32 x|y, a, b, p;", "f32 f32 pred", "pred pred")
        yield form(f"set.gt.{combined}.u32.s64 x, a, b, p;", "b64 b64 pred", "b32")
    for kind in ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64"):
        yield form(f"selp.{kind} x, a, b, p;", f"{bits(kind)} {bits(kind)} pred", bits(kind))
        yield form(f"slct.{kind}.s32 x, a, b, c;", f"{bits(kind)} {bits(kind)} b32", bits(kind))
    for kind in ("b16", "b32", "f32", "u64", "f64"):
        for ftz in ("", ".ftz"):
            yield form(f"slct{ftz}.{kind}.f32 x, a, b, c;", f"{bits(kind)} {bits(kind)} f32", bits(kind))
    for kind in ("f32", "f64"):
        for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield form(f"testp.{what}.{kind} x, a;", kind, "pred")


def logic() -> Iterator[Snippet]:
    """9.7.8: logic and shifts."""
    for name in ("and", "or", "xor"):
        yield from uniform(name, ("b16", "b32", "b64"), 2)
        yield form(f".reg .pred y;\nsetp.lt.s32 y, a, 0;\n{name}.pred x, p, y;", "b32 pred", "pred")
    yield form("not.pred x, p;", "pred", "pred")
    for name in ("not", "cnot"):
        yield from uniform(name, ("b16", "b32", "b64"), 1)
    for table in (0, 0xFF, 0x96, 0xE8, 0x80, 0xFE, 0xCA, 0x1B, 0xF8, 0x3C):
        yield form(f"lop3.b32 x, a, b, c, {table};", "b32 b32 b32", "b32")
    for combined in ("and", "or"):
        yield form(f"lop3.{combined}.b32 x|y, a, b, c, 0x80, p;", "b32 b32 b32 pred", "b32 pred")
        yield form(f"lop3.{combined}.b32 x|y, a, b, c, 0x96, !p;", "b32 b32 b32 pred", "b32 pred")
    for side in "lr":
        for mode in ("clamp", "wrap"):
            yield form(f"shf.{side}.{mode}.b32 x, a, b, c;", "b32 b32 amount", "b32")
    for width in WORDS:
        wide = f"b{width}"
        yield form(f"shl.{wide} x, a, b;", f"{wide} amount", wide)
        for sign in "bus":
            yield form(f"shr.{sign}{width} x, a, b;", f"{wide} amount", wide)


def moves() -> Iterator[Snippet]:
    """9.7.9: mov, prmt, cvt between integers, cvt.pack."""
    for kind in ("b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64"):
        yield form(f"mov.{kind} x, a;", bits(kind), bits(kind))
    yield form("mov.pred x, p;", "pred", "pred")
    for whole, part in ((32, 16), (64, 32), (64, 16), (32, 8), (16, 8)):
        names = [f"v{number}" for number in range(whole // part)]
        declared = "".join(f"\n.reg .b{part} {name};" for name in names)
        parts = "{" + ", ".join(names) + "}"
        turned = "{" + ", ".join(reversed(names)) + "}"
        yield form(f"{declared[1:]}\nmov.b{whole} {parts}, a;\nmov.b{whole} x, {turned};", f"b{whole}", f"b{whole}")
    yield form(".reg .b128 v;\nmov.b128 v, {a, b};\nmov.b128 {x, y}, v;", "b64 b64", "b64 b64")
    yield form("mov.b64 {x, _}, a;\nmov.b64 {_, y}, a;", "b64", "b32 b32")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield form(f"prmt.b32{mode} x, a, b, c;", "b32 b32 b32", "b32")
    for into in (f"{sign}{width}" for sign in "us" for width in (8, 16, 32, 64)):
        for kind in (f"{sign}{width}" for sign in "us" for width in (8, 16, 32, 64)):
            for source in sorted({max(16, int(kind[1:])), max(32, int(kind[1:]))}):
                for target in sorted({max(16, int(into[1:])), max(32, int(into[1:])), 64}):
                    yield form(f"cvt.{into}.{kind} x, a;", f"b{source}", f"b{target}")
            if not _holds(into, kind):
                yield form(f"cvt.sat.{into}.{kind} x, a;", f"b{max(16, int(kind[1:]))}", f"b{max(16, int(into[1:]))}")
    for into in ("s16", "u16"):
        yield form(f"cvt.pack.sat.{into}.s32 x, a, b;", "b32 b32", "b32")
    for into in ("s8", "u8", "s4", "u4", "s2", "u2"):
        yield form(f"cvt.pack.sat.{into}.s32.b32 x, a, b, c;", "b32 b32 b32", "b32")


def _holds(into: str, kind: str) -> bool:
    """All numbers of a type are numbers of the other."""
    wide, narrow = int(into[1:]), int(kind[1:])
    return (wide >= narrow and into[0] == kind[0]) or (wide > narrow and into[0] == "s")


def loads() -> Iterator[Snippet]:
    """9.7.9.8: ld of what a parameter holds, and of what was stored in local and in shared memory."""
    placed = ".reg .b32 at;\nmov.b32 at, box;\nmad.lo.u32 at, lane, 8, at;"
    for kind in (f"{sign}{width}" for sign in "bus" for width in (8, 16, 32, 64)):
        width = int(kind[1:])
        offset = width // 8 * (64 // width - 1) // 2 // (width // 8) * (width // 8)
        for target in (wide for wide in (16, 32, 64) if wide >= width):
            yield form(f"ld.param.{kind} x, [first+{offset}];", "", f"b{target}")
            yield form(
                f".local .b64 box;\nst.local.b64 [box], a;\nld.local.{kind} x, [box+{offset}];", "b64", f"b{target}"
            )
            if kind[0] == "s":
                stored = f".shared .align 8 .b8 box[{THREADS * 8}];\n{placed}\nst.shared.b64 [at], a;"
                yield form(f"{stored}\nld.shared.{kind} x, [at+{offset}];", "b64", f"b{target}")
                yield form(
                    f"{stored}\nst.shared.{kind} [at+{offset}], b;\nld.shared.b64 x, [at];", f"b64 b{target}", "b64"
                )
        if width < 64:
            both = " ".join([f"b{max(32, width)}"] * 2)
            yield form(f"ld.param.v2.{kind} {{x, y}}, [second];", "", both)
            yield form(
                f".local .b64 box;\nst.local.b64 [box], a;\nld.local.v2.{kind} {{x, y}}, [box];",
                "b64",
                both,
            )
    for kind in ("u16", "s8"):
        yield form(f".reg .b16 u;\nld.param.v4.{kind} {{x, y, u, z}}, [first];", "", "b16 b16 b16")


def addresses() -> Iterator[Snippet]:
    """9.7.9.19 to 9.7.9.23: cvta, isspacep and mapa, and accesses by generic addresses."""
    declared = {
        "shared": f".shared .align 8 .b8 box[{THREADS * 8}];\n.reg .b32 own;\nmad.lo.u32 own, lane, 8, 0;\n",
        "local": ".local .b64 box;\n.reg .b32 own;\nmov.u32 own, 0;\n",
    }
    for space, text in declared.items():
        text += ".reg .b64 at, g, more;\nmov.u64 at, box;\ncvt.u64.u32 more, own;\nadd.u64 at, at, more;\n"
        text += f"cvta.{space}.u64 g, at;\n"
        yield form(f"{text}isspacep.shared x, g;\nisspacep.local y, g;\nisspacep.global z, g;", "", "pred pred pred")
        yield form(f"{text}isspacep.shared::cta x, g;\nisspacep.const y, g;", "", "pred pred")
        yield form(f"{text}cvta.to.{space}.u64 g, g;\nsub.u64 x, g, at;", "", "b64")
        for kind, wide in (("s8", "b32"), ("s16", "b64"), ("u32", "b64")):
            yield form(f"{text}st.b64 [g], a;\nld.{kind} x, [g+4];", "b64", wide)
            yield form(
                f"{text}st.{space}.b64 [at], a;\nst.{kind} [g+4], b;\nld.{space}.b64 x, [at];", f"b64 {wide}", "b64"
            )
    yield form("isspacep.global x, in;\nisspacep.shared y, in;\ncvta.to.global.u64 z, a;", "b64", "pred pred b64")
    near = ".shared .align 8 .b8 box[1024];\n.reg .b32 at, far;\nmov.u32 at, box;\nmad.lo.u32 at, lane, 8, at;\n"
    yield form(
        f"{near}mapa.shared::cluster.u32 far, at, 0;\nst.shared.b64 [at], a;\nld.shared::cluster.s16 x, [far+2];",
        "b64",
        "b32",
    )


def all_forms() -> list[Snippet]:
    """Of one thread."""
    return list(dict.fromkeys([*integers(), *carries(), *comparisons(), *logic(), *moves(), *loads(), *addresses()]))
