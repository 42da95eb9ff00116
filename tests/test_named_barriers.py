"""Named barriers count threads and nothing else: every engine decides those of FlashAttention-3 alike, lines too."""

from __future__ import annotations

import linecache

import pytest
from corpus.turns import (
    CASES,
    OneWarpOfTheRoleStores,
    OneWarpStoresEveryTile,
    OneWarpStoresForAll,
    TileSchedulerWithTwoConsumers,
    WarpgroupsTakeTurns,
    WarpgroupsWaitForAllOthers,
)
from random_meetings import agree

from sm90_verify import Pipeline, role
from sm90_verify.counterexample.trace import make_trace
from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.bounded import bounded
from sm90_verify.engines.smt.induction import prove
from sm90_verify.engines.smt.progressing import never_stuck
from sm90_verify.engines.smt.read_z3 import z3_term
from sm90_verify.engines.smt.tables import tabled
from sm90_verify.engines.smt.turns import Waiters, turn_candidates
from sm90_verify.engines.smt.unroll import relation
from sm90_verify.report.blame import guilty_step
from sm90_verify.result import PROVED
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

RIGHT = (
    WarpgroupsTakeTurns(),
    WarpgroupsTakeTurns(groups=3),
    WarpgroupsTakeTurns(trips="all"),
    WarpgroupsTakeTurns(groups=3, from_itself=False, from_the_last=True),
    WarpgroupsWaitForAllOthers(),
    WarpgroupsWaitForAllOthers(groups=2, trips="all"),
    OneWarpStoresForAll(),
    OneWarpOfTheRoleStores(),
    OneWarpStoresEveryTile(waits=True),
    OneWarpStoresEveryTile(waits=True, trips="all"),
    TileSchedulerWithTwoConsumers(),
)


@pytest.mark.parametrize("pipeline", RIGHT, ids=lambda one: f"{one.name} {one.parameters()}")
def test_order_and_smt_prove_it_for_every_trip_count(pipeline):
    kernel = trace(pipeline)
    assert set(order(kernel).verdicts.values()) == {PROVED}
    if not isinstance(pipeline, OneWarpStoresEveryTile):  # for which smt runs out of four minutes
        assert set(prove(compile_kernel(kernel), timeout=240.0).verdicts.values()) == {PROVED}


LINES = {
    "turns, the first missing": ("deadlock", "self.named_sync(mine"),
    "turns, the first twice": ("deadlock", "self.named_sync(mine"),
    "turns, ids swapped": ("deadlock", "self.named_sync(mine"),
    "turns, two counts": ("named-barrier", "self.named_sync(mine"),
    "turns, more than are counted": ("named-barrier", "self.named_sync(mine"),
    "turns of all, too many counted": ("deadlock", "self.named_sync(1 + me.copy"),
    "turns of all, the first missing": ("deadlock", "self.named_sync(1 + me.copy"),
    "one stores, counted without its sync": ("named-barrier", "(1, self.threads)"),
    "one stores, and does not arrive": ("deadlock", "self.named_sync(1, self.threads)"),
    "one warp of a role stores, and two sync": ("named-barrier", "by=self.by"),
    "one warp of a role stores, and all sync": ("named-barrier", "by=self.by"),
    "one warp of a role stores, and two are counted": ("deadlock", "by=self.by"),
    "one stores, the next tile too early": ("named-barrier", "self.named_sync(1, self.first)"),
    "one stores, the next generation too early": ("named-barrier", "self.named_arrive(1, 288)"),
    "scheduler, Empty missing": ("deadlock", "self.named_sync(1, threads=288)"),
    "scheduler, Empty twice": ("named-barrier", "self.named_arrive("),
}


@pytest.mark.parametrize(("name", "broken"), [row[:2] for row in CASES], ids=lambda one: one if one in LINES else "")
def test_every_engine_blames_the_same_line(name, broken):
    property, words = LINES[name]
    kernel = trace(broken)
    machine = compile_kernel(kernel)
    unreduced, reduced = explore(machine).violations, explore(machine, reduced=True).violations
    said = confirm(order(kernel), machine)
    most = max(len(unreduced[property].actions), 1)
    z3 = bounded(machine, most, [property]).violations
    assert property in reduced
    for found in (unreduced, reduced, said, z3):
        one = found[property]
        shown = make_trace(machine, property, one.because, one.actions, one.stuck)
        step = shown.steps[guilty_step(shown) or 0]
        assert words in linecache.getline(step.file, step.line), (property, step)


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_engines_agree_on_random_programs(first):
    said = [agree(seed) for seed in range(first, first + 50)]
    assert said.count(PROVED) >= 3


def test_smt_agrees_on_random_programs():
    for seed in range(3):
        agree(seed, proof=4.0)


class Gives(Pipeline):
    """One role gives turns, as many as there are; the other takes them."""

    @role(warps=1)
    def gives(self):
        for _ in self.loop():
            yield self.named_arrive(1, 64)
            yield self.named_sync(2, 64)

    @role(warps=1)
    def takes_turns(self):
        for _ in self.loop():
            yield self.named_sync(1, 64)
            yield self.named_arrive(2, 64)


def test_where_roles_can_be_together_holds_in_every_reachable_state_and_says_something():
    machine = compile_kernel(trace(Gives(trips="forever")))
    (candidate,) = turn_candidates(tabled(machine))
    assert candidate.about == "gives and takes_turns"
    proof = prove(machine, timeout=60.0, guesses=[candidate])
    assert proof.invariants == (candidate,)
    assert set(proof.verdicts.values()) == {PROVED}


class Starves(Gives):
    """The first role gives a third one a single turn, which goes on to wait for another one."""

    @role(warps=1)
    def gives(self):
        yield self.named_arrive(3, 64)
        for _ in self.loop():
            yield self.named_arrive(1, 64)
            yield self.named_sync(2, 64)

    @role(warps=1)
    def starved(self):
        for _ in self.loop():
            yield self.named_sync(3, 64)


def test_who_gets_no_turn_any_more_is_stuck_although_others_go_on():
    machine = compile_kernel(trace(Starves(trips="forever")))
    assert set(explore(machine).violations) == {"deadlock"}
    step, (candidate,) = relation(machine), turn_candidates(tabled(machine))
    holds = z3_term(candidate.holds, step.before.__getitem__)
    assert "might go on for ever while starved waits for bar3" in never_stuck(step, [holds], lambda: 60.0)
    waiters = Waiters(machine)
    places = {one.name: [n for n, place in enumerate(one.locations) if place.kind == "inside"] for one in machine.roles}
    assert waiters.comes_to_rest("gives", "takes_turns", places["takes_turns"][0], ())
    assert not waiters.comes_to_rest("gives", "starved", places["starved"][-1], ())
    assert not waiters.comes_to_rest("takes_turns", "starved", places["starved"][-1], ())
