"""The GEMM kernels of kernels/gemm.cu on the GPU: their numbers, and what their roles did, held to
spec/cutlass/gemm.py.

A and B are whole and small numbers in half precision or bfloat16, so that every product and sum is exact and the
kernel's D must equal a plain product to the last bit. Every CTA of a launch is one run of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sm90_verify.evidence.hardware.recorder.conform import Conformance, TapeNames, conform
from sm90_verify.evidence.hardware.recorder.tapes import Did, Hold, Recorder, Tape
from sm90_verify.evidence.hardware.recorder.tensor_map import of_array, on_device
from sm90_verify.gpu.device import Module, sources
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.spec.cutlass.gemm import GEMMS, Gemm
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

K_TILE = 64
SUBTILE = 32
"""Columns of a tile of D that are stored at once."""
HALF = 2
"""Bytes of an element."""
KINDS = (
    "full",
    "empty",
    "epi_full",
    "epi_empty",
    "load_order",
    "math_order",
    "a",
    "b",
    "b1",
    "ab",
    "whole_c",
    "whole_d",
    *(f"part_c{part}" for part in range(3)),
    *(f"part_d{part}" for part in range(3)),
)
"""Kinds of objects, by number; the stage is in the low byte (enum Kind of kernels/gemm_actor.cuh)."""
POINTS = ("load_a", "load_b", "mma", "read", "write", "tile")
"""Operations before which a directed run can hold a role (enum Point)."""
WRONG = (
    "",
    "release_before_mma",
    "release_before_wait",
    "release_unwaited",
    "expect_less",
    "expect_more",
    "consumer_parity",
    "producer_phase",
    "no_release",
    "no_tail_release",
    "no_load_tail",
    "no_acquire",
    "order_swapped",
    "no_mma_order",
    "no_epilogue_order",
    "no_store_sync",
    "no_store_fence",
    "no_store_wait",
    "release_own",
    "source_released",
)
"""What kernels/gemm.cu can do wrong, by number (enum Wrong of kernels/gemm_shape.cuh)."""
LIMIT = 20_000_000
SHARED = 227 * 1024 - 1024
"""Bytes for tensors: what is left of a CTA's memory for barriers, and for the 1024 bytes that they are aligned to."""


@dataclass(frozen=True)
class Config:
    """How the kernel is compiled. tile: rows and columns of a tile of D. source: there is a C to add. repeat: how often
    more each product is added and taken away again. wrong: one of WRONG. cluster: CTAs are in clusters of 2x1, that
    share what they load of B.
    """

    schedule: str
    stages: int = 4
    tile: tuple[int, int] = (128, 128)
    source: bool = False
    reuse: bool = False
    delay: bool = False
    stages_c: int = 4
    stages_d: int = 2
    bfloat16: bool = False
    repeat: int = 0
    wrong: str = ""
    cluster: bool = False

    def __post_init__(self) -> None:
        groups = 2 if self.schedule == "cooperative" else 1
        if self.schedule not in GEMMS:
            raise SpecError(f"schedule={self.schedule!r}: use one of {', '.join(GEMMS)}")
        if self.wrong not in WRONG:
            raise SpecError(f"wrong={self.wrong!r}: use one of {', '.join(WRONG[1:])}")
        if self.tile[0] not in (64, 128, 256) or self.tile[0] % (64 * groups) or self.tile[1] not in (64, 128, 256):
            raise SpecError(
                f"a tile of {self.tile}: 64, 128 or 256 rows, 64 for each warpgroup, and 64, 128 or 256 columns"
            )
        if self.tile[0] * self.tile[1] > 128 * 128 * groups:
            raise SpecError(f"a tile of {self.tile}: more accumulators than a thread has registers")
        if not 2 <= self.stages <= 8:
            raise SpecError(f"stages={self.stages}: use 2 to 8")
        if self.reuse and not self.source:
            raise SpecError("reuse: there is no C whose memory D could be written to")
        if self.bytes > SHARED:
            raise SpecError(
                f"{self.bytes} bytes of shared memory: a CTA has {SHARED}; use a smaller tile or fewer stages"
            )

    @property
    def ctas(self) -> int:
        """Of a cluster."""
        return 2 if self.cluster else 1

    @property
    def bytes_a(self) -> int:
        return self.tile[0] * K_TILE * HALF

    @property
    def bytes_b(self) -> int:
        return self.tile[1] * K_TILE * HALF

    @property
    def bytes_d(self) -> int:
        """Of a stage of C or D."""
        return self.tile[0] * SUBTILE * HALF

    @property
    def store_stages(self) -> int:
        """Of D."""
        return self.stages_c if self.reuse else self.stages_d

    @property
    def bytes(self) -> int:
        """Of all tensors in shared memory."""
        mainloop = self.stages * (self.bytes_a + self.bytes_b)
        stages = self.stages_c * self.source + (0 if self.reuse else self.stages_d)
        epilogue = stages * self.bytes_d
        return max(mainloop, epilogue) if self.schedule == "ws" else mainloop + epilogue

    def macros(self, *, record: bool, directed: bool) -> dict[str, int | str]:
        return {
            "SCHEDULE": list(GEMMS).index(self.schedule),
            "STAGES": self.stages,
            "TILE_M": self.tile[0],
            "TILE_N": self.tile[1],
            "SOURCE": int(self.source),
            "REUSE": int(self.reuse),
            "DELAY": int(self.delay),
            "STAGES_C": self.stages_c,
            "STAGES_D": self.stages_d,
            "REPEAT": self.repeat,
            "WRONG": WRONG.index(self.wrong),
            **({"BF16": 1} if self.bfloat16 else {}),
            **({"CLUSTER": 2} if self.cluster else {}),
            **({"RECORD": 1} if record else {}),
            **({"DIRECTED": 1} if directed else {}),
        }

    def model(self, k_tiles: int, tiles: int, kernel: type[Gemm] | None = None, *, collective: bool = True) -> Gemm:
        """The specification of a CTA, or a cluster, with `tiles` tiles of D. kernel: not the schedule's own class.
        collective: collective_wgmma, by which the warps of a warpgroup meet where a group of MMAs ends. On an H100 they
        wait for each other where they issue and commit it, and go on from its end each by itself: so recorded runs are
        held to the model without, which allows more.
        """
        parameters: dict[str, Any] = {
            "stages": self.stages,
            "k_tiles": k_tiles,
            "bytes_a": self.bytes_a,
            "bytes_b": self.bytes_b,
            "bytes_c": self.bytes_d,
            "bytes_d": self.bytes_d,
            "stages_c": self.stages_c,
            "stages_d": self.stages_d,
            "reuse_smem_c": self.reuse,
            "delay_tma_store": self.delay,
            "subtiles": self.tile[1] // SUBTILE,
            "void_c": not self.source,
            "cluster": "2x1" if self.cluster else "1x1",
            "collective_wgmma": collective,
        }
        if self.schedule == "ws":
            if tiles != 1:
                raise SpecError(f"a CTA of the ws kernel has one tile, not {tiles}")
        else:
            parameters["tiles"] = tiles
        return (kernel or GEMMS[self.schedule])(**parameters)


