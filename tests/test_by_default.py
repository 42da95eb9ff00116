"""Who answers where no engine is named, and why; and what a property is decided by when another one is violated."""

from __future__ import annotations

import json

import pytest
import test_engines
from rings import Filled
from test_engines import Claims, HandsOver

from sm90_verify.cli.main import main
from sm90_verify.engines import by_default as by_default_module
from sm90_verify.engines.check import check, check_machine
from sm90_verify.engines.combine import Contradiction, settled
from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.engine import Answer
from sm90_verify.engines.order import forks
from sm90_verify.engines.search import engine as search_engine
from sm90_verify.engines.search.explore import explore
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Polls(Pipeline):
    """Its control flow depends on the schedule."""

    full = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        if not (yield self.full.try_wait(0)):
            yield self.full.wait(0)


class Races(Filled):
    """wgmma still reads what is given away; with another fault, `arrives` times too often."""

    arrives = 1

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.empty[at].arrive(self.arrives)
        yield self.mma_wait(0)


def verdicts(result):
    return {finding.id: finding.verdict for finding in result.findings}


# ---------------------------------------------------------------- who answers


def test_order_answers_what_it_decides():
    result = check(HandsOver())
    assert (result.verdict, result.engine, result.asked) == (PROVED, "order", "default")
    assert (result.states, result.events) == (0, 5) and result.because.startswith("all schedules do")
    named = check(HandsOver(), engine="order")
    assert (named.engine, named.asked, named.because) == ("order", "order", "")
    assert verdicts(named) == verdicts(result)


def test_search_answers_what_order_leaves_open():
    result = check(Polls())
    assert (result.verdict, result.engine, result.asked) == (PROVED, "search", "default")
    assert result.states and "control flow depends on the answer of try_wait" in result.because
    assert verdicts(result) == verdicts(check(Polls(), engine="search"))
    every = check(HandsOver(), reduced=False)
    assert (every.engine, every.reduced) == ("search", False) and "--unreduced" in every.because
    machine = check_machine(compile_kernel(trace(HandsOver())))
    assert machine.engine == "search" and "no program" in machine.because


def test_a_violation_of_order_is_searched_for_a_shorter_schedule():
    result, searched = check(Races()), check(Races(), engine="search")
    assert (result.verdict, result.engine, result.shortest) == (VIOLATED, "order", True)
    assert "executed" in result.because
    assert verdicts(result) == verdicts(searched)
    assert result.trace == searched.trace


@pytest.mark.parametrize("given", [{"REFINED": 1}, {"MOST_ACTIONS": 1}])
def test_where_that_takes_too_long_the_schedule_of_order_is_told(given, monkeypatch):
    for name, value in given.items():
        monkeypatch.setattr(by_default_module, name, value)
    result = check(Races())
    assert (result.verdict, result.engine, result.shortest) == (VIOLATED, "order", False)
    assert verdicts(result)["race"] == VIOLATED and UNDETERMINED in verdicts(result).values()
    assert "and there may be a shorter one" in render(result)
    assert len(result.trace.steps) >= len(check(Races()).trace.steps)


