"""Ordinary accesses, executed: shared and local memory hold what was stored, the rest is what the launch says."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.events import LanesAccessed
from sm90_verify.frontends.ptx.expressions import WIDTHS
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import AddressOperand, Operand, Register
from sm90_verify.frontends.ptx.opcodes import parts_of
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.spaces import OFFSET, RANK_SHIFT, SHARED_BEGINS, WINDOWS, space_of
from sm90_verify.frontends.ptx.state import Assumed, Warp
from sm90_verify.frontends.ptx.stored import Memory as Bytes
from sm90_verify.frontends.ptx.values import One, Unknown, lane, signed
from sm90_verify.frontends.ptx.written_global import took, wrote
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import WARP
from sm90_verify.spec.ptx.memory import Scope

SPACES = ("shared", "local", "param", "const", "global")


def must_be_a_place(bound: Binding, at: int, size: int) -> None:
    """An access of so many bytes of shared memory is at a multiple of them (PTX ISA 6.4.1.1), and at bytes that a
    kernel has.
    """
    if at % size:
        what = f"it accesses {size} bytes: it must be a multiple of {size}"
    elif at < SHARED_BEGINS:
        what = f"shared memory begins at {SHARED_BEGINS:#x}: take the address of a variable"
    else:
        return
    raise SpecError(f"{bound.one.name}: the address is {at:#x} in shared memory, and {what}", bound.reader.source)


def on_access(bound: Binding) -> Handler:
    """ld, st, and atom and red, which are accesses that nobody follows the value of."""
    one, words = bound.one, bound.one.modifiers
    named = next((word for word in words if word.split("::")[0] in SPACES), "")
    match named.split("::")[0]:
        case "global":
            return _global(bound)
        case "shared":
            return _access(bound, lambda address: "shared", 0)
        case "local" | "param" | "const" as space:
            into = parts_of(one.operands[0])
            matters = bound.code.sliced.follows_memory if one.opcode == "st" else bound.wants(*into)
            return _access(bound, lambda address: space, 0) if matters else lambda warp, fragment, lanes: True
        case _:
            return _access(bound, space_of, -1)


def given(bound: Binding, warp: Warp, thread: int) -> One | None:
    """The value that the launch file assumes for an instruction, if it does: the next one for this thread."""
    line = bound.one.line
    for assumption in bound.cluster.launch.assume:
        if assumption.line == line:
            key = (line, warp.cta.rank, warp.number, thread)
            used = bound.cluster.used.get(key, 0)
            bound.cluster.used[key] = used + 1
            if used >= len(assumption.values) and len(assumption.values) > 1:
                return None
            value = assumption.values[min(used, len(assumption.values) - 1)]
            bound.cluster.assumed.setdefault(Assumed(line, f"{bound.one.name} gives {_listed(assumption.values)}"))
            return value
    return None


def _listed(values: tuple[int, ...]) -> str:
    said = ", ".join(map(str, values[:8]))
    return said + (", …" if len(values) > 8 else "")


def _global(bound: Binding) -> Handler:
    """What is read is known only if the launch says so."""
    one = bound.one
    place = next(operand for operand in one.operands if isinstance(operand, AddressOperand))
    address = bound.reader.get(place, 64)

    def stores(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        where = address(fragment) if bound.cluster.launch.memory else 0
        for index in lanes if bound.cluster.launch.memory else ():
            at = lane(where, index)
            if isinstance(at, int):
                wrote(bound, at, size)
        return True

    size = footprints.access_bytes(one.modifiers) or 4
    if one.opcode in ("st", "red"):
        return stores
    into = parts_of(one.operands[0])
    wanted = any(isinstance(part, Register) and part.number in bound.code.slots for part in into)
    each = max(1, size // len(into))
    strong = any(word in ("acquire", "relaxed", "volatile", "mmio") for word in one.modifiers) and one.opcode != "atom"
    unknown = Unknown(one.line, "what others write to global memory" if strong else "what global memory holds", strong)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        if one.opcode == "atom":
            stores(warp, fragment, lanes)
        if not wanted:
            return True
        where = address(fragment)
        for number, part in enumerate(into):
            found: list[One] = []
            for index in lanes:
                value = given(bound, warp, fragment.lanes[index])
                at = lane(where, index)
                if value is None and isinstance(at, int) and one.opcode != "atom" and not strong:
                    value = _described(bound, at + number * each, each)
                found.append(unknown if value is None else _fitted(bound, value, part, each))
            bound.write(fragment, part, lanes, tuple(found))
        return True

    return run


def _described(bound: Binding, at: int, size: int) -> int | None:
    """What the launch says that global memory holds."""
    found = bound.cluster.launch.global_value(at, size)
    if found is not None:
        took(bound, at, size)
    return found


def _fitted(bound: Binding, value: One, part: Operand, size: int) -> One:
    """A value in the width of its register, with a sign if its type has one."""
    if isinstance(value, Unknown):
        return value
    if bound.one.type[:1] == "s" and isinstance(part, Register):
        wide = WIDTHS[bound.code.function.types[part.number]]
        return signed(value & ((1 << 8 * size) - 1), 8 * size) & ((1 << wide) - 1)
    return value & ((1 << 8 * size) - 1)


def _access(bound: Binding, space: Callable[[int], str], window: int) -> Handler:
    one, words = bound.one, bound.one.modifiers
    writes = one.opcode in ("st", "red", "atom")
    place = next(operand for operand in one.operands if isinstance(operand, AddressOperand))
    address = bound.reader.get(place, 64 if window else 32)
    size = footprints.access_bytes(words)
    if size is None:
        raise bound.unknown_form()
    values = parts_of(one.operands[1 if one.opcode == "st" else 0]) if one.opcode in ("st", "ld", "ldu", "atom") else ()
    getters = [bound.reader.get(part, 64) for part in values] if one.opcode == "st" else []
    length = size
    each = size // max(1, len(values)) if one.opcode != "atom" else size
    follows = bound.code.sliced.follows_memory
    atomic = one.opcode in ("atom", "red")
    strong = atomic or any(word in ("relaxed", "acquire", "release", "volatile", "mmio") for word in words)
    scope = next((word for word in words if word in get_args(Scope)), "gpu" if atomic else "sys" if strong else "")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        where = address(fragment)
        by_place: dict[int, list[tuple[int, int]]] = {}
        for index in lanes:
            at = lane(where, index)
            if isinstance(at, Unknown) and not window and space(0) != "shared":
                _lost(warp, fragment, index, at)
                continue
            if isinstance(at, Unknown):
                bound.reader.known(where, lanes, "the address")
            assert isinstance(at, int)
            found = space(at)
            if found != "shared":
                _elsewhere(bound, warp, fragment, index, found, at - (WINDOWS.get(found, 0) if window else 0))
                continue
            at -= WINDOWS["shared"] if window else 0
            rank = at >> RANK_SHIFT
            if rank > len(bound.cluster.ctas):
                raise SpecError(f"{one.name}: {at:#x} is no address of shared memory", bound.reader.source)
            must_be_a_place(bound, at & OFFSET, length)
            by_place.setdefault(warp.cta.rank if rank == 0 else rank - 1, []).append((index, at & OFFSET))
        for rank, some in by_place.items():
            memory = bound.cluster.ctas[rank].memory
            if follows:
                _values(bound, warp, fragment, memory, some)
            each_lane = [-1] * 32
            for index, at in some:
                each_lane[fragment.lanes[index]] = at
            value = _written(fragment, some) if one.opcode == "st" and follows else None
            what = LanesAccessed(rank, tuple(each_lane), size, writes, 0, False, atomic, scope, value)
            bound.note(warp, fragment, [index for index, _ in some], what)
        return True

    def _written(fragment: Fragment, some: list[tuple[int, int]]) -> int | None:
        """The value that all lanes store, if it is one and known."""
        total = 0
        for number, getter in enumerate(getters):
            values = getter(fragment)
            found = {lane(values, index) for index, _ in some}
            value = found.pop()
            if found or not isinstance(value, int):
                return None
            total |= (value & ((1 << 8 * each) - 1)) << 8 * each * number
        return total

    def _values(bound: Binding, warp: Warp, fragment: Fragment, memory: Bytes, some: list[tuple[int, int]]) -> None:
        for index, at in some:
            thread = fragment.lanes[index]
            for number, part in enumerate(values):
                start = at + number * each
                if one.opcode == "st":
                    memory.store(start, each, lane(getters[number](fragment), index))
                else:
                    value = given(bound, warp, thread)
                    if value is None and not atomic:
                        value = memory.load(start, each)
                    unknown = Unknown(one.line, "what shared memory holds" if not atomic else "an atomic operation")
                    fitted = unknown if value is None else _fitted(bound, value, part, each)
                    bound.write(fragment, part, [index], fitted)
            if atomic:
                memory.forget(at, size)

    def _lost(warp: Warp, fragment: Fragment, index: int, at: Unknown) -> None:
        """An access outside shared memory, nobody knows where."""
        if one.opcode == "st":
            memory = warp.local.setdefault(fragment.lanes[index], Bytes())
            for place in tuple(memory.bytes):
                memory.forget(place, 1)
        for part in values if one.opcode != "st" else ():
            bound.write(fragment, part, [index], at.plain())

    def _elsewhere(bound: Binding, warp: Warp, fragment: Fragment, index: int, space: str, at: int) -> None:
        thread = fragment.lanes[index]
        memory = warp.local.setdefault(thread, Bytes())
        if space == "global" and writes:
            wrote(bound, at, length)
        for number, part in enumerate(values):
            start = at + number * each
            if one.opcode == "st":
                if space == "local":
                    memory.store(start, each, lane(getters[number](fragment), index))
                continue
            found: One | None = given(bound, warp, thread)
            if found is None:
                found = _read(bound, memory, space, start, each)
            bound.write(fragment, part, [index], _fitted(bound, found, part, each))

    return run


def _read(bound: Binding, memory: Bytes, space: str, start: int, size: int) -> One:
    """What is outside shared memory."""
    if space == "param":
        return bound.cluster.launch.parameter(start, size, bound.one.line)
    found = memory.load(start, size) if space == "local" else None
    if space == "global":
        found = _described(bound, start, size)
    return Unknown(bound.one.line, f"what {space} memory holds") if found is None else found


def on_matrices(bound: Binding) -> Handler:
    """ldmatrix and stmatrix"""
    one, words = bound.one, bound.one.modifiers
    writes = one.opcode == "stmatrix"
    address = bound.reader.shared(one.operands[0] if writes else one.operands[1])
    count = next((int(word[1:]) for word in words if word in ("x1", "x2", "x4")), 1)
    shape = next((word for word in words if word.startswith("m") and word[1:2].isdigit()), "m8n8")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.known(address(fragment), lanes, "the address")
        addresses = [found] * len(lanes) if isinstance(found, int) else found
        if len(addresses) != WARP or shape != "m8n8" or any(at >> RANK_SHIFT for at in addresses[: 8 * count]):
            raise bound.unknown_form()
        what = LanesAccessed(warp.cta.rank, tuple(addresses), 16, writes, count, "trans" in words)
        if bound.code.sliced.follows_memory and writes:
            for start in addresses[: 8 * count]:
                warp.cta.memory.forget(start, 16)
        bound.note(warp, fragment, lanes, what)
        return True

    return run
