"""docs/language.md lists every operation that a role can yield, and nothing that it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sm90_verify.spec.language.barriers import Barrier
from sm90_verify.spec.language.handles import Tile
from sm90_verify.spec.language.verbs import Verbs
from sm90_verify.spec.language.word import Word

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "language.md").read_text()
VERBS = sorted(
    {
        name
        for kind in (Verbs, Barrier, Tile, Word)
        for name, code in vars(kind).items()
        if callable(code) and not name.startswith("_") and name not in ("created", "of")
    }
)


@pytest.mark.parametrize("verb", VERBS)
def test_every_operation_is_listed(verb):
    assert re.search(rf"[.`]{verb}\(", PAGE), f"{verb} is not in docs/language.md"


def test_nothing_else_is_listed():
    table = PAGE.split("## Operations")[1].split("## Several CTAs")[0]
    listed = set(re.findall(r"`?(?:self)?(?:\.\w+\[at\])?\.(\w+)\(", table))
    assert listed - {*VERBS, "loop", "forever"} == set()
