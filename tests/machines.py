"""Kernels and machines of pipelines that several tests read, made once for each process that runs tests."""

from __future__ import annotations

from functools import cache

from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.machine import Machine


@cache
def kernel_of(pipeline: Pipeline) -> Kernel:
    return trace(pipeline)


@cache
def machine_of(pipeline: Pipeline) -> Machine:
    return compile_kernel(kernel_of(pipeline))
