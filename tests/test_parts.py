"""Parts of buffers, of roles and of warps in the language, and what cannot be meant by them."""

from __future__ import annotations

import pytest

from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op


class Halves(Pipeline):
    """Two warps of one role write halves of a buffer; 16 lanes of the second do nothing."""

    trips = 1
    apart = True
    a = tile(bytes=256, slots=1)

    @role(threads=64, split=(range(32), range(32, 48)))
    def both(self, me):
        yield self.a.part(128 * me.warp if self.apart else 64 * me.warp, 128).write()


def operations(pipeline: Pipeline, name: str) -> list[object]:
    (program,) = (one for one in trace(pipeline).programs if one.name == name)
    return [node.operation for node in program.nodes if node.operation is not None]


def test_parts_of_a_buffer_are_their_bytes():
    (write,) = operations(Halves(), "both.1")
    assert isinstance(write, op.Touch)
    assert [(one.start, one.stop, one.write) for one in write.accesses] == [(128, 256, True)]
    assert check(Halves()).verdict == PROVED
    assert check(Halves(apart=False)).verdict == VIOLATED


def test_threads_that_are_in_no_part_do_nothing():
    parts = {one.name: (one.me.threads, one.me.first, one.me.warp) for one in trace(Halves()).programs}
    assert parts == {"both.0": (32, 0, 0), "both.1": (16, 32, 1)}


def test_several_buffers_at_once():
    class Several(Pipeline):
        trips = 1
        a, b = tile(bytes=64, slots=2), tile(bytes=64, slots=1)

        @role(warps=1)
        def one(self):
            yield self.write(self.a[1].part(16, 16), self.b, value=7)
            yield self.read(self.a[1], self.a[0])
            yield self.red(self.a[0].part(0, 4), self.b.part(0, 4), scope="cta")

    write, read, red = operations(Several(), "one")
    assert [(one.object, one.stop - one.start, one.write, one.value) for one in write.accesses] == [
        ("a[1]", 16, True, 7),
        ("b", 64, True, 7),
    ]
    assert (write.kind, write.tags) == ("write", (7, 7))
    assert [(one.object, one.write) for one in read.accesses] == [("a[1]", False), ("a[0]", False)]
    assert [one.strong.scope for one in red.accesses] == ["cta", "cta"]


@pytest.mark.parametrize(("start", "bytes"), [(0, 257), (256, 1), (-1, 8), (0, 0), ("0", 8), (0, None)], ids=repr)
def test_a_part_lies_in_its_buffer(start, bytes):
    class Outside(Pipeline):
        a = tile(bytes=256, slots=1)

        @role(warps=1)
        def one(self):
            yield self.a.part(start, bytes).read()

    with pytest.raises(SpecError, match="of a: it has 256, and a part has 1 or more of them"):
        trace(Outside())


@pytest.mark.parametrize(
    ("threads", "split", "words"),
    [
        (32, (range(8), range(7, 16)), "is in one part at most"),
        (32, (range(8), range(16, 33)), "0 to 31"),
        (32, (range(8), ()), "each part has 1 thread or more"),
        (32, (range(8), ("x",)), "use a tuple of numbers"),
    ],
)
def test_parts_of_a_role_are_threads_of_it(threads, split, words):
    with pytest.raises(SpecError, match=words):

        class Wrong(Pipeline):
            @role(threads=threads, split=split)
            def one(self, me):
                yield self.warp_sync()

        trace(Wrong())


def test_numbers_and_ranges_go_together():
    class Mixed(Pipeline):
        trips = 1

        @role(threads=32, split=(1, range(4, 8), 24))
        def one(self, me):
            yield self.warp_sync()

    assert [(one.me.threads, one.me.first) for one in trace(Mixed()).programs] == [(1, 0), (4, 4), (24, 8)]


def test_what_a_barrier_of_some_lanes_is():
    class Lanes(Pipeline):
        trips = 1

        @role(threads=64, split=(range(16), range(16, 32), range(32, 64)))
        def one(self, me):
            if me.warp == 0:
                yield self.warp_sync(warp=me.warp)
                yield self.warp_sync(warp=me.warp, lanes=0xFFFFFFFF, orders=False)

    assert operations(Lanes(), "one.1") == [op.WarpSync(0), op.WarpSync(0, 0xFFFFFFFF, False)]
    assert check(Lanes()).verdict == PROVED


def test_a_mask_has_32_bits():
    class Lanes(Pipeline):
        @role(threads=32, split=(16, 16))
        def one(self, me):
            yield self.warp_sync(lanes=1 << 32)

    with pytest.raises(SpecError, match="a mask of lanes: 4294967296"):
        trace(Lanes())


def test_an_arrival_with_bytes_can_be_relaxed():
    class Relaxed(Pipeline):
        trips = 1
        full = barrier(arrivals=1, slots=1)

        @role(warps=1)
        def one(self):
            yield self.full.arrive_expect_tx(0, sem="relaxed", scope="cluster")

    (arrive,) = operations(Relaxed(), "one")
    assert (arrive.sem, arrive.scope) == ("relaxed", "cluster")


def test_a_warpgroup_whose_warps_are_parts():
    """A group that only some of them wait for is over for these alone when all have issued it."""

    class Parts(Pipeline):
        trips = 1
        joint = True
        a = tile(bytes=1024, slots=1)

        @role(threads=128, split=(32, 32, 32, 32))
        def math(self, me):
            yield self.mma(self.a, commit=False)
            yield self.mma_commit(joint=True)
            yield self.mma_wait(0, joint=self.joint)
            yield self.named_sync(1, 128)
            yield self.a.part(256 * me.warp, 256).write()

    assert check(Parts()).verdict == PROVED
    groups = [one for one in operations(Parts(), "math.3") if isinstance(one, op.Group)]
    assert groups == [op.Group("mma_commit", 0, True), op.Group("mma_wait", 0, True)]
