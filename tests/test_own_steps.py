"""Steps that nobody else can notice are taken at once by the reduced search, and hide nothing that comes after them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_machines import AT, line, race, step
from small_machines import machine as by_line
from test_prompt_steps import promptness

from sm90_verify.engines.search import reduction
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.one_of import one_of
from sm90_verify.engines.search.own_steps import own_steps
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.model.machine import LIMIT, Check, Variable
from sm90_verify.spec.ptx.expr import TRUE, Field, any_of


class Early(Pipeline):
    """The reader says that it is done before it reads; a wgmma.fence, or a tile of its own, comes in between."""

    fence = True
    right = False
    p = barrier(arrivals=1)
    a = tile(bytes=64)
    r = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def reader(self):
        if self.right:
            yield self.a.read()
        yield self.p.arrive()
        if self.fence:
            yield self.wgmma_fence()
        else:
            yield self.r.write()
        if not self.right:
            yield self.a.read()

    @role(warps=1)
    def writer(self):
        yield self.p.wait(0)
        yield self.a.write()


def own(pipeline):
    machine = compile_kernel(trace(pipeline))
    places = {role.name: role.locations for role in machine.roles}
    return {(role, places[role][at].op) for role, at in own_steps(machine)}


@pytest.mark.parametrize("fence", [True, False])
def test_what_touches_only_registers_is_taken_at_once(fence):
    assert own(Early(fence=fence)) == {("reader", "wgmma.fence" if fence else "write")}
    assert promptness(Early(fence=fence))[0] == "?+--"


@pytest.mark.parametrize("fence", [True, False])
def test_an_access_behind_such_a_step_is_about_to_start_for_others(fence, monkeypatch):
    """Nobody else sees it coming before: the role rests there, though what comes before is no wait and no arrival."""
    machine = compile_kernel(trace(Early(fence=fence)))
    right = compile_kernel(trace(Early(fence=fence, right=True)))
    for reduced in (False, True):
        assert set(explore(machine, reduced=reduced).violations) == {"race"}
        assert not explore(right, reduced=reduced).violations
    chained = reduction._chained
    monkeypatch.setattr(reduction, "_chained", lambda role, before, own: chained(role, before, ()))
    assert not explore(machine, reduced=True).violations


class Shares(Pipeline):
    """Two tiles of the bytes of shared memory, of which one role alone uses one, and a tile that both read."""

    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.a.write()
        yield self.b.read()
        yield self.a.read()

    @role(warps=1)
    def two(self):
        yield self.b.read()


def test_what_one_role_alone_uses_is_its_own():
    assert own(Shares()) == {("one", "write"), ("one", "read"), ("two", "read")}


class Reaches(Pipeline):
    """An arrival at a barrier that nobody waits for, of a CTA that may have exited by then; nobody else asks that."""

    p = barrier(arrivals=1)

    @role(warps=1)
    def one(self, me: Threads):
        if me.cta == 0:
            yield self.p.on(1).arrive()


def test_what_depends_on_where_another_role_is_is_no_step_of_its_own():
    machine = compile_kernel(trace(Reaches(cluster="2x1")))
    assert own_steps(machine) == {}
    for reduced in (False, True):
        assert "exit-hazard" in explore(machine, reduced=reduced).violations


class Meets(Shares):
    """Others ask where the role is: whether it has left."""

    @role(warps=1)
    def two(self):
        yield self.b.write()
        yield self.cta_sync()


def test_a_step_is_not_the_roles_own_if_others_tell_its_ends_apart():
    machine = compile_kernel(trace(Meets()))
    places = {at for role, at in own_steps(machine) if role == "one"}
    assert places == {0}


def test_two_roles_in_one_condition_are_told_apart():
    """One reader, and a writer that looks at both where others would: neither's places are the other's."""
    machine = compile_kernel(trace(Shares()))
    one, two = (Field(role.counter, 2 if role.name == "one" else 1) for role in machine.roles)
    for when, expected in (
        ((one == 1) | (two == 0), {("one", 2)}),
        ((one == 3) | (two == 0), {("one", 0), ("one", 1)}),
        ((one == 1) | (one == 2), {("one", 1), ("two", 0)}),
    ):
        watched = replace(machine, checks=(*machine.checks, Check("race", when, "", "")))
        assert set(own_steps(watched)) == expected


X = Field("x", 1)


def by_hand(*more, standing=(), checks=(), a=None):
    """a takes a step, which is its own but for what is given; b takes one too."""
    first = a or step("a", 0, 1, updates=[("x", ~X)])
    actions = [first, step("b", 0, 1), *more]
    roles = [line("a", "other", "end", standing=standing), line("b", "other", "end")]
    return set(own_steps(by_line(roles, actions, [Variable("x", 1, 0, "")], checks)))


def test_what_makes_a_step_the_roles_own():
    """Here both have one each; what stands at a's place, what it writes, what it waits for, and what sees it."""
    both = {("a", 0), ("b", 0)}
    assert by_hand() == both
    assert by_hand(standing=[(0, (race(AT["b"] == 1),))]) == set()
    assert by_hand(step("b", 0, 0, updates=[("x", X)])) == set()
    assert by_hand(step("b", 0, 0, X == 1), a=step("a", 0, 1, updates=[("x", TRUE)])) == set()
    assert by_hand(a=step("a", 0, 1, AT["b"] == 1)) == set()
    assert by_hand(a=step("a", 0, 1, TRUE, race(AT["b"] == 1))) == set()
    assert by_hand(a=step("a", 0, 1, TRUE, race(because="far")._replace(property=LIMIT))) == {("b", 0)}
    assert by_hand(a=step("a", 0, 1, fails=True)) == {("b", 0)}
    assert by_hand(step("a", 0, 0)) == {("b", 0)}
    assert by_hand(checks=[race((AT["a"] + AT["b"]) == 3)]) == set()
    assert by_hand(checks=[race((AT["a"] - 2) < 3)]) == {("b", 0)}  # 2, 3 and, beyond all places, 0


def test_the_numbers_that_a_condition_holds_for():
    field = Field("at", 4)
    more = "", frozenset()
    assert one_of(field == 3, {}) == ("at", {3})
    assert one_of((field - 14) < 4, {}) == ("at", {14, 15, 0, 1})
    assert one_of(any_of([field == 1, field < 1, (field - 5) < 2]), {}) == ("at", {0, 1, 5, 6})
    assert one_of(~(field == 3), {}) == one_of(field, {}) == more
    assert one_of((field == 3) | (Field("other", 4) == 3), {}) == more
    assert one_of((field == 3) & (field == 3), {}) == more
