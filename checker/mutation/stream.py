"""A pipeline whose roles' operations pass through a filter: dropped, doubled, moved or replaced, at chosen places.

The filter is a generator around the role's own, so that tracing, search and proofs see just another pipeline. All that
it remembers between two operations is one list, a number and the operations that it holds back: closing a loop without
end compares it like any other local variable.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body
from sm90_verify.spec.language.instances import roles_of
from sm90_verify.spec.language.pipeline import Pipeline, one_iteration_each
from sm90_verify.spec.language.snapshot import Plumbing
from sm90_verify.spec.language.state import Count
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of

Place: TypeAlias = tuple[tuple[str, int], ...]
"""Where a role yields: (file, line) of its own frame and of each `yield from` below it."""
Rewrite: TypeAlias = Callable[[op.Operation], tuple[op.Operation, ...]]
"""What is done in place of an operation."""
AnswerChange: TypeAlias = Callable[[op.Operation, Hashable], Hashable]
"""What the role is told; the second argument is the answer to the last operation done in its place, or None."""
SWAP, POSTPONE = "swap", "postpone"


@dataclass(frozen=True)
class When:
    """At which executions of its place an edit applies. `after` counts them, within finitely many numbers."""

    text: str
    active: Callable[[int], bool]
    after: Callable[[int], int]


def always() -> When:
    return When("", lambda count: True, lambda count: 0)


def later(laps: int) -> When:
    return When(f"from execution {laps} on", lambda count: count >= laps, lambda count: min(count + 1, laps))


def once(number: int) -> When:
    text = "only the first time" if number == 0 else f"only in execution {number}"
    return When(text, lambda count: count == number, lambda count: min(count + 1, number + 1))


def every(period: int) -> When:
    text = f"in execution {period - 1} of every {period}"
    return When(text, lambda count: count == period - 1, lambda count: (count + 1) % period)


@dataclass(frozen=True)
class Edit:
    """What happens to the operations of a role.

    places: where; None for everywhere. roles: the names of the role's instances that it applies to, all if empty.
    moves: "swap" does the operation after the next one, "postpone" when its place is executed again or the role ends.
    """

    role: str
    places: frozenset[Place] | None
    rewrite: Rewrite | None = None
    answer: AnswerChange | None = None
    moves: str = ""
    when: When = field(default_factory=always)
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoopEdit:
    """The loop that a role asks for at a line runs `more` iterations more (1) or less (-1) than the other roles'."""

    role: str
    line: tuple[str, int]
    more: int
    roles: tuple[str, ...] = ()


@dataclass(frozen=True)
class InitEdit:
    """Barriers that are initialised before the roles start, with other counts."""

    arrivals: tuple[tuple[str, int], ...]


AnyEdit: TypeAlias = Edit | LoopEdit | InitEdit


@dataclass
class Sites:
    """Where a pipeline can be edited, what its roles did there, and their loops: filled in while it is traced without
    edits.
    """

    operations: dict[tuple[str, Place], dict[str, list[op.Operation]]] = field(default_factory=dict)
    """By role and place, by name of the instance."""
    loops: dict[tuple[str, tuple[str, int]], dict[str, None]] = field(default_factory=dict)


def edited(
    kernel: type[Pipeline], edit: AnyEdit | tuple[Edit, ...] | None, sites: Sites | None = None
) -> type[Pipeline]:
    """The pipeline class with one edit, or with one of each of several roles; None changes nothing, and what the roles
    do can be recorded.
    """
    roles = {
        name: replace(declaration, body=_Stream(name, declaration.body, edit, sites))
        for name, declaration in roles_of(kernel).items()
    }
    return type(kernel.__name__, (_Edited, kernel), {**roles, "_edit": edit, "_sites": sites})


class _Now(Plumbing):
    """The role that is running and its instance, and the loops that are edited, by instance and line."""

    def __init__(self) -> None:
        self.running = ("", "")
        self.loops: dict[tuple[str, tuple[str, int]], _Loop] = {}


class _Edited(Pipeline):
    """What an edited pipeline does differently besides its roles."""

    _edit: AnyEdit | tuple[Edit, ...] | None
    _sites: Sites | None

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._now = _Now()
        if isinstance(self._edit, InitEdit):
            self.layout = self.layout._replace(arrivals={**self.layout.arrivals, **dict(self._edit.arrivals)})

    def created(self, operation: op.Operation) -> op.Operation:
        """An operation that is held back is not yielded at once, and one that is dropped never."""
        return operation

    def loop(self, trips: int | str | None = None, **options: Any) -> Iterator[Any]:
        original = super().loop(trips, **options)
        role, instance = self._now.running
        caller = sys._getframe(1)
        line = (caller.f_code.co_filename, caller.f_lineno)
        if self._sites is not None:
            self._sites.loops.setdefault((role, line), {})[instance] = None
        edit = self._edit
        if not isinstance(edit, LoopEdit) or (edit.role, edit.line) != (role, line):
            return original
        if edit.roles and instance not in edit.roles:
            return original
        loop = self._now.loops.setdefault((instance, line), _Loop())
        loop.begin(original, edit.more)
        return loop


