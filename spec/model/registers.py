"""What is wrong with an access to registers, wherever it is executed: they are those of one program, of its ordinary
instructions and of its wgmmas.
"""

from __future__ import annotations

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.layout import Region
from sm90_verify.spec.ptx.effect_parts import Begun


def wrong_space(begun: Begun) -> str:
    """What copies reach lies in memory, and what a wgmma accumulates in lies in registers; "" for what is right."""
    access = begun.access
    if access.space == "registers" and begun.until not in ("done", "mma_group"):
        return f"{access.object} lies in registers, which no copy reaches: use a buffer in memory"
    if access.space != "registers" and access.write and begun.until == "mma_group":
        return f"a wgmma accumulates in {access.object}, in {access.space} memory: use space='registers'"
    return ""


def not_its_own(program: Program, region: Region) -> str:
    """A program touches the registers of another one."""
    if region.owner in ("", program.name):
        return ""
    return f"{program.name} touches {region.object}, which are registers of {region.owner}: use its own"
