"""A role that waits for some phases only: the model knows how far it is from the barrier, and says for all trip counts
what is found for few of them where every wait has one distance.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_waits import Watcher

from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language import closing
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.flow import waits_ahead
from sm90_verify.spec.model.kernel import Kernel, Node
from sm90_verify.spec.model.machine import LIMIT
from sm90_verify.spec.ptx.expr import fields_of


class Watched(Pipeline):
    """Another role looks at a ring now and then. meets: where the consumer meets it. how: it looks or not, in each
    iteration; or it moves its state on, or not; or it waits for the second of two blocks only. first: phases ahead at
    its start. steps: stages of an iteration.
    """

    stages = 1
    meets = "before"
    how = "looks"
    first = 0
    steps = 1
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive()

    @role(warps=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        if self.meets == "before":
            yield self.named_sync(1, threads=64)
        yield self.empty[at].arrive()
        if self.meets == "after":
            yield self.named_sync(1, threads=64)

    @role(warps=1)
    def watcher(self):
        state = PipelineState.start(self.stages) + self.first
        for _ in self.loop():
            chosen = yield self.choose("looks", 0, 1, 2) if self.how == "blocks" else self.choose("looks", 0, 1)
            if self.how == "moves":
                state = state + chosen
                if (yield self.choose("now", False, True)):
                    yield self.full[state].wait(state.phase)
            elif chosen:
                one = state + (chosen - 1)
                yield self.full[one].wait(one.phase)
            if self.meets:
                yield self.named_sync(1, threads=64)
            state = state + self.steps


CASES = (
    Watched(),
    Watched(stages=2),
    Watched(meets="after"),
    Watched(how="moves"),
    Watched(how="moves", steps=0),
    Watched(how="blocks"),
    Watched(how="blocks", steps=2),
    Watched(first=1),
    Watched(steps=2, stages=2),
)


def skips(kernel: Kernel) -> bool:
    return any(node.skips for program in kernel.programs for node in program.nodes)


def told(pipeline: Pipeline) -> str:
    return " ".join(f"{name}={value}" for name, value in pipeline.parameters().items())


@pytest.mark.parametrize("pipeline", CASES, ids=told)
def test_all_trip_counts_are_as_wrong_as_the_first_few(pipeline, monkeypatch):
    kernel = trace(pipeline)
    assert skips(kernel)
    every, reduced = (explore(compile_kernel(kernel), limit=12_000, reduced=one) for one in (False, True))
    found = set(every.violations)
    assert every.complete or reduced.complete or found
    assert bool(reduced.violations) == bool(found) and (not every.complete or set(reduced.violations) <= found)
    monkeypatch.setattr(closing, "FOLLOWED", closing.FAR)
    monkeypatch.setattr(closing, "LAPS", closing.FAR)
    few: set[str] = set()
    for trips in range(4):
        exact = trace(type(pipeline)(**{**pipeline.parameters(), "trips": trips}))
        assert not skips(exact)
        few |= set(explore(compile_kernel(exact), limit=12_000).violations)
    assert few <= found or not every.complete
    assert found - {LIMIT} <= few


def test_a_role_that_runs_out_of_reach_and_comes_back_is_not_decided():
    """It may be any number of phases away before it meets the others and waits."""

    class Away(Pipeline):
        full = barrier(arrivals=1)

        @role(warps=1)
        def others(self):
            for _ in self.loop(name="away"):
                yield self.full[0].arrive()
            yield self.named_sync(1, threads=64)

        @role(warps=1)
        def watcher(self):
            state = PipelineState.start(1)
            for _ in self.loop(name="away"):
                if (yield self.choose("looks", False, True)):
                    yield self.full[0].wait(state.phase)
                state = state + 1
            yield self.named_sync(1, threads=64)

    kernel = trace(Away())
    assert skips(kernel)
    assert LIMIT in explore(compile_kernel(kernel), limit=20_000).violations


def test_what_the_role_has_moved_on_by_is_missed(monkeypatch):
    """A program that does not say so is another one."""
    kernel = trace(Watched())
    still = [
        replace(program, nodes=tuple(replace(node, moves={}) for node in program.nodes)) for program in kernel.programs
    ]
    changed = replace(kernel, programs=tuple(still))
    assert not explore(compile_kernel(kernel), limit=12_000).violations
    assert "phase-lapped" in explore(compile_kernel(changed), limit=12_000).violations


class Overtaken(Pipeline):
    """The watcher, or who arrives, is ahead by five phases for each iteration, until all meet."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def others(self):
        for _ in self.loop():
            for _ in range(5):
                yield self.full[0].arrive()
        yield self.named_sync(1, threads=64)

    @role(warps=1)
    def watcher(self):
        state = PipelineState.start(1)
        for _ in self.loop():
            state = state + 5
            yield self.choose("looks", 0, 1)
        yield self.named_sync(1, threads=64)
        yield self.full[0].wait(state.phase ^ 1)


def test_a_role_that_was_out_of_reach_and_comes_back_is_not_decided():
    kernel = trace(Overtaken())
    assert skips(kernel)
    found = explore(compile_kernel(kernel), limit=60_000, reduced=False).violations
    assert "from what had completed there" in found[LIMIT].because
    assert "phase-lapped" not in found


