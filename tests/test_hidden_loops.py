"""Loops without end that something hides: zip and the like keep a state that no variable of the role shows."""

from __future__ import annotations

from itertools import chain, cycle, islice, repeat

import pytest
from mistakes import Ring

from sm90_verify import check
from sm90_verify.result import VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx.operations import Arrive


def is_late(gone):
    """Whether it is time to release no more; nobody asks the number of an iteration which it is."""
    return isinstance(gone, int) and gone == 1


def ring(iterations):
    """A ring whose consumer goes on for as long as `iterations(self)` does, and releases a stage where that gives 0."""

    class Looped(Ring):
        trips = "forever"

        @role(warps=1)
        def producer(self):
            at = PipelineState.start(self.stages, producer=True)
            for _ in self.forever():
                yield self.empty[at].wait(at.phase)
                yield self.full[at].arrive()
                at += 1

        @role(warps=1)
        def consumer(self):
            at = PipelineState.start(self.stages)
            for gone in iterations(self):
                yield self.full[at].wait(at.phase)
                if not is_late(gone):
                    yield self.empty[at].arrive()
                del gone
                at += 1

        def helper(self):
            for _ in self.loop():
                yield 0

        def delegating(self):
            yield from self.helper()

        def bare(self):
            yield from self.loop()

    return Looped


def late(loop):
    """Gives 1 from the 40th iteration on."""
    return map(lambda late, _: late, chain([0] * 40, repeat(1)), loop)


