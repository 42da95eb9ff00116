"""The registers of wgmma that one program has, as accesses; and which touches of them make a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.events import (
    Fenced,
    Grouped,
    LaneEvent,
    Multiplied,
    PeriodMarked,
    RegisterRange,
    RegistersTouched,
    is_of_wgmma,
)
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.layout import Region
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access, Proxy
from sm90_verify.spec.ptx.own_accesses import own_faults

APART = 1 << 32
"""Bytes from the registers of one program to those of the next: more than any has."""


@dataclass
class RegisterFile:
    """program: whose it is. rank: of its CTA; base: the place of its first register. begun: what wgmmas use since the
    last touch, fence, commit or wait: one more that uses the same changes nothing.
    """

    code: Code
    program: str
    rank: int
    base: int
    begun: set[tuple[RegisterRange, RegisterRange | None]] = field(default_factory=set)

    def afresh(self) -> RegisterFile:
        """The same registers, before anything."""
        return RegisterFile(self.code, self.program, self.rank, self.base)

    def _access(self, some: RegisterRange, *, write: bool, asynchronous: bool) -> Access:
        start, stop = self.base + some.start, self.base + some.stop
        proxy: Proxy = "async" if asynchronous else "generic"
        return Access(f"{self.program}.{some.name}", "registers", start, stop, write, proxy, self.rank)

    def touched(self, what: RegistersTouched) -> op.Operation:
        """An ordinary access."""
        self.begun.clear()
        access = self._access(what.registers, write=what.write, asynchronous=False)
        return op.Touch("write" if what.write else "read", (access,), (None,))

    def multiplied(self, number: int, reads: tuple[Access, ...]) -> op.Operation:
        """The wgmma.mma_async of this number, which reads these bytes of shared memory. Raises Undetermined."""
        used = self.code.wgmma.used[number]
        if used is None:
            what = "other wgmmas have a part of its registers, and that is not followed"
            raise Undetermined(f"{self.code.function.code[number].name}: {what}", self.code.source(number))
        key = used.into, used.of_a
        if key in self.begun:
            return op.Touch("mma", reads, (None,) * len(reads))
        self.begun.add(key)
        if used.of_a is not None:
            reads = (*reads, self._access(used.of_a, write=False, asynchronous=True))
        into = self._access(used.into, write=True, asynchronous=True)
        return op.Touch("mma", reads, (None,) * len(reads), into=into)

    def passed(self, what: Fenced | Grouped | PeriodMarked) -> None:
        """A fence, a commit or a wait; or a mark, so that all periods are written alike."""
        if is_of_wgmma(what) or isinstance(what, PeriodMarked):
            self.begun.clear()

    def regions(self) -> Iterator[Region]:
        """Where they lie."""
        for one in self.code.wgmma.sets:
            name = f"{self.program}.{one.name}"
            start, stop = self.base + one.start, self.base + one.stop
            yield Region(name, "registers", start, stop, frozenset(), name, self.rank, self.program)


def touching(events: Sequence[tuple[int, LaneEvent]]) -> Iterator[LaneEvent]:
    """Without the touches that make no difference: all of lanes that execute no wgmma, and of the same registers all
    but the first after each wgmma, fence, commit and wait. A read is as good as a write: neither is ordered with wgmma.
    """
    multiplies = any(isinstance(event.what, Multiplied) for _, event in events)
    known: set[tuple[RegisterRange, bool]] = set()
    for _, event in events:
        what = event.what
        if isinstance(what, RegistersTouched):
            if not multiplies or (what.registers, True) in known or (what.registers, what.sure) in known:
                continue
            known.add((what.registers, what.sure))
        elif is_of_wgmma(what) or isinstance(what, PeriodMarked):
            known.clear()
        yield event


def settled(code: Code, events: Sequence[LaneEvent], written: Callable[[tuple[LaneEvent, ...]], Program]) -> Program:
    """The program of these events. Touches of which it is not known whether they happen are left out if something is
    wrong with its registers anyway. Raises Undetermined if it depends on them whether anything is. written: the program
    of some events.
    """
    program = written(tuple(events))
    doubtful = [event for event in events if _is_doubtful(event)]
    if not doubtful or not _is_faulty(program):
        return program
    without = written(tuple(event for event in events if not _is_doubtful(event)))
    if _is_faulty(without):
        return without
    one = next(
        one
        for one in reversed(doubtful)
        if one is doubtful[0] or _is_faulty(written(tuple(e for e in events if e is one or not _is_doubtful(e))))
    )
    what = f"{code.function.code[one.number].name}: whether it is executed is not known, and it touches registers"
    raise Undetermined(f"{what} of a wgmma: wait for it before, or put wgmma.fence behind", code.source(one.number))


def _is_doubtful(event: LaneEvent) -> bool:
    return isinstance(event.what, RegistersTouched) and not event.what.sure


def _is_faulty(program: Program) -> bool:
    """Something is wrong with registers."""
    return any(
        True
        for node in program.nodes
        for access in effects_of(node.operation).accesses
        if access.space == "registers"
        for _ in own_faults(program.name, access, node.held)
    )
