"""How far the scope of an operation reaches, and what acquires later what a role has read without acquiring it: a
fence, or another read of the same word that acquires (PTX ISA 8.8, acquire patterns).
"""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import acquires, effects_of
from sm90_verify.spec.ptx.memory import WIDER

EVERYWHERE = len(WIDER)
"""The level of a scope that is not named."""


class Later(NamedTuple):
    """The word that is read again, "" for a fence, and how far its scope reaches."""

    word: str
    level: int

    def __str__(self) -> str:
        return f"{f'a read of {self.word}' if self.word else 'a fence'}.{WIDER[self.level]}"


def level_of(scope: op.AnyScope) -> int:
    """The place of a scope among those that are wider and narrower."""
    return WIDER.index(scope) if scope else EVERYWHERE


def reads_of(operation: op.Operation | None) -> op.OnWord | None:
    """The operation if it is a strong read of a word: a weak one acquires nothing, now or later."""
    word = effects_of(operation).word
    return word if isinstance(word, op.WordLoad | op.Spin | op.Atom) and word.order.sem != "weak" else None


def acquirers(program: Program) -> list[Later]:
    """What acquires later in a role: its fences, and the reads of words that it also reads without acquiring them."""
    fences, reads, bare = set[int](), set[Later](), set[str]()
    for node in program.nodes:
        if isinstance(node.operation, op.ThreadFence):
            fences.add(level_of(node.operation.scope))
        elif (word := reads_of(node.operation)) is not None:
            if acquires(word.order):
                reads.add(Later(word.access.object, level_of(word.order.scope)))
            else:
                bare.add(word.access.object)
    return [*(Later("", level) for level in sorted(fences)), *sorted(one for one in reads if one.word in bare)]
