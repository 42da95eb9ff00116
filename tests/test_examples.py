"""Every command that an example promises something about gives that verdict, and blames the line that is marked."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sm90_verify.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "examples").glob("*.py"))
PROMISE = re.compile(r"^\$ verify (spec .*)\n(PROVED|VIOLATED (\S+))$", re.MULTILINE)
EXIT_CODES = {"PROVED": 0, "VIOLATED": 1}


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def promises() -> list[tuple[Path, list[str], str, str]]:
    return [
        (path, found[1].split(), found[2].split()[0], found[3] or "")
        for path in FILES
        for found in PROMISE.finditer(docstring(path))
    ]


def marked_line(path: Path, words: list[str]) -> int:
    """The line with `# wrong with NAME=VALUE`, for the setting of the command, or `# wrong:` if it has none."""
    mark = f"# wrong with {words[words.index('--set') + 1]}" if "--set" in words else "# wrong:"
    (line,) = [number for number, text in enumerate(path.read_text().splitlines(), 1) if mark in text]
    return line


@pytest.mark.parametrize(
    ("path", "words", "verdict", "property"),
    [pytest.param(*one, id=" ".join(one[1][1:]).removeprefix("examples/")) for one in promises()],
)
def test_example_keeps_its_promise(path, words, verdict, property, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert Path(words[1]) == path.relative_to(ROOT)
    code = main(words)
    text = capsys.readouterr().out
    assert code == EXIT_CODES[verdict]
    assert text.splitlines()[-1].startswith(f"verify: {verdict} ")
    if verdict == "VIOLATED":
        assert text.startswith(f"error[{property}]: ")
        blamed = re.search(r"^>\s*(\d+)\|", text, re.MULTILINE)
        assert blamed is not None
        assert int(blamed[1]) == marked_line(path, words)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_example_says_what_it_shows(path):
    """A sentence first, then its commands, each on a line of its own and followed by what it gives."""
    text = docstring(path)
    assert text.splitlines()[0].endswith(".")
    commands = [line for line in text.splitlines() if line.startswith("$")]
    assert len(commands) == len(PROMISE.findall(text)) > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_example_uses_the_public_face_alone(path):
    tree = ast.parse(path.read_text())
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported == ["sm90_verify"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]


def test_readme_shows_the_double_buffer_and_what_the_command_prints(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    readme = (ROOT / "README.md").read_text()
    source = (ROOT / "examples" / "double_buffer.py").read_text()
    assert source.partition("\n\n\n")[2] in readme
    main(["spec", "examples/double_buffer.py"])
    *report, last = capsys.readouterr().out.splitlines()
    assert "\n".join(report) in readme
    assert last.rpartition("  ")[0] in readme
