"""What is asked of an engine, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypedDict

from sm90_verify.engines.effort import Effort
from sm90_verify.result import PROPERTIES, VIOLATED, Finding
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.properties import NOTED
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.effects import effects_of

if TYPE_CHECKING:
    from sm90_verify.spec.model.kernel import Kernel
    from sm90_verify.spec.model.machine import Action, Machine


@dataclass(frozen=True)
class Subject:
    """What a question is about: a kernel, whose Machine is made once for all engines, or a Machine alone.

    tick: called while it is made. hands_on: whether in a kernel somebody relies on what others have told it where they
    met and released nothing, so that the Machine has to follow what is before what (default: as if nobody did).
    """

    kernel: Kernel | None = None
    compiled: Machine | None = None
    tick: Tick = unheard
    hands_on: Callable[[Kernel], bool] | None = None

    @cached_property
    def machine(self) -> Machine:
        """The Machine, compiled when it is asked for."""
        from sm90_verify.spec.model.compile import compile_kernel

        if self.compiled is None and self.follows:
            return compile_kernel(self.whole, self.tick, ordered=True)
        return self.plain

    @cached_property
    def plain(self) -> Machine:
        """The same as if nobody relied on what is not handed on: what it violates is violated."""
        from sm90_verify.spec.model.compile import compile_kernel

        return self.compiled or compile_kernel(self.whole, self.tick)

    @cached_property
    def follows(self) -> bool:
        """The Machine has to follow what is before what because of that."""
        return self.hands_on is not None and self.hands_on(self.whole)

    @property
    def whole(self) -> Kernel:
        """The kernel; an engine that needs it is asked only about one."""
        assert self.kernel is not None, "an engine that reads programs was asked about a Machine alone"
        return self.kernel

    @property
    def noted(self) -> tuple[str, ...]:
        """The properties whose violation is no more than a note: those of NOTED, unless the kernel is strict."""
        return () if self.kernel is None or self.kernel.rules.strict else NOTED

    def allowing(self, barriers: Iterable[str]) -> Subject:
        """The same kernel, in which an arrival on one of these barriers is no violation of unobserved-phase."""
        return replace(self, kernel=self.whole.allowing(barriers), compiled=None, tick=unheard)

    @cached_property
    def lenient(self) -> Subject:
        """The same kernel, in which nothing violates what is only noted."""
        return replace(self, kernel=self.whole.allowing(), compiled=None, tick=unheard)

    def signalled_like(self, action: Action) -> tuple[str, ...]:
        """The barriers that an action's operation is on, and all others of the same arrays in the same CTAs. An arrival
        that follows cp.asyncs is of no role.
        """
        names, regions = {action.object}, self.whole.layout.regions
        for program in (one for one in self.whole.programs if one.name == action.role):
            names = {signal.barrier for signal in effects_of(program.nodes[action.location or 0].operation).signals}
        arrays = {(one.declaration, one.cta) for one in regions if one.object in names}
        return tuple(one.object for one in regions if (one.declaration, one.cta) in arrays)

    @property
    def name(self) -> str:
        return self.machine.name if self.kernel is None else self.kernel.name

    @property
    def parameters(self) -> dict[str, Any]:
        return self.machine.parameters if self.kernel is None else dict(self.kernel.parameters)


class Question(NamedTuple):
    """Which of the properties does the subject violate?

    properties: those that are asked for; none: all that the subject could violate. limit: states; timeout: seconds;
    memory: bytes (0: no bound, or the engine's own). reduced: leave out schedules that nobody can tell apart, first.
    together: other engines are asked the same, all of them about the properties of the Machine. covered: a complete
    search has proved everything that is asked, so it is known which actions can be taken. spent: what of timeout and
    memory has been spent before it was asked. shorter: what a schedule of order does without is to be left out.
    """

    subject: Subject
    properties: tuple[str, ...] = ()
    limit: int = 0
    timeout: float = 0.0
    memory: int = 0
    reduced: bool = True
    together: bool = False
    covered: bool = False
    spent: Effort | None = None
    shorter: bool = False

    @property
    def effort(self) -> Effort:
        """What the answer may cost from now on."""
        return self.spent or Effort(self.timeout, self.memory)

    def asked(self, possible: Sequence[str] | None = None) -> tuple[str, ...]:
        """The properties to decide, in the order of PROPERTIES, of those that are possible (those of the Machine).

        Raises SpecError if none is left.
        """
        possible = self.subject.machine.properties if possible is None else possible
        applies = tuple(property for property in PROPERTIES if property in possible)
        chosen = tuple(one for one in applies if one in self.properties) if self.properties else applies
        if not chosen:
            name = self.subject.name
            raise SpecError(f"nothing to check: {', '.join(self.properties)} cannot be violated by {name}")
        return chosen


class Answer(NamedTuple):
    """What an engine says: a finding for every property that is asked. Where one that is only noted is violated, the
    others hold all the same: they do not rely on it. because: why it is this engine that answers.

    states, transitions: of the Machine that were visited; events: operations and copies that were looked at. reduced:
    schedules were left out; shortest: no schedule that shows a violation is shorter than its trace (None: the engine
    does not say).
    """

    engine: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    states: int = 0
    transitions: int = 0
    events: int = 0
    reduced: bool | None = None
    shortest: bool | None = None
    because: str = ""


Bound = Literal["limit", "timeout", "memory", "reduced"]
"""What a question says about the way to its answer: a bound on states, seconds or bytes, and reduced=False."""


class Bounds(TypedDict, total=False):
    """Those of a question that it does not leave at their defaults, as keywords."""

    limit: int
    timeout: float
    memory: int
    reduced: bool


class Engine(Protocol):
    """A way to decide. needs: what it reads of the subject, the programs of a kernel or any Machine. heeds: which
    bounds of a question mean anything to it.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Literal["programs", "machine"]: ...

    @property
    def heeds(self) -> tuple[Bound, ...]: ...

    def answer(self, question: Question) -> Answer:
        """Decides every property that is asked; undetermined is always an answer."""
        ...


def apart(question: Question, answer: Callable[[Question], Answer]) -> Answer:
    """What `answer` says; where something that is only noted is violated, the rest is asked again about a kernel in
    which it is not, so that nothing rests on it.
    """
    first = answer(question)
    noted = {one.id: one for one in first.findings if one.id in question.subject.noted and one.verdict == VIOLATED}
    others = tuple(one.id for one in first.findings if one.id not in noted)
    if not noted or not others:
        return first
    rest = answer(question._replace(subject=question.subject.lenient, properties=others))
    found = {**noted, **{one.id: one for one in rest.findings}}
    return rest._replace(findings=tuple(found[one.id] for one in first.findings))
