"""Mutants by what they are called."""

from __future__ import annotations

from sm90_verify.mutation.catalogue import Model, Mutant, mutants_of


def named(model: Model, operator: str, *words: str, nth: int = -1) -> Mutant:
    """The mutant of an operator whose text has all the words, at all executions by all instances; the only one, or the
    n-th.
    """
    found = [
        mutant
        for mutant in mutants_of(Model(model.kernel, model.parameters, thin=True))
        if mutant.operator == operator and all(word in mutant.text for word in words)
    ]
    assert nth >= 0 or len(found) == 1, [mutant.text for mutant in found]
    return found[max(nth, 0)]
