"""The GEMM kernels of kernels/gemm.cu on the GPU: their numbers, and what their roles did, held to
spec/cutlass/gemm.py.

A and B are whole and small numbers in half precision or bfloat16, so that every product and sum is exact and the
kernel's D must equal a plain product to the last bit. Every CTA of a launch is one run of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sm90_verify.evidence.hardware.gemm.config import K_TILE, SUBTILE, Config, names
from sm90_verify.evidence.hardware.recorder.conform import Conformance, TapeNames, conform
from sm90_verify.evidence.hardware.recorder.tapes import Did, Hold, Recorder, Tape
from sm90_verify.evidence.hardware.recorder.tensor_map import of_array, on_device
from sm90_verify.gpu.device import Module, sources
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.spec.cutlass.gemm import Gemm
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

LIMIT = 20_000_000


def bytes_of_parts(plan: ExecutorPlan) -> dict[str, int]:
    """By buffer of a CTA, its bytes in the model."""
    regions = plan.kernel.layout.regions
    return {region.object.removeprefix(f"cta{region.cta}."): region.stop - region.start for region in regions}


@dataclass(frozen=True)
class GemmOutcome:
    """What a launch did. error: the largest difference of D from the product, infinite where D is no number. wrong: by
    CTA, whether one of its tiles differs. tapes: by CTA and place. tiles: by CTA, how many it had.
    """

    error: float
    wrong: tuple[bool, ...]
    tapes: tuple[tuple[Tape, ...], ...]
    tiles: tuple[int, ...]
    milliseconds: float

    @property
    def hangs(self) -> tuple[bool, ...]:
        """By CTA, whether a role gave up."""
        return tuple(any(tape.stuck is not None for tape in row) for row in self.tapes)


class GemmKernel:
    """A kernel compiled with recording or without, for D of m x n and a depth of k; ctas: of a launch, for the
    persistent schedules; 0: one for each tile. directed: holds can be given to `run`. Raises SpecError for sizes that
    are no multiples of the tile.
    """

    def __init__(
        self, config: Config, m: int, n: int, k: int, *, ctas: int = 0, record: bool = True, directed: bool = False
    ) -> None:
        rows, columns = config.tile
        for name, size, unit in (("m", m, rows), ("n", n, columns), ("k", k, K_TILE)):
            if size < unit or size % unit:
                raise SpecError(f"{name}={size}: use a multiple of {unit}")
        self.config, self.m, self.n, self.k = config, m, n, k
        self.rows, self.tiles = m // rows, m // rows * (n // columns)
        self.ctas = ctas or self.tiles
        if not 1 <= self.ctas <= self.tiles or (config.schedule == "ws" and self.ctas != self.tiles):
            raise SpecError(f"{self.ctas} CTAs for {self.tiles} tiles of a {config.schedule} kernel")
        if self.rows % config.ctas or self.ctas % config.ctas:
            raise SpecError(f"{self.rows} rows of tiles, {self.ctas} CTAs: clusters of 2x1 take both in pairs")
        self.record = record
        self.module = Module((sources() / "gemm.cu").read_text(), config.macros(record=record, directed=directed))

    def tiles_of(self, cta: int) -> int:
        pair = self.config.ctas
        return len(range(cta // pair, self.tiles // pair, self.ctas // pair))

    def cta_of(self, row: int, column: int) -> int:
        """Which CTA has a tile of D."""
        pair = self.config.ctas
        number = column * (self.rows // pair) + row // pair
        return number % (self.ctas // pair) * pair + row % pair

    def run(
        self, *, seed: int = 1, jitter: int = 0, limit: int = LIMIT, holds: Sequence[Hold] = (), capacity: int = 0
    ) -> GemmOutcome:
        """One launch. jitter: nanoseconds, before some operations, of a kernel that records. limit: nanoseconds after
        which waits give up. capacity: events of a place; 0: as many as the model's longest program has.
        """
        cupy, config = self.module.cupy, self.config
        a, b, c, d, expected = self._tensors(seed)
        (rows, columns), element = config.tile, "bfloat16" if config.bfloat16 else "float16"
        maps = on_device(
            cupy,
            (
                of_array(a, (rows, K_TILE), swizzle=128, element=element),
                of_array(b, (columns // config.ctas, K_TILE), swizzle=128, element=element),
                of_array(c, (rows, SUBTILE), swizzle=64),
                of_array(d, (rows, SUBTILE), swizzle=64),
            ),
        )
        places = len(names(config).places)
        recorder = Recorder(
            cupy,
            self.ctas,
            places,
            capacity=capacity or (self._capacity if self.record else 1),
            limit=limit,
            jitter=jitter,
            seed=seed,
            holds=holds,
        )
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self.module.launch(
            "gemm",
            self.ctas,
            2 * WARPGROUP if config.schedule == "ws" else 3 * WARPGROUP,
            (
                maps,
                *(cupy.int32(value) for value in (self.tiles, self.rows, self.k // K_TILE)),
                recorder.argument,
            ),
            shared=config.bytes + 1024,
            cluster=config.ctas,
        )
        stop.record()
        stop.synchronize()
        tapes = tuple(recorder.tapes(recorded=self.record))
        differs = ~(d == expected)
        wrong = [False] * self.ctas
        for row, found in enumerate(differs.reshape(self.rows, rows, -1, columns).any(axis=(1, 3)).tolist()):
            for column, one in enumerate(found):
                wrong[self.cta_of(row, column)] |= one
        error = cupy.nan_to_num(cupy.abs(d.astype(cupy.float32) - expected), nan=cupy.inf, posinf=cupy.inf).max()
        return GemmOutcome(
            float(error),
            tuple(wrong),
            tapes,
            tuple(self.tiles_of(cta) for cta in range(self.ctas)),
            float(cupy.cuda.get_elapsed_time(start, stop)),
        )

    @property
    def _capacity(self) -> int:
        """More events of a place than even the wrong kernels have."""
        subtiles = self.config.tile[1] // SUBTILE
        return self.tiles_of(0) * (8 * self.k // K_TILE + 16 * subtiles + 8) + 4 * self.config.stages + 64

    def plan(self, tiles: int, kernel: type[Gemm] | None = None, *, collective: bool = True) -> ExecutorPlan:
        """The model of a CTA or cluster with so many tiles."""
        return lower(trace(self.config.model(self.k // K_TILE, tiles, kernel, collective=collective)))

    def conform(self, outcome: GemmOutcome, plan: ExecutorPlan, runs: Sequence[int]) -> list[Conformance]:
        """What these CTAs, or clusters, did, held to a model operation by operation."""
        known = names(self.config)
        sizes, collective = bytes_of_parts(plan), bool(plan.kernel.parameters.get("collective_wgmma", True))
        found = []
        for run in runs:
            rows = outcome.tapes[run * self.config.ctas : (run + 1) * self.config.ctas]
            found.append(
                conform(plan, known, [[self.tape(tape, known, sizes, collective) for tape in row] for row in rows])
            )
        return found

    def tape(self, tape: Tape, known: TapeNames, sizes: Mapping[str, int], collective: bool) -> Tape:
        """A tape in the model's terms: the parts of a stage of C and D, which the model divides otherwise; and the end
        of a group of MMAs, which is one for the four warps of a warpgroup, so that it may be long before a warp commits
        and looks.
        """
        found: list[Did] = []
        for did in tape.events:
            if did.code in ("read", "write"):
                (part,) = known.objects[did.object]
                if did.operand != self._part_bytes(part):
                    raise SpecError(f"{part}: the kernel's threads have {did.operand} bytes of it")
                did = replace(did, operand=sizes[part])
            if did.code == "mma_commit":
                did = replace(did, before=found[-1].after, after=found[-1].after)
            elif did.code == "mma_wait":
                did = replace(did, before=found[-1].after)
            elif did.code == "warp_sync" and found and found[-1].code == "mma_wait":
                if not collective:
                    continue
                did = replace(did, before=found[-1].before)
            found.append(did)
        return replace(tape, events=tuple(found))

    def _part_bytes(self, part: str) -> int:
        """Of a stage of C or D, by the share of the threads."""
        threads = WARPGROUP * (2 if self.config.schedule == "cooperative" else 1)
        mine = {"store_warp": WARP, "other_warps": WARPGROUP - WARP, "second_warpgroup": WARPGROUP}
        return self.config.bytes_d * mine[part.partition(".")[2].partition("[")[0]] // threads

    def _tensors(self, seed: int) -> tuple[Any, Any, Any, Any, Any]:
        """A, B, C, a D that is no number, and the D to expect."""
        cupy, config = self.module.cupy, self.config

        def numbers(rows: int, columns: int, salt: int, span: int) -> Any:
            mixed = cupy.arange(rows * columns, dtype=cupy.uint32) + cupy.uint32((seed * 7919 + salt * 104_729) % 2**32)
            for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
                mixed = (mixed ^ (mixed >> shift)) * cupy.uint32(factor)
            whole = (mixed % cupy.uint32(2 * span + 1)).astype(cupy.float32) - span
            return whole.reshape(rows, columns)

        a, b, c = numbers(self.m, self.k, 1, 2), numbers(self.n, self.k, 2, 2), numbers(self.m, self.n, 3, 8)
        expected = a @ b.T
        if config.source:
            expected = expected + c
        pack = _bfloat16 if config.bfloat16 else lambda _, array: array.astype(cupy.float16)
        d = cupy.full((self.m, self.n), cupy.nan, dtype=cupy.float16)
        return pack(cupy, a), pack(cupy, b), c.astype(cupy.float16), d, expected


def _bfloat16(cupy: Any, array: Any) -> Any:
    """Numbers that bfloat16 can hold exactly, as its bits."""
    return (array.view(cupy.uint32) >> 16).astype(cupy.uint16)
