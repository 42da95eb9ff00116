"""Which phase a wait passes in: tokens, barriers that live again, and waits that are out of step."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.flow import just_waited
from sm90_verify.spec.model.kernel import Node, Program, Threads
from sm90_verify.spec.ptx import operations as op


def explored(pipeline: Pipeline) -> Exploration:
    return explore(compile_kernel(trace(pipeline)))


# ---------------------------------------------------------------- tokens


class WaitsWithToken(Pipeline):
    """Two roles that arrive and wait with the token of their arrival."""

    arrivals = 2
    meet = barrier(arrivals="arrivals")

    @role(warps=1, copies=2)
    def both(self):
        token = yield self.meet.arrive()
        yield self.meet.wait(token)


def test_token_waits_for_the_phase_of_its_arrival() -> None:
    exploration = explored(WaitsWithToken())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")
    assert set(explored(WaitsWithToken(arrivals=3)).violations) == {"deadlock"}


def test_token_of_a_phase_that_is_long_gone() -> None:
    """9.7.13.15.16: the token of a phase before the last one is not defined."""

    class TwoPhasesOn(WaitsWithToken):
        arrivals = 1

        @role(warps=1)
        def other(self):
            yield self.meet.wait(0)
            yield self.meet.arrive()

    assert "phase-lapped" in explored(TwoPhasesOn()).violations


class BegunAgain(Pipeline):
    """A barrier that is initialised again while its last token is held, and waited with before or after that."""

    late = False
    completes = True
    p = barrier(arrivals=lambda self: 1 if self.completes else 2)

    @role(warps=1)
    def only(self):
        token = yield self.p.arrive()
        if not self.late:
            yield self.p.wait(token)
        yield self.p.inval()
        yield self.p.init(1)
        if self.late:
            yield self.p.wait(token)


@pytest.mark.parametrize("completes", [True, False])
def test_a_token_is_of_the_barrier_as_it_was_initialised_then(completes: bool) -> None:
    """9.7.13.15.16: of the same mbarrier object, which inval ends."""
    for late, expected in ((False, set() if completes else {"deadlock"}), (True, {"phase-lapped"})):
        kernel = trace(BegunAgain(late=late, completes=completes))
        machine = compile_kernel(kernel)
        found = set(explore(machine).violations)
        assert found - {"deadlock"} == expected - {"deadlock"} and expected <= found
        assert set(explore(machine, reduced=True).violations) == found
        assert order(kernel).verdict == (VIOLATED if expected else PROVED)
        assert expected <= set(confirm(order(kernel), machine))


class HoldsAToken(Pipeline):
    """A role that arrives in two phases, and waits with one of the two tokens, at once or in the next iteration."""

    first = False
    loops = False
    meet = barrier(arrivals=1, slots=1)
    seen = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def arrives(self):
        one = yield self.meet.arrive()
        yield self.seen.wait(0)
        for _ in self.forever() if self.loops else range(1):
            yield self.fence_proxy_async()
            two = yield self.meet.arrive()
            yield self.meet.wait(one if self.first else two)
            one = two

    @role(warps=1)
    def waits(self):
        yield self.meet.wait(0)
        yield self.seen.arrive()


def test_a_wait_with_an_earlier_token_is_refused() -> None:
    """Its phase is another than that of the last arrival: taken for that, it passes where PTX leaves it undefined."""
    assert explored(HoldsAToken()).violations == {}
    for loops in (False, True):
        with pytest.raises(SpecError, match="earlier arrival than the last one of this role: wait with the last token"):
            trace(HoldsAToken(first=True, loops=loops))


def test_a_loop_is_not_closed_where_a_token_has_become_an_earlier_one() -> None:
    class Late(HoldsAToken):
        @role(warps=1)
        def arrives(self):
            one = yield self.meet.arrive()
            for _ in self.forever():
                again = yield self.choose("again", False, True)
                yield self.meet.arrive() if again else self.meet.wait(one)
                again = None

    with pytest.raises(SpecError, match="earlier arrival"):
        trace(Late())


def test_token_knows_nothing_of_other_barriers() -> None:
    """Phases of another barrier do not make it older."""

    class Another(WaitsWithToken):
        side = barrier(arrivals=1)

        @role(warps=1, copies=2)
        def both(self, me):
            token = yield self.meet.arrive()
            if not me.copy:
                for _ in range(2):
                    other = yield self.side.arrive()
                    yield self.side.wait(other)
            yield self.meet.wait(token)

    exploration = explored(Another())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")


# ---------------------------------------------------------------- barriers that live again


class LivesAgain(Pipeline):
    """A barrier that is initialised, used by two roles, made invalid and initialised again."""

    parity = 0
    full = barrier(initialised=False)

    @role(warps=1)
    def first(self):
        for _ in range(3):
            yield self.full.init(1)
            yield self.cta_sync()
            yield self.full.arrive()
            yield self.cta_sync()
            yield self.full.inval()

    @role(warps=1)
    def second(self):
        for _ in range(3):
            yield self.cta_sync()
            yield self.full.wait(self.parity)
            yield self.cta_sync()


def test_phases_start_over_after_inval() -> None:
    exploration = explored(LivesAgain())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")


def test_the_second_phase_of_a_life_is_not_the_first() -> None:
    class TwoPhases(LivesAgain):
        last = 1

        @role(warps=1)
        def first(self):
            for _ in range(3):
                yield self.full.init(1)
                for _phase in range(2):
                    yield self.cta_sync()
                    yield self.full.arrive()
                    yield self.cta_sync()
                yield self.full.inval()

        @role(warps=1)
        def second(self):
            for _ in range(3):
                for parity in (0, self.last):
                    yield self.cta_sync()
                    yield self.full.wait(parity)
                    yield self.cta_sync()

    exploration = explored(TwoPhases())
    assert (exploration.violations, is_undetermined(exploration)) == ({}, "")
    assert "phase-lapped" in explored(TwoPhases(last=0)).violations


def test_wait_for_a_phase_of_the_old_object() -> None:
    class CountsOn(LivesAgain):
        @role(warps=1)
        def second(self):
            for k in range(3):
                yield self.cta_sync()
                yield self.full.wait(k & 1)
                yield self.cta_sync()

    assert "phase-lapped" in explored(CountsOn()).violations


# ---------------------------------------------------------------- waits out of step


def test_wait_that_passes_early() -> None:
    """A fresh barrier lets parity 1 pass: right for the phase before the first, wrong for the one after it."""

    class Early(Pipeline):
        ahead = 1
        x = barrier(arrivals=1)

        @role(warps=1)
        def waiter(self):
            at = PipelineState.start(1, producer=not self.ahead).advance(self.ahead)
            yield self.x.wait(at.phase)

    violations = explored(Early()).violations
    assert set(violations) == {"phase-lapped"}
    assert "passes once an earlier one of its parity is over" in violations["phase-lapped"].because
    assert explored(Early(ahead=0)).violations == {}


def test_wait_that_is_lapped() -> None:
    """Each phase is seen by the role that arrives, but not by the one that is slow."""

    class Lapped(Pipeline):
        rounds = 2
        x = barrier(arrivals=1)

        @role(warps=1)
        def fast(self):
            at = PipelineState.start(1)
            for _ in range(self.rounds):
                yield self.x.arrive()
                yield self.x.wait(at.phase)
                at += 1

        @role(warps=1)
        def slow(self):
            yield self.x.wait(0)

    violations = explored(Lapped()).violations
    assert set(violations) == {"phase-lapped", "deadlock"}
    assert "two phases ahead" in violations["phase-lapped"].because
    assert violations["deadlock"].stuck == ("slow",)
    assert explored(Lapped(rounds=1)).violations == {}


class MeantEarly(Pipeline):
    """What a state means is settled at its first wait, also by one that gives up."""

    stages = 1
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()
        yield self.empty[0].wait(0)
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        early, at = PipelineState.start(1), PipelineState.start(1)
        if not (yield self.full[0].try_wait(early.phase)):
            yield self.full[0].wait(at.phase)
            yield self.empty[0].arrive()
            yield self.full[0].wait((at + 1).phase)
            yield self.full[0].wait(early.phase)


def test_a_wait_that_gave_up_has_said_which_phase_it_means():
    with pytest.raises(SpecError, match="a wait on full for a phase that this role has already gone beyond"):
        trace(MeantEarly())


def test_what_has_just_been_waited_for_is_so_on_every_way():
    """A way that joins later takes it back, there and behind."""
    nodes = [Node(op.Wait("full", 0), Source("x.py", 1), distance=1, successors={None: 1})]
    for target in (2, 3):
        nodes.append(Node(op.Fence("proxy_async"), Source("x.py", target), successors={None: target}))
    nodes.append(Node(op.Arrive("empty"), Source("x.py", 4), successors={None: 1}))
    program = Program("one", Threads("one", 32, 0, 0), tuple(nodes), "one")
    assert just_waited(program, 0) == [(), (), (), ()]
