"""Small pipelines whose answers are easy to get wrong, asked as a user would: the verdict, and the line to blame."""

from __future__ import annotations

import inspect
import re

import pytest
import small_inputs as of

from sm90_verify import PROVED, VIOLATED, Pipeline, check, render

RIGHT = [
    of.AccumulatorInTime(),
    of.Poll(),
    of.CopiedByThreads(fenced=True),
    of.ReaderFences(),
    of.DataOverADeadBarrier(),
    of.ReducedByTwo(),
    of.CountedByTwo(),
    of.BothSkip(),
    of.RelaxedFlag(fenced=True),
    of.SourceNotFenced(fenced=True),
    of.TwoRings(),
    of.ARoleCalledArrived(),
]
WRONG = [
    ("race", of.AccumulatorReadEarly()),
    ("race", of.AccumulatorAlone()),
    ("deadlock", of.PollsForEver()),
    ("phase-lapped", of.SometimesWaits()),
    ("missing-fence", of.CopiedByThreads()),
    ("race", of.WaitsOnTheWrongStage()),
    ("deadlock", of.Stuck()),
    ("barrier-init", of.DataOverALiveBarrier()),
    ("race", of.ReducedByTwo(plain=True)),
    ("race", of.CountedByTwo(plain=True)),
    ("race", of.SourceOverwritten()),
    ("race", of.RelaxedFlag()),
    ("race", of.RelaxedArrival()),
    ("race", of.SourceNotReady()),
    ("missing-fence", of.SourceNotFenced()),
    ("deadlock", of.OneBarrierOfTwo()),
    ("deadlock", of.NobodyArrives()),
    ("deadlock", of.BytesBeforeTheirArrival()),
    ("deadlock", of.BytesThatBalance()),
    ("deadlock", of.BytesThatBalanceForEver()),
    ("tx-count", of.TooManyBytesForAMoment()),
    ("stale-read", of.HalfACopy()),
    ("deadlock", of.ChosenByValue()),
    ("tx-count", of.BytesThatNeverCome()),
    ("tx-count", of.BytesThatNeverCome(copies=True)),
]


@pytest.mark.parametrize("pipeline", RIGHT, ids=lambda one: one.name)
def test_what_is_right_is_proved(pipeline: Pipeline) -> None:
    assert check(pipeline).verdict == PROVED


@pytest.mark.parametrize(("property", "pipeline"), WRONG, ids=lambda one: getattr(one, "name", one))
def test_what_is_wrong_is_found_with_its_line(property: str, pipeline: Pipeline) -> None:
    found = {finding.id: finding for finding in check(pipeline).findings}
    assert found[property].verdict == VIOLATED
    alone = check(pipeline, properties=(property,))
    assert alone.verdict == VIOLATED
    lines, first = inspect.getsourcelines(type(pipeline))
    to_blame = {first + number for number, line in enumerate(lines) if "# the line" in line}
    marked = {int(number) for number in re.findall(r"^> +(\d+)\|", render(alone), re.MULTILINE)}
    assert marked and marked <= to_blame
