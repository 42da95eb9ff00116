"""Tensor maps that the kernel makes: tensormap.replace and tensormap.cp_fenceproxy, executed."""

from __future__ import annotations

from sm90_verify.frontends.ptx.events import LanesAccessed, LanesMet, MapFenced
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import Immediate
from sm90_verify.frontends.ptx.made_maps import MadeMap
from sm90_verify.frontends.ptx.on_fences import MAPS_UNSEEN, scope_among
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.spaces import OFFSET
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import WARP


def on_tensormap(bound: Binding) -> Handler:
    """tensormap.replace and tensormap.cp_fenceproxy"""
    return _replace(bound) if bound.has("replace") else _copy_map(bound)


def _replace(bound: Binding) -> Handler:
    one, words = bound.one, bound.one.modifiers
    field = words[2]
    in_shared = any(word.startswith("shared") for word in words)
    address = bound.reader.get(one.operands[0], 64)
    ordinal = one.operands[1] if len(one.operands) == 3 else Immediate(0)
    if not isinstance(ordinal, Immediate):
        raise bound.unknown_form()
    dimension = ordinal.value
    value = bound.reader.get(one.operands[-1], 64)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        given = value(fragment)
        for (where,), some in bound.reader.by_value(lanes, (address(fragment), "the tensor map")):
            place = where & OFFSET if in_shared else where
            maps = warp.cta.maps if in_shared else bound.cluster.maps
            before = maps.get(place)
            if before is None:
                before = MadeMap.of_memory(warp.cta.memory, place) if in_shared else MadeMap()
            after = before.replaced(field, given if isinstance(given, int) else None, dimension)
            if after is None:
                raise SpecError(f"{one.name}: {field} {given} is not known for sm_90", bound.reader.source)
            maps[place] = after
            if in_shared:
                _touched(bound, warp, fragment, some, place, writes=True)
        return True

    return run


def _touched(bound: Binding, warp: Warp, fragment: Fragment, some: Indices, place: int, *, writes: bool) -> None:
    """A map in shared memory is written or read as a whole, through the generic proxy (PTX ISA 9.7.9.26)."""
    each_lane = [-1] * WARP
    for index in some:
        each_lane[fragment.lanes[index]] = place
    bound.note(warp, fragment, some, LanesAccessed(warp.cta.rank, tuple(each_lane), MAP_BYTES, writes))


def _copy_map(bound: Binding) -> Handler:
    one = bound.one
    into, source = bound.reader.get(one.operands[0], 64), bound.reader.get(one.operands[1], 64)
    scope = scope_among(one.modifiers)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.assume(MAPS_UNSEEN)
        found = bound.reader.by_value(lanes, (into(fragment), "the target"), (source(fragment), "the source"))
        for (target, origin), some in found:
            made = warp.cta.maps.get(origin & OFFSET) or MadeMap.of_memory(warp.cta.memory, origin & OFFSET)
            bound.cluster.maps[target] = made
            _touched(bound, warp, fragment, some, origin & OFFSET, writes=False)
            bound.note(warp, fragment, some, MapFenced("release", scope, target))
        bound.note(
            warp, fragment, lanes, LanesMet(True)
        )  # one copy by all lanes (.sync.aligned), over for each of them
        return True

    return run
