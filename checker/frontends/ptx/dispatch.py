"""Which handler executes which instruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.on_copies import on_async_store, on_cp
from sm90_verify.frontends.ptx.on_fences import on_fence
from sm90_verify.frontends.ptx.on_lanes import on_elect, on_match, on_redux, on_shfl, on_vote
from sm90_verify.frontends.ptx.on_mbarriers import on_mbarrier
from sm90_verify.frontends.ptx.on_memory import on_access, on_matrices
from sm90_verify.frontends.ptx.on_tensormaps import on_tensormap
from sm90_verify.frontends.ptx.on_threads import (
    on_bar,
    on_griddepcontrol,
    on_setmaxnreg,
)
from sm90_verify.frontends.ptx.on_wgmma import on_wgmma

HANDLERS: Mapping[str, Callable[[Binding], Handler]] = {
    "mbarrier": on_mbarrier,
    "bar": on_bar,
    "barrier": on_bar,
    "cp": on_cp,
    "fence": on_fence,
    "membar": on_fence,
    "tensormap": on_tensormap,
    "wgmma": on_wgmma,
    "setmaxnreg": on_setmaxnreg,
    "griddepcontrol": on_griddepcontrol,
    "elect": on_elect,
    "shfl": on_shfl,
    "vote": on_vote,
    "activemask": on_vote,
    "match": on_match,
    "redux": on_redux,
    "ld": on_access,
    "ldu": on_access,
    "st": on_access,
    "atom": on_access,
    "red": on_access,
    "ldmatrix": on_matrices,
    "stmatrix": on_matrices,
}
"""By opcode."""
HARMLESS_CALLS = ("vprintf", "__assertfail", "malloc", "free")
"""Functions of the device's runtime that neither synchronise nor touch shared memory."""


def handler_of(bound: Binding) -> Handler:
    """The handler of an instruction. Raises SpecError for one that nobody knows."""
    one = bound.one
    if one.opcode in ("st", "red") and "async" in one.modifiers:
        return on_async_store(bound)
    if one.opcode in ("mma",):
        return lambda warp, fragment, lanes: True
    if one.opcode == "call":
        names = [getattr(operand, "name", "") for operand in one.operands]
        if any(name in HARMLESS_CALLS for name in names):
            return lambda warp, fragment, lanes: True
        raise bound.unknown_form()
    found = HANDLERS.get(one.opcode)
    if found is None:
        raise bound.unknown_form()
    try:
        return found(bound)
    except (IndexError, KeyError, StopIteration, AssertionError, ValueError) as error:
        if isinstance(error, ValueError) and hasattr(error, "what"):
            raise
        raise bound.unknown_form() from error
