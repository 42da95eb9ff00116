"""What a loop head must remember: everything on a role's stack, so that equal snapshots have equal futures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.handles import Array, Barrier, Tile, Word
from sm90_verify.spec.language.layout import Component
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.places import BELOW
from sm90_verify.spec.language.state import LAPS, Count, PipelineState, ring_period
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.phase import Phase

_DATA = frozenset((bool, int, str, bytes, float, NoneType))


class Plumbing:
    """What runs a role rather than belongs to it: a snapshot takes it for no data."""


@dataclass
class Snapshot:
    """laps: of its ring, after so many a state looks the same again. counted: whether the number of an iteration is
    told apart. tokens: by barrier, that of the role's last arrival. watch: told of what must stay as it is. states:
    those and the phases that were on the stack, in order. functions: in whose closures it is looking. again: lists and
    dicts by id, in order: one that two variables hold is not two that are equal.
    """

    laps: int
    counted: bool
    tokens: Mapping[str, op.Token]
    watch: Callable[[object, str], None] | None = None
    states: list[PipelineState | Phase] = field(default_factory=list)
    functions: set[int] = field(default_factory=set)
    again: dict[int, tuple[int, object]] = field(default_factory=dict)

    def of(self, frame: FrameType | None) -> Hashable:
        """The role's frames from this one on, and what is in their variables. Raises SpecError for a variable that
        holds anything whose future cannot be read off.
        """
        stack = []
        while frame is not None and frame.f_code is not BELOW:
            place = Source(frame.f_code.co_filename, frame.f_lineno)
            names = sorted(frame.f_locals)
            values = tuple((name, self._normal(frame.f_locals[name], name, place)) for name in names)
            stack.append((frame.f_code, frame.f_lasti, values))
            frame = frame.f_back
        return tuple(stack)

    def _normal(self, value: Any, name: str, place: Source) -> Hashable:
        kind = type(value)
        if kind in _DATA:
            return (kind, value)
        if issubclass(kind, Pipeline) and value._tracer is not None:
            return _Same(value)
        if kind is PipelineState:
            self.states.append(value)
            ring = ring_period(value.stages) // LAPS * self.laps
            early = min(value.number, value.stages)
            return (kind, value.stages, value.index, value.lap & 1, value.number % ring, early, value.flipped)
        if kind is Phase and len(vars(value)) == 3:  # with no attribute of the user's
            self.states.append(value)
            return (kind, int(value), value.flipped)
        if kind is Count:
            return (kind, value.key if self.counted or value.observer is None else None)
        if isinstance(value, op.Token):
            return ("token", value.barrier, self.tokens.get(value.barrier) is value)
        if isinstance(value, op.Wait):  # which is equal to one with the bit of another phase, or an older token
            return (value, self._normal(value.phase, name, place))
        if isinstance(value, op.Yielded):
            return value
        if isinstance(value, int | str | bytes | float):
            return (kind, value, self._attributes(value, name, place))
        if isinstance(value, list | dict):
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
        if isinstance(value, Threads | Cluster):
            return value
        if isinstance(value, Array | Plumbing):
            return _Same(value)
        if isinstance(value, Component | type):
            if self.watch is not None:
                self.watch(value, name)
            return _Same(value)
        if isinstance(value, FunctionType):
            return self._function(value, name, place)
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
        raise SpecError(
            f"the loop cannot be closed while the variable {name!r} holds a {type(value).__name__}: "
            "keep numbers, states, lists and dicts in variables across a loop without end",
            place,
        )

    def _function(self, function: FunctionType, name: str, place: Source) -> Hashable:
        """A function and what its closure and its defaults hold; a function that is in its own closure once."""
        code = ("function", _Same(function.__code__))
        if id(function) in self.functions:
            return code
        self.functions.add(id(function))
        told = [
            *map(content, function.__closure__ or ()),
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


class _Same:
    """Equal to that of the same object alone; keeps the object, so that no other one gets its place."""

    __slots__ = ("of",)

    def __init__(self, of: object) -> None:
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)


def content(cell: CellType) -> Any:
    """What a cell holds; None for a variable that has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
