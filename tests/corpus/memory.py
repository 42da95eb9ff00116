"""Bytes that two objects share, and the two proxies through which bytes are reached. R05, R25, R28."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class RefillsWhatWasReadGenerically(Pipeline):
    """deepseek-ai/DeepEP #621, NVIDIA/TransformerEngine #2695: ordinary loads, a release, and a bulk copy over the
    bytes.

    PTX asks for a proxy fence, projects disagree whether hardware needs it: a question of policy, which `strict`
    decides.
    """

    fenced = False
    trips = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    b = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.b.bytes)
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.b[at].read()
        if self.fenced:
            yield self.fence_proxy_async()
        yield self.empty[at].arrive()


class IndexRangesOverlap(Pipeline):
    """Dao-AILab/flash-attention #2229: x[2 * i] and x[q * i + 1] are meant to interleave, which they do for q = 2
    alone.
    """

    q = 1
    even = tile(bytes=16, slots=2, stride=32, address=0)
    odd = tile(bytes=16, slots=2, stride=lambda self: 16 * self.q, address=16)

    @role(warps=1)
    def first(self):
        for i in range(2):
            yield self.even[i].write(tag=i)

    @role(warps=1)
    def second(self):
        for i in range(2):
            yield self.odd[i].write(tag=i)


class TwoRolesAtOneAddress(Pipeline):
    """superAngGao/TileOPs-report #8: the buffers of two roles that run at the same time are placed in
    the same bytes.
    """

    p1 = tile(bytes=1024, address=0)
    p2 = tile(bytes=1024, address=0)

    @role(warpgroups=1)
    def first(self):
        yield from self.write_and_multiply(self.p1)

    @role(warpgroups=1)
    def second(self):
        yield from self.write_and_multiply(self.p2)

    def write_and_multiply(self, p):
        yield p.write(tag="p")
        yield self.fence_proxy_async()
        yield p.mma(tag="p")
        yield self.mma_wait(0)


class TwoRolesApart(TwoRolesAtOneAddress):
    """Each has bytes of its own."""

    p2 = tile(bytes=1024, address=1024)


class SharedByDeclaration(TwoRolesAtOneAddress):
    """The layout declares the reuse, and nothing orders the two."""

    p1 = tile(bytes=1024)
    p2 = tile(bytes=1024, shares="p1")


class SharedInTurn(SharedByDeclaration):
    """The layout declares the reuse, and the second role waits until the first is done."""

    @role(warpgroups=1)
    def first(self):
        yield from self.write_and_multiply(self.p1)
        yield self.named_arrive(1, threads=256)

    @role(warpgroups=1)
    def second(self):
        yield self.named_sync(1, threads=256)
        yield from self.write_and_multiply(self.p2)


CASES = (
    (
        "R05",
        RefillsWhatWasReadGenerically(strict=True),
        {"missing-fence": "b"},
        (
            RefillsWhatWasReadGenerically(strict=True, fenced=True, trips="all"),
            RefillsWhatWasReadGenerically(trips="all"),
        ),
    ),
    ("R25", IndexRangesOverlap(), {"smem-overlap": "odd[1]", "race": "odd[1]"}, (IndexRangesOverlap(q=2),)),
    (
        "R28",
        TwoRolesAtOneAddress(),
        {"smem-overlap": "p2", "race": "p1", "stale-read": "p", "missing-fence": "p"},
        (TwoRolesApart(),),
    ),
    (
        "R28 declared",
        SharedByDeclaration(),
        {"race": "p1", "stale-read": "p", "missing-fence": "p"},
        (SharedInTurn(),),
    ),
)
