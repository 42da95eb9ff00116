"""The mainloop collectives of CUTLASS's warp-specialised GEMMs: TMA fills the stages of A and B, WGMMA drains them.

Line numbers are those of gemm/collective/sm90_mma_tma_gmma_{ss,rs}_warpspecialized.hpp in CUTLASS 4.2. In the ss form
WGMMA reads both operands from shared memory; in the rs form the warpgroup loads A into registers itself (ldmatrix),
k-block by k-block.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, TypeAlias

from sm90_verify.spec.cutlass.collective import Collective, Tensor, defined_in, most_bytes
from sm90_verify.spec.cutlass.pipelines import PipelineTmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body, role
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import MMA_GROUPS, WARPGROUP
from sm90_verify.spec.ptx.operations import Operation

Advanced: TypeAlias = Generator[Operation, Any, PipelineState]
"""A verb whose value is the state that the caller goes on with."""
Consumed: TypeAlias = Generator[Operation, Any, tuple[PipelineState, int]]
"""A verb whose value is the first stage that is still to be released, and the number of such stages."""


class MainloopCollective(Collective):
    """CollectiveMma without its arithmetic, for kernels to build on.

    stages: of A and B (2 or more, ss:137). k_tiles: k-tiles of one output tile; "all" is every number from `least` on.
    mmas_in_flight: K_PIPE_MMAS, k-tiles that are released late (1, ss:264; not used by the rs form). pending: the N of
    the warpgroup_wait<N> of each release; -1 is CUTLASS's own: K_PIPE_MMAS, or 2 in the rs form (rs:681). release:
    "after" that wait, as CUTLASS does, or "before" it. k_blocks, release_block: MMA k-iterations of a k-tile, and the
    one at which the rs form releases (1, rs:682).
    bytes_a, bytes_b: of one stage. collective_wgmma: wait_group<N> shows one warp that the whole warpgroup's WGMMAs are
    over, as their groups belong to the warpgroup (PTX ISA 9.7.15.7); this matters where warps of one are told apart.

    It is modelled by a meeting of the warps behind the wait. Recorded on an H100, they are together where they issue,
    and go on from the wait each by itself. The meeting leaves out only that a warp lingers before its own wait: what it
    has left to do up to there is possible once another has passed, and touches nothing that others change until it is
    done, so that it may as well be done at once. Recorded runs, in which warps linger, are held to the model without.
    """

    stages = 4
    k_tiles: int | str = "all"
    form = "ss"
    mmas_in_flight = 1
    pending = -1
    release = "after"
    k_blocks = 4
    release_block = 1
    bytes_a = 16_384
    bytes_b = 16_384
    collective_wgmma: bool = True

    mainloop = PipelineTmaAsync(consumers="mma_threads", bytes=lambda self: self.bytes_a + self.bytes_b)
    a = Tensor("stages", "bytes_a", lambda self: self.mainloop_address, parts=lambda self: _slices(self.shape.y))
    b = Tensor(
        "stages",
        "bytes_b",
        lambda self: self.mainloop_address + self.stages * self.bytes_a,
        parts=lambda self: _slices(self.shape.x),
    )

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.form not in ("ss", "rs"):
            raise SpecError(f"form={self.form!r}: use ss (both operands from shared memory) or rs (A from registers)")
        if self.release not in ("after", "before"):
            raise SpecError(f"release={self.release!r}: use after or before (the wait)")
        if not 0 <= self.wait_group < MMA_GROUPS:
            raise SpecError(f"wgmma.wait_group {self.wait_group}: use 0 to {MMA_GROUPS - 1}")
        if isinstance(self.k_tiles, int) and self.k_tiles < 0:
            raise SpecError(f"k_tiles={self.k_tiles}: use 0 or more, or all")

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), "load_tail", "mma_tail")

    @property
    def mma_threads(self) -> int:
        """Threads that release a stage of A and B (num_consumers)."""
        raise SpecError(f"{self.name} must say how many threads consume a stage")

    @property
    def mainloop_address(self) -> int:
        """The first byte of A and B."""
        return 0

    @property
    def mainloop_bytes(self) -> int:
        return self.stages * (self.bytes_a + self.bytes_b)

    @property
    def least(self) -> int:
        """The fewest k-tiles that the shape of the collective's loops allows."""
        return 2 if self.form == "rs" else 1

    @property
    def wait_group(self) -> int:
        """The N of warpgroup_wait<N> before a release."""
        return self.pending if self.pending >= 0 else 2 if self.form == "rs" else self.mmas_in_flight

    def k_loop(self, after: int = 0) -> Iterator[Any]:
        """The k-tiles of an output tile but for the first `after` ones."""
        if isinstance(self.k_tiles, int):
            yield from range(self.k_tiles - after)
            return
        yield from range(self.least - after)
        yield from self.loop(self.k_tiles)

    # -- producer

    def mainloop_load(self, write: PipelineState, me: Threads) -> Advanced:
        """`load`, ss:309-377, by the elected lane: A and B of every k-tile; gives the state for the next output
        tile. In a cluster the CTA loads its slice of A for all with the same rows, and of B for all with the same
        columns.
        """
        i, j = self.shape.position(me.cta)
        slices = (
            (self.a, _slices(self.shape.y)[j], self.shape.sharing_a(me.cta)),
            (self.b, _slices(self.shape.x)[i], self.shape.sharing_b(me.cta)),
        )
        for _ in self.k_loop():
            yield from self.mainloop.producer_acquire(write)
            for tensor, name, ctas in slices:
                multicast = ctas if self.shape.size > 1 else None
                yield tensor.part(name, write).load(signals=self.mainloop.full[write], multicast=multicast)
            write = write + 1
        return write

    def mainloop_load_tail(self, write: PipelineState) -> Body:
        """`load_tail`, ss:395-409, by the elected lane: waits until every stage is released."""
        if self.has("load_tail"):
            yield from self.mainloop.producer_tail(write)

    # -- consumer

    def mainloop_mma(self, read: PipelineState, me: Threads) -> Consumed:
        """`mma`, all k-tiles of an output tile: gives the first stage not released yet, and how many there are."""
        return self._mma_rs(read, me) if self.form == "rs" else self._mma_ss(read, me)

    def mainloop_mma_tail(self, release: PipelineState, left: int, me: Threads) -> Advanced:
        """`mma_tail`, ss:562-577: waits for all WGMMAs and releases what is left; gives the state after it."""
        if self.has("mma_tail"):
            yield self.mma_wait(0)
            yield from self._together(me)
            for stage in range(left):
                yield from self.mainloop.consumer_release(release + stage, me)
        return release + left

    def _mma_ss(self, read: PipelineState, me: Threads) -> Consumed:
        """ss:413-559. The first k-tile is issued outside of all counts (:484-504), so K_PIPE_MMAS = 0, which :473
        allows, waits for one k-tile too many, and so does an output tile of no k-tiles.
        """
        release = read
        yield from self._k_tile_ss(read)
        read, behind = read + 1, 1
        for _ in self.k_loop(after=min(1, self.mmas_in_flight)):
            yield from self._k_tile_ss(read)
            read, behind = read + 1, behind + 1
            if behind > self.mmas_in_flight:
                yield from self._wait_and_release(release, me)
                release, behind = release + 1, behind - 1
        return release, min(behind, self.mmas_in_flight)

    def _k_tile_ss(self, read: PipelineState) -> Body:
        yield from self.mainloop.consumer_wait(read)
        yield self.mma(*self.a.all_parts(read), *self.b.all_parts(read))

    def _mma_rs(self, read: PipelineState, me: Threads) -> Consumed:
        """rs:496-730. A k-tile is released while the next one is computed, at its k-block 1."""
        release, last = read, self.k_blocks - 1
        now, read = read, read + 1
        yield from self._load_a(now)
        for _ in range(last):
            yield from self._k_block_rs(now)
        yield self.mma_wait(self.wait_group)
        yield self.mma(*self.b.all_parts(now))
        if self.k_tiles in (0, 1):
            return release, 1
        yield from self._load_a(read)
        yield self.mma_wait(self.wait_group)
        for _ in self.k_loop(after=2):
            now, read = read, read + 1
            for block in range(self.k_blocks):
                yield from self._k_block_rs(now, following=read if block == last else None)
                release = yield from self._after_block(block, release, me)
        for block in range(last):
            yield from self._k_block_rs(read)
            release = yield from self._after_block(block, release, me)
        yield self.mma(*self.b.all_parts(read))
        return read, 1

    def _load_a(self, read: PipelineState) -> Body:
        yield from self.mainloop.consumer_wait(read)
        for tile in self.a.all_parts(read):
            yield tile.read()

    def _k_block_rs(self, now: PipelineState, following: PipelineState | None = None) -> Body:
        """Loads A for the next k-block, which may be that of the following k-tile, and issues this k-block's WGMMA."""
        if following is None:
            for tile in self.a.all_parts(now):
                yield tile.read()
        else:
            yield from self._load_a(following)
        yield self.mma(*self.b.all_parts(now))

    def _after_block(self, block: int, release: PipelineState, me: Threads) -> Advanced:
        if block != self.release_block:
            yield self.mma_wait(self.wait_group)
            return release
        yield from self._wait_and_release(release, me)
        return release + 1

    def _wait_and_release(self, release: PipelineState, me: Threads) -> Body:
        if self.release == "before":
            yield from self.mainloop.consumer_release(release, me)
        yield self.mma_wait(self.wait_group)
        if self.shape.size > 1:
            yield from self._together(me)
        if self.release == "after":
            yield from self.mainloop.consumer_release(release, me)

    def _together(self, me: Threads) -> Body:
        """What the wait for a WGMMA group shows one warp of the others of its warpgroup. Where all threads arrive by
        themselves, as they do with one CTA, only the last wait needs it.
        """
        if self.collective_wgmma and me.threads < WARPGROUP:
            yield self.warp_sync()


