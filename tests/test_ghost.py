"""Which phase a wait is meant for, when its state has moved on without waiting."""

from __future__ import annotations

from copy import deepcopy

import pytest

from sm90_verify import PROVED, VIOLATED, check
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.ghost import FAR, Ghost, Unfollowed
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import SKIPPED
from sm90_verify.spec.ptx.operations import Wait
from sm90_verify.spec.ptx.phase import Phase


class Skips(Pipeline):
    """A role that waits for one phase in so many, having skipped some before the loop, and a barrier that has `laps`
    phases to show before it stops.
    """

    before = 0
    inside = 0
    laps = 1
    b = barrier(arrivals=1)

    @role(threads=1)
    def waits(self):
        state = PipelineState.start(1) + self.before
        for _ in self.forever(period=4):
            state = state + self.inside
            yield self.b[0].wait(state.phase)
            state = state + 1


def distances(**parameters):
    """The distinct distances of the wait's copies in the closed program, in order."""
    found = [node.distance for node in trace(Skips(**parameters)).programs[0].nodes]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("before", range(12))
def test_what_a_state_was_advanced_by_before_a_loop_is_known_exactly(before):
    assert distances(before=before)[0] == before + 1
    assert distances(before=before)[1:] in ([1], [])


@pytest.mark.parametrize("inside", [1, 2])
def test_phases_that_every_iteration_skips_are_known(inside):
    assert distances(inside=inside) == [inside + 1]
    assert distances(before=5, inside=inside) == [5 + inside + 1, inside + 1]


@pytest.mark.parametrize("before", [0, 5])
def test_a_state_that_a_loop_may_advance_for_ever_is_followed_by_the_machine(before):
    class Maybe(Skips):
        @role(threads=1)
        def waits(self):
            state = PipelineState.start(1) + self.before
            for _ in self.forever(period=4):
                state = state + 1
                now = yield self.choose("now", False, True)
                if now:
                    break
            yield self.b[0].wait(state.phase)

    (program,) = trace(Maybe(before=before)).programs
    for rounds in range(9):
        node, moved = program.nodes[0], 0
        for answer in [0] * rounds + [1]:
            moved += dict(node.moves.get(answer, ())).get("b", 0)
            node = program.nodes[node.successors[answer]]
        assert node.skips and moved + node.distance - SKIPPED - 1 == before + 1 + rounds


@pytest.mark.parametrize("wait", ["self.b[0].wait(0)", "self.b[0].wait(PipelineState.start(1).phase)"])
def test_where_another_phase_skips_some_too_only_a_few_trips_are_decided(wait):
    class Other(Skips):
        @role(warps=1)
        def arrives(self):
            for _ in self.loop():
                yield self.b[0].arrive()
                yield self.named_sync(1, threads=64)

        @role(warps=1)
        def waits(self):
            state = PipelineState.start(1)
            for _ in self.loop():
                state = state + 1
                if (yield self.choose("now", False, True)):
                    yield self.b[0].wait(state.phase)
                elif (yield self.choose("other", False, True)):
                    yield eval(wait)
                yield self.named_sync(1, threads=64)

    with pytest.raises(SpecError, match="too many to follow across a loop without end: wait in each iteration"):
        trace(Other())
    findings = check(Other(), limit=2000).findings
    assert any("with trips=8: proved" in one.note for one in findings)
    assert all(one.verdict != PROVED for one in findings)


def test_the_distance_decides_what_is_early():
    """A wait for the fourth phase cannot be told from one for the second: it passes early."""
    exploration = explore(compile_kernel(trace(_Fourth())))
    assert list(exploration.violations) == ["phase-lapped", "unobserved-phase"]


class _Fourth(Pipeline):
    b = barrier(arrivals=1)

    @role(threads=1)
    def arrives(self):
        for _ in range(4):
            yield self.b[0].arrive()

    @role(threads=1)
    def waits(self):
        yield self.b[0].wait((PipelineState.start(1) + 3).phase)


def test_what_is_made_of_a_state_in_doubt_is_in_doubt_wherever_it_gets_to():
    """One is left behind by so much that no loop tells by how much; moved on, it may be anywhere."""
    ghost, left = Ghost({}), PipelineState.start(1)
    now = left + FAR
    ghost.passed(Wait("b", left.phase))
    ghost.passed(Wait("b", now.phase))
    ghost.key([left, now], {"": 1})
    for made in (left, left + 2 * FAR, left.flip() + FAR, (left + FAR).phase ^ 1, deepcopy(left.phase)):
        assert ghost.is_loose(Wait("b", made if isinstance(made, Phase) else made.phase))
    for made in (now, now + 1, now.flip()):
        assert not ghost.is_loose(Wait("b", made.phase))
    assert not Ghost({}).is_loose(Wait("b", left.phase))  # another run of the role


def test_where_the_start_of_one_state_is_known_it_is_known_of_all_that_are_close():
    """The end of a loop is a state, too, that has gone round many times before any operation."""

    class Ends(Skips):
        @role(threads=1)
        def waits(self):
            state = PipelineState.start(1)
            end = state + 2 * FAR
            for _ in self.forever():
                yield self.b[0].wait(state.phase)
                if state.index == end.index + 1:
                    break
                state = state + 1

    assert {node.distance for node in trace(Ends()).programs[0].nodes if isinstance(node.operation, Wait)} == {1}


def test_a_state_in_doubt_does_not_wait_where_the_machine_knows_how_far_its_newest_is():
    ghost, left = Ghost({"b": 0}), PipelineState.start(1)
    now, ghost.begun = left + FAR, True
    ghost.key([left, now], {"": 1})
    assert ghost.skips(Wait("b", now.phase))
    with pytest.raises(Unfollowed):
        ghost.skips(Wait("b", (left + FAR).phase))


class Anew(Pipeline):
    """After an odd number of iterations, which are waited for by parity, so many phases more at once, of which a state
    that is made then is to be the last.
    """

    more = 3
    by = 0
    b = barrier(arrivals=1)

    @role(warps=1)
    def arrives(self):
        odd = False
        for _ in self.loop():
            if odd and (yield self.choose("stop", False, True)):
                for _ in range(self.more):
                    yield self.b[0].arrive()
                yield self.cta_sync()
                break
            odd = not odd
            yield self.b[0].arrive()
            yield self.cta_sync()
            yield self.cta_sync()

    @role(warps=1)
    def waits(self):
        odd = False
        for _ in self.loop():
            if odd and (yield self.choose("stop", False, True)):
                yield self.cta_sync()
                yield self.b[0].wait((PipelineState.start(1) + self.by).phase)
                break
            yield self.cta_sync()
            yield self.b[0].wait(int(odd))
            odd = not odd
            yield self.cta_sync()


@pytest.mark.parametrize(("more", "by", "right"), [(3, 3, 2), (5, 5, 2), (13, 13, 2), (1, 1, 9), (1, 13, 0), (1, 3, 1)])
def test_a_state_that_is_made_in_a_loop_is_for_a_phase_counted_from_the_first(more, by, right):
    """right: up to so many iterations the phase is the last one; with one more that is chosen, it is not."""
    found = {trips: check(Anew(more=more, by=by, trips=trips)).verdict for trips in (1, 2, 4, "all")}
    assert found[1] == PROVED
    assert found[2] == (PROVED if right >= 2 else VIOLATED)
    assert found[4] == found["all"] == (PROVED if right > 2 else VIOLATED)


def test_so_many_phases_are_counted_and_no_more():
    with pytest.raises(SpecError, match="skips 16 or more phases"):
        trace(Anew(more=17, by=17))
