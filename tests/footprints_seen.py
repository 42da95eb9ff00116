"""The recording of tests/data/footprints.jsonl.gz, and what a module of footprints says of each of its lines."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from sm90_verify.evidence.hardware.footprints.record import ProductSeen, TrialSeen, read_footprints
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, decode

RECORDED = Path(__file__).parent / "data" / "footprints.jsonl.gz"
KINDS = {
    "ordinary accesses": r"(ld|st|atom|red)\.shared",
    "matrices": r"(ld|st)matrix",
    "cp.async": r"cp\.async\.c",
    "accesses of other CTAs": r"(st|red)\.async",
    "bulk copies": r"cp\.(reduce\.)?async\.bulk\.(?!tensor|prefetch)",
    "tiled tensor copies": r"cp\.(reduce\.)?async\.bulk\.(prefetch\.)?tensor.*tile",
    "im2col tensor copies": r"cp\.(reduce\.)?async\.bulk\.tensor.*im2col",
}
"""By what they are, the forms."""


@lru_cache(maxsize=1)
def recorded() -> tuple[list[TrialSeen], list[ProductSeen]]:
    return read_footprints(str(RECORDED))


def of_kind(kind: str) -> list[TrialSeen]:
    return [one for one in recorded()[0] if re.match(KINDS[kind], one.form)]


def seen(one: TrialSeen) -> tuple[object, ...]:
    """What a GPU did: what it wrote and read, what it wrote in the other CTA, and the bytes that it signalled."""
    return one.writes, one.reads, one.far_writes, one.signalled


def said(footprints: ModuleType, one: TrialSeen) -> tuple[object, ...]:
    """The same as the module has it."""
    form, modifiers = one.form, one.form.split(".")
    loads = "global.tile" in form or "global.mbarrier" in form or "im2col.mbarrier" in form
    if form.startswith("cp.async.c"):
        pieces = [footprints.cp_async(at, int(form.split()[1])) for at in one.at]
        return footprints.merged(piece for ranges in pieces for piece in ranges), (), (), ()
    if "matrix" in form:
        read = footprints.matrices(one.at, int(form.partition(".x")[2][0]), "m8n8")
        return (read, (), (), ()) if form.startswith("st") else ((), read, (), ())
    if re.match(KINDS["ordinary accesses"], form):
        touched = footprints.accessed(one.at, footprints.access_bytes(modifiers))
        return ((), touched, (), ()) if form.startswith("ld") else (touched, (), (), ())
    if re.match(KINDS["accesses of other CTAs"], form):
        size = footprints.access_bytes(modifiers)
        return (), (), footprints.accessed(one.far, size), (0, size * len(one.far))
    if "prefetch" in form:
        return (), (), (), ()
    (at,) = one.at
    if one.map:
        map = decode(bytes.fromhex(one.map) + bytes(MAP_BYTES // 2))
        assert map is not None
        if not loads:
            return (), footprints.tensor_store(map, at, one.coordinates), (), ()
        touched, size = footprints.tensor_box(map, at), footprints.tensor_bytes(map)
    else:
        touched, size = footprints.bulk(at, one.values[0]), one.values[0]
    if "multicast" in form:
        to = [one.values[1] >> cta & 1 for cta in range(2)]
        return touched if to[0] else (), (), touched if to[1] else (), tuple(size * there for there in to)
    if "shared::cluster.shared::cta" in form:
        return (), touched, footprints.bulk(one.far[0], one.values[0]), (0, size)
    return (touched, (), (), (size,)) if loads else ((), touched, (), ())


def read_by(footprints: ModuleType, one: ProductSeen) -> object:
    """What the module says of the operand of a wgmma that was tried."""
    form = one.form.split()[0]
    shape = re.search(r"m64n\d+k\d+", form)
    assert shape is not None
    types = tuple(form.partition(".m64")[2].split(".")[2:4])
    turned, sparse = int("transposed" in one.form), ".sp." in form
    if one.form.endswith("A"):
        found = footprints.wgmma_reads(shape[0], types, one.descriptor, 0, (turned, 0), sparse=sparse)
        return found and found[0]
    a = None if "registers" in one.form else 0
    found = footprints.wgmma_reads(shape[0], types, a, one.descriptor, (0, turned), sparse=sparse)
    return found and found[1]


def differences(footprints: ModuleType, kind: str) -> list[TrialSeen | ProductSeen]:
    """Where the module and the GPU differ; kind: of KINDS, or "wgmma"."""
    if kind == "wgmma":
        return [one for one in recorded()[1] if read_by(footprints, one) != one.reads]
    return [one for one in of_kind(kind) if said(footprints, one) != seen(one)]