def test_the_output_says_who_answered(capsys):
    file = f"{__file__}:"
    assert main(["spec", f"{test_engines.__file__}:HandsOver"]) == 0
    *_, engine, summary = capsys.readouterr().out.splitlines()
    assert engine.startswith("engine  order: all schedules") and "  5 events  " in summary
    assert main(["spec", f"{file}Polls"]) == 0
    out = capsys.readouterr().out
    assert "\nengine  search: order leaves deadlock" in out and " states  " in out.splitlines()[-1]
    assert main(["spec", f"{file}Polls", "--engine", "search"]) == 0
    assert "\nengine" not in capsys.readouterr().out
    assert main(["spec", f"{file}Polls", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["engine"], told["asked"], told["states"] > 0) == ("search", "default", True)
    assert "try_wait" in told["because"]


def test_the_answer_of_order_stays_where_there_is_no_time_for_search(monkeypatch):
    def no_time(self, what, role, done, where):
        if what == "compiling":
            raise RanOut("the time")

    monkeypatch.setattr(Effort, "tick", no_time)
    result = check(Polls())
    assert set(verdicts(result).values()) == {UNDETERMINED} and result.engine == "order"
    assert result.because.endswith("; of search, the time") and result.findings[0].note.startswith("control flow")


def test_engines_that_contradict_each_other_are_an_error(monkeypatch):
    monkeypatch.setattr(by_default_module, "OrderEngine", lambda: Claims("order", VIOLATED))
    with pytest.raises(Contradiction, match="search and order contradict each other"):
        check(HandsOver())


def test_what_one_leaves_open_the_other_says():
    def answer(name, *verdicts):
        return Answer(name, tuple(Finding(f"p{n}", verdict, note=name) for n, verdict in enumerate(verdicts)))

    closer = answer("a", PROVED, UNDETERMINED, UNDETERMINED)
    both = settled(closer, answer("b", UNDETERMINED, VIOLATED, UNDETERMINED))
    assert [one.verdict for one in both.findings] == [PROVED, VIOLATED, UNDETERMINED]
    assert both.engine == "a+b" and both.findings[2].note == "a: a; b: b"
    assert settled(answer("a", PROVED), answer("b", PROVED, PROVED)) == answer("a", PROVED)


# ---------------------------------------------------------------- one property


class Both(Pipeline):
    """A race at once, and after it a wait for ever."""

    hangs = True
    data = tile(bytes=64, slots=1)
    never = barrier(arrivals=1, slots=1)
    done = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def one(self):
        yield self.data.write()
        yield self.done.arrive()

    @role(warps=1)
    def two(self):
        yield self.data.write()
        yield self.done.wait(0)
        if self.hangs:
            yield self.never.wait(0)


WORDS = ({}, {"engine": "search"}, {"engine": "search", "reduced": False}, {"engine": "order"})


@pytest.mark.parametrize("given", WORDS)
def test_a_property_is_decided_for_itself(given, monkeypatch):
    monkeypatch.setattr(search_engine, "ENOUGH", 1)
    monkeypatch.setattr(search_engine, "REFINED", 2)
    assert verdicts(check(Both(), properties=("deadlock",), **given)) == {"deadlock": VIOLATED}
    assert verdicts(check(Both(hangs=False), properties=("deadlock",), **given)) == {"deadlock": PROVED}
    assert verdicts(check(Both(), properties=("race",), **given)) == {"race": VIOLATED}


@pytest.mark.parametrize("given", WORDS)
def test_what_is_undefined_after_another_violation_is_open(given):
    """Never proved: nobody knows what comes after an arrival too many."""
    result = check(Races(arrives=2), properties=("exit-hazard",), **given)
    assert verdicts(result) == {"exit-hazard": UNDETERMINED}
    assert "arrival-count" in result.findings[0].note and "undefined" in result.findings[0].note


def test_a_search_goes_on_past_what_does_not_count():
    machine = compile_kernel(trace(Both(hangs=False)))
    everything = explore(machine)
    assert "race" in everything.violations
    for stop in (False, True):
        found = explore(machine, wanted=("deadlock",), stop_at_first=False, enough=1 if stop else 0)
        assert found.complete and not found.violations and found.states == everything.states


def test_a_run_goes_on_past_what_is_not_asked(monkeypatch):
    monkeypatch.setattr(forks, "AFTER_A_VIOLATION", 0)
    assert verdicts(check(Races(), engine="order", properties=("deadlock",))) == {"deadlock": PROVED}
    both = check(Races(), engine="order", properties=("deadlock", "race"))
    assert verdicts(both) == {"deadlock": UNDETERMINED, "race": VIOLATED}
