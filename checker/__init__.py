"""Proves that the asynchronous pipelines inside Hopper (SM90) kernels cannot hang and cannot race.

A kernel's synchronisation is written down as a class:

    from sm90_verify import Pipeline, barrier, check, role, tile

    class DoubleBuffer(Pipeline):
        ...

    result = check(DoubleBuffer(stages=2))
    print(result.verdict)

What is listed in `__all__` is the public interface; everything else may change. Names are loaded when they are first
used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sm90_verify.counterexample.replay import replay
    from sm90_verify.engines.check import check
    from sm90_verify.frontends.log.check import check_log
    from sm90_verify.report.explain import explain
    from sm90_verify.report.text import render
    from sm90_verify.result import Blocked, Finding, Result, Trace, TraceStep
    from sm90_verify.spec.cutlass.pipelines import (
        OrderedSequenceBarrier,
        PipelineAsync,
        PipelineTmaAsync,
        PipelineTmaStore,
        PipelineTransactionAsync,
    )
    from sm90_verify.spec.errors import SpecError
    from sm90_verify.spec.language.declarations import Body, barrier, role, tile
    from sm90_verify.spec.language.pipeline import Pipeline
    from sm90_verify.spec.language.state import PipelineState
    from sm90_verify.spec.model.kernel import Threads

_HOME = {
    "Blocked": "result",
    "Body": "spec.language.declarations",
    "Finding": "result",
    "OrderedSequenceBarrier": "spec.cutlass.pipelines",
    "Pipeline": "spec.language.pipeline",
    "PipelineAsync": "spec.cutlass.pipelines",
    "PipelineState": "spec.language.state",
    "PipelineTmaAsync": "spec.cutlass.pipelines",
    "PipelineTmaStore": "spec.cutlass.pipelines",
    "PipelineTransactionAsync": "spec.cutlass.pipelines",
    "Result": "result",
    "SpecError": "spec.errors",
    "Threads": "spec.model.kernel",
    "Trace": "result",
    "TraceStep": "result",
    "barrier": "spec.language.declarations",
    "check": "engines.check",
    "check_log": "frontends.log.check",
    "explain": "report.explain",
    "render": "report.text",
    "replay": "counterexample.replay",
    "role": "spec.language.declarations",
    "tile": "spec.language.declarations",
}
"""The module of each public name."""

__all__ = [
    "Blocked",
    "Body",
    "Finding",
    "OrderedSequenceBarrier",
    "Pipeline",
    "PipelineAsync",
    "PipelineState",
    "PipelineTmaAsync",
    "PipelineTmaStore",
    "PipelineTransactionAsync",
    "Result",
    "SpecError",
    "Threads",
    "Trace",
    "TraceStep",
    "barrier",
    "check",
    "check_log",
    "explain",
    "render",
    "replay",
    "role",
    "tile",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
