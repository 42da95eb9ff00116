"""The correct kernels that are recorded, at which sizes: what `verify record KERNEL` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sm90_verify.evidence.hardware.cases import KERNELS
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline

SMALL = 4096
"""Bytes of a stage, so that eight of them fit."""
SCHEDULES = ("ws", "cooperative", "pingpong")


def sizes(kernel: str) -> list[dict[str, Any]]:
    """The parameters at which a kernel is recorded; raises SpecError for an unknown name."""
    rows = _ROWS.get(kernel)
    if rows is None:
        raise SpecError(f"no kernel {kernel!r} to record: use one of {', '.join(_ROWS)}")
    return list(rows())


def pipelines(kernel: str) -> list[Pipeline]:
    return [KERNELS[kernel](**parameters) for parameters in sizes(kernel)]


def kernels() -> tuple[str, ...]:
    return tuple(_ROWS)


def _trips(stages: int) -> int:
    """Every stage is used twice and one a third time."""
    return 2 * stages + 1


def _rings(**more: Any) -> Iterator[dict[str, Any]]:
    for stages in (1, 2, 3, 4, 6, 8):
        for consumers in (1, 2):
            yield {"stages": stages, "consumers": consumers, "trips": _trips(stages), **more}


def _tma_async() -> Iterator[dict[str, Any]]:
    yield from _rings(bytes=SMALL)
    yield {"stages": 2, "trips": 7, "bytes": 32_768}
    yield {"stages": 2, "trips": 5, "bytes": SMALL, "producers": 2}
    for cluster in ("2x1", "1x2", "2x2"):
        for stages in (1, 2, 3):
            yield {"stages": stages, "trips": _trips(stages), "bytes": SMALL, "cluster": cluster}


def _store() -> Iterator[dict[str, Any]]:
    for stages in (1, 2, 3, 4):
        for consumers in (1, 2):
            yield {"stages": stages, "consumers": consumers, "trips": _trips(stages) + 2}


def _ordered() -> Iterator[dict[str, Any]]:
    for stages in (1, 2, 3):
        for consumers in (2, 3):
            yield {"stages": stages, "consumers": consumers, "trips": _trips(stages)}


def _mainloop() -> Iterator[dict[str, Any]]:
    for form in ("ss", "rs"):
        for stages in (2, 3, 4, 6):
            for k_tiles in (1, stages, 2 * stages + 1):
                yield {"form": form, "stages": stages, "k_tiles": k_tiles, "bytes_a": SMALL, "bytes_b": SMALL}


def _epilogue() -> Iterator[dict[str, Any]]:
    for schedule in SCHEDULES:
        tiles = 1 if schedule == "ws" else 3
        for stages_c, stages_d, reuse, delay in (
            (4, 2, True, False),
            (4, 2, False, True),
            (4, 2, False, False),
            (2, 1, True, False),
            (1, 1, False, False),
            (3, 3, False, False),
        ):
            yield {
                "schedule": schedule,
                "stages_c": stages_c,
                "stages_d": stages_d,
                "reuse_smem_c": reuse,
                "delay_tma_store": delay,
                "subtiles": 4,
                "tiles": tiles,
                "bytes_c": SMALL,
                "bytes_d": SMALL,
            }


def _gemm(tiles: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    for k_tiles in (1, 2, 5):
        for stages in (2, 4):
            for reuse, delay in ((True, False), (False, True)):
                for count in tiles:
                    yield {
                        "stages": stages,
                        "k_tiles": k_tiles,
                        "stages_c": 4,
                        "stages_d": 2,
                        "reuse_smem_c": reuse,
                        "delay_tma_store": delay,
                        "subtiles": 4,
                        "bytes_a": SMALL,
                        "bytes_b": SMALL,
                        **({"tiles": count} if count else {}),
                    }


_ROWS: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "tma-async": _tma_async,
    "transaction-async": _rings,
    "async": _rings,
    "tma-store": _store,
    "ordered-sequence": _ordered,
    "mainloop": _mainloop,
    "epilogue": _epilogue,
    "gemm-ws": lambda: _gemm((0,)),
    "gemm-cooperative": lambda: _gemm((1, 3)),
    "gemm-pingpong": lambda: _gemm((1, 3)),
}
