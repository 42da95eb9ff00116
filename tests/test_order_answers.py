"""What the order engine leaves open, and which properties a program could violate at all."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.result import PROVED, UNDETERMINED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class EndsWithoutItsWait(Pipeline):
    cluster = "2x1"

    @role(warps=1)
    def warp(self, me):
        yield self.cluster_arrive()
        if me.cta == 0:
            yield self.cluster_wait()


class GivesAfterTaking(Pipeline):
    registers = 168

    @role(warpgroups=1)
    def gives(self):
        yield self.setmaxnreg_dec(40)

    @role(warpgroups=1)
    def takes(self):
        yield self.setmaxnreg_inc(232)
        yield self.setmaxnreg_dec(168)


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (EndsWithoutItsWait(), "ends between barrier.cluster.arrive and its wait"),
        (GivesAfterTaking(), "the order in which setmaxnreg requests are granted may matter"),
    ],
    ids=lambda one: one.name if isinstance(one, Pipeline) else "",
)
def test_what_is_left_open(pipeline, words):
    said = order(trace(pipeline))
    assert (said.verdict, words in said.why_open("deadlock")) == (UNDETERMINED, True)


class AlsoReads(GivesAfterTaking):
    """What is open about registers leaves open nothing else."""

    @role(warps=1)
    def meets(self):
        yield self.named_sync(1, 32)


def test_the_order_of_grants_leaves_other_properties_decided():
    said = order(trace(AlsoReads()))
    assert (said.verdict_on("register-pool"), said.verdict_on("named-barrier")) == (UNDETERMINED, PROVED)


class Words(Pipeline):
    """One role that does what `words` say; `over` lies in the bytes of the barrier `dead`."""

    words = ""
    strict = False
    p = barrier(arrivals=1)
    dead = barrier(initialised=False)
    a = tile(bytes=64)
    over = tile(bytes=64, shares="dead")

    @role(warps=1)
    def one(self):
        for word in self.words.split():
            match word:
                case "arrive":
                    yield self.p.arrive()
                case "wait":
                    yield self.p.wait(1)
                case "expect":
                    yield self.p.expect_tx(16)
                case "load":
                    yield self.a.load(signals=self.p)
                case "write":
                    yield self.a.write()
                case "tag":
                    yield self.a.write(tag=1)
                case "over":
                    yield self.over.write()
                case "sync":
                    yield self.named_sync(1, 32)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ""),
        ("arrive", "arrival-count"),
        ("wait", "phase-lapped"),
        ("arrive wait", "phase-lapped arrival-count unobserved-phase"),
        ("expect", "tx-count"),
        ("load", "race tx-count exit-hazard"),
        ("load write", "race tx-count missing-fence exit-hazard"),
        ("write", "race"),
        ("tag", "race stale-read"),
        ("over", "race barrier-init"),
        ("sync", "named-barrier"),
    ],
)
def test_what_a_program_could_violate_at_all(words, expected):
    assert order(trace(Words(words=words))).applies == ("deadlock", *expected.split())
    strict = order(trace(Words(words=words, strict=True))).applies
    assert set(strict) == {"deadlock", "exit-hazard", *expected.split()}


class EndsInsideABarrier(Pipeline):
    """The second __syncthreads waits for the end of a role that is still inside the named barrier."""

    @role(warps=1)
    def ends(self):
        yield self.named_sync(1, 160)

    @role(warps=4)
    def stays(self):
        yield self.named_sync(1, 160)
        yield self.cta_sync()
        yield self.named_sync(1, 160)


def test_a_schedule_lets_others_leave_a_barrier_whose_end_is_waited_for():
    kernel = trace(EndsInsideABarrier())
    found = confirm(order(kernel), compile_kernel(kernel))
    assert found["deadlock"].stuck == ("stays",)


class StartsBehindABarrier(Pipeline):
    """The second grid waits for the end of a role that is still inside its __syncwarp."""

    b = barrier(arrivals=1, slots=1)
    x = tile(bytes=16, slots=1)

    @role(threads=32, split=(1, 31))
    def first(self):
        yield self.warp_sync()

    @role(warps=4, grid=1)
    def second(self):
        yield self.grid_wait()
        yield self.b.arrive_expect_tx(16)
        yield self.x.load(signals=self.b)


def test_a_schedule_lets_others_leave_a_barrier_before_the_next_grid():
    kernel = trace(StartsBehindABarrier())
    found = confirm(order(kernel), compile_kernel(kernel))
    assert set(found) == {"exit-hazard"}
