"""The gate on what operations access: places and sizes of bulk copies, tensormaps and wgmma, and CTAs they reach."""

from __future__ import annotations

import pytest
from refusals import refusal

from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access, as_read, as_write

PIPELINES = kernels("pipeline")


class Copies(Pipeline):
    """One bulk copy in, one out."""

    at = 0
    to = 0
    size = 64
    store = True
    full = barrier(arrivals=1)
    a = tile(bytes="size", address=128)
    b = tile(bytes="size")
    out = tile(bytes="size", space="global")

    @role(warps=1)
    def one(self):
        if self.store:
            yield op.Store((moved(as_read(self.b[0].access, "async"), self.at),), (None,), self.destination())
        else:
            signals = max(16, self.size // 16 * 16)
            yield op.Load(moved(as_write(self.a[0].access, "async"), self.at), "full", signals, None)

    def destination(self):
        return moved(as_write(self.out[0].access, "async"), self.to)


def moved(access: Access, by: int, more: int = 0) -> Access:
    return access._replace(start=access.start + by, stop=access.stop + by + more)


@pytest.mark.parametrize("store", [True, False])
def test_both_sides_of_a_copy_begin_at_a_multiple_of_sixteen(store):
    for at in (0, 16, 48):
        trace(Copies(store=store, at=at))
    for at in (1, 8, 24):
        what, line = refusal(Copies(store=store, at=at))
        assert "a bulk copy begins at a multiple of 16 bytes" in what
        assert line.startswith("yield op.Store" if store else "yield op.Load")


def test_a_store_begins_at_a_multiple_of_sixteen_in_global_memory():
    trace(Copies(to=16))
    assert refusal(Copies(to=-1024))[0] == "out begins at address -1024: use 0 or more"
    assert "b begins at address" in refusal(Copies(at=-1024))[0]
    what, line = refusal(Copies(to=8))
    assert what == "a bulk store to out at address 8: a bulk copy begins at a multiple of 16 bytes"
    assert "yield op.Store" in line


@pytest.mark.parametrize("store", [True, False])
def test_a_copy_has_a_positive_multiple_of_sixteen_bytes(store):
    for size in (16, 48):
        trace(Copies(store=store, size=size))
    for size in (8, 24, 100):
        what, _ = refusal(Copies(store=store, size=size))
        assert f", {size} bytes: a bulk copy has a positive multiple of 16" in what


class Pieces(Pipeline):
    bytes = 64
    pieces = 1
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        write = as_write(self.a[0].access, "async")
        yield op.Load(write, "full", self.bytes, None, self.pieces)


def test_what_a_copy_signals():
    trace(Pieces(pieces=4))
    for bytes in (40, 0, -16):
        what, line = refusal(Pieces(bytes=bytes))
        assert what == f"a bulk copy that signals {bytes} bytes: use a positive multiple of 16"
        assert "yield op.Load" in line
    for pieces in (0, -1, 3):
        what, line = refusal(Pieces(pieces=pieces))
        assert what == f"a bulk copy of 64 bytes in {pieces} pieces: use a number that divides the bytes"
        assert "yield op.Load" in line


class ToAll(Pipeline):
    """A multicast whose part for the other CTA is off by some bytes, or is for no CTA."""

    cluster = "2x1"
    by = 0
    more = 0
    cta = 1
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(ctas=(0,))
    def one(self):
        here = as_write(self.a[0].access, "async")
        there = moved(here, self.by, self.more)._replace(cta=self.cta, object=f"cta{self.cta}.a")
        yield op.Load(here, "cta0.full", 64, None, also=((there, "cta1.full"),))


def test_every_destination_of_a_multicast():
    trace(ToAll())
    trace(ToAll(by=16))
    assert "address" in refusal(ToAll(by=8))[0] and "80 bytes" not in refusal(ToAll(by=8))[0]
    assert "72 bytes: a bulk copy has" in refusal(ToAll(more=8))[0]
    what, line = refusal(ToAll(cta=2))
    assert what == "cta2.a of CTA 2: use 0 to 1" and "yield op.Load" in line
    assert "of CTA -1" in refusal(ToAll(cta=-1))[0]


class Signals(Pipeline):
    cluster = "2x1"
    cta = 1
    bytes = 0
    name_of_it = ""
    full = barrier(arrivals=1)

    @role(ctas=(0,))
    def one(self):
        name = self.name_of_it or f"cta{max(self.cta, 0)}.full"
        if self.bytes:
            yield op.Transaction(name, self.bytes, self.cta)
        else:
            yield op.Arrive(name, cta=self.cta)


@pytest.mark.parametrize("bytes", [0, 16])
def test_signals_reach_ctas_of_the_cluster(bytes):
    for cta in (-1, 0, 1):
        trace(Signals(cta=cta, bytes=bytes))
    for cta in (-2, 2):
        what, line = refusal(Signals(cta=cta, bytes=bytes, name_of_it="cta1.full"))
        assert what == f"cta1.full of CTA {cta}: use 0 to 1" and line.startswith("yield op.")
    for cta, name, other in ((-1, "cta1.full", 1), (0, "cta1.full", 1), (1, "cta0.full", 0)):
        what, line = refusal(Signals(cta=cta, bytes=bytes, name_of_it=name))
        assert what == f"{name} lies in CTA {other}, and the operation is for cta={cta}: use {other}"


class Touches(Pipeline):
    at = 0
    kind = "read"
    shared = True
    a = tile(bytes=64)
    r = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def one(self):
        access = self.a[0].access if self.shared else self.r[0].access
        access = as_write(access, "generic") if self.kind == "write" else access
        access = as_read(access, "async") if self.kind == "mma" else access
        yield op.Touch(self.kind, (moved(access, self.at),), (None,), True)


@pytest.mark.parametrize("kind", ["read", "write", "mma"])
def test_no_access_is_below_zero(kind):
    trace(Touches(kind=kind))
    what, line = refusal(Touches(kind=kind, at=-16))
    assert what == "a begins at address -16: use 0 or more" and "yield op.Touch" in line


def test_wgmma_reads_from_multiples_of_sixteen():
    trace(Touches(kind="mma", at=16))
    assert "wgmma of a at address 8" in refusal(Touches(kind="mma", at=8))[0]
    trace(Touches(at=8))
    trace(Touches(kind="mma", at=8, shared=False))


class Parts(Pipeline):
    """One store of two buffers of 8 and 24 bytes, next to each other or with a gap."""

    gap = 0
    at = 0
    a = tile(bytes=8, slots=1)
    b = tile(bytes=24, shares="a", offset=lambda self: 8 + self.gap, slots=1)

    @role(warps=1)
    def one(self):
        yield self.store(self.b, self.a)


def test_buffers_next_to_each_other_are_stored_as_one():
    trace(Parts())
    what, line = refusal(Parts(gap=8))
    assert what == "a bulk store of a, 8 bytes: a bulk copy has a positive multiple of 16"
    assert line == "yield self.store(self.b, self.a)"


def test_the_executor_stores_each_buffer_by_itself():
    with pytest.raises(SpecError, match=r"the executor's store of b at address 8: a bulk copy begins"):
        lower(trace(Parts()))


def test_parts_of_a_slot_of_the_library_are_stored_as_one():
    for consumers in (1, 2, 3, 5, 7):
        for bytes in (256, 8192):
            trace(PIPELINES["tma-store"](consumers=consumers, bytes=bytes, trips=2))


class Edits(Pipeline):
    size = 128
    aligned = True
    to = tile(bytes=64, space="global")
    d = tile(bytes=64)
    there = tile(bytes="size", space="global", address=64 * 16)
    off = tile(bytes=128, space="global", address=32)

    @role(warps=1)
    def one(self):
        yield self.d.store(tensormap=self.there if self.aligned else self.off)


def test_a_tensormap_is_128_bytes_at_a_multiple_of_64():
    trace(Edits())
    what, line = refusal(Edits(size=64))
    assert "the tensormap there has 64 bytes at address 1024: a tensormap is 128 bytes" in what
    assert "yield self.d.store" in line
    assert "128 bytes at address 32" in refusal(Edits(aligned=False))[0]


class ToABox(Pipeline):
    """What a tensormap describes may begin anywhere in the tensor."""

    described = True
    map = tile(bytes=128, space="global")
    out = tile(bytes=64, space="global", address=1032)
    d = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.d.store(to=self.out, tensormap=self.map if self.described else None)


def test_a_box_begins_anywhere_in_its_tensor():
    trace(ToABox())
    assert "a bulk store to out at address 1032" in refusal(ToABox(described=False))[0]


class FromShared(Pipeline):
    """A copy from shared memory of another CTA or with a mask, or from registers."""

    cluster = "2x1"
    of = 0
    mask = False
    space = "shared"
    bytes = 64
    full = barrier(arrivals=1)
    a = tile(bytes=64)
    source = tile(bytes="bytes")
    kept = tile(bytes=64, space="registers")

    @role(ctas=(0,), warps=1)
    def one(self):
        source = self.kept[0] if self.space == "registers" else self.source[0].on(self.of)
        multicast = (0, 1) if self.mask else None
        yield self.a[0].load(signals=self.full, source=source, multicast=multicast)


def test_the_source_of_a_copy():
    """9.7.9.25.4.1: .global, or .shared::cta without .multicast::cluster."""
    trace(FromShared())
    where = "it reads global memory, or shared memory of its own CTA"
    assert refusal(FromShared(of=1))[0] == f"a bulk copy of cta1.source: {where}"
    assert refusal(FromShared(space="registers"))[0].endswith(where)
    what = "a multicast of cta0.source in shared memory: it reads global memory"
    assert refusal(FromShared(mask=True))[0] == what
    assert "a bulk copy of cta0.source of 32 bytes that signals 64" in refusal(FromShared(bytes=32))[0]
