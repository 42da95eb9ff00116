"""What can follow in a traced program, what has just happened in it, and who meets whom."""

from __future__ import annotations

import pytest

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.flow import (
    arrivals_ahead,
    before_dec,
    closed_meetings,
    final_nodes,
    just_waited,
    kind_of,
    next_waits,
    soon,
    waits_ahead,
)
from sm90_verify.spec.ptx import operations as op


class Alone(Pipeline):
    """One role, which does what `body` yields."""

    registers = 168
    p = barrier()
    q = barrier()
    a = tile(bytes=64, slots=3)

    @role(warpgroups=1)
    def one(self):
        yield from self.body()


def alone(body):
    (program,) = trace(type("Alone", (Alone,), {"body": body})()).programs
    return program


# ---------------------------------------------------------------- who meets


def meetings_of(threads=96, blocks=True, copies=2, absent=False):
    class Meets(Pipeline):
        @role(warps=1, copies=copies)
        def many(self, me):
            yield self.named_sync(1, threads)
            if not absent or me.copy:
                yield self.named_sync(2, 64)

        @role(warps=1)
        def last(self):
            yield self.named_sync(1, threads) if blocks else self.named_arrive(1, threads)

    return closed_meetings(trace(Meets()).programs)


def test_a_meeting_is_closed_if_it_is_of_all_the_threads_that_block_there():
    assert meetings_of() == {"bar1", "bar2"}
    assert meetings_of(threads=64) == {"bar2"}
    assert meetings_of(threads=128) == {"bar2"}
    assert meetings_of(blocks=False) == {"bar2"}
    assert meetings_of(copies=3) == set()
    assert meetings_of(absent=True) == {"bar1"}


def test_two_counts_for_one_meeting():
    class Differ(Pipeline):
        @role(warps=1, copies=2)
        def many(self):
            yield self.named_sync(1, 64)
            yield self.named_sync(1, 32)

    assert closed_meetings(trace(Differ()).programs) == set()


def test_a_warp_meets_as_a_whole():
    class Split(Pipeline):
        @role(threads=32, split=(1, 31))
        def warp(self, me):
            yield self.warp_sync()

        @role(threads=32, split=(16, 16))
        def other(self, me):
            yield self.warp_sync()
            yield self.cta_sync()

    assert closed_meetings(trace(Split()).programs) == {"warp.warp", "warp.other"}


# ---------------------------------------------------------------- what has just happened


def test_a_wait_is_just_passed_until_others_can_notice_something():
    def body(self):
        yield self.p.wait(0)
        yield self.a[0].read()
        yield self.q.wait(0)
        yield self.p.wait(1)
        yield self.q.arrive()

    assert just_waited(alone(body), 0) == [(), ("p",), ("p",), ("p", "q"), ("p", "q"), ()]


def test_a_wait_that_fails_and_one_for_what_has_been_seen():
    def body(self):
        if (yield self.p.try_wait(0)):
            yield self.a[0].read()
        yield self.q.wait(1)
        yield self.a[1].read()

    program = alone(body)
    fails = program.nodes[0].successors[False]
    passes = program.nodes[0].successors[True]
    assert just_waited(program, 0)[fails] == () and just_waited(program, 0)[passes] == ("p",)
    assert just_waited(program, 0)[program.nodes[fails].successors[None]] == ("q",)
    assert just_waited(program, 1)[program.nodes[fails].successors[None]] == ()


def test_a_token_tells_nothing_of_the_phase_before():
    def body(self):
        token = yield self.p.arrive()
        yield self.p.wait(token)

    assert just_waited(alone(body), 0) == [(), (), ()]


def test_what_has_just_happened_has_happened_on_every_way():
    def body(self):
        for _ in self.forever():
            yield self.p.arrive()
            if (yield self.choose("side", False, True)):
                yield self.p.wait(0)

    program = alone(body)
    came_from = [set() for _ in program.nodes]
    for node in program.nodes:
        for target in node.successors.values():
            came_from[target].add(type(node.operation).__name__)
    joined = [index for index, froms in enumerate(came_from) if froms == {"Choose", "Wait"}]
    assert joined
    assert all(just_waited(program, 0)[index] == () for index in joined)


def test_in_a_loop_the_first_iteration_counts_too():
    def body(self):
        at = PipelineState.start(1)
        for _ in self.loop("forever"):
            yield self.a[0].read()
            yield self.p.wait(at.phase)
            at += 1

    program = alone(body)
    for index, names in enumerate(just_waited(program, 0)):
        assert names == (() if index < 2 else ("p",))


# ---------------------------------------------------------------- what can follow


