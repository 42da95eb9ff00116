"""Bulk stores: slots that are written again, fences, and who waits. D34, R02, R03, R04, R14, R15, R17,
R23, F16, F18.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class ReuseSmemC(Pipeline):
    """The CUTLASS SM90 TMA epilogue with ReuseSmemC (D34, F16; NVIDIA/cutlass #2106): D is written over the C that was
    read.

    A compile-time assertion of the library refuses delay with stages_c <= stages_d, since it would deadlock: the stages
    that the stores still hold are the ones for which the load waits.
    """

    stages_c = 1
    stages_d = 2
    delay = False
    subtiles = 2
    c_full = barrier(arrivals=1, slots="stages_c")
    c_empty = barrier(arrivals=1, slots="stages_c")
    c = tile(bytes=1024, slots="stages_c")

    @role(warps=1)
    def load(self):
        at = PipelineState.start(self.stages_c, producer=True)
        for _ in range(self.subtiles):
            yield self.c_empty[at].wait(at.phase)
            yield self.c[at].load(signals=self.c_full[at])
            yield self.c_full[at].arrive_expect_tx(self.c.bytes)
            at += 1

    @role(warpgroups=1)
    def store(self):
        store = PipelineState.start(self.stages_c, producer=True)
        release = PipelineState.start(self.stages_c)
        issued = 0
        last = None
        for _ in range(self.subtiles):
            wait = store.flip()  # load_wait_state: the store state with its phase inverted
            yield self.c_full[wait].wait(wait.phase)
            yield self.c[wait].read()
            if last is not None:
                release, issued = yield from self.tma_store(last, release, issued)
            yield self.c[store].write(tag=("d", store.number))
            if self.delay:
                last = store
            else:
                release, issued = yield from self.tma_store(store, release, issued)
            store += 1
        if last is not None:
            release, issued = yield from self.tma_store(last, release, issued)
        yield self.bulk_wait_read(0)
        for _ in range(min(self.stages_d - 1, issued)):
            yield self.c_empty[release].arrive()
            release += 1

    def tma_store(self, at, release, issued):
        yield self.fence_proxy_async()
        yield self.c[at].store(tag=("d", at.number))
        yield self.bulk_commit()
        yield self.bulk_wait_read(self.stages_d - 1)
        issued += 1
        if issued > self.stages_d - 1:
            yield self.c_empty[release].arrive()
            release += 1
        return release, issued


class OnlyTheIssuerWaits(Pipeline):
    """deepseek-ai/DeepGEMM 83aa960: bulk groups belong to a thread; that T0 waits for its store tells T1 nothing."""

    syncs = False
    waits = True
    trips = 2
    d = tile(bytes=512, slots=2)

    @role(warpgroups=1)
    def t0(self):
        for k in range(self.trips):
            if self.waits:
                yield self.bulk_wait_read(0)
            if self.syncs:
                yield self.named_sync(1, threads=256)
            yield self.d[0].write(tag=k)
            yield self.fence_proxy_async()
            yield self.named_sync(2, threads=256)
            yield self.d[0].store(tag=k)
            yield self.d[1].store(tag=k)
            yield self.bulk_commit()

    @role(warpgroups=1)
    def t1(self):
        for k in range(self.trips):
            if not self.waits:
                yield self.bulk_wait_read(0)  # no group of this thread: it does nothing
            if self.syncs:
                yield self.named_sync(1, threads=256)
            yield self.d[1].write(tag=k)
            yield self.fence_proxy_async()
            yield self.named_sync(2, threads=256)


class FencesAfterTheSync(Pipeline):
    """pytorch/ao #4278, jax-ml/jax cdae5fcfc7: one thread fences after the barrier, for writes that others have made,
    which is on the path between the two, as PTX has it (8.9.5), and not where CUTLASS has it.

    fence: "before" or "after" the barrier, by all or by the storing thread; or "" for none.
    """

    fence = "after"
    d = tile(bytes=64, slots=2)

    @role(threads=128, split=(1, 127))
    def warpgroup(self, me):
        yield self.d[me.index].write(tag=0)
        if self.fence == "before":
            yield self.fence_proxy_async()
        yield self.named_sync(1, threads=128)
        if me.leader:
            if self.fence == "after":
                yield self.fence_proxy_async()
            yield self.d[0].store(tag=0)
            yield self.d[1].store(tag=0)
            yield self.bulk_commit()
            yield self.bulk_wait_read(0)


class FencesInTheLoopOnly(Pipeline):
    """FlashKDA #24, NVIDIA/Fuser #4813: the fence is on a path that is skipped when the loop does not run."""

    always = False
    d = tile(bytes=1024)

    @role(warpgroups=1)
    def math(self):
        yield self.d.write(tag=0)
        tiles = yield self.choose("tiles", 0, 1)
        if tiles or self.always:
            yield self.fence_proxy_async()
        yield self.d.store(tag=0)
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)


