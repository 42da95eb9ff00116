"""What may import what, read from the sources: spec knows no engine, and heavy packages stay out of the start-up."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("z3", "networkx", "cupy", "numba", "numpy", "hypothesis")


def imports(path: Path) -> dict[str, bool]:
    """Imported modules by name, also those given to import_module; True where the import is at the top of the
    module.
    """
    tree = ast.parse(path.read_text())
    top = set(map(id, tree.body))
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        for name in names:
            found[name] = found.get(name, False) or id(node) in top
    return found


def sources(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found
    return found


def test_spec_imports_nothing_of_checker_and_no_package():
    for path in sources("spec"):
        for name in imports(path):
            inside = name.startswith("sm90_verify.spec.")
            assert inside or name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_one_module_imports_z3():
    knows = re.compile(r"\bimport z3\b|\bfrom z3\b|import_module\(.z3.\)")
    assert [path.name for path in sources("checker") if knows.search(path.read_text())] == ["read_z3.py"]


def test_one_module_imports_cupy():
    knows = re.compile(r"\bimport cupy\b|\bfrom cupy\b|import_module\(.cupy.\)")
    assert [path.name for path in sources("checker") if knows.search(path.read_text())] == ["device.py"]


def test_heavy_packages_are_imported_inside_functions():
    for path in sources("checker"):
        for name, at_top in imports(path).items():
            if name.split(".")[0] in HEAVY:
                assert not at_top, f"{path.name} imports {name} at its top"


def test_help_loads_no_engine():
    code = (
        "import sys; from sm90_verify.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\nprint(sorted(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    loaded = out.splitlines()[-1]
    assert "argparse" in loaded
    for name in (*HEAVY, "sm90_verify.spec.model.compile", "sm90_verify.engines.search.explore"):
        assert f"'{name}'" not in loaded


def test_modules_stay_small():
    for package in ("spec", "checker"):
        for path in sources(package):
            lines = len(path.read_text().splitlines())
            assert lines <= 450, f"{path.name} has {lines} lines: one idea a module"
