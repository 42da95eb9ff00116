"""Where the reduced search lets copies land although somebody may be about to expect their bytes."""

from __future__ import annotations

import pytest

from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class ExpectsLater(Pipeline):
    """Somebody is about to expect bytes where those of the second copy are in flight: in the same phase, or later."""

    arrivals = 1
    full = barrier(arrivals="arrivals")
    go = barrier(arrivals=1)
    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.expect_tx(64)
        yield self.full.arrive()
        yield self.a.load(signals=self.full)
        yield self.go.arrive()

    @role(warps=1)
    def two(self):
        yield self.full.arrive_expect_tx(64)
        yield self.b.load(signals=self.full)

    @role(warps=1)
    def looks(self):
        yield self.go.wait(0)
        yield self.full.test_wait(0)


@pytest.mark.parametrize("arrivals", [1, 2])
def test_copies_land_where_bytes_are_about_to_be_expected_only_if_no_arrival_is_pending(arrivals):
    machine = compile_kernel(trace(ExpectsLater(arrivals=arrivals)))
    assert any(info.balanced for info in machine.structure.barriers)

    def states(drained=None):
        packed = pack(machine, exchange=True)
        if drained is not None:
            packed = packed._replace(drained=tuple((lambda state: drained) for _ in packed.drained))
        search = Search(packed, SearchBounds(), False)
        search.reduced = True
        return search.run().states

    if arrivals == 1:
        assert states(False) < states() == states(True)
    else:
        assert states(False) == states() < states(True)
