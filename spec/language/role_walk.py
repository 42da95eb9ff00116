"""Runs a role's generator once and keeps what it did: a graph of locations, each with one operation.

The generator is ordinary Python and is never told anything about the hardware, so what it does depends only on the
answers that it gets (try_wait, choose, the end of the trip-count loop). Each answer is tried; since a generator
cannot be copied, a branch replays the role from its start with the answers so far (trail.py), up to where it stood
(standing.py).

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

from sm90_verify.spec.errors import SpecError, place_of, placed
from sm90_verify.spec.language.closing import Closing, Moved, StartAgain, further
from sm90_verify.spec.language.course import Course
from sm90_verify.spec.language.declarations import RoleDeclaration
from sm90_verify.spec.language.ghost import Ghost, Unfollowed, answer_of
from sm90_verify.spec.language.joined import joined
from sm90_verify.spec.language.pipeline import Pipeline, started
from sm90_verify.spec.language.places import Watcher, innermost_user_place, user_place
from sm90_verify.spec.language.standing import Branch, Standing
from sm90_verify.spec.language.trail import phase_of
from sm90_verify.spec.language.turns import Turns
from sm90_verify.spec.model.kernel import Node, Threads
from sm90_verify.spec.model.tick import Tick
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.phase import Phase

MAX_LOCATIONS = 50_000


class _Known(BaseException):
    """The role has come to a loop head from which everything has been traced already."""


class RoleWalk:
    """One role instance being traced; it is the `Tracer` that the pipeline's loops and operations report to."""

    def __init__(self, pipeline: Pipeline, declaration: RoleDeclaration, me: Threads, watch: Watcher | None) -> None:
        self.pipeline, self.declaration, self.me, self.watch = pipeline, declaration, me, watch
        self.where = place_of(declaration.body)
        self.takes = list(inspect.signature(declaration.body).parameters)
        self.idle = IDLE
        self.closing = Closing(watch)
        self.course = Course(me.name, self.where, watch, self.closing)
        self.created = self.course.created
        self.nodes: list[Node] = []
        self.holds: list[Held] = []  # by node, what is in flight there: a loop closes where that is the same
        self.todo = [Branch()]

    def trace(self, tick: Tick) -> tuple[Node, ...]:
        """The program; a role can be traced again, once its numbers are looked at more closely."""
        self.course.tick = tick
        self.nodes, self.holds, self.todo = [], [], [Branch()]
        self.closing.places.clear()
        try:
            while self.todo:
                self._run(self.todo.pop(0))
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
            self.course.over = again
            raise

    # -- one run of the generator

    def _run(self, branch: Branch) -> None:
        """Runs the role with its answers, then with the first answer to every further question, until it is known."""
        self.replay, self.last, self.standing = branch
        self.looks = self.standing is None
        self.waited: list[Phase] = []
        self.given: list[Hashable] = []
        self.told: list[Hashable] = []  # of these, all but those of the heads of loops
        self.held, self.ghost = self.idle, Ghost(self.closing.skipping, self.closing.phases)
        self.tokens: dict[str, op.Token] = {}
        self.pending_heads: list[tuple[Hashable, Moved]] = []
        self.moved: Moved = dict(self.ghost.moved)  # up to the last node
        self.past_head = False
        self.turns = Turns()
        self.edge: Hashable = None
        self.idle_heads = self.loops = 0
        self.ended: dict[str, None] = {}
        object.__setattr__(self.pipeline, "_tracer", self)
        object.__setattr__(self.pipeline, "_cta", self.me.number)
        object.__setattr__(self.pipeline, "_program", self.me.name)
        self.closing.begin()
        if self.watch is not None:
            self.watch.begin()
        generator = started(self.pipeline, self.declaration.body, self.takes, self.me, self.where)
        self.course.begin(generator, replaying=bool(self.replay))
        try:
            send = self._go_back_to(self.standing) if self.standing is not None else None
            while (operation := self.course.go_on(send)) is not None:
                send = self._step(operation)
            self._link(Node(None, self.course.source))
        except _Known:
            pass
        except Unfollowed as error:
            raise Unfollowed(f"role {self.me.name}: {error.what}", error.where) from None
        except SpecError as error:
            raise error.at(innermost_user_place(error, self.where)) from error.__cause__
        finally:
            with suppress(Exception, _Known, StartAgain):  # what a role does in a `finally` now is no part of it
                generator.close()
        self.closing.look_again()
        if self.watch is not None:
            self.watch.unchanged(self.where)

    def _go_back_to(self, standing: Standing) -> Any:
        """Takes the operations up to where the role stood, as before and without looking at them; gives its answer."""
        send: Any = None
        while True:
            operation = self.course.go_on(send)
            if operation is None:
                self.course.refuse_other()
            self.idle_heads, answers = 0, self.course.passed.answers
            self._waited(operation)
            if answers and len(self.given) == standing.position:
                self._stand(operation, standing)
                return self._answered(operation, answers)
            send = self._told(operation, answers)

    # -- locations

    def _step(self, operation: op.Operation) -> Any:
        again, answers = self.course.replaying, self.course.passed.answers
        self._waited(operation)
        if answers or self.past_head:
            self._close(operation)
        if again:
            self._repeat()
            if isinstance(operation, op.Wait):
                self.ghost.target(operation)
        else:
            self._take(operation)
        if answers and not again and self.closing.readable:
            self.standing = self._standing()
        return self._answered(operation, answers)

    def _answered(self, operation: op.Operation, answers: tuple[Hashable, ...]) -> Any:
        told = self._told(operation, answers)
        self.ghost.chosen |= bool(answers)
        if not self.course.replaying and self.course.passed.operation is not None:
            self.held = self.held.after(self.course.passed.operation)
            self.course.source = self.course.passed.source
        if isinstance(operation, op.Wait) and told is not False:
            self.ghost.passed(operation)
        return told

    def _told(self, operation: op.Operation, answers: tuple[Hashable, ...]) -> Any:
        """The value of its yield."""
        answer = self._answer(answers) if answers else None
        self.told += [answer] if answers else []
        told = answer_of(operation, answer)
        if isinstance(told, op.Token):
            self.tokens[told.barrier] = told
        return told

    def _waited(self, operation: op.Operation) -> None:
        if self.course.passed.phase is not None and (phase := phase_of(operation)) is not None:
            self.waited.append(phase)

    def _take(self, operation: op.Operation) -> None:
        """An operation that has no place yet."""
        node = Node(operation, self.course.source)
        if isinstance(operation, op.Wait):
            with placed(self.course.source):
                node.skips = self.closing.skips(operation, self.ghost)
                if isinstance(operation.phase, Phase):
                    if not node.skips:
                        self.closing.follow(operation, self.ghost)
                    node.distance = self.ghost.distance(operation)
        if isinstance(operation, op.Wait) and isinstance(operation.phase, op.Token):
            self._must_be_last(operation.barrier, operation.phase)
        if effects_of(self.course.passed.operation).orders == "relaxed" and not self.idle.tracks:
            self.idle = IDLE._replace(tracks=True)
            raise StartAgain
        self._link(node)

    def _standing(self) -> Standing:
        states = tuple((state, state.doubt is self.ghost) for state in self.closing.states)
        return Standing(len(self.given), self.ghost.again({}), states, self.closing.asked, tuple(self.waited))

    def _stand(self, operation: op.Operation, standing: Standing) -> None:
        """The role stands where it did when an answer was put off."""
        self.looks, self.past_head = True, False
        states = self.closing.states_of(self.course.generator, operation, self.course.source, self.tokens)
        lineages = standing.lineages(states, self.waited)
        if lineages is None:
            self.course.refuse_other()
        self.ghost = standing.ghost_of(lineages, states)
        self.closing.asked_again(standing.asked, lineages)
        self._repeat()

    def _close(self, operation: op.Operation) -> None:
        """Ends the run where the role has yielded the operation in a state that it has been in before."""
        self.past_head = False
        key = self.closing.of_suspended(self.course.generator, operation, self.course.source, self.tokens, self.ghost)
        if self.course.replaying or key is None:
            return
        key = (*self.ended, key, self.held)
        known = self.closing.places.get(key)
        if known is None:
            self.pending_heads.append((key, dict(self.ghost.moved)))
            return
        self._found(*known)
        raise _Known

    def _must_be_last(self, barrier: str, token: op.Token) -> None:
        """Only the phase of a role's last arrival is followed."""
        if token is not self.tokens.get(barrier):
            what = f"a wait on {barrier} with the token of an earlier arrival than the last one of this role"
            raise SpecError(f"{what}: wait with the last token, or with a parity", self.course.source)

    def _answer(self, answers: tuple[Hashable, ...]) -> Hashable:
        """The answer to take now; the others are put off to runs of their own."""
        position = len(self.given)
        if position < len(self.replay):
            answer = self.replay[position]
        else:
            answer = answers[0]
            for other in answers[1:]:
                self.todo.append(Branch((*self.given, other), self.last, self.standing))
        self.given.append(answer)
        self.course.answered(answer, replaying=position + 1 < len(self.replay))
        self.edge = answer
        return answer

    def _link(self, node: Node) -> None:
        """Makes the node the successor of the last one, unless this stretch was traced before."""
        self.idle_heads = 0
        if len(self.nodes) >= MAX_LOCATIONS:
            raise SpecError(
                f"role {self.me.name} is still running after {MAX_LOCATIONS} operations: "
                f"write `for _ in self.loop():` for a loop without end{self.closing.why_open}",
                self.course.source,
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

    def _repeat(self) -> None:
        """What is passed again has its place already."""
        self.idle_heads = 0
        self.pending_heads = []
        self.edge, self.held = None, self.holds[self.last]
        self.moved, self.ghost.begun = dict(self.ghost.moved), True

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
        frame = sys._getframe(2)
        try:
            return self.course.aside(lambda: self._head(loop, entry, bounded, iterator, frame))
        except BaseException as error:
            self.course.over = error
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
        if not self.course.replaying and self.watch is not None:
            self.watch.head(iterator, frame, user_place(frame, self.where))
        if self.looks:
            stack = self.closing.of_head(frame, self.tokens, self.ghost)
        if not self.course.replaying:
            key = (loop, entry, bounded, *self.ended, stack, self.held)
            known = self.closing.places.get(key)
            if known is not None:
                self._enter(*known)
                raise _Known
            self.pending_heads.append((key, dict(self.ghost.moved)))
            self.turns.add((loop, entry), stack[0], user_place(frame, self.where), counted=self.closing.counted)
        if not bounded:
            return True
        self.course.source = user_place(frame, self.where)
        self.course.take(None, loop)
        if self.course.replaying:
            self._repeat()
        else:
            self._link(Node(None, self.course.source, loop=loop))
        more = self._answer((True, False))
        if not more:
            self.ended[loop] = None
        return bool(more)
