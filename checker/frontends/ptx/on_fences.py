"""Fences, and the groups of asynchronous work, executed: they are events and change nothing that is followed."""

from __future__ import annotations

import re
from typing import Literal

from sm90_verify.frontends.ptx.events import (
    Fenced,
    Grouped,
    MapFenced,
    MemoryFenced,
)
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import Immediate
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.spec.ptx.memory import WIDER, Scope
from sm90_verify.spec.ptx.memory_operations import GroupKind

MAPS_UNSEEN = "who changes a tensor map releases it and who uses it acquires it: their proxy is not looked at"

OF_A_SCOPE = r"\.(cta|cluster|gpu|sys)"
FENCE_FORMS = {
    "fence": rf"((sc|acq_rel|acquire|release)\.)?(cta|cluster|gpu|sys)|mbarrier_init\.release\.cluster"
    r"|(acquire\.sync_restrict::shared::cluster|release\.sync_restrict::shared::cta)\.cluster"
    r"|proxy\.(alias|async|async\.global|async\.shared::(cta|cluster))"
    rf"|proxy\.tensormap::generic\.(acquire|release){OF_A_SCOPE}",
    "membar": r"cta|gl|sys|proxy\.alias",
}
"""The modifiers of each that are followed here (PTX ISA 9.7.13.4): all that ptxas takes for sm_90, but for fences
between the generic and the async proxy in one direction.
"""


def on_fence(bound: Binding) -> Handler:
    """fence and membar"""
    words = bound.one.modifiers
    if not re.fullmatch(FENCE_FORMS[bound.one.opcode], ".".join(words)):
        raise bound.unknown_form()
    scope = scope_among(words)
    if "mbarrier_init" in words:
        return noting(bound, Fenced("mbarrier_init"))
    if bound.one.opcode == "membar":
        wide: Scope = "cta" if words[0] == "cta" else "sys" if words[0] == "sys" else "gpu"
        return noting(bound, MemoryFenced("sc", wide)) if words[0] != "proxy" else _proxy(bound)
    if words[:1] == ("proxy",):
        return _proxy(bound)
    kind: Literal["acq_rel", "sc"] = "sc" if "sc" in words else "acq_rel"
    return noting(bound, MemoryFenced(kind, scope))


def _proxy(bound: Binding) -> Handler:
    words = bound.one.modifiers
    if any(word.startswith("tensormap") for word in words):
        if "release" in words:
            return noting(bound, MapFenced("release", scope_among(words), 0), MAPS_UNSEEN)
        address = bound.reader.get(bound.one.operands[0], 64)

        def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
            bound.assume(MAPS_UNSEEN)
            for (where,), some in bound.reader.by_value(lanes, (address(fragment), "the tensor map")):
                bound.note(warp, fragment, some, MapFenced("acquire", scope_among(words), where))
            return True

        return run
    if any(word.startswith("async") for word in words):
        only_global = "async.global" in ".".join(words)
        return (lambda warp, fragment, lanes: True) if only_global else noting(bound, Fenced("proxy_async"))
    return lambda warp, fragment, lanes: True


def scope_among(words: tuple[str, ...]) -> Scope:
    return next((scope for scope in WIDER if scope in words), "gpu")


def noting(bound: Binding, what: Fenced | MemoryFenced | MapFenced, assumed: str = "") -> Handler:
    """assumed: what is taken for granted where it is executed."""

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        if assumed:
            bound.assume(assumed)
        bound.note(warp, fragment, lanes, what)
        return True

    return run


def group(bound: Binding, kind: GroupKind) -> Handler:
    number = bound.one.operands[0] if bound.one.operands else Immediate(0)
    if not isinstance(number, Immediate):
        raise bound.unknown_form()
    what = Grouped(kind, number.value)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, what)
        return True

    return run
