"""Sees to it that a role depends on nothing but its own variables, so that a snapshot of these tells all.

A role is run as often as it branches, and every run stops where a loop is closed. What outlives a run (a variable of a
module, an attribute of a class, what a function keeps) is there for all runs of all roles: a role may read it, and must
not change it. What the code of a role names is known when it is called, before it can change anything.
"""

from __future__ import annotations

import builtins
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from opcode import opmap
from operator import is_
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any, NoReturn, TypeAlias

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.contents import (
    CALLED,
    DATA,
    ITEMS,
    NAMED,
    Cached,
    Flat,
    Reader,
    cached_names,
    is_fickle,
    is_library,
    is_product,
    is_users,
    module_of,
    own_attributes,
    readers,
)
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.places import BELOW, LINES, NOTHING, OPCODES
from sm90_verify.spec.language.snapshot import Plumbing

EVERYTHING = ("globals", "modules", "__globals__", "f_globals", "_getframe", "currentframe")
"""Who names one of these can reach every variable of a module."""
LAZY = ("__annotations__", "__annotations_cache__", "__warningregistry__", "__protocol_attrs__")
"""What Python adds to a class or a module when it is asked for."""
OUTSIDE = ("open", "input", "id")
"""Built-in functions that answer differently when they are asked again."""
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "IMPORT_NAME", "IMPORT_FROM")
"""Instructions that name a variable of the module, or a module, rather than an attribute."""
ASKING = tuple(opmap[name] for name in ("FOR_ITER", "SEND"))
"""Where a `for` or a `yield from` asks for what is next."""
ON_THE_SPOT = tuple(bytes((opmap["JUMP_BACKWARD"], units)) for units in (1, 2))
"""A jump to itself, without and with room for a counter: `while True: pass`, of which no line is told."""