def _slices(count: int) -> tuple[str, ...]:
    """The parts of a stage that different CTAs load."""
    return ("stage",) if count == 1 else tuple(f"slice{number}" for number in range(count))


class Mainloop(MainloopCollective):
    """One output tile: the elected lane of the load warp, and `consumers` warpgroups that share each stage. Stages
    whose bytes are not given are smaller if a CTA has no room for so many.
    """

    _label = "mainloop"
    consumers = 1

    def __init__(self, **parameters: Any) -> None:
        stages = parameters.get("stages", type(self).stages)
        sizes = [name for name in ("bytes_a", "bytes_b") if defined_in(type(self), name) == __name__]
        if isinstance(stages, int) and len(sizes) == 2 and not set(sizes) & set(parameters):
            most = most_bytes(stages, stages) // 2
            parameters |= {name: min(getattr(type(self), name), most) for name in sizes}
        super().__init__(**parameters)
        self.trips = self.k_tiles

    @property
    def mma_threads(self) -> int:
        return WARPGROUP * self.consumers

    @role(threads=1)
    def load_warp(self, me: Threads) -> Body:
        write = yield from self.mainloop_load(self.mainloop.producer_start(), me)
        yield from self.mainloop_load_tail(write)

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        release, left = yield from self.mainloop_mma(self.mainloop.consumer_start(), me)
        yield from self.mainloop_mma_tail(release, left, me)
