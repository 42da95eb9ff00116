"""Rings that tests of several subjects build on."""

from __future__ import annotations

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class Filled(Pipeline):
    """A producer that waits, arms and copies. Who reads what it fills is for the others to say."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])
