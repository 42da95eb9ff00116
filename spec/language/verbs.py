"""The operations that belong to no barrier or buffer alone, as methods of every pipeline: each gives one to yield."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.handles import Array, Tile, accumulating, one_tile
from sm90_verify.spec.language.values import number, one_of, plain_tag
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import BULK_GROUPS, CP_GROUPS, CTA_THREADS, MMA_GROUPS, WARP
from sm90_verify.spec.ptx.memory import WIDER, Scope, as_read, as_write


class Verbs:
    """What a pipeline can say of itself, of several buffers, or of all threads."""

    @abstractmethod
    def created(self, operation: op.Operation) -> op.Operation:
        """Tells the tracer of an operation, so that one that is never yielded is noticed."""

    def mma(self, *tiles: Tile | Array, into: Tile | Array | None = None, commit: bool = True) -> op.Operation:
        """One wgmma group that reads several buffers, those in registers as the matrix A, and accumulates in `into` if
        its registers are part of the model.
        """
        read = [one_tile(one) for one in tiles]
        reads = tuple(as_read(one.access, "async") for one in read)
        return self.created(accumulating(reads, tuple(plain_tag(one.tag) for one in read), into, commit))

    def wgmma_fence(self) -> op.Operation:
        """wgmma.fence.sync.aligned: this warpgroup's accesses to registers before it are ordered before its wgmmas
        after it.
        """
        return self.created(op.Fence("wgmma"))

    def store(self, *tiles: Tile, to: Tile | None = None) -> op.Operation:
        """One TMA store of bytes that were written as several buffers."""
        read = [one_tile(one) for one in tiles]
        reads = tuple(as_read(one.access, "async") for one in read)
        destination = None if to is None else as_write(one_tile(to).access, "async")
        return self.created(op.Store(reads, tuple(plain_tag(one.tag) for one in read), destination))

    def read(self, *tiles: Tile | Array) -> op.Operation:
        """Ordinary loads of bytes of several buffers, or of several parts of one."""
        return self._touching("read", tiles, None, None)

    def write(self, *tiles: Tile | Array, value: Hashable = None) -> op.Operation:
        """Ordinary stores to bytes of several buffers, or to several parts of one; `value` as for `Tile.write`."""
        return self._touching("write", tiles, value, None)

    def red(self, *tiles: Tile | Array, scope: Scope = "gpu") -> op.Operation:
        """red or atom on bytes of several buffers, or of several parts of one, relaxed."""
        return self._touching("red", tiles, None, scope)

    def _touching(
        self, kind: op.TouchKind, tiles: tuple[Tile | Array, ...], value: Hashable, scope: Scope | None
    ) -> op.Operation:
        touched = [one_tile(one) for one in tiles]
        if not touched:
            raise SpecError(f"{kind}() of nothing: name the buffers")
        accesses, tags = zip(*(one._touched(kind, value, scope) for one in touched), strict=True)
        return self.created(op.Touch(kind, accesses, tags))

    def mma_commit(self, *, joint: bool = False) -> op.Operation:
        """wgmma.commit_group. joint: each part of a role that is a warpgroup executes it for itself, and the group is
        complete when all parts have come there.
        """
        return self.created(op.Group("mma_commit", joint=joint))

    def mma_wait(self, pending: int, *, joint: bool = False) -> op.Operation:
        """wgmma.wait_group: at most `pending` groups of this warpgroup are still reading. joint: as for mma_commit."""
        return self.created(op.Group("mma_wait", _pending(pending, MMA_GROUPS), joint))

    def bulk_commit(self) -> op.Operation:
        """cp.async.bulk.commit_group."""
        return self.created(op.Group("bulk_commit"))

    def bulk_wait(self, pending: int) -> op.Operation:
        """cp.async.bulk.wait_group: older groups of this thread are complete, their writes visible."""
        return self.created(op.Group("bulk_wait", _pending(pending, BULK_GROUPS)))

    def bulk_wait_read(self, pending: int) -> op.Operation:
        """cp.async.bulk.wait_group.read: older groups of this thread have read their source. (An H100 waits for those
        of its warp, kernels/bulk_groups.cu; PTX, 9.7.9.25.6, promises those of the thread.)
        """
        return self.created(op.Group("bulk_wait_read", _pending(pending, BULK_GROUPS)))

    def cp_commit(self) -> op.Operation:
        """cp.async.commit_group."""
        return self.created(op.Group("cp_commit"))

    def cp_wait(self, pending: int) -> op.Operation:
        """cp.async.wait_group: older groups of this thread's cp.asyncs are complete, their writes visible to it."""
        return self.created(op.Group("cp_wait", _pending(pending, CP_GROUPS)))

    def cp_wait_all(self) -> op.Operation:
        """cp.async.wait_all: cp.async.commit_group and wait_group 0."""
        return self.created(op.Group("cp_wait_all"))

    def fence_proxy_async(self) -> op.Operation:
        """fence.proxy.async: generic accesses that are before it are ordered before async accesses that are after it,
        those of its thread and those of others that barriers order so.
        """
        return self.created(op.Fence("proxy_async"))

    def fence_proxy_tensormap_release(self, scope: Scope = "gpu") -> op.Operation:
        """fence.proxy.tensormap::generic.release: tensormaps that this thread has written can be acquired."""
        return self.created(op.MapFence("release", scope))

    def fence_proxy_tensormap_acquire(self, map: Tile, scope: Scope = "gpu") -> op.Operation:
        """fence.proxy.tensormap::generic.acquire: this thread uses the tensormap as it has been released."""
        return self.created(op.MapFence("acquire", scope, as_read(one_tile(map).access, "tensormap")))

    def fence_mbarrier_init(self) -> op.Operation:
        """fence.mbarrier_init.release.cluster."""
        return self.created(op.Fence("mbarrier_init"))

    def fence_acq_rel(self, scope: Scope = "gpu") -> op.Operation:
        """fence.acq_rel.scope (__threadfence() orders no less): relaxed accesses of words after it release what came
        before, and what is read by those before it is acquired.
        """
        return self.created(op.ThreadFence("acq_rel", one_of(scope, WIDER, "a fence")))

    def fence_sc(self, scope: Scope = "gpu") -> op.Operation:
        """fence.sc.scope."""
        return self.created(op.ThreadFence("sc", one_of(scope, WIDER, "a fence")))

    def named_sync(self, id: int, threads: int, *, by: int = 0) -> op.Operation:
        """bar.sync id, threads; `by` so many threads of the role, where not all of its warps execute it."""
        return self.created(_named(id, threads, True, by))

    def named_arrive(self, id: int, threads: int, *, by: int = 0) -> op.Operation:
        """bar.arrive id, threads: the role goes on, and may come to the same barrier again before that completes."""
        return self.created(_named(id, threads, False, by))

    def cta_sync(self) -> op.Operation:
        """__syncthreads()."""
        return self.created(op.CtaSync())

    def cluster_arrive(self) -> op.Operation:
        """barrier.cluster.arrive.release."""
        return self.created(op.ClusterArrive())

    def cluster_arrive_relaxed(self) -> op.Operation:
        """barrier.cluster.arrive.relaxed: orders no memory access."""
        return self.created(op.ClusterArrive(release=False))

    def cluster_wait(self) -> op.Operation:
        """barrier.cluster.wait.acquire."""
        return self.created(op.ClusterWait())

    def warp_sync(self, *, warp: int = -1, lanes: int = 0, orders: bool = True) -> op.Operation:
        """__syncwarp() among the representatives of a split role. warp: of a role of several warps, among those of one
        of them (`me.warp`); lanes: the mask, of its lanes alone. orders=False: they meet as at shfl.sync and
        elect.sync, which order no memory.
        """
        warps = CTA_THREADS // WARP - 1
        given = number(warp, "the warp of a role", warps, -1)
        return self.created(op.WarpSync(given, number(lanes, "a mask of lanes", (1 << WARP) - 1), bool(orders)))

    def choose(self, name: str, *options: Hashable) -> op.Operation:
        """A value that the model leaves open; the n-th choice of a name is the same for every role. Yield it."""
        if len(options) < 2:
            raise SpecError(f"choose({name!r}) needs at least two options")
        return self.created(op.Choose(name, options))

    def launch_dependents(self) -> op.Operation:
        """griddepcontrol.launch_dependents: roles of the dependent grid (`@role(grid=1)`) may begin once every CTA of
        this one has executed it or has ended. It orders no memory, and nobody may count on their beginning early.
        """
        return self.created(op.Griddepcontrol("launch_dependents"))

    def grid_wait(self) -> op.Operation:
        """griddepcontrol.wait: blocks until the grid before has ended and all that it did to memory is visible."""
        return self.created(op.Griddepcontrol("wait"))

    def setmaxnreg_dec(self, registers: int) -> op.Operation:
        """setmaxnreg.dec."""
        return self.created(op.Setmaxnreg(registers, "dec"))

    def setmaxnreg_inc(self, registers: int) -> op.Operation:
        """setmaxnreg.inc: blocks until the CTA's pool has the registers."""
        return self.created(op.Setmaxnreg(registers, "inc"))


def _pending(pending: int, groups: int) -> int:
    if not isinstance(pending, int) or not 0 <= pending < groups:
        raise SpecError(f"a wait that leaves {pending!r} groups pending: use 0 to {groups - 1}")
    return pending


def _named(id: int, threads: int, blocks: bool, by: int) -> op.NamedSync:
    counted = number(threads, "threads of a named barrier", CTA_THREADS)
    return op.NamedSync(id, counted, blocks, number(by, "threads of the role that execute it", CTA_THREADS))