class MultipliesWhatItWrote(Pipeline):
    """tile-ai/tilelang #2634: wgmma reads shared memory that ordinary stores have filled, without a proxy fence."""

    fenced = False
    a = tile(bytes=1024)

    @role(warpgroups=1, copies=2)
    def math(self, me):
        if me.copy == 0:
            yield self.a.write(tag=0)
            if self.fenced:
                yield self.fence_proxy_async()
        yield self.named_sync(1, threads=256)
        yield self.a.mma(tag=0)
        yield self.mma_wait(0)


class SlotRestartsEachTile(Pipeline):
    """NVIDIA/cutlass #3636: the slot of the output ring restarts with each tile, the stores in flight do not."""

    stages = 2
    subtiles = 3
    running = False
    trips = "forever"
    d = tile(bytes=512)

    @role(warpgroups=1)
    def epilogue(self):
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            if not self.running:
                at = PipelineState.start(self.stages)
            for _ in range(self.subtiles):
                yield self.bulk_wait_read(self.stages - 1)
                yield self.d[at].write()
                yield self.fence_proxy_async()
                yield self.d[at].store()
                yield self.bulk_commit()
                at += 1


class OutputRing(Pipeline):
    """jax-ml/jax 0a66e2d0a4, NVIDIA/Fuser #5448: a slot is written again while its last store may still be reading it.

    pending: what wait_group.read leaves in flight before a slot is written (-1: no wait).
    """

    stages = 2
    pending = 2
    trips = "forever"
    d = tile(bytes=512)

    @role(warpgroups=1)
    def epilogue(self, at):
        if self.pending >= 0:
            yield self.bulk_wait_read(self.pending)
        yield self.d[at].write()
        yield self.fence_proxy_async()
        yield self.d[at].store()
        yield self.bulk_commit()


class EditsTensormapInUse(Pipeline):
    """NVIDIA/cutlass #2162, deepseek-ai/DeepGEMM #343: a tensormap is edited while a store that uses it
    is in flight.
    """

    pending = 1
    trips = "forever"
    stages = 2
    d = tile(bytes=512)
    tensormap = tile(bytes=128, slots=1, space="global")

    @role(warps=1)
    def epilogue(self, at):
        yield self.bulk_wait_read(self.pending)
        yield self.tensormap.tensormap_replace()
        yield self.fence_proxy_tensormap_release()
        yield self.fence_proxy_tensormap_acquire(self.tensormap)
        yield self.d[at].write()
        yield self.fence_proxy_async()
        yield self.d[at].store(tensormap=self.tensormap)
        yield self.bulk_commit()


