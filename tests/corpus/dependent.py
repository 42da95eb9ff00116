"""Programmatic dependent launch: what a grid does before griddepcontrol.wait comes after nothing of the grid before,
whenever that has executed launch_dependents (PTX ISA 9.7.13.13).
"""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class ReadsThePartials(Pipeline):
    """A reduction kernel that is launched behind the split-K GEMM whose partial sums it reads.

    waits: before it reads, after the first of two reads, or not at all. triggers: where the GEMM lets it be launched,
    before or after its last store; either is right, since the wait is for the end of the GEMM.
    """

    waits = "before"
    triggers = "early"
    partials = tile(bytes=1024, slots=2, space="global")

    @role(warpgroups=1)
    def gemm(self):
        yield self.partials[0].write(tag=0)
        if self.triggers == "early":
            yield self.launch_dependents()
        yield self.partials[1].write(tag=1)
        if self.triggers == "late":
            yield self.launch_dependents()

    @role(warpgroups=1, grid=1)
    def reduction(self):
        if self.waits == "before":
            yield self.grid_wait()
        yield self.partials[0].read()
        if self.waits == "between":
            yield self.grid_wait()
        yield self.partials[1].read()


class OverwritesTheInput(Pipeline):
    """The second kernel clears a workspace that the first still reads: that the first has executed launch_dependents
    after its reads is no order of memory, and of its other warps says nothing at all.
    """

    waits = False
    workspace = tile(bytes=1024, slots=1, space="global")

    @role(warps=1, copies=2)
    def reader(self, me):
        if me.copy == 0:
            yield self.workspace.read()
            yield self.launch_dependents()
        else:
            yield self.workspace.read()

    @role(warps=1, grid=1)
    def clears(self):
        if self.waits:
            yield self.grid_wait()
        yield self.workspace.write()


class OnlyTheProducerWaits(Pipeline):
    """A producer warp executes griddepcontrol.wait; the consumers read a bias that the grid before has written, behind
    the full barrier, or before they come to it.
    """

    behind = True
    full = barrier(arrivals=1)
    a = tile(bytes=1024)
    bias = tile(bytes=64, slots=1, space="global")

    @role(warps=1)
    def before(self):
        yield self.launch_dependents()
        yield self.bias.write(tag="bias")

    @role(warps=1, grid=1)
    def producer(self):
        yield self.grid_wait()
        yield self.full[0].arrive_expect_tx(1024)
        yield self.a[0].load(signals=self.full[0])

    @role(warpgroups=1, grid=1)
    def consumer(self):
        if not self.behind:
            yield self.bias.read()
        yield self.full[0].wait(0)
        if self.behind:
            yield self.bias.read(tag="bias")
        yield self.a[0].read()


class StoresOfTheGridBefore(Pipeline):
    """The grid before ends while its bulk store is in flight: whoever waits for that grid waits for the store too."""

    waits = True
    d = tile(bytes=1024)
    out = tile(bytes=1024, slots=1, space="global")

    @role(warps=1)
    def epilogue(self):
        yield self.d[0].write()
        yield self.fence_proxy_async()
        yield self.d[0].store(to=self.out[0])
        yield self.bulk_commit()

    @role(warps=1, grid=1)
    def next(self):
        if self.waits:
            yield self.grid_wait()
        yield self.out.read()


class WaitsForOneGridOnly(Pipeline):
    """A grid that waits behind its own barrier: cluster 1 has its own, and nobody has waited for it."""

    clusters = 2
    both = True
    full = barrier(arrivals=1)
    out = tile(bytes=16, slots=2, space="global")

    @role(warps=1)
    def writer(self, me):
        yield self.out[me.cluster].write()

    @role(warps=1, grid=1)
    def waiter(self, me):
        if self.both or me.cluster == 0:
            yield self.grid_wait()
        yield self.full[0].arrive()

    @role(warps=1, grid=1)
    def reader(self, me):
        yield self.full[0].wait(0)
        yield self.out[me.cluster].read()


CASES = [
    (
        "G11 no griddepcontrol.wait",
        ReadsThePartials(waits=""),
        {"race": "partials[0] or partials[1]"},
        (ReadsThePartials(), ReadsThePartials(triggers="late"), ReadsThePartials(triggers="")),
    ),
    (
        "G12 griddepcontrol.wait after the first read",
        ReadsThePartials(waits="between", triggers="late"),
        {"race": "partials[0]"},
        (ReadsThePartials(triggers="late"),),
    ),
    ("G13 overwritten before the wait", OverwritesTheInput(), {"race": "workspace"}, (OverwritesTheInput(waits=True),)),
    ("G14 only one warp waits", OnlyTheProducerWaits(behind=False), {"race": "bias"}, (OnlyTheProducerWaits(),)),
    ("G15 a store of the grid before", StoresOfTheGridBefore(waits=False), {"race": "out"}, (StoresOfTheGridBefore(),)),
    ("G16 only one cluster waits", WaitsForOneGridOnly(both=False), {"race": "out[1]"}, (WaitsForOneGridOnly(),)),
]
