"""What order cannot decide and how it says so, and order as an engine of check and of the command."""

from __future__ import annotations

import pytest
from test_order_conditions import ReadsInFlight, corpus

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.engines.order import forks, order
from sm90_verify.engines.order.schedule import trace_of
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads

# ---------------------------------------------------------------- what it cannot decide, and how it says so


class Registers(Pipeline):
    """The roles of a kernel that hand registers over. again: the last one gives some back after it has got some."""

    registers = 168
    again = False

    @role(warpgroups=1)
    def producer(self):
        yield self.setmaxnreg_dec(40)

    @role(warpgroups=1, copies=2)
    def consumer(self, me: Threads):
        yield self.setmaxnreg_inc(232)
        if self.again and me.copy:
            yield self.setmaxnreg_dec(168)


def test_registers_that_are_given_before_any_are_taken():
    assert order(walk.trace(Registers())).verdict == PROVED
    said = order(walk.trace(Registers(again=True)))
    assert said.verdict == UNDETERMINED
    assert said.verdict_on("deadlock") == UNDETERMINED
    assert "setmaxnreg" in said.why_open("deadlock")


def test_try_is_refused_with_its_line():
    said = order(walk.trace(TmaAsync(stages=2, peek=True)))
    assert (said.verdict, said.failures) == (UNDETERMINED, ())
    assert said.why.startswith("control flow depends on the answer of try_wait on pipeline.empty[0] (")


class ShortIfItEnds(Pipeline):
    """Right without end and for no iteration; after any other number of them a copy is still in flight."""

    full = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def loads(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.full[at].arrive_expect_tx(1024)
            yield self.a[at].load(signals=self.full[at])
            yield self.full[at].wait(at.phase)
            at += 1
        yield self.full[at].arrive_expect_tx(1024)
        yield self.a[at].load(signals=self.full[at])


def test_every_trip_count_is_a_run_of_its_own():
    assert order(walk.trace(ShortIfItEnds(trips="forever"))).verdict == PROVED
    assert order(walk.trace(ShortIfItEnds())).verdict_on("exit-hazard") == VIOLATED


class LeavesItsLoop(TmaAsync):
    """A third role goes round once and then has nothing more to do."""

    @role(threads=1)
    def once(self):
        for _ in self.loop():
            yield self.fence_proxy_async()
            break


def test_a_role_that_leaves_its_loop_keeps_no_run_from_recurring():
    assert order(walk.trace(LeavesItsLoop(stages=2))).verdict == PROVED


class Grows(Pipeline):
    """A phase to which bytes are announced for ever."""

    p = barrier(arrivals=1)

    @role(warps=1)
    def announces(self):
        for _ in self.loop("forever"):
            yield self.p.expect_tx(0)
            yield self.p.expect_tx(16)


def test_a_run_that_does_not_recur_is_not_a_proof(monkeypatch):
    monkeypatch.setattr(forks, "MOST_SITUATIONS", 20)
    said = order(walk.trace(Grows()))
    assert said.verdict != PROVED
    assert "does not recur within 20 situations" in said.why


def test_deadlock_names_who_waits_for_what():
    trace = trace_of(order(walk.trace(corpus("D01"))), "deadlock")
    assert trace is not None
    assert trace.blocked
    assert all(entry.waits_for for entry in trace.blocked)


# ---------------------------------------------------------------- as an engine


@pytest.mark.parametrize("engine", ("order", "search+order"))
def test_engine_of_check(engine):
    proved = check(TmaAsync(stages=2), command="pipeline", engine=engine)
    assert (proved.verdict, proved.engine) == (PROVED, engine)
    assert "race" in [finding.id for finding in proved.findings]
    violated = check(ReadsInFlight(), command="pipeline", engine=engine)
    assert violated.verdict == VIOLATED
    assert violated.trace is not None and violated.trace.property == "race"
    left = check(TmaAsync(stages=2, peek=True), command="pipeline", engine=engine)
    assert left.verdict == UNDETERMINED


def test_command_line(capsys):
    assert main(["pipeline", "tma-async", "--stages", "6", "--engine", "order"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("verify: PROVED tma-async stages=6")
    assert main(["pipeline", "--stages", "2", "--engine", "order", "--property", "deadlock"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[:-2]] == ["deadlock"]
