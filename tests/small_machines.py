"""Machines small enough to count by hand, step by step."""

from __future__ import annotations

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field

HERE = Source("here.py", 1)
AT = {name: Field(f"at.{name}", 2) for name in "ab"}


def step(role, here, there, guard=TRUE, *checks, updates=(), fails=False):
    name = f"{role}: {here} to {there} if {guard}"
    return Action(name, role, "goes", "", here, there, guard, tuple(updates), checks, HERE, fails)


def race(when: Expr = TRUE, because: str = "wrong", **more) -> Check:
    return Check("race", when, because, "x", **more)


def line(name, *kinds, final=True, standing=()):
    """A role with a location of each kind, the last of which is its end. standing: (place, checks) there."""
    checks = dict(standing)
    places = (
        Location(f"{name}{at}", "", HERE, checks.get(at, ()), final and at == len(kinds) - 1, kind)
        for at, kind in enumerate(kinds)
    )
    return Role(name, f"at.{name}", tuple(places), 32)


def machine(roles, actions, variables=(), checks=()) -> Machine:
    counters = (Variable(role.counter, 2, 0, "", kind="location", role=role.name) for role in roles)
    properties = ("deadlock", "race")
    return Machine("hand", {}, (*counters, *variables), tuple(roles), tuple(actions), tuple(checks), properties)


def counts_to(last, *checks, width=12, more=()):
    """One role that counts x up, a state for each number, and ends; as many steps to a state as its number."""
    x = Field("x", width)
    actions = [step("a", 0, 0, x < last, updates=[("x", x + 1)]), step("a", 0, 1, x == last), *more]
    return machine([line("a", "other", "end")], actions, [Variable("x", width, 0, "")], checks)
