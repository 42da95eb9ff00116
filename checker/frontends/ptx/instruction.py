"""PTX as data: instructions, their operands, functions and variables, with the lines that they stand in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Register(NamedTuple):
    """number: which of the function's registers it is; registers of inner scopes have numbers of their own."""

    number: int


class Immediate(NamedTuple):
    """An integer, or the bits of a floating-point number."""

    value: int


class Special(NamedTuple):
    """A special register, such as %tid.x."""

    name: str


class Symbol(NamedTuple):
    """The address of a variable or a parameter, or the name of a label or a function."""

    name: str


class Sum(NamedTuple):
    """`base+offset`."""

    base: Operand
    offset: int


class AddressOperand(NamedTuple):
    """`[address]`; of a tensor copy `[tensormap, {coordinates}]`."""

    address: Operand
    coordinates: tuple[Operand, ...] = ()


class Vector(NamedTuple):
    """`{a, b, …}`"""

    parts: tuple[Operand, ...]


class Negated(NamedTuple):
    """`!p`, or `-r`."""

    operand: Operand


class Pair(NamedTuple):
    """`d|p`"""

    first: Operand
    second: Operand


class Sink(NamedTuple):
    """`_`"""


Operand: TypeAlias = Register | Immediate | Special | Symbol | Sum | AddressOperand | Vector | Negated | Pair | Sink


class Place(NamedTuple):
    """A line of the program that the PTX was made from (.loc); caller: the one into which it was inlined."""

    file: str
    line: int
    caller: Place | None = None

    @property
    def chain(self) -> tuple[Place, ...]:
        """From the line itself to the outermost one."""
        return (self,) if self.caller is None else (self, *self.caller.chain)


class Guard(NamedTuple):
    """`@p` or `@!p`."""

    register: int
    negated: bool


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """opcode: the word before the first full stop; modifiers: the others, `shared::cta` being one. line: of the PTX.
    target: of a branch, the number of an instruction of its function (their number at the end); targets: of brx.idx.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    guard: Guard | None = None
    place: Place | None = None
    target: int = -1
    targets: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """As it is written."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """The last modifier, which is the type where there is one."""
        return self.modifiers[-1] if self.modifiers else ""


class PtxVariable(NamedTuple):
    """space: "shared", "global", "const", "local" or "param". size: bytes, 0 for an `.extern .shared` array of any
    size. address: within the static shared memory of its function, or of all variables of its space in the module.
    initial: what it holds at first, where the PTX gives that in numbers alone.
    """

    name: str
    space: str
    align: int
    size: int
    address: int
    line: int
    initial: bytes | None = None


class Parameter(NamedTuple):
    """offset: in the block of parameters, bytes. type: of one that is a register (.reg); register: its number."""

    name: str
    offset: int
    size: int
    align: int
    type: str = ""
    register: int = -1


@dataclass(frozen=True)
class Function:
    """An .entry or a .func. results: of a .func. types: of each register. attributes: .maxntid and the like."""

    name: str
    line: int
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    types: tuple[str, ...] = ()
    code: tuple[PtxInstruction, ...] = ()
    variables: tuple[PtxVariable, ...] = ()
    attributes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the block of parameters."""
        return max((one.offset + one.size for one in self.parameters), default=0)

    def shape(self, *names: str) -> tuple[int, int, int] | None:
        """Three extents that one of these directives gives."""
        for name in names:
            given = self.attributes.get(name)
            if given:
                x, y, z = (*given, 1, 1)[:3]
                return x, y, z
        return None


@dataclass(frozen=True)
class PtxModule:
    """A file of PTX. version: of the PTX ISA; target: sm_90a and the like."""

    path: str
    version: str
    target: str
    functions: tuple[Function, ...]
    variables: tuple[PtxVariable, ...]

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels."""
        return tuple(one for one in self.functions if one.is_entry)


def registers_in(operand: Operand) -> Iterator[int]:
    """The registers that an operand names."""
    match operand:
        case Register(number):
            yield number
        case Sum(base, _) | Negated(base):
            yield from registers_in(base)
        case AddressOperand(address, coordinates):
            yield from registers_in(address)
            for one in coordinates:
                yield from registers_in(one)
        case Vector(parts):
            for one in parts:
                yield from registers_in(one)
        case Pair(first, second):
            yield from registers_in(first)
            yield from registers_in(second)
        case Immediate() | Special() | Symbol() | Sink():
            return
