"""From a role's generator to its locations, and to the steps that an engine can take there."""

from __future__ import annotations

import pytest
from programs import Ring, explored, operations, program

from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.snapshot import Plumbing
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx import operations as op


def test_a_role_ends_where_its_last_operation_is() -> None:
    *_, last, end = program(Ring(trips=1)).nodes
    assert end.operation is None and end.source == last.source


# ---------------------------------------------------------------- branches


class ExitsEarly(Pipeline):
    """A role that may return at once."""

    done = barrier(arrivals=1)

    @role(warps=1)
    def worker(self):
        if (yield self.choose("work", "none", "some")) == "none":
            return
        yield self.done.arrive()

    @role(warps=1)
    def waiter(self):
        if (yield self.choose("work", "none", "some")) == "some":
            yield self.done.wait(0)


def test_early_exit_is_an_end_of_its_own() -> None:
    worker = program(ExitsEarly())
    assert [len(node.successors) for node in worker.nodes].count(0) == 2
    exploration = explored(ExitsEarly())
    assert exploration.finished
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")


def test_choice_is_the_same_for_all_roles() -> None:
    class Disagree(ExitsEarly):
        @role(warps=1)
        def waiter(self):
            yield self.choose("another", "none", "some")
            yield self.done.wait(0)

    assert set(explored(Disagree()).violations) == {"deadlock"}


def test_a_role_may_run_ahead_by_any_number_of_choices() -> None:
    """Beyond those remembered a role may find anything: what holds even then is proved."""

    class RunsAhead(Pipeline):
        first = 8
        second = 1

        @role(warps=1)
        def ahead(self):
            for _ in range(self.first):
                yield self.choose("work", "none", "some")

        @role(warps=1)
        def behind(self):
            for _ in range(self.second):
                yield self.choose("work", "none", "some")

    exploration = explored(RunsAhead())
    assert "more than 6 shared decisions behind" in exploration.beyond
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")
    assert explored(RunsAhead(first=6)).beyond == ""


class Peeks(Pipeline):
    """A role that looks once, and what it does then."""

    kind = "test_wait"
    done = barrier(arrivals=1)
    saw = barrier(arrivals=1)
    missed = barrier(arrivals=1)

    @role(warps=1)
    def worker(self):
        yield self.done.arrive()

    @role(warps=1)
    def looker(self):
        look = self.done.try_wait if self.kind == "try_wait" else self.done.test_wait
        yield (self.saw if (yield look(0)) else self.missed).arrive()


@pytest.mark.parametrize("kind", ["test_wait", "try_wait"])
def test_both_answers_of_a_peek_are_followed(kind: str) -> None:
    looker = program(Peeks(kind=kind), 1)
    arrives = [node.operation.barrier for node in looker.nodes if isinstance(node.operation, op.Arrive)]
    assert sorted(arrives) == ["missed", "saw"]
    assert explored(Peeks(kind=kind)).unreached == ()


@pytest.mark.parametrize(("kind", "gives_up"), [("test_wait", False), ("try_wait", True)])
def test_only_try_wait_can_fail_on_a_completed_phase(kind: str, gives_up: bool) -> None:
    """9.7.13.15.16: try_wait may return False at its time limit; test_wait tells what is."""

    class After(Peeks):
        @role(warps=1)
        def looker(self):
            yield self.done.wait(0)
            look = self.done.try_wait if self.kind == "try_wait" else self.done.test_wait
            if not (yield look(0)):
                yield self.missed.arrive()

    machine = compile_kernel(trace(After(kind=kind)))
    unreached = explore(machine).unreached
    missed = [index for index, action in enumerate(machine.actions) if action.object == "missed"]
    assert all((index not in unreached) == gives_up for index in missed)


# ---------------------------------------------------------------- split roles


class Elects(Pipeline):
    """A warp of which one lane loads, and a warpgroup of copies."""

    full = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(threads=32, split=(1, 31))
    def warp(self, me):
        if me.leader:
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full, tag=0)
        yield self.warp_sync()

    @role(warpgroups=1, copies=2)
    def math(self, me):
        yield self.full.wait(0)
        yield self.a.read(tag=0)


def test_split_role_has_representatives() -> None:
    programs = trace(Elects()).programs
    assert [(one.name, one.me.threads, one.role) for one in programs] == [
        ("warp.0", 1, "warp"),
        ("warp.1", 31, "warp"),
        ("math0", 128, "math0"),
        ("math1", 128, "math1"),
    ]
    assert [len(operations(one)) for one in programs] == [3, 1, 2, 2]


def test_warp_sync_is_for_all_representatives() -> None:
    exploration = explored(Elects())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")

    class OneSkips(Elects):
        @role(threads=32, split=(1, 31))
        def warp(self, me):
            if me.leader:
                yield self.full.arrive_expect_tx(self.a.bytes)
                yield self.a.load(signals=self.full, tag=0)
                yield self.warp_sync()

    assert explored(OneSkips()).violations["deadlock"].stuck == ("warp.0",)


@pytest.mark.parametrize("comes", [False, True])
def test_syncthreads_is_for_all_that_have_not_exited(comes: bool) -> None:
    """The last thread comes, or exits when the others stand there already or have yet to come."""

    class OneExits(Pipeline):
        go_on = barrier(arrivals=2)
        a = tile(bytes=64, slots=2)

        @role(warps=1, copies=2)
        def sync(self, me):
            yield self.go_on.arrive()
            yield self.a[me.copy].write(tag=me.copy)
            yield self.cta_sync()
            yield self.a[1 - me.copy].read(tag=1 - me.copy)

        @role(warps=1)
        def last(self):
            yield self.go_on.wait(0)
            if comes:
                yield self.cta_sync()

    exploration = explored(OneExits())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")


# ---------------------------------------------------------------- what is refused


def test_a_role_that_sets_an_attribute_is_refused():
    class Sets(Pipeline):
        stages = 1

        @role(warps=1)
        def counts(self):
            self.stages = 2
            yield self.mma_commit()

    with pytest.raises(SpecError, match="keep it in a local variable"):
        trace(Sets())


def test_a_role_that_does_something_else_when_run_again_is_refused():
    class Hidden(Plumbing):
        """What is believed to be no part of a role."""

        count = 0

    hidden = Hidden()

    class Remembers(Pipeline):
        stages = 1
        full = barrier(arrivals=1)

        @role(warps=1)
        def remembers(self):
            hidden.count += 1
            yield self.full.arrive(1 + (hidden.count > 1))
            yield self.choose("side", 0, 1)
            yield self.choose("other side", 0, 1)

    with pytest.raises(SpecError, match="does not do the same when it is run again"):
        trace(Remembers())
