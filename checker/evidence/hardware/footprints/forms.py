"""The instructions whose footprints are seen on a GPU: a text of PTX for each form, put before kernels/footprints.cu.

A text names its operands: {at} in shared memory, {far} and {far_barrier} in that of the other CTA, {barrier}, {there}
in global memory or a tensor map, coordinates {c0} to {c4}, values {v0} to {v2}, results {r0} to {r3}.
"""

from __future__ import annotations

from collections.abc import Mapping

OPERANDS = ("at", "barrier", "there", "c0", "c1", "c2", "c3", "c4", "v0", "v1", "v2", "far", "far_barrier")
RESULTS = 4
"""Registers of 32 bits that a form may leave."""
COLUMNS = (8, 16, 24, 32, 40, 64, 72, 96, 128, 136, 192, 256)
"""N of the products."""
ONES = {
    "f16": 0x3C003C00,
    "bf16": 0x3F803F80,
    "tf32": 0x3F800000,
    "e4m3": 0x38383838,
    "e5m2": 0x3C3C3C3C,
    "s8": 0x01010101,
    "u8": 0x01010101,
    "b1": 0xFFFFFFFF,
}
"""A word of ones of each type of wgmma."""
DEPTHS = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
"""K of a dense product."""


def ordinary() -> dict[str, str]:
    """By instruction, the text of what threads do themselves."""
    found: dict[str, str] = {}
    for count, type in (
        (1, "b8"),
        (1, "u16"),
        (1, "b32"),
        (2, "b8"),
        (4, "b8"),
        (2, "u16"),
        (4, "b16"),
        (2, "f32"),
        (4, "u32"),
    ):
        vector = f".v{count}" if count > 1 else ""
        many = ", ".join(f"{{r{k}}}" for k in range(count))
        values = ", ".join(["{v0}"] * count)
        wide = (f"{{{{{many}}}}}", f"{{{{{values}}}}}") if count > 1 else (many, values)
        found[f"ld.shared{vector}.{type}"] = f"ld.shared{vector}.{type} {wide[0]}, [{{at}}];"
        found[f"st.shared{vector}.{type}"] = f"st.shared{vector}.{type} [{{at}}], {wide[1]};"
    found["ld.shared.f64"] = ".reg .b64 t; ld.shared.f64 t, [{at}]; mov.b64 {{{r0}, {r1}}}, t;"
    found["ld.shared.v2.b64"] = (
        ".reg .b64 t, u; ld.shared.v2.b64 {{t, u}}, [{at}]; mov.b64 {{{r0}, {r1}}}, t; mov.b64 {{{r2}, {r3}}}, u;"
    )
    found["st.shared.f64"] = ".reg .b64 t; mov.b64 t, {{{v0}, {v0}}}; st.shared.f64 [{at}], t;"
    found["st.shared.v2.b64"] = ".reg .b64 t; mov.b64 t, {{{v0}, {v0}}}; st.shared.v2.b64 [{at}], {{t, t}};"
    found["ld.shared.b128"] = (
        ".reg .b128 w; .reg .b64 t, u; ld.shared.b128 w, [{at}]; mov.b128 {{t, u}}, w; "
        "mov.b64 {{{r0}, {r1}}}, t; mov.b64 {{{r2}, {r3}}}, u;"
    )
    made = ".reg .b128 w, z; .reg .b64 t; mov.b64 t, {{{v0}, {v0}}}; mov.b128 w, {{t, t}}; "
    found["st.shared.b128"] = made + "st.shared.b128 [{at}], w;"
    found["atom.shared.exch.b128"] = made + "atom.shared.exch.b128 z, [{at}], w;"
    for of, zero in (("add.u32", ""), ("or.b32", ""), ("exch.b32", ""), ("cas.b32", "0, "), ("add.f32", "")):
        found[f"atom.shared.{of}"] = f".reg .b32 t; atom.shared.{of} t, [{{at}}], {zero}{{v0}};"
    for of, zero in (("add.u64", ""), ("exch.b64", ""), ("cas.b64", "0, ")):
        found[f"atom.shared.{of}"] = (
            f".reg .b64 t, u; mov.b64 u, {{{{{{v0}}, {{v0}}}}}}; atom.shared.{of} t, [{{at}}], {zero}u;"
        )
    found["atom.shared.cas.b16"] = (
        ".reg .b16 t, u, z; cvt.u16.u32 u, {v0}; mov.b16 z, 0; atom.shared.cas.b16 t, [{at}], z, u;"
    )
    found["red.shared.add.u32"] = "red.shared.add.u32 [{at}], {v0};"
    found["red.shared.add.noftz.f16x2"] = "red.shared.add.noftz.f16x2 [{at}], {v0};"
    found["red.shared.add.u64"] = ".reg .b64 u; mov.b64 u, {{{v0}, {v0}}}; red.shared.add.u64 [{at}], u;"
    for count in (1, 2, 4):
        many = ", ".join(f"{{r{k}}}" for k in range(count))
        values = ", ".join(["{v0}"] * count)
        for turned in ("", ".trans"):
            load, store = (f"{name}.sync.aligned.m8n8.x{count}{turned}.shared.b16" for name in ("ldmatrix", "stmatrix"))
            found[load] = f"{load} {{{{{many}}}}}, [{{at}}];"
            found[store] = f"{store} [{{at}}], {{{{{values}}}}};"
    for kind, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        form = f"cp.async.{kind}.shared.global"
        found[f"{form} {size}"] = f"{form} [{{at}}], [{{there}}], {size};"
        found[f"{form} {size} src-size"] = f"{form} [{{at}}], [{{there}}], {size}, {{v0}};"
        found[f"{form} {size} ignore-src"] = (
            f".reg .pred p; setp.ne.u32 p, {{v0}}, 0; {form} [{{at}}], [{{there}}], {size}, p;"
        )
    return found


