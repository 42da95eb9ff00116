"""wgmma, executed as far as it reads shared memory."""

from __future__ import annotations

from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.events import (
    Fenced,
    LanesMet,
    Multiplied,
)
from sm90_verify.frontends.ptx.footprints import Ranges
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import Immediate, Vector
from sm90_verify.frontends.ptx.on_fences import group
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.state import Warp


def on_wgmma(bound: Binding) -> Handler:
    """wgmma.mma_async, its fence, commit and wait"""
    words = bound.one.modifiers
    match words[0]:
        case "fence":
            return _fence(bound)
        case "commit_group":
            return group(bound, "mma_commit")
        case "wait_group":
            return group(bound, "mma_wait")
        case "mma_async":
            return _mma(bound)
        case _:
            raise bound.unknown_form()


def _fence(bound: Binding) -> Handler:
    """wgmma.fence.sync.aligned: the lanes wait for each other, too."""

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(False))
        bound.note(warp, fragment, lanes, Fenced("wgmma"))
        return True

    return run


def _mma(bound: Binding) -> Handler:
    one, words = bound.one, bound.one.modifiers
    shape = next((word for word in words if word.startswith("m64n")), "")
    kinds = [word for word in words if word in footprints.OPERANDS]
    types = (kinds[-2], kinds[-1]) if len(kinds) > 1 else (kinds[-1], kinds[-1]) if kinds else ("", "")
    a, b = one.operands[1:3]
    if bound.number not in bound.code.wgmma.used:
        raise bound.unknown_form()
    of_a = None if isinstance(a, Vector) else bound.reader.get(a, 64)
    of_b = bound.reader.get(b, 64)
    immediates = [operand.value for operand in one.operands[3:] if isinstance(operand, Immediate)]
    wanted = 1 if of_a is None else 2
    transposes = immediates[-wanted:] if types[0] in ("f16", "bf16") and len(immediates) >= 2 + wanted else []
    of_each = (transposes[0], transposes[-1]) if len(transposes) == 2 else (0, transposes[-1] if transposes else 0)
    sparse = "sp" in words
    known: dict[tuple[int, int], Ranges | None] = {}

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        first = 0 if of_a is None else bound.reader.one_value(of_a(fragment), lanes, "the descriptor of A")
        second = bound.reader.one_value(of_b(fragment), lanes, "the descriptor of B")
        key = first, second
        if key not in known:
            found = footprints.wgmma_reads(
                shape, types, None if of_a is None else first, second, of_each, sparse=sparse
            )
            known[key] = None if found is None else footprints.merged((*found[0], *found[1]))
        bound.note(warp, fragment, lanes, Multiplied(known[key]))
        return True

    return run
