"""What may import what, read from the sources; and what keeps the house small: circles, lengths, words."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from imports import ROOT, circles, edges, imported, modules, tree

HEAVY = ("z3", "networkx", "cupy", "elftools", "numba", "numpy", "hypothesis")

ENGINE = "engines/engine"
"""What a question and an answer are: engine.py, effort.py, shown.py, shorten.py and violation.py, which the engines
themselves use.
"""
ENGINES = ("engines/search", "engines/order", "engines/smt")
BASE = ("files", "made_of", "result", "python_file")
"""Single modules of checker/."""

MACHINE = ("spec/errors", "spec/ptx", "spec/model")
"""What a kernel and a Machine are; nobody who has them needs to know how they were written."""
SPEC = (*MACHINE, "spec/language", "spec/cutlass")
PRODUCT = ("counterexample", ENGINE, *ENGINES, "engines", "recordings", "report", "mutation", "gpu")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "spec/errors": (),
    "spec/ptx": ("spec/errors",),
    "spec/model": ("spec/errors", "spec/ptx"),
    "spec/language": MACHINE,
    "spec/cutlass": (*MACHINE, "spec/language"),
    "files": ("spec/errors",),
    "made_of": (),
    "result": ("spec/model", "made_of"),
    "python_file": ("spec/errors", "spec/language"),
    "counterexample": (*SPEC, "result", "python_file"),
    ENGINE: (*MACHINE, "result", "counterexample"),
    "engines/search": (*MACHINE, ENGINE),
    "engines/order": (*MACHINE, "result", "counterexample", ENGINE),
    "engines/smt": (*MACHINE, "result", ENGINE, "engines/search"),
    "engines": (*SPEC, "result", ENGINE, *ENGINES),
    "frontends": (*MACHINE, "files", "made_of", "result"),
    "recordings": (*SPEC, *BASE, "counterexample", "engines/search"),
    "report": ("spec/errors", "made_of", "result"),
    "mutation": (*MACHINE, "spec/language"),
    "emit": (*MACHINE, "spec/language"),
    "gpu": (*SPEC, *BASE, "counterexample", "engines/search", "recordings"),
    "decide": (*SPEC, *BASE, ENGINE, "engines", "frontends", "emit", "mutation"),
    "cli": (
        *SPEC,
        *BASE,
        "counterexample",
        "engines",
        "decide",
        "frontends",
        "recordings",
        "report",
        "gpu",
        "cli/evidence",
    ),
    "cli/evidence": (*SPEC, "result", "engines", "recordings", "gpu", "cli", "evidence"),
    "evidence": (
        *SPEC,
        *BASE,
        "counterexample",
        ENGINE,
        *ENGINES,
        "engines",
        "frontends",
        "decide",
        "recordings",
        "report",
        "mutation",
        "gpu",
        "decide",
    ),
    "public face": (*SPEC, *BASE, "counterexample", "engines", "frontends", "report"),
}
"""By room, the other rooms that its modules may import: at the top, inside functions, and for types alone. cli/evidence
is the one module that loads the evidence, and is loaded by the commands that show it.
"""
LIMIT = 350
"""Lines of a module of the product: one idea each."""


def room(name: str) -> str:
    """The room that a module is in."""
    parts = name.split(".")[1:]
    if not parts:
        return "public face"
    if parts[0] == "spec":
        return "/".join(parts[:2])
    if parts[0] == "engines" and parts[1:] in ([one] for one in ("engine", "effort", "shown", "shorten", "violation")):
        return ENGINE
    if (parts[0] == "engines" and len(parts) > 2) or parts == ["cli", "evidence"]:
        return "/".join(parts[:2])
    return "cli" if parts == ["__main__"] else parts[0]


def product() -> dict[str, Path]:
    """What a user runs."""
    return {name: path for name, path in modules().items() if room(name) != "evidence"}


def within(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# ---------------------------------------------------------------- imports


def test_rooms_import_the_rooms_below_and_no_others():
    wrong = [
        f"{name} ({room(name)}) imports {other}"
        for name, others in edges().items()
        for other in others
        if room(other) not in (room(name), *MAY_IMPORT[room(name)])
    ]
    assert wrong == []


def test_the_table_of_rooms_says_nothing_that_is_not_so():
    """No room is allowed another that none of its modules imports, and no two rooms lie above each other."""
    above = {
        here: {there for there in rooms if here != "cli/evidence" or there != "cli"}
        for here, rooms in MAY_IMPORT.items()
    }
    assert list(TopologicalSorter(above).static_order())
    used = {(room(name), room(other)) for name, others in edges().items() for other in others}
    idle = [(here, there) for here, rooms in MAY_IMPORT.items() for there in rooms if (here, there) not in used]
    assert [(here, there) for here, there in idle if there not in (*SPEC, *BASE)] == []
    assert set(MAY_IMPORT) == {room(name) for name in modules() if name != "sm90_verify.spec"}


def test_no_module_imports_itself_by_way_of_others():
    assert circles() == []


def test_the_product_does_not_load_what_is_said_about_it():
    loads = {name for name, others in edges().items() for other in others if room(other) == "evidence"}
    assert {name for name in loads if room(name) != "evidence"} == {"sm90_verify.cli.evidence"}
    for name, path in modules().items():
        for other, at_top in imported(path):
            if other == "sm90_verify.cli.evidence" or (room(name) == "cli/evidence" and ".evidence." in other):
                assert not at_top, f"{name} imports {other} at its top"


def test_spec_imports_no_package():
    for name, path in modules().items():
        if room(name).startswith("spec"):
            for other, _ in imported(path):
                inside = other.startswith("sm90_verify.spec.")
                assert inside or other.split(".")[0] in sys.stdlib_module_names, f"{name} imports {other}"


@pytest.mark.parametrize(("package", "module"), [("z3", "read_z3.py"), ("cupy", "device.py")])
def test_one_module_imports(package, module):
    knows = re.compile(rf"\bimport {package}\b|\bfrom {package}\b|import_module\(.{package}.\)")
    assert [path.name for path in modules().values() if knows.search(path.read_text())] == [module]


def test_heavy_packages_are_imported_inside_functions():
    for name, path in modules().items():
        for other, at_top in imported(path):
            assert not (at_top and other.split(".")[0] in HEAVY), f"{name} imports {other} at its top"


# ---------------------------------------------------------------- what a command loads


def loaded_by(code: str) -> list[str]:
    """The modules that are loaded when the code has run in a process of its own."""
    code = f"import sys\n{code}\nprint(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stderr.splitlines()


def run(*words: str) -> str:
    return f"from sm90_verify.cli.main import main\nmain({list(words)})"


def test_help_loads_no_engine_and_no_model():
    loaded = loaded_by(run("--help"))
    assert "argparse" in loaded and "sm90_verify.cli.usage" in loaded
    rooms = {room(name) for name in loaded if name in modules()} - {"public face"}
    assert rooms <= {"cli", "made_of", "result", "files", "spec", "spec/errors", "spec/ptx", "spec/model"}
    assert not [name for name in loaded if name.split(".")[0] in HEAVY or name.startswith("sm90_verify.spec.model.c")]


def test_help_starts_at_once():
    """In modules, since seconds depend on the machine: fewer than half of what a check loads."""
    ours = [name for name in loaded_by(run("--help")) if name in modules()]
    assert len(ours) < 25, ours


def test_a_recording_is_read_without_gpu_modules_and_mutants():
    loaded = loaded_by(
        "from sm90_verify.recordings.recording import is_recording, read\n"
        "from sm90_verify.recordings.acceptance import check_recording"
    )
    assert not [name for name in loaded if name.startswith("sm90_verify.gpu.")]
    assert not [name for name in loaded if name.startswith(("sm90_verify.evidence", "sm90_verify.mutation"))]


def test_verify_log_of_a_recording_loads_neither_mutants_nor_evidence(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    made = f"""
sys.path.insert(0, {str(ROOT / "tests")!r})
from simulated import GPU, model_of, simulated
from sm90_verify.recordings.recording import recorded, write
from sm90_verify.spec.cutlass.classes import TmaAsync
plan, model = model_of(TmaAsync(stages=1, trips=2))
write([recorded(GPU, plan, [simulated(plan, model.machine, 1)], 0)], {str(path)!r})
"""
    loaded_by(made)
    loaded = loaded_by(run("log", str(path)))
    assert "sm90_verify.recordings.linearise" in loaded
    for package in ("mutation", "evidence", "gpu"):
        assert not [name for name in loaded if name.startswith(f"sm90_verify.{package}")], package


# ---------------------------------------------------------------- how it is laid out


def test_modules_stay_small():
    long = {within(path) for path in product().values() if len(path.read_text().splitlines()) > LIMIT}
    assert long == set(), "one idea a module"
    assert all(len(path.read_text().splitlines()) < 500 for path in modules().values())


def test_packages_are_the_folders_with_python_files():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name for name, path in modules().items() if path.name == "__init__.py"}
    folders = {path.parent for path in modules().values()}
    assert len(packages) == len(folders), "a folder without __init__.py"
    assert set(settings["packages"]) == packages | {"sm90_verify.kernels"}


def test_the_type_checker_sees_everything():
    links = {path.name: path for path in (ROOT / ".types" / "sm90_verify").iterdir()}
    children = {path.name for path in (ROOT / "checker").iterdir() if not path.name.startswith(("__pycache__", "."))}
    assert set(links) == children | {"spec", "kernels"}
    for name, link in links.items():
        home = ROOT / name if name in ("spec", "kernels") else ROOT / "checker" / name
        assert link.resolve() == home


# ---------------------------------------------------------------- names


def test_a_class_name_means_one_thing():
    """The same mistake in a pipeline class and in the GEMM has one name; nothing else is called like something else."""
    homes: dict[str, list[str]] = {}
    for path in modules().values():
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(within(path))
    hardware = "checker/evidence/hardware"
    both = [f"{hardware}/gemm/models.py", f"{hardware}/pipelines/mistaken.py"]
    assert {name: places for name, places in homes.items() if len(places) > 1 and sorted(places) != both} == {}


def test_a_constant_has_one_home():
    """No two modules give the same name to the same value."""
    homes: dict[tuple[str, str], list[str]] = {}
    for path in modules().values():
        for node in tree(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
                name = node.targets[0].id.lstrip("_")
                homes.setdefault((name, ast.dump(node.value)), []).append(within(path))
    assert {name: places for (name, _), places in homes.items() if len(places) > 1} == {}
