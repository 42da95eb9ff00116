"""What no schedule is needed for is refused with one line, by every front end and engine; its neighbour is not."""

from __future__ import annotations

import linecache
import re
from dataclasses import replace

import pytest
from log_edits import FIELDS, records_of, renumbered

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.frontends.log.addresses import check_addresses
from sm90_verify.frontends.log.check import check_records
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.recordings.lower import lower
from sm90_verify.result import PROVED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.collective import most_bytes
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import CTA_THREADS, SHARED_OF_CTA, SHARED_OF_SM, WARPGROUP
from sm90_verify.spec.ptx.memory import Access, as_read, as_write

PIPELINES = kernels("pipeline")


def refusal(kernel: Pipeline) -> tuple[str, str]:
    """Why a kernel is refused, and the line of source that the refusal names; both are one line."""
    with pytest.raises(SpecError) as caught:
        trace(kernel)
    where = caught.value.where
    assert where is not None and "\n" not in str(caught.value)
    return caught.value.what, linecache.getline(where.file, where.line).strip()


# ---------------------------------------------------------------- threads


class Threads(Pipeline):
    """Two roles; the second in as many copies as wanted, and in CTA 1 alone if there is one."""

    threads = 32
    others = 32
    copies = 1
    full = barrier(arrivals=1, slots=1)

    @role(threads="threads")
    def first(self):
        yield self.full.arrive()

    @role(threads="others", copies="copies")
    def second(self):
        yield self.full.wait(0)


@pytest.mark.parametrize(
    ("legal", "illegal", "why", "line"),
    [
        ({"threads": 992}, {"threads": 993}, "first have|second have 1025 threads: a CTA has 1024", "def second"),
        ({"threads": 1024, "copies": 0}, {"threads": 1025, "copies": 0}, "first has 1025 threads", "def first"),
        ({"threads": 1}, {"threads": 0}, "first has 0 threads: use 1 to 1024", "def first"),
        ({"others": 1}, {"others": -32}, "second has -32 threads", "def second"),
        ({"copies": 0}, {"copies": -1}, "second has -1 copies: use 0 or more", "def second"),
        ({"copies": 31}, {"copies": 32}, "second31 have 1056 threads", "def second"),
    ],
)
def test_threads_of_a_cta(legal, illegal, why, line):
    trace(Threads(**legal))
    what, there = refusal(Threads(**illegal))
    assert re.search(why, what) and line in there


def test_threads_of_a_cluster_are_counted_by_cta():
    assert len(trace(Threads(threads=CTA_THREADS - 32, cluster="2x1")).programs) == 4


class Split(Pipeline):
    full = barrier(arrivals=1)

    @role(threads=32, split=(32, 0))
    def warp(self):
        yield self.full.arrive()


class SplitOfAll(Split):
    @role(threads=32, split=(31, 1))
    def warp(self):
        yield self.full.arrive()


class SplitOfTooFew(Split):
    @role(threads=32, split=(30, 1))
    def warp(self):
        yield self.full.arrive()


def test_parts_of_a_split():
    assert len(trace(SplitOfAll()).programs) == 2
    what, line = refusal(Split())
    assert what == "role warp is split into (32, 0): each part has 1 thread or more" and "def warp" in line
    assert "the parts must add up" in refusal(SplitOfTooFew())[0]


class OfCtas(Pipeline):
    cluster = "2x1"
    full = barrier(arrivals=1)

    @role(ctas=(0, 1))
    def everywhere(self):
        yield self.full.arrive()


class OfOtherCtas(OfCtas):
    @role(ctas=(0, 5))
    def everywhere(self):
        yield self.full.arrive()


class OfNegativeCtas(OfCtas):
    @role(ctas=(-1,))
    def everywhere(self):
        yield self.full.arrive()


def test_ctas_of_a_role():
    assert len(trace(OfCtas()).programs) == 2
    what, line = refusal(OfOtherCtas())
    assert "everywhere is that of CTA 5, and a cluster of 2x1 has CTAs 0 to 1" in what and "def everywhere" in line
    assert "CTA -1" in refusal(OfNegativeCtas())[0]
    assert "CTA 1, and a cluster of 1x1 has CTAs 0 to 0" in refusal(OfCtas(cluster="1x1"))[0]


# ---------------------------------------------------------------- registers


