"""Runs a role's generator once and keeps what it did: a graph of locations, each with one operation.

The generator is ordinary Python and is never told anything about the hardware, so what it does depends only on the
answers that it gets (try_wait, choose, the end of the trip-count loop). Each answer is tried; since a generator
cannot be copied, a branch replays the role from its start with the answers so far.

Why closing a loop is sound: at the head of an endless loop everything that the rest of the role can depend on is in
the local variables of the frames on the stack, in the ghosts kept here, and in which loop it is. If all of that has
been seen before, the role goes on as it did then. A variable that holds anything whose future cannot be read off (an
iterator, an open file) is refused.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Hashable
from dataclasses import replace
from types import FrameType
from typing import Any, assert_never

from sm90_verify.spec.errors import Source, SpecError, place_of, place_of_class, placed
from sm90_verify.spec.language.declarations import RoleDeclaration, check_role
from sm90_verify.spec.language.ghost import Ghost
from sm90_verify.spec.language.handles import Array, Barrier, Tile
from sm90_verify.spec.language.layout import Component
from sm90_verify.spec.language.pipeline import Pipeline, one_iteration_each, roles_of
from sm90_verify.spec.language.state import LAPS, Count, PipelineState, ring_period
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.phase import Phase

MAX_LOCATIONS = 50_000
MAX_LINES_BETWEEN_YIELDS = 200_000
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PLUMBING = frozenset(
    os.path.join(_HERE, *name.split("/"))
    for name in (
        "language/pipeline.py",
        "language/walk.py",
        "language/layout.py",
        "language/handles.py",
        "language/ghost.py",
        "cutlass/pipelines.py",
    )
)


def trace(pipeline: Pipeline) -> Kernel:
    """The kernel that a pipeline describes, the programs of its roles in declaration order; raises SpecError for what
    is wrong in every schedule, see spec.model.validate.
    """
    programs: list[Program] = []
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
                walk = _Walk(pipeline, declaration, Threads(full, part, index, copy, cta, sum(split[:index])))
                programs.append(Program(full, walk.me, walk.trace(), label, pipeline._shape.home(cta), where))
    if not programs:
        what = f"{pipeline.name} has no role: mark a generator method with @role(warps=1)"
        raise SpecError(what, place_of_class(type(pipeline)))
    kernel = Kernel(
        pipeline.name,
        pipeline.parameters(),
        pipeline.layout,
        tuple(programs),
        pipeline.shape,
        Rules(pipeline.strict, pipeline.observation, pipeline.met),
        pipeline.registers,
        max([pipeline.stages, *pipeline.layout.slots.values()]),
    )
    try:
        validate(kernel)
    except SpecError as error:
        raise error.at(place_of_class(type(pipeline))) from None
    return kernel


class _Known(BaseException):
    """The role has come to a loop head from which everything has been traced already."""


class _StartAgain(BaseException):
    """More must be remembered than was: an iteration's number, accesses that nothing has released, a state's laps."""


class _Walk:
    """One role instance being traced; it is the `Tracer` that the pipeline's loops and operations report to."""

    def __init__(self, pipeline: Pipeline, declaration: RoleDeclaration, me: Threads) -> None:
        self.pipeline, self.declaration, self.me = pipeline, declaration, me
        self.where = place_of(declaration.body)
        self.counted = False
        self.idle = IDLE
        self.laps = LAPS  # after so many of its ring a state looks the same again when loops are closed
        self.nodes: list[Node] = []
        self.heads: dict[Hashable, int] = {}
        self.todo: list[tuple[tuple[Hashable, ...], int]] = [((), -1)]

    def trace(self) -> tuple[Node, ...]:
        try:
            while self.todo:
                answers, node = self.todo.pop(0)
                self._run(list(answers), node)
        except _StartAgain:
            self.nodes, self.heads, self.todo = [], {}, [((), -1)]
            return self.trace()
        finally:
            object.__setattr__(self.pipeline, "_tracer", None)
            object.__setattr__(self.pipeline, "_cta", 0)
        return tuple(self.nodes)

    def count_used(self) -> None:
        """Called when the number of an iteration is asked for. Until then loops close as if it did not exist."""
        if not self.counted:
            self.counted = True
            raise _StartAgain

    # -- one run of the generator

    def _run(self, answers: list[Hashable], node: int) -> None:
        """Runs the role with these answers, then with the first answer to every further question, until it is known."""
        self.replay = answers
        self.given: list[Hashable] = []
        self.last = node
        self.held, self.ghost, self.iteration = self.idle, Ghost(), 0
        self.pending_heads: list[Hashable] = []
        self.made: list[tuple[op.Operation, Source]] = []
        self.edge: Hashable = None
        self.idle_heads = self.loops = self.cursor = 0
        self.followed = False
        self.ended: dict[str, None] = {}
        self.source = self.where
        object.__setattr__(self.pipeline, "_tracer", self)
        object.__setattr__(self.pipeline, "_cta", self.me.cta)
        self.generator = self._start()
        send: Any = None
        try:
            while (operation := self._resume(send)) is not None:
                send = self._step(operation)
            self._link(Node(None, self.source, self.held))
        except _Known:
            return
        except SpecError as error:
            raise error.at(_innermost_user_place(error, self.where)) from error.__cause__
        finally:
            self.generator.close()

    def _start(self) -> Any:
        body, names = self.declaration.body, inspect.signature(self.declaration.body).parameters
        extra = {"me": self.me} if "me" in names else {}
        unknown = [name for name in list(names)[1:] if name not in ("at", "me")]
        if unknown:
            raise SpecError(f"a role takes `at` and `me`, not {', '.join(unknown)}", self.where)
        if "at" in names:
            return one_iteration_each(self.pipeline, body, extra)
        return body(self.pipeline, **extra)

    def _resume(self, send: Any) -> op.Operation | None:
        """The next operation, or None at the end; refuses operations that were made and never yielded."""
        self.made = []
        operation = _next_within(self.generator, send, self.where)
        if operation is not None:
            self.source = self._place()
        if inspect.isgenerator(operation):
            raise SpecError("a role yielded a generator: write `yield from` in front of it", self.source)
        if operation is not None and (wrong := op.unknown(operation)):
            raise SpecError(wrong, self.source)
        for other, place in self.made:
            if other is not operation:
                raise SpecError("an operation was written but never yielded: put `yield` in front of it", place)
        return operation

    def created(self, operation: op.Operation) -> None:
        self.made.append((operation, _user_place(sys._getframe(2), self.where)))

    # -- locations

    def _step(self, operation: op.Operation) -> Any:
        node = Node(operation, self.source, self.held)
        if isinstance(operation, op.Wait):
            node.distance = self._distance(operation)
        if isinstance(operation, op.Choose):
            node.choice = self.ghost.choices.get(operation.name, 0)
        if isinstance(operation, op.ClusterArrive) and not operation.release and not self.idle.tracks:
            self.idle = replace(IDLE, tracks=True)
            raise _StartAgain
        self._link(node)
        answers = _answers(operation)
        answer = self._answer(answers) if answers else None
        self.held = self.held.after(operation)
        self.ghost.after(operation, answer)
        return _told(operation, answer)

    def _distance(self, wait: op.Wait) -> int:
        """The distance of a wait. In a loop the first one of a state is known only within the laps that close it."""
        first = bool(self.heads) and self.ghost.is_first(wait)
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
        self.edge = answer
        return answer

    @property
    def _replaying(self) -> bool:
        return len(self.given) < len(self.replay)

    def _link(self, node: Node) -> None:
        """Makes the node the successor of the last one, unless this stretch was traced before."""
        self.idle_heads = 0
        if self._replaying:
            self.pending_heads = []
            self._follow(node)
            return
        if len(self.nodes) >= MAX_LOCATIONS:
            raise SpecError(
                f"role {self.me.name} is still running after {MAX_LOCATIONS} operations: "
                "write `for _ in self.loop():` for a loop without end",
                self.source,
            )
        node.arrived, node.observed = dict(self.ghost.arrived), dict(self.ghost.observed)
        node.ahead = dict(self.ghost.ahead)
        node.iteration = self.iteration
        index = len(self.nodes)
        self.nodes.append(node)
        for key in self.pending_heads:
            self.heads[key] = index
        self.pending_heads = []
        self._enter(index)

    def _follow(self, node: Node) -> None:
        """While a run repeats an earlier one it must do the same again."""
        if self.edge is not None or self.followed:
            self.cursor = self.nodes[self.cursor].successors[self.edge]
        self.edge, self.followed = None, True
        before = self.nodes[self.cursor]
        if (before.operation, before.loop, before.held) != (node.operation, node.loop, node.held):
            raise SpecError(
                "the role does not do the same when it is run again: let its control flow depend on nothing but its "
                "parameters, local variables and the answers of its yields",
                self.source,
            )

    def _enter(self, index: int) -> None:
        if self.last >= 0:
            self.nodes[self.last].successors[self.edge] = index
        self.last, self.edge = index, None

    def new_loop(self) -> int:
        """The number of a loop without end, in the order in which they begin: one that is entered again is another."""
        self.loops += 1
        return self.loops

    def loop_head(self, loop: str, number: int, bounded: bool) -> bool:
        """Called by an endless loop before each iteration: whether there is another one."""
        self.idle_heads += 1
        if self.idle_heads > 1000:
            place = _user_place(sys._getframe(2), self.where)
            raise SpecError("a loop without end goes round without any operation: yield one in each iteration", place)
        if bounded and loop in self.ended:
            place = _user_place(sys._getframe(2), self.where)
            raise SpecError(
                f"a second loop over {loop!r}, whose number of iterations is decided already: "
                "give it a name of its own, self.loop(name=...)",
                place,
            )
        if not self._replaying:
            key = (
                loop,
                number,
                bounded,
                *self.ended,
                self._snapshot(sys._getframe(2)),
                self.held,
                self.ghost.key(self._states),
            )
            known = self.heads.get(key)
            if known is not None:
                node = self.nodes[known]
                node.drift.append(
                    (dict(self.ghost.arrived), dict(self.ghost.observed), dict(self.ghost.ahead), self.iteration)
                )
                self._enter(known)
                raise _Known
            self.pending_heads.append(key)
        if not bounded:
            return True
        self.source = _user_place(sys._getframe(2), self.where)
        self._link(Node(None, self.source, self.held, loop=loop))
        more = self._answer((True, False))
        if more:
            self.iteration += 1
        else:
            self.ended[loop] = None
        return bool(more)

    # -- what a loop head must remember

    def _snapshot(self, frame: FrameType | None) -> Hashable:
        """Everything on the stack of the role, normalised so that equal snapshots have equal futures."""
        self._states: list[PipelineState] = []
        stack = []
        while frame is not None and frame.f_code is not _next_within.__code__:
            place = Source(frame.f_code.co_filename, frame.f_lineno)
            names = sorted(frame.f_locals)
            values = tuple((name, self._normal(frame.f_locals[name], name, place)) for name in names)
            stack.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lasti, values))
            frame = frame.f_back
        return tuple(stack)

    def _normal(self, value: Any, name: str, place: Source) -> Hashable:
        if isinstance(value, PipelineState):
            self._states.append(value)
            ring = ring_period(value.stages) // LAPS * self.laps
            early = min(value.number, value.stages)
            return ("state", value.stages, value.index, value.lap & 1, value.number % ring, early, value.flipped)
        if isinstance(value, Phase):
            return ("phase", int(value), value.flipped)
        if isinstance(value, Count):
            return ("count", value.key if self.counted or value.observer is None else None)
        if value is None or isinstance(value, int | str | bytes | float | op.Token | op.Yielded):
            return (type(value).__name__, value)
        if isinstance(value, tuple | list):
            return (type(value).__name__, tuple(self._normal(part, name, place) for part in value))
        if isinstance(value, dict):
            pairs = ((self._normal(key, name, place), self._normal(part, name, place)) for key, part in value.items())
            return ("dict", tuple(pairs))
        if isinstance(value, Barrier):
            return ("barrier", value.name)
        if isinstance(value, Tile):
            return ("tile", value.access, value.tag)
        if isinstance(value, Pipeline | Component | Array | Threads | Cluster) or callable(value):
            return ("object", id(value))
        raise SpecError(
            f"the loop cannot be closed while the variable {name!r} holds a {type(value).__name__}: "
            "keep numbers, states, lists and dicts in variables across a loop without end",
            place,
        )

    # -- places in the user's file

    def _place(self) -> Source:
        generator, found = self.generator, None
        while generator is not None and inspect.isgenerator(generator):
            frame = generator.gi_frame
            if frame is not None and frame.f_code.co_filename not in _PLUMBING:
                found = Source(frame.f_code.co_filename, frame.f_lineno)
            generator = generator.gi_yieldfrom
        return found or self.where


