"""What the hand-written kernels of kernels/pipelines.cu need to know of a model's parameters, and what their numbers
mean in its words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sm90_verify.evidence.hardware.recorder.conform import TapeNames
from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

NAMES = ("tma-async", "transaction-async", "async", "tma-store", "ordered-sequence", "epilogue")
"""By number, what KERNEL in kernels/pipelines.cu stands for."""
FULL, EMPTY, ORDER, BUFFER = 0, 32, 64, 128
"""The kernels' numbers of objects."""
OF_D = 0x40000000
"""A word of D is that of the C it was made of, with this bit."""
FIRST = 1024
"""Bytes of shared memory before the buffers."""
LINE = 1024
"""Bytes of a line of the tensors that are copied."""


@dataclass(frozen=True)
class Shape:
    """What a kernel needs to know of a model's parameters, and what its numbers mean.

    stage: bytes of a stage, and of a row of the output. boxes: bytes of its copies. word: of a row of the output.
    """

    macros: dict[str, int | str]
    places: tuple[str, ...]
    objects: dict[int, tuple[str, ...]]
    trips: int
    threads: int
    stage: int
    shared: int
    capacity: int
    sources: int = 1
    source_bytes: int = LINE
    boxes: tuple[int, int] = (LINE, LINE)
    rows: int = 0
    word: Callable[[int], int] = lambda row: row + 1

    @property
    def names(self) -> TapeNames:
        return TapeNames(self.places, self.objects)


def shape(kind: int, model: Any) -> Shape:
    return (_tma_async, _ring, _ring, _tma_store, _ordered, _epilogue)[kind](model)


def _copies(name: str, count: int) -> list[str]:
    return [f"{name}{copy}" if count > 1 else name for copy in range(count)]


def _warps(roles: Sequence[str], each: int) -> tuple[str, ...]:
    return tuple(role for role in roles for _ in range(each))


def _numbered(first: int, count: int, *names: str) -> dict[int, tuple[str, ...]]:
    """The names of the slots of arrays, which of a single slot is that of the array."""
    return {first + k: tuple(f"{name}[{k}]" if count > 1 else name for name in names) for k in range(count)}


def _barriers(name: str, stages: int) -> dict[int, tuple[str, ...]]:
    return {**_numbered(FULL, stages, f"{name}.full"), **_numbered(EMPTY, stages, f"{name}.empty")}


def _tma_async(model: Any) -> Shape:
    stages, producers, shape = model.stages, model.producers, model.shape
    alone = shape.size == 1
    parts_a, parts_b = model.bytes // 2 // shape.y, model.bytes // 2 // shape.x
    return Shape(
        {"STAGES": stages, "CONSUMERS": model.consumers, "PRODUCERS": producers, "BYTES": model.bytes},
        (*_copies("producer", producers), *_warps(_copies("consumer", model.consumers), 4)),
        {
            **_barriers("pipeline", stages),
            **(_numbered(BUFFER, stages * producers, "a") if alone else {}),
            **({} if alone else _numbered(BUFFER, stages * shape.y, "parts_of_a")),
            **({} if alone else _numbered(BUFFER + 32, stages * shape.x, "parts_of_b")),
        },
        model.trips,
        WARPGROUP * (1 + model.consumers),
        model.bytes,
        stages * producers * model.bytes,
        16 * (model.trips + stages),
        model.trips * (producers if alone else 2 * shape.size),
        model.bytes if alone else model.bytes // 2,
        (model.bytes, model.bytes) if alone else (parts_a, parts_b),
    )


def _ring(model: Any) -> Shape:
    stages, elected = model.stages, model.name == "transaction-async"
    producers = ("producer.0", "producer.1") if elected else _warps(("producer",), 4)
    return Shape(
        {"STAGES": stages, "CONSUMERS": model.consumers, "BYTES": model.bytes},
        (*producers, *_warps(_copies("consumer", model.consumers), 4)),
        {**_barriers("pipeline", stages), **_numbered(BUFFER, stages, "c" if elected else "x")},
        model.trips,
        WARPGROUP * (1 + model.consumers),
        model.bytes,
        stages * model.bytes,
        8 * (model.trips + stages),
        model.trips,
        model.bytes,
        (model.bytes, model.bytes),
    )


def _tma_store(model: Any) -> Shape:
    warps = 4 * model.consumers
    return Shape(
        {"STAGES": model.stages, "CONSUMERS": model.consumers, "BYTES": model.bytes},
        ("store_warp", *_warps(("other_warps",), warps - 1)),
        {
            **_numbered(BUFFER, model.stages, "mine"),
            **_numbered(BUFFER + 32, model.stages, "rest"),
            **_numbered(BUFFER + 64, model.stages, "mine", "rest"),
        },
        model.trips,
        warps * WARP,
        model.bytes,
        model.stages * model.bytes,
        8 * (model.trips + 1),
        rows=model.trips,
    )


def _ordered(model: Any) -> Shape:
    groups = model.consumers
    return Shape(
        {"STAGES": model.stages, "CONSUMERS": groups, "BYTES": 128},
        _warps(_copies("group", groups), 4),
        {
            **_numbered(ORDER, model.stages * groups, "order.barrier"),
            **_numbered(BUFFER, model.stages, "work"),
        },
        model.trips,
        WARPGROUP * groups,
        LINE,
        128 * model.stages,
        4 * (model.trips + 1),
    )


def _epilogue(model: Any) -> Shape:
    """The model's `d` lies in `c` with reuse_smem_c."""
    if model.bytes_c != model.bytes_d or model.void_c or not model.source_needed or model.aux_load_bytes:
        raise SpecError("the hand-written epilogue has a source, and stages of C and D of one size")
    groups, stages_c = model.groups, model.stages_c
    each = model.epilogue_threads // WARP
    consumers = [
        role
        for store, other in zip(_copies("store_warp", groups), _copies("other_warps", groups), strict=True)
        for role in (store, *_warps((other,), each - 1))
    ]
    work = model.subtiles * model.tiles
    stages_d = model.store_stages
    return Shape(
        {
            "STAGES_C": stages_c,
            "STAGES_D": model.stages_d,
            "REUSE": int(model.reuse_smem_c),
            "DELAY": int(model.delay_tma_store),
            "SUBTILES": model.subtiles,
            "BYTES": model.bytes_c,
            "SCHEDULE": SCHEDULES.index(model.schedule),
        },
        ("epilogue_load_warp.0", "epilogue_load_warp.1", *consumers),
        {
            **_barriers("epi_load", stages_c),
            **_numbered(ORDER, 2, "order.barrier"),
            **_numbered(BUFFER, stages_c, "c.store_warp"),
            **_numbered(BUFFER + 32, stages_c, "c.other_warps"),
            **_numbered(BUFFER + 48, stages_c, "c.store_warp", "c.other_warps"),
            **_numbered(BUFFER + 64, stages_d, "d.store_warp"),
            **_numbered(BUFFER + 80, stages_d, "d.other_warps"),
            **_numbered(BUFFER + 96, stages_d, "d.store_warp", "d.other_warps"),
        },
        model.tiles,
        WARPGROUP + groups * model.epilogue_threads,
        model.bytes_c,
        (stages_c + (0 if model.reuse_smem_c else stages_d)) * model.bytes_c,
        24 * (work + stages_c + 4),
        work,
        model.bytes_c,
        (model.bytes_c, model.bytes_c),
        work,
        lambda row: row + 1 | OF_D,
    )
