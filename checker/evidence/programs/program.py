"""A program of a few roles as data that can be changed at random, its text, and the pipeline that the text says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import sm90_verify
from sm90_verify.spec.language.pipeline import Pipeline

NAME = "Found"
"""Of the class."""


class Text(str):
    """An argument that stands in the text as it is."""


class Handle(NamedTuple):
    """A barrier, a buffer or a word, as a role names it. at: its index, "" where the array has one slot; cta: the CTA
    in which it lies, if that is another one.
    """

    name: str
    at: str = ""
    cta: str = ""

    @property
    def text(self) -> str:
        return f"self.{self.name}{self.at}" + (f".on({self.cta})" if self.cta else "")


Value: TypeAlias = int | str | bool | tuple[int, ...] | Handle


class Statement(NamedTuple):
    """One operation. on: whose verb it is, None for one of the pipeline. given: its arguments by keyword, "" for those
    by place. until: it is repeated until its answer compares so ("" for an operation that is done once). cases: what
    follows, by a condition on its answer.
    """

    verb: str
    on: Handle | None = None
    given: tuple[tuple[str, Value], ...] = ()
    until: str = ""
    cases: tuple[tuple[str, tuple[Statement, ...]], ...] = ()

    @property
    def call(self) -> str:
        values = ((name, value.text if isinstance(value, Handle) else _literal(value)) for name, value in self.given)
        said = ", ".join(f"{name}={text}" if name else text for name, text in values)
        return f"{'self' if self.on is None else self.on.text}.{self.verb}({said})"

    def argument(self, name: str) -> Value | None:
        return dict(self.given).get(name)


class RoleOf(NamedTuple):
    """said: the arguments of its declaration. looped: what it does is one iteration of its loop."""

    said: str
    steps: tuple[Statement, ...]
    looped: bool = False


class RandomProgram(NamedTuple):
    """settings: parameters of the pipeline by name. declared: its barriers, buffers and words by name."""

    settings: tuple[tuple[str, int | str | bool], ...]
    declared: tuple[tuple[str, str], ...]
    roles: tuple[RoleOf, ...]


class Written(NamedTuple):
    """The text of a program, and the step that is executed at each line."""

    text: str
    steps: dict[int, Statement]


def written(program: RandomProgram) -> Written:
    """The program as a file for `verify spec`."""
    lines = ["from sm90_verify import Pipeline, barrier, role, tile, word", "", "", f"class {NAME}(Pipeline):"]
    lines += [f"    {name} = {value!r}" for name, value in program.settings]
    lines += [f"    {name} = {text}" for name, text in program.declared]
    steps: dict[int, Statement] = {}
    for number, one in enumerate(program.roles):
        lines += ["", f"    @role({one.said})"]
        head, body = len(lines), list(_lines(one.steps, "        "))
        used = "".join(line for line, _ in body)
        taken = ["self", *(["at"] if one.looped else []), *(["me"] if "me." in used else [])]
        lines.append(f"    def r{number}({', '.join(taken)}):")
        for line, step in body:
            lines.append(line)
            if step is not None:
                steps[len(lines)] = step
        if len(lines) == head + 1:
            lines.append("        yield self.warp_sync()")
            steps[len(lines)] = Statement("warp_sync")
    return Written("\n".join(lines) + "\n", steps)


def _lines(steps: tuple[Statement, ...], indent: str) -> Iterator[tuple[str, Statement | None]]:
    for step in steps:
        if step.until:
            yield f"{indent}while not ((yield {step.call}) {step.until}):", step
            yield f"{indent}    pass", None
        elif step.cases:
            got = f"got{len(indent) // 4 - 2 or ''}"
            yield f"{indent}{got} = yield {step.call}", step
            for condition, then in step.cases:
                if then:
                    yield f"{indent}if {got} {condition}:", None
                    yield from _lines(then, indent + "    ")
        else:
            yield f"{indent}yield {step.call}", step


def _literal(value: Value) -> str:
    return str(value) if isinstance(value, Text) else repr(value)


def pipeline_of(text: str) -> Pipeline:
    """The pipeline that a text says; raises SpecError if its declarations have no meaning."""
    module: dict[str, Any] = {"__name__": "random_program"}
    for name in ("Pipeline", "barrier", "role", "tile", "word"):
        module[name] = getattr(sm90_verify, name)
    exec(compile(text, "random_program.py", "exec"), module)
    found: Pipeline = module[NAME]()
    return found
