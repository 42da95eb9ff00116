"""Whether the fields of a record have the types that they say, with the ranges that these are annotated with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints


@cache
def fields_of(record: type[Any]) -> tuple[tuple[str, Any, tuple[str, ...]], ...]:
    """The fields of a record, with their types, or the words that they can be."""
    types = get_type_hints(record, include_extras=True).items()
    return tuple((name, type_, get_args(type_) if get_origin(type_) is Literal else ()) for name, type_ in types)


@cache
def passed_by(record: type[Any]) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """The fields of a record, and what their values must pass."""
    return tuple((name, fits(type_)) for name, type_, _ in fields_of(cast(Any, record)))


@cache
def fits(type_: Any) -> Callable[[Any], bool]:
    """What tells whether a value has the type of its field, with the range that it is annotated with."""
    origin, parts = get_origin(type_), get_args(type_)
    if type_ is Any:
        return lambda value: True
    if type_ is Hashable:
        return _is_hashable
    if origin is Literal:
        return lambda value: type(value) is str and value in parts
    if origin is Annotated:
        test, allowed = fits(parts[0]), parts[1]
        return lambda value: test(value) and allowed.start <= _size(value) < allowed.stop
    if origin in (UnionType, Union):
        tests = tuple(map(fits, parts))
        return lambda value: any(test(value) for test in tests)
    if origin is tuple and parts[1:] == (...,):
        test = fits(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(test, value))
    if origin is tuple:
        tests = tuple(map(fits, parts))
        return lambda value: (
            isinstance(value, tuple) and len(value) == len(tests) and all(t(v) for t, v in zip(tests, value))
        )
    if is_dataclass(type_) or hasattr(type_, "_fields"):
        return lambda value: (
            type(value) is type_ and all(test(getattr(value, name)) for name, test in passed_by(cast(Any, type_)))
        )
    return lambda value: isinstance(value, type_)


def _size(value: Any) -> int:
    """What a range is about: a number, or how many there are."""
    return value if isinstance(value, int) else len(value)


def _is_hashable(value: object) -> bool:
    try:
        return isinstance(hash(value), int)
    except TypeError:
        return False