def asynchronous() -> dict[str, str]:
    """By instruction, the text of what goes to the other CTA of a cluster of two."""
    signals = "mbarrier::complete_tx::bytes"
    found: dict[str, str] = {}
    for count, type in ((1, "b32"), (2, "b32"), (4, "b32"), (1, "b64"), (2, "b64"), (4, "f32")):
        vector = f".v{count}" if count > 1 else ""
        form = f"st.async.weak.shared::cluster.{signals}{vector}.{type}"
        one, made = ("t", ".reg .b64 t; mov.b64 t, {{{v0}, {v0}}}; ") if type == "b64" else ("{v0}", "")
        many = ", ".join([one] * count)
        found[form] = f"{made}{form} [{{far}}], {f'{{{{{many}}}}}' if count > 1 else many}, [{{far_barrier}}];"
    for of in ("add.u32", "max.s32", "or.b32", "inc.u32"):
        form = f"red.async.relaxed.cluster.shared::cluster.{signals}.{of}"
        found[form] = f"{form} [{{far}}], {{v0}}, [{{far_barrier}}];"
    form = f"red.async.relaxed.cluster.shared::cluster.{signals}.add.u64"
    found[form] = f".reg .b64 t; mov.b64 t, {{{{{{v0}}, {{v0}}}}}}; {form} [{{far}}], t, [{{far_barrier}}];"
    form = f"cp.async.bulk.shared::cluster.shared::cta.{signals}"
    found[form] = f"{form} [{{far}}], [{{at}}], {{v0}}, [{{far_barrier}}];"
    for of in ("add.u32", "or.b32"):
        form = f"cp.reduce.async.bulk.shared::cluster.shared::cta.{signals}.{of}"
        found[form] = f"{form} [{{far}}], [{{at}}], {{v0}}, [{{far_barrier}}];"
    mask = ".reg .b16 m; cvt.u16.u32 m, {v1}; "
    form = f"cp.async.bulk.shared::cluster.global.{signals}.multicast::cluster"
    found[form] = f"{mask}{form} [{{at}}], [{{there}}], {{v0}}, [{{barrier}}], m;"
    form = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{signals}.multicast::cluster"
    found[form] = f"{mask}{form} [{{at}}], [{{there}}, {{{{{{c0}}, {{c1}}}}}}], [{{barrier}}], m;"
    return found


def bulk() -> dict[str, str]:
    """By instruction, the text of copies between shared and global memory."""
    signals = "mbarrier::complete_tx::bytes"
    form = f"cp.async.bulk.shared::cluster.global.{signals}"
    found = {form: f"{form} [{{at}}], [{{there}}], {{v0}}, [{{barrier}}];"}
    form = "cp.async.bulk.global.shared::cta.bulk_group"
    found[form] = f"{form} [{{there}}], [{{at}}], {{v0}};"
    for of in ("add.u32", "or.b32", "max.u64"):
        form = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{of}"
        found[form] = f"{form} [{{there}}], [{{at}}], {{v0}};"
    for rank in range(1, 6):
        place = "[{there}, {{" + ", ".join(f"{{c{k}}}" for k in range(rank)) + "}}]"
        form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.{signals}"
        found[form] = f"{form} [{{at}}], {place}, [{{barrier}}];"
        form = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"
        found[form] = f"{form} {place}, [{{at}}];"
        for of in ("add", "or"):
            form = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{of}.tile.bulk_group"
            found[form] = f"{form} {place}, [{{at}}];"
        form = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile"
        found[form] = f"{form} {place};"
        if rank > 2:
            offsets = ", ".join(f"h{k}" for k in range(rank - 2))
            made = ".reg .b16 h<3>; " + " ".join(f"cvt.u16.u32 h{k}, {{v{k}}};" for k in range(rank - 2))
            form = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.{signals}"
            found[form] = f"{made} {form} [{{at}}], {place}, [{{barrier}}], {{{{{offsets}}}}};"
            form = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group"
            found[form] = f"{form} {place}, [{{at}}];"
            form = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.add.im2col_no_offs.bulk_group"
            found[form] = f"{form} {place}, [{{at}}];"
    return found


