"""Loops of a role's own: polls that end when something has come, and rings that go a number of steps for each tile that
the model leaves open.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role


class PollsForOneArrivalTooMany(Pipeline):
    """A GPU hangs although no thread waits: the consumer asks again and again."""

    expected = 2
    blocking = False
    full = barrier(arrivals="expected")

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        while not (yield self.full.test_wait(0) if self.blocking else self.full.try_wait(0)):
            pass


class Tiles(Pipeline):
    """Some blocks for each tile: a ring of one stage for the tile, one of `stages` for its blocks."""

    tile_full = barrier(arrivals=1, slots=1)
    tile_empty = barrier(arrivals=1, slots=1)
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        tile, at = PipelineState.start(1, producer=True), PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.tile_empty[tile].wait(tile.phase)
            yield self.tile_full[tile].arrive()
            tile += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.empty[at].wait(at.phase)
                yield self.full[at].arrive()
                at += 1

    @role(warps=1)
    def consumer(self):
        tile, at = PipelineState.start(1), PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.tile_full[tile].wait(tile.phase)
            blocks = yield self.choose("blocks", 1, 2)
            for _ in range(blocks):
                yield self.full[at].wait(at.phase)
                yield self.empty[at].arrive()
                at += 1
            if self.releases(blocks):
                yield self.tile_empty[tile].arrive()
            tile += 1

    def releases(self, blocks):
        return True


class RestartsWithEachTile(Pipeline):
    """Polls for the blocks of one tile after the other, and makes the state afresh for each: right only if a tile takes
    an even number of laps.
    """

    blocks = 3
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        while True:
            while not (yield self.empty[at].try_wait(at.phase)):
                pass
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def consumer(self):
        while True:
            at = PipelineState.start(self.stages)
            for _ in range(self.blocks):
                while not (yield self.full[at].try_wait(at.phase)):
                    pass
                yield self.empty[at].arrive()
                at += 1


class KeepsATileOfTwo(Tiles):
    """The release of the tile is in the branch for one block."""

    def releases(self, blocks):
        return blocks == 1


CASES = (
    (
        "polls for one arrival too many",
        PollsForOneArrivalTooMany(),
        {"deadlock": "consumer"},
        (PollsForOneArrivalTooMany(expected=1), PollsForOneArrivalTooMany(expected=1, blocking=True)),
    ),
    (
        "restarts a ring with each tile",
        RestartsWithEachTile(),
        {"deadlock": "producer", "phase-lapped": "full", "unobserved-phase": "empty"},
        (RestartsWithEachTile(blocks=2), RestartsWithEachTile(blocks=4, stages=2)),
    ),
    (
        "keeps a tile of two blocks",
        KeepsATileOfTwo(),
        {"deadlock": "producer"},
        (Tiles(stages=1),),
    ),
)
