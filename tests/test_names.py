"""What users call their roles, barriers, buffers, loops and choices changes no answer."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from sm90_verify.counterexample.trace import make_trace, shows_again
from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.invariants import candidates
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Machine


def pair(
    *,
    one: str = "producer",
    other: str = "consumer",
    full: str = "full",
    empty: str = "empty",
    data: str = "data",
    loop: str = "trips",
    choice: str = "which",
    wrong: bool = False,
) -> Pipeline:
    """A buffer of one stage that is filled and read as often as both agree on, and a barrier of all threads behind.
    wrong: the reader gives the buffer back before it reads.
    """

    @role(warps=1)
    def producer(self):
        for k in self.loop("all", name=loop):
            yield getattr(self, empty)[0].wait((k + 1) % 2)
            yield getattr(self, full)[0].arrive_expect_tx(64)
            yield getattr(self, data)[0].load(signals=getattr(self, full)[0])
        yield self.choose(choice, "this", "that")
        yield self.cta_sync()

    @role(warps=1)
    def consumer(self):
        for k in self.loop("all", name=loop):
            yield getattr(self, full)[0].wait(k % 2)
            if wrong:
                yield getattr(self, empty)[0].arrive()
            yield getattr(self, data)[0].read()
            if not wrong:
                yield getattr(self, empty)[0].arrive()
        yield self.choose(choice, "this", "that")
        yield self.cta_sync()

    parts = {
        "stages": 1,
        full: barrier(arrivals=1),
        empty: barrier(arrivals=1),
        data: tile(bytes=64),
        one: producer,
        other: consumer,
    }
    return type("Pair", (Pipeline,), parts)()


PIPELINES = kernels("pipeline")

ODD = [
    {"one": "arrived"},
    {"one": "arrived", "other": "count"},
    {"one": "phase", "other": "pending", "full": "at", "empty": "cta"},
    {"one": "at", "other": "unseen", "full": "behind", "data": "choice"},
    {"one": "copies"},
    {"one": "bar", "other": "cta", "data": "holds", "full": "phase"},
    {"full": "bar1", "data": "flight", "empty": "arrived"},
    {"loop": "x.ended", "choice": "x"},
    {"loop": "full", "choice": "empty"},
    {"loop": "k", "choice": "k"},
    {"loop": "a b", "choice": "which.0"},
    {"loop": "producer", "choice": "consumer", "one": "consumer", "other": "producer"},
    {"loop": ".", "choice": ""},
]


def searched(machine: Machine, reduced: bool) -> tuple[Any, ...]:
    """What a search finds, apart from names and sentences."""
    found = explore(machine, reduced=reduced)
    violations = {one.property: (one.actions, one.by_step, len(one.stuck)) for one in found.violations.values()}
    return found.states, found.transitions, found.depth, found.complete, found.unreached, found.halted, violations


@cache
def plainly_named(wrong: bool) -> tuple[Any, ...]:
    machine = compile_kernel(trace(pair(wrong=wrong)))
    return searched(machine, False), searched(machine, True), len(candidates(machine)), ordered(pair(wrong=wrong))


def ordered(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(finding.id, finding.verdict) for finding in check(pipeline, engine="order").findings]


def names_are_unique(machine: Machine) -> bool:
    return all(
        len({one.name for one in some}) == len(some) for some in (machine.variables, machine.actions, machine.roles)
    )


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize("names", ODD, ids=lambda names: ",".join(f"{key}={name}" for key, name in names.items()))
def test_what_users_call_things_changes_no_answer(names: dict[str, str], wrong: bool) -> None:
    odd = pair(wrong=wrong, **names)
    machine = compile_kernel(trace(odd))
    assert names_are_unique(machine)
    found = searched(machine, False), searched(machine, True), len(candidates(machine)), ordered(odd)
    assert found == plainly_named(wrong)


class CtaArrived(Pipeline):
    """At __syncthreads, `cta.arrived` is the number of threads, and whether a role of that name has arrived."""

    a = tile(bytes=64)

    @role(warps=1)
    def arrived(self):
        yield self.a.write(tag=1)
        yield self.cta_sync()

    @role(warps=1)
    def other(self):
        yield self.cta_sync()
        yield self.a.read(tag=1)


@pytest.mark.parametrize("engine", ["search", "order", "smt"])
def test_a_role_called_arrived_is_no_number_of_threads(engine: str) -> None:
    assert check(CtaArrived(), engine=engine).verdict == PROVED


class Landing(Pipeline):
    """A role called `copies` waits for what never comes, while copies land for ever."""

    never = barrier(arrivals=1)
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def copies(self):
        yield self.never[0].wait(0)

    @role(warps=1)
    def producer(self):
        for k in self.forever():
            yield self.full[0].arrive_expect_tx(64)
            yield self.a[0].load(signals=self.full[0])
            yield self.full[0].wait(k % 2)


def test_a_role_called_copies_does_not_move_when_a_copy_lands() -> None:
    result = check(Landing(stages=1), engine="search")
    assert {finding.id: finding.verdict for finding in result.findings}["deadlock"] == VIOLATED
    assert result.trace is not None and [one.role for one in result.trace.blocked] == ["copies"]


class Alike:
    """Two options that read the same."""

    def __repr__(self) -> str:
        return "alike"


ONE, OTHER = Alike(), Alike()


class ChoosesAlike(Pipeline):
    full = barrier(arrivals=1)

    @role(warps=1)
    def chooser(self):
        chosen = yield self.choose("which", ONE, OTHER)
        if chosen is ONE:
            yield self.full[0].arrive()
        yield self.full[0].wait(0)


def test_options_that_read_the_same_are_told_apart_when_a_trace_is_executed_again() -> None:
    machine = compile_kernel(trace(ChoosesAlike(stages=1)))
    assert names_are_unique(machine)
    found = explore(machine).violations["deadlock"]
    assert shows_again(machine, make_trace(machine, "deadlock", found.because, found.actions, found.stuck))


def test_a_loop_has_a_name() -> None:
    with pytest.raises(SpecError, match="a trip-count loop without a name"):
        trace(pair(loop=""))