class _Loop(Plumbing):
    """An iterator with one item more or less."""

    last: Any = -1

    def begin(self, original: Iterator[Any], more: int) -> None:
        self.original, self.more = original, more

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> Any:
        if self.more < 0:
            self.more = 0
            next(self.original)
        try:
            self.last = next(self.original)
        except StopIteration:
            if self.more <= 0:
                raise
            self.more, last, self.original = 0, self.last, iter(())
            return Count(last.value + 1, last.period, last.observer) if isinstance(last, Count) else last + 1
        return self.last


class _Driver(Plumbing):
    """The role's own generator, its next operation, and the answer for it."""

    generator: Any
    operation: op.Operation | None
    answer: Any

    def __call__(self) -> op.Operation | None:
        """Goes on to the next operation; None at the end.

        The star keeps CPython from specialising the call after some laps, which would move the frame's instruction and
        so keep a loop from closing.
        """
        try:
            self.operation = self.generator.send(*(self.answer,))
        except StopIteration:
            self.operation = None
        return self.operation

    def place(self) -> Place:
        found = []
        generator = self.generator
        while generator is not None:
            frame = getattr(generator, "gi_frame", None)
            if frame is not None:
                found.append((frame.f_code.co_filename, frame.f_lineno))
            generator = getattr(generator, "gi_yieldfrom", None)
        return tuple(found)


class _Stream(Plumbing):
    """A role's body with the filter around it."""

    def __init__(
        self, name: str, body: Callable[..., Body], edit: AnyEdit | tuple[Edit, ...] | None, sites: Sites | None
    ) -> None:
        self.name, self.body, self.sites = name, body, sites
        edits = edit if isinstance(edit, tuple) else (edit,)
        self.edit = next((one for one in edits if isinstance(one, Edit) and one.role == name), None)
        self.drivers: dict[str, _Driver] = {}
        self.__name__ = name
        self.__code__ = body.__code__

    def __call__(self, pipeline: Any, me: Threads) -> Body:
        names = self.body.__code__.co_varnames[1 : self.body.__code__.co_argcount]
        extra = {"me": me} if "me" in names else {}
        pipeline._now.running = (self.name, me.name)
        drive = self.drivers.setdefault(me.name, _Driver())
        memory: list[Any] = [0]
        body = self.body
        drive.generator = one_iteration_each(pipeline, body, extra) if "at" in names else body(pipeline, **extra)
        drive.answer = None
        while True:  # with the call in one place, so that every loop head is reached from there
            if drive() is None:
                break
            drive.answer = yield from self._perform(drive, me, memory)
        for held in memory[1:]:  # noqa: UP028, the answers are not for a list
            yield held

    def _perform(self, drive: _Driver, me: Threads, memory: list[Any]) -> Body:
        """Does what is to be done in place of the operation, and gives the role's answer."""
        operation, edit = drive.operation, self.edit
        assert operation is not None
        if op.unknown(operation):
            raise SpecError(op.unknown(operation))
        place = drive.place()
        if self.sites is not None:
            found = self.sites.operations.setdefault((self.name, place), {})
            found.setdefault(me.name, []).append(operation)
        told = default_answer(operation)
        active = False
        if edit is not None and (edit.places is None or place in edit.places) and me.name in (edit.roles or (me.name,)):
            active = edit.when.active(memory[0])
            memory[0] = edit.when.after(memory[0])
        if active and edit is not None and edit.moves:
            if edit.moves == POSTPONE:
                earlier = memory[1:]
                memory[1:] = [operation]
                for held in earlier:  # noqa: UP028
                    yield held
                return told
            if len(memory) == 1:
                memory.append(operation)
                return told
        if not active or edit is None or edit.moves:
            told = yield operation
        else:
            answer = None
            for part in edit.rewrite(operation) if edit.rewrite is not None else (operation,):
                answer = yield part
            if edit.answer is not None:
                told = edit.answer(operation, answer)
            elif has_answer(operation):
                told = answer if answer is not None else told
        if edit is not None and edit.moves == SWAP and len(memory) > 1:
            yield memory.pop()
        return told


def has_answer(operation: op.Operation) -> bool:
    """Whether the role can go on differently, depending on what it is told."""
    return bool(effects_of(operation).answers)


def default_answer(operation: op.Operation) -> Any:
    """What the role is told when the operation is not done: a token of its own, WaitAgain, or the first of several."""
    effects = effects_of(operation)
    if effects.chooses is not None:
        return effects.chooses.options[0]
    if effects.finds is not None:
        return effects.finds.tags[0]
    if effects.word is not None:
        return 0
    if effects.waits is not None:
        return False if effects.answers else None
    if isinstance(effects.signal, op.Arrive):
        return None if effects.signal.also else op.Token(effects.signal.barrier)
    return None