class Watch:
    """What the roles of one pipeline can reach beside their own variables.

    Its refusals are raised where they are noticed, which may be inside the role; `wrong` keeps the first of them.
    counted: what of a frame is counted, by the id of its code.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.wrong: SpecError | None = None
        self.counted: dict[int, int] = {}
        self._codes: list[CodeType] = []
        self._names: set[str] = set()
        self._done: dict[int, object] = {}
        self._kept: list[_Kept] = []
        self._apart: list[_Kept] = []  # of these, all but the variables of modules
        self._variables: dict[int, tuple[dict[str, Any], dict[str, object]]] = {}
        self._lazy: list[tuple[dict[str, object], tuple[str, ...]]] = []
        self._unseen: dict[str, tuple[str, object]] = {}
        self._heads: list[tuple[weakref.ref[Any], Source]] = []
        self.add(pipeline, "self")

    # -- what is there

    def begin(self) -> None:
        """Called before each run of a role."""
        self._heads = []

    def called(self, frame: FrameType) -> int:
        """Learns what the code of a frame can name, and says how closely it must be followed."""
        known = self.counted.get(id(frame.f_code))
        return self._learn(frame.f_code, frame.f_globals) if known is None else known

    def add(self, value: object, label: str, named: _Named | None = None) -> None:
        """From now on all that can be reached from the value must stay as it is.

        named: where the code names it, if it is a variable of a module.
        """
        todo = [(value, label, named)]
        while todo:
            one, label, named = todo.pop()
            if type(one) in DATA or id(one) in self._done:
                continue
            found = None if is_fickle(one) else readers(one)
            if found is None:
                self._unknown(one, label, named)
                continue
            self._done[id(one)] = one
            if lazy := cached_names(one):
                self._lazy.append((own_attributes(one) or {}, lazy))
            for reader in found:
                before = self._keep(reader, f"the cache of {label}" if isinstance(reader.of, Cached) else label)
                if reader.how is ITEMS:
                    todo += [(part, label, named) for part in before]
                else:
                    todo += [
                        (part, _of(label, name), None) for name, part in _pairs(before) if _matters(one, name, part)
                    ]

    def _keep(self, reader: Reader, label: str) -> Flat:
        before = reader.read()
        self._kept.append((*reader, before, label))
        self._apart.append(self._kept[-1])
        return before

    def _keep_variables(self, where: dict[str, Any], names: tuple[str, ...], label: str) -> None:
        """Those of a module; many functions name the same."""
        self._keep(Reader(CALLED, _variables(where, names)), label)
        first = self._variables.setdefault(id(where), (where, {}))[1]
        if all(first.setdefault(name, where.get(name)) is where.get(name) for name in names):
            self._apart.pop()

    def _learn(self, code: CodeType, variables: dict[str, Any]) -> int:
        follow = NOTHING if is_product(code.co_filename) else LINES
        if follow and any(jump in code.co_code for jump in ON_THE_SPOT):
            follow = OPCODES
        self._codes.append(code)
        self.counted[id(code)] = follow
        if follow == NOTHING or is_library(code.co_filename):
            return follow
        told = {code.co_name, *code.co_names, *code.co_freevars, *(one for one in code.co_consts if type(one) is str)}
        new, self._names = told - self._names, self._names | told
        for name in new & self._unseen.keys():
            label, value = self._unseen[name]
            self._unknown(value, label, None)
        names = tuple(variables) if told.intersection(EVERYTHING) else code.co_names
        for where in (variables, vars(builtins)):
            self._keep_variables(where, names, "")
        imported = _imported(code)
        for name in names:
            if name in variables or name in imported:
                self._named(variables.get(name, imported.get(name)), name, code)
            elif name in OUTSIDE and (place := _line(code, name, GLOBAL)):
                self._refuse(
                    f"a role calls {name}(), which need not give the same when it is run again: {_DEPEND}", place
                )
        return follow

    def _named(self, value: object, name: str, code: CodeType) -> None:
        """A variable of the module; and of another module what the code may mean of it."""
        self.add(value, name, (code, name, ""))
        if isinstance(value, ModuleType) and not is_product(getattr(value, "__file__", None) or ""):
            self._keep_variables(vars(value), code.co_names, name)
            for part in sorted({*code.co_names} & vars(value).keys() - {"modules", "stdout", "stderr"}):
                self.add(vars(value)[part], f"{name}.{part}", (code, name, part))

    def held(self, value: object, name: str) -> None:
        """From now on what a variable of the role holds must stay as it is."""
        if is_fickle(value):
            self._refuse_fickle(value, name, None)
        self.add(value, name)

    def _unknown(self, value: object, label: str, named: _Named | None) -> None:
        """Something whose state cannot be seen, which is no harm until a role names it."""
        name = label.rsplit(maxsplit=1)[-1].rpartition(".")[2]
        if named is not None:
            code, variable, part = named
            place = _line(code, variable, GLOBAL, part)
            if place is None and variable in code.co_varnames:  # of a module that the code imports itself
                place = _line(code, part, ("LOAD_ATTR", "LOAD_METHOD"))
            if place is None:
                return
        elif name in self._names:
            place = self._place(name)
        else:
            self._unseen.setdefault(name, (label, value))
            return
        if is_fickle(value):
            self._refuse_fickle(value, label, place)
        kind = type(value).__name__
        what = f"a role uses {label}, of type {kind}, whose state cannot be seen and would be shared by all roles"
        self._refuse(f"{what}: keep numbers, states, lists and dicts in local variables", place)

    def _refuse_fickle(self, value: object, label: str, place: Source | None) -> NoReturn:
        module = module_of(value).lstrip("_")
        which = "which" if module == label else f"of {module}, which"
        self._refuse(f"a role uses {label}, {which} need not give the same again: {_DEPEND}", place)

    # -- what becomes of it

    def unchanged(self, default: Source) -> None:
        """Refuses a role that has changed what outlives it; default: a place, if none can be found in its code."""
        if self.wrong is not None:
            raise self.wrong
        for variables, names in self._lazy:
            for name in names:
                self.add(variables.get(name), name)
        as_before = all(
            all(map(is_, map(where.get, known), known.values())) for where, known in self._variables.values()
        )
        for how, of, before, label in self._apart if as_before else self._kept:
            if how is NAMED:  # as Reader.read does, without a call
                now: Flat = (*of, *of.values())
            else:
                now = tuple(of if how is ITEMS else of())
            if len(now) == len(before) and all(map(is_, before, now)):
                continue
            changed = _changed(before, now) if how is not ITEMS else None if _same(before, now) else ""
            if changed is not None:
                label = _of(label, changed)
                what = f"a role changes {label}, which all roles would share: keep it in a local variable"
                parts = reversed(label.split()[-1].split("."))
                self._refuse(what, next(filter(None, map(self._place, parts)), default))

    def head(self, loop: object, frame: FrameType | None, place: Source) -> None:
        """Called at the head of a loop without end, from the frame that asks it for the next iteration."""
        while frame is not None and frame.f_code is not BELOW:
            self.called(frame)
            if not is_product(frame.f_code.co_filename) and frame.f_code.co_code[frame.f_lasti] not in ASKING:
                self._refuse(f"a loop without end that no `for` goes through: {_WRITE}", place)
            frame = frame.f_back
        self.unchanged(place)
        self._heads.append((weakref.ref(loop), place))

    def suspended(self, generator: object) -> None:
        """Called when a role has yielded: a loop that goes on must be one of its generators' own."""
        if self.wrong is not None:
            raise self.wrong
        heads, self._heads = self._heads, []
        for ref, place in heads:
            loop = ref()
            if loop is not None and not _goes_through(generator, loop):
                what = "a loop without end inside zip, enumerate, islice or the like, whose state cannot be seen"
                self._refuse(f"{what}: {_WRITE}", place)

    def _refuse(self, what: str, place: Source | None) -> NoReturn:
        self.wrong = SpecError(what, place)
        raise self.wrong

    def _place(self, name: str) -> Source | None:
        """Where a role stores something under a name, or else names it."""
        codes = tuple(self._codes)  # which grow while this runs, since it is traced too
        own = [one for one in codes if not is_product(one.co_filename) and not is_library(one.co_filename)]
        for only in ("STORE", ""):
            for code in own:
                if code.co_filename[0] != "<" and (place := _line(code, name, only)):
                    return place
        return None


