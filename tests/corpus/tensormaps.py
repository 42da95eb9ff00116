"""Tensormaps that the kernel writes: released by who writes them, acquired by who uses them."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile, word


class HandsOverATensormap(Pipeline):
    """One role modifies a tensormap, another one stores or loads with it, as in a grouped GEMM.

    releases: the writer, before it arrives. acquires: the user, "after" its wait or "before" it, or not at all ("").
    orders: the user waits for the writer before it uses the tensormap. uses: "store" or "load".
    """

    releases = True
    acquires = "after"
    orders = True
    uses = "store"
    trips = 2
    ready = barrier(arrivals=1)
    used = barrier(arrivals=1)
    full = barrier(arrivals=1)
    d = tile(bytes=64)
    tensormap = tile(bytes=128, space="global")

    @role(warps=1)
    def writer(self, at):
        yield self.used[at].wait(at.phase ^ 1)
        yield self.tensormap[at].tensormap_replace(tag=at.count)
        if self.releases:
            yield self.fence_proxy_tensormap_release()
        yield self.ready[at].arrive()

    @role(warps=1)
    def user(self, at):
        if self.acquires == "before":
            yield self.fence_proxy_tensormap_acquire(self.tensormap[at])
        if self.orders:
            yield self.ready[at].wait(at.phase)
        if self.acquires == "after":
            yield self.fence_proxy_tensormap_acquire(self.tensormap[at])
        if self.uses == "store":
            yield self.d[0].store(tensormap=self.tensormap[at])
            yield self.bulk_commit()
            yield self.bulk_wait(0)
        else:
            yield self.full[at].arrive_expect_tx(64)
            yield self.d[0].load(signals=self.full[at], tensormap=self.tensormap[at])
            yield self.full[at].wait(at.phase)
        if not self.orders:
            yield self.ready[at].wait(at.phase)
        yield self.used[at].arrive()


class FencesItForTheAsyncProxy(HandsOverATensormap):
    """fence.proxy.async orders nothing for the proxy through which tensormaps are read."""

    @role(warps=1)
    def writer(self, at):
        yield self.used[at].wait(at.phase ^ 1)
        yield self.tensormap[at].tensormap_replace(tag=at.count)
        yield self.fence_proxy_async()
        yield self.ready[at].arrive()


class EditsItsOwn(Pipeline):
    """One warp modifies a tensormap in shared memory, copies it with tensormap.cp_fenceproxy, and stores with the copy.

    acquires: the copy, before each use. waits: until the last store has read it.
    """

    acquires = True
    waits = True
    trips = "all"
    d = tile(bytes=64)
    edited = tile(bytes=128)
    tensormap = tile(bytes=128, space="global")

    @role(warps=1)
    def epilogue(self, at):
        yield self.edited[0].tensormap_replace(tag=at.count)
        yield self.tensormap[0].tensormap_cp_fenceproxy(self.edited[0], tag=at.count)
        if self.acquires:
            yield self.fence_proxy_tensormap_acquire(self.tensormap[0])
        yield self.d[0].store(tensormap=self.tensormap[0])
        yield self.bulk_commit()
        if self.waits:
            yield self.bulk_wait(0)


class ReleasesToItsOwnCta(Pipeline):
    """The tensormap is used in another CTA of the cluster: both fences need a scope that has both threads."""

    cluster = "2x1"
    release = "gpu"
    acquire = "gpu"
    ready = barrier(arrivals=1)
    d = tile(bytes=64)
    tensormap = tile(bytes=128, space="global")

    @role(warps=1)
    def one(self, me):
        if me.cta == 0:
            yield self.tensormap.tensormap_replace()
            yield self.fence_proxy_tensormap_release(self.release)
            yield self.ready[0].on(1).arrive()
        else:
            yield self.ready.wait(0)
            yield self.fence_proxy_tensormap_acquire(self.tensormap, self.acquire)
            yield self.d.store(tensormap=self.tensormap)
            yield self.bulk_commit()
            yield self.bulk_wait(0)
        yield self.cluster_arrive()
        yield self.cluster_wait()


class AcquiresAfterARelaxedFlag(Pipeline):
    """The user acquires once it has seen a flag that is relaxed: the release is not before that acquire."""

    sem = "relaxed"
    flag = word()
    written = barrier(arrivals=1)
    d = tile(bytes=64)
    tensormap = tile(bytes=128, space="global")

    @role(warps=1)
    def writer(self):
        yield self.tensormap.tensormap_replace()
        yield self.fence_proxy_tensormap_release()
        yield self.flag.st(1, sem=self.sem, scope="gpu")
        yield self.written.arrive()

    @role(warps=1)
    def user(self):
        yield self.flag.spin(equals=1, sem="acquire", scope="gpu")
        yield self.fence_proxy_tensormap_acquire(self.tensormap)
        yield self.written.wait(0)
        yield self.d.store(tensormap=self.tensormap)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


CASES = (
    (
        "tensormap not released",
        HandsOverATensormap(releases=False),
        {"missing-fence": "tensormap"},
        (HandsOverATensormap(trips="all"),),
    ),
    (
        "tensormap not acquired",
        HandsOverATensormap(acquires="", uses="load"),
        {"missing-fence": "tensormap"},
        (HandsOverATensormap(uses="load", trips="all"),),
    ),
    (
        "tensormap acquired too early",
        HandsOverATensormap(acquires="before"),
        {"missing-fence": "tensormap"},
        (HandsOverATensormap(),),
    ),
    (
        "tensormap used at once",
        HandsOverATensormap(orders=False, trips=1),
        {"race": "tensormap", "missing-fence": "tensormap"},
        (HandsOverATensormap(trips=1),),
    ),
    ("tensormap and async", FencesItForTheAsyncProxy(), {"missing-fence": "tensormap"}, (HandsOverATensormap(),)),
    (
        "tensormap after a relaxed flag",
        AcquiresAfterARelaxedFlag(),
        {"missing-fence": "tensormap"},
        (AcquiresAfterARelaxedFlag(sem="release"),),
    ),
    ("tensormap of its own", EditsItsOwn(acquires=False), {"missing-fence": "tensormap"}, (EditsItsOwn(),)),
    ("tensormap in use", EditsItsOwn(waits=False), {"race": "tensormap"}, (EditsItsOwn(),)),
    (
        "tensormap released to the CTA",
        ReleasesToItsOwnCta(release="cta"),
        {"missing-fence": "tensormap"},
        (ReleasesToItsOwnCta(), ReleasesToItsOwnCta(release="cluster", acquire="cluster")),
    ),
    (
        "tensormap acquired from the CTA",
        ReleasesToItsOwnCta(acquire="cta"),
        {"missing-fence": "tensormap"},
        (ReleasesToItsOwnCta(),),
    ),
)
