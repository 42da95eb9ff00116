"""A recovered kernel as the text of a Python file that `verify spec` takes: declarations, a method for each role."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import indent, wrap

from sm90_verify.emit.bodies import RoleText, roles_of_kernel
from sm90_verify.emit.declared import declared
from sm90_verify.emit.numbers import written
from sm90_verify.emit.rolling import Item, Loop, OpenLoop, Sentence
from sm90_verify.spec.model.kernel import Kernel

LETTERS = "ijkmnpqrstuvwxyz"
"""Of loops, the outermost first."""

WIDTH = 120
FIRST_LOOP = "periods"
"""The one that needs no name."""
HEAD = "from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile\n"


def specification(
    kernels: Sequence[Kernel],
    title: str,
    about: Sequence[str],
    tick: Callable[[int], None] = lambda left: None,
    which: Sequence[str] = (),
) -> str:
    """The file. kernels: the cases, each a class of its own. title: what they were recovered from; about: sentences for
    the docstring. tick: called now and then. which: what the name of each class ends with (default: its number, if
    there are several). Raises SpecError for what the language cannot say.
    """
    if not which:
        which = [str(number) for number in range(len(kernels))] if len(kernels) > 1 else [""]
    names = [f"{class_name(title)}{one}" for one in which]
    classes = [_class(name, kernel, tick) for name, kernel in zip(names, kernels, strict=True)]
    said = "\n".join(["\n".join(wrap(one, WIDTH)) for one in about])
    used = [name for name in HEAD.split("import ")[1].split(", ") if any(name.strip() in one for one in classes)]
    head = f"from sm90_verify import {', '.join(one.strip() for one in used)}\n"
    return f'"""{title}\n\n{said}\n"""\n\n{head}\n\n' + "\n\n".join(classes)


def class_name(title: str) -> str:
    """`Gemm` for gemm.ptx."""
    words = re.findall(r"[A-Za-z0-9]+", title.rsplit("/", 1)[-1].split(".", maxsplit=1)[0])
    name = "".join(word[0].upper() + word[1:] for word in words) or "Kernel"
    return name if name[0].isalpha() else f"Kernel{name}"


def _class(name: str, kernel: Kernel, tick: Callable[[int], None]) -> str:
    things = declared(kernel)
    roles = roles_of_kernel(kernel, things, tick)
    lines = [f"class {name}(Pipeline):", *(f"    {one}" for one in _parameters(kernel))]
    lines += [f"    {ring.declaration()}" for ring in things.rings]
    methods = "\n\n".join(indent(_method(one, kernel), "    ") for one in roles)
    return "\n".join(lines) + f"\n\n{methods}\n"


def _parameters(kernel: Kernel) -> Iterator[str]:
    if kernel.cluster.size > 1:
        yield f'cluster = "{kernel.cluster.x}x{kernel.cluster.y}"'
    if any(node.loop for program in kernel.programs for node in program.nodes):
        yield 'trips = "all"  # of self.loop(); all other loops are written out'
    else:
        yield "trips = 1  # loops are written out"
    yield f"met = {kernel.rules.met}"
    if kernel.rules.strict:
        yield "strict = True"
    yield f"registers = {kernel.registers}"


def _method(role: RoleText, kernel: Kernel) -> str:
    """One role, with its decorator."""
    arguments = [f"threads={role.threads}"]
    if role.split != (tuple(range(role.threads)),):
        arguments.append(f"split={_tuple([_numbers(part) for part in role.split])}")
    if len(role.ctas) < kernel.cluster.size:
        arguments.append(f"ctas={role.ctas!r}")
    decorated = f"@role({', '.join(arguments)})"
    if len(decorated) > WIDTH - 4:
        decorated = "\n".join(["@role(", *(f"    {one}," for one in arguments), ")"])
    lines = [decorated, f"def {role.name}(self, me: Threads) -> Body:"]
    if role.tokens:
        lines.append("    token = {}")
    lines += _body(role.items, (), 1, ())
    if not role.items:
        lines += ["    return", "    yield"]
    return "\n".join(lines)


def _numbers(part: Sequence[int]) -> str:
    """`range(0, 32)`; several runs with their numbers side by side."""
    runs: list[list[int]] = []
    for number in part:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [f"range({run[0]}, {run[-1] + 1})" for run in runs]
    return said[0] if len(said) == 1 else _tuple([f"*{one}" for one in said])


def _tuple(members: Sequence[str]) -> str:
    return f"({', '.join(members)}{',' if len(members) == 1 else ''})"


def _body(items: Sequence[Item], loops: tuple[str, ...], depth: int, parts: tuple[int, ...] | None) -> Iterator[str]:
    """loops: the variables of those around, the innermost first; parts: those that come here."""
    now, inside = parts, depth
    for item in items:
        theirs = parts if item.parts is None else item.parts
        if theirs != now:
            now, inside = theirs, depth
            if theirs != parts:
                inside = depth + 1
                some = f"in {theirs!r}" if len(theirs or ()) > 1 else f"== {(theirs or (0,))[0]}"
                yield f"{'    ' * depth}if me.index {some}:"
        pad = "    " * inside
        match item:
            case Loop(count, body):
                name = LETTERS[len(loops)] if len(loops) < len(LETTERS) else f"i{len(loops)}"
                yield f"{pad}for {name} in range({count}):"
                yield from _body(body, (name, *loops), inside + 1, theirs)
            case OpenLoop(name, body):
                yield f"{pad}for _ in self.loop({'' if name == FIRST_LOOP else f'name={name!r}'}):"
                yield from _body(body, loops, inside + 1, theirs)
            case Sentence():
                yield from _lines(item, ("me.warp", *loops, "me.cta"), pad)


def _lines(sentence: Sentence, variables: Sequence[str], pad: str) -> Iterator[str]:
    text = "".join(
        piece if isinstance(piece, str) else written(sentence.numbers[piece.which], piece, variables)
        for piece in sentence.template
    )
    comment = f"  # {sentence.line}"
    if len(pad + text + comment) <= WIDTH:
        yield pad + text + comment
        return
    opened = text.index("(")
    yield pad + text[: opened + 1] + comment
    yield from _filled(text[opened + 1 : -1].split(", self."), f"{pad}    ")
    yield f"{pad})"


def _filled(arguments: Sequence[str], pad: str) -> Iterator[str]:
    """As many on each line as there is room for."""
    line = ""
    for number, argument in enumerate(arguments):
        one = (f"self.{argument}" if number else argument) + ","
        if line and len(f"{pad}{line} {one}") > WIDTH:
            yield pad + line
            line = ""
        line = f"{line} {one}" if line else one
    yield pad + line
