"""Where an order is lost on the way over several roles, what orders less than the rest is to blame, whoever it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sm90_verify import VIOLATED, Pipeline, barrier, check, role, tile, word
from sm90_verify.report.blame import guilty_step


class Words(Pipeline):
    """A flag that is raised, seen, and handed on by another one."""

    cluster = "2x1"
    first, seen, handed, last = "release", "acquire", "release", "acquire"
    near = ""
    flag = word(slots=2)
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write()
        yield self.flag[0].st(1, sem=self.first)  # first

    @role(warps=1, ctas=(0,))
    def between(self):
        yield self.flag[0].spin(equals=1, sem=self.seen)  # seen
        yield self.flag[1].st(1, sem=self.handed, scope="cta" if self.near == "handed" else "gpu")  # handed

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag[1].spin(equals=1, sem=self.last, scope="cta" if self.near == "last" else "gpu")  # last
        yield self.data.read()


class Barriers(Pipeline):
    """The same with mbarriers, the second of which is in another CTA."""

    cluster = "2x1"
    met = True
    first, seen, handed, last = "release", "acquire", "release", "acquire"
    scope = ""
    told = barrier(arrivals=1, slots=2)
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write()
        yield self.told[0].arrive(sem=self.first)  # first

    @role(warps=1, ctas=(0,))
    def between(self):
        yield self.told[0].wait(0, sem=self.seen)  # seen
        yield self.told[1].on(1).arrive(sem=self.handed, scope=self.scope)  # handed

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.told[1].wait(0, sem=self.last)  # last
        yield self.data.read()


class Fences(Pipeline):
    """A relaxed flag with fences on its sides."""

    cluster = "2x1"
    before = after = "gpu"
    flag = word()
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write()
        if self.before:
            yield self.fence_acq_rel(self.before)  # before
        yield self.flag.st(1)  # raised

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag.spin(equals=1, sem="relaxed")  # seen
        if self.after:
            yield self.fence_acq_rel(self.after)  # after
        yield self.data.read()


class Landed(Pipeline):
    """The phase of a copy is seen without acquiring what it brings, by the reader or on the way to it."""

    between, last = "acquire", "acquire"
    full = barrier(arrivals=1, slots=1)
    told = barrier(arrivals=1, slots=1)
    data = tile(bytes=64, slots=1)

    @role(warps=1)
    def loader(self):
        yield self.full[0].arrive_expect_tx(64)
        yield self.data[0].load(signals=self.full[0])

    @role(warps=1)
    def reader(self):
        yield self.full[0].wait(0, sem=self.last)  # last
        yield self.data[0].read()

    @role(warps=1)
    def writer(self):
        yield self.full[0].wait(0, sem=self.between)  # between
        yield self.told[0].arrive()

    @role(warps=1)
    def second(self):
        yield self.told[0].wait(0)
        yield self.data[0].read()


WRONG = [
    (Landed(last="relaxed"), "last"),
    (Landed(between="relaxed"), "between"),
    *((kind(**{name: "relaxed"}), name) for kind in (Words, Barriers) for name in ("first", "seen", "handed", "last")),
    (Words(near="handed"), "handed"),
    (Words(near="last"), "last"),
    (Barriers(scope="cta"), "handed"),
    (Fences(before="cta"), "before"),
    (Fences(after="cta"), "after"),
    (Fences(before=""), "raised"),
    (Fences(after=""), "seen"),
]


@pytest.mark.parametrize(("pipeline", "guilty"), WRONG)
def test_what_orders_less_is_to_blame(pipeline, guilty):
    result = check(pipeline)
    assert result.verdict == VIOLATED and result.trace is not None
    told = replace(result.trace, steps=(*result.trace.steps, *result.trace.next))
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[told.steps[guilty_step(told) or 0].line - 1]
    assert line.endswith(f"# {guilty}")


@pytest.mark.parametrize("kind", [Words, Fences])
def test_nobody_is_to_blame_where_all_of_them_order(kind):
    assert check(kind()).verdict != VIOLATED
