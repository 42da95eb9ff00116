"""The hand-written kernels and their launches, each beside its model: all that are recorded, and all 85 mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from sm90_verify.evidence.hardware.from_ptx.launches import (
    bulk_groups_launch,
    gemm_launch,
    pipeline_launch,
    proxy_fences_launch,
)
from sm90_verify.evidence.hardware.gemm.record import sizes as gemm_sizes
from sm90_verify.evidence.hardware.gemm.variants import Variant, variants
from sm90_verify.evidence.hardware.gemm.variants import predict as predict_gemm
from sm90_verify.evidence.hardware.pipelines.kernel import sizes as pipeline_sizes
from sm90_verify.evidence.hardware.pipelines.mistakes import Mistake, mistakes
from sm90_verify.evidence.hardware.pipelines.shapes import NAMES, shape
from sm90_verify.spec.cutlass.catalogue import kernels

COPIES = ("tma-async", "transaction-async", "tma-store", "epilogue")
"""Kernels of kernels/pipelines.cu that copy by address, or by tensor maps."""
PROXY_READERS = ("bulk store", "wgmma")
PROXY_FENCES = ("nobody", "writer", "reader", "reader before its wait")
"""Enumerators of kernels/proxy_fences.cu."""


@dataclass(frozen=True)
class PtxCase:
    """A kernel and a launch of it. source, macros: as it is compiled. launch: its launch file. violated: what its model
    violates, found by search; none if it is proved.
    """

    name: str
    source: str
    macros: Mapping[str, int | str]
    launch: Mapping[str, Any] = field(repr=False)
    violated: Callable[[], tuple[str, ...]] = field(repr=False)

    @property
    def compiled(self) -> str:
        """What tells the PTX from others: several launches may have the same."""
        given = "".join(f" {name}={value}" for name, value in sorted(self.macros.items()))
        return self.source.removesuffix(".cu") + given


# ---------------------------------------------------------------- kernels/pipelines.cu


def _pipeline(
    name: str,
    kernel: str,
    parameters: dict[str, Any],
    wrong: int,
    violated: Callable[[], tuple[str, ...]],
    *,
    tensor: bool = False,
) -> PtxCase:
    right = kernels()[kernel](**parameters)
    kind, size = NAMES.index(kernel), right.shape.size
    known = shape(kind, right)
    macros: dict[str, int | str] = {"KERNEL": kind, "WRONG": wrong, **known.macros}
    if size > 1:
        macros |= {"CLUSTER": size, "CLUSTER_X": right.shape.x, "CLUSTER_Y": right.shape.y}
    return PtxCase(name, "pipelines.cu", macros, pipeline_launch(known, size, tensor=tensor), violated)


def _mistaken(one: Mistake) -> PtxCase:
    return _pipeline(one.label, one.kernel, one.parameters, one.number, lambda: one.predict().violated)


def _said(parameters: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def _right_pipelines() -> Iterator[PtxCase]:
    for kernel in NAMES:
        for parameters in pipeline_sizes(kernel):
            yield _pipeline(f"{kernel} {_said(parameters)}", kernel, parameters, 0, tuple)


def _by_tensor_maps() -> Iterator[PtxCase]:
    for kernel in COPIES:
        for parameters in (pipeline_sizes(kernel)[0], pipeline_sizes(kernel)[-1]):
            name = f"{kernel} {_said(parameters)} by tensor maps"
            yield _pipeline(name, kernel, parameters, 0, tuple, tensor=True)


# ---------------------------------------------------------------- kernels/gemm.cu


def _gemm(name: str, variant: Variant, violated: Callable[[], tuple[str, ...]]) -> PtxCase:
    config = variant.config
    macros = config.macros(record=False, directed=False)
    return PtxCase(name, "gemm.cu", macros, gemm_launch(config, variant.k_tiles, variant.tiles), violated)


def _wrong_gemm(variant: Variant) -> PtxCase:
    """Products are not repeated: that makes a race last longer on a GPU, and changes no synchronisation."""
    once = replace(variant, config=replace(variant.config, repeat=0))
    return _gemm(variant.label, once, lambda: tuple(predict_gemm(once).violations))


def _right_gemms() -> Iterator[PtxCase]:
    for number, size in enumerate(gemm_sizes()):
        config = size.config
        name = f"{config.schedule} {number} stages={config.stages} k_tiles={size.k_tiles} tiles={size.tiles}"
        yield _gemm(name, Variant(config, size.k_tiles, size.tiles), tuple)


# ---------------------------------------------------------------- all


@cache
def wrong_cases() -> tuple[PtxCase, ...]:
    """The 85 mistakes."""
    return (*map(_mistaken, mistakes()), *map(_wrong_gemm, variants()))


@cache
def twin_cases() -> tuple[PtxCase, ...]:
    """What they are without the mistake, where it is not the sizes that are wrong; each once."""
    found: dict[tuple[str, str], PtxCase] = {}
    for one in mistakes():
        twin = _pipeline(f"{one.label}, right", one.kernel, one.parameters, 0, tuple)
        if one.number:
            found.setdefault((twin.compiled, str(twin.launch)), twin)
    for variant in variants():
        right = variant.twin
        if right is not None:
            once = replace(right, config=replace(right.config, repeat=0))
            twin = _gemm(f"{variant.label}, right", once, tuple)
            found.setdefault((twin.compiled, str(twin.launch)), twin)
    return tuple(found.values())


@cache
def right_cases() -> tuple[PtxCase, ...]:
    """Every size at which a kernel is recorded, and some by tensor maps."""
    return (*_right_pipelines(), *_by_tensor_maps(), *_right_gemms())


@cache
def other_cases() -> tuple[PtxCase, ...]:
    """Kernels without a model, whose parameters choose what is wrong, and what PTX says of them."""
    found = []
    for reader, by in enumerate(PROXY_READERS):
        for fence, who in enumerate(PROXY_FENCES):
            violated = () if who in ("writer", "reader") else ("missing-fence",)
            launch = proxy_fences_launch(reader, fence)
            found.append(PtxCase(f"proxy_fences {by}, {who}", "proxy_fences.cu", {}, launch, partial(tuple, violated)))
    for other in (0, 1, 32):
        violated = ("race",) if other else ()
        found.append(
            PtxCase(f"bulk_groups {other}", "bulk_groups.cu", {}, bulk_groups_launch(other), partial(tuple, violated))
        )
    return tuple(found)
