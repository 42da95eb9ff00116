"""A deadlock says how many arrivals have come and from whom, and where those are that have not arrived."""

from __future__ import annotations

import pytest
from rings import Filled

from sm90_verify.engines.check import check
from sm90_verify.report.text import render
from sm90_verify.result import VIOLATED
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline


def told(pipeline: Pipeline, engine: str = "search") -> dict[str, str]:
    """What is missing for each role that is stuck."""
    trace = check(pipeline, engine=engine, properties=("deadlock",)).trace
    assert trace is not None
    return {entry.role: entry.missing for entry in trace.blocked}


def line_of(pipeline: type[Pipeline], text: str) -> int:
    """The last line of a class that begins with a text."""
    import inspect

    lines, first = inspect.getsourcelines(pipeline)
    return first + max(number for number, line in enumerate(lines) if line.strip().startswith(text))


class Forgets(Filled):
    """The second consumer keeps its second stage."""

    empty = barrier(arrivals=2)

    @role(warpgroups=1)
    def consumer0(self, at):
        yield self.full[at].wait(at.phase)
        yield self.empty[at].arrive()

    @role(warpgroups=1)
    def consumer1(self, at):
        yield self.full[at].wait(at.phase)
        if at.count != 1:
            yield self.empty[at].arrive()


def test_who_has_arrived_is_not_who_is_missing():
    """Both consumers could arrive on empty[1] later, and only one of them has not in this phase."""
    found = told(Forgets())
    at = line_of(Forgets, "yield self.full[at].wait")
    came = "1 of 2 arrivals (1 from consumer0)"
    assert found["producer"] == f"{came}, none from consumer1 (waits for full[1], line {at})"
    mine = line_of(Filled, "yield self.empty[at].wait")
    for consumer in ("consumer0", "consumer1"):
        assert found[consumer] == f"0 of 1 arrivals, none from producer (waits for empty[1], line {mine})"
    trace = check(Forgets(), properties=("deadlock",), engine="search").trace
    assert trace.because.endswith(" -- producer waits for consumer1 waits for producer")
    (blamed,) = (entry for entry in trace.blocked if entry.to_blame)
    assert blamed.role == "producer"


class Ends(Pipeline):
    """`last` may go home, or come by another way, before it has arrived."""

    how = "ends"
    stages = 1
    full = barrier(arrivals=40)
    other = barrier(arrivals=1)

    @role(threads=32)
    def first(self):
        yield self.full.arrive(32)
        yield self.full.wait(0)

    @role(warps=1)
    def last(self):
        if self.how == "skips":
            if (yield self.choose("way", "arrives", "does not")) == "arrives":
                yield self.full.arrive(8)
            yield self.other.wait(0)  # skips
        if self.how == "ends" and (yield self.choose("way", "arrives", "does not")) == "arrives":
            yield self.full.arrive(8)
        if self.how == "before":
            yield self.other.wait(0)
            yield self.full.arrive(8)
        if self.how == "meets":
            yield self.named_sync(1, 64)
            yield self.full.arrive(8)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("ends", ", nobody can arrive any more, none from last (has ended)"),
        ("skips", ", nobody can arrive any more, none from last (waits for other, line {})"),
        ("before", ", none from last (waits for other, line {})"),
        ("meets", ", none from last (stands at `inside bar.sync 64`, line {})"),
        ("never", ", nobody can arrive any more"),
    ],
)
def test_where_a_role_is_that_has_not_arrived(how, why):
    places = {"skips": "yield self.other.wait(0)  # skips", "meets": "yield self.named_sync"}
    line = line_of(Ends, places.get(how, "yield self.other.wait"))
    assert told(Ends(how=how))["first"] == "32 of 40 arrivals (32 from first)" + why.format(line)


class Alone(Pipeline):
    """Arrives twice in every phase, and waits in between."""

    stages = 1
    full = barrier(arrivals=2)

    @role(warps=1)
    def one(self):
        yield self.full.arrive()
        yield self.full.wait(0)
        yield self.full.arrive()


def test_who_has_arrived_and_could_again():
    assert told(Alone())["one"] == "1 of 2 arrivals (1 from one), no more from one (only after this wait)"


