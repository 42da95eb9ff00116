"""Operations are a closed union: what is not in it is refused, and what is added to it must reach every reader."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.mutation.stream import Edit, edited
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("search", "order", "smt", "search+order")


@dataclass(frozen=True)
class Reduce(op.Yielded):
    """cp.reduce.async.bulk, as somebody writes it who adds an operation and no more."""

    accesses: tuple[Access, ...]
    tags: tuple[object, ...] = (None,)
    barrier: str = "full"


class Atomic(op.Touch):
    """An operation that would pass for another one."""


class Walks:
    """Looks like an arrival, and even says that it is one."""

    barrier, count, expect, kind, cta = "full", 1, None, "arrive", -1
    __class__ = op.Arrive


def strangers(x: Access) -> dict[str, object]:
    return {
        "a record of its own": Reduce((x,)),
        "a subclass": Atomic("write", (x,), (None,)),
        "a look-alike": Walks(),
        "an unknown kind of access": op.Touch("add", (x,), (None,)),  # type: ignore[arg-type]
        "an unknown kind of group": op.Group("mma_cancel"),  # type: ignore[arg-type]
        "an unknown kind of fence": op.Fence("alias"),  # type: ignore[arg-type]
        "an unknown kind of wait": op.Wait("full", 1, "peek"),  # type: ignore[arg-type]
        "an unknown kind of arrival": op.Arrive("full", kind="leave"),  # type: ignore[arg-type]
        "an unknown kind of request": op.Setmaxnreg(40, "set"),  # type: ignore[arg-type]
        "a word": "arrive",
    }


class Strange(Pipeline):
    """Two roles write the same bytes; one of them by an operation that nobody knows."""

    full = barrier(arrivals=1)
    x = tile(bytes=64)

    what: str = "a record of its own"

    @role(warps=1)
    def one(self):
        yield strangers(self.x[0].access)[self.what]

    @role(warps=1)
    def other(self):
        yield self.x.write()
        yield self.full.arrive()


WHATS = tuple(strangers(Access("x", "shared", 0, 64, True, "async")))


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_refuses_it_with_one_line(engine, what, capsys):
    code = main(["spec", f"{__file__}:Strange", "--set", f"what={what}", "--engine", engine])
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    (line,) = err.splitlines()
    assert "no engine knows" in line and f"{Path(__file__).name}:" in line and "yield strangers" not in line


@pytest.mark.parametrize("what", WHATS)
def test_whatever_reads_programs_refuses_it(what):
    pipeline = Strange(what=what)
    for reader in (trace, check, lambda one: mutants_of(Model(Strange, {"what": what}))):
        with pytest.raises(SpecError, match="no engine knows"):
            reader(pipeline)


class Plain(Pipeline):
    """The same without the stranger."""

    full = barrier(arrivals=1)
    x = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.x.read()

    @role(warps=1)
    def other(self):
        yield self.full.arrive()


@pytest.mark.parametrize("what", WHATS)
def test_a_mutation_that_puts_it_in_is_refused(what):
    stranger = strangers(Plain().x[0].access)[what]
    with pytest.raises(SpecError, match="no engine knows"):
        trace(edited(Plain, Edit("one", None, lambda one: (stranger,)))())


@pytest.mark.parametrize("what", WHATS)
def test_the_gate_refuses_it_in_programs_that_nobody_traced(what):
    pipeline = Plain()
    one, other = trace(pipeline).programs
    one.nodes[0].operation = strangers(pipeline.x[0].access)[what]
    with pytest.raises(SpecError, match="no engine knows"):
        validate(replace(trace(pipeline), programs=(one, other)))


OPERANDS = [
    (op.Init("full", None), "count", "int"),
    (op.Wait("full", None), "phase", "int | Token"),
    (op.Arrive("full", 1.0), "count", "int"),
    (op.Arrive("full", expect="16"), "expect", "int | None"),
    (op.NamedSync(1.0, 32), "id", "int"),
    (op.Choose("tile", [1, 2]), "options", "tuple[Hashable, ...]"),
    (op.Choose("tile", (1, [2])), "options[1]", "Hashable"),
    (op.Load(None, "full", 16, None), "write", "Access"),
    (op.Touch("read", (3,), (None,)), "accesses[0]", "Access"),
]


@pytest.mark.parametrize(("operation", "name", "type_"), OPERANDS)
def test_an_operand_of_another_type_is_refused_with_its_name(operation, name, type_):
    assert op.unknown(operation).endswith(f"whose {name} no engine knows: it is not {type_}")


def test_an_operation_that_is_in_the_union_is_known():
    known = [op.Touch("read", (), ()), op.Fence("mbarrier_init"), op.Wait("full", op.Token("full"), "try_wait")]
    assert all(op.unknown(one) == "" for one in known)
    assert set(op.OPERATIONS) == {
        record
        for record in vars(op).values()
        if isinstance(record, type) and issubclass(record, op.Yielded) and record is not op.Yielded
    }


@pytest.mark.parametrize("reader", [compile_kernel])
def test_a_reader_that_is_handed_it_ends_in_assert_never(reader):
    """Behind the gate nothing does nothing: a reader that meets a stranger stops."""
    pipeline = Plain()
    one, other = trace(pipeline).programs
    one.nodes[0].operation = Reduce((pipeline.x[0].access,))
    with pytest.raises(AssertionError):
        reader(replace(trace(pipeline), programs=(one, other)))


# ---------------------------------------------------------------- what the types say

READERS = (
    "checker/emit/sentences.py",
    "spec/model/words.py",
    "spec/ptx/effects.py",
)
"""The modules that say for each operation what it does."""
OF_SOME = (
    "checker/decide/against.py",
    "checker/evidence/hardware/recorder/conform.py",
    "checker/mutation/operators.py",
    "checker/recordings/instructions.py",
)
"""The modules that say something of each operation in a union of their own: what is not in it is refused there, or only
left out, repeated and moved by mutations.
"""
OF_KINDS = (
    "spec/ptx/effects.py",
    "checker/recordings/instructions.py",
)
"""The modules that say for each kind of an access what it does."""
RECORD = '''
@dataclass(frozen=True)
class Reduce(Yielded):
    """cp.reduce.async.bulk."""

    write: Access


OnMemory: TypeAlias = Reduce | Load'''


@pytest.fixture(scope="module")
def complaints(tmp_path_factory) -> dict[str, list[str]]:
    """By module, the errors of mypy when one record, and one kind of access, are added to the records and to nothing
    else.
    """
    copy = tmp_path_factory.mktemp("copy")
    for package in ("spec", "checker", "kernels", ".types"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", copy)
    operations = copy / "spec" / "ptx" / "memory_operations.py"
    text = operations.read_text()
    for before, after in (
        ("\nOnMemory: TypeAlias = Load", RECORD),
        ('Literal["read", "write", "red", "mma"]', 'Literal["read", "write", "red", "mma", "add"]'),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    operations.write_text(text)
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(copy / "cache"), "--no-error-summary", "--no-pretty"]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        file, _, rest = line.partition(":")
        inside = file.removeprefix(".types/sm90_verify/")
        found.setdefault(inside if inside.startswith("spec/") else f"checker/{inside}", []).append(rest)
    return found


def test_mypy_lists_the_few_readers_that_a_new_operation_must_reach(complaints):
    missing = '"assert_never" has incompatible type "Reduce"'
    assert sorted(module for module, lines in complaints.items() if any(missing in line for line in lines)) == [
        *READERS
    ]


@pytest.mark.parametrize("module", OF_KINDS)
def test_mypy_lists_every_reader_that_a_new_kind_must_reach(complaints, module):
    assert any("Literal['add']" in line for line in complaints.get(module, ()))


def matches(package: str) -> Iterator[tuple[str, ast.Match]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Match):
                yield str(path.relative_to(ROOT)), node


def records(pattern: ast.pattern) -> set[str]:
    """The operations that a pattern names."""
    return {
        one.cls.attr
        for one in ast.walk(pattern)
        if isinstance(one, ast.MatchClass)
        and isinstance(one.cls, ast.Attribute)
        and isinstance(one.cls.value, ast.Name)
        and one.cls.value.id == "op"
    }


@pytest.mark.parametrize("package", ["spec", "checker"])
def test_every_match_over_operations_ends_in_assert_never(package):
    names = {record.__name__ for record in op.OPERATIONS}
    seen = 0
    for path, match in matches(package):
        if not any(records(case.pattern) & names for case in match.cases):
            continue
        seen += 1
        *_, last = match.cases
        ends = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        assert ends and "assert_never(" in ast.unparse(last.body[0]), f"{path}:{match.lineno} does nothing for the rest"
        readers = (
            (*READERS, *OF_SOME)
            if len({name for case in match.cases for name in records(case.pattern)}) > 10
            else (path,)
        )
        assert path in readers, f"{path} says of each operation what it does: list it in READERS or OF_SOME"
    assert seen > 5


def test_kinds_are_literals():
    for record in op.OPERATIONS:
        for field in fields(record):
            if field.name == "kind":
                assert len(get_args(getattr(op, str(field.type)))) > 1
