"""Kernels of which one run says nothing about the others."""

from __future__ import annotations

from sm90_verify.engines.order.decisions import unequal
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.model.weaker import weaker_operation
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of


def why_not(kernel: Kernel) -> str:
    """Why order has no answer for a kernel; "" if it has one."""
    return refusal(kernel.programs) or orders_less(kernel) or _fences_own(kernel)


def refusal(programs: tuple[Program, ...]) -> str:
    """Why one run says nothing about the others: control flow that depends on the schedule; "" if there is none."""
    if (unfollowed := _unfollowed(programs)) is not None:
        return f"st.async writes {unfollowed}, which is accessed through the async proxy: the fence is not followed"
    ended = {node.operation.barrier for one in programs for node in one.nodes if isinstance(node.operation, op.Inval)}
    for program in programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            if effects.triggers is not None and effects.triggers.barrier in ended:
                return f"an arrival that follows cp.asyncs may come after the inval of its barrier ({node.source})"
            if any(copies.write.strong is not None for copies, _ in effects.lands):
                return f"red.async is taken for a write like any other ({node.source})"
            if isinstance(node.operation, op.TriggeredArrive) and not node.operation.noinc:
                return f"cp.async.mbarrier.arrive without .noinc raises what its phase waits for ({node.source})"
            if effects.word is not None:
                return f"control flow depends on the value of {effects.word.access.object} ({node.source})"
            if effects.finds is not None:
                return f"control flow depends on what is found in {effects.finds.access.object} ({node.source})"
            wait = effects.waits
            if wait is not None and wait.kind != "wait":
                return f"control flow depends on the answer of {wait.kind} on {wait.barrier} ({node.source})"
            if wait is not None and node.skips:
                return f"{program.name} waits on {wait.barrier} for some phases only ({node.source})"
    return unequal(programs)


def _unfollowed(programs: tuple[Program, ...]) -> str | None:
    """A buffer that st.async writes and that an access through the async proxy wants a fence for."""
    effects = [effects_of(node.operation) for program in programs for node in program.nodes]
    stored = {copies.write: None for one in effects for copies, _ in one.lands if copies.write.proxy == "generic"}
    wanting = {access: None for one in effects for access in one.accesses if stored and access.wants_fence}
    return next((one.object for one in stored for other in wanting if one.overlaps(other)), None)


def orders_less(kernel: Kernel) -> str:
    """Why going on because of another role does not mean to be ordered after it; "" where it does."""
    where = weaker_operation(kernel)
    return f"an operation orders less than all that came before it ({where})" if where else ""


def _fences_own(kernel: Kernel) -> str:
    """With `strict`, a fence counts for who has made the access: what an arrival tells of is not made by then."""
    effects = [effects_of(node.operation) for program in kernel.programs for node in program.nodes]
    tracked = {access: None for one in effects if one.triggers is not None for access in one.triggers.tracks}
    if not kernel.rules.strict or not any(access.wants_fence for one in effects for access in one.accesses):
        return ""
    copied = next((access.object for access in tracked if access.write), None)
    return "" if copied is None else f"with strict, fences after the cp.asyncs to {copied} are not followed"
