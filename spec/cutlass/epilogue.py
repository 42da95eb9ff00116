"""The TMA epilogue collective of CUTLASS's warp-specialised GEMMs: a warp loads C, the math threads turn it into D,
one of their warps stores D.

Line numbers are those of epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp in CUTLASS 4.2. A tile is worked on
in subtiles. With ReuseSmemC a subtile of D is written over the C that it was made of, and a stage goes back to the
load warp only when TMA has read D from it; otherwise C and D have buffers of their own.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from sm90_verify.spec.cutlass.collective import SCHEDULES, Collective, Tensor
from sm90_verify.spec.cutlass.pipelines import EPILOGUE_BARRIER, OrderedSequenceBarrier, PipelineTransactionAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body, role
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import BULK_GROUPS, WARP, WARPGROUP
from sm90_verify.spec.ptx.operations import Operation

Stores: TypeAlias = tuple[PipelineState, PipelineState, PipelineState, int]
"""load_pipe_consumer_state, store_pipe_producer_state, the same in the ring of the callbacks' StagesD buffers, and
issued_stores, which is only ever asked whether it is StagesD or more, so it stops there.
"""
Storing: TypeAlias = Generator[Operation, Any, Stores]
Loading: TypeAlias = Generator[Operation, Any, PipelineState]


class EpilogueCollective(Collective):
    """CollectiveEpilogue without its arithmetic, for kernels to build on.

    stages_c, stages_d: StagesC and StagesD. reuse_smem_c, delay_tma_store: as in the dispatch policy, also where the
    static assertions (:172, :731) refuse them. subtiles: epilogue tiles of an output tile. bytes_c, bytes_d: of a
    stage. void_c: there is no source. source_needed: False is beta == 0 at run time. same_layout: SmemLayoutC is
    SmemLayoutD; stages of other sizes have another layout anyway. aux_load_bytes, aux_store_bytes: of what the fusion
    callbacks load and store by TMA with each subtile, in StagesC and StagesD buffers; 0 for none.
    """

    stages_c = 4
    stages_d = 2
    reuse_smem_c: bool = True
    delay_tma_store: bool = False
    subtiles = 8
    bytes_c = 4096
    bytes_d = 4096
    void_c: bool = False
    source_needed: bool = True
    same_layout: bool = True
    aux_load_bytes = 0
    aux_store_bytes = 0

    epi_load = PipelineTransactionAsync("stages_c", producers=WARP, consumers="epilogue_threads", bytes="bytes_c")
    c = Tensor(
        lambda self: 0 if self.void_c else self.stages_c,
        "bytes_c",
        lambda self: self.epilogue_addresses[0],
        parts=lambda self: self.store_parts,
        shares=lambda self: self.epilogue_overlays,
    )
    d = Tensor(
        "store_stages",
        "bytes_d",
        lambda self: self.epilogue_addresses[1],
        parts=lambda self: self.store_parts,
        shares=lambda self: (*self.epilogue_overlays, "c") if self.reuse_smem_c else self.epilogue_overlays,
        reverse=lambda self: not self.same_layout and self.bytes_c == self.bytes_d,
    )
    aux_c = Tensor(
        lambda self: self.stages_c if self.aux_load_bytes else 0,
        "aux_load_bytes",
        lambda self: self.epilogue_addresses[2],
        parts=lambda self: self.store_parts,
        shares=lambda self: self.epilogue_overlays,
    )
    aux_d = Tensor(
        lambda self: self.stages_d if self.aux_store_bytes else 0,
        "aux_store_bytes",
        lambda self: self.epilogue_addresses[3],
        parts=lambda self: self.store_parts,
        shares=lambda self: self.epilogue_overlays,
    )

    def check_parameters(self) -> None:
        super().check_parameters()
        for name, most in (("stages_c", None), ("stages_d", BULK_GROUPS), ("subtiles", None)):
            value = getattr(self, name)
            if value < 1 or (most is not None and value > most):
                raise SpecError(
                    f"{name}={value}: use 1 or more" if most is None else f"{name}={value}: use 1 to {most}"
                )
        if self.reuse_smem_c and self.void_c:
            raise SpecError("reuse_smem_c needs a source to reuse the memory of: not with void_c")

    def parts(self) -> tuple[str, ...]:
        return (
            *super().parts(),
            *("epilogue_load_tail", "store_tail", "store_fence", "store_sync", "acquire_sync", "store_wait"),
            *(("read_sync",) if self.read_sync else ()),
            *(() if self.reuse_smem_c else ("release_fence",)),
        )

    @property
    def epilogue_threads(self) -> int:
        """Threads that turn C into D together: those that release a stage of C and meet at the named barrier."""
        raise SpecError(f"{self.name} must say how many threads an epilogue has")

    @property
    def store_parts(self) -> tuple[str, ...]:
        """The groups of those threads that are told apart, the storing warp first: each owns a part of C and D."""
        return ("store_warp", "other_warps")

    @property
    def epilogue_overlays(self) -> tuple[str, ...]:
        """Tensors of other collectives that lie in the same bytes by intent."""
        return ()

    @property
    def epilogue_address(self) -> int:
        """The first byte of C and D."""
        return 0

    @property
    def epilogue_addresses(self) -> tuple[int, int, int, int, int]:
        """Where c, d, aux_c and aux_d start, and the end: C and D are a union with ReuseSmemC, else a struct."""
        c, d = self.epilogue_address, self.epilogue_address
        size_c = 0 if self.void_c else self.stages_c * self.bytes_c
        size_d = self.store_stages * self.bytes_d
        if not self.reuse_smem_c:
            d = c + size_c
        aux_c = max(c + size_c, d + size_d)
        aux_d = aux_c + self.stages_c * self.aux_load_bytes
        return c, d, aux_c, aux_d, aux_d + self.stages_d * self.aux_store_bytes

    @property
    def store_stages(self) -> int:
        """Stages of StorePipeline (:213-216)."""
        return self.stages_c if self.reuse_smem_c else self.stages_d

    @property
    def c_needed(self) -> bool:
        return self.source_needed and not self.void_c

    @property
    def load_needed(self) -> bool:
        """is_producer_load_needed()."""
        return self.c_needed or self.aux_load_bytes > 0

    @property
    def read_sync(self) -> bool:
        """Whether a thread can overwrite what another one has still to read (:804-807)."""
        return self.reuse_smem_c and (self.bytes_c != self.bytes_d or not self.same_layout)

    # -- producer

    def epilogue_load(self, state: PipelineState, me: Threads) -> Loading:
        """`load`, :426-513, by the load warp: C of an output tile; gives the state for the next one."""
        for _ in range(self.subtiles):
            full = self.epi_load.full[state]
            yield from self.epi_load.producer_acquire(state)
            if me.leader:
                if self.aux_load_bytes:
                    yield full.expect_tx(self.aux_load_bytes)
                    for tile in self.aux_c.all_parts(state):
                        yield tile.load(signals=full)
                if self.c_needed:
                    for tile in self.c.all_parts(state):
                        yield tile.load(signals=full)
                    yield from self.epi_load.producer_expect_transaction(state)
            yield from self.epi_load.producer_commit(state, me)
            state = state + 1
        return state

    def epilogue_load_tail(self, state: PipelineState, me: Threads) -> Body:
        """`load_tail`, :516-525: the elected lane waits until every stage is released."""
        if me.leader and self.has("epilogue_load_tail"):
            yield from self.epi_load.producer_tail(state)

    # -- consumers

    def epilogue_start(self, advance: int = 0) -> Stores:
        """The states that a group of math threads starts with, `advance` subtiles further on."""
        load, store = PipelineState.start(self.stages_c), PipelineState.start(self.store_stages, producer=True)
        aux = PipelineState.start(self.stages_d if self.aux_store_bytes else 0)
        return self.epilogue_advance((load, store, aux, 0), advance)

    def epilogue_advance(self, at: Stores, subtiles: int) -> Stores:
        """The states further on: the subtiles in between are somebody else's."""
        load, store, aux, issued = at
        return load + subtiles, store + subtiles, aux + subtiles, issued

    def epilogue_store(self, at: Stores, me: Threads, part: str) -> Storing:
        """`store`, :535-917, by the math threads that own `part`: an output tile; gives the states after it."""
        load, store, aux, issued = at
        wait = store.flip() if self.reuse_smem_c else load
        for subtile in range(self.subtiles):
            if self.load_needed:
                yield from self._read(wait, part)
                if not self.reuse_smem_c:
                    if self.has("release_fence"):
                        yield self.fence_proxy_async()
                    yield from self.epi_load.consumer_release(load, me)
                    load = load + 1
                wait = wait + 1
            if self.delay_tma_store and subtile > 0:
                load, store, aux, issued = yield from self._tma_store((load, store, aux, issued), me, part)
            yield self.d.part(part, store).write()
            if self.aux_store_bytes:
                yield self.aux_d.part(part, aux).write()
            if not self.delay_tma_store:
                load, store, aux, issued = yield from self._tma_store((load, store, aux, issued), me, part)
        if self.delay_tma_store:
            return (yield from self._tma_store((load, store, aux, issued), me, part))
        return load, store, aux, issued

    def _read(self, wait: PipelineState, part: str) -> Body:
        yield from self.epi_load.consumer_wait(wait)
        if self.c_needed:
            yield self.c.part(part, wait).read()
            if self.read_sync and self.has("read_sync"):
                yield self.named_sync(EPILOGUE_BARRIER, self.epilogue_threads)
        if self.aux_load_bytes:
            yield self.aux_c.part(part, wait).read()

    def _tma_store(self, at: Stores, me: Threads, part: str) -> Storing:
        """tma_store_fn, :734-774: PipelineTmaStore<StagesC, StagesD - 1> with ReuseSmemC, else <StagesD>."""
        load, store, aux, issued = at
        storing = part == self.store_parts[0]
        if self.has("store_fence"):
            yield self.fence_proxy_async()
        if self.has("store_sync"):
            yield self.named_sync(EPILOGUE_BARRIER, self.epilogue_threads)
        if storing:
            yield self.store(*self.d.all_parts(store))
            if self.aux_store_bytes:
                yield self.store(*self.aux_d.all_parts(aux))
            yield self.bulk_commit()
        store, aux, issued = store + 1, aux + 1, min(issued + 1, self.stages_d)
        if storing and self.has("store_wait"):
            yield self.bulk_wait_read(self.stages_d - 1)
        if self.has("acquire_sync"):
            yield self.named_sync(EPILOGUE_BARRIER, self.epilogue_threads)
        if self.reuse_smem_c and issued > self.stages_d - 1:
            if self.load_needed:
                yield from self.epi_load.consumer_release(load, me)
            load = load + 1
        return load, store, aux, issued

    def epilogue_store_tail(self, at: Stores, me: Threads, part: str) -> Storing:
        """`store_tail`, :920-944: waits for the stores, and releases the stages that StagesD - 1 of them held back."""
        load, store, aux, _ = at
        if not self.has("store_tail"):
            return at
        if part == self.store_parts[0]:
            yield self.bulk_wait_read(0)
        if self.reuse_smem_c and self.load_needed:
            for _ in range(min(self.stages_d - 1, self.subtiles)):
                yield from self.epi_load.consumer_release(load, me)
                load = load + 1
        return load, store, aux, 0


