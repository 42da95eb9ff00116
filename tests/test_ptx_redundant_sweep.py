"""What can be left out for all values of a sweep, and of the kernels with loops that stand for larger ones."""

from __future__ import annotations

import pytest
from ptx_rings import ring
from ptx_text import asked, launch
from test_ptx_larger import classes_of

from sm90_verify.decide.redundant import Proved, _without, redundant
from sm90_verify.engines.order import order
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.made_of import LeftOut
from sm90_verify.report.sections import Redundant
from sm90_verify.report.text import text
from sm90_verify.result import PROVED
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.kernel import Node, Program, Threads
from sm90_verify.spec.ptx import operations as op

FENCE = "fence.proxy.async;"
ACQUIRE = "wait parity 1"


def left_out(tmp_path, text: str, sweep: str) -> list[str]:
    result = asked(tmp_path, text, launch(64), sweep=sweep, redundancy=True)
    assert result.verdict == PROVED
    return [one.what for one in result.redundant]


@pytest.mark.parametrize(
    ("sweep", "found"), [("n=0..2", [ACQUIRE]), ("n=2..3", []), ("n=0..4", []), ("n=0..", [])], ids=str
)
def test_a_wait_that_only_few_rounds_can_do_without_is_needed(tmp_path, sweep, found):
    assert left_out(tmp_path, ring(), sweep) == found


@pytest.mark.parametrize("sweep", ["n=0..4", "n=0.."])
def test_what_no_value_needs_is_redundant(tmp_path, sweep):
    assert left_out(tmp_path, ring(reading=FENCE), sweep) == ["fence.proxy.async"]


def loops(text: str):
    classes, _, _ = classes_of(text)
    (case,) = classes.cases[0]
    return lift(case.execution, "k")


def test_kernels_with_loops_are_asked_themselves():
    proved = [Proved(loops(ring(reading=FENCE)), lambda one: order(one).verdict)]
    assert [one.what for one in redundant(proved, lambda done, of: None)] == ["fence.proxy.async"]
    assert redundant([Proved(loops(ring()), proved[0].verdict)], lambda done, of: None) == ()


def waits(successors: list[dict[object, int]]) -> Program:
    """A role that waits for the next phase of a barrier in lines 0, 1, 2, ...; a loop is where there are two ways."""
    nodes = [
        Node(None if len(to) != 1 else op.Wait("b", 0), Source("k", line), distance=1, successors=to)
        for line, to in enumerate(successors)
    ]
    for node in nodes:
        node.loop = "k" if len(node.successors) > 1 else ""
    return Program("role", Threads("role", 32, 0, 0), tuple(nodes), "role")


STRAIGHT = waits([{None: 1}, {None: 2}, {None: 3}, {}])
LOOP = waits([{None: 1}, {True: 2, False: 3}, {None: 1}, {None: 4}, {}])
"""Line 2 is in the loop."""


def distances(program: Program, *lines: int) -> list[tuple[int, int]]:
    left = _without(program, {Source("k", line) for line in lines})
    return [(node.source.line, node.distance) for node in left.nodes if isinstance(node.operation, op.Wait)]


def test_a_wait_behind_others_that_are_left_out_is_for_a_later_phase():
    assert distances(STRAIGHT, 0) == [(1, 2), (2, 1)]
    assert distances(STRAIGHT, 0, 1) == [(2, 3)]
    assert distances(STRAIGHT, 2) == [(0, 1), (1, 1)]


def test_how_many_rounds_of_a_loop_were_skipped_is_not_known():
    assert distances(LOOP, 3) == [(0, 1), (2, 1)]
    for line in (0, 2):
        with pytest.raises(SpecError, match="depends on how often"):
            distances(LOOP, line)
    assert distances(LOOP, 0, 2, 3) == []


def test_lines_of_ptx_that_are_of_one_line_of_source_are_one():
    file = "/k.ptx"
    origin = ("k.cu:7", "k.cu:90")
    some = [LeftOut("wait", file, line, True, origin) for line in (5, 9)]
    some += [LeftOut("fence", file, 11, True, origin), LeftOut("wait", file, 12, False, origin)]
    some += [LeftOut("wait", file, line, True) for line in (20, 21)]
    shown = text([[Redundant(tuple(some))]]).splitlines()
    assert [" ".join(one.split()) for one in shown] == [
        "redundant /k.ptx:5, 9, 11 (k.cu:7 < k.cu:90): wait, fence",
        "redundant /k.ptx:12 (k.cu:7 < k.cu:90): wait (not with all the others)",
        "redundant /k.ptx:20: wait",
        "redundant /k.ptx:21: wait",
    ]
