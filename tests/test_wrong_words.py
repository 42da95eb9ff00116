"""What words a run may find and leave, and which are wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from simulated import Overwrites

from sm90_verify.gpu.wrong import wrong_data
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.language.declarations import role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access


class TwoMmas(Pipeline):
    a = tile(bytes=1024)
    b = tile(bytes=1024)

    @role(warps=4)
    def consumer(self):
        for _ in range(2):
            yield self.mma(self.a[0], self.b[0], commit=True)
        yield self.mma_wait(0)


@pytest.mark.parametrize(("word", "wrong"), [(1, ""), (2, "found b of 'y', not of 'x'")])
def test_what_is_in_registers_is_not_among_what_was_read(word, wrong):
    """The words that were found belong to the operands in shared memory."""
    registers, shared = (Access(*names, 0, 16, False, "async") for names in (("a", "registers"), ("b", "shared")))
    mma = op.Touch("mma", (registers, shared), (0, "x"))
    plan = SimpleNamespace(
        nodes={"math": [SimpleNamespace(operation=mma)]},
        stores=(),
        written={1: ("x", (shared,)), 2: ("y", (shared,))},
        derived=frozenset(),
        initial={},
    )
    found = wrong_data(plan, GpuRun(False, (RoleRun("math", -1, (Event(0, 0, 1, False, (("b", word, word),)),)),)))
    assert wrong in found and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("second", "wrong"),
    [((("a", 2, 2), ("b", 3, 3)), "b changed"), ((("a", 2, 2), ("b", 2, 2)), "")],
)
def test_an_mma_reads_its_operands_until_it_is_waited_for(second, wrong):
    """Two MMAs of the same buffers are in flight: each reading belongs to its own."""
    plan = lower(trace(TwoMmas()))
    first, again = (("a", 1, 1), ("b", 1, 1)), (("a", 2, 2), ("b", 2, 2))
    events = [Event(0, 0, 1, False, first), Event(1, 1, 2, False, again), Event(2, 2, 3, False, (*first, *second))]
    found = wrong_data(plan, GpuRun(False, (RoleRun("consumer", -1, tuple(events)),)))
    assert wrong in found and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("reads", "wrong"),
    [
        ((("a", 1, 1),), ""),
        ((("a", 2, 2),), "of 1, not of 0"),
        ((("a", 99, 99),), "of None, not of 0"),
        ((("a", 1, 2),), "writes 1 and 2"),
        ((("a", 0, 0),), "nothing in a"),
    ],
)
def test_wrong_words_are_recognised(reads, wrong):
    plan = lower(trace(Overwrites()))
    run = GpuRun(False, (RoleRun("consumer", -1, (Event(0, 0, 1, False), Event(1, 1, 2, False, reads))),))
    found = wrong_data(plan, run)
    assert wrong in found and bool(found) == bool(wrong)


class OverEachOther(Pipeline):
    """Two buffers in the same bytes, both of tag 0."""

    a = tile(bytes=64, address=0)
    b = tile(bytes=64, address=0, shares="a")

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=0)
        yield self.b.write(tag=0)
        yield self.b.read(tag=0)
        yield self.b.store(tag=0)
        yield self.b.read()


def test_what_was_written_to_another_buffer_in_the_same_bytes_is_wrong():
    plan = lower(trace(OverEachOther()))

    def wrong(read, stored, last):
        events = (Event(2, 0, 1, False, (("b", read, read),)), Event(4, 1, 2, False, (("b", last, last),)))
        return wrong_data(plan, GpuRun(False, (RoleRun("one", -1, events),), ((stored, stored),)))

    assert wrong(2, 2, 2) == "" and wrong(2, 2, 1) == ""  # the last one expects nothing
    assert wrong(1, 2, 2) == "one found b as it was written to a"
    assert wrong(2, 1, 2) == "the store of one took b as it was written to a"


def test_wrong_words_in_the_output_are_recognised():
    plan = lower(trace(Epilogue(schedule="ws", stages_c=2, stages_d=1, subtiles=2, tiles=1)))
    nodes = {program.name: program.nodes for program in plan.programs}
    written = {}
    for number, (name, node) in plan.writers.items():
        operation = nodes[name][node].operation
        if isinstance(operation, op.Touch):
            written[operation.accesses[0].start, operation.tags[0]] = number
    right = []
    for name, node, access, _ in plan.stores:
        (tag, _) = nodes[name][node].operation.tags
        right.append(written[access.start, tag])
    assert len(set(right)) == 4

    def wrong(*stored):
        return wrong_data(plan, GpuRun(False, (), tuple((low, high) for low, high in stored)))

    good = [(number, number) for number in right]
    assert wrong(*good) == ""
    assert f"writes {right[0]} and {right[1]} from d.store_warp[0]" in wrong((right[0], right[1]), *good[1:])
    assert "of 1, not of 0" in wrong((right[2], right[2]), *good[1:])
