"""Waiting by hand: a warp polls two barriers with test_wait and takes whichever tile lands first.

test_wait never blocks: the yield gives True or False. The loop around it is `for _ in self.forever()`, which is left by
`break` or goes on for ever. A role that does nothing any more but fail tests is as stuck as
one that waits, and is reported as a deadlock. In the second command the second tile is never loaded.

$ verify spec examples/polling.py
PROVED
$ verify spec examples/polling.py --set loads=false
VIOLATED deadlock
"""

from sm90_verify import Body, Pipeline, barrier, role, tile


class Polling(Pipeline):
    """Two copies, one consumer that takes them in the order in which they arrive."""

    stages = 2
    loads = True

    full = barrier(arrivals=1)
    a = tile(bytes=4_096)

    @role(warps=1)
    def producer(self) -> Body:
        for stage in range(2 if self.loads else 1):
            yield self.full[stage].arrive_expect_tx(self.a.bytes)
            yield self.a[stage].load(signals=self.full[stage], tag=stage)

    @role(warps=4)
    def consumer(self) -> Body:
        first = second = False
        for _ in self.forever():
            if not first:
                first = yield self.full[0].test_wait(0)
                if first:
                    yield self.a[0].read(tag=0)
            if not second:
                second = yield self.full[1].test_wait(0)  # wrong with loads=false
                if second:
                    yield self.a[1].read(tag=1)
            if first and second:
                break
