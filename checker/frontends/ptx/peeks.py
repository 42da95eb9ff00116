"""That a peek decides no more than whether its lanes wait: with either answer they do the same afterwards.

The run that was made has peeks answer no, and so each wait is in it. Another schedule may have them answer yes, and
skip the wait. It does the same otherwise if the answer is used for nothing but branches around waits, in which nothing
else happens and nothing is computed that is used outside; and if what is waited for is what was asked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.events import LaneEvent, Peeked, Waited
from sm90_verify.frontends.ptx.instruction import PtxInstruction
from sm90_verify.frontends.ptx.opcodes import Registers, kind_of, registers_of
from sm90_verify.frontends.ptx.operands import Undetermined

TRIES = ("try_wait", "test_wait")


class Peeks:
    """What the answers of peeks can decide in a kernel. peeks: the instructions that are peeks, by their numbers."""

    def __init__(self, code: Code, peeks: Iterable[int]) -> None:
        self.code, self.peeks = code, tuple(peeks)
        self.instructions = code.function.code
        self.after = _postdominators(code) if self.peeks else {}
        self.around: dict[int, int] = {}
        """By wait that a peek may skip, the peek."""
        self.kept: dict[int, Registers] = {}
        """By instruction that is followed, what it reads and writes."""
        if self.peeks:
            followed = (number for number in range(len(self.instructions)) if code.sliced.kept[number])
            self.kept = {number: registers_of(self.instructions[number]) for number in followed}
        self.firsts = [block.first for block in code.blocks]
        for peek in self.peeks:
            self._follow(peek)

    def check(self, events: Sequence[LaneEvent]) -> None:
        """The events of lanes that do the same. Raises Undetermined where what is waited for is not what was asked."""
        asked: dict[int, Peeked] = {}
        for event in events:
            if isinstance(event.what, Peeked):
                asked[event.number] = event.what
            elif isinstance(event.what, Waited) and event.number in self.around:
                peek = asked.get(self.around[event.number])
                if peek is not None and (peek.barrier, peek.parity) != (event.what.barrier, event.what.parity):
                    name, line = self.instructions[event.number].name, self.instructions[self.around[event.number]].line
                    raise Undetermined(
                        f"{name}: whether it is executed depends on line {line}, which asks about another barrier or "
                        "phase: ask about the one that is waited for",
                        self.code.source(event.number),
                    )

    def _follow(self, peek: int) -> None:
        """Everything that the answer of a peek reaches."""
        tainted = set(registers_of(self.instructions[peek]).written)
        while True:
            more = self._spread(peek, tainted)
            if more <= tainted:
                return
            tainted |= more

    def _spread(self, peek: int, tainted: set[int]) -> set[int]:
        found: set[int] = set()
        for number, registers in self.kept.items():
            if tainted.isdisjoint(registers.read):
                continue
            one = self.instructions[number]
            kind = kind_of(one)
            if kind == "value":
                found.update(registers.written)
            elif kind == "branch":
                self._must_surround_waits(peek, number, one)
            elif not self._is_try_of(number):
                raise self._too_much(peek, one)
        return found

    def _is_try_of(self, number: int) -> bool:
        """It is a try itself that the answer guards, as after several tries in a row."""
        one = self.instructions[number]
        return one.opcode == "mbarrier" and one.modifiers[0] in TRIES

    def _too_much(self, peek: int, one: PtxInstruction) -> Undetermined:
        asked = self.instructions[peek]
        what = f"{asked.name}: the answer decides more than whether its lanes wait: line {one.line}, {one.name}"
        return Undetermined(f"{what}: only branches around waits are followed", self.code.source(peek))

    def _must_surround_waits(self, peek: int, number: int, branch: PtxInstruction) -> None:
        """Between the branch and where its ways meet, there are waits and nothing else."""
        blocks = self.code.blocks
        here = next(index for index, block in enumerate(blocks) if block.last == number)
        meets = self.after.get(here, -1)
        inside, todo = set[int](), [self.code.block_at.get(branch.target, -1), blocks[here].next]
        while todo:
            index = todo.pop()
            if index == meets or index in inside:
                continue
            if index < 0 or index == here:
                raise self._too_much(peek, branch)
            inside.add(index)
            todo += _following(self.code, index)
        written: set[int] = set()
        for index in sorted(inside):
            block = blocks[index]
            for at in range(block.first, block.first + block.count):
                one = self.instructions[at]
                if kind_of(one) in ("event", "memory", "exit", "call") and not self._is_idle(peek, at):
                    raise self._too_much(peek, one)
                if self.code.sliced.kept[at]:
                    written.update(registers_of(one).written)
        for at, registers in self.kept.items():
            reads = not written.isdisjoint(registers.read) and self._block_of(at) not in inside
            if reads and self._is_read_afresh(at, written):
                raise self._too_much(peek, self.instructions[at])

    def _is_read_afresh(self, number: int, written: set[int]) -> bool:
        """The instruction reads one of these registers, which nothing outside has written before it."""
        block = self.code.blocks[self._block_of(number)]
        before = set[int]()
        for at in range(block.first, number):
            before.update(registers_of(self.instructions[at]).written)
        return not (written & set(registers_of(self.instructions[number]).read)) <= before

    def _block_of(self, number: int) -> int:
        return bisect_right(self.firsts, number) - 1

    def _is_idle(self, peek: int, number: int) -> bool:
        one = self.instructions[number]
        if one.opcode == "mbarrier" and one.modifiers[0] in TRIES:
            if number not in self.peeks:
                self.around[number] = peek
            return True
        return False


def _following(code: Code, index: int) -> list[int]:
    block = code.blocks[index]
    if block.last < 0:
        return [block.next]
    one = code.function.code[block.last]
    found = [code.block_at.get(target, -1) for target in ((one.target,) if one.opcode == "bra" else one.targets)]
    if one.opcode not in ("bra", "brx"):
        found = [-1]
    return found if one.guard is None else [*found, block.next]


def _postdominators(code: Code) -> dict[int, int]:
    """By block, the first one that every way from it comes to; -1 for the end."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_node(-1)
    for index in range(len(code.blocks)):
        graph.add_edges_from((target, index) for target in _following(code, index))
    return dict(networkx.immediate_dominators(graph, -1))
