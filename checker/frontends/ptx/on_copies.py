"""Asynchronous copies, their groups and fences, tensor maps and wgmma, executed as far as they synchronise."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.events import (
    BarrierAt,
    CopiedIn,
    CopiedOut,
    LanesCopied,
    StoredAsync,
    Triggered,
)
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import AddressOperand, Immediate, Operand, Vector
from sm90_verify.frontends.ptx.on_fences import group
from sm90_verify.frontends.ptx.on_mbarriers import do
from sm90_verify.frontends.ptx.on_memory import must_be_a_place
from sm90_verify.frontends.ptx.operands import Getter, Indices, Undetermined
from sm90_verify.frontends.ptx.spaces import OFFSET, RANK_SHIFT, WINDOWS, space_of
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, TensorMap, decode
from sm90_verify.frontends.ptx.written_global import took
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT, WARP


def on_cp(bound: Binding) -> Handler:
    """cp.async, cp.async.bulk, cp.reduce.async.bulk"""
    words = bound.one.modifiers
    if "prefetch" in words:
        return lambda warp, fragment, lanes: True
    if "bulk" not in words:
        return _cp_async(bound)
    if "commit_group" in words:
        return group(bound, "bulk_commit")
    if "wait_group" in words:
        return group(bound, "bulk_wait_read" if "read" in words else "bulk_wait")
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
    took(bound, address, half)
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


def _mask(bound: Binding, operands: Sequence[Operand]) -> Getter | None:
    return bound.reader.get(operands[0], 16) if bound.has("multicast::cluster") else None


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
            _must_be_aligned(bound, ("the destination", where), ("the size", bytes), ("the source", begin))
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


def _must_be_aligned(bound: Binding, *given: tuple[str, int]) -> None:
    """cp.async.bulk wants multiples of 16 (PTX ISA 9.7.9.25.4.1)."""
    for what, value in given:
        if value % BULK_ALIGNMENT:
            raise SpecError(
                f"{bound.one.name}: {what} is {value:#x}: it must be a multiple of {BULK_ALIGNMENT} bytes",
                bound.reader.source,
            )


def _bulk_out(bound: Binding) -> Handler:
    one = bound.one
    origin, size = bound.reader.shared(one.operands[1]), bound.reader.get(one.operands[2])

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        for (where, bytes), some in bound.reader.by_value(
            lanes, (origin(fragment), "the source"), (size(fragment), "the size")
        ):
            _must_be_aligned(bound, ("the source", where), ("the size", bytes))
            bound.note(warp, fragment, some, CopiedOut(footprints.bulk(where & OFFSET, bytes), 0, where & OFFSET))
        return True

    return run


# ---------------------------------------------------------------- cp.async, st.async


def _cp_async(bound: Binding) -> Handler:
    words = bound.one.modifiers
    if "commit_group" in words:
        return group(bound, "cp_commit")
    if "wait_group" in words:
        return group(bound, "cp_wait")
    if "wait_all" in words:
        return group(bound, "cp_wait_all")
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
        each_lane = [-1] * WARP
        for place, index in enumerate(lanes):
            at = (found if isinstance(found, int) else found[place]) & OFFSET
            each_lane[fragment.lanes[index]] = at
            warp.cta.memory.forget(at, length)
        bound.note(warp, fragment, lanes, LanesCopied(tuple(each_lane), length))
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
            must_be_a_place(bound, where & OFFSET, length)
            at = bound.barrier(warp, signalled)
            ranges = footprints.accessed([where & OFFSET], length)
            bound.cluster.ctas[rank].memory.forget(where & OFFSET, length)
            for index in some:
                do(bound, at, op.Transaction("", -length))
                bound.note(warp, fragment, [index], StoredAsync(rank, ranges, at, length, one.opcode == "red"))
        return True

    return run