HIDDEN = {
    "zip": lambda self: zip(cycle([0] * 40 + [1]), self.loop(), strict=False),
    "map": lambda self: late(self.loop()),
    "enumerate": lambda self: enumerate(self.forever()),
    "islice": lambda self: islice(self.forever(), 40),
    "chain": lambda self: chain([0], self.loop()),
    "map of a helper": lambda self: late(self.helper()),
    "map of a helper that delegates": lambda self: late(self.delegating()),
    "filter": lambda self: filter(lambda _: True, self.loop()),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_a_loop_is_refused(name):
    with pytest.raises(
        SpecError, match=r"inside zip, enumerate, islice or the like.*write `for k in self\.loop\(\):`"
    ) as told:
        trace(ring(HIDDEN[name])())
    assert told.value.where is not None and told.value.where.file == __file__


SEEN = {
    "the loop": lambda self: self.loop(),
    "a helper": lambda self: self.helper(),
    "a helper that delegates": lambda self: self.delegating(),
    "a helper that delegates to the loop": lambda self: self.bare(),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_shows_a_loop_is_followed(name):
    assert check(ring(SEEN[name])()).verdict == "proved"


def test_a_loop_that_is_left_at_once_is_no_loop():
    class Left(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in zip(range(2), self.forever(), strict=False):
                break
            yield self.full[0].arrive()

    assert len(trace(Left()).programs[0].nodes) == 2


def broken_off(then):
    class Broken(Pipeline):
        full = Ring.full

        @role(warps=1)
        def consumer(self):
            try:
                for _ in self.forever():
                    yield self.full[0].arrive()
            except BaseException:
                yield from then(self)

        @role(warps=1)
        def other(self):
            try:
                for _ in self.loop():
                    yield self.full[1].arrive()
            finally:
                yield self.full[0].wait(0)

    return Broken(stages=2)


@pytest.mark.parametrize("then", [lambda self: (), lambda self: iter([self.full[0].wait(0)] * 2)])
def test_where_a_loop_is_closed_the_run_is_over_whatever_the_role_catches(then):
    consumer, other = trace(broken_off(then)).programs
    assert {type(node.operation).__name__ for node in consumer.nodes} == {"Arrive"}
    arrivals = [node for node in other.nodes if isinstance(node.operation, Arrive)]
    assert arrivals and all(other.nodes[node.successors[None]].loop == "trips" for node in arrivals)


class Chosen(Pipeline):
    """How many tiles there are is in no variable, but in what the outer `for` goes through."""

    named = False
    full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        if self.named:
            tiles = yield self.choose("tiles", 1, 2)
            for at in range(tiles):
                yield from self.poll(at)
        else:
            for at in range((yield self.choose("tiles", 1, 2))):
                yield from self.poll(at)

    def poll(self, at):
        for _ in self.forever():
            if (yield self.full[at].try_wait(0)):
                break


@pytest.mark.parametrize("named", [False, True])
def test_what_was_chosen_counts_also_where_no_variable_holds_it(named):
    assert check(Chosen(named=named)).verdict == VIOLATED


class Found(Chosen):
    """The same of what a read has found."""

    a = tile(bytes=1024, slots=1, holds=1)

    @role(warps=1)
    def consumer(self):
        for at in range(2 - (yield self.a.read(among=(1, 0)))):
            yield from self.poll(at)

    @role(warps=1)
    def other(self):
        yield self.a.write(0)


def test_what_was_found_counts_also_where_no_variable_holds_it():
    found = check(Found()).findings
    assert next(finding.verdict for finding in found if finding.id == "deadlock") == VIOLATED


class OneName:
    """Two functions of one name are two."""

    class Right:
        @staticmethod
        def drain(kernel):
            for _ in kernel.forever():
                yield kernel.full[0].wait(0)
                yield kernel.empty[0].arrive()
                yield kernel.full[0].wait(1)
                yield kernel.empty[0].arrive()

    class Hangs:
        @staticmethod
        def drain(kernel):
            for _ in kernel.forever():
                yield kernel.never[0].wait(0)


MODES = (OneName.Right.drain, OneName.Hangs.drain)


class Modes(Pipeline):
    first = 0
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        for _ in self.forever():
            yield self.empty[0].wait(1)
            yield self.full[0].arrive()
            yield self.empty[0].wait(0)
            yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        yield from MODES[(yield self.choose("mode", self.first, 1 - self.first))](self)


@pytest.mark.parametrize("first", [0, 1])
def test_functions_of_one_name_are_told_apart(first):
    assert check(Modes(first=first)).verdict == VIOLATED


class Alias(Pipeline):
    """One list under two names is not two lists that are equal."""

    full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        mine = [0]
        seen = mine
        if (yield self.choose("of its own", True, False)):
            seen = [0]
        for _ in self.forever():
            if (yield self.full[0].try_wait(0)):
                break
        mine[0] = 1
        yield self.full[seen[0]].wait(0)


def test_one_list_under_two_names_is_not_two():
    assert check(Alias()).verdict == VIOLATED


@pytest.mark.parametrize("gone_through", [list, tuple, lambda loop: [*loop], lambda loop: max(loop, default=0)])
def test_a_loop_without_end_that_no_for_goes_through_is_refused(gone_through):
    class Consumed(Pipeline):
        full = barrier(arrivals=1)

        @role(warps=1)
        def only(self):
            gone_through(self.loop())
            yield self.full[0].arrive()

    with pytest.raises(SpecError, match="a loop without end that no `for` goes through"):
        check(Consumed())


class Lazily(Pipeline):
    """What a role imports when it is first called is not known to Python before."""

    full = barrier(arrivals=1)

    @staticmethod
    def rare():
        import antigravity_of_chance

        return antigravity_of_chance.random()

    @role(warps=1)
    def only(self):
        for _ in self.forever():
            yield self.full[0].arrive()
            if self.rare() < 0:
                yield self.full[0].wait(1)


def test_what_a_role_imports_itself_is_looked_at_before(tmp_path, monkeypatch):
    (tmp_path / "antigravity_of_chance.py").write_text("from random import random\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(2):
        with pytest.raises(SpecError, match="which need not give the same"):
            check(Lazily())


class Kept(Pipeline):
    """The same bit may be that of another phase."""

    first = 0
    as_wait = False
    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(1)
        later = (at + 2).phase
        kept = self.full[0].wait(at.phase)
        yield kept
        for _ in self.forever():
            yield kept
            if (yield self.choose("later", self.first, 1 - self.first)):
                kept = self.full[0].wait(later)


@pytest.mark.parametrize("first", [0, 1])
def test_a_wait_that_is_kept_is_for_its_phase(first):
    assert check(Kept(first=first)).verdict == VIOLATED


class Bits(Kept):
    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(1)
        later, bit = (at + 2).phase, at.phase
        yield self.full[0].wait(bit)
        for _ in self.forever():
            yield self.full[0].wait(bit)
            if (yield self.choose("later", self.first, 1 - self.first)):
                bit = later


@pytest.mark.parametrize("first", [0, 1])
def test_a_bit_that_is_kept_is_that_of_its_phase(first):
    assert check(Bits(first=first)).verdict == VIOLATED
