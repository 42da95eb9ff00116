"""Barrier 0 without a count and with one: the same barrier, as long as its uses do not overlap."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError

WARPS = """
	mov.u32 %r0, %tid.x;
	setp.ge.u32 %p0, %r0, 32;
"""
FIRST, SECOND = "@%p0 bra {to};", "@!%p0 bra {to};"


def alone(body: str, who: str, name: str) -> str:
    """Instructions of one of the two warps."""
    return f"{who.format(to=name)}\n{body}\n{name}:\n"


HANDED = alone("bar.arrive 0, 64;", FIRST, "A") + alone("bar.sync 0, 64;", SECOND, "B")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("bar.sync 0;\nbar.sync 0, 64;\nbar.sync 0;\n", {"deadlock": PROVED}),
        (f"bar.sync 0;\n{alone('bar.sync 0, 32;', FIRST, 'A')}", {"deadlock": PROVED, "named-barrier": PROVED}),
        (f"bar.sync 0;\n{HANDED}bar.sync 1, 64;\nbar.sync 0;\n", {"deadlock": PROVED, "named-barrier": PROVED}),
        # the first warp comes twice, and the second one is left behind
        (f"bar.sync 0;\n{HANDED}bar.sync 0;\n", {"deadlock": VIOLATED}),
        # the other warp can come to the whole one while the first is in its own
        (f"{alone('bar.sync 0, 32;', FIRST, 'A')}bar.sync 0;\n", {"named-barrier": VIOLATED, "deadlock": UNDETERMINED}),
        # the second warp ends without the barrier that counts it
        (f"{alone('bar.sync 0, 64;', FIRST, 'A')}", {"deadlock": VIOLATED}),
        (f"{alone('bar.sync 0;', FIRST, 'A')}", {"deadlock": PROVED}),
    ],
    ids=["whole", "part", "arrive", "twice", "overlap", "one too few", "exits"],
)
def test_it_is_one_barrier(tmp_path, body, expected):
    found = verdicts(asked(tmp_path, kernel(WARPS + body), launch(64)))
    assert {id: found[id] for id in expected} == expected


def test_where_a_thread_has_exited_it_is_two(tmp_path):
    """__syncthreads() does not wait for the second warp, and a barrier that counts does."""
    body = alone("bar.sync 0;\nbar.sync 0, 32;", FIRST, "A")
    with pytest.raises(SpecError, match=r"named barrier 0 is that of __syncthreads\(\).*use another id"):
        asked(tmp_path, kernel(WARPS + body), launch(64))
