"""What must not hold in any state: copies that outlive their CTA, bytes left over, bytes that two things lie in."""

from __future__ import annotations

import pytest

from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class TwoCopies(Pipeline):
    """Two copies into two buffers signal one barrier, which expects `expected` bytes."""

    expected = 64
    pieces = 1
    waits = True
    full = barrier(arrivals=1)
    a = tile(bytes=32, slots=2)

    @role(warps=1)
    def loads(self):
        yield self.full.arrive_expect_tx(self.expected)
        for slot in range(2):
            yield self.a[slot].load(signals=self.full, pieces=self.pieces)
        if self.waits:
            yield self.full.wait(0)


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ({}, set()),
        ({"pieces": 2}, set()),
        ({"pieces": 2, "waits": False}, {"exit-hazard"}),
        ({"waits": False}, {"exit-hazard"}),
        ({"waits": False, "expected": 96}, {"exit-hazard", "tx-count"}),
        ({"expected": 96}, {"deadlock"}),
    ],
)
def test_copies_land_before_the_end_and_leave_no_bytes(parameters, found):
    assert set(explore(compile_kernel(trace(TwoCopies(**parameters)))).violations) == found


def test_a_copy_into_another_cta_outlives_that_one_alone():
    class Far(Pipeline):
        cluster = "2x1"
        full = barrier(arrivals=1)
        a = tile(bytes=16)

        @role(warps=1)
        def warp(self, me):
            if me.cta == 0:
                yield self.full.arrive_expect_tx(16)
                yield self.a.load(signals=self.full)
                yield self.full.wait(0)

    assert explore(compile_kernel(trace(Far()))).violations == {}


@pytest.mark.parametrize("address", [0, 8, 15, 16])
def test_bytes_of_two_buffers(address):
    class Placed(Pipeline):
        a = tile(bytes=16, address=0)
        b = tile(bytes=16, address=address)

        @role(warps=1)
        def warp(self):
            yield self.a.read()
            yield self.b.read()

    assert set(explore(compile_kernel(trace(Placed()))).violations) == ({"smem-overlap"} if address < 16 else set())


@pytest.mark.parametrize("count", [0, 1])
def test_arrival_counts(count):
    class Counts(Pipeline):
        p = barrier(arrivals=count)

        @role(warps=1)
        def warp(self):
            yield self.p.wait(1)

    assert ("barrier-init" in explore(compile_kernel(trace(Counts()))).violations) == (count < 1)


@pytest.mark.parametrize(("wants", "finds"), [(None, True), (1, True), (2, False)])
def test_data_that_a_read_finds(wants, finds):
    class Reads(Pipeline):
        a = tile(bytes=16)

        @role(warps=1)
        def warp(self):
            yield self.a.write(tag=1)
            yield self.a.read(tag=wants)

    assert set(explore(compile_kernel(trace(Reads()))).violations) == (set() if finds else {"stale-read"})
