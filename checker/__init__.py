"""Proves that the asynchronous pipelines inside Hopper (SM90) kernels cannot hang and cannot race.

A kernel's synchronisation is written down as a class, and checked:

    from sm90_verify import Pipeline, barrier, check, render, role, tile

    class DoubleBuffer(Pipeline):
        ...

    result = check(DoubleBuffer(stages=2))
    print(result.verdict, render(result))

What is listed in `__all__` is the public interface, described name by name in docs/api.md; everything else may change.
A name is loaded when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sm90_verify.counterexample.replay import replay, replay_trace
    from sm90_verify.engines.check import check
    from sm90_verify.frontends.log.check import check_log
    from sm90_verify.report.explain import explain
    from sm90_verify.report.text import render
    from sm90_verify.result import (
        ALLOWED,
        PROPERTIES,
        PROVED,
        UNDETERMINED,
        VIOLATED,
        Blocked,
        Finding,
        Note,
        Result,
        Trace,
        TraceStep,
    )
    from sm90_verify.spec.cutlass.pipelines import (
        OrderedSequenceBarrier,
        PipelineAsync,
        PipelineTmaAsync,
        PipelineTmaStore,
        PipelineTransactionAsync,
    )
    from sm90_verify.spec.errors import SpecError
    from sm90_verify.spec.language.declarations import Body, barrier, role, tile, word
    from sm90_verify.spec.language.handles import Barrier, Tile, Word
    from sm90_verify.spec.language.layout import Component
    from sm90_verify.spec.language.pipeline import Pipeline
    from sm90_verify.spec.language.state import PipelineState
    from sm90_verify.spec.language.walk import trace
    from sm90_verify.spec.model.kernel import Kernel, Threads

_HOME = {
    "ALLOWED": "result",
    "Barrier": "spec.language.handles",
    "Blocked": "result",
    "Body": "spec.language.declarations",
    "Component": "spec.language.layout",
    "Finding": "result",
    "Note": "result",
    "Kernel": "spec.model.kernel",
    "OrderedSequenceBarrier": "spec.cutlass.pipelines",
    "PROPERTIES": "result",
    "PROVED": "result",
    "Pipeline": "spec.language.pipeline",
    "PipelineAsync": "spec.cutlass.pipelines",
    "PipelineState": "spec.language.state",
    "PipelineTmaAsync": "spec.cutlass.pipelines",
    "PipelineTmaStore": "spec.cutlass.pipelines",
    "PipelineTransactionAsync": "spec.cutlass.pipelines",
    "Result": "result",
    "SpecError": "spec.errors",
    "Threads": "spec.model.kernel",
    "Tile": "spec.language.handles",
    "Trace": "result",
    "TraceStep": "result",
    "UNDETERMINED": "result",
    "VIOLATED": "result",
    "Word": "spec.language.handles",
    "barrier": "spec.language.declarations",
    "check": "engines.check",
    "check_log": "frontends.log.check",
    "explain": "report.explain",
    "render": "report.text",
    "replay": "counterexample.replay",
    "replay_trace": "counterexample.replay",
    "role": "spec.language.declarations",
    "tile": "spec.language.declarations",
    "trace": "spec.language.walk",
    "word": "spec.language.declarations",
}
"""The module of each public name."""

__all__ = [
    "ALLOWED",
    "PROPERTIES",
    "PROVED",
    "UNDETERMINED",
    "VIOLATED",
    "Barrier",
    "Blocked",
    "Body",
    "Component",
    "Finding",
    "Kernel",
    "Note",
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
    "Tile",
    "Trace",
    "TraceStep",
    "Word",
    "barrier",
    "check",
    "check_log",
    "explain",
    "render",
    "replay",
    "replay_trace",
    "role",
    "tile",
    "trace",
    "word",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and nothing that is not there

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
