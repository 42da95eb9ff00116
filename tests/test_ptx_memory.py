"""Where the bytes of a PTX kernel's buffers come to lie: around barriers, and below matrices."""

from __future__ import annotations

from sm90_verify.frontends.ptx.events import Accessed, BarrierAt, CopiedIn, Initialised, Multiplied
from sm90_verify.frontends.ptx.memory_map import memory_map

BASE = 0x400


def moved(found, ranges):
    return [(one.object, one.start, one.stop) for one in found.pieces(0, ranges, write=False, asynchronous=True)]


class Named:
    """Names that are asked for barriers alone."""

    buffers = {}

    def barrier(self, address):
        return f"bar_{address:#x}"


def test_bytes_around_a_barrier_do_not_come_to_lie_in_it():
    """All of the memory is written once; afterwards two warps use every other word, before the barrier and behind."""
    at = BarrierAt(0, BASE + 32)
    everything = ((BASE, BASE + 72),)
    places = (*range(0, 32, 4), *range(40, 72, 4))
    even, odd = (tuple((BASE + place, BASE + place + 4) for place in places[first::2]) for first in (0, 1))
    events = (
        Accessed(0, everything, True),
        Initialised(at, 1),
        Accessed(0, even, True),
        Accessed(0, odd, True),
    )
    found = memory_map([(0, one) for one in events], [""], Named(), BASE)
    ranges = [tuple(piece) for some in (even, odd) for _, *piece in moved(found, some)]
    assert sorted(ranges) == [(BASE + at, BASE + at + 16) for at in (0, 16, 40, 56)]
    under = found.layout().under
    assert [region.object for some in under.values() for region in some] == ["bar_0x420"]


def test_a_matrix_stays_aligned_where_a_word_of_another_is_read():
    at = BarrierAt(0, BASE)
    stage = ((0x800, 0x880),)
    rows = tuple((0x800 + 32 * row, 0x810 + 32 * row) for row in range(4))
    others = tuple((0x810 + 32 * row, 0x820 + 32 * row) for row in range(4))
    word = ((0x810, 0x814),)
    events = (
        Initialised(at, 1),
        CopiedIn((0,), stage, (at,), 128, (), 0, 0x800),
        Accessed(0, word, False),
        Multiplied(rows),
        Multiplied(others),
    )
    found = memory_map([(0, one) for one in events], [""], Named(), BASE)
    for matrix in (rows, others):
        pieces = moved(found, matrix)
        assert sum(stop - start for _, start, stop in pieces) == 64
        assert all(start % 16 == 0 for _, start, _ in pieces)
    ((_, start, stop),) = moved(found, word)
    assert stop - start == 4
    assert any(first <= start and stop <= last for _, first, last in moved(found, others))


def test_bytes_without_a_name_have_their_place():
    """Static shared memory lies before the dynamic one."""
    events = tuple(Accessed(0, ((place, place + 16),), True) for place in (BASE, BASE + 0x80, BASE + 0x100))
    found = memory_map([(0, one) for one in events], [""], Named(), BASE + 0x80)
    names = [name for one in events for name, _, _ in moved(found, one.ranges)]
    assert names == ["static_0x400", "smem_0x0", "smem_0x80"]
