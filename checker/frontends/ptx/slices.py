"""What of a function matters for its synchronisation: a backward slice from branches, guards, and the operands of
whatever synchronises, starts or ends work, or accesses shared memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from sm90_verify.frontends.ptx.instruction import AddressOperand, Function, Operand, PtxInstruction, registers_in
from sm90_verify.frontends.ptx.opcodes import EXITS, is_opaque, kind_of, registers_of

CONDITIONAL = frozenset(("shfl", "vote", "match", "redux", "activemask"))
"""They make lanes meet, and what they compute matters only if somebody reads it."""


class Slice(NamedTuple):
    """By instruction, whether it is kept; by register, whether anybody needs it."""

    kept: tuple[bool, ...]
    needed: frozenset[int]
    follows_memory: bool
    """Some value that was read from shared or local memory is needed."""

    def read_by(self, number: int, one: PtxInstruction) -> frozenset[int]:
        """Registers whose values make a difference to what this instruction of the function does."""
        if not self.kept[number]:
            return frozenset()
        found = set(_for_its_result(one))
        if kind_of(one) not in ("value", "nothing"):
            found.update(_always(one))
        if self.follows_memory and one.opcode == "st" and _is_followed(one):
            found.update(registers_of(one).read)
        return frozenset(found)


def slice_of(function: Function) -> Slice:
    """The instructions whose results can matter. Events, accesses and jumps are kept in any case."""
    code = function.code
    writers: dict[int, list[int]] = defaultdict(list)
    for number, one in enumerate(code):
        for register in registers_of(one).written:
            writers[register].append(number)
    kept, needed = [False] * len(code), set[int]()
    work: list[int] = []
    follows_memory = False
    for number, one in enumerate(code):
        if kind_of(one) not in ("value", "nothing") or one.opcode == "alloca":
            kept[number] = True
            work += _always(one)
    while True:
        while work:
            register = work.pop()
            if register in needed:
                continue
            needed.add(register)
            for number in writers[register]:
                kept[number] = True
                work += _for_its_result(code[number])
        loads = follows_memory or any(
            one.opcode in ("ld", "ldu", "atom") and kept[number] and set(registers_of(one).written) & needed
            for number, one in enumerate(code)
            if kind_of(one) in ("memory", "event") and _is_followed(one)
        )
        loads = loads or any(one.opcode == "tensormap" for one in code)
        if not loads or follows_memory:
            return Slice(tuple(kept), frozenset(needed), follows_memory)
        follows_memory = True
        for one in code:
            if one.opcode == "st" and _is_followed(one):
                work += registers_of(one).read


def everything(function: Function) -> Slice:
    """The slice that leaves nothing out."""
    return Slice((True,) * len(function.code), frozenset(range(len(function.types))), True)


def _is_followed(one: PtxInstruction) -> bool:
    """In shared or local memory, or in either by a generic address."""
    return not any(word.startswith(("global", "param")) for word in one.modifiers)


def _always(one: PtxInstruction) -> Iterable[int]:
    """Registers that matter whatever becomes of its result."""
    if one.guard is not None:
        yield one.guard.register
    if one.opcode in ("bra", *EXITS, "call", "mma", "multimem"):
        return
    yield from _of(operands_that_matter(one))


def operands_that_matter(one: PtxInstruction) -> tuple[Operand, ...]:
    """Of an event or an access, those that say where, how much and with whom."""
    given, words = one.operands, one.modifiers
    if not given:
        return ()
    match one.opcode:
        case "brx":
            return given[:1]
        case "mbarrier":
            return given if isinstance(given[0], AddressOperand) else given[1:]
        case "cp":
            return _of_copy(one)
        case "wgmma":
            return tuple(one for one in given[1:3] if words and words[0] == "mma_async")
        case "shfl" | "redux" | "vote" | "match":
            return given[-1:]
        case "activemask":
            return ()
        case "elect":
            return given[1:]
        case "ld" | "ldu":
            return given[1:2] if not _elsewhere(words) else ()
        case "atom":
            return tuple(one for one in given if isinstance(one, AddressOperand)) if not _elsewhere(words) else ()
        case "st" | "red" if "async" in words:
            return tuple(one for one in given if isinstance(one, AddressOperand))
        case "st" | "red":
            return given[:1] if not _elsewhere(words) else ()
        case "ldmatrix":
            return given[1:2]
        case "stmatrix":
            return given[:1]
        case _:
            return given


def _elsewhere(words: tuple[str, ...]) -> bool:
    """In memory that is not followed, unless somebody needs what is read."""
    return any(word.startswith(("global", "param", "local", "const")) for word in words)


def _of_copy(one: PtxInstruction) -> tuple[Operand, ...]:
    """Not the coordinates, nor the cache policy, nor addresses of global memory."""
    given, words = one.operands, one.modifiers
    if "prefetch" in words:
        return ()
    if "bulk" not in words:
        waits = len(words) < 2 or words[1].startswith(("mbarrier", "wait", "commit"))
        return given if waits else (*given[:1], *given[2:])
    if "tensor" in words:
        return tuple(AddressOperand(part.address) if isinstance(part, AddressOperand) else part for part in given)
    return given


def _for_its_result(one: PtxInstruction) -> Iterable[int]:
    """Registers from which it computes; those of its guard, for what was there before stays otherwise."""
    kind = kind_of(one)
    if kind == "value" and is_opaque(one):
        return () if one.guard is None else (one.guard.register,)
    if kind == "value" or one.opcode in CONDITIONAL or one.opcode in ("ld", "ldu", "atom"):
        return registers_of(one).read
    return ()


def _of(operands: Iterable[Operand]) -> Iterable[int]:
    return (number for operand in operands for number in registers_in(operand))
