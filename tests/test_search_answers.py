"""What the engine makes of a search: bounds, verdicts, notes, and the rules that it has used."""

from __future__ import annotations

import pytest
from small_machines import counts_to, line, machine, race, step

from sm90_verify import check
from sm90_verify.engines.check import check_machine
from sm90_verify.engines.search import engine as search_engine
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import LIMIT, Check
from sm90_verify.spec.ptx.expr import FALSE, Field

# ---------------------------------------------------------------- the engine


def answer(model, **question):
    result = check_machine(model, **question)
    return result, {finding.id: finding for finding in result.findings}


STUCK = [step("a", 0, 1), step("a", 0, 2), step("a", 2, 0)]
"""a can stand still at 1, after one step."""


def stuck(**more):
    return machine([line("a", *["other"] * 4, final=False)], STUCK, **more)


def test_the_memory_that_is_asked_for_or_that_of_the_machine(monkeypatch):
    result, found = answer(counts_to(5), memory=1)
    assert result.verdict == UNDETERMINED and "memory bound of 0.0 GiB" in found["race"].note
    assert answer(counts_to(5))[0].verdict == PROVED
    monkeypatch.setattr(search_engine, "memory_bound", lambda: 1)
    assert answer(counts_to(5))[0].verdict == UNDETERMINED
    assert answer(counts_to(5), memory=1 << 60)[0].verdict == PROVED


def test_all_schedules_are_searched_if_that_is_asked_for(monkeypatch):
    """Then there is no other bound than the one that is given."""
    monkeypatch.setattr(search_engine, "REFINED", 1)
    monkeypatch.setattr(search_engine, "ENOUGH", 1)
    for reduced in (True, False):
        result, _ = answer(counts_to(50), reduced=reduced)
        assert (result.verdict, result.reduced, result.shortest) == (PROVED, reduced, False)
    open_one, found = answer(counts_to(50), reduced=False, limit=10)
    assert open_one.verdict == UNDETERMINED and found["race"].note == "the limit of 10 states (--limit)"


def test_the_search_for_the_shortest_trace_is_bounded_by_what_is_given_or_else_by_its_own(monkeypatch):
    result, found = answer(stuck())
    assert (result.verdict, result.reduced, result.shortest) == (VIOLATED, False, True)
    monkeypatch.setattr(search_engine, "REFINED", 2)
    result, found = answer(stuck())
    assert found["deadlock"].verdict == VIOLATED and found["race"].note == "the limit of 2 states (--limit)"
    _, found = answer(stuck(), limit=3)
    assert (found["deadlock"].verdict, found["race"].verdict) == (VIOLATED, PROVED)
    monkeypatch.setattr(search_engine, "REFINED", 9)
    _, found = answer(stuck(), limit=2)
    assert found["race"].note == "the limit of 2 states (--limit)"


def test_where_nothing_moves_only_the_deadlock_is_known():
    never = step("a", 0, 1, FALSE)
    for others in ([], [line("b", "end")]):
        _, found = answer(machine([line("a", "wait", "end"), *others], [never]))
        assert (found["deadlock"].verdict, found["race"].verdict) == (VIOLATED, UNDETERMINED)
        assert found["race"].note == "no step was ever taken"
    ends, _ = answer(machine([line("a", "end"), line("b", "end")], []))
    assert (ends.verdict, ends.transitions) == (PROVED, 0)
    _, found = answer(machine([line("a", "wait", "other", "end")], [step("a", 0, 1)]))
    assert (found["deadlock"].verdict, found["race"].verdict) == (VIOLATED, PROVED)


def test_what_never_happens_is_noted_where_all_is_proved():
    more = [step("a", 0, 1, FALSE)._replace(source=Source("here.py", 2))]
    noted, _ = answer(counts_to(5, more=more))
    assert noted.notes == ("never happens: a: goes  (here.py:2)",)
    assert not answer(counts_to(5))[0].notes
    assert not answer(counts_to(5, more=more), limit=3)[0].notes
    assert not answer(counts_to(5, race(Field("x", 12) == 5), more=more))[0].notes


def test_what_is_not_modelled_is_noted_and_leaves_the_rest_open():
    bounded = Check(LIMIT, Field("x", 12) == 5, "more are not modelled", "x")
    result, found = answer(counts_to(5, bounded))
    assert result.notes == ("more are not modelled",) and found["race"].note == "more are not modelled"


# ---------------------------------------------------------------- copies


class Copies(Pipeline):
    """A copy that lands while its barrier is waited for."""

    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.read()


def test_each_step_of_a_state_is_taken_once():
    whole = compile_kernel(trace(Copies()))
    packed = pack(whole)
    states, steps = {packed.initial: None}, 0
    for state in (todo := [packed.initial]):
        out = packed.successors(state)
        steps += len(out)
        todo += [successor for _, successor in out if successor not in states]
        states.update(dict.fromkeys(successor for _, successor in out))
    found = explore(whole)
    assert (found.states, found.transitions) == (len(states), steps)


@pytest.mark.parametrize("reduced", [False, True])
def test_which_rules_a_search_has_used(reduced):
    """The start of the copy is prompt, and the copy is left in flight by the reduced search alone."""
    whole = compile_kernel(trace(Copies()))
    search = Search(pack(whole, exchange=reduced), SearchBounds(), False)
    search.reduced = reduced
    assert search.run().complete
    assert search.left_flying == reduced
    (producer, _) = whole.roles
    places = {whole.actions[index].location for index in search.hurried if whole.actions[index].role == producer.name}
    assert any(producer.locations[place].kind == "load" for place in places) == reduced


class Looks(Pipeline):
    """Nobody arrives at `never`; the first instance alone arrives at `full`."""

    full = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1, copies=2)
    def looks(self, me):
        if (yield self.never.test_wait(0)):
            yield self.warp_sync()
        if me.index == 0:
            yield self.full.arrive()
        else:
            yield self.full.wait(0)


def test_what_happens_in_another_copy_of_a_line_is_not_noted():
    never = check(Looks(stages=1), engine="search").notes
    assert [note.partition(" (")[0] for note in never] == [
        "never happens: looks0: test_wait parity 0: True never",
        "never happens: looks0: __syncwarp: last warp",
    ]