class Registers(Pipeline):
    """The roles of a persistent kernel that move registers."""

    threads = 384
    gives = True

    @role(threads="threads")
    def group(self):
        if self.gives:
            yield self.setmaxnreg_dec(24)
        else:
            yield self.cta_sync()


def test_registers_at_launch():
    trace(Registers(registers=170))
    what, line = refusal(Registers(registers=171))
    assert what == "384 threads of registers=171 have 65664 at launch: an SM has 65536; launch with fewer"
    assert "setmaxnreg_dec" in line
    trace(Registers(registers=170, cluster="2x1"))
    trace(Registers(registers=171, gives=False))
    trace(Registers(registers=255, threads=128))
    assert "use 1 to 255" in refusal(Registers(registers=256, threads=128))[0]
    trace(Registers(registers=1))
    assert "use 1 to 255" in refusal(Registers(registers=0))[0]


# ---------------------------------------------------------------- shared memory


def with_address(declare, address):
    """A kernel with one declaration at an address, and a role that touches none."""

    class Placed(Pipeline):
        thing = declare(address)

        @role()
        def one(self):
            yield self.cta_sync()

    return Placed()


def test_an_mbarrier_lies_at_a_multiple_of_eight():
    for address in (0, 8, 24):
        trace(with_address(lambda at: barrier(address=at), address))
    for address in (1, 3, 4, 12):
        what, line = refusal(with_address(lambda at: barrier(address=at), address))
        assert what == f"thing lies at address {address}: an mbarrier is 8 bytes at a multiple of 8"
        assert "barrier(address=at)" in line


@pytest.mark.parametrize("space", ["shared", "global"])
def test_no_address_is_negative(space):
    trace(with_address(lambda at: tile(bytes=64, address=at, space=space), 0))
    what, line = refusal(with_address(lambda at: tile(bytes=64, address=at, space=space), -64))
    assert what == "thing begins at address -64: use 0 or more" and "tile(" in line
    assert "begins at address -8" in refusal(with_address(lambda at: barrier(address=at), -8))[0]


def test_a_cta_has_227_kib_of_shared_memory():
    assert (SHARED_OF_CTA, SHARED_OF_SM) == (232_448, 233_472)
    trace(with_address(lambda at: tile(bytes=64, address=at), SHARED_OF_CTA - 64))
    what, line = refusal(with_address(lambda at: tile(bytes=64, address=at), SHARED_OF_CTA - 63))
    assert "thing ends at byte 232449 of shared memory: a CTA has 232448 (227 KiB; 228 KiB an SM" in what
    assert "tile(" in line
    trace(with_address(lambda at: tile(bytes=1 << 20, address=at, space="global"), 1 << 20))
    trace(with_address(lambda at: barrier(address=at), SHARED_OF_CTA - 8))
    assert "ends at byte 232456" in refusal(with_address(lambda at: barrier(address=at), SHARED_OF_CTA))[0]


def test_stages_without_a_size_fit_into_a_cta():
    """The library's rings are as large as they are at few stages, and as a CTA has room for at many."""
    for name in ("tma-async", "transaction-async", "async", "tma-store"):
        kernel = PIPELINES[name]
        for stages in (1, 4, 7):
            assert kernel(stages=stages).bytes == kernel.bytes
        assert kernel(stages=32).bytes == most_bytes(32, 32) < kernel.bytes
        trace(kernel(stages=32, trips=1))
        assert "ends at byte" in refusal(kernel(stages=4, bytes=1 << 18, trips=1))[0]
    assert TmaAsync(stages=7).bytes == 32_768 and TmaAsync(stages=8).bytes == 28_672
    assert TmaAsync(stages=7, producers=2).bytes == most_bytes(7, 14)
    assert Mainloop(stages=7).bytes_a == 16_384 and Mainloop(stages=8).bytes_a == 14_336
    assert "ends at byte" in refusal(Mainloop(stages=8, bytes_a=16_384, bytes_b=16_384, k_tiles=2))[0]


@pytest.mark.parametrize("stages", [1, 2, 8, 64, 1000])
def test_the_most_bytes_are_the_most(stages):
    def shared(size: int) -> int:
        return max(region.stop for region in TmaAsync(stages=stages, bytes=size).layout.regions)

    most = most_bytes(stages, stages)
    assert most % 512 == 0
    assert (shared(most) <= SHARED_OF_CTA < shared(most + 512)) or (stages == 1000 and most == 512)


class SaysItsBytes(TmaAsync):
    bytes = 32_768


