"""The ways in which a role takes an operation on a word."""

from __future__ import annotations

from typing import assert_never

from sm90_verify.spec.model.machine import LIMIT
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx import words
from sm90_verify.spec.ptx.expr import TRUE, Lit
from sm90_verify.spec.ptx.step import Illegal, Way


def word_ways(v: Variables, on: op.OnWord) -> list[Way]:
    """A load, and an atom, has a way for each value; what spins has one, on."""
    name = on.access.object
    value, word = v.words[name], v.kernel.layout.words[name]
    match on:
        case op.WordLoad():
            return [Way(value == each, (), answer=each, label=f"finds {each}") for each in range(word.values)]
        case op.Spin():
            return [Way(words.compares(value, on.comparison, on.value), ())]
        case op.WordStore():
            return [Way(TRUE, ((value.name, Lit(on.value, value.width)),))]
        case op.Atom():
            changed = words.atom(value, on, word.values, wraps=word.wraps)
            why = f"{name} would have another value than 0 to {word.values - 1}: give word() more of them"
            way = Way(TRUE, ((value.name, changed.value),), (Illegal(LIMIT, changed.beyond, why),))
            if not on.answers:
                return [way]
            known = range(word.values)
            return [way._replace(guard=value == each, answer=each, label=f"was {each}") for each in known]
        case _:
            assert_never(on)
