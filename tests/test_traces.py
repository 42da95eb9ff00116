"""Traces replay, no shorter one does, and they name the access that is in progress or was not fenced."""

from __future__ import annotations

import pytest
from test_pipelines import BROKEN

from sm90_verify.counterexample.trace import make_trace, reason, shows_again
from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel

PIPELINES = kernels("pipeline")


@pytest.mark.parametrize(("kernel", "expected"), BROKEN)
def test_every_trace_replays_and_no_shorter_one_does(kernel, expected):
    whole = compile_kernel(walk.trace(kernel(stages=2)))
    for violation in explore(whole, enough=5_000).violations.values():
        if violation.property == "limit":
            continue
        trace = make_trace(whole, violation.property, violation.because, violation.actions, violation.stuck)
        assert shows_again(whole, trace)
        cut = type(trace)(trace.property, trace.because, trace.steps[:-1], trace.blocked)
        if violation.property != "deadlock":
            assert not shows_again(whole, cut)


class StoresFromWhatItRead(Pipeline):
    """Bytes are multiplied as c, stored as d and released; then, if `again`, they are read as c."""

    again = False
    trips = 2
    full = barrier()
    empty = barrier()
    c = tile(bytes=64)
    d = tile(bytes=64, shares="c")

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(64)
        yield self.c[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.c[at].mma()
        yield self.mma_wait(0)
        yield self.d[at].store()
        yield self.bulk_commit()
        yield self.empty[at].arrive()
        if self.again:
            yield self.c[at].read()
        yield self.bulk_wait_read(0)


@pytest.mark.parametrize(
    ("engine", "again"), [("search", False), ("search", True), ("order", False), ("order", True), ("smt", False)]
)
def test_a_race_names_the_access_that_is_in_progress(engine, again):
    """Not another one of the role to the same bytes, which is over, or has not begun."""
    result = check(StoresFromWhatItRead(again=again), command="spec", engine=engine, properties=("race",))
    (finding,) = result.findings
    assert "write of c by producer after the async-proxy read of d by consumer" in finding.trace.because


@pytest.mark.parametrize("own", [False, True])
def test_a_missing_fence_names_what_was_written(own):
    """Not what the store calls the same bytes, and not what was written, and fenced, before."""

    class FencesTheFirst(Pipeline):
        a = tile(bytes=64)
        b = tile(bytes=64, shares="a")
        c = tile(bytes=64, shares="a")

        @role(warps=1)
        def writer(self):
            yield self.a.write()
            yield self.fence_proxy_async()
            yield self.b.write()
            yield self.named_sync(1, threads=64)
            if own:
                yield self.c.store()

        @role(warps=1)
        def other(self):
            yield self.named_sync(1, threads=64)
            if not own:
                yield self.c.store()

    result = check(FencesTheFirst(), command="spec", properties=("missing-fence",), engine="search")
    (finding,) = result.findings
    storing = "writer" if own else "other"
    assert finding.trace.because == (
        "no fence.proxy.async comes between the generic access to b by writer and the async-proxy read of c by "
        f"{storing}"
    )


def test_a_race_with_what_has_not_begun_names_that():
    class ReadsWithoutWaiting(Pipeline):
        trips = 1
        full = barrier()
        a = tile(bytes=64)
        b = tile(bytes=64, shares="a")

        @role(warps=1)
        def producer(self):
            yield self.full.arrive_expect_tx(64)
            yield self.a.load(signals=self.full)

        @role(warps=1)
        def consumer(self):
            yield self.a.read()
            yield self.full.arrive()
            yield self.b.read()

    whole = compile_kernel(walk.trace(ReadsWithoutWaiting()))
    (check,) = [
        check for action in whole.actions if action.role == "producer" for check in action.checks if check.cases
    ]
    told = [reason(check, {"at.consumer": at}) for at in (0, 2)]
    either = "which can start as well"
    assert [text.rsplit("read of ", 1)[1] for text in told] == [f"{one} by consumer, {either}" for one in "ab"]


def test_a_trace_of_another_model_is_refused():
    whole = compile_kernel(walk.trace(BROKEN[1][0](stages=2)))
    other = compile_kernel(walk.trace(PIPELINES["tma-async"](stages=3)))
    violation = explore(whole).violations["race"]
    trace = make_trace(whole, "race", violation.because, violation.actions)
    with pytest.raises(SpecError, match=r"is not a step of|cannot be taken"):
        assert not shows_again(other, trace)
