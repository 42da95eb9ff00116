"""One run of a role after the other: its generator goes on from operation to operation, and must do what it has done
before.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable
from typing import NoReturn

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.closing import Closing
from sm90_verify.spec.language.declarations import Body
from sm90_verify.spec.language.handles import unyieldable
from sm90_verify.spec.language.places import Watcher, next_within, user_place, yielding_place
from sm90_verify.spec.language.trail import Passed, Trail
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx import operations as op

MAX_STEPS = 500_000
"""Operations of all runs of a role together: each answer of a poll is followed by a run of its own, from the start."""

_START = Passed(None, "", Source("", 0), (), None)


class Course:
    """The runs of the role of this name.

    replaying: it repeats an earlier run so far. passed: the step that it has taken last. source: the place of that,
    where it was taken for the first time. over: why the run is over; the role may have caught it.
    """

    def __init__(self, name: str, where: Source, watch: Watcher | None, closing: Closing) -> None:
        self.name, self.where, self.watch, self.closing = name, where, watch, closing
        self.trail = Trail()
        self.tick: Tick = unheard
        self.steps = 0

    def begin(self, generator: Body, *, replaying: bool) -> None:
        """Another run."""
        self.generator, self.replaying = generator, replaying
        self.source, self.passed = self.where, _START
        self.over: BaseException | None = None
        self._made: list[tuple[op.Operation, Source]] = []
        self._again = self._counts = False
        self.trail.begin()

    def go_on(self, send: object) -> op.Operation | None:
        """The next operation, or None at the end; refuses operations that were made and never yielded."""
        if self._made:
            self._made = []
        self.steps += 1
        self.tick("tracing", self.name, self.steps, self.source)
        if self.steps > MAX_STEPS:
            raise SpecError(
                f"role {self.name} branches on and on, {MAX_STEPS} operations so far: "
                f"write `for _ in self.forever():` for a loop that polls{self.closing.why_open}",
                self.source,
            )
        known = self.trail.next
        self._again = known is not None and not known.loop  # what comes after the head of a loop may be new
        self._counts = not self._again and self.watch is not None and sys.gettrace() is None
        try:
            operation = next_within(self.generator, send, self.where, None if self._again else self.watch)
        finally:
            if self.over is not None:
                raise self.over
        if self.watch is not None:
            self.watch.suspended(self.generator)
        if self.trail.next is None:
            self._must_be_operation(operation)
        for other, place in self._made:
            if other is not operation:
                raise SpecError("an operation was written but never yielded: put `yield` in front of it", place)
        self.take(operation, "")
        return operation

    def aside(self, work: Callable[[], bool]) -> bool:
        """Does work of the language's own in the midst of a role, whose lines are counted but for that."""
        if not self._counts:
            return work()
        counting = sys.gettrace()
        sys.settrace(None)
        try:
            return work()
        finally:
            sys.settrace(counting)

    def _must_be_operation(self, operation: op.Operation | None) -> None:
        if operation is None:
            return
        self.source = yielding_place(self.generator, self.where)
        if inspect.isgenerator(operation):
            raise SpecError("a role yielded a generator: write `yield from` in front of it", self.source)
        if wrong := op.unknown(operation):
            raise SpecError(unyieldable(operation) or wrong, self.source)

    def created(self, operation: op.Operation) -> None:
        """A verb has made an operation."""
        self._made.append((operation, self.where if self._again else user_place(sys._getframe(2), self.where)))

    def take(self, operation: op.Operation | None, loop: str) -> None:
        """Takes a step, the head of a loop too; whenever the role is run again, it must do the same again."""
        known = self.trail.next
        if known is None:
            self.passed = self.trail.add(Passed.by(operation, loop, self.source))
            return
        if not known.is_again(operation, loop):
            self.refuse_other()
        self.passed = known
        self.trail.go_on()
        if not self.replaying and operation is not None:
            self.source = known.source

    def answered(self, answer: Hashable, *, replaying: bool) -> None:
        """The step that was taken last got this answer; replaying: and another one will."""
        self.trail.answered(answer)
        self.replaying = replaying

    def refuse_other(self) -> NoReturn:
        """The role has done something else than before."""
        raise SpecError(
            "the role does not do the same when it is run again: let its control flow depend on nothing but its "
            "parameters, local variables and the answers of its yields",
            yielding_place(self.generator, self.where),
        )
