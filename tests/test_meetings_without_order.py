"""Lanes that meet where that orders no memory: what their warp's barriers and arrivals order besides."""

from __future__ import annotations

import random

import pytest

from sm90_verify import Pipeline, barrier, check, role, tile
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED


class Lanes(Pipeline):
    """Two parts of a warp, and another one. A letter each: r, w: read and write a; R, W: b; S: __syncwarp; s: the lanes
    meet as at elect.sync; a: an arrival; m: a wait for the arrivals of all.
    """

    first = ""
    second = ""
    other = ""
    full = barrier(arrivals="count")
    count = 1
    a = tile(bytes=16)
    b = tile(bytes=16)

    @role(threads=32, split=(1, 31))
    def lanes(self, me):
        yield from self.does(self.first if me.first == 0 else self.second, me.threads)

    @role(warps=1)
    def looks(self, me):
        yield from self.does(self.other, me.threads)

    def does(self, letters, threads):
        for letter in letters:
            match letter:
                case "r" | "R":
                    yield (self.a if letter == "r" else self.b).read()
                case "w" | "W":
                    yield (self.a if letter == "w" else self.b).write()
                case "S" | "s":
                    yield self.warp_sync(orders=letter == "S")
                case "a":
                    yield self.full.arrive(threads)
                case _:
                    yield self.full.wait(0)


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
    pipeline = Lanes(first=first, second=second)
    assert verdicts(pipeline, "search")["race"] == verdicts(pipeline, "order")["race"] == race


@pytest.mark.parametrize("seed", range(40))
def test_order_does_not_contradict_a_search(seed):
    pick = random.Random(seed)
    meets = [pick.choice("Ss") for _ in range(3)]
    first, second = ("".join(pick.choice(["", "r", "w", "R", "W", "a"]) + meet for meet in meets) for _ in range(2))
    first, second = (text + pick.choice(["", "r", "w"]) for text in (first, second))
    other = pick.choice(["", "mr", "mw", "mRw"])
    count = first.count("a") + 31 * second.count("a") or 1
    other = other if "a" in first + second else ""
    pipeline = Lanes(first=first, second=second, other=other, count=count)
    searched, ordered = (verdicts(pipeline, engine) for engine in ("search", "order"))
    for property, verdict in ordered.items():
        assert verdict == UNDETERMINED or verdict == searched.get(property, verdict), (property, first, second, other)
