"""The gate on threads: how many a CTA has, the registers they are launched with, what they execute together."""

from __future__ import annotations

import linecache
import re

import pytest
from refusals import refusal

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx.limits import CTA_THREADS, WARPGROUP

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


@pytest.mark.parametrize("registers", [-8, 0, 256])
def test_a_thread_has_1_to_255_registers_without_setmaxnreg_too(registers):
    assert refusal(Registers(gives=False, registers=registers))[0] == (
        f"registers={registers} per thread at launch: use 1 to 255"
    )


def multiplies_in_parts(threads: int, alone: bool) -> Pipeline:
    """The elected part of a warpgroup multiplies, or all its parts do."""

    class InParts(Pipeline):
        a = tile(bytes=1024, slots=1)

        @role(threads=128, split=(threads, 128 - threads))
        def math(self, me: Threads):
            if me.leader or not alone:
                yield self.a[0].mma()
                yield self.mma_wait(0)

    return InParts()


@pytest.mark.parametrize("threads", [1, 32, 64])
def test_a_part_of_a_warpgroup_does_not_multiply_alone(threads):
    trace(multiplies_in_parts(threads, alone=False))
    with pytest.raises(SpecError, match=r"wgmma by math.0 and not by math.1: all 128 threads of a warpgroup"):
        trace(multiplies_in_parts(threads, alone=True))