def touching() -> dict[str, str]:
    """All forms of the kernel `touch`."""
    return {**ordinary(), **asynchronous(), **bulk()}


def products() -> dict[str, str]:
    """By instruction and what it is asked for, the text of each wgmma: `… A`, `… B` with the operand that is tested."""
    found: dict[str, str] = {}
    for type, depth in DEPTHS.items():
        half = type in ("f16", "bf16")
        to = "s32" if type in ("s8", "u8", "b1") else "f32"
        narrow = type in ("f16", "e4m3", "s8")
        for columns in COLUMNS if type == "f16" else (8, 64, 256) if half else (8, 24, 32, 96, 256):
            for turned in (0, 1) if half else (0,):
                found.update(_wgmma(f"m64n{columns}k{depth}", to, type, type, "B", (0, turned)))
        for turned in (0, 1) if half else (0,):
            found.update(_wgmma(f"m64n8k{depth}", to, type, type, "A", (turned, 0)))
            if type != "b1":
                found.update(_wgmma(f"m64n8k{2 * depth}", to, type, type, "A", (turned, 0), sparse=True))
                for columns in (8, 64, 256):
                    found.update(_wgmma(f"m64n{columns}k{2 * depth}", to, type, type, "B", (0, turned), sparse=True))
        if narrow:
            found.update(_wgmma(f"m64n32k{depth}", to, type, type, "B", (0, 0), registers=True))
    found.update(_wgmma("m64n16k32", "f32", "e4m3", "e5m2", "B", (0, 0)))
    found.update(_wgmma("m64n16k16", "f16", "f16", "f16", "B", (0, 0)))
    return found


def _wgmma(
    shape: str,
    to: str,
    a: str,
    b: str,
    tested: str,
    turned: tuple[int, int],
    *,
    registers: bool = False,
    sparse: bool = False,
) -> dict[str, str]:
    columns = int(shape[4 : shape.index("k")])
    count = columns // 4 if to == "f16" else columns // 2
    sums = ", ".join(f"d{k}" for k in range(count))
    with_b1 = ".and.popc" if a == "b1" else ""
    form = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.{shape}.{to}.{a}.{b}{with_b1}"
    first = "{{{ones}, {ones}, {ones}, {ones}}}" if registers else "{a}"
    more = "" if to == "s32" else ", 1, 1"
    if a in ("f16", "bf16"):
        more += f", {turned[1]}" if registers else f", {turned[0]}, {turned[1]}"
    multiplied = [
        f"{form} {{{{{sums}}}}}, {first}, {{b}}{f', {meta}, 0' if sparse else ''}, {scale}{more}; "
        for meta, scale in zip(("{first}", "{second}"), "pq" if sparse else "p", strict=False)
    ]
    text = (
        f".reg .b32 d<{count}>; .reg .pred p, q; setp.ne.u32 p, 0, 0; setp.eq.u32 q, 0, 0; wgmma.fence.sync.aligned; "
        + "".join(multiplied)
        + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.b32 {any}, 0; "
        + " ".join(f"or.b32 {{any}}, {{any}}, d{k};" for k in range(count))
    )
    words = [form, *(("transposed",) if any(turned) else ()), *(("registers",) if registers else ()), tested]
    return {" ".join(words): text}


def source(texts: Mapping[str, str], wgmma: Mapping[str, str]) -> str:
    """The macros of kernels/footprints.cu: the forms, numbered in their order."""
    places = {f"r{k}": f"%{k}" for k in range(RESULTS)}
    places |= {name: f"%{RESULTS + number}" for number, name in enumerate(OPERANDS)}
    results = ", ".join(f'"+r"(result[{k}])' for k in range(RESULTS))
    values = ", ".join(f'"{"l" if name == "there" else "r"}"({name})' for name in OPERANDS)
    cases = [
        f'case {number}: asm volatile("{{{text.format(**places)}}}" : {results} : {values} : "memory"); break;'
        for number, text in enumerate(texts.values())
    ]
    inputs = {"any": "%0", "a": "%1", "b": "%2", "ones": "%3", "first": "%4", "second": "%5"}
    products = [
        f'case {number}: asm volatile("{{{text.format(**inputs)}}}" : "=r"(any) : "l"(a), "l"(b), "r"(ones), '
        f'"r"(0x44444444), "r"(0xEEEEEEEE) : "memory"); break;'
        for number, text in enumerate(wgmma.values())
    ]
    return "".join(f"#define {name} {' '.join(lines)}\n" for name, lines in (("FORMS", cases), ("WGMMA", products)))