def test_accesses_that_can_start_before_anybody_else_moves():
    def body(self):
        yield self.a[0].read()
        yield self.a[1].write()
        yield self.fence_proxy_async()
        yield self.a[0].read()
        yield self.a[2].read()
        yield self.p.arrive()
        yield self.a[1].read()

    names = [[(one.object, one.write) for one in accesses] for accesses in soon(alone(body))]
    tail = [("a[0]", False), ("a[2]", False)]
    assert names[0] == [("a[0]", False), ("a[1]", True), ("a[2]", False)]
    assert names[1] == [("a[1]", True), *tail]
    assert names[2:4] == [tail, tail] and names[4] == [("a[2]", False)]
    assert names[5:] == [[], [("a[1]", False)], []]


def test_from_where_registers_can_still_be_given_back():
    def body(self):
        yield self.p.arrive()
        yield self.cta_sync()
        if (yield self.choose("side", False, True)):
            yield self.setmaxnreg_dec(40)
            yield self.cta_sync()
        yield self.setmaxnreg_inc(232)

    program = alone(body)
    kinds = [type(node.operation).__name__ for node in program.nodes]
    before = before_dec(program)
    assert [kinds[index] for index in before if index < len(kinds)] == ["Arrive", "CtaSync", "Choose", "Setmaxnreg"]
    assert [index for index in before if index >= len(kinds)] == [len(kinds)]


def test_phases_that_must_be_seen_before_the_end():
    def body(self):
        yield self.p.wait(0)
        if (yield self.choose("side", False, True)):
            yield self.q.wait(0)
        yield self.a[0].read()

    program = alone(body)
    ahead = waits_ahead(program)
    assert ahead[0] == ("p",) and ahead[1] == ()
    assert ahead[program.nodes[1].successors[True]] == ("q",)
    assert all(ahead[index] == () for index in final_nodes(program))


def test_a_wait_on_both_ways_must_be_passed_and_one_for_what_was_seen_shows_nothing():
    def body(self):
        if (yield self.choose("side", False, True)):
            yield self.a[0].read()
        yield self.q.wait(0)
        yield self.p.wait(1)
        yield self.q.try_wait(1)

    assert waits_ahead(alone(body))[0] == ("q",)


def test_without_an_end_all_that_is_waited_for_is_ahead():
    def body(self):
        at = PipelineState.start(1)
        yield self.q.wait(0)
        for _ in self.loop("forever"):
            yield self.p.wait(at.phase)
            yield self.a[0].read()
            at += 1

    assert {frozenset(names) for names in waits_ahead(alone(body))} == {frozenset({"p", "q"})}


def test_how_far_the_next_wait_is():
    def body(self):
        yield self.a[0].read()
        if (yield self.choose("side", False, True)):
            yield self.p.wait(0)
        yield self.p.wait((PipelineState.start(1) + 2).phase)
        yield self.q.try_wait(0)
        yield self.q.wait(1)

    program = alone(body)
    distances = next_waits(program)
    waits = [index for index, node in enumerate(program.nodes) if isinstance(node.operation, op.Wait)]
    own = {index: program.nodes[index].distance for index in waits}
    side = program.nodes[1].successors[True]
    assert distances[side]["p"] == (own[side],)
    assert distances[0]["p"] == tuple(sorted({own[side], own[program.nodes[1].successors[False]]}))
    looks = next(index for index in waits if False in program.nodes[index].successors)
    failed = program.nodes[looks].successors[False]
    assert distances[looks]["q"] == tuple(sorted({own[looks], own[failed]})) and own[looks] != own[failed]
    assert [distances[index] for index in final_nodes(program)] == [{}] * len(final_nodes(program))


def test_arrivals_that_can_still_be_made():
    def body(self):
        if (yield self.choose("side", False, True)):
            yield self.p.arrive()
        yield self.q.arrive()
        yield self.a[0].read()

    program = alone(body)
    ahead = [set(names) for names in arrivals_ahead(program)]
    assert ahead[0] == {"p", "q"} and ahead[program.nodes[0].successors[False]] == {"q"}
    reads = next(index for index, node in enumerate(program.nodes) if isinstance(node.operation, op.Touch))
    assert ahead[reads] == set()


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (lambda self: self.p.wait(0), "wait"),
        (lambda self: self.p.try_wait(0), "peek"),
        (lambda self: self.p.arrive(), "arrive"),
        (lambda self: self.p.arrive_drop(), "other"),
        (lambda self: self.p.expect_tx(16), "expect"),
        (lambda self: self.p.expect_tx(0), "expect"),
        (lambda self: self.p.complete_tx(16), "other"),
        (lambda self: self.a[0].load(signals=self.p), "load"),
        (lambda self: self.a[0].read(), "local"),
        (lambda self: self.cta_sync(), "other"),
    ],
)
def test_kinds_of_locations(operation, kind):
    def body(self):
        yield operation(self)

    program = alone(body)
    assert kind_of(program.nodes[0]) == kind
    assert kind_of(program.nodes[-1]) == "end"
