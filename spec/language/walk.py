"""Runs a role's generator once and keeps what it did: a graph of locations, each with one operation.

The generator is ordinary Python and is never told anything about the hardware, so what it does depends only on the
answers that it gets (try_wait, choose, the end of the trip-count loop). Each answer is tried; since a generator
cannot be copied, a branch replays the role from its start with the answers so far.

Why closing a loop is sound: at the head of an endless loop everything that the rest of the role can depend on is in
the local variables of the frames on the stack, in the ghosts kept here, and in which loop it is and after which choices
it was entered, for what was chosen need not be in a variable. If all of that has been seen before, the role goes on as
it did then. A variable that holds anything whose future cannot be read off (an iterator, an open file) is refused, and
so is a role that changes anything else, or hides the loop: see watch.py.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Hashable
from contextlib import suppress
from types import FrameType
from typing import Any

from sm90_verify.spec.errors import Source, SpecError, place_of, place_of_class, placed
from sm90_verify.spec.language.declarations import RoleDeclaration, check_role, is_own
from sm90_verify.spec.language.ghost import Ghost, answer_of
from sm90_verify.spec.language.handles import unyieldable
from sm90_verify.spec.language.pipeline import Pipeline, roles_of, started
from sm90_verify.spec.language.places import Watcher, innermost_user_place, next_within, user_place, yielding_place
from sm90_verify.spec.language.snapshot import Snapshot
from sm90_verify.spec.language.state import LAPS
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.phase import Phase

MAX_LOCATIONS = 50_000
MAX_STEPS = 500_000
"""Operations of all runs of a role together: each answer of a poll is followed by a run of its own, from the start."""


def trace(pipeline: Pipeline, tick: Tick = unheard) -> Kernel:
    """The kernel that a pipeline describes, the programs of its roles in declaration order; raises SpecError for what
    is wrong in every schedule, see spec.model.validate. tick: called at each operation of each run of a role.
    """
    if not isinstance(pipeline, Pipeline):
        raise SpecError(f"a {type(pipeline).__name__} is no pipeline: give trace an instance, such as Ring(stages=2)")
    programs: list[Program] = []
    watch: Watcher | None = None
    if is_own(type(pipeline)):
        from sm90_verify.spec.language.watch import Watch

        watch = Watch(pipeline)
    roles = [(cta, *one) for cta in range(pipeline._shape.size) for one in roles_of(type(pipeline)).items()]
    for cta, name, declaration in roles:
        where = place_of(declaration.body)
        with placed(where):
            copies = pipeline.value(declaration.copies)
            threads = pipeline.value(declaration.threads)
            split = declaration.split or (threads,)
            check_role(name, threads, split, copies, declaration.ctas, pipeline._shape)
        if declaration.ctas is not None and cta not in declaration.ctas:
            continue
        for copy in range(copies):
            label = pipeline._shape.home(cta) + (f"{name}{copy}" if copies > 1 else name)
            for index, part in enumerate(split):
                full = f"{label}.{index}" if len(split) > 1 else label
                walk = _Walk(pipeline, declaration, Threads(full, part, index, copy, cta, sum(split[:index])), watch)
                bare = Program(full, walk.me, walk.trace(tick), label, pipeline._shape.home(cta), where)
                programs.append(annotate(bare, checked=True, tick=tick))
    if not programs:
        what = f"{pipeline.name} has no role: mark a generator method with @role(warps=1)"
        raise SpecError(what, place_of_class(type(pipeline)))
    kernel = Kernel(
        pipeline.name,
        pipeline.parameters(),
        pipeline.layout,
        tuple(programs),
        pipeline.shape,
        Rules(pipeline.strict, met=pipeline.met),
        pipeline.registers,
        max([pipeline.stages, *pipeline.layout.slots.values()]),
    )
    try:
        validate(kernel, annotated=True)
    except SpecError as error:
        raise error.at(place_of_class(type(pipeline))) from None
    return kernel


class _Known(BaseException):
    """The role has come to a loop head from which everything has been traced already."""


class _StartAgain(BaseException):
    """More must be remembered than was: an iteration's number, accesses that nothing has released, a state's laps."""


class _Walk:
    """One role instance being traced; it is the `Tracer` that the pipeline's loops and operations report to."""

    def __init__(self, pipeline: Pipeline, declaration: RoleDeclaration, me: Threads, watch: Watcher | None) -> None:
        self.pipeline, self.declaration, self.me, self.watch = pipeline, declaration, me, watch
        self.where = place_of(declaration.body)
        self.takes = list(inspect.signature(declaration.body).parameters)
        self.over: BaseException | None = None  # why the run is over; the role may have caught it
        self.counted, self.steps = False, 0
        self.idle = IDLE
        self.laps = LAPS  # after so many of its ring a state looks the same again when loops are closed
        self.nodes: list[Node] = []
        self.holds: list[Held] = []  # by node, what is in flight there: a loop closes where that is the same
        self.heads: dict[Hashable, int] = {}
        self.todo: list[tuple[tuple[Hashable, ...], int]] = [((), -1)]

    def trace(self, tick: Tick) -> tuple[Node, ...]:
        self.tick = tick
        try:
            while self.todo:
                answers, node = self.todo.pop(0)
                self._run(list(answers), node)
        except _StartAgain:
            self.nodes, self.holds, self.heads, self.todo = [], [], {}, [((), -1)]
            return self.trace(tick)
        finally:
            object.__setattr__(self.pipeline, "_tracer", None)
            object.__setattr__(self.pipeline, "_cta", 0)
        return tuple(self.nodes)

    def count_used(self) -> None:
        """Called when the number of an iteration is asked for. Until then loops close as if it did not exist."""
        if not self.counted:
            self.counted = True
            again = self.over = _StartAgain()
            raise again

    # -- one run of the generator

    def _run(self, answers: list[Hashable], node: int) -> None:
        """Runs the role with these answers, then with the first answer to every further question, until it is known."""
        self.replay, self.replaying = answers, bool(answers)
        self.given: list[Hashable] = []
        self.chosen: list[Hashable] = []  # of these, the options of choices
        self.last = node
        self.held, self.ghost = self.idle, Ghost()
        self.tokens: dict[str, op.Token] = {}
        self.pending_heads: list[Hashable] = []
        self.made: list[tuple[op.Operation, Source]] = []
        self.edge: Hashable = None
        self.idle_heads = self.loops = self.cursor = 0
        self.ended: dict[str, None] = {}
        self.source, self.over, self.followed = self.where, None, False
        object.__setattr__(self.pipeline, "_tracer", self)
        object.__setattr__(self.pipeline, "_cta", self.me.cta)
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
        except SpecError as error:
            raise error.at(innermost_user_place(error, self.where)) from error.__cause__
        finally:
            with suppress(Exception, _Known, _StartAgain):  # what a role does in a `finally` now is no part of it
                self.generator.close()
        if self.watch is not None:
            self.watch.unchanged(self.where)

    def _resume(self, send: Any) -> op.Operation | None:
        """The next operation, or None at the end; refuses operations that were made and never yielded."""
        self.made, self.steps = [], self.steps + 1
        self.tick("tracing", self.me.name, self.steps, self.source)
        if self.steps > MAX_STEPS:
            raise SpecError(
                f"role {self.me.name} branches on and on, {MAX_STEPS} operations so far: "
                "write `for _ in self.forever():` for a loop that polls",
                self.source,
            )
        try:
            operation = next_within(self.generator, send, self.where, self.watch)
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
        again = self.replaying
        if again:
            self._repeat(operation, "")
            if isinstance(operation, op.Wait):
                self.ghost.target(operation)
        else:
            node = Node(operation, self.source)
            if isinstance(operation, op.Wait) and isinstance(operation.phase, Phase):
                node.distance = self._distance(operation)
            if isinstance(operation, op.Wait) and isinstance(operation.phase, op.Token):
                self._must_be_last(operation.barrier, operation.phase)
            if isinstance(operation, op.ClusterArrive) and not operation.release and not self.idle.tracks:
                self.idle = IDLE._replace(tracks=True)
                raise _StartAgain
            self._link(node)
        answers = effects_of(operation).answers
        answer = self._answer(answers) if answers else None
        self.chosen += [answer] if isinstance(operation, op.Choose) else []
        if not self.replaying:
            self.held = self.held.after(operation)
            self.source = yielding_place(self.generator, self.where) if again else self.source
        if isinstance(operation, op.Wait) and answer is not False:
            self.ghost.passed(operation)
        told = answer_of(operation, answer)
        if isinstance(told, op.Token):
            self.tokens[told.barrier] = told
        return told

    def _must_be_last(self, barrier: str, token: op.Token) -> None:
        """Only the phase of a role's last arrival is followed."""
        if token is not self.tokens.get(barrier):
            what = f"a wait on {barrier} with the token of an earlier arrival than the last one of this role"
            raise SpecError(f"{what}: wait with the last token, or with a parity", self.source)

    def _distance(self, wait: op.Wait) -> int:
        """The distance of a wait. In a loop the first one of a state is known only within the laps that close it."""
        first = bool(self.heads) and self.ghost.is_first(wait)
        with placed(self.source):
            distance = self.ghost.distance(wait)
        if first and distance >= self.laps:
            self.laps *= 2
            raise _StartAgain
        return distance

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
                "write `for _ in self.loop():` for a loop without end",
                self.source,
            )
        index = len(self.nodes)
        self.nodes.append(node)
        self.holds.append(self.held)
        for key in self.pending_heads:
            self.heads[key] = index
        self.pending_heads = []
        self._enter(index)

    def _repeat(self, operation: op.Operation | None, loop: str) -> None:
        """While a run repeats an earlier one it must do the same again."""
        self.idle_heads, self.pending_heads = 0, []
        if self.edge is not None or self.followed:
            self.cursor = self.nodes[self.cursor].successors[self.edge]
        self.edge, self.followed, self.held = None, True, self.holds[self.cursor]
        before = self.nodes[self.cursor]
        if before.operation != operation or before.loop != loop:
            raise SpecError(
                "the role does not do the same when it is run again: let its control flow depend on nothing but its "
                "parameters, local variables and the answers of its yields",
                yielding_place(self.generator, self.where),
            )

    def _enter(self, index: int) -> None:
        if self.last >= 0:
            self.nodes[self.last].successors[self.edge] = index
        self.last, self.edge = index, None

    def entry(self) -> Hashable:
        """How a loop without end is entered: as which one, and after which choices, since what came of them need not
        be in a variable (`for k in range((yield self.choose(...)))`). One that is entered again is another.
        """
        self.loops += 1
        return self.loops, tuple(self.chosen) if self.watch is not None else ()

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
        if not self.replaying:
            if (watch := self.watch) is not None:
                watch.head(iterator, frame, user_place(frame, self.where))
            snapshot = Snapshot(self.laps, self.counted, self.tokens, watch.held if watch else None)
            stack = snapshot.of(frame)
            key = (loop, entry, bounded, *self.ended, stack, self.held, self.ghost.key(snapshot.states))
            known = self.heads.get(key)
            if known is not None:
                self._enter(known)
                raise _Known
            self.pending_heads.append(key)
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
