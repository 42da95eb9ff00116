"""Runs a role's generator once and keeps what it did: a graph of locations, each with one operation.

The generator is ordinary Python and is never told anything about the hardware, so what it does depends only on the
answers that it gets (try_wait, choose, the end of the trip-count loop). Each answer is tried; since a generator
cannot be copied, a branch replays the role from its start with the answers so far.

Why closing a loop is sound: where everything that the rest of the role can depend on (closing.py says what that is) has
been seen before, the role goes on as it did then. A variable that holds anything whose future cannot be read off (an
open file) is refused across a loop without end, and so is a role that changes anything else, or hides the loop: see
watch.py.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Hashable
from contextlib import suppress
from types import FrameType
from typing import Any

from sm90_verify.spec.errors import Source, SpecError, place_of, placed
from sm90_verify.spec.language.closing import Closing, Moved, StartAgain, further
from sm90_verify.spec.language.declarations import RoleDeclaration
from sm90_verify.spec.language.ghost import Ghost, Unfollowed, answer_of
from sm90_verify.spec.language.handles import unyieldable
from sm90_verify.spec.language.joined import joined
from sm90_verify.spec.language.pipeline import Pipeline, started
from sm90_verify.spec.language.places import Watcher, innermost_user_place, next_within, user_place, yielding_place
from sm90_verify.spec.language.snapshot import Frames, always_other
from sm90_verify.spec.model.kernel import Node, Threads
from sm90_verify.spec.model.tick import Tick
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.phase import Phase

MAX_LOCATIONS = 50_000
MAX_STEPS = 500_000
"""Operations of all runs of a role together: each answer of a poll is followed by a run of its own, from the start."""
MAX_TURNS = 2_500
"""Iterations of one loop in a run, all of which differ. Rings of 3, 5, 7 and 8 stages come back after 1,680."""


class _Known(BaseException):
    """The role has come to a loop head from which everything has been traced already."""


class RoleWalk:
    """One role instance being traced; it is the `Tracer` that the pipeline's loops and operations report to."""

    def __init__(self, pipeline: Pipeline, declaration: RoleDeclaration, me: Threads, watch: Watcher | None) -> None:
        self.pipeline, self.declaration, self.me, self.watch = pipeline, declaration, me, watch
        self.where = place_of(declaration.body)
        self.takes = list(inspect.signature(declaration.body).parameters)
        self.over: BaseException | None = None  # why the run is over; the role may have caught it
        self.steps = 0
        self.idle = IDLE
        self.closing = Closing(watch)
        self.nodes: list[Node] = []
        self.holds: list[Held] = []  # by node, what is in flight there: a loop closes where that is the same
        self.todo: list[tuple[tuple[Hashable, ...], int]] = [((), -1)]

    def trace(self, tick: Tick) -> tuple[Node, ...]:
        """The program; a role can be traced again, once its numbers are looked at more closely."""
        self.tick = tick
        self.nodes, self.holds, self.todo = [], [], [((), -1)]
        self.closing.places.clear()
        try:
            while self.todo:
                answers, node = self.todo.pop(0)
                self._run(list(answers), node)
        except StartAgain:
            return self.trace(tick)
        finally:
            object.__setattr__(self.pipeline, "_tracer", None)
            object.__setattr__(self.pipeline, "_cta", 0)
            object.__setattr__(self.pipeline, "_program", "")
        return joined(self.nodes, self.holds)

    def count_used(self) -> None:
        """Called when the number of an iteration is asked for. Until then loops close as if it did not exist."""
        try:
            self.closing.count_used()
        except StartAgain as again:
            self.over = again
            raise

    # -- one run of the generator

    def _run(self, answers: list[Hashable], node: int) -> None:
        """Runs the role with these answers, then with the first answer to every further question, until it is known."""
        self.replay = answers
        self.replaying = bool(answers)
        self.given: list[Hashable] = []
        self.told: list[Hashable] = []  # of these, all but those of the heads of loops
        self.last = node
        self.held, self.ghost = self.idle, Ghost(self.closing.skipping, self.closing.phases)
        self.tokens: dict[str, op.Token] = {}
        self.pending_heads: list[tuple[Hashable, Moved]] = []
        self.moved: Moved = dict(self.ghost.moved)  # up to the last node
        self.past_head = False
        self.turns: dict[Hashable, list[Frames]] = {}
        self.made: list[tuple[op.Operation, Source]] = []
        self.edge: Hashable = None
        self.idle_heads = self.loops = self.cursor = 0
        self.ended: dict[str, None] = {}
        self.source, self.over, self.followed = self.where, None, False
        object.__setattr__(self.pipeline, "_tracer", self)
        object.__setattr__(self.pipeline, "_cta", self.me.number)
        object.__setattr__(self.pipeline, "_program", self.me.name)
        self.closing.begin()
        if self.watch is not None:
            self.watch.begin()
        self.generator = started(self.pipeline, self.declaration.body, self.takes, self.me, self.where)
        send: Any = None
        try:
            while (operation := self._resume(send)) is not None:
                send = self._step(operation)
            if self.replaying:
                self._repeat(None, "")
            self._link(Node(None, self.source))
        except _Known:
            pass
        except Unfollowed as error:
            raise Unfollowed(f"role {self.me.name}: {error.what}", error.where) from None
        except SpecError as error:
            raise error.at(innermost_user_place(error, self.where)) from error.__cause__
        finally:
            with suppress(Exception, _Known, StartAgain):  # what a role does in a `finally` now is no part of it
                self.generator.close()
        self.closing.look_again()
        if self.watch is not None:
            self.watch.unchanged(self.where)

    def _resume(self, send: Any) -> op.Operation | None:
        """The next operation, or None at the end; refuses operations that were made and never yielded."""
        self.made = []
        self.steps += 1
        self.tick("tracing", self.me.name, self.steps, self.source)
        if self.steps > MAX_STEPS:
            raise SpecError(
                f"role {self.me.name} branches on and on, {MAX_STEPS} operations so far: "
                f"write `for _ in self.forever():` for a loop that polls{self._unread()}",
                self.source,
            )
        try:
            operation = next_within(self.generator, send, self.where, None if self.replaying else self.watch)
        finally:
            if self.over is not None:
                raise self.over
        if self.watch is not None:
            self.watch.suspended(self.generator)
        if operation is not None and not self.replaying:
            self.source = yielding_place(self.generator, self.where)
        if inspect.isgenerator(operation):
            raise SpecError("a role yielded a generator: write `yield from` in front of it", self.source)
        if operation is not None and not self.replaying and (wrong := op.unknown(operation)):
            raise SpecError(unyieldable(operation) or wrong, self.source)
        for other, place in self.made:
            if other is not operation:
                raise SpecError("an operation was written but never yielded: put `yield` in front of it", place)
        return operation

    def created(self, operation: op.Operation) -> None:
        self.made.append((operation, self.where if self.replaying else user_place(sys._getframe(2), self.where)))

    # -- locations

    def _step(self, operation: op.Operation) -> Any:
        again, answers = self.replaying, effects_of(operation).answers
        if answers or self.past_head:
            self._close(operation)
        if again:
            self._repeat(operation, "")
            if isinstance(operation, op.Wait):
                self.ghost.target(operation)
        else:
            node = Node(operation, self.source)
            if isinstance(operation, op.Wait):
                with placed(self.source):
                    node.skips = self.closing.skips(operation, self.ghost)
                    if isinstance(operation.phase, Phase):
                        if not node.skips:
                            self.closing.follow(operation, self.ghost)
                        node.distance = self.ghost.distance(operation)
            if isinstance(operation, op.Wait) and isinstance(operation.phase, op.Token):
                self._must_be_last(operation.barrier, operation.phase)
            if effects_of(operation).orders == "relaxed" and not self.idle.tracks:
                self.idle = IDLE._replace(tracks=True)
                raise StartAgain
            self._link(node)
        answer = self._answer(answers) if answers else None
        self.told += [answer] if answers else []
        self.ghost.chosen |= bool(answers)
        if not self.replaying:
            self.held = self.held.after(operation)
            self.source = yielding_place(self.generator, self.where) if again else self.source
        if isinstance(operation, op.Wait) and answer is not False:
            self.ghost.passed(operation)
        told = answer_of(operation, answer)
        if isinstance(told, op.Token):
            self.tokens[told.barrier] = told
        return told

    def _close(self, operation: op.Operation) -> None:
        """Ends the run where the role has yielded the operation in a state that it has been in before."""
        self.past_head = False
        key = self.closing.of_suspended(self.generator, operation, self.source, self.tokens, self.ghost)
        if self.replaying or key is None:
            return
        key = (*self.ended, key, self.held)
        known = self.closing.places.get(key)
        if known is None:
            self.pending_heads.append((key, dict(self.ghost.moved)))
            return
        self._found(*known)
        raise _Known

    def _unread(self) -> str:
        """What kept loops that are not the language's own from being closed."""
        return f"; {self.closing.unread.what}" if self.closing.unread is not None else ""

    def _must_be_last(self, barrier: str, token: op.Token) -> None:
        """Only the phase of a role's last arrival is followed."""
        if token is not self.tokens.get(barrier):
            what = f"a wait on {barrier} with the token of an earlier arrival than the last one of this role"
            raise SpecError(f"{what}: wait with the last token, or with a parity", self.source)

    def _answer(self, answers: tuple[Hashable, ...]) -> Hashable:
        """The answer to take now; the others are put off to runs of their own."""
        position = len(self.given)
        if position < len(self.replay):
            answer = self.replay[position]
        else:
            answer = answers[0]
            for other in answers[1:]:
                self.todo.append(((*self.given, other), self.last))
        self.given.append(answer)
        self.replaying = position + 1 < len(self.replay)
        self.edge = answer
        return answer

    def _link(self, node: Node) -> None:
        """Makes the node the successor of the last one, unless this stretch was traced before."""
        self.idle_heads = 0
        if len(self.nodes) >= MAX_LOCATIONS:
            raise SpecError(
                f"role {self.me.name} is still running after {MAX_LOCATIONS} operations: "
                f"write `for _ in self.loop():` for a loop without end{self._unread()}",
                self.source,
            )
        index = len(self.nodes)
        self.nodes.append(node)
        self.holds.append(self.held)
        self._found(index, {})
        self.pending_heads = []

    def _found(self, index: int, more: Moved) -> None:
        """What was passed since the last node leads to this one, `more` phases on."""
        for key, before in self.pending_heads:
            self.closing.places[key] = index, further(before, self.ghost.moved, more)
        self._enter(index, more)

    def _repeat(self, operation: op.Operation | None, loop: str) -> None:
        """While a run repeats an earlier one it must do the same again."""
        self.idle_heads = 0
        self.pending_heads = []
        if self.edge is not None or self.followed:
            self.cursor = self.nodes[self.cursor].successors[self.edge]
        self.edge, self.followed, self.held = None, True, self.holds[self.cursor]
        self.moved, self.ghost.begun = dict(self.ghost.moved), True
        before = self.nodes[self.cursor]
        if before.operation != operation or before.loop != loop:
            raise SpecError(
                "the role does not do the same when it is run again: let its control flow depend on nothing but its "
                "parameters, local variables and the answers of its yields",
                yielding_place(self.generator, self.where),
            )

    def _enter(self, index: int, more: Moved) -> None:
        if self.last >= 0:
            last = self.nodes[self.last]
            last.successors[self.edge] = index
            if moves := further(self.moved, self.ghost.moved, more):
                last.moves[self.edge] = tuple(moves.items())
        self.last, self.edge = index, None
        self.moved, self.ghost.begun = dict(self.ghost.moved), True

    def entry(self) -> Hashable:
        """How a loop without end is entered: as which one, and after which answers, since what came of them need not
        be in a variable (`for k in range((yield self.choose(...)))`). One that is entered again is another.
        """
        self.loops += 1
        return self.loops, tuple(self.told) if self.watch is not None else ()

    def loop_head(self, loop: str, entry: Hashable, bounded: bool, iterator: object) -> bool:
        """Called by an endless loop before each iteration: whether there is another one."""
        try:
            return self._head(loop, entry, bounded, iterator, sys._getframe(2))
        except BaseException as error:
            self.over = error
            raise

    def _head(self, loop: str, entry: Hashable, bounded: bool, iterator: object, frame: FrameType) -> bool:
        """frame: that which asks the iterator of the loop for the next iteration."""
        self.idle_heads += 1
        if self.idle_heads > 1000:
            what = "a loop without end goes round without any operation: yield one in each iteration"
            raise SpecError(what, user_place(frame, self.where))
        if bounded and loop in self.ended:
            what = f"a second loop over {loop!r}, whose number of iterations is decided already"
            raise SpecError(f"{what}: give it a name of its own, self.loop(name=...)", user_place(frame, self.where))
        self.past_head = True
        if not self.replaying and self.watch is not None:
            self.watch.head(iterator, frame, user_place(frame, self.where))
        stack = self.closing.of_head(frame, self.tokens, self.ghost)
        if not self.replaying:
            key = (loop, entry, bounded, *self.ended, stack, self.held)
            known = self.closing.places.get(key)
            if known is not None:
                self._enter(*known)
                raise _Known
            self.pending_heads.append((key, dict(self.ghost.moved)))
            self._turn((loop, entry), stack[0], user_place(frame, self.where))
        if not bounded:
            return True
        self.source = user_place(frame, self.where)
        if self.replaying:
            self._repeat(None, loop)
        else:
            self._link(Node(None, self.source, loop=loop))
        more = self._answer((True, False))
        if not more:
            self.ended[loop] = None
        return bool(more)

    def _turn(self, loop: Hashable, frames: Frames, place: Source) -> None:
        """Ends a loop that never comes back to where it has been, and says why."""
        before = self.turns.setdefault(loop, [])
        before.append(frames)
        if len(before) < MAX_TURNS or self.closing.counted:  # where the number is used, its period may be any
            return
        what = f"a loop without end that has not come back to where it was in {MAX_TURNS} iterations"
        how = "check one number of iterations (trips=8, --trips 8)"
        if names := always_other(before):
            what = f"{what}: the value of {' and '.join(map(repr, names))} never recurs"
            how = f"use the number that self.loop() gives, or count modulo what matters, or {how}"
        raise SpecError(f"{what}; {how}", place)
