"""How kernels/gemm.cu is compiled, and what its places and objects are called in spec/cutlass/gemm.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sm90_verify.evidence.hardware.recorder.conform import TapeNames
from sm90_verify.spec.cutlass.gemm import GEMMS, Gemm
from sm90_verify.spec.errors import SpecError

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
