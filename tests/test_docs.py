"""The pages: what they name is there, and what they quote is what it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from sm90_verify.evidence.mutation.score import REASONS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "kernels" / "README.md"]
SOURCES = [
    *(path for folder in ("spec", "checker", "tests", "examples") for path in sorted((ROOT / folder).rglob("*.py"))),
    *sorted((ROOT / "kernels").glob("*.cu*")),
]
SOURCES.remove(Path(__file__).resolve())
ROOMS = [path.name for folder in ("spec", "checker") for path in sorted((ROOT / folder).iterdir()) if path.is_dir()]
ROOMS.remove("cutlass")  # CUTLASS has a folder of this name itself
FILE = re.compile(rf"(?<![\w/.-])((?:spec|checker|kernels|tests|docs|examples|{'|'.join(ROOMS)})/[\w./*]*\w)(?![\w{{])")
MODULE = re.compile(r"(?<![\w.'\"/])(spec|checker|sm90_verify)((?:\.[a-z]\w*)+)(?!\w|\()")


def exists(name: str) -> bool:
    """Files of the repository, also as rooms call each other's, with or without .py."""
    bases = (ROOT, ROOT / "spec", ROOT / "checker")
    return any(list(base.glob(name)) or list(base.glob(f"{name}.py")) for base in bases)


def stale_files(text: str) -> list[str]:
    return [name for name in FILE.findall(text) if not exists(name)]


def stale_modules(text: str) -> list[str]:
    """Dotted names of which neither the whole nor all but the last part is a module."""
    found = []
    for top, rest in MODULE.findall(text):
        parts = rest.strip(".").split(".")
        if top == "sm90_verify" and parts[0] in ("spec", "kernels"):
            top, parts = parts[0], parts[1:]
        folder = ROOT / ("checker" if top == "sm90_verify" else top)
        places = [folder.joinpath(*parts), folder.joinpath(*parts[:-1])]
        if not any(place.is_dir() or place.with_suffix(".py").is_file() for place in places):
            found.append(f"{top}{rest}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page):
    text = page.read_text()
    assert stale_files(text) == []
    assert stale_modules(text) == []


def test_every_file_that_a_source_names_is_there():
    """In docstrings and comments, and wherever else a file is named."""
    stale = {str(path.relative_to(ROOT)): stale_files(path.read_text()) for path in SOURCES}
    assert {path: names for path, names in stale.items() if names} == {}


def test_every_module_that_a_docstring_names_is_there():
    stale = {}
    for path in SOURCES:
        docstrings = "\n".join(re.findall(r'"""(?:.|\n)*?"""|#.*', path.read_text()))
        stale[str(path.relative_to(ROOT))] = stale_modules(docstrings)
    assert {path: names for path, names in stale.items() if names} == {}


def test_what_is_gone_is_noticed():
    assert stale_files("see spec/program.py, `checker/hardware/record.py` and engines/search/explore.py") == [
        "spec/program.py",
        "checker/hardware/record.py",
    ]
    assert stale_modules(
        "spec.program.walk, spec.ptx.expr.evaluate, sm90_verify.log.check, sm90_verify.report.text"
    ) == [
        "spec.program.walk",
        "sm90_verify.log.check",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_setup_lines_are_what_the_continuous_integration_runs():
    setup = [line.strip() for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("    python3")]
    assert len(setup) == 2
    assert setup[0].endswith("verify pipeline --stages 4")
    assert setup[1] in (ROOT / ".ci" / "run").read_text().splitlines()
    assert setup[1] in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_quick_subset_is_a_list_of_test_files():
    names = (ROOT / "tests" / "quick.txt").read_text().split()
    assert names == sorted(names)
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_the_changelog_knows_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_what_is_said_of_survivors_is_explained():
    page = (ROOT / "docs" / "ptx.md").read_text()
    assert {reason for reason in REASONS if f"- `{reason}`: " not in page} == set()
