"""Registers of wgmma: accumulators and the matrix A (PTX ISA 9.7.15.7)."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class AccumulatorReadInFlight(Pipeline):
    """NVIDIA/cutlass #1263 and its like: the epilogue reads the accumulator with a group still in flight, since the
    last wait leaves one.
    """

    leaves = 1
    trips = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    b = tile(bytes=1024)
    acc = tile(bytes=64, slots=1, space="registers")

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.b.bytes)
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        for k in range(self.trips):
            yield self.full[0].wait(k & 1)
            yield self.b[0].mma(tag=k, into=self.acc)
            yield self.mma_wait(0 if k < self.trips - 1 else self.leaves)
            yield self.empty[0].arrive()
        yield self.acc.read()
        yield self.mma_wait(0)


class RescaledWithoutFence(Pipeline):
    """Dao-AILab/flash-attention: the softmax rescales the output accumulator between two wgmmas, and the fence that
    orders it before the second one is left out.
    """

    fences = False
    v = tile(bytes=1024)
    out = tile(bytes=64, slots=1, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        for _ in self.loop():
            yield self.v[0].mma(into=self.out)
            yield self.mma_wait(0)
            yield self.out.read()
            yield self.out.write()
            if self.fences:
                yield self.wgmma_fence()


class ConvertedInPlace(Pipeline):
    """The scores that one wgmma has accumulated are the matrix A of the next one: it waits for them, and does not
    fence.

    waits: for the first one. fences: before the second one.
    """

    waits = True
    fences = False
    q = tile(bytes=1024)
    k = tile(bytes=1024)
    v = tile(bytes=1024)
    scores = tile(bytes=64, space="registers")
    out = tile(bytes=64, space="registers")

    @role(warpgroups=1, copies=2)
    def math(self):
        yield self.wgmma_fence()
        yield self.mma(self.q[0], self.k[0], into=self.scores)
        if self.waits:
            yield self.mma_wait(0)
        if self.fences:
            yield self.wgmma_fence()
        yield self.mma(self.scores[0], self.v[0], into=self.out)
        yield self.mma_wait(0)
        yield self.out.read()


class NoFenceAtAll(Pipeline):
    """The first wgmma of a warpgroup comes before any wgmma.fence."""

    fences = False
    b = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        if self.fences:
            yield self.wgmma_fence()
        yield self.b[0].mma(into=self.acc, commit=False)
        yield self.b[0].mma(into=self.acc)
        yield self.mma_wait(0)
        yield self.acc.read()


CASES = [
    (
        "accumulator read in flight",
        AccumulatorReadInFlight(),
        {"register-hazard": "math.acc"},
        (AccumulatorReadInFlight(leaves=0),),
    ),
    (
        "accumulator rescaled",
        RescaledWithoutFence(),
        {"register-hazard": "math.out"},
        (RescaledWithoutFence(fences=True),),
    ),
    ("scores as A, unfenced", ConvertedInPlace(), {"register-hazard": "scores"}, (ConvertedInPlace(fences=True),)),
    (
        "scores as A, in flight",
        ConvertedInPlace(waits=False, fences=True),
        {"register-hazard": "scores"},
        (ConvertedInPlace(fences=True),),
    ),
    ("no wgmma.fence", NoFenceAtAll(), {"register-hazard": "math.acc"}, (NoFenceAtAll(fences=True),)),
]
