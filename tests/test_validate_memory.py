"""The gate on shared memory: where barriers and buffers may lie, and how much of it a CTA has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from refusals import refusal

from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.collective import most_bytes
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx.limits import SHARED_OF_CTA, SHARED_OF_SM

PIPELINES = kernels("pipeline")


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


class StoresAndMore(PIPELINES["tma-store"]):
    more = tile(bytes=128, slots=1)


def test_what_is_declared_after_a_stride_lies_behind_its_last_slot():
    kernel = StoresAndMore(stages=3, bytes=8192)
    rest, more = (kernel.layout.regions[-2], kernel.layout.regions[-1])
    assert (rest.object, rest.stop) == ("rest[2]", 3 * 8192) and more.start == 3 * 8192
    assert kernel.layout.overlaps() == []


def test_a_value_is_its_own_tag():
    """Writes of one value do not race, and come in any order: the data that they leave is the same."""

    class Both(Pipeline):
        tagged = True
        a = tile(bytes=64, slots=1)

        @role(warps=1, copies=2)
        def both(self):
            yield self.a.write(1 if self.tagged else None, value=7)

    what, line = refusal(Both())
    assert what == "a with a tag and a value: a value is its own tag, leave the tag out" and "self.a.write" in line
    kernel = trace(Both(tagged=False))
    for program in kernel.programs:
        (node, *_) = program.nodes
        node.operation = replace(node.operation, tags=(1,))
    with pytest.raises(SpecError, match="the generic-proxy write of a of the value 7 has the tag 1: give it the value"):
        validate(kernel)