class Epilogue(EpilogueCollective):
    """The epilogues of `tiles` output tiles of a CTA, as the kernel of each schedule calls the collective.

    ws: store and store_tail for each tile (the kernel has one tile; more are what a caller would get that comes back).
    cooperative: 256 threads, store for each tile and one store_tail at the end. pingpong: two warpgroups take turns,
    each with a store_tail per tile, and skip the states of the other's tiles.
    """

    _label = "epilogue"
    schedule = "cooperative"
    tiles: int | str = "all"

    order = OrderedSequenceBarrier(1, 2, group=WARPGROUP)

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.schedule not in SCHEDULES:
            raise SpecError(f"schedule={self.schedule!r}: use one of {', '.join(SCHEDULES)}")
        self.trips = self.tiles

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), *(("order",) if self.schedule == "pingpong" else ()))

    @property
    def epilogue_threads(self) -> int:
        return 2 * WARPGROUP if self.schedule == "cooperative" else WARPGROUP

    @property
    def groups(self) -> int:
        """Groups of math threads that take turns."""
        return 2 if self.schedule == "pingpong" else 1

    @role(threads=WARP, split=(1, WARP - 1), copies=lambda self: int(self.load_needed))
    def epilogue_load_warp(self, me: Threads) -> Body:
        state = self.epi_load.producer_start()
        for _ in self.loop():
            state = yield from self.epilogue_load(state, me)
        yield from self.epilogue_load_tail(state, me)

    @role(threads=WARP, copies="groups")
    def store_warp(self, me: Threads) -> Body:
        yield from self._consumer(me, "store_warp")

    @role(threads=lambda self: self.epilogue_threads - WARP, copies="groups")
    def other_warps(self, me: Threads) -> Body:
        yield from self._consumer(me, "other_warps")

    def _consumer(self, me: Threads, part: str) -> Body:
        if self.schedule == "pingpong":
            yield from self._take_turns(me, part)
            return
        at, stored = self.epilogue_start(), False
        for _ in self.loop():
            at = yield from self.epilogue_store(at, me, part)
            stored = True
            if self.schedule == "ws":
                at = yield from self.epilogue_store_tail(at, me, part)
        if self.schedule == "cooperative" and stored:
            yield from self.epilogue_store_tail(at, me, part)

    def _take_turns(self, me: Threads, part: str) -> Body:
        """gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp:555-566, :846-919."""
        at = self.epilogue_start(me.copy * self.subtiles)
        order, turn = self.order.start(me.copy), 0
        for _ in self.loop():
            if turn == me.copy:
                if self.has("order"):
                    yield from self.order.wait(order, me.copy)
                at = yield from self.epilogue_store(at, me, part)
                at = yield from self.epilogue_store_tail(at, me, part)
                at = self.epilogue_advance(at, self.subtiles)
                if self.has("order"):
                    yield from self.order.arrive(order, me.copy, me)
                order = order + 1
            turn = 1 - turn