class GoesOn(Pipeline):
    """One role polls for ever for what it does not need."""

    stages = 1
    full = barrier(arrivals=1)
    own = barrier(arrivals=1)

    @role(warps=1)
    def stuck(self):
        yield self.full.wait(0)

    @role(warps=1)
    def busy(self):
        for k in self.forever():
            yield self.own.arrive()
            yield self.own.wait(k & 1)
            if (yield self.choose("leave", False, True)):
                break
        yield self.full.wait(1)
        yield self.full.wait(0)
        yield self.full.arrive()


def test_a_role_that_is_stuck_later_has_a_place_too():
    found = told(GoesOn())
    assert found["stuck"].startswith("0 of 1 arrivals, none from busy (waits for full, line ")
    assert found["busy"] == "0 of 1 arrivals, none from busy (only after this wait)"


class Many(Pipeline):
    stages = 1
    copies = 8
    full = barrier(arrivals=9)
    start = barrier(arrivals=1)

    @role(warps=1, copies="copies")
    def worker(self):
        yield self.start.wait(0)
        yield self.full.arrive()

    @role(warps=1)
    def master(self):
        yield self.full.arrive()
        yield self.full.wait(0)
        yield self.start.arrive()


def test_of_many_some_are_named():
    missing = told(Many())["master"]
    assert missing.startswith("1 of 9 arrivals (1 from master), none from worker0 (waits for start, line ")
    assert "worker3 (" in missing and "worker4" not in missing and missing.endswith(" and 4 others")


class Drops(Pipeline):
    """Who drops out is no more expected, and has not arrived for anybody else."""

    stages = 1
    full = barrier(arrivals=3)

    @role(warps=1)
    def drops(self):
        yield self.full.arrive_drop()

    @role(warps=1)
    def waits(self):
        yield self.full.arrive()
        yield self.full.wait(0)


def test_a_drop_is_no_arrival():
    found = told(Drops())["waits"]
    assert found == "1 of 2 arrivals (1 from waits), nobody can arrive any more, none from drops (has ended)"


@pytest.mark.parametrize("engine", ["search", "order", "smt"])
def test_every_engine_says_the_same_of_the_same_state(engine):
    found = told(Drops(), engine)
    assert list(found) == ["waits"] and "(1 from waits)" in found["waits"]


def test_the_line_of_a_role_is_told_beside_those_of_others():
    lines = [
        line
        for line in render(check(Forgets(), properties=("deadlock",), engine="search")).splitlines()
        if "blocked" in line
    ]
    mine = line_of(Filled, "yield self.empty[at].wait")
    assert lines[0].startswith(f"  blocked  producer waits for empty[1] phase parity 0, line {mine}: 1 of 2 arrivals")


class OnlyJustPassed(Pipeline):
    """The arrival comes right behind the other role's wait, which nothing shows to have passed."""

    strict = True
    stages = 1
    full = barrier(arrivals=1)

    @role(warps=1)
    def waits(self):
        yield self.full.wait(0)

    @role(warps=1)
    def arrives(self):
        yield self.full.arrive()
        yield self.full.arrive()


def test_a_wait_that_has_only_just_passed_is_not_said_to_be_none():
    (found,) = (one for one in check(OnlyJustPassed(), engine="search").findings if one.id == "unobserved-phase")
    assert found.verdict == VIOLATED and found.trace is not None
    sure = "before any test_wait or try_wait is sure to have seen the last one complete (9.7.13.15.4)"
    assert found.trace.because.endswith(sure)


class Looks(Pipeline):
    """The first role waits for one of two that wait for each other; or for one that waits for itself."""

    alone = False
    stages = 1
    done = barrier(arrivals=1)
    x = barrier(arrivals=2)
    y = barrier(arrivals=1)

    @role(warps=1)
    def onlooker(self):
        yield self.done.wait(0)

    @role(warps=1)
    def p(self):
        yield self.x.arrive()
        yield self.x.wait(0)
        if self.alone:
            yield self.x.arrive()
        yield self.y.arrive()
        yield self.done.arrive()

    @role(warps=1)
    def q(self):
        if not self.alone:
            yield self.y.wait(0)
            yield self.x.arrive()


@pytest.mark.parametrize("alone", [False, True])
def test_who_only_looks_on_is_not_to_blame(alone):
    trace = check(Looks(alone=alone), properties=("deadlock",), engine="search").trace
    assert [entry.role for entry in trace.blocked if entry.to_blame] == ["p"]
    assert trace.because.endswith(" -- p waits for q waits for p") == (not alone)
