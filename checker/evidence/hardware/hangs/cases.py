"""The hangs of which core dumps are kept: hand-written kernels with a mistake, and epilogues of CUTLASS that deadlock.

Each is compiled to a program that launches its kernel once. What the specification says of it comes from the model
that makes the same mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from sm90_verify.evidence.frontier.box import Configuration
from sm90_verify.evidence.hardware.cutlass import epilogue_macros
from sm90_verify.evidence.hardware.gemm.config import Config
from sm90_verify.evidence.hardware.gemm.models import model_class
from sm90_verify.evidence.hardware.gemm.variants import Variant
from sm90_verify.evidence.hardware.gemm.variants import variants as gemm_variants
from sm90_verify.evidence.hardware.pipelines.mistakes import Mistake, mistakes
from sm90_verify.evidence.hardware.pipelines.shapes import FIRST, NAMES, shape
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.language.pipeline import Pipeline

PIPELINES, GEMM, PLACES, WORDS = "hang_pipelines.cu", "hang_gemm.cu", "hang_places.cu", "hang_words.cu"
CUTLASS = "cutlass_epilogue.cu"
SEVERAL = {"tma_async_expect_more": 3, "ws_no_release": 2, "transaction_async_commit_by_one_lane": 2}
"""Clusters that are launched, where it is not one."""


@dataclass(frozen=True)
class Hang:
    """source: in kernels/. macros: that it is compiled with. arguments: of the program. mistake: in a few words.

    cluster: CTAs of a cluster. model: the pipeline that makes the same mistake, of one cluster; None: there is none.
    lines: it is compiled with line tables.
    """

    name: str
    source: str
    macros: Mapping[str, int | str]
    arguments: tuple[int, ...]
    mistake: str
    cluster: int
    model: Pipeline | None = None
    lines: bool = True

    @property
    def constants(self) -> bool:
        """Whether a dump may have the constant banks: a kernel that has more than bank 0 does not survive it."""
        return self.source in (PIPELINES, GEMM)


@cache
def hangs() -> tuple[Hang, ...]:
    """All of them, by name."""
    places = (
        Hang("places", PLACES, {}, (4, 255, 1), "every warp waits for something else", 2),
        Hang("two_grids", PLACES, {}, (2, 0b1000_0001, 2), "two grids wait at once", 2),
        Hang("exception", PLACES, {}, (2, 256 + 0b11_0000, 1), "three lanes make two arrivals that are missing", 2),
    )
    pipelines = list(_pipelines())
    without = replace(pipelines[0], name=f"{pipelines[0].name}_without_lines", lines=False)
    found = (*pipelines, without, *_gemms(), *places, *_cutlass())
    assert len({one.name for one in found}) == len(found)
    return found


def _pipelines() -> Iterator[Hang]:
    for one in mistakes():
        if one.shows != "hang":
            continue
        name = _plain(f"{one.kernel} {one.name}") + ("_2x1" if "cluster" in one.parameters else "")
        yield _pipeline(name, one, SEVERAL.get(name, 1))


def _pipeline(name: str, one: Mistake, clusters: int) -> Hang:
    right = kernels()[one.kernel](**one.parameters)
    kind, size = NAMES.index(one.kernel), right.shape.size
    known = shape(kind, right)
    macros: dict[str, int | str] = {"KERNEL": kind, "WRONG": one.number, **known.macros}
    if size > 1:
        macros |= {"CLUSTER": size, "CLUSTER_X": right.shape.x, "CLUSTER_Y": right.shape.y}
    arguments = (
        clusters * size,
        known.threads,
        FIRST + known.shared,
        known.trips,
        known.rows,
        known.sources,
        known.source_bytes,
        known.stage,
    )
    return Hang(name, PIPELINES, macros, arguments, one.name, size, one.pipeline())


def _gemms() -> Iterator[Hang]:
    for one in gemm_variants():
        if one.shows == "hang":
            name = _plain(one.label) + ("_2x1" if one.config.cluster else "")
            yield _gemm(name, one, SEVERAL.get(name, 1))


def _gemm(name: str, one: Variant, clusters: int) -> Hang:
    config: Config = one.config
    macros = config.macros(record=False, directed=False)
    rows, columns = config.ctas, one.tiles * clusters
    arguments = (rows, columns, one.k_tiles, config.ctas * clusters)
    model = config.model(one.k_tiles, one.tiles, model_class(config))
    return Hang(name, GEMM, macros, arguments, config.wrong or "store_tail", config.ctas, model)


def _cutlass() -> Iterator[Hang]:
    """Cooperative, with the memory of C reused for D, and more stages than a tile has subtiles."""
    bytes_ = 2 * 128 * 64
    for name, stages_c, delay in (("reuse", 4, False), ("reuse_delay", 5, True)):
        point = Configuration("cooperative", stages_c, 4, delay, True, 2, 2, bytes_, bytes_)
        arguments = (256, 256, 256, 2, 1)
        yield Hang(
            f"cutlass_cooperative_{name}", CUTLASS, epilogue_macros(point), arguments, "store_tail", 1, point.pipeline()
        )


def _plain(words: str) -> str:
    return words.replace(" ", "_").replace("-", "_")