class SignalsBeforeTheWriteIsVisible(Pipeline):
    """HazyResearch/ThunderKittens #194: wait_group.read says that the source was read, not that the output is written.

    The flag in global memory that others spin on is written down as a barrier.
    """

    read_only = True
    flag = barrier(arrivals=1)
    d = tile(bytes=1024)
    out = tile(bytes=1024, space="global")

    @role(warpgroups=1)
    def epilogue(self):
        yield self.d.write(tag=0)
        yield self.fence_proxy_async()
        yield self.d.store(to=self.out, tag=0)
        yield self.bulk_commit()
        yield self.bulk_wait_read(0) if self.read_only else self.bulk_wait(0)
        yield self.flag.arrive()

    @role(warps=1)
    def peer(self):
        yield self.flag.wait(0)
        yield self.out.read()


class ExitsWithStoreInFlight(Pipeline):
    """deepseek-ai/DeepGEMM SM90 (F18): the kernel ends after the commit of its last store. `strict`
    demands the wait.
    """

    waits = False
    d = tile(bytes=1024)

    @role(warpgroups=1)
    def epilogue(self):
        yield self.d.write(tag=0)
        yield self.fence_proxy_async()
        yield self.d.store(tag=0)
        yield self.bulk_commit()
        if self.waits:
            yield self.bulk_wait_read(0)


CASES = (
    (
        "D34",
        ReuseSmemC(),
        {"deadlock": "load"},
        (ReuseSmemC(stages_c=2, subtiles=6), ReuseSmemC(stages_d=1, subtiles=6)),
    ),
    (
        "D34 delay",
        ReuseSmemC(stages_d=1, delay=True),
        {"deadlock": "load"},
        (ReuseSmemC(stages_c=2, stages_d=1, delay=True, subtiles=6),),
    ),
    (
        "F16",
        ReuseSmemC(stages_c=2, stages_d=2, delay=True, subtiles=3),
        {"deadlock": "load"},
        (ReuseSmemC(stages_c=3, stages_d=2, delay=True, subtiles=6),),
    ),
    (
        "R02",
        OnlyTheIssuerWaits(),
        {"race": "d[1]", "stale-read": "d[1]", "missing-fence": "t1"},
        (OnlyTheIssuerWaits(syncs=True), OnlyTheIssuerWaits(syncs=True, trips=3)),
    ),
    (
        "R02 other thread",
        OnlyTheIssuerWaits(syncs=True, waits=False),
        {"race": "d[1]"},
        (OnlyTheIssuerWaits(syncs=True),),
    ),
    (
        "R03",
        FencesAfterTheSync(strict=True),
        {"missing-fence": "warpgroup.1"},
        (FencesAfterTheSync(strict=True, fence="before"), FencesAfterTheSync()),
    ),
    ("R04", FencesAfterTheSync(fence=""), {"missing-fence": "d[0]"}, (FencesAfterTheSync(fence="before"),)),
    ("R04 path", FencesInTheLoopOnly(), {"missing-fence": "d"}, (FencesInTheLoopOnly(always=True),)),
    ("R04 wgmma", MultipliesWhatItWrote(), {"missing-fence": "a"}, (MultipliesWhatItWrote(fenced=True),)),
    (
        "R14",
        SlotRestartsEachTile(),
        {"race": "d[0]"},
        (SlotRestartsEachTile(running=True), SlotRestartsEachTile(subtiles=4)),
    ),
    ("R15", OutputRing(), {"race": "d[0]"}, (OutputRing(pending=1), OutputRing(pending=0))),
    ("R15 no wait", OutputRing(stages=1, pending=-1), {"race": "d"}, (OutputRing(stages=1, pending=0),)),
    ("R17", EditsTensormapInUse(), {"race": "tensormap"}, (EditsTensormapInUse(pending=0),)),
    ("R23", SignalsBeforeTheWriteIsVisible(), {"race": "out"}, (SignalsBeforeTheWriteIsVisible(read_only=False),)),
    (
        "F18",
        ExitsWithStoreInFlight(strict=True),
        {"exit-hazard": "epilogue"},
        (ExitsWithStoreInFlight(), ExitsWithStoreInFlight(strict=True, waits=True)),
    ),
)
