"""Which registers each instruction writes and reads, and what kind of instruction it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Operand,
    PtxInstruction,
    Register,
    Vector,
    registers_in,
)

Kind: TypeAlias = Literal["value", "branch", "exit", "call", "event", "memory", "nothing"]
"""value: it only computes; event: it synchronises, or starts or ends work; memory: an ordinary access."""

FLOATING = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "tf32", "f32x2", "e4m3x2", "e5m2x2")
"""Types whose arithmetic is not followed."""

VALUES = frozenset(
    [
        "add",
        "sub",
        "mul",
        "mad",
        "mul24",
        "mad24",
        "addc",
        "subc",
        "madc",
        "sad",
        "div",
        "rem",
        "abs",
        "neg",
        "min",
        "max",
        "popc",
        "clz",
        "bfind",
        "brev",
        "bfe",
        "bfi",
        "fns",
        "dp4a",
        "dp2a",
        "and",
        "or",
        "xor",
        "not",
        "cnot",
        "lop3",
        "shl",
        "shr",
        "shf",
        "prmt",
        "mov",
        "selp",
        "slct",
        "set",
        "setp",
        "cvt",
        "cvta",
        "isspacep",
        "mapa",
        "szext",
        "bmsk",
        "getctarank",
        "fma",
        "rcp",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "lg2",
        "ex2",
        "tanh",
        "copysign",
        "testp",
    ]
)
SILENT = frozenset(
    ["prefetch", "prefetchu", "pmevent", "nanosleep", "createpolicy", "discard", "applypriority", "alloca", "brkpt"]
)
"""Nobody who is verified can notice them; what some of them write is not known."""
EXITS = frozenset(("ret", "exit", "trap"))
_PARAMETERS = (("param",), ("param::entry",))
"""How a load says that it is of a kernel's parameters."""
EVENTS = frozenset(
    [
        "mbarrier",
        "cp",
        "bar",
        "barrier",
        "wgmma",
        "fence",
        "membar",
        "setmaxnreg",
        "tensormap",
        "griddepcontrol",
        "elect",
        "shfl",
        "vote",
        "match",
        "redux",
        "activemask",
        "red",
        "atom",
        "ldmatrix",
        "stmatrix",
        "mma",
        "multimem",
        "st_async",
        "clusterlaunchcontrol",
    ]
)


CARRY = -2
"""The number of the carry flag, as a register."""
_CARRYING = frozenset(("add", "addc", "sub", "subc", "mad", "madc"))
"""Instructions that may write the flag, or read it."""


class Registers(NamedTuple):
    """Those that an instruction writes, and those that it reads, its guard included."""

    written: tuple[int, ...]
    read: tuple[int, ...]


def kind_of(one: PtxInstruction) -> Kind | None:
    """None for an instruction that is not known."""
    if one.opcode in VALUES or (one.opcode in ("ld", "ldu") and one.modifiers[:1] in _PARAMETERS):
        return "value"
    if one.opcode in ("bra", "brx"):
        return "branch"
    if one.opcode in EXITS:
        return "exit"
    if one.opcode == "call":
        return "call"
    if one.opcode in ("st", "red") and "async" in one.modifiers:
        return "event"
    if one.opcode in ("ld", "st", "ldu"):
        return "memory"
    if one.opcode in EVENTS:
        return "event"
    return "nothing" if one.opcode in SILENT else None


def _writes_nothing(one: PtxInstruction) -> bool:
    first = one.modifiers[0] if one.modifiers else ""
    match one.opcode:
        case "mbarrier":
            return first in ("init", "inval", "expect_tx", "complete_tx") or isinstance(one.operands[0], AddressOperand)
        case "wgmma":
            return first != "mma_async"
        case "bar" | "barrier":
            return first != "red" and "red" not in one.modifiers
        case "createpolicy" | "alloca":
            return False
        case _:
            return one.opcode not in _RESULTS


_RESULTS = VALUES | frozenset(
    ["ld", "ldu", "atom", "elect", "shfl", "vote", "match", "redux", "activemask", "ldmatrix", "mma", "multimem"]
)


def registers_of(one: PtxInstruction) -> Registers:
    """What it writes and reads."""
    found = _named(one)
    if one.opcode not in _CARRYING:
        return found
    written = (*found.written, CARRY) if "cc" in one.modifiers else found.written
    return Registers(written, (*found.read, CARRY) if one.opcode.endswith("c") else found.read)


def _named(one: PtxInstruction) -> Registers:
    """Those that its operands name."""
    guard = () if one.guard is None else (one.guard.register,)
    operands = one.operands
    if one.opcode == "call":
        return Registers(_of(operands[:1] if len(operands) > 1 else ()), (*guard, *_of(operands[1:] or operands)))
    if not operands or _writes_nothing(one):
        return Registers((), (*guard, *_of(operands)))
    written = _of(operands[:1])
    read = _of(operands[1:])
    if one.opcode == "wgmma":
        read = (*read, *written)
    return Registers(written, (*guard, *read))


def _of(operands: Iterable[Operand]) -> tuple[int, ...]:
    return tuple(number for operand in operands for number in registers_in(operand))


def address_of(one: PtxInstruction) -> AddressOperand | None:
    """The place that an ordinary access, or an atomic one, is to."""
    return next((operand for operand in one.operands if isinstance(operand, AddressOperand)), None)


def parts_of(operand: Operand) -> tuple[Operand, ...]:
    """Those of a vector, or the operand alone."""
    return operand.parts if isinstance(operand, Vector) else (operand,)


def is_opaque(one: PtxInstruction) -> bool:
    """What it computes is floating-point, and not followed: what it reads does not matter."""
    if one.opcode in ("setp", "set", "selp", "mov", "ld", "ldu", "testp", "slct"):
        return False
    if one.opcode in ("ldmatrix", "mma", "wgmma", "multimem", "createpolicy"):
        return True
    if one.opcode in ("fma", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "copysign"):
        return True
    if one.opcode == "cvt":
        return any(word in FLOATING for word in one.modifiers)
    return one.opcode in VALUES and one.type in FLOATING and one.opcode not in ("and", "or", "xor", "not")


def written_register(operand: Operand) -> int:
    """The register that a destination names, or -1 for a sink."""
    return operand.number if isinstance(operand, Register) else -1
