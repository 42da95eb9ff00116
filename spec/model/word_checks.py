"""What is wrong with a strong access, or an operation on a word, wherever it is executed."""

from __future__ import annotations

from collections.abc import Mapping

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.layout import Word
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Strong

OF_LOADS, OF_STORES = ("weak", "relaxed", "acquire"), ("weak", "relaxed", "release")
OF_ATOMS = ("relaxed", "acquire", "release", "acq_rel")


def wrong_order(on: op.OnWord) -> str:
    """.sem that the instruction does not have, or that its access does not say; "" if nothing is wrong."""
    atomic = isinstance(on, op.Atom)
    allowed = OF_ATOMS if atomic else OF_STORES if isinstance(on, op.WordStore) else OF_LOADS
    if on.order.sem not in allowed:
        what = "an atomic operation" if atomic else "a store" if isinstance(on, op.WordStore) else "a load"
        return f"{what} of {on.access.object} with sem={on.order.sem!r}: use {', '.join(map(repr, allowed))}"
    strong = on.access.strong
    if strong is not None and strong.scope != on.order.scope:
        return f"an access of scope {strong.scope} in an operation of scope {on.order.scope}: use one"
    return ""


def wrong_value(on: op.OnWord, words: Mapping[str, Word]) -> str:
    """A value that the word does not have."""
    name = on.access.object
    word = words.get(name)
    if word is None:
        return f"{name} is no word: declare it with word()"
    if isinstance(on, op.WordLoad | op.Atom) and on.values != word.values:
        return f"an operation on a word of {on.values} values, and {name} has {word.values}"
    used = []
    if isinstance(on, op.WordStore):
        used = [on.value]
    elif isinstance(on, op.Atom) and on.kind not in ("add", "inc"):
        used = [on.operand, on.compare]
    beyond = [value for value in used if not 0 <= value < word.values]
    return f"{name} has the values 0 to {word.values - 1}, not {beyond[0]}: give word() more of them" if beyond else ""


def not_of(strong: Strong, program: Program) -> str:
    """A strong access says of which CTA its thread is."""
    if strong.cta == program.me.cta:
        return ""
    return f"a strong access by a thread of CTA {strong.cta} in a role of CTA {program.me.cta}: use {program.me.cta}"
