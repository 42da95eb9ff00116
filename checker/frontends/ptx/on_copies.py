"""Asynchronous copies, their groups and fences, tensor maps and wgmma, executed as far as they synchronise."""

from __future__ import annotations

from typing import Literal, get_args

from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.events import (
    AsyncCopied,
    BarrierAt,
    CopiedIn,
    CopiedOut,
    Fenced,
    Grouped,
    MapFenced,
    MemoryFenced,
    Multiplied,
    StoredAsync,
    Triggered,
)
from sm90_verify.frontends.ptx.footprints import Ranges
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import AddressOperand, Immediate, Operand, Vector
from sm90_verify.frontends.ptx.made_maps import MadeMap
from sm90_verify.frontends.ptx.on_mbarriers import do
from sm90_verify.frontends.ptx.operands import Getter, Indices, Undetermined
from sm90_verify.frontends.ptx.spaces import OFFSET, RANK_SHIFT, WINDOWS, space_of
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, TensorMap, decode
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Scope
from sm90_verify.spec.ptx.memory_operations import GroupKind


def on_cp(bound: Binding) -> Handler:
    """cp.async, cp.async.bulk, cp.reduce.async.bulk"""
    words = bound.one.modifiers
    if "prefetch" in words:
        return lambda warp, fragment, lanes: True
    if "bulk" not in words:
        return _cp_async(bound)
    if "commit_group" in words:
        return _group(bound, "bulk_commit")
    if "wait_group" in words:
        return _group(bound, "bulk_wait_read" if "read" in words else "bulk_wait")
    if "tensor" in words:
        return _tensor_in(bound) if "mbarrier::complete_tx::bytes" in words else _tensor_out(bound)
    return _bulk_in(bound) if "mbarrier::complete_tx::bytes" in words else _bulk_out(bound)


# ---------------------------------------------------------------- bulk copies


