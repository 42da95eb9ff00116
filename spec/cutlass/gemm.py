"""CUTLASS's warp-specialised TMA GEMM kernels for SM90: mainloop, epilogue, and what orders the two.

Line numbers are those of gemm/kernel/sm90_gemm_tma_warpspecialized.hpp (ws), ..._cooperative.hpp and ..._pingpong.hpp
in CUTLASS 4.2. Barriers are initialised before the roles start, as the kernels do in front of their first
__syncthreads. Tiles come from a static scheduler, so every warp knows them by itself.
"""

from __future__ import annotations

from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.cutlass.epilogue import EpilogueCollective
from sm90_verify.spec.cutlass.mainloop import MainloopCollective
from sm90_verify.spec.cutlass.pipelines import OrderedSequenceBarrier
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body, role
from sm90_verify.spec.language.layout import ALIGNMENT
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

MAINLOOP, EPILOGUE = 0, 1
"""The groups of LoadWarpOrderBarrier, and the stages of MathWarpGroupOrderBarrier."""


class Gemm(EpilogueCollective, MainloopCollective):
    """What the three kernels have in common.

    k_tiles: of every output tile. storage: "struct", mainloop and epilogue tensors side by side, or "union", in the
    same bytes.
    """

    k_tiles: int | str = 4
    storage = "struct"

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.storage not in ("struct", "union"):
            raise SpecError(f"storage={self.storage!r}: use struct or union")
        if not isinstance(self.k_tiles, int):
            raise SpecError(f"k_tiles={self.k_tiles!r}: a kernel needs a number of k-tiles, its states advance by it")

    @property
    def mainloop_address(self) -> int:
        """The epilogue's tensors come first (cooperative:161-167), unless they are the same bytes (ws:120-128)."""
        return 0 if self.storage == "union" else -(-self.epilogue_addresses[-1] // ALIGNMENT) * ALIGNMENT

    @property
    def epilogue_overlays(self) -> tuple[str, ...]:
        return ("a", "b") if self.storage == "union" else ()

    @property
    def mma_threads(self) -> int:
        return self.epilogue_threads


class GemmWs(Gemm):
    """KernelTmaWarpSpecialized: one output tile; one warp loads A and B and then C, one warpgroup does the rest.

    Its tensors are a union: load_tail keeps C from arriving before A and B are read (ws:448-449).
    """

    _label = "gemm-ws"
    storage = "union"
    stages = 6

    def check_parameters(self) -> None:
        super().check_parameters()
        self.trips = 1

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), "warp_sync")

    @property
    def epilogue_threads(self) -> int:
        return WARPGROUP

    @role(threads=WARP, split=(1, WARP - 1))
    def load_warp(self, me: Threads) -> Body:
        """ws:430-467."""
        if me.leader:
            write = yield from self.mainloop_load(self.mainloop.producer_start(), me)
            yield from self.mainloop_load_tail(write)
        if self.load_needed:
            if self.has("warp_sync"):
                yield self.warp_sync()
            state = yield from self.epilogue_load(self.epi_load.producer_start(), me)
            yield from self.epilogue_load_tail(state, me)

    @role(warpgroups=1, split=(WARP, WARPGROUP - WARP))
    def consumer(self, me: Threads) -> Body:
        """ws:468-516."""
        part = self.store_parts[me.index]
        release, left = yield from self.mainloop_mma(self.mainloop.consumer_start(), me)
        yield from self.mainloop_mma_tail(release, left, me)
        at = yield from self.epilogue_store(self.epilogue_start(), me, part)
        yield from self.epilogue_store_tail(at, me, part)


