"""Graphs that have no meaning are refused with one line, and so are those that nobody annotated."""

from __future__ import annotations

import pytest
from graphs import graph, kernel
from graphs_by_hand import (
    Diamond,
    Polls,
    Slot,
    diamond_by_hand,
    slot_by_hand,
    trips_by_hand,
)

from sm90_verify.engines.check import check
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model import annotate as module
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Node, Program, Threads


@pytest.mark.parametrize("programs", [slot_by_hand(), diamond_by_hand(), trips_by_hand()])
def test_a_graph_that_nobody_annotated_is_refused(programs):
    """Nothing would be in flight in it, and every wait would be for what has been seen."""
    one, other = programs
    for kernel_of in ([one, annotate(other)], [annotate(one), other]):
        with pytest.raises(SpecError, match="put the program through annotate"):
            check(kernel(Slot(), *kernel_of))


def test_a_graph_that_splits_and_splits_is_given_up_on_with_one_line(monkeypatch):
    """Any of eight buffers, in any order, is being read: nobody waits for the groups."""

    class Eight(Pipeline):
        a = tile(bytes=1024, slots=8)

    p = Eight()
    reads = [(p.a[n].mma(), {None: 0}) for n in range(8)]
    chooses = p.choose("which", *range(8)), {n: n + 1 for n in range(8)}
    monkeypatch.setattr(module, "MAX_NODES", 500)
    with pytest.raises(SpecError, match="role math has more than 500 locations") as caught:
        annotate(graph("math", 128, chooses, *reads))
    assert "\n" not in str(caught.value) and caught.value.where is not None
    waited = [(p.a[n].mma(), {None: 9}) for n in range(8)]
    assert len(annotate(graph("math", 128, chooses, *waited, (p.mma_wait(0), {None: 0}))).nodes) == 17


def test_as_many_locations_as_the_bound_are_not_too_many(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 7)
    assert len(annotate(slot_by_hand()[0]).nodes) == 7
    monkeypatch.setattr(module, "MAX_NODES", 6)
    with pytest.raises(SpecError, match="more than 6 locations"):
        annotate(slot_by_hand()[0])


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ([(Polls().full.try_wait(0), {True: 1}), (None, {})], "for the answers True: it needs True, False"),
        ([(Polls().full.wait(0), {True: 1, False: 0}), (None, {})], "it needs None"),
        ([(Polls().full.arrive(), {None: 2}), (None, {})], "it leads to location 2: use 0 to 1"),
        ([(Polls().full.arrive(), {None: -1}), (None, {})], "it leads to location -1"),
        ([(None, {None: 0})], "for the answers None: it needs none"),
        ([("trips", {True: 0})], "it needs True, False"),
        ([("trips", {True: 0, False: 1}), (object(), {})], "which no engine knows"),
        ([], "has no location"),
    ],
)
def test_edges_that_do_not_fit_their_operation_are_refused(rows, hint):
    with pytest.raises(SpecError, match=hint):
        annotate(graph("role", 32, *rows))


def test_a_decision_with_an_operation_is_refused():
    node = Node(Polls().full.arrive(), graph("role", 1, (None, {})).nodes[0].source, loop="trips", successors={None: 0})
    with pytest.raises(SpecError, match="give it a location of its own"):
        annotate(Program("role", Threads("role", 1, 0, 0), (node,), "role"))


def test_what_no_way_leads_to_is_left_out_and_does_not_count():
    p = Diamond()
    rows = [(p.empty.arrive(), {None: 3}), (p.a.mma(), {}), (p.empty.arrive(), {None: 3}), (None, {})]
    assert [node.source.line for node in annotate(graph("role", 128, *rows)).nodes] == [1, 4]
