"""Kernels of pipelines, some of which say that arrivals in phases nobody has seen are no violation: `unseen = True`."""

from __future__ import annotations

from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Kernel


def traced(pipeline: Pipeline) -> Kernel:
    kernel = trace(pipeline)
    return kernel.allowing() if kernel.parameters.get("unseen") else kernel
