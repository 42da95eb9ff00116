"""What a thread has in flight, group by group, and where buffers lie."""

from __future__ import annotations

import pytest

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.limits import MMA_GROUPS
from sm90_verify.spec.ptx.memory import Access


def bytes_of(name: str, proxy: str = "async", *, write: bool = False, space: str = "shared") -> Access:
    start = 1024 * "abcd".index(name)
    return Access(name, space, start, start + 1024, write, proxy)


def mma(name: str, *, commit: bool = True) -> op.Touch:
    return op.Touch("mma", (bytes_of(name),), (None,), commit)


def store(name: str) -> op.Store:
    return op.Store((bytes_of(name),), (None,), bytes_of(name, write=True, space="global"))


def after(*operations: op.Operation) -> Held:
    held = IDLE
    for operation in operations:
        held = held.after(operation)
    return held


def reading(held: Held) -> str:
    return "".join(access.object for access in held.in_progress() if not access.write)


def writing(held: Held) -> str:
    return "".join(access.object for access in held.in_progress() if access.write)


def test_wgmma_reads_until_its_group_is_waited_for() -> None:
    """9.7.15.7: wait_group N leaves the N most recent groups."""
    groups = (mma("a"), mma("b"), mma("c"))
    for pending, left in enumerate(("", "c", "bc", "abc", "abc")):
        assert reading(after(*groups, op.Group("mma_wait", pending))) == left


def test_wgmma_that_is_not_committed_is_not_waited_for() -> None:
    """9.7.15.7.2: commit_group closes a group; wait_group knows nothing of what is not in one."""
    assert reading(after(mma("a", commit=False), op.Group("mma_wait", 0))) == "a"
    assert reading(after(mma("a", commit=False), op.Group("mma_commit"), op.Group("mma_wait", 0))) == ""


def test_one_commit_closes_all_that_was_issued() -> None:
    held = after(mma("a", commit=False), mma("b"), mma("c"))
    assert reading(held.after(op.Group("mma_wait", 1))) == "c"


def test_empty_group_counts_as_a_group() -> None:
    assert reading(after(mma("a"), op.Group("mma_commit"), op.Group("mma_wait", 1))) == ""


def test_groups_beyond_what_a_wait_can_name_are_merged() -> None:
    """A loop that never waits comes back to where it was."""
    held = after(*[mma("a")] * MMA_GROUPS)
    assert held.after(mma("a")) == held


def test_bulk_store_reads_and_writes_until_its_group_is_waited_for() -> None:
    """9.7.9.25.6: with .read only the source is known to be free."""
    held = after(store("a"), op.Group("bulk_commit"))
    assert (reading(held), writing(held)) == ("a", "a")
    read = held.after(op.Group("bulk_wait_read", 0))
    assert (reading(read), writing(read)) == ("", "a")
    assert read.after(op.Group("bulk_wait", 0)) == IDLE


def test_bulk_wait_leaves_the_newest_groups() -> None:
    groups = (store("a"), op.Group("bulk_commit"), store("b"), op.Group("bulk_commit"))
    read = after(*groups, op.Group("bulk_wait_read", 1))
    assert (reading(read), writing(read)) == ("b", "ab")
    assert reading(read.after(op.Group("bulk_wait_read", 1))) == "b"
    done = after(*groups, op.Group("bulk_wait", 1))
    assert (reading(done), writing(done)) == ("b", "b")


def test_bulk_store_that_is_not_committed_is_not_waited_for() -> None:
    held = after(store("a"), op.Group("bulk_wait", 0))
    assert (reading(held), writing(held)) == ("a", "a")


def test_bulk_store_reads_its_tensormap_until_then() -> None:
    tensormap = bytes_of("d", space="global")
    held = after(op.Store((bytes_of("a"),), (None,), None, tensormap), op.Group("bulk_commit"))
    assert tensormap in held.in_progress()
    assert tensormap not in held.stores()
    assert held.after(op.Group("bulk_wait_read", 0)) == IDLE


def test_fence_covers_the_generic_accesses_before_it() -> None:
    write = op.Touch("write", (bytes_of("a", "generic", write=True),), (0,))
    assert after(write).unfenced
    assert after(write, op.Fence("proxy_async")).unfenced == ()
    assert after(op.Fence("proxy_async"), write).unfenced


