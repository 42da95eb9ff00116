"""Lanes that meet where that orders no memory: what their warp's barriers and arrivals order besides."""

from __future__ import annotations

import random

import pytest
from lanes_that_meet import Hands

from sm90_verify import Pipeline, check
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED


def verdicts(pipeline: Pipeline, engine: str) -> dict[str, str]:
    return {one.id: one.verdict for one in check(pipeline, engine=engine).findings}


@pytest.mark.parametrize(
    ("first", "second", "race"),
    [
        ("wSrs", "Srs", PROVED),  # who runs ahead leaves the read without release, and the write has been shown
        ("wSs", "Srs", PROVED),
        ("wSsW", "Srs", PROVED),
        ("wsS", "sSr", PROVED),
        ("ws", "sr", VIOLATED),
        ("wsS", "srS", VIOLATED),
        ("wSsws", "Srsr", VIOLATED),
    ],
)
def test_a_barrier_of_the_warp_orders_what_came_before_it(first, second, race):
    pipeline = Hands(first=first, second=second)
    assert verdicts(pipeline, "search")["race"] == verdicts(pipeline, "order")["race"] == race


@pytest.mark.parametrize("seed", range(40))
def test_order_does_not_contradict_a_search(seed):
    pick = random.Random(seed)
    meets = [pick.choice("Ss") for _ in range(3)]
    first, second = ("".join(pick.choice(["", "r", "w", "R", "W", "p"]) + meet for meet in meets) for _ in range(2))
    first, second = (text + pick.choice(["", "r", "w"]) for text in (first, second))
    other = pick.choice(["", "qr", "qw", "qRw"])
    count = first.count("p") + 31 * second.count("p") or 1
    other = other if "p" in first + second else ""
    pipeline = Hands(first=first, second=second, other=other, count=count)
    searched, ordered = (verdicts(pipeline, engine) for engine in ("search", "order"))
    for property, verdict in ordered.items():
        assert verdict == UNDETERMINED or verdict == searched.get(property, verdict), (property, first, second, other)
