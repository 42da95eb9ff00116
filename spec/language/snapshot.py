"""What a loop head must remember: everything on a role's stack, so that equal snapshots have equal futures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any, TypeAlias

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.handles import Array, Barrier, Tile, Word
from sm90_verify.spec.language.layout import Component
from sm90_verify.spec.language.pipeline import EndlessLoop, Pipeline
from sm90_verify.spec.language.places import BELOW
from sm90_verify.spec.language.stack import stack_of
from sm90_verify.spec.language.state import Count, PipelineState, ring_period
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.phase import EXACT, Phase

_GONE_THROUGH: tuple[Any, ...] = (range(1), range(1 << 64), [], (), "", "\xff", reversed([]))
ITERATORS = frozenset((*(type(iter(one)) for one in _GONE_THROUGH), enumerate, zip))
"""Iterators that tell by __reduce__ what they go through, itself and no copy, and how far they are."""
_DATA = frozenset((bool, int, str, bytes, NoneType))


Frames: TypeAlias = tuple[tuple[CodeType, int, tuple[tuple[str, Hashable], ...]], ...]
"""Where each frame is, and the names and values of its variables."""


class Plumbing:
    """What runs a role rather than belongs to it: a snapshot takes it for no data."""


class Unreadable(SpecError):
    """Something on a role's stack has a future that cannot be read off."""


