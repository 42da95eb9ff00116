"""What is asked instead where a loop without end cannot be followed: a number of iterations, which proves nothing of
others.
"""

from __future__ import annotations

from dataclasses import replace

from sm90_verify.result import PROVED, UNDETERMINED, Result
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.ghost import Unfollowed
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.tick import Tick

TRIPS = 8


def of_some_trips(pipeline: Pipeline, error: Unfollowed, tick: Tick) -> Kernel:
    """The kernel with TRIPS iterations; raises the error if the pipeline is for one number of them, or has a loop that
    is for none.
    """
    if isinstance(pipeline.trips, int):
        raise error
    try:
        return trace(type(pipeline)(**{**pipeline.parameters(), "trips": TRIPS}), tick)
    except SpecError:
        raise error from None


def for_all_trips(result: Result, error: Unfollowed) -> Result:
    """What the answer for TRIPS iterations says about all of them: nothing is proved."""
    note = f"{error}; with trips={TRIPS}: proved"
    findings = tuple(
        replace(finding, verdict=UNDETERMINED, note=note) if finding.verdict == PROVED else finding
        for finding in result.findings
    )
    return replace(result, findings=findings)