def test_either_fence_makes_an_initialisation_visible() -> None:
    assert after(op.Init("full", 1)).unfenced_inits == ("full",)
    assert after(op.Init("full", 1), op.Fence("mbarrier_init")).unfenced_inits == ()
    assert after(op.Init("full", 1), op.Fence("proxy_async")).unfenced_inits == ()
    assert after(op.Fence("mbarrier_init"), op.Init("full", 1)).unfenced_inits == ("full",)


# ---------------------------------------------------------------- layout


class Placed(Pipeline):
    """Two buffers and a barrier in 4 KiB."""

    stages = 2
    b_at = 2048
    b_stride = 1024
    full = barrier(address=4096)
    a = tile(bytes=1024, address=0)
    b = tile(bytes=1024, address=2048, stride="b_stride")

    @role(warps=1)
    def nobody(self):
        yield self.cta_sync()


def overlapping(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(one.object, other.object) for one, other in pipeline.layout.overlaps()]


def test_layout_without_overlap() -> None:
    assert overlapping(Placed()) == []


def test_layout_overlaps_slot_by_slot() -> None:
    class Nearer(Placed):
        b = tile(bytes=1024, address=1024)

    assert overlapping(Nearer()) == [("a[1]", "b[0]")]


def test_overlap_of_a_single_byte() -> None:
    class Longer(Placed):
        a = tile(bytes=1025, stride=1024, slots=2, address=0)

    assert overlapping(Longer()) == [("a[1]", "b[0]")]


def test_barrier_inside_a_buffer() -> None:
    class Inside(Placed):
        full = barrier(address=2048 + 1024 - 8, slots=1)

    assert overlapping(Inside()) == [("b[0]", "full")]


def test_overlap_that_is_declared() -> None:
    class Shared(Placed):
        d = tile(bytes=2048, slots=1, shares="b")

    layout = Shared().layout
    assert layout.overlaps() == []
    start = {region.object: region.start for region in layout.regions}
    assert start["d"] == start["b[0]"] == 2048


@pytest.mark.parametrize("space", ["global", "registers"])
def test_spaces_do_not_overlap(space: str) -> None:
    class Elsewhere(Placed):
        c = tile(bytes=4096, slots=1, space=space, address=0)

    assert overlapping(Elsewhere()) == []


def test_what_has_no_address_is_placed_behind_what_has_one() -> None:
    class More(Placed):
        c = tile(bytes=100)

    assert [region.start % 128 for region in More().layout.regions if region.object == "c[0]"] == [0]
    assert overlapping(More()) == []


# ---------------------------------------------------------------- what a release orders


def relaxed(*operations: op.Operation) -> Held:
    """What is held after them and a barrier.cluster.arrive.relaxed, where that is followed."""
    held = IDLE._replace(tracks=True)
    for operation in (*operations, op.ClusterArrive(release=False)):
        held = held.after(operation)
    return held


def test_generic_accesses_since_the_last_release_are_left_without_one() -> None:
    read, write = bytes_of("a", "generic"), bytes_of("b", "generic", write=True)
    touches = op.Touch("read", (read,), (None,)), op.Touch("write", (write,), (None,))
    assert relaxed(*touches).unordered == (read, write)
    assert relaxed(*touches).recent == ()
    assert relaxed(op.Init("x", 1, write=write), op.Inval("y", write=read)).unordered == (write, read)
    assert relaxed(op.Init("x", 1), op.Inval("y"), mma("a"), store("b")).unordered == ()
    for release in (op.Arrive("x"), op.NamedSync(1, 64), op.CtaSync(), op.ClusterArrive()):
        assert relaxed(*touches, release).unordered == ()
        assert relaxed(*touches).after(release).unordered == ()
    for other in (op.WarpSync(), op.Wait("x", 0), op.Fence("proxy_async"), op.ClusterWait()):
        assert relaxed(*touches, other).unordered == (read, write)
    assert IDLE.after(touches[0]).recent == ()


@pytest.mark.parametrize("shared", [False, True])
def test_an_init_writes_bytes_where_a_buffer_lies_in_them_too(shared: bool) -> None:
    class Crowded(Pipeline):
        p = barrier(initialised=False)
        a = tile(bytes=64, **({"shares": "p"} if shared else {}))

        @role(warps=1)
        def warp(self):
            yield self.p.init(1)
            yield self.p.inval()

    (program,) = trace(Crowded()).programs
    assert [node.operation.write is not None for node in program.nodes[:2]] == [shared, shared]