_Kept: TypeAlias = tuple[str, Any, Flat, str]
"""What a Reader has read, and what that is called."""
_Named: TypeAlias = tuple[CodeType, str, str]
"""The code, the variable of its module, and what it means of that if it is another module."""
_WRITE = "write `for k in self.loop():` and keep what else changes in variables"
_DEPEND = "let a role depend on its parameters, its local variables and the answers of its yields"


def _goes_through(generator: object, loop: object) -> bool:
    """Whether a generator, or one that it runs without anything in between, iterates over the loop."""
    todo = [generator]
    while todo:
        one = todo.pop()
        for held in vars(one).values() if isinstance(one, Plumbing) else gc.get_referents(one):
            if held is loop:
                return True
            if type(held) is GeneratorType or issubclass(type(held), Plumbing):
                todo.append(held)
    return False


def _line(code: CodeType, name: str, only: str | tuple[str, ...], part: str = "") -> Source | None:
    """The first line of the code with an instruction of this kind that has this name, and then this part of it."""
    from dis import get_instructions

    line, found = code.co_firstlineno, None
    for one in get_instructions(code):
        line = (one.positions.lineno if one.positions else None) or line
        if found is not None and (one.argval == part or one.opname == "IMPORT_FROM"):
            return found
        found = Source(code.co_filename, line) if one.argval == name and one.opname.startswith(only) else None
        if found is not None and not part:
            return found
    return None


def _imported(code: CodeType) -> dict[str, ModuleType]:
    """The modules that the code imports itself."""
    if opmap["IMPORT_NAME"] not in code.co_code[::2]:
        return {}
    from dis import get_instructions

    found: dict[str, ModuleType] = {}
    for name in (str(one.argval) for one in get_instructions(code) if one.opname == "IMPORT_NAME"):
        with suppress(Exception):  # the role will say what is wrong with it
            found[name] = import_module(name)
    return found


def _variables(where: dict[str, Any], names: tuple[str, ...]) -> Callable[[], Flat]:
    return lambda: (*names, *map(where.get, names))


def _pairs(flat: Flat) -> Iterator[tuple[str, object]]:
    half = len(flat) // 2
    return ((str(name), part) for name, part in zip(flat[:half], flat[half:], strict=True))


def _of(label: str, name: str) -> str:
    """What the part of a thing is called."""
    if name in ("__defaults__", "__kwdefaults__"):
        return f"the defaults of {label}"
    if name.startswith(" "):  # a variable around a function
        return name[1:]
    return f"{label}.{name}" if label and name and not name.startswith("__") else label or name


def _matters(whole: object, name: str, part: object) -> bool:
    """Whether a part of a class or a module is more than what Python, an enumeration or this package keeps there."""
    if not isinstance(whole, type | ModuleType):
        return True
    return is_users(module_of(whole)) and (isinstance(part, FunctionType) or not name[0] == name[-1] == "_")


def _changed(before: Flat, now: Flat) -> str | None:
    """The first name whose value is another one; "" for that of the thing itself."""
    old, new = dict(_pairs(before)), dict(_pairs(now))
    names = [name for name in {**old, **new} if name not in LAZY]
    return next((name for name in names if not _same(old.get(name), new.get(name))), None)


def _same(before: object, now: object) -> bool:
    """The same object, or equal data."""
    if type(before) is tuple and type(now) is tuple:
        return len(before) == len(now) and all(map(_same, before, now))
    return before is now or (type(before) is type(now) and type(before) in DATA and before == now)