def map_of(bound: Binding, address: int) -> TensorMap | None:
    """The tensor map at a generic address."""
    launch = bound.cluster.launch
    if space_of(address) == "param":
        return launch.tensor_map(address - WINDOWS["param"])
    made = bound.cluster.maps.get(address)
    if made is not None:
        return made.decoded()
    half = MAP_BYTES // 2
    words = [launch.global_value(address + 8 * number, 8) for number in range(half // 8)]
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return launch.described.get(address)
    return decode(b"".join(word.to_bytes(8, "little") for word in known).ljust(MAP_BYTES, b"\0"))


def _sized(bound: Binding, address: int) -> tuple[TensorMap, int]:
    """A tensor map, and the bytes that it moves."""
    found = map_of(bound, address)
    size = None if found is None else footprints.tensor_bytes(found)
    if found is None or size is None:
        where = (
            f"at offset {address - WINDOWS['param']} of the parameters"
            if space_of(address) == "param"
            else (f"at address {address:#x}")
        )
        raise Undetermined(
            f"{bound.one.name}: the tensor map {where} is not known: give its bytes in the launch file, or its box in "
            "`tensor_maps`",
            bound.reader.source,
        )
    return found, size


def _ranks(bound: Binding, warp: Warp, destination: int, mask: int | None) -> tuple[int, ...]:
    """The CTAs into which a copy is made."""
    if mask is not None:
        found = tuple(rank for rank in range(16) if mask >> rank & 1)
        if not found or found[-1] >= len(bound.cluster.ctas):
            what = f"a multicast to the CTAs of mask {mask:#x}, in a cluster of {len(bound.cluster.ctas)}"
            raise SpecError(what, bound.reader.source)
        return found
    rank = destination >> RANK_SHIFT
    if destination < 0 or rank > len(bound.cluster.ctas):
        raise SpecError(f"{bound.one.name}: {destination:#x} is no address of shared memory", bound.reader.source)
    return (warp.cta.rank if rank == 0 else rank - 1,)


def _land(bound: Binding, copied: CopiedIn) -> None:
    """The bytes of a copy, in the run that is made: at once."""
    for at in copied.barriers:
        do(bound, at, op.Transaction("", -copied.size))
    for rank in copied.ranks:
        memory = bound.cluster.ctas[rank].memory
        if memory.bytes:
            for start, stop in copied.ranges or ():
                memory.forget(start, stop - start)


def _barriers(
    bound: Binding, warp: Warp, ranks: tuple[int, ...], address: int, multicast: bool
) -> tuple[BarrierAt, ...]:
    """What a copy signals: with multicast, the same offset in each CTA."""
    at = bound.barrier(warp, address)
    return tuple(BarrierAt(rank, at.address) for rank in ranks) if multicast else (at,)


def _mask(bound: Binding, operands: list[Operand]) -> Getter | None:
    return bound.reader.get(operands.pop(0), 16) if bound.has("multicast::cluster") else None


def _tensor_in(bound: Binding) -> Handler:
    one = bound.one
    into, source, signal = one.operands[:3]
    assert isinstance(source, AddressOperand)
    rest = [operand for operand in one.operands[3:] if not isinstance(operand, Vector)]
    mask = _mask(bound, rest)
    destination, barrier = bound.reader.shared(into), bound.reader.shared(signal)
    map = bound.reader.get(source.address, 64)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(
            lanes,
            (destination(fragment), "the destination"),
            (map(fragment), "the tensor map"),
            (barrier(fragment), "the barrier"),
            (0 if mask is None else mask(fragment), "the mask"),
        )
        for (where, described, signalled, chosen), some in found:
            tensor, size = _sized(bound, described)
            ranks = _ranks(bound, warp, where, None if mask is None else chosen)
            ranges = footprints.tensor_box(tensor, where & OFFSET)
            barriers = _barriers(bound, warp, ranks, signalled, mask is not None)
            copied = CopiedIn(ranks, ranges, barriers, size, (), described, where & OFFSET)
            for index in some:
                _land(bound, copied)
                bound.note(warp, fragment, [index], copied)
        return True

    return run


def _tensor_out(bound: Binding) -> Handler:
    one = bound.one
    target, source = one.operands[:2]
    assert isinstance(target, AddressOperand)
    origin, map = bound.reader.shared(source), bound.reader.get(target.address, 64)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (origin(fragment), "the source"), (map(fragment), "the tensor map"))
        for (where, described), some in found:
            tensor, _ = _sized(bound, described)
            bound.note(
                warp,
                fragment,
                some,
                CopiedOut(footprints.tensor_store(tensor, where & OFFSET), described, where & OFFSET),
            )
        return True

    return run


def _bulk_in(bound: Binding) -> Handler:
    """cp.async.bulk into shared memory, from global memory or from the CTA's own."""
    one = bound.one
    into, source, length, signal = one.operands[:4]
    mask = _mask(bound, list(one.operands[4:]))
    destination, barrier = bound.reader.shared(into), bound.reader.shared(signal)
    size = bound.reader.get(length)
    inner = one.modifiers.count("shared::cta") and not bound.has("global")
    origin = bound.reader.shared(source) if inner else None

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(
            lanes,
            (destination(fragment), "the destination"),
            (size(fragment), "the size"),
            (barrier(fragment), "the barrier"),
            (0 if mask is None else mask(fragment), "the mask"),
            (0 if origin is None else origin(fragment), "the source"),
        )
        for (where, bytes, signalled, chosen, begin), some in found:
            ranks = _ranks(bound, warp, where, None if mask is None else chosen)
            ranges = footprints.bulk(where & OFFSET, bytes)
            barriers = _barriers(bound, warp, ranks, signalled, mask is not None)
            read = () if origin is None else footprints.bulk(begin & OFFSET, bytes) or ()
            copied = CopiedIn(ranks, ranges, barriers, bytes, read, 0, where & OFFSET)
            for index in some:
                _land(bound, copied)
                bound.note(warp, fragment, [index], copied)
        return True

    return run


def _bulk_out(bound: Binding) -> Handler:
    one = bound.one
    origin, size = bound.reader.shared(one.operands[1]), bound.reader.get(one.operands[2])

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        for (where, bytes), some in bound.reader.by_value(
            lanes, (origin(fragment), "the source"), (size(fragment), "the size")
        ):
            bound.note(warp, fragment, some, CopiedOut(footprints.bulk(where & OFFSET, bytes), 0, where & OFFSET))
        return True

    return run


def _group(bound: Binding, kind: GroupKind) -> Handler:
    number = bound.one.operands[0] if bound.one.operands else Immediate(0)
    if not isinstance(number, Immediate):
        raise bound.unknown_form()
    what = Grouped(kind, number.value)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, what)
        return True

    return run


# ---------------------------------------------------------------- cp.async, st.async


