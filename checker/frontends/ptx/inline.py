"""Calls of functions that the module defines, replaced by the bodies of these (PTX ISA 5.4, 7.1 and 9.7.12.4).

Every call has registers of its own. A variable in .param that is passed is called in the body what the caller calls it,
and all of these become registers then (passed.py). Calls of functions that the module does not define stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeGuard, assert_never

from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Function,
    Immediate,
    Negated,
    Operand,
    Pair,
    Parameter,
    Place,
    PtxInstruction,
    PtxModule,
    PtxVariable,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.passed import in_registers
from sm90_verify.spec.errors import Source, SpecError

MOST_INSTRUCTIONS = 1 << 18
"""Of a kernel with its calls inlined."""


def inlined(module: PtxModule, function: Function) -> Function:
    """The kernel without calls of functions that the module defines. Raises SpecError, with the line of the call, where
    functions call themselves or are called in a way that is not followed.
    """
    calls = any(_called(module, one) for one in function.code)
    if not calls and not any(one.space == "param" for one in function.variables):
        return function
    inliner = _Inliner(module)
    inliner.put(function, {}, (function.name,), None)
    whole = replace(
        function, types=tuple(inliner.types), code=tuple(inliner.code), variables=tuple(inliner.variables.values())
    )
    return in_registers(whole, module.path)


def _called(module: PtxModule, one: PtxInstruction) -> Function | None:
    """The function that a call is of, if the module defines it."""
    if one.opcode != "call":
        return None
    name = next((operand.name for operand in one.operands if isinstance(operand, Symbol)), "")
    return next((each for each in module.functions if each.name == name and not each.is_entry), None)


class _Inliner:
    """Writes one function with everything that it calls."""

    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self.types: list[str] = []
        self.code: list[PtxInstruction] = []
        self.variables: dict[str, PtxVariable] = {}
        self.bodies = 0

    def put(self, function: Function, symbols: dict[str, Symbol], stack: tuple[str, ...], site: Place | None) -> None:
        """A body. symbols: by the name of a parameter, what is passed; stack: the functions around it, and itself.
        site: the place of the call.
        """
        called, base = len(stack) > 1, len(self.types)
        self.types += function.types
        if called:
            symbols = {**symbols, **self._named_apart(function)}
        for variable in function.variables:
            name = symbols[variable.name].name if called else variable.name
            self.variables.setdefault(name, variable._replace(name=name))
        rename = _renaming(base, symbols)
        starts: list[int] = []
        jumps: list[int] = []
        returns: list[int] = []
        for one in function.code:
            starts.append(len(self.code))
            inner, here = _called(self.module, one), _moved(one, base, rename, site)
            if inner is not None:
                self._call(inner, here, stack)
                continue
            if one.opcode in ("bra", "brx"):
                jumps.append(len(self.code))
            elif one.opcode == "ret" and called:
                returns.append(len(self.code))
                here = _branch(here)
            self._write(here)
        starts.append(len(self.code))
        for index in jumps:
            one = self.code[index]
            target = starts[one.target] if one.target >= 0 else -1
            self.code[index] = replace(one, target=target, targets=tuple(starts[each] for each in one.targets))
        self._lead_here(returns)

    def _write(self, *some: PtxInstruction) -> None:
        for one in some:
            if len(self.code) >= MOST_INSTRUCTIONS:
                raise self._wrong(one, f"more than {MOST_INSTRUCTIONS} instructions, all calls inlined")
            self.code.append(one)

    def _lead_here(self, branches: Sequence[int]) -> None:
        for index in branches:
            self.code[index] = replace(self.code[index], target=len(self.code))

    def _named_apart(self, function: Function) -> dict[str, Symbol]:
        """The variables of a function that is called: those of shared memory are the same in all calls."""
        self.bodies += 1
        return {
            one.name: Symbol(f"{function.name}.{one.name}" + (f"#{self.bodies}" if _each_call_has(one) else ""))
            for one in function.variables
        }

    def _call(self, called: Function, one: PtxInstruction, stack: tuple[str, ...]) -> None:
        if called.name in stack:
            raise self._wrong(one, f"{called.name} calls itself: functions that do are not followed")
        where = next(index for index, operand in enumerate(one.operands) if isinstance(operand, Symbol))
        left, given = (_listed(one.operands[part]) for part in (slice(0, where), slice(where + 1, where + 2)))
        if (len(left), len(given)) != (len(called.results), len(called.parameters)):
            takes = f"takes {len(called.parameters)} and gives {len(called.results)}"
            raise self._wrong(one, f"{called.name} {takes}: the call gives it {len(given)} and takes {len(left)}")
        if any(operand in given for operand in left if isinstance(operand, Symbol)):
            raise self._wrong(one, f"{called.name} is called with one variable as an argument and as a result")
        over: list[int] = []
        if one.guard is not None:
            over.append(len(self.code))
            self._write(_branch(replace(one, guard=one.guard._replace(negated=not one.guard.negated))))
            one = replace(one, guard=None)
        base = len(self.types)
        symbols: dict[str, Symbol] = {}
        for parameter, operand in zip(called.parameters, given, strict=True):
            self._write(*self._passed(one, parameter, operand, base, symbols))
        after: list[PtxInstruction] = []
        for parameter, operand in zip(called.results, left, strict=True):
            after += self._returned(one, parameter, operand, base, symbols)
        self.put(called, symbols, (*stack, called.name), one.place)
        self._write(*after)
        self._lead_here(over)

    def _passed(
        self, one: PtxInstruction, parameter: Parameter, operand: Operand, base: int, symbols: dict[str, Symbol]
    ) -> list[PtxInstruction]:
        """What gives a parameter its value; one in .param that a variable in .param is passed for is that variable."""
        if parameter.type:
            into = Register(base + parameter.register)
            return [self._read(one, into, operand, parameter.type)]
        if self._is_param(operand):
            symbols[parameter.name] = operand
            return []
        symbols[parameter.name] = self._variable(one, parameter)
        return [_written(one, symbols[parameter.name], operand, f"b{8 * parameter.size}")]

    def _returned(
        self, one: PtxInstruction, parameter: Parameter, operand: Operand, base: int, symbols: dict[str, Symbol]
    ) -> list[PtxInstruction]:
        """What takes a result after the body."""
        if parameter.type:
            value = Register(base + parameter.register)
            if isinstance(operand, Symbol):
                return [_written(one, operand, value, parameter.type)]
            return [_instruction(one, "mov", (parameter.type,), (operand, value))]
        if self._is_param(operand):
            symbols[parameter.name] = operand
            return []
        symbols[parameter.name] = self._variable(one, parameter)
        return [self._read(one, operand, symbols[parameter.name], f"b{8 * parameter.size}")]

    def _is_param(self, operand: Operand) -> TypeGuard[Symbol]:
        found = self.variables.get(operand.name) if isinstance(operand, Symbol) else None
        return found is not None and found.space == "param"

    def _read(self, one: PtxInstruction, into: Operand, operand: Operand, kind: str) -> PtxInstruction:
        """What an argument holds, in a register."""
        if self._is_param(operand):
            return _instruction(one, "ld", ("param", kind), (into, AddressOperand(operand)))
        return _instruction(one, "mov", (kind,), (into, operand))

    def _variable(self, one: PtxInstruction, parameter: Parameter) -> Symbol:
        """For a parameter in .param that something else is passed for."""
        if parameter.size not in (1, 2, 4, 8, 16):
            raise self._wrong(one, f"{parameter.name} has {parameter.size} bytes: pass a variable in .param")
        name = f"{parameter.name}#{len(self.variables)}"
        self.variables[name] = PtxVariable(name, "param", parameter.align, parameter.size, 0, one.line)
        return Symbol(name)

    def _wrong(self, one: PtxInstruction, what: str) -> SpecError:
        return SpecError(what, Source(self.module.path, one.line))


def _each_call_has(one: PtxVariable) -> bool:
    return one.space in ("local", "param")


def _listed(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """What is in the parentheses of a call, if there are any."""
    return next((one.parts for one in operands if isinstance(one, Vector)), ())


def _instruction(
    call: PtxInstruction, opcode: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...]
) -> PtxInstruction:
    return PtxInstruction(opcode, modifiers, operands, call.line, None, call.place)


def _written(call: PtxInstruction, variable: Symbol, value: Operand, kind: str) -> PtxInstruction:
    return _instruction(call, "st", ("param", kind), (AddressOperand(variable), value))


def _branch(one: PtxInstruction) -> PtxInstruction:
    """A jump in place of an instruction, under its guard."""
    return replace(one, opcode="bra", modifiers=(), operands=())


def _moved(one: PtxInstruction, base: int, rename: Callable[[Operand], Operand], site: Place | None) -> PtxInstruction:
    """An instruction of a body, with the names that things have in the whole."""
    return replace(
        one,
        operands=tuple(map(rename, one.operands)),
        guard=one.guard and one.guard._replace(register=one.guard.register + base),
        place=_within(one.place, site),
    )


def _within(place: Place | None, site: Place | None) -> Place | None:
    """A place in a body that was put at another."""
    if place is None or site is None:
        return place or site
    return place._replace(caller=_within(place.caller, site))


def _renaming(base: int, symbols: dict[str, Symbol]) -> Callable[[Operand], Operand]:
    def rename(operand: Operand) -> Operand:
        match operand:
            case Register(number):
                return Register(number + base)
            case Symbol(name):
                return symbols.get(name, operand)
            case Sum(inner, offset):
                return Sum(rename(inner), offset)
            case Negated(inner):
                return Negated(rename(inner))
            case AddressOperand(inner, coordinates):
                return AddressOperand(rename(inner), tuple(map(rename, coordinates)))
            case Vector(parts):
                return Vector(tuple(map(rename, parts)))
            case Pair(first, second):
                return Pair(rename(first), rename(second))
            case Immediate() | Special() | Sink():
                return operand
            case _:
                assert_never(operand)

    return rename
