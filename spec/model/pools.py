"""The variables of words, and of the registers that the warps of a CTA hand to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.model.layout import WordValues
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Field


def registers_of(nodes: Iterable[tuple[Program, int, Node]], new: Callable[..., Field]) -> dict[str, Field]:
    """By home of a CTA in which some role executes setmaxnreg, those that no warp holds. new: makes a variable."""
    free: dict[str, Field] = {}
    for program, _, node in nodes:
        if isinstance(node.operation, op.Setmaxnreg) and program.home not in free:
            about = "registers of the CTA that no warp holds"
            free[program.home] = new(f"{program.home}registers.free", 17, 0, about, kind="registers", of=program.home)
    return free


def words_of(
    nodes: Iterable[tuple[Program, int, Node]], new: Callable[..., Field], values: Mapping[str, WordValues]
) -> dict[str, Field]:
    """Those that some role acts on, with the values that each can have."""
    words: dict[str, Field] = {}
    for _, _, node in nodes:
        on = effects_of(node.operation).word
        if on is not None and on.access.object not in words:
            name = on.access.object
            word = values[name]
            width = (word.values - 1).bit_length()
            words[name] = new(name, width, word.initial, f"value of {name}", kind="value", of=name)
    return words
