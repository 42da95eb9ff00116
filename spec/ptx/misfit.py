"""Which part of a record is not what its field says, and what it must be: the way to an error's one line.

A field's type may be annotated with a range, of a number or of how many there are.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


def misfit(record: object, without: tuple[str, ...] = ()) -> tuple[str, str]:
    """The innermost field of a record, or of what lies in it, that does not fit, such as `write.start`, and what it
    must be; ("", "") if all do. without: fields that are not looked at.
    """
    for name, type_ in get_type_hints(type(record), include_extras=True).items():
        if name not in without:
            where, why = _misfit(getattr(record, name), type_)
            if why:
                return f"{name}{where}", why
    return "", ""


def is_record(type_: Any) -> bool:
    """Whether it is a dataclass or a named tuple."""
    return isinstance(type_, type) and (is_dataclass(type_) or hasattr(type_, "_fields"))


def _misfit(value: Any, type_: Any) -> tuple[str, str]:
    """Where in a value, and why, it does not have a type; ("", "") if it does."""
    origin, parts = get_origin(type_), get_args(type_)
    if origin is Annotated:
        where, why = _misfit(value, parts[0])
        return (where, why) if why else ("", _beyond(value, parts[1]))
    if origin in (UnionType, Union):
        found = [_misfit(value, part) for part in parts]
        return ("", "") if ("", "") in found else _as_one_of(value, parts, found) or ("", f"it is not {_name(type_)}")
    if is_record(type_) and type(value) is type_:
        where, why = misfit(value)
        return (f".{where}" if why else ""), why
    inside = _inside(value, type_)
    if inside is None:
        return "", "" if _is_one(value, type_) else _must_be(type_)
    return next(((f"[{key!r}]{where}", why) for key, (where, why) in inside if why), ("", ""))


def _inside(value: Any, type_: Any) -> Iterator[tuple[object, tuple[str, str]]] | None:
    """What is wrong with each part of a collection; None if the value is no collection of that type."""
    origin, parts = get_origin(type_), get_args(type_)
    if origin is tuple and isinstance(value, tuple) and (parts[1:] == (...,) or len(value) == len(parts)):
        types = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return ((index, _misfit(one, part)) for index, (one, part) in enumerate(zip(value, types, strict=True)))
    if origin in (frozenset, list) and isinstance(value, origin):
        return ((one, _misfit(one, parts[0])) for one in value)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return (
            (key, _misfit(item, part))
            for key, one in value.items()
            for item, part in zip((key, one), parts, strict=True)
        )
    return None


def _as_one_of(value: Any, parts: tuple[Any, ...], found: list[tuple[str, str]]) -> tuple[str, str] | None:
    """What is wrong with the value as that part of a union whose class it has."""
    for part, wrong in zip(parts, found, strict=True):
        of = get_args(part)[0] if get_origin(part) is Annotated else part
        if isinstance(of, type) and not get_origin(of) and isinstance(value, of):
            return wrong
    return None


def _is_one(value: object, type_: Any) -> bool:
    if type_ is Any:
        return True
    if type_ is Hashable:
        try:
            return isinstance(hash(value), int)
        except TypeError:
            return False
    if get_origin(type_) is Literal:
        return type(value) is str and value in get_args(type_)
    if get_origin(type_) or is_record(type_):  # those that it is one of were looked into
        return False
    return isinstance(value, type_)


def _must_be(type_: Any) -> str:
    if get_origin(type_) is Literal:
        return f"use {', '.join(get_args(type_))}"
    return f"it is not {_name(type_)}"


def _beyond(value: Any, allowed: range) -> str:
    if isinstance(value, int):
        return "" if allowed.start <= value < allowed.stop else f"use {allowed.start} to {allowed.stop - 1}"
    what = " characters" if isinstance(value, str) else ""
    return "" if allowed.start <= len(value) < allowed.stop else f"use {allowed.start} or more{what}"


def _name(type_: Any) -> str:
    """A type without its modules, and without ranges."""
    if get_origin(type_) is Annotated:
        return _name(get_args(type_)[0])
    if get_origin(type_) in (UnionType, Union):
        return " | ".join(map(_name, get_args(type_)))
    if type_ is type(None):
        return "None"
    if isinstance(type_, type) and not get_origin(type_):
        return type_.__name__
    return re.sub(r"\w+\.(?=\w)", "", str(type_))
