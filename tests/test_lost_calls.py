"""A helper that is called without `yield from` does nothing: that is refused, with its line."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from sm90_verify import PROVED, Pipeline, PipelineTmaAsync, SpecError, barrier, check, role, tile


def helps(self):
    yield self.full.wait(0)


class Calls(Pipeline):
    """how: the way in which the consumer calls for help."""

    stages = 1
    how = "runs"
    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)

    def helped(self):
        yield self.full.wait(0)

    @property
    def other(self):
        raise AssertionError("nobody has asked for it")

    def counts(self):
        return 1


class Runs(Calls):
    @role(warps=1)
    def consumer(self):
        yield from self.helped()
        self.counts()


class Loses(Calls):
    @role(warps=1)
    def consumer(self):
        self.helped()
        yield self.full.wait(0)


class LosesAFunction(Calls):
    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        helps(self)


class LosesWithin(Calls):
    @role(warps=1)
    def consumer(self):
        yield from self.within()

    def within(self):
        yield self.full.wait(0)
        self.helped()


class LosesAVerb(Pipeline):
    stages = 2
    pipe = PipelineTmaAsync(consumers=1, bytes=1024)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield from self.pipe.producer_acquire(at)
        yield self.a[at].load(signals=self.pipe.full[at])

    @role(warps=1)
    def consumer(self, at):
        yield from self.pipe.consumer_wait(at)
        yield self.a[at].read()
        self.pipe.consumer_release(at)


class Within(Calls):
    """on: what a condition asks."""

    on = True

    def passes(self):
        return self.helped()

    def loses(self):
        yield self.full.wait(0)
        self.helped()


class LosesItsBase(Within):
    @role(warps=1)
    def consumer(self):
        super().helped()
        yield self.full.wait(0)


class LosesWhatIsReturned(Within):
    @role(warps=1)
    def consumer(self):
        self.passes()
        yield self.full.wait(0)


class LosesWhatNobodyReads(Within):
    @role(warps=1)
    def consumer(self):
        _ = self.helped()
        yield self.full.wait(0)


class LosesByAnotherName(Within):
    @role(warps=1)
    def consumer(self):
        again = self.helped
        again()
        yield self.full.wait(0)


class LosesItsOwn(Within):
    @role(warps=1)
    def consumer(self):
        def nested():
            yield self.full.wait(0)

        nested()
        yield self.full.wait(0)


class LosesInACondition(Within):
    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        self.on and self.helped()


class LosesInAList(Within):
    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        [self.helped() for _ in range(1)]


class LosesInAnArgument(Within):
    @role(warps=1)
    def consumer(self):
        yield from list(self.loses())


class Keeps(Within):
    """Generators that are run later, by somebody else, or not by this name."""

    @role(warps=1)
    def consumer(self):
        helps = self.counts
        helps()
        kept, box = self.helped(), [None]
        box[0] = self.passes()
        yield from kept
        yield from box[0]
        yield from self.either(self.counts)
        yield from list(self.helped())
        yield next(self.helped())
        yield from (self.helped() if self.on else ())

    def either(self, helps):
        helps()
        yield from self.passes()


@pytest.mark.parametrize("pipeline", [Runs, Keeps])
def test_a_call_that_runs_is_none(pipeline):
    assert check(pipeline()).verdict == PROVED


@pytest.mark.parametrize(
    ("pipeline", "name"),
    [
        (Loses, "self.helped"),
        (LosesAFunction, "helps"),
        (LosesWithin, "self.helped"),
        (LosesAVerb, "self.pipe.consumer_release"),
        (LosesItsBase, "super().helped"),
        (LosesWhatIsReturned, "self.passes"),
        (LosesWhatNobodyReads, "self.helped"),
        (LosesByAnotherName, "again"),
        (LosesItsOwn, "nested"),
        (LosesInACondition, "self.helped"),
        (LosesInAList, "self.helped"),
        (LosesInAnArgument, "self.helped"),
    ],
)
def test_a_call_that_does_not_is_refused_with_its_line(pipeline, name):
    with pytest.raises(SpecError, match="yield from") as refused:
        check(pipeline())
    assert f"`{name}(...)` is called" in str(refused.value)
    line = refused.value.where.line
    assert Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1].count(f"{name}(") == 1


def test_nothing_is_computed_to_find_out_what_is_called():
    """Where a role never calls it, it need not even be there."""

    class Lazy(Pipeline):
        full = barrier(arrivals=1)

        @functools.cached_property
        def computed(self):
            raise ValueError

        @role(warps=1)
        def one(self, me):
            if not me.leader:
                self.computed.help()
                self.nowhere()
                self.full[0].nowhere()
            yield self.full[0].arrive()

    assert check(Lazy()).verdict == PROVED
