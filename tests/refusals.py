"""Why the gate refuses a pipeline, for tests to compare."""

from __future__ import annotations

import linecache

import pytest

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace


def refusal(kernel: Pipeline) -> tuple[str, str]:
    """Why a kernel is refused, and the line of source that the refusal names; both are one line."""
    with pytest.raises(SpecError) as caught:
        trace(kernel)
    where = caught.value.where
    assert where is not None and "\n" not in str(caught.value)
    return caught.value.what, linecache.getline(where.file, where.line).strip()