@dataclass
class Snapshot:
    """What is on a role's stack.

    numbered: by their stages, how closely the numbers of states are looked at, see Lineage.asked. counted: whether the
    number of an iteration is told apart. tokens: by barrier, that of the role's last arrival. watch: told of what must
    stay as it is. suspended: whether the role has yielded; what a `for` goes through can only be read then. states:
    those and the phases that were on the stack, in order. functions: in whose closures it is looking. again: lists,
    dicts and iterators by id, in order: one that two variables hold is not two that are equal.
    """

    numbered: Mapping[int, int]
    counted: bool
    tokens: Mapping[str, op.Token]
    watch: Callable[[object, str], None] | None = None
    suspended: bool = False
    states: list[PipelineState | Phase] = field(default_factory=list)
    functions: set[int] = field(default_factory=set)
    again: dict[int, tuple[int, object]] = field(default_factory=dict)

    def of(self, frame: FrameType | None) -> Frames:
        """The role's frames from this one on, and what is in their variables. Raises Unreadable for a variable that
        holds anything whose future cannot be read off.
        """
        stack: list[tuple[CodeType, int, tuple[tuple[str, Hashable], ...]]] = []
        while frame is not None and frame.f_code is not BELOW:
            place = Source(frame.f_code.co_filename, frame.f_lineno)
            names = sorted(frame.f_locals)
            values = tuple((name, self._normal(frame.f_locals[name], name, place)) for name in names)
            stack.append((frame.f_code, frame.f_lasti, values))
            frame = frame.f_back
        return tuple(stack)

    def of_suspended(self, generator: GeneratorType[Any, Any, Any]) -> Hashable:
        """A generator that has yielded: where it is, its variables, and what its expressions and its loops are in the
        midst of.
        """
        frame = generator.gi_frame
        if frame is None:
            return "over"
        place = Source(frame.f_code.co_filename, frame.f_lineno)
        held = stack_of(generator)
        if held is None:
            raise Unreadable("what a `for` goes through cannot be read by this version of Python", place)
        names = {id(value): name for name, value in frame.f_locals.items()}
        values = [self._normal(one, names.get(id(one), ""), place) for one in held]
        return (frame.f_code, frame.f_lasti, tuple(frame.f_locals), *values)

    def of_value(self, value: object, place: Source) -> Hashable:
        """What is kept beside the stack."""
        return self._normal(value, "", place)

    def _normal(self, value: Any, name: str, place: Source) -> Hashable:
        kind = type(value)
        if isinstance(value, float):  # -0.0 is equal to 0.0, and is not the same
            return (kind, value.hex(), self._attributes(value, name, place))
        if kind in _DATA:
            return (kind, value)
        if issubclass(kind, Pipeline) and value._tracer is not None:
            return _Same(value)
        if kind is PipelineState:
            self.states.append(value)
            return (kind, value.stages, value.index, value._lap & 1, value.flipped, self._number(value))
        if kind is Phase and len(vars(value)) == 4:  # with no attribute of the user's
            self.states.append(value)
            return (
                kind,
                int(value),
                value.flipped,
                value._lap if self.numbered.get(stages_of(value)) == EXACT else None,
            )
        if kind is Count:
            return (kind, value.key if self.counted or value.observer is None else None)
        if isinstance(value, op.Token):
            return ("token", value.barrier, self.tokens.get(value.barrier) is value)
        if isinstance(value, op.Wait):  # which is equal to one with the bit of another phase, or an older token
            return (value, self._normal(value.phase, name, place))
        if isinstance(value, op.Yielded):
            return value
        if isinstance(value, int | str | bytes):
            return (kind, value, self._attributes(value, name, place))
        if isinstance(value, list | dict | CellType) or (self.suspended and isinstance(value, Iterator)):
            if id(value) in self.again:
                return ("again", self.again[id(value)][0])
            self.again[id(value)] = len(self.again), value
        if isinstance(value, tuple | list):
            parts = tuple(self._normal(part, name, place) for part in value)
            return (kind, parts, self._attributes(value, name, place))
        if isinstance(value, dict):
            pairs = ((self._normal(key, name, place), self._normal(part, name, place)) for key, part in value.items())
            return (kind, tuple(pairs), self._attributes(value, name, place))
        if isinstance(value, Barrier):
            return ("barrier", value.name)
        if isinstance(value, Tile):
            return ("tile", value.access, value.tag)
        if isinstance(value, Word):
            return ("word", value.access)
        if isinstance(value, Threads | Cluster | LaunchShape):
            return value
        if isinstance(value, EndlessLoop) and self.suspended:
            return value.key(self.counted)
        if isinstance(value, Plumbing) and self.suspended:
            raise Unreadable("what stands between a role and its loops cannot be read where it has yielded", place)
        if isinstance(value, Array | Plumbing):
            return _Same(value)
        if isinstance(value, Component | type):
            if self.watch is not None:
                self.watch(value, name)
            return _Same(value)
        if isinstance(value, FunctionType):
            return self._function(value, name, place)
        if isinstance(value, CellType):
            return ("cell", *(self._normal(one, name, place) for one in contents(value)))
        if isinstance(value, MethodType):
            return ("method", self._normal(value.__func__, name, place), self._normal(value.__self__, name, place))
        if isinstance(value, BuiltinMethodType):
            of = value.__self__
            return (
                "method",
                value.__name__,
                _Same(of) if isinstance(of, ModuleType) else self._normal(of, name, place),
            )
        if isinstance(value, partial):
            return ("partial", *(self._normal(one, name, place) for one in (value.func, value.args, value.keywords)))
        if self.suspended and (read := self._iterator(value, name, place)) is not None:
            return read
        where = f"the variable {name!r} holds" if name else "an expression or a `for` goes through"
        raise Unreadable(
            f"the loop cannot be closed while {where} a {kind.__name__}: "
            "keep numbers, states, lists and dicts in variables across a loop without end",
            place,
        )

    def _number(self, state: PipelineState) -> Hashable:
        """What a role can tell from the number of a state, as far as any role asks."""
        match self.numbered.get(stages_of(state), 0):
            case 0:
                return None
            case 1:
                return state._number % max(1, ring_period(state.stages)), min(state._number, state.stages)
            case _:
                return state._number, state._lap

    def _iterator(self, value: Any, name: str, place: Source) -> Hashable:
        """What else is on the stack of a role that has yielded: what is still to come of what a `for` goes through."""
        kind = type(value)
        if kind is range:
            return (kind, value.start, value.stop, value.step)
        if kind is GeneratorType:
            return (kind, self.of_suspended(value))
        if kind in ITERATORS:
            return (kind, self._normal(value.__reduce__()[1:], name, place))
        return None

    def _function(self, function: FunctionType, name: str, place: Source) -> Hashable:
        """A function and what its closure and its defaults hold; a function that is in its own closure once."""
        code = ("function", _Same(function.__code__))
        if id(function) in self.functions:
            return code
        self.functions.add(id(function))
        told = [
            *(function.__closure__ or ()),
            function.__defaults__,
            function.__kwdefaults__,
            vars(function),
        ]
        held = tuple(self._normal(one, name, place) for one in (*told, vars(function)))
        self.functions.discard(id(function))
        return (*code, held)

    def _attributes(self, value: Any, name: str, place: Source) -> Hashable:
        """What a value of a class of the user's own keeps beside its items."""
        if type(value) in (tuple, list, dict):
            return ()
        bases = type(value).__mro__
        slots = [one for base in bases for one in vars(base).values() if isinstance(one, MemberDescriptorType)]
        own = [getattr(value, "default_factory", None), getattr(value, "__dict__", None)]
        return tuple(
            self._normal(one, name, place) for one in (*own, *(getattr(value, one.__name__, None) for one in slots))
        )


def stages_of(state: PipelineState | Phase) -> int:
    """By what states are told apart that are looked at more or less closely; a phase alone has no stages."""
    return state.stages if isinstance(state, PipelineState) else -1


class _Same:
    """Equal to that of the same object alone; keeps the object, so that no other one gets its place."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def always_other(snapshots: Sequence[Frames]) -> list[str]:
    """The variables that have had another value in each of these snapshots of a stack."""
    had: dict[str, set[Hashable]] = {}
    for frames in snapshots:
        for name, value in (pair for frame in frames for pair in frame[2]):
            had.setdefault(name, set()).add(value)
    return [name for name, values in had.items() if len(values) == len(snapshots)]


def contents(cell: CellType) -> tuple[Any, ...]:
    """What a cell holds; () for a variable that has no value yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def content(cell: CellType) -> Any:
    """What a cell holds; None for a variable that has no value yet."""
    return next(iter(contents(cell)), None)
