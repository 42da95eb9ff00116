"""What a Python object keeps that can change: its attributes, its items, the variables of a function.

Whatever a role can name, and change from one iteration to the next, has readers here; or none, and then its state
cannot be seen.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from functools import _lru_cache_wrapper, cache, cached_property, partial
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple, TypeAlias

from sm90_verify.spec.language.declarations import RoleDeclaration
from sm90_verify.spec.language.layout import Component
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.snapshot import Plumbing, content

Flat: TypeAlias = tuple[object, ...]

DATA = (type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented), CodeType)
DESCRIPTORS = (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
CONTAINERS = (list, tuple, deque, set, frozenset, dict, OrderedDict, defaultdict)
SETTLED = ("_operator", "decimal", "enum", "fractions", "logging", "numbers", "operator", "re", "typing")
"""Modules of whose objects nothing changes that a role can ask for: what they keep is there to be quick."""
FICKLE = frozenset(
    (
        *(
            "asyncio",
            "contextvars",
            "datetime",
            "io",
            "multiprocessing",
            "pathlib",
            "queue",
            "random",
            "secrets",
            "select",
        ),
        *("selectors", "shutil", "signal", "socket", "subprocess", "tempfile", "thread", "threading", "time", "uuid"),
    )
)
"""Modules that need not answer the same when they are asked again, without the underscores that they begin with."""
SYSTEM = ("decimal", "gc", "nt", "posix", "sys")
"""Modules whose built-in functions ask the machine, or the interpreter."""

_PRODUCT = __name__.partition(".")[0]
_FOLDERS = tuple(
    os.path.join(os.path.dirname(os.path.abspath(str(sys.modules[name].__file__))), "")
    for name in (_PRODUCT, f"{_PRODUCT}.spec")
)
_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")


NAMED, ITEMS, CALLED = "named", "items", "called"
"""How what an object keeps is read: names and values of a mapping; items of an iterable; names and values of a call."""


class Reader(NamedTuple):
    """One part of what an object keeps, which is read again and again."""

    how: str
    of: Any

    def read(self) -> Flat:
        """Names and values, one half each; or items alone."""
        if self.how is NAMED:
            return (*self.of, *self.of.values())
        found: Flat = tuple(self.of if self.how is ITEMS else self.of())
        return found


def is_product(file: str) -> bool:
    """Whether a file is one of this package."""
    return file.startswith(_FOLDERS)


@cache
def is_library(file: str) -> bool:
    """Whether a file is Python's own, or of a package that is installed."""
    return file.startswith((_LIBRARY, "<frozen")) or re.search(r"[/\\](site|dist)-packages[/\\]", file) is not None


def is_users(name: str) -> bool:
    """Whether the module of this name is the user's."""
    root = name.partition(".")[0]
    if root == _PRODUCT or root in sys.stdlib_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return not is_library(file or "")


def is_fickle(value: object) -> bool:
    """Whether an object belongs to a module that answers differently when it is asked again."""
    name = module_of(value)
    if isinstance(value, BuiltinFunctionType) and name in SYSTEM:
        return True
    return name.lstrip("_").partition(".")[0] in FICKLE or name.startswith("numpy.random")