class PersistentGemm(Gemm):
    """What the cooperative and the pingpong kernel have in common: `tiles` output tiles, a warp for A and B, a warp for
    C, two warpgroups of math threads, and registers that move from the former to the latter.

    load_registers, mma_registers: of setmaxnreg (40 and 232, or 24 and 240 for large tiles, cooperative:136-137).
    """

    tiles: int | str = 2
    stages = 6
    load_registers = 40
    mma_registers = 232

    load_order = OrderedSequenceBarrier(1, 2, group=WARP)

    def check_parameters(self) -> None:
        super().check_parameters()
        self.trips = self.tiles

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), *(("load_order",) if self.load_needed else ()), "register_dealloc")

    @role(threads=WARP, split=(1, WARP - 1))
    def mainloop_load_warp(self, me: Threads) -> Body:
        """cooperative:584-652, pingpong:621-691: after the first tile the other load warp may begin."""
        yield self.setmaxnreg_dec(self.load_registers)
        write, order = self.mainloop.producer_start(), self.load_order.start(MAINLOOP)
        arrive = self.has("load_order") and self.load_needed
        for _ in self.loop():
            if me.leader:
                write = yield from self.mainloop_load(write, me)
            if arrive:
                yield from self.load_order.arrive(order, MAINLOOP, me)
                arrive = False
            if not me.leader:
                break  # the other lanes have nothing more to do
        if me.leader:
            yield from self.mainloop_load_tail(write)

    @role(threads=WARP, split=(1, WARP - 1), copies=lambda self: int(self.load_needed))
    def epilogue_load_warp(self, me: Threads) -> Body:
        """cooperative:700-750, pingpong:739-797."""
        yield self.setmaxnreg_dec(self.load_registers)
        state, order = self.epi_load.producer_start(), self.load_order.start(EPILOGUE)
        wait = self.has("load_order")
        for _ in self.loop():
            if wait:
                yield from self.load_order.wait(order, EPILOGUE)
                wait = False
            state = yield from self.epilogue_load(state, me)
        yield from self.epilogue_load_tail(state, me)

    @role(threads=lambda self: (2 if self.load_needed else 3) * WARP)
    def idle_warps(self) -> Body:
        """The warps of the producer warpgroup that have nothing to do give back their registers all the same."""
        if self.has("register_dealloc"):
            yield self.setmaxnreg_dec(self.load_registers)


class GemmCooperative(PersistentGemm):
    """KernelTmaWarpSpecializedCooperative: both warpgroups work on the same tile; one store_tail after the last."""

    _label = "gemm-cooperative"
    subtiles = 4
    bytes_c = 8192
    bytes_d = 8192

    @property
    def epilogue_threads(self) -> int:
        return 2 * WARPGROUP

    @property
    def store_parts(self) -> tuple[str, ...]:
        return ("store_warp", "other_warps", "second_warpgroup")

    @role(warpgroups=1, split=(WARP, WARPGROUP - WARP))
    def consumer0(self, me: Threads) -> Body:
        yield from self._consumer(me, self.store_parts[me.index])

    @role(warpgroups=1)
    def consumer1(self, me: Threads) -> Body:
        yield from self._consumer(me, "second_warpgroup")

    def _consumer(self, me: Threads, part: str) -> Body:
        """cooperative:753-853."""
        yield self.setmaxnreg_inc(self.mma_registers)
        read, at, stored = self.mainloop.consumer_start(), self.epilogue_start(), False
        for _ in self.loop():
            release, left = yield from self.mainloop_mma(read, me)
            read = yield from self.mainloop_mma_tail(release, left, me)
            at = yield from self.epilogue_store(at, me, part)
            stored = True
        if stored:
            yield from self.epilogue_store_tail(at, me, part)


class GemmPingpong(PersistentGemm):
    """KernelTmaWarpSpecializedPingpong: the warpgroups work on alternate tiles, one in its mainloop while the other is
    in its epilogue; MathWarpGroupOrderBarrier lets them take turns at both.
    """

    _label = "gemm-pingpong"

    math_order = OrderedSequenceBarrier(2, 2, group=WARPGROUP)

    def parts(self) -> tuple[str, ...]:
        return (*super().parts(), "mma_order", "epilogue_order")

    @property
    def epilogue_threads(self) -> int:
        return WARPGROUP

    @role(warpgroups=1, split=(WARP, WARPGROUP - WARP), copies=2)
    def consumer(self, me: Threads) -> Body:
        """pingpong:555-566 and :800-939: the second warpgroup starts one tile further on, and both skip the other's."""
        part = self.store_parts[me.index]
        yield self.setmaxnreg_inc(self.mma_registers)
        k_tiles = int(self.k_tiles)
        read = self.mainloop.consumer_start() + k_tiles * me.copy
        at = self.epilogue_start(self.subtiles * me.copy)
        order, turn = self.math_order.start(me.copy), 0
        for _ in self.loop():
            if turn == me.copy:
                if self.has("mma_order"):
                    yield from self.math_order.wait(order, me.copy)
                release, left = yield from self.mainloop_mma(read, me)
                if self.has("mma_order"):
                    yield from self.math_order.arrive(order, me.copy, me)
                order = order + 1
                read = (yield from self.mainloop_mma_tail(release, left, me)) + k_tiles
                if self.has("epilogue_order"):
                    yield from self.math_order.wait(order, me.copy)
                at = yield from self.epilogue_store(at, me, part)
                at = yield from self.epilogue_store_tail(at, me, part)
                at = self.epilogue_advance(at, self.subtiles)
                if self.has("epilogue_order"):
                    yield from self.math_order.arrive(order, me.copy, me)
                order = order + 1
            turn = 1 - turn


GEMMS: dict[str, type[Gemm]] = dict(zip(SCHEDULES, (GemmWs, GemmCooperative, GemmPingpong), strict=True))
"""The whole kernels by their schedule."""