def _answers(operation: op.Operation) -> tuple[Hashable, ...]:
    """The answers between which an operation leaves the choice; none if the role goes on in one way only."""
    match operation:
        case op.Wait(kind=kind):
            return () if kind == "wait" else (True, False)
        case op.Choose(options=options):
            return tuple(range(len(options)))
        case op.Init() | op.Inval() | op.Arrive() | op.Transaction() | op.Load() | op.Touch() | op.Store():
            return ()
        case op.Group() | op.Fence() | op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait():
            return ()
        case op.WarpSync() | op.Setmaxnreg():
            return ()
        case _:
            assert_never(operation)


def _told(operation: op.Operation, answer: Hashable) -> Hashable:
    """The value of the yield."""
    match operation:
        case op.Arrive(barrier=barrier):
            return op.Token(barrier)
        case op.Choose(options=options):
            return options[int(str(answer))]
        case op.Init() | op.Inval() | op.Wait() | op.Transaction() | op.Load() | op.Touch() | op.Store():
            return answer
        case op.Group() | op.Fence() | op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait():
            return answer
        case op.WarpSync() | op.Setmaxnreg():
            return answer
        case _:
            assert_never(operation)


def _next_within(generator: Any, send: Any, where: Source) -> op.Operation | None:
    """generator.send, that gives up on a role that runs on without yielding; other exceptions become SpecErrors."""
    lines = 0

    def count_lines(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += 1
        if lines > MAX_LINES_BETWEEN_YIELDS:
            raise SpecError(
                "the role runs on and on without yielding: yield an operation in the loop", _user_place(frame, where)
            )
        return count_lines

    tracing = sys.gettrace()
    if tracing is None and where.file not in _PLUMBING and not where.file.startswith(_HERE):
        sys.settrace(count_lines)
    try:
        result: op.Operation | None = generator.send(send)
        return result
    except StopIteration:
        return None
    except SpecError:
        raise
    except (Exception, SystemExit) as error:
        raise SpecError(f"{type(error).__name__}: {error}", _innermost_user_place(error, where)) from error
    finally:
        if tracing is None:
            sys.settrace(None)


def _user_place(frame: FrameType | None, default: Source) -> Source:
    """The innermost place on the role's stack that is not the language itself."""
    while frame is not None and frame.f_code is not _next_within.__code__:
        if frame.f_code.co_filename not in _PLUMBING:
            return Source(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return default


def _innermost_user_place(error: BaseException, default: Source) -> Source:
    traceback, found = error.__traceback__, default
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_HERE + os.sep):
            inside = traceback.tb_frame.f_code.co_filename
            if inside == default.file:
                found = Source(inside, traceback.tb_lineno)
        elif traceback.tb_frame.f_code.co_filename not in _PLUMBING and default.file.startswith(_HERE):
            found = Source(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
