"""Small pipelines whose answers are easy to get wrong, asked as a user would: the verdict, and the line to blame."""

from __future__ import annotations

import inspect
import re

import pytest
import small_accesses
import small_waits
import test_balanced
import test_barrier_bytes
import test_names

from sm90_verify import PROVED, VIOLATED, Pipeline, check, render

RIGHT = [
    small_accesses.Accumulator(waits=True),
    small_waits.Poll(),
    small_waits.Watcher(),
    small_waits.Watcher(stages=2),
    small_accesses.CopiedByThreads(fenced=True),
    small_accesses.ReaderFences(),
    test_barrier_bytes.AfterInval(),
    small_accesses.ReducedByTwo(),
    small_accesses.CountedByTwo(),
    small_waits.BothSkip(),
    small_accesses.RelaxedFlag(fenced=True),
    small_accesses.SourceNotFenced(fenced=True),
    small_waits.TwoRings(),
    test_names.CtaArrived(),
]
WRONG = [
    ("register-hazard", small_accesses.Accumulator()),
    ("deadlock", small_waits.PollsForEver()),
    ("phase-lapped", small_waits.SometimesWaits()),
    ("deadlock", small_waits.WatcherBehind()),
    ("missing-fence", small_accesses.CopiedByThreads()),
    ("race", small_accesses.WaitsOnTheWrongStage()),
    ("deadlock", small_waits.Stuck()),
    ("barrier-init", small_accesses.DataOverALiveBarrier()),
    ("race", small_accesses.ReducedByTwo(plain=True)),
    ("race", small_accesses.CountedByTwo(plain=True)),
    ("race", small_accesses.SourceOverwritten()),
    ("race", small_accesses.RelaxedFlag()),
    ("race", small_accesses.RelaxedArrival()),
    ("race", small_accesses.SourceNotReady()),
    ("missing-fence", small_accesses.SourceNotFenced()),
    ("deadlock", small_waits.OneBarrierOfTwo()),
    ("deadlock", small_waits.NobodyArrives()),
    ("deadlock", test_balanced.CompletesThenExpects()),
    ("deadlock", test_balanced.BytesMatchInTheEnd()),
    ("deadlock", test_balanced.ForEver()),
    ("tx-count", small_waits.TooManyBytesForAMoment()),
    ("stale-read", small_accesses.HalfACopy()),
    ("deadlock", small_waits.ChosenByValue()),
    ("tx-count", small_waits.BytesThatNeverCome()),
    ("tx-count", small_waits.BytesThatNeverCome(copies=True)),
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