class SaysItsBytesOfA(Mainloop):
    bytes_a = 16_384


def test_a_size_that_a_class_of_its_own_gives_is_kept():
    assert SaysItsBytes(stages=8).bytes == 32_768
    assert SaysItsBytesOfA(stages=8).mainloop_bytes == 8 * 32_768
    what, line = refusal(SaysItsBytes(stages=8))
    assert "a[7] ends at byte" in what and line == "class SaysItsBytes(TmaAsync):"


# ---------------------------------------------------------------- bulk copies


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


class StoresAndMore(PIPELINES["tma-store"]):
    more = tile(bytes=128, slots=1)


def test_what_is_declared_after_a_stride_lies_behind_its_last_slot():
    kernel = StoresAndMore(stages=3, bytes=8192)
    rest, more = (kernel.layout.regions[-2], kernel.layout.regions[-1])
    assert (rest.object, rest.stop) == ("rest[2]", 3 * 8192) and more.start == 3 * 8192
    assert kernel.layout.overlaps() == []


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


# ---------------------------------------------------------------- wgmma


class Multiplies(Pipeline):
    threads = 128
    what = "mma"
    a = tile(bytes=64)

    @role(threads="threads")
    def math(self):
        if self.what == "mma":
            yield self.a.mma(commit=False)
        if self.what == "commit":
            yield self.mma_commit()
        if self.what == "wait":
            yield self.mma_wait(0)
        if self.what == "bulk":
            yield self.bulk_commit()


@pytest.mark.parametrize("what", ["mma", "commit", "wait"])
def test_wgmma_is_executed_by_whole_warpgroups(what):
    for threads in (128, 256):
        trace(Multiplies(what=what, threads=threads))
    for threads in (1, 32, 96, 127, 192):
        why, line = refusal(Multiplies(what=what, threads=threads))
        assert why.startswith(f"wgmma by {threads} threads of math: all {WARPGROUP} of a warpgroup execute it")
        assert line.startswith("yield self.")
    trace(Multiplies(what="bulk", threads=1))


class FourWarps(Pipeline):
    a = tile(bytes=64)

    @role(warpgroups=1, split=(32, 32, 64), copies=2)
    def math(self):
        yield self.a.mma()
        yield self.mma_wait(0)


def test_parts_of_a_warpgroup_execute_wgmma_together():
    assert len(trace(FourWarps()).programs) == 6


# ---------------------------------------------------------------- barrier 0


class Meets(Pipeline):
    """Two warps meet at a named barrier, by themselves or beside __syncthreads() of one of them, or of another CTA."""

    cluster = "2x1"
    id = 0
    cta = 0
    arrives = False
    syncs = True

    @role(warps=1, ctas=(0,))
    def first(self):
        if self.arrives:
            yield self.named_arrive(self.id, 64)
        else:
            yield self.named_sync(self.id, 64)

    @role(warps=1)
    def second(self, me):
        if self.syncs and me.cta == self.cta:
            yield self.cta_sync()


@pytest.mark.parametrize("arrives", [True, False])
def test_syncthreads_is_barrier_zero(arrives):
    for legal in ({"id": 1}, {"id": 15}, {"cta": 1}, {"syncs": False}):
        trace(Meets(arrives=arrives, **legal))
    what, line = refusal(Meets(arrives=arrives))
    assert "named barrier 0 is that of __syncthreads()" in what and what.endswith("use another id, 1 to 15")
    assert line.startswith("yield self.named_arrive" if arrives else "yield self.named_sync")
    named = re.search(r"in line (\d+)", what)
    assert named is not None and "self.cta_sync()" in linecache.getline(__file__, int(named[1]))


# ---------------------------------------------------------------- every way in


class NoThreads(Pipeline):
    full = barrier(arrivals=1)

    @role(threads=0)
    def p(self):
        yield self.full.arrive()