def module_of(value: object) -> str:
    """The name of the module that an object, or else its class, comes from."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type | FunctionType | BuiltinFunctionType):
        return str(value.__module__ or "")
    return str(type(value).__module__)


def readers(value: object) -> tuple[Reader, ...] | None:
    """How what an object keeps is read; None if it cannot be seen."""
    kind = type(value)
    if kind in DATA or isinstance(value, (*DESCRIPTORS, Plumbing)) or kind.__name__ == "_tuplegetter":
        return ()
    if isinstance(value, FunctionType):
        return (Reader(CALLED, lambda: _of_function(value)),)
    if isinstance(value, type):
        if not is_users(value.__module__) and value.__module__.partition(".")[0] != _PRODUCT:
            return ()
        return (Reader(NAMED, vars(value)), Reader(ITEMS, (type(value), *value.__bases__)))
    if isinstance(value, ModuleType):
        return (Reader(NAMED, vars(value)),) if is_users(value.__name__) else ()
    if (parts := _made_of(value)) is not None:
        return (Reader(ITEMS, parts),)
    if isinstance(value, _lru_cache_wrapper):
        return (Reader(ITEMS, (value.__wrapped__,)), Reader(ITEMS, Cached(value)))
    if not isinstance(value, Pipeline | Component) and (
        kind.__module__.partition(".")[0] in (*SETTLED, _PRODUCT) and kind not in CONTAINERS
    ):
        return ()
    return _of_object(value)


def _of_function(function: FunctionType) -> Flat:
    """The variables of its closure, a blank before their names; its defaults and its attributes. What it decorates, for
    one of a library.
    """
    code, own = function.__code__, vars(function)
    if is_product(code.co_filename) or is_library(code.co_filename):
        return ("__wrapped__", own.get("__wrapped__"))
    variables = map(content, function.__closure__ or ())
    return (
        *(*(f" {name}" for name in code.co_freevars), "__defaults__", "__kwdefaults__", *own),
        *(*variables, function.__defaults__, function.__kwdefaults__, *own.values()),
    )


def _made_of(value: object) -> Flat | None:
    """What an object was made of once and for all; None for one that is no such thing."""
    match value:
        case MethodType():
            return (value.__self__, value.__func__)
        case BuiltinFunctionType() | MethodWrapperType():
            return () if isinstance(value.__self__, ModuleType) else (value.__self__,)
        case staticmethod() | classmethod():
            return (value.__func__,)
        case property():
            return (value.fget, value.fset, value.fdel)
        case cached_property():
            return (value.func,)
        case partial():
            return (value.func, *value.args, *value.keywords.values())
        case RoleDeclaration():
            return (value.body,)
    return None


class Cached(Plumbing):
    """What functools.cache has kept that can be changed by those who got it."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __iter__(self) -> Iterator[object]:
        known = (self.function.__wrapped__, vars(self.function))
        for one in gc.get_referents(self.function):
            if type(one) not in (type, object) and not any(one is other for other in known):
                for kept in one.values() if type(one) is dict else (one,):
                    if not _is_constant(kept):
                        yield kept


def _is_constant(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return type(value).__name__ == "_lru_list_elem" or readers(value) == ()


def _of_object(value: Any) -> tuple[Reader, ...] | None:
    """Its items, its attributes and its class; None for one that keeps anything else."""
    kind = type(value)
    found = [Reader(ITEMS, (kind, value.default_factory if isinstance(value, defaultdict) else None))]
    if isinstance(value, dict | MappingProxyType):
        found += (Reader(ITEMS, value), Reader(ITEMS, value.values()))
    elif isinstance(value, CONTAINERS):
        found.append(Reader(ITEMS, value))
    elif not all(map(_is_python, kind.__mro__)):
        try:
            memoryview(value)
        except TypeError:
            return None
        found.append(Reader(CALLED, lambda: ("", memoryview(value).tobytes())))
    own, absent = own_attributes(value), absent_attributes(value)
    if own is not None:
        kept = own
        read = lambda: _flat([one for one in kept.items() if one[0] not in absent])
        found.append(Reader(CALLED, read) if absent else Reader(NAMED, kept))
    slots = [one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, MemberDescriptorType)]
    if slots:
        found.append(Reader(CALLED, lambda: _flat([(one.__name__, _slot(one, value)) for one in slots])))
    return tuple(found)


def own_attributes(value: object) -> dict[str, object] | None:
    """The __dict__ of an object, if it has one, without asking its class."""
    try:
        found: dict[str, object] = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found


def cached_names(value: object) -> tuple[str, ...]:
    """The attributes that an object gets when they are first asked for."""
    return tuple(key for base in type(value).__mro__ for key, one in vars(base).items() if type(one) is cached_property)


def absent_attributes(value: object) -> tuple[str, ...]:
    """The attributes that an object may get, or that tracing changes."""
    return (*cached_names(value), *(("_tracer", "_cta", "_program") if isinstance(value, Pipeline) else ()))


def _is_python(kind: type) -> bool:
    """Whether the class was written in Python, or keeps nothing but items and attributes."""
    if kind in (object, SimpleNamespace, *CONTAINERS, *DATA, MappingProxyType):
        return True
    own = [one for one in vars(kind).values() if isinstance(one, MethodDescriptorType | WrapperDescriptorType)]
    made = isinstance(vars(kind).get("__new__"), BuiltinFunctionType)
    return not made and not any(one.__objclass__ is kind for one in own)


def _slot(slot: MemberDescriptorType, value: object) -> object:
    """None for one that has no value yet."""
    try:
        return slot.__get__(value)
    except AttributeError:
        return None


def _flat(pairs: list[tuple[str, object]]) -> Flat:
    """The names, then the values."""
    return (*[name for name, _ in pairs], *[one for _, one in pairs])