def names(config: Config) -> TapeNames:
    """How the kernel's places and objects read in the model."""
    places = ["load_warp.0", "load_warp.1"] if config.schedule == "ws" else ["mainloop_load_warp.0"]
    if config.schedule != "ws":
        places += ["mainloop_load_warp.1", "idle_warps"]
        places += ["epilogue_load_warp.0", "epilogue_load_warp.1"] if config.source else ["idle_warps"]
        places.append("idle_warps")
    match config.schedule:
        case "ws":
            places += ["consumer.0", *("consumer.1",) * 3]
        case "cooperative":
            places += ["consumer0.0", *("consumer0.1",) * 3, *("consumer1",) * 4]
        case _:
            places += [f"consumer{copy}.{part}" for copy in (0, 1) for part in (0, 1, 1, 1)]
    parts = ("store_warp", "other_warps", "second_warpgroup")
    whole = parts if config.schedule == "cooperative" else parts[:2]
    slices = ("b.slice0", "b.slice1") if config.cluster else ("b.stage",)
    of_kind: dict[str, tuple[str, ...]] = {
        "full": ("mainloop.full",),
        "empty": ("mainloop.empty",),
        "epi_full": ("epi_load.full",),
        "epi_empty": ("epi_load.empty",),
        "load_order": ("load_order.barrier",),
        "math_order": ("math_order.barrier",),
        "a": ("a.stage",),
        "b": slices[:1],
        "b1": slices[1:],
        "ab": ("a.stage", *slices),
    }
    for tensor in "cd":
        of_kind[f"whole_{tensor}"] = tuple(f"{tensor}.{part}" for part in whole)
        of_kind.update({f"part_{tensor}{number}": (f"{tensor}.{part}",) for number, part in enumerate(parts)})
    slots = {"l": 2, "m": 4, "e": config.stages_c, "c": config.stages_c, "d": config.store_stages}
    objects: dict[int, tuple[str, ...]] = {}
    for kind, found in of_kind.items():
        tensor = kind.removeprefix("whole_").removeprefix("part_")[0]
        count = config.stages if kind in ("full", "empty", "a", "b", "b1", "ab") else slots[tensor]
        for stage in range(count if found else 0):
            index = f"[{stage}]" if count > 1 else ""
            objects[KINDS.index(kind) << 8 | stage] = tuple(f"{name}{index}" for name in found)
    return TapeNames(tuple(places), objects)


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
