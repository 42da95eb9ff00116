"""Programmatic dependent launch: a reduction that is launched while the split-K GEMM before it still runs.

The GEMM writes a partial sum in each of two clusters and lets the reduction be launched early. What the reduction does
before griddepcontrol.wait (its prologue) comes after nothing that the GEMM does; the second command reads too early.

$ verify spec examples/dependent_launch.py
PROVED
$ verify spec examples/dependent_launch.py --set waits=false
VIOLATED race
"""

from sm90_verify import Body, Pipeline, Threads, barrier, role, tile


class SplitKAndReduction(Pipeline):
    """Two clusters of the GEMM, one partial sum each; the roles of the second grid have grid=1."""

    clusters = 2
    waits = True

    partials = tile(bytes=4096, slots=2, space="global")
    full = barrier(arrivals=1)  # each CTA of each grid has its own
    bias = tile(bytes=1024)

    @role(warpgroups=1)
    def gemm(self, me: Threads) -> Body:
        yield self.launch_dependents()  # early: griddepcontrol.wait is for the end of this grid all the same
        yield self.partials[me.cluster].write()

    @role(warpgroups=1, grid=1, clusters=(0,))
    def reduction(self) -> Body:
        yield self.full[0].arrive_expect_tx(self.bias.bytes)  # the prologue reads nothing that the GEMM writes
        yield self.bias[0].load(signals=self.full[0])
        if self.waits:
            yield self.grid_wait()
        yield self.partials[0].read()  # wrong with waits=false
        yield self.partials[1].read()
        yield self.full[0].wait(0)
        yield self.bias[0].read()
