"""Mutations of order and scope, of words, mbarriers and fences, and of the values of words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.mutation.stream import Rewrite
from sm90_verify.mutation.variation import Variation, changed, with_fields
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import WORD_VALUES
from sm90_verify.spec.ptx.memory import WIDER

WEAKER: dict[op.Sem, tuple[op.Sem, ...]] = {
    "acq_rel": ("acquire", "release", "relaxed"),
    "acquire": ("relaxed",),
    "release": ("relaxed",),
}

CLOSE_TO: dict[op.Comparison, op.Comparison] = {"==": ">=", ">=": "==", "<": "<=", "<=": "<", ">": ">=", "!=": "=="}
"""A comparison that could be mistaken for each."""


def of_word(on: op.OnWord) -> Iterator[Variation]:
    """Everything that could stand in place of an operation on a word."""
    order = on.order
    for sem in WEAKER.get(order.sem, ()):
        yield Variation("sem", f"{order.sem} -> {sem}", _reordered(order._replace(sem=sem)))
    if order.sem == "weak":
        yield from _of_value(on)
        return
    if not isinstance(on, op.Atom):
        yield Variation("sem", f"{order.sem} -> weak", _reordered(order._replace(sem="weak")))
    for scope in WIDER[: WIDER.index(order.scope)]:
        yield Variation("sem", f"scope {order.scope} -> {scope}", _reordered(order._replace(scope=scope)))
    yield from _of_value(on)
    if isinstance(on, op.Atom) and not on.answers:
        yield Variation("kind", "a store of the operand", stored)


def of_fence(fence: op.ThreadFence | op.MapFence | op.CopyMap) -> Iterator[Variation]:
    """Another scope."""
    for scope in WIDER[: WIDER.index(fence.scope)]:
        yield with_fields("sem", f"scope {fence.scope} -> {scope}", scope=scope)


def weaker(on: op.Arrive | op.Wait) -> Iterator[Variation]:
    """Where the instruction on an mbarrier names a scope: relaxed, and a narrower one."""
    if not on.scope:
        return
    if on.sem != "relaxed":
        yield with_fields("sem", f"{on.sem} -> relaxed", sem="relaxed")
    for scope in WIDER[: WIDER.index(on.scope)]:
        yield with_fields("sem", f"scope {on.scope} -> {scope}", scope=scope)


def _of_value(on: op.OnWord) -> Iterator[Variation]:
    if isinstance(on, op.WordLoad):
        return
    field = "operand" if isinstance(on, op.Atom) else "value"
    value: int = getattr(on, field)
    for other in (value - 1, value + 1):
        if 0 <= other < WORD_VALUES:
            yield replace(with_fields("value", f"{value} -> {other}", **{field: other}), wide=True)
    if isinstance(on, op.Spin):
        other_way = CLOSE_TO[on.comparison]
        yield with_fields("value", f"{on.comparison} -> {other_way}", comparison=other_way)


def _reordered(order: op.Ordering) -> Rewrite:
    """The same with another .sem or .scope, of its access too."""

    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.WordLoad | op.WordStore | op.Atom | op.Spin)
        strong = one.access.strong
        strong = None if order.sem == "weak" or strong is None else strong._replace(scope=order.scope)
        return (changed(one, order=order, access=one.access._replace(strong=strong)),)

    return rewrite


def stored(one: op.Operation) -> tuple[op.Operation, ...]:
    """A store of the operand, as if the word had been 0."""
    assert isinstance(one, op.Atom)
    value = one.operand % one.values
    order = one.order if one.order.sem in ("relaxed", "release") else one.order._replace(sem="relaxed")
    return (op.WordStore(one.access, order, value),)
