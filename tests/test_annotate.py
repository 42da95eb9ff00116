"""What a program's locations hold is found by a pass over its graph, wherever the graph is from."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

import pytest
from corpus_table import CASES
from graphs import bare, kernel, untrue
from graphs_by_hand import (
    Diamond,
    Polls,
    Slot,
    Stores,
    Trips,
    Turns,
    diamond_by_hand,
    polls_by_hand,
    slot_by_hand,
    stores_by_hand,
    trips_by_hand,
)
from machines import kernel_of

from sm90_verify.engines.check import check
from sm90_verify.evidence.claims import models
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec import cutlass
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.instances import roles_of
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.tick import Tick
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE

BASES = ("PersistentGemm",)
"""Classes with roles that are there to be inherited from."""


def classes(package: ModuleType) -> list[type[Pipeline]]:
    """All pipelines with roles in a package."""
    found: dict[type[Pipeline], None] = {}
    for part in pkgutil.iter_modules(package.__path__):
        for thing in vars(importlib.import_module(f"{package.__name__}.{part.name}")).values():
            if isinstance(thing, type) and issubclass(thing, Pipeline) and roles_of(thing):
                found[thing] = None
    return [kind for kind in found if kind.__name__ not in BASES]


def small(kind: type[Pipeline]) -> Iterator[Pipeline]:
    """With one stage and with two, and with each kind of trip count."""
    for stages, trips in ((1, {}), (2, {"trips": "forever"}), (2, {"trips": 3})):
        size = {"stages": stages} if "stages" in kind.parameter_names() else {}
        with suppress(SpecError):
            yield kind(**size, **trips)


def programs_of(pipeline: Pipeline) -> tuple[Program, ...]:
    try:
        return trace(pipeline).programs
    except SpecError:
        return ()


@pytest.mark.parametrize("kind", [*classes(cutlass), *classes(models)], ids=lambda kind: kind.__name__)
def test_a_traced_program_is_what_the_pass_makes_of_its_graph(kind):
    programs = [program for pipeline in small(kind) for program in programs_of(pipeline)]
    assert programs
    for program in programs:
        assert annotate(bare(program)) == program


class Joins(Pipeline):
    """A loop that is come to with one of two groups in flight, and nothing else that tells them apart."""

    b = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=2)

    @role(warpgroups=1)
    def math(self):
        if (yield self.choose("which", True, False)):
            yield self.a[0].mma()
        else:
            yield self.a[1].mma()
        yield self.choose("nothing", True, False)
        for _ in self.forever():
            yield self.b.arrive()


def test_the_walker_hands_over_bare_graphs_that_are_split_already(monkeypatch):
    """What is in flight is told apart where its loops are closed."""
    handed: list[tuple[Program, Program]] = []

    def noted(program: Program, *, checked: bool, tick: Tick) -> Program:
        handed.append((program, annotate(program, checked=checked)))
        return handed[-1][1]

    monkeypatch.setattr(walk, "annotate", noted)
    for kind in (*kernels("pipeline").values(), Slot, Stores, Turns, Joins):
        trace(kind())
    assert all(bare(program) == program for program, _ in handed)
    assert all(len(program.nodes) == len(after.nodes) for program, after in handed)
    assert any(node.held != IDLE for _, after in handed for node in after.nodes)


@pytest.mark.parametrize("case", CASES[::2], ids=lambda case: case.id)
def test_so_is_the_corpus_and_it_is_true(case):
    for pipeline in (case.broken, *case.fixed[:1]):
        for program in kernel_of(pipeline).programs:
            assert annotate(bare(program)) == program
            assert untrue(program, steps=60) == []


def test_a_parity_means_another_phase_the_first_time_than_ever_after():
    """The producer's first wait passes on the fresh barrier; from then on the same wait is one phase ahead. The
    consumer's is always one ahead, but from the second round on its reads are there, which no fence has ordered.
    """
    producer, consumer = map(annotate, slot_by_hand())
    waits = [(node.source.line, node.distance) for node in producer.nodes if isinstance(node.operation, op.Wait)]
    assert waits == [(1, 0), (4, 1), (1, 1)]
    assert [node.distance for node in consumer.nodes if isinstance(node.operation, op.Wait)] == [1, 1, 1]
    assert [node.source.line for node in consumer.nodes] == [1, 2, 3, 4, 5, 6, 1, 2]
    assert [len(node.held.unfenced) for node in consumer.nodes] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert len(producer.nodes) == 7


@pytest.mark.parametrize(("early", "lines"), [(True, [1, 2, 4, 5, 6, 3, 4, 5]), (False, [1, 2, 4, 5, 6, 3, 4])])
def test_where_branches_join_with_different_groups_the_graph_is_split_until_they_agree(early, lines):
    math, _ = map(annotate, diamond_by_hand(early))
    assert [node.source.line for node in math.nodes] == lines
    held = [[access.object for access in node.held.in_progress()] for node in math.nodes if node.source.line == 4]
    assert held == [["a"], ["b"]]
    assert [node.held.mma for node in math.nodes if node.source.line == 6] == [()]


def test_a_store_is_in_flight_on_the_path_that_does_not_drain_it():
    (one,) = map(annotate, stores_by_hand())
    assert [len(node.held.stores()) for node in one.nodes if node.source.line == 7] == [1, 0]
    (one,) = map(annotate, stores_by_hand(always=True))
    assert [len(node.held.stores()) for node in one.nodes if node.source.line == 7] == [0]


def test_a_poll_that_fails_has_seen_nothing():
    polls, _ = map(annotate, polls_by_hand())
    assert [node.distance for node in polls.nodes] == [1, 0, 1, 0, 0]
    assert [dict(node.observed) for node in polls.nodes] == [{}, {"full": 0}, {"full": 0}, {"full": 1}, {"full": 1}]
    assert [len(node.drift) for node in polls.nodes] == [1, 0, 1, 0, 0]


def test_what_a_loop_has_counted_when_it_comes_round_is_its_drift():
    producer, _ = map(annotate, trips_by_hand())
    assert producer.nodes[0].drift == [({"full": 2}, {"empty": 1}, {"full": 0}, 1)]
    assert [node.iteration for node in producer.nodes] == [0, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("engine", ["search", "order"])
@pytest.mark.parametrize(
    ("written", "programs", "right"),
    [
        (Slot(), slot_by_hand(), True),
        (Slot(first=1), slot_by_hand(first=1), False),
        (Diamond(), diamond_by_hand(), True),
        (Diamond(early=True), diamond_by_hand(early=True), False),
        (Stores(always=True), stores_by_hand(always=True), True),
        (Stores(), stores_by_hand(), False),
        (Polls(), polls_by_hand(), True),
        (Polls(arrivals=1), polls_by_hand(arrivals=1), False),
        (Trips(), trips_by_hand(), True),
        (Trips(short=True), trips_by_hand(short=True), False),
    ],
    ids=lambda value: value.name if isinstance(value, Pipeline) else "",
)
def test_a_kernel_by_hand_gets_the_verdicts_of_the_same_written_in_the_language(written, programs, right, engine):
    """Order follows what all roles decide alike: it leaves those that branch by a test undetermined, in both forms."""
    said = check(written, engine=engine)
    by_hand = check(kernel(written, *map(annotate, programs)), engine=engine)
    verdicts = [{finding.id: finding.verdict for finding in result.findings} for result in (said, by_hand)]
    assert verdicts[0] == verdicts[1]
    follows = engine == "search" or not isinstance(written, Polls)
    assert by_hand.verdict == ((PROVED if right else VIOLATED) if follows else UNDETERMINED)
