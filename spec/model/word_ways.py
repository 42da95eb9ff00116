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
            way = Way(TRUE, ((value.name, words.atom(value, on, word.values, wraps=word.wraps).value),))
            if not on.answers:
                return [way]
            known = range(word.values)
            return [way._replace(guard=value == each, answer=each, label=f"was {each}") for each in known]
        case _:
            assert_never(on)


def leaves_its_values(v: Variables, on: op.OnWord) -> list[Illegal]:
    """What the model cannot hold, wherever a role stands at an atom that gives the word a value that it does not have:
    the atom may come at once, and nothing behind it is known.
    """
    if not isinstance(on, op.Atom):
        return []
    name = on.access.object
    word = v.kernel.layout.words[name]
    beyond = words.atom(v.words[name], on, word.values, wraps=word.wraps).beyond
    why = f"{name} would have another value than 0 to {word.values - 1}: give word() more of them"
    return [Illegal(LIMIT, beyond, why)]
