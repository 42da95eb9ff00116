"""Registers of wgmma, sentence by sentence of PTX ISA 9.7.15.7: accumulators, the matrix A, wgmma.fence."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify import Pipeline, SpecError, role, tile
from sm90_verify.engines.order import order
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.memory import Access, as_read, as_write
from sm90_verify.spec.ptx.own_accesses import own_faults


class Math(Pipeline):
    """What one warpgroup does, a letter each: w, r: ordinary write and read of acc; m: wgmma into acc; f: wgmma.fence;
    0, 1: wgmma.wait_group; c: commit_group; u: wgmma into acc without commit; W, R: write and read of a; a: wgmma of a
    in registers and b, into acc; A: of acc in registers and b, into other; h: wgmma into the first half of acc; b:
    wgmma of b alone; o: wgmma of a, into other.
    """

    does = ""
    b = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")
    other = tile(bytes=64, space="registers")
    half = tile(bytes=32, space="registers", shares="acc")
    a = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        for letter in self.does:
            match letter:
                case "w":
                    yield self.acc.write()
                case "r":
                    yield self.acc.read()
                case "W":
                    yield self.a.write()
                case "R":
                    yield self.a.read()
                case "m":
                    yield self.b.mma(into=self.acc)
                case "u":
                    yield self.acc.mma(commit=False)
                case "h":
                    yield self.b.mma(into=self.half)
                case "a":
                    yield self.mma(self.a, self.b, into=self.acc)
                case "o":
                    yield self.mma(self.a, self.b, into=self.other)
                case "A":
                    yield self.mma(self.acc, self.b, into=self.other)
                case "b":
                    yield self.b.mma()
                case "f":
                    yield self.wgmma_fence()
                case "c":
                    yield self.mma_commit()
                case _:
                    yield self.mma_wait(int(letter))


def found(pipeline: Pipeline) -> set[str]:
    """What is violated, the same by search (reduced or not), by order and by smt."""
    answers = [violated(pipeline, engine=engine) for engine in ("search", "order", "smt")]
    answers.append(violated(pipeline, reduced=False))
    assert len({frozenset(one) for one in answers}) == 1, answers
    return set(answers[0])


@pytest.mark.parametrize(
    ("does", "properties"),
    [
        # 9.7.15.7.3: nobody accesses the accumulator, or A in registers, before the group has been waited for
        ("fmr0", {"register-hazard"}),
        ("fmw0", {"register-hazard"}),
        ("fm0r", set()),
        ("fmm1r0", {"register-hazard"}),
        ("fum1r0", {"register-hazard"}),
        ("fuc0r", set()),
        ("fu0r", {"register-hazard"}),
        ("fWfaW0", {"register-hazard"}),
        ("fWfaR0", {"register-hazard"}),
        ("fWfa0W", set()),
        ("fWfar0", {"register-hazard"}),
        ("fmb1r0", set()),
        ("fmA0", {"register-hazard"}),
        ("fmfA0", {"register-hazard"}),
        # .1: wgmma.fence before the first wgmma
        ("m0", {"register-hazard"}),
        ("fm0m0", set()),
        ("b0", set()),
        # .1: and between an access to registers and a wgmma on them
        ("fwm0", {"register-hazard"}),
        ("wfm0", set()),
        ("fm0rm0", {"register-hazard"}),
        ("fm0rfm0", set()),
        ("fWa0", {"register-hazard"}),
        ("Wfa0", set()),
        ("fWm0", set()),
        ("fm0A0", {"register-hazard"}),
        ("fm0fA0", set()),
        # .1: but accumulators of the same shape are ordered from one wgmma to the next
        ("fmmm0r", set()),
        ("fmh0", {"register-hazard"}),
        ("fm0h0", {"register-hazard"}),
        ("fm0fh0", set()),
        ("Wfao0", set()),
    ],
)
def test_registers_of_wgmma(does: str, properties: set[str]) -> None:
    assert found(Math(does=does)) == properties


def test_each_warpgroup_has_registers_of_its_own() -> None:
    class Two(Pipeline):
        acc = tile(bytes=64, slots=2, space="registers")

        @role(warpgroups=1, copies=2)
        def math(self, me):
            yield self.wgmma_fence()
            yield self.acc[0].mma(tag=me.copy)
            yield self.mma_wait(0)
            yield self.acc[0].read(tag=me.copy)

    assert found(Two()) == set()
    names = [one.object for one in trace(Two()).layout.regions]
    assert names == ["math0.acc[0]", "math1.acc[0]", "math0.acc[1]", "math1.acc[1]"]
    assert not trace(Two()).layout.overlaps()


def test_registers_hold_data_too() -> None:
    class Other(Pipeline):
        acc = tile(bytes=64, space="registers")

        @role(warpgroups=1)
        def math(self):
            yield self.wgmma_fence()
            yield self.acc.mma(tag=1)
            yield self.mma_wait(0)
            yield self.acc.read(tag=2)

    assert found(Other()) == {"stale-read"}


def test_nobody_reaches_the_registers_of_others() -> None:
    class Far(Pipeline):
        cluster = "2x1"
        acc = tile(bytes=64, space="registers")

        @role(warpgroups=1)
        def math(self, me):
            yield self.acc[0].on(1 - me.cta).read()

    with pytest.raises(SpecError, match="registers belong to the threads that use them"):
        trace(Far())


class Wrong(Pipeline):
    what = ""
    b = tile(bytes=1024)
    r = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def first(self):
        yield self.r.read()

    @role(warpgroups=1)
    def math(self):
        if self.what == "into":
            yield self.b.mma(into=self.b)
        elif self.what == "store":
            yield self.r.store()
        elif self.what == "fence":
            yield self.wgmma_fence()
        else:
            access = self.r[0].access
            yield op.Touch("read", (access._replace(object="first.r", start=0, stop=64),), (None,))


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("into", "a wgmma accumulates in b, in shared memory: use space='registers'"),
        ("store", "math.r lies in registers, which no copy reaches: use a buffer in memory"),
        ("other", "math touches first.r, which are registers of first: use its own"),
    ],
)
def test_registers_are_those_of_one_program(what: str, why: str) -> None:
    with pytest.raises(SpecError) as refused:
        trace(Wrong(what=what))
    assert why in str(refused.value)
    trace(Wrong(what="fence"))


def test_a_warpgroup_executes_wgmma_fence() -> None:
    class Warp(Pipeline):
        @role(warps=1)
        def math(self):
            yield self.wgmma_fence()

    with pytest.raises(SpecError, match="all 128 of a warpgroup"):
        trace(Warp())


def test_what_a_program_without_registers_holds_is_as_ever() -> None:
    """Nothing of it changes with wgmmas on shared memory, so that loops close where they did."""
    mma = op.Touch("mma", (Access("b", "shared", 0, 64, False, "async"),), (None,), True)
    assert IDLE.after(mma).after(op.Group("mma_wait")) == IDLE


def test_the_sentences_name_the_group_and_the_fence() -> None:
    acc = Access("acc", "registers", 0, 64, False, "generic")
    mma = op.Touch("mma", (), (), True, as_write(acc, "async"))
    held = IDLE.after(op.Fence("wgmma")).after(mma)
    ((property, because),) = own_faults("math", acc, held)
    assert property == "register-hazard" and "the ordinary read of acc" in because and "no wgmma.wait_group" in because
    assert [one for one, _ in own_faults("math", as_write(acc, "async"), IDLE)] == ["register-hazard"]
    read = IDLE.after(op.Fence("wgmma")).after(op.Touch("read", (acc,), (None,)))
    ((property, because),) = own_faults("math", as_read(acc, "async"), read)
    assert property == "register-hazard" and "has not executed wgmma.fence since the ordinary read of acc" in because


def test_order_says_which_properties_it_was_asked_about() -> None:
    assert "register-hazard" in order(trace(Math(does="fm0"))).applies
    assert "register-hazard" not in order(trace(Math(does="wr"))).applies


class InEveryGrid(Pipeline):
    """Registers of each copy of a role in several clusters, or in the grid after another one."""

    fence = True
    b = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1, copies=2)
    def math(self):
        if self.fence:
            yield self.wgmma_fence()
        yield self.b.mma(into=self.acc)
        yield self.mma_wait(0)
        yield self.acc.read()


class InTheSecondGrid(InEveryGrid):
    math = role(warpgroups=1, grid=1)(InEveryGrid.math.body)

    @role(warps=1)
    def first(self):
        yield self.launch_dependents()


def test_registers_of_every_cluster_are_apart():
    owners = {one.owner for one in trace(InEveryGrid(clusters=2)).layout.regions if one.space == "registers"}
    assert owners == {f"cluster{cluster}.math{copy}" for cluster in range(2) for copy in range(2)}
    assert violated(InEveryGrid(clusters=2)) == []


@pytest.mark.parametrize("fence", [True, False])
def test_a_grid_before_has_no_part_in_registers(fence):
    assert violated(InTheSecondGrid(fence=fence)) == ([] if fence else ["register-hazard"])
