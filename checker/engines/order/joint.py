"""Parts of a warpgroup that execute wgmma together, before a run: which of their operations concern the others, and
which of their reads are over for all at once.

The reads of their wgmmas have regions of their own. A group is over as soon as one part has waited for it; whatever
else the same part does with the same bytes, as an ordinary read or a bulk store, is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Begun
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import Held
from sm90_verify.spec.ptx.memory import Access

JOINT = "joint"
"""Marks the bytes that wgmmas of parts of a warpgroup read, apart from the same bytes where anything else does."""
Marked: TypeAlias = tuple[Access, str]
"""An access, and how its bytes are marked: JOINT or ""."""


class Parts:
    """marks: by program that is a part of such a warpgroup, how its accesses are marked; an access can be made as a
    wgmma and otherwise.
    """

    def __init__(self, programs: tuple[Program, ...]) -> None:
        together = warpgroups_of(programs)
        self.marks = {program.name: _marks(program) for program in programs if program.name in together}

    def mark(self, program: Program, begun: Begun) -> str:
        """That of an access that the program begins."""
        return _mark(begun) if program.name in self.marks else ""

    def marked(self, program: Program, accesses: Iterable[Access]) -> tuple[Marked, ...]:
        """Accesses of which nobody knows how the program made them, as all that they can be."""
        marks = self.marks.get(program.name, {})
        return tuple((access, mark) for access in accesses for mark in marks.get(access, ("",)))

    def in_progress(self, program: Program, held: Held) -> tuple[Marked, ...]:
        """Asynchronous accesses that the program has in progress."""
        if program.name not in self.marks:
            return tuple((access, "") for access in held.in_progress())
        others = held.without_wgmmas().in_progress()
        return (*((access, "" if access.write else JOINT) for access in held.wgmmas()), *((one, "") for one in others))


def _mark(begun: Begun) -> str:
    return JOINT if begun.until == "mma_group" and not begun.access.write else ""


def _marks(program: Program) -> dict[Access, dict[str, None]]:
    found: dict[Access, dict[str, None]] = {}
    for node in program.nodes:
        for begun in effects_of(node.operation).begins:
            found.setdefault(begun.access, {})[_mark(begun)] = None
    return found


def joins(operation: op.Operation) -> Literal["", "begins", "commits", "waits"]:
    """What an operation does with the wgmmas of the warpgroup."""
    effects = effects_of(operation)
    if effects.joins is not None:
        return "commits" if effects.commits is not None else "waits"
    return "begins" if effects.lasting("mma_group") else ""