def test_states_that_change_places_are_not_taken_for_each_other(monkeypatch):
    class Swapped(Watched):
        @role(warps=1)
        def watcher(self):
            one, other = PipelineState.start(1), PipelineState.start(1)
            for _ in self.loop():
                if (yield self.choose("looks", False, True)):
                    yield self.full[0].wait(one.phase)
                yield self.named_sync(1, threads=64)
                one, other = one + 1, other + 1
                if (yield self.choose("swap", False, True)):
                    one, other = other, one

    monkeypatch.setattr(closing, "FAR", 2)
    with pytest.raises(SpecError, match="too many to follow"):
        trace(Swapped())


class Back(Pipeline):
    """A state goes on by two phases in each iteration, and is waited for one phase before: by `how`."""

    how = "phase"
    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        first = True
        for _ in self.loop():
            if first:
                yield self.full[0].arrive()
                yield self.full[0].arrive()
            first = False
            yield self.warp_sync()
        yield self.named_sync(1, threads=64)

    @role(warps=1)
    def watcher(self):
        state = PipelineState.start(1)
        for _ in self.loop():
            yield self.choose("any", 0, 1) if self.how == "chosen" else self.warp_sync()
            state = state + 2
        yield self.named_sync(1, threads=64)
        yield self.full[0].wait(state.phase ^ 1 if self.how == "phase" else (state + -1).phase)


@pytest.mark.parametrize("how", ["phase", "state", "chosen"])
@pytest.mark.parametrize("engine", ["order", "search"])
def test_a_state_that_goes_back_is_as_unknown_as_it_was(how, engine):
    """With two iterations and more the wait is for a phase that never begins."""
    assert check(Back(how=how, trips=1), engine=engine).verdict == PROVED
    for trips in (2, 3, "all"):
        assert check(Back(how=how, trips=trips), engine="search").verdict == VIOLATED
        assert check(Back(how=how, trips=trips), engine=engine).verdict != PROVED


class Polls(Pipeline):
    """After some iterations a role polls for what never comes, and moves its state on meanwhile, or waits for a phase
    that is over.
    """

    how = ""
    full = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1)
    def both(self, at):
        yield self.full[at].arrive()
        yield self.named_sync(1, threads=64)

    @role(warps=1)
    def once(self):
        yield self.never.arrive()

    @role(warps=1)
    def watcher(self):
        state = PipelineState.start(1)
        for _ in self.loop():
            if (yield self.choose("looks", False, True)):
                yield self.full[0].wait(state.phase)
            yield self.named_sync(1, threads=64)
            state = state + 1
        yield self.never.wait(0)
        last = state
        for _ in self.forever():
            if self.how == "waits":
                yield self.full[0].wait(last.phase ^ 1)
            yield self.warp_sync()
            state = last + 1 if self.how == "moves" else state
            if (yield self.never.try_wait(1)):
                break
            state = last


@pytest.mark.parametrize("how", ["", "moves", "waits"])
@pytest.mark.parametrize("trips", [1, 3, "all"])
def test_who_polls_for_ever_is_stuck_whatever_the_machine_counts_meanwhile(how, trips):
    for reduced in (False, True):
        found = explore(compile_kernel(trace(Polls(how=how, trips=trips))), limit=12_000, reduced=reduced)
        assert found.violations["deadlock"].stuck == ("watcher",)


def test_what_reductions_may_know_of_a_wait_that_skips_phases():
    """Not that it is for a phase that is not seen yet; but that it passes for good once its phase is the last one."""
    kernel = trace(Watcher())
    watcher = kernel.programs[-1]
    assert all("full" not in ahead for ahead in waits_ahead(watcher))
    settled = [place.settled for place in compile_kernel(kernel).roles[-1].locations if place.kind == "wait"]
    assert settled and all(fields_of(one) == {"since.watcher.full"} for one in settled)


def plain(node: Node) -> Node:
    """A wait for the same parity that says of no state where it comes from."""
    return replace(node, operation=replace(node.operation, phase=int(node.operation.phase)))


@pytest.mark.parametrize(
    ("where", "change", "what"),
    [
        ("skips", plain, "skips phases where it has no Phase to wait for"),
        ("skips", lambda node: replace(node, skips=False), "at some waits only"),
        (
            "skips",
            lambda node: replace(node, distance=node.distance + 1),
            "waits for parity . of full, 18 after",
        ),
        ("moves", lambda node: replace(node, moves={True: (("full", 2),)}), "waits for parity"),
        ("moves", lambda node: replace(node, moves={True: (("empty", 1),)}), "moves on at empty: none of its waits"),
        ("moves", lambda node: replace(node, moves={7: (("full", 1),)}), "moves on for 7: the location leads nowhere"),
    ],
)
def test_a_kernel_made_by_hand_says_nothing_else_of_what_a_role_skips(where, change, what):
    """Each change is made at the first place that has such a thing."""
    kernel = trace(Watched(first=1))
    check(kernel, engine="order")
    *others, watcher = kernel.programs
    first = next(number for number, node in enumerate(watcher.nodes) if getattr(node, where))
    nodes = (*watcher.nodes[:first], change(watcher.nodes[first]), *watcher.nodes[first + 1 :])
    with pytest.raises(SpecError, match=what):
        check(replace(kernel, programs=(*others, annotate(replace(watcher, nodes=nodes)))), engine="order")