class CopyNotAligned(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=64, address=8)

    @role(warps=1)
    def p(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


class BarrierNotAligned(Pipeline):
    full = barrier(arrivals=1, address=3)

    @role(warps=1)
    def p(self):
        yield self.full.arrive()


class MoreMemoryThanAnSmHas(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=1 << 20)

    @role(warps=1)
    def p(self):
        yield self.full.arrive()


class BelowZero(Pipeline):
    a = tile(bytes=64, address=-64)

    @role(warps=1)
    def p(self):
        yield self.a.write(tag=1)


class WgmmaByOneWarp(Pipeline):
    a = tile(bytes=64)

    @role(warps=1)
    def p(self):
        yield self.a.mma()
        yield self.mma_wait(0)


class BulkStoreOfEightBytes(Pipeline):
    a = tile(bytes=8)

    @role(warps=1)
    def p(self):
        yield self.a.write(tag=1)
        yield self.fence_proxy_async()
        yield self.a.store(tag=1)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


class SyncthreadsIsBarrierZero(Pipeline):
    """p and q meet at bar.sync 0, 64 while r is already in __syncthreads(), which is barrier 0 too, with 96."""

    @role(warps=1)
    def p(self):
        yield self.named_sync(0, 64)
        yield self.cta_sync()

    @role(warps=1)
    def q(self):
        yield self.named_sync(0, 64)
        yield self.cta_sync()

    @role(warps=1)
    def r(self):
        yield self.cta_sync()


class TooManyThreads(Pipeline):
    full = barrier(arrivals=1)

    @role(threads=2048)
    def p(self):
        yield self.full.arrive()


ILLEGAL = (
    TooManyThreads,
    NoThreads,
    CopyNotAligned,
    BarrierNotAligned,
    MoreMemoryThanAnSmHas,
    BelowZero,
    WgmmaByOneWarp,
    BulkStoreOfEightBytes,
    SyncthreadsIsBarrierZero,
)


@pytest.mark.parametrize("kernel", ILLEGAL)
def test_no_engine_sees_a_kernel_that_is_illegal_by_itself(kernel):
    what, _ = refusal(kernel())
    for engine in ("search", "order", "smt", "search+order", "search+smt"):
        with pytest.raises(SpecError) as caught:
            check(kernel(), command="spec", engine=engine)
        assert caught.value.what == what
    for reader in (trace, check):
        with pytest.raises(SpecError) as caught:
            reader(kernel())
        assert caught.value.what == what


@pytest.mark.parametrize("kernel", ILLEGAL)
@pytest.mark.parametrize("engine", ["search", "order", "smt", "search+order"])
def test_the_command_line_refuses_it_with_one_line(kernel, engine, capsys):
    assert main(["spec", f"{__file__}:{kernel.__name__}", "--engine", engine]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert re.match(rf"verify: error: {re.escape(__file__)}:\d+: ", err)


# ---------------------------------------------------------------- clusters


@pytest.mark.parametrize("name", PIPELINES)
def test_classes_without_clusters_refuse_one(name, capsys):
    kernel = PIPELINES[name]
    assert kernel(cluster="1x1").shape.size == 1
    if name in ("tma-async", "launch-control"):
        assert kernel(cluster="2x1").shape.size == 2
        return
    with pytest.raises(SpecError, match=rf"cluster 2x1: {name} stays in its CTA") as caught:
        kernel(cluster="2x1")
    assert caught.value.where is not None and caught.value.where.file == __file__
    assert main(["pipeline", name, "--cluster", "1x2"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"verify: error: cluster 1x2: {name} stays in its CTA: use 1x1, or tma-async\n"


# ---------------------------------------------------------------- sync logs


BARRIER_FIELDS = ("smem_addr", "smem_int_mbar")


def shifted(fields, by, keep=lambda record: True):
    """A log of a real kernel whose addresses are all moved by as many bytes."""
    for record in records_of("coop"):
        names = FIELDS[record.kind]
        values = tuple(
            value + by if name in fields and keep(record) else value
            for name, value in zip(names, record.values, strict=True)
        )
        yield replace(record, values=values)


@pytest.mark.parametrize(
    ("fields", "by", "why"),
    [
        (BARRIER_FIELDS, 4, "an mbarrier is 8 bytes at a multiple of 8"),
        (BARRIER_FIELDS, 1 << 18, "of shared memory: a CTA has 232448"),
        (("smem_int_ptr", "desc_a_smem_int_ptr", "desc_b_smem_int_ptr"), 8, "a bulk copy begins at a multiple of 16"),
    ],
)
def test_a_log_whose_addresses_no_kernel_can_have_is_refused(fields, by, why):
    with pytest.raises(SpecError, match=why) as caught:
        check_records(renumbered(list(shifted(fields, by))), "moved.log")
    assert caught.value.where is not None and caught.value.where.file == "moved.log"


def test_a_log_whose_barriers_lie_elsewhere_is_accepted():
    records = renumbered(list(shifted(BARRIER_FIELDS, 8)))
    assert check_records(records, "moved.log").verdict == PROVED


@pytest.mark.parametrize(
    ("kind", "name", "legal", "illegal"),
    [
        ("cluster_barrier_init", "smem_addr", 1024, 1028),
        ("cluster_transaction_barrier_expect_transaction", "smem_addr", 1032, 1033),
        ("cpasync_barrier_arrive", "smem_addr", SHARED_OF_SM - 8, SHARED_OF_SM),
        ("tma_load", "smem_int_mbar", 1032, 1036),
        ("tma_load", "smem_int_mbar", SHARED_OF_SM - 8, SHARED_OF_SM),
        ("tma_load", "smem_int_ptr", 1040, 1032),
        ("tma_store", "smem_int_ptr", SHARED_OF_SM - 16, SHARED_OF_SM),
        ("cp_async", "smem_addr", 1028, None),
    ],
)
def test_addresses_of_an_entry(kind, name, legal, illegal):
    def entry(value: int) -> list[Record]:
        fields = dict.fromkeys(FIELDS[kind], 1024) | ({"pred": 1} if "pred" in FIELDS[kind] else {}) | {name: value}
        return [Record(7, 1, kind, 1, 1, 0, tuple(fields.values()))]

    check_addresses(entry(legal), "a.log")
    if illegal is not None:
        with pytest.raises(SpecError, match=r"a\.log:7: .*; use the log as it was printed"):
            check_addresses(entry(illegal), "a.log")


def test_an_arrival_that_is_not_executed_has_no_address():
    records = list(records_of("coop_2x1"))
    index = next(i for i, r in enumerate(records) if r.kind == "cluster_barrier_arrive_cluster" and r.values[-1] == 0)
    moved_there = (records[index].values[0] + 4, *records[index].values[1:])
    records[index] = replace(records[index], values=moved_there)
    assert check_records(renumbered(records), "moved.log").verdict == PROVED


# ---------------------------------------------------------------- what operations and programs name


class Loads(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


def edited(change) -> Kernel:
    """The kernel of Loads with other operations, said anew of each location."""
    kernel = trace(Loads())
    (program,) = kernel.programs
    nodes = tuple(
        node if node.operation is None else replace(node, operation=change(node.operation)) for node in program.nodes
    )
    return replace(kernel, programs=(annotate(replace(program, nodes=nodes)),))


def elsewhere(operation: op.Operation, **place: object) -> op.Operation:
    """A copy to bytes that have another object or memory space; other operations as they are."""
    return replace(operation, write=operation.write._replace(**place)) if isinstance(operation, op.Load) else operation


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (lambda: edited(lambda one: replace(one, barrier="b")), "no barrier is called 'b': the layout has full"),
        (lambda: edited(lambda one: replace(one, barrier="a")), "no barrier is called 'a'"),
        (lambda: edited(lambda one: elsewhere(one, object="b")), "no buffer 'b' lies in shared memory of CTA 0"),
        (lambda: edited(lambda one: elsewhere(one, space="global")), "goes to a in global memory: use shared"),
    ],
)
def test_what_an_operation_names_has_a_place(kernel, why):
    assert check(edited(lambda one: one)).verdict == PROVED
    with pytest.raises(SpecError, match=re.escape(why)):
        check(kernel())


def test_programs_have_names_and_homes_of_their_own():
    kernel = trace(Loads())
    (one,) = kernel.programs
    away = replace(one, me=replace(one.me, cta=1))
    for programs, why in (
        ((one, one), "two programs are called one"),
        ((away,), "role one is that of CTA 1: use 0 to 0"),
        ((replace(one, home="cta0."),), "role one of CTA 0 has the home 'cta0.': use ''"),
    ):
        with pytest.raises(SpecError, match=re.escape(why)):
            check(replace(kernel, programs=programs))


def test_objects_have_a_place_of_at_least_one_byte():
    kernel = trace(Loads())
    layout = kernel.layout
    for regions, why in (
        ((*layout.regions, layout.regions[0]), "two regions of the layout have the same name"),
        (tuple(one._replace(stop=one.start) for one in layout.regions), "full has 0 bytes: use 1 or more"),
    ):
        with pytest.raises(SpecError, match=why):
            check(replace(kernel, layout=layout._replace(regions=regions)))