def _cp_async(bound: Binding) -> Handler:
    words = bound.one.modifiers
    if "commit_group" in words:
        return _group(bound, "cp_commit")
    if "wait_group" in words:
        return _group(bound, "cp_wait")
    if "wait_all" in words:
        return _group(bound, "cp_wait_all")
    if "mbarrier" in words:
        address = bound.reader.shared(bound.one.operands[0])
        noinc = "noinc" in words

        def trigger(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
            for (where,), some in bound.reader.by_value(lanes, (address(fragment), "the barrier")):
                at = bound.barrier(warp, where)
                if noinc:
                    do(bound, at, op.Arrive("", 1), len(some))
                bound.note(warp, fragment, some, Triggered(at, noinc))
            return True

        return trigger
    into, size = bound.reader.shared(bound.one.operands[0]), bound.one.operands[2]
    if not isinstance(size, Immediate):
        raise bound.unknown_form()
    length = size.value

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.known(into(fragment), lanes, "the destination")
        pieces: list[tuple[int, int]] | None = []
        for at in [found] if isinstance(found, int) else found:
            one = footprints.cp_async(at & OFFSET, length)
            pieces = None if pieces is None or one is None else [*pieces, *one]
        ranges = None if pieces is None else footprints.merged(pieces)
        for start, stop in ranges or ():
            warp.cta.memory.forget(start, stop - start)
        bound.note(warp, fragment, lanes, AsyncCopied(ranges))
        return True

    return run


def on_async_store(bound: Binding) -> Handler:
    """st.async and red.async"""
    one = bound.one
    into, barrier = bound.reader.shared(one.operands[0]), bound.reader.shared(one.operands[-1])
    size = footprints.access_bytes(one.modifiers)
    if size is None or not isinstance(one.operands[-1], AddressOperand):
        raise bound.unknown_form()
    length = size

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (into(fragment), "the destination"), (barrier(fragment), "the barrier"))
        for (where, signalled), some in found:
            (rank,) = _ranks(bound, warp, where, None)
            at = bound.barrier(warp, signalled)
            ranges = footprints.accessed([where & OFFSET], length)
            bound.cluster.ctas[rank].memory.forget(where & OFFSET, length)
            for index in some:
                do(bound, at, op.Transaction("", -length))
                bound.note(warp, fragment, [index], StoredAsync(rank, ranges, at, length, one.opcode == "red"))
        return True

    return run


# ---------------------------------------------------------------- fences


def on_fence(bound: Binding) -> Handler:
    """fence and membar"""
    words = bound.one.modifiers
    scope: Scope = next((word for word in words if word in get_args(Scope)), "gpu")  # type: ignore[assignment]
    if "mbarrier_init" in words:
        return _noting(bound, Fenced("mbarrier_init"))
    if bound.one.opcode == "membar":
        wide: Scope = {"cta": "cta", "gl": "gpu", "sys": "sys"}.get(words[0], "gpu")  # type: ignore[assignment]
        return _noting(bound, MemoryFenced("sc", wide)) if words[0] != "proxy" else _proxy(bound)
    if words[:1] == ("proxy",):
        return _proxy(bound)
    kind: Literal["acq_rel", "sc"] = "sc" if "sc" in words else "acq_rel"
    return _noting(bound, MemoryFenced(kind, scope))


def _proxy(bound: Binding) -> Handler:
    words = bound.one.modifiers
    if any(word.startswith("tensormap") for word in words):
        if "release" in words:
            return _noting(bound, MapFenced("release", _scope(words), 0))
        address = bound.reader.get(bound.one.operands[0], 64)

        def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
            for (where,), some in bound.reader.by_value(lanes, (address(fragment), "the tensor map")):
                bound.note(warp, fragment, some, MapFenced("acquire", _scope(words), where))
            return True

        return run
    if any(word.startswith("async") for word in words):
        only_global = "async.global" in ".".join(words)
        return (lambda warp, fragment, lanes: True) if only_global else _noting(bound, Fenced("proxy_async"))
    return lambda warp, fragment, lanes: True


def _scope(words: tuple[str, ...]) -> Scope:
    return next((word for word in words if word in get_args(Scope)), "gpu")  # type: ignore[return-value]


def _noting(bound: Binding, what: Fenced | MemoryFenced | MapFenced) -> Handler:
    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, what)
        return True

    return run


# ---------------------------------------------------------------- tensor maps that the kernel makes


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
        return True

    return run


def _copy_map(bound: Binding) -> Handler:
    one = bound.one
    into, source = bound.reader.get(one.operands[0], 64), bound.reader.get(one.operands[1], 64)
    scope = _scope(one.modifiers)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (into(fragment), "the target"), (source(fragment), "the source"))
        for (target, origin), some in found:
            made = warp.cta.maps.get(origin & OFFSET) or MadeMap.of_memory(warp.cta.memory, origin & OFFSET)
            bound.cluster.maps[target] = made
            bound.note(warp, fragment, some, MapFenced("release", scope, target))
        return True

    return run


# ---------------------------------------------------------------- wgmma


def on_wgmma(bound: Binding) -> Handler:
    """wgmma.mma_async, its fence, commit and wait"""
    words = bound.one.modifiers
    match words[0]:
        case "fence":
            return _noting(bound, Fenced("wgmma"))
        case "commit_group":
            return _group(bound, "mma_commit")
        case "wait_group":
            return _group(bound, "mma_wait")
        case "mma_async":
            return _mma(bound)
        case _:
            raise bound.unknown_form()


def _mma(bound: Binding) -> Handler:
    one, words = bound.one, bound.one.modifiers
    shape = next((word for word in words if word.startswith("m64n")), "")
    kinds = [word for word in words if word in footprints.OPERANDS]
    types = (kinds[-2], kinds[-1]) if len(kinds) > 1 else (kinds[-1], kinds[-1]) if kinds else ("", "")
    a, b = one.operands[1:3]
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
