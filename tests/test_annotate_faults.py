"""A pass over the graphs of programs that is wrong in one place is noticed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import pytest
from graphs import bare, graph, untrue
from graphs_by_hand import (
    Slot,
    Turns,
    diamond_by_hand,
    polls_by_hand,
    slot_by_hand,
    stores_by_hand,
    trips_by_hand,
)

from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model import annotate as module
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op

Pass = Callable[[Program], Program]


def tokens_by_hand() -> list[Program]:
    """After a branch something is waited for that says nothing, a token or a state that is not there yet, and then a
    parity of which the branches have seen different phases.
    """
    p = Turns()
    first = p.own.try_wait(0), {True: 1, False: 1}
    token = p.own.wait(op.Token(p.own[0].name)), {}
    state = p.own.try_wait(PipelineState.start(1).phase), {True: 3, False: 2}
    return [graph("one", 32, first, between, (p.own.wait(1), {}), (None, {})) for between in (token, state)]


def faults(wanted: Pass) -> list[str]:
    """What is wrong with a pass, seen on graphs by hand and traced ones."""
    found = []
    by_hand = (slot_by_hand(), diamond_by_hand(True), stores_by_hand(), polls_by_hand(), trips_by_hand())
    for programs in (*by_hand, tokens_by_hand()):
        for program in programs:
            found += untrue(wanted(program))
    for pipeline in (Turns(), Slot()):
        for program in trace(pipeline).programs:
            again = wanted(bare(program))
            found += untrue(again)
            if again != program:
                found.append(f"{program.name} is not what was traced")
    return found


MUTATIONS = (
    ("held = self.held.after(operation)", "held = self.held"),
    ("key = past.held, seen", "key = IDLE, seen"),
    ("for name in reads[index]])", "for name in ()])"),
    ("wait is not None and answer is not False and not", "wait is not None and not"),
    ("answer is not False and not isinstance(wait.phase, op.Token):", "answer is not False:"),
    ("None if node.skips else effects.waits", "effects.waits"),
    ("IDLE._replace(tracks=True, within=within) if relaxed else IDLE", "IDLE"),
    ("tracks=True, within=within", "tracks=True, within=True"),
    ("not (sees and answer is not False)", "not sees"),
    ("sees = wait is not None and wait.barrier == name and not isinstance(wait.phase, op.Token)", "sees = True"),
    ("wait.barrier == name and not isinstance(wait.phase, op.Token)", "wait.barrier == name"),
    ("past._seen(wait.barrier) + node.distance", "past._seen(wait.barrier) + 1"),
    ("observed.get(barrier, -1)", "observed.get(barrier, 0)"),
    ("nodes[place].drift.append", "len"),
    ("if node.loop and answer", "if node.loop"),
    ("(expect or 0) * count", "(expect or 0)"),
    ("copies.barrier, -copies.bytes", "copies.barrier, copies.bytes"),
    ("ahead=_plus(self.ahead, barrier, bytes)", "ahead=self.ahead"),
    ("_plus(self.arrived, barrier, count)", "_plus(self.arrived, barrier, 1)"),
    ("return node.distance if isinstance(wait.phase, Phase) else ", "return "),
    ("choices=_plus(past.choices, choice.name, 1)", "choices=past.choices"),
)


def test_the_pass_has_no_fault():
    assert faults(annotate) == []


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_a_pass_that_is_wrong_is_noticed(before, after):
    text = inspect.getsource(module)
    assert text.count(before) == 1
    changed = ModuleType("changed")
    changed.__dict__["__name__"] = module.__name__
    exec(compile(text.replace(before, after), module.__file__, "exec"), changed.__dict__)
    assert faults(changed.annotate)
