"""Which operations of a part of a warpgroup concern the others, before a run."""

from __future__ import annotations

from typing import Literal

from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of


def part_in_a_loop(programs: tuple[Program, ...]) -> str:
    """Where a warpgroup whose warps are programs of their own comes back to a wgmma; "" if none does."""
    together = warpgroups_of(programs)
    for program in programs:
        for index, node in enumerate(program.nodes):
            if program.name in together and any(target <= index for target in node.successors.values()):
                return f"{program.name} is a part of a warpgroup, and has a loop ({node.source})"
    return ""


def joins(operation: op.Operation) -> Literal["", "begins", "commits", "waits"]:
    """What an operation does with the wgmmas of the warpgroup."""
    effects = effects_of(operation)
    if effects.joins is not None:
        return "commits" if effects.commits is not None else "waits"
    return "begins" if effects.lasting("mma_group") else ""
