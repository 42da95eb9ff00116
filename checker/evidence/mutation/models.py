"""The models whose mutants are counted: a row each, at sizes at which every mutant can be searched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sm90_verify.mutation.catalogue import Model
from sm90_verify.spec.cutlass.classes import PIPELINES
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GemmCooperative, GemmPingpong, GemmWs
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.language.pipeline import Pipeline

SMALL = {"subtiles": 2, "stages_c": 1, "stages_d": 1}
TINY = {**SMALL, "subtiles": 1, "k_tiles": 1}
LARGE = {"bytes_c": 32_768, "bytes_d": 32_768}
"""C and D that lie over all stages of A and B."""
DELAYED = {"reuse_smem_c": False, "delay_tma_store": True}
"""With reuse, a delayed store needs more stages of C than of D."""


def models(*, dense: bool = False) -> list[Model]:
    """All rows. dense: most of them with changes at single executions and by single instances of a role as well."""
    rows = [
        *_library("tma-async", thin=((3, 2),)),
        *_library("transaction-async", thin=((2, 2), (3, 1), (3, 2))),
        *_library("async", thin=((3, 2),)),
        *_library("tma-store", sizes=((2, 1), (3, 1))),
        *_library("ordered-sequence", thin=((3, 2),)),
        _model(PIPELINES["tma-async"], stages=2, peek=True),
        _model(PIPELINES["tma-async"], True, stages=2, producers=2),
        _model(PIPELINES["tma-async"], True, stages=1, cluster="2x1"),
        _model(PIPELINES["async"], True, stages=2, producers=2),
        _model(PIPELINES["tma-store"], True, stages=2, strict=True),
        Model(Mainloop, {"stages": 2, "k_tiles": 3}),
        Model(Mainloop, {"stages": 2}, {"k_tiles": 5}, thin=True),
        Model(Mainloop, {"stages": 3, "form": "rs", "k_tiles": 4}, thin=True),
        Model(Epilogue, {"schedule": "ws", "stages_c": 2, "stages_d": 1, "subtiles": 3, "tiles": 1}),
        Model(Epilogue, {"schedule": "ws", **SMALL, "tiles": 1, "reuse_smem_c": False}, thin=True),
        Model(Epilogue, {"schedule": "cooperative", **SMALL, "tiles": 2, **DELAYED}, thin=True),
        Model(Epilogue, {"schedule": "pingpong", **SMALL, "stages_c": 2, "tiles": 2}, thin=True),
        Model(GemmWs, {"stages": 2, "k_tiles": 3, **SMALL, **LARGE}, thin=True),
        Model(GemmCooperative, {"stages": 1, **TINY, "tiles": 2}, thin=True, limit=30_000),
        Model(GemmPingpong, {"stages": 1, **TINY, "tiles": 2}, thin=True, limit=30_000),
    ]
    return [replace(row, thin=row.thin or not dense) for row in rows]


def _library(
    name: str,
    *,
    sizes: tuple[tuple[int, int], ...] = ((2, 1), (2, 2), (3, 1), (3, 2)),
    thin: tuple[tuple[int, int], ...] = (),
) -> list[Model]:
    """A pipeline class at several (stages, consumers), the larger ones thin."""
    return [_model(PIPELINES[name], size in thin, stages=size[0], consumers=size[1]) for size in sizes]


def _model(kernel: type[Pipeline], thin: bool = False, **parameters: Any) -> Model:
    return Model(kernel, parameters, {"trips": 2 * parameters["stages"] + 1}, thin)
