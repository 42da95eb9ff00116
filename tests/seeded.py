"""Changes of the kernels in examples/, as their text, one or two lines each: mistakes, and what only looks like one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from sm90_verify import Pipeline

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
KERNELS = {"flash_attention": "FlashAttention", "deep_gemm": "DeepGemm", "split_k": "SplitK"}
Edit = Callable[[str], str]


@dataclass(frozen=True)
class Seeded:
    """A kernel of examples/ after some edits. property, line: what must be found, and what stands in the line to blame
    ("": it must be proved). last: `line` is that of the last step instead, where the mistake is that nothing waits
    before it.
    """

    id: str
    kernel: str
    edits: tuple[Edit, ...]
    sizes: dict[str, object]
    property: str = ""
    line: str = ""
    last: bool = False

    def made(self, folder: Path) -> Pipeline:
        """The pipeline, and in the folder its text."""
        text = (EXAMPLES / f"{self.kernel}.py").read_text()
        for edit in self.edits:
            changed = edit(text)
            assert changed != text
            text = changed
        file = folder / f"{self.kernel}.py"
        file.write_text(text)
        spec = spec_from_file_location(self.kernel, file)
        assert spec is not None and spec.loader is not None
        module = sys.modules[self.kernel] = module_from_spec(spec)
        spec.loader.exec_module(module)
        pipeline: Pipeline = getattr(module, KERNELS[self.kernel])(**self.sizes)
        return pipeline


def put(old: str, new: str) -> Edit:
    """What stands there once, replaced."""

    def edit(text: str) -> str:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        return text.replace(old, new)

    return edit


def drop(line: str, *, after: str = "") -> Edit:
    """Leaves a line out, the one that follows `after` if there are several."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        del lines[_only(lines, line, after)]
        return "".join(lines)

    return edit


def swap(first: str, then: str) -> Edit:
    """Exchanges two lines that follow each other."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = _only(lines, then, first)
        lines[at - 1 : at + 1] = lines[at], lines[at - 1]
        return "".join(lines)

    return edit


def insert(line: str, *, before: str, after: str = "") -> Edit:
    """Puts a line before another one, as far in as that."""

    def edit(text: str) -> str:
        lines = text.splitlines(keepends=True)
        at = _only(lines, before, after)
        deep = len(lines[at]) - len(lines[at].lstrip())
        lines.insert(at, f"{' ' * deep}{line}\n")
        return "".join(lines)

    return edit


def _only(lines: list[str], begins: str, after: str) -> int:
    """The one line that begins so, behind one that begins with `after`."""
    (found,) = [
        at
        for at, line in enumerate(lines)
        if line.strip().startswith(begins) and (not after or lines[at - 1].strip().startswith(after))
    ]
    return found
