"""A function as blocks of code that Python executes: stretches of arithmetic as Python functions, and what stands
between them.

A stretch has two forms. One is for registers that all hold one integer for all lanes, and is straight Python; where
any does not, the other takes the lanes one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sm90_verify.frontends.ptx.accumulators import RegisterTouch, TouchStep, WgmmaRegisters, wgmma_registers
from sm90_verify.frontends.ptx.arithmetic import expressions_of
from sm90_verify.frontends.ptx.bits import FUNCTIONS
from sm90_verify.frontends.ptx.expressions import Expression, NotKnown, Operands, mask
from sm90_verify.frontends.ptx.instruction import Function, PtxInstruction
from sm90_verify.frontends.ptx.opcodes import CARRY, kind_of
from sm90_verify.frontends.ptx.slices import Slice, slice_of
from sm90_verify.frontends.ptx.values import One, Unknown, Value, lane_by_lane, selected
from sm90_verify.spec.errors import Source, SpecError

Registers = list[Value]
Specials = Callable[[str], Value]
Stretch = Callable[[Registers, Specials], None]


@dataclass
class Block:
    """first: the number of its first instruction. steps: stretches, and the numbers of the instructions between them.
    count: its instructions, those that are not kept included. last: the number of the branch or exit that ends it, -1
    where it runs into `next`; next, taken: blocks, -1 for the end.
    """

    first: int
    steps: list[Stretch | int] = field(default_factory=list)
    count: int = 0
    last: int = -1
    next: int = -1


@dataclass
class Code:
    """What is executed. slots: by register of the function, its place among those that are kept. given: by line, what
    is assumed of an instruction whose result is not followed, in words.
    """

    function: Function
    path: str
    blocks: list[Block]
    block_at: Mapping[int, int]
    slots: Mapping[int, int]
    sliced: Slice
    wgmma: WgmmaRegisters
    given: Mapping[int, str] = field(default_factory=dict)

    def source(self, number: int) -> Source:
        """The line of an instruction in the PTX."""
        return Source(self.path, self.function.code[number].line)


def compiled(
    function: Function,
    path: str,
    address: Callable[[str], int | None],
    environment: Mapping[str, Callable[..., Any]],
    sliced: Slice | None = None,
    assume: Mapping[int, int] | None = None,
) -> Code:
    """The code of a function. address: of a variable or a parameter, by its name; environment: functions that
    expressions call and that depend on the launch; sliced: what of it matters, if that is known already. assume: by
    line, the bits that an instruction gives whose result is not followed.
    """
    sliced = sliced or slice_of(function)
    slots = {register: place for place, register in enumerate(sorted({*sliced.needed, CARRY}))}
    starts, wgmma = _starts(function), wgmma_registers(function)
    block_at = {start: number for number, start in enumerate(starts)}
    blocks: list[Block] = []
    compiler = _Compiler(function, path, address, slots, environment, assume or {})
    for number, start in enumerate(starts):
        stop = starts[number + 1] if number + 1 < len(starts) else len(function.code)
        blocks.append(_block(function, sliced, wgmma, start, stop, compiler))
        if blocks[-1].last < 0 or function.code[blocks[-1].last].guard is not None:
            blocks[-1].next = number + 1 if number + 1 < len(starts) else -1
    compiler.finish()
    return Code(function, path, blocks, block_at, slots, sliced, wgmma, compiler.given)


def _starts(function: Function) -> list[int]:
    code = function.code
    found = {0}
    for number, one in enumerate(code):
        if kind_of(one) in ("branch", "exit"):
            found.add(number + 1)
            found.update(target for target in (one.target, *one.targets) if target >= 0)
    return sorted(one for one in found if one < len(code))


def _block(
    function: Function, sliced: Slice, wgmma: WgmmaRegisters, start: int, stop: int, compiler: _Compiler
) -> Block:
    block = Block(start, count=stop - start)
    stretch: list[int] = []
    touches: dict[object, RegisterTouch] = {}

    def flush() -> None:
        if stretch:
            block.steps.extend(compiler.stretches(tuple(stretch)))
            stretch.clear()
        if touches:
            block.steps.append(TouchStep(tuple(touches.values())))
            touches.clear()

    for number in range(start, stop):
        one = function.code[number]
        kind = kind_of(one)
        if touched := wgmma.touches.get(number):
            followed = touched[0].guard in compiler.slots
            if followed:
                flush()
            for touch in touched:
                touches.setdefault((touch.what, touch.guard, touch.negated), touch)
            if followed:
                flush()
        if kind in ("branch", "exit"):
            flush()
            block.last = number
        elif kind == "value" or (kind == "nothing" and sliced.kept[number]):
            if sliced.kept[number]:
                stretch.append(number)
        elif kind != "nothing":
            flush()
            block.steps.append(number)
    flush()
    return block


class _Compiler:
    """Writes the fast forms as one text, and compiles them together."""

    def __init__(
        self,
        function: Function,
        path: str,
        address: Callable[[str], int | None],
        slots: Mapping[int, int],
        environment: Mapping[str, Callable[..., Any]],
        assume: Mapping[int, int],
    ) -> None:
        self.assume, self.given = assume, dict[int, str]()
        self.function, self.path, self.address, self.slots = function, path, address, slots
        self.names: dict[str, Any] = {**FUNCTIONS, **environment}
        self.text: list[str] = []
        self.waiting: list[_Lazy] = []

    def stretches(self, numbers: tuple[int, ...]) -> list[Stretch]:
        """The stretch, cut where the fast form cannot be used."""
        found: list[Stretch] = []
        fast: list[_Step] = []
        for number in numbers:
            step = self._step(number)
            if step.slow_only:
                if fast:
                    found.append(self._fast(fast))
                    fast = []
                found.append(self._slow([step]))
            else:
                fast.append(step)
        if fast:
            found.append(self._fast(fast))
        return found

    def _step(self, number: int) -> _Step:
        one = self.function.code[number]
        operands = Operands(one, self.function.types, self.address)
        try:
            if kind_of(one) == "nothing":
                raise NotKnown
            found = expressions_of(operands)
        except NotKnown:
            return _Step(one, None, (), f"{one.name} is not known here", number)
        kept = tuple(each for each in found if each.register in self.slots)
        return _Step(one, kept, tuple(operands.specials), "", number)

    def _slow(self, steps: Sequence[_Step]) -> Stretch:
        parts = [self._by_lane(step) for step in steps]

        def run(registers: Registers, specials: Specials) -> None:
            for part in parts:
                part(registers, specials)

        return run

    def _by_lane(self, step: _Step) -> Stretch:
        """One instruction, for registers of any kind."""
        one = step.instruction
        if step.expressions is None:
            where = Source(self.path, one.line)

            def refuse(registers: Registers, specials: Specials) -> None:
                raise SpecError(f"{step.why}, and what it computes matters: a newer version may know it", where)

            return refuse
        lines = []
        for each in step.expressions:
            names = [f"r{register}" if register != CARRY else "rc" for register in each.reads]
            names += [f"s{number}" for number in range(len(step.specials))]
            lines.append(None if each.text is None else f"lambda {', '.join(names)}: {each.text}")
        functions = [None if line is None else eval(line, self.names) for line in lines]
        unknown: One = Unknown(one.line, f"what {one.name} gives")
        if one.line in self.assume and None in functions:
            unknown = self.assume[one.line] & mask(self.function.types[step.expressions[0].register])
            self.given[one.line] = f"{one.name} gives {unknown}"
        slots, guard = self.slots, one.guard
        plan = [
            (slots[each.register], function, tuple(slots[register] for register in each.reads))
            for each, function in zip(step.expressions, functions, strict=True)
        ]

        def run(registers: Registers, specials: Specials) -> None:
            more = tuple(specials(name) for name in step.specials)
            found = [
                (into, unknown if function is None else lane_by_lane(function, *(registers[r] for r in reads), *more))
                for into, function, reads in plan
            ]
            if guard is not None:
                predicate = registers[slots[guard.register]]
            for into, value in found:
                if guard is not None:
                    yes, no = (registers[into], value) if guard.negated else (value, registers[into])
                    value = selected(predicate, yes, no)
                registers[into] = value

        return run

    def _fast(self, steps: Sequence[_Step]) -> Stretch:
        """The fast form, which falls back on the other."""
        name = f"stretch{len(self.waiting)}"
        self.text.append(_fast_text(name, steps, self.slots))
        lazy = _Lazy(name, self._slow(steps))
        self.waiting.append(lazy)
        return lazy

    def finish(self) -> None:
        """Compiles what was written."""
        exec("\n".join(self.text), self.names)
        for one in self.waiting:
            one.fast = self.names[one.name]


class _Lazy:
    """A stretch of which the fast form is compiled later."""

    __slots__ = ("fast", "name", "slow")

    def __init__(self, name: str, slow: Stretch) -> None:
        self.name, self.slow = name, slow
        self.fast: Callable[[Registers], bool] = lambda registers: False

    def __call__(self, registers: Registers, specials: Specials) -> None:
        if not self.fast(registers):
            self.slow(registers, specials)


@dataclass
class _Step:
    """expressions: None if it is not known what the instruction computes; why: a few words for that."""

    instruction: PtxInstruction
    expressions: tuple[Expression, ...] | None
    specials: tuple[str, ...]
    why: str
    number: int

    @property
    def slow_only(self) -> bool:
        if self.expressions is None or self.specials:
            return True
        return any(one.text is None or "parameter(" in one.text for one in self.expressions)


def _fast_text(name: str, steps: Sequence[_Step], slots: Mapping[int, int]) -> str:
    def called(register: int) -> str:
        return "rc" if register == CARRY else f"r{register}"

    inputs: dict[int, None] = {}
    written: dict[int, None] = {}
    body: list[str] = []
    for step in steps:
        one = step.instruction
        assert step.expressions is not None
        reads = [register for each in step.expressions for register in each.reads]
        if one.guard is not None:
            reads = [one.guard.register, *reads, *(each.register for each in step.expressions)]
        for register in reads:
            if register not in written:
                inputs[register] = None
        targets = ", ".join(called(each.register) for each in step.expressions)
        values = ", ".join(str(each.text) for each in step.expressions)
        if not targets:
            continue
        line = f"{targets} = {values}"
        if one.guard is not None:
            line = f"if {'not ' if one.guard.negated else ''}{called(one.guard.register)}: {line}"
        body.append(f"    {line}")
        written.update((each.register, None) for each in step.expressions)
    loads = [f"    {called(register)} = R[{slots[register]}]" for register in inputs]
    checks = " or ".join(f"type({called(register)}) is not int" for register in inputs)
    check = [f"    if {checks}: return False"] if inputs else []
    stores = [f"    R[{slots[register]}] = {called(register)}" for register in written]
    return "\n".join([f"def {name}(R):", *loads, *check, *body, *stores, "    return True"])
