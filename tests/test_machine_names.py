"""What a machine calls its variables and actions changes no answer, nor does any text that it has for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from corpus_table import CASES
from machines import machine_of
from test_names import PIPELINES, CtaArrived, pair

from sm90_verify.counterexample.replay import trace_of
from sm90_verify.counterexample.trace import known_again, make_trace, shows_again, step_of
from sm90_verify.engines.check import check
from sm90_verify.engines.engine import Answer, Question, Subject
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.engines.smt.bounded import bounded
from sm90_verify.engines.smt.engine import SmtEngine
from sm90_verify.engines.smt.invariants import candidates
from sm90_verify.report.as_json import trace_object
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Check, Machine
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, fold


def scrambled(machine: Machine) -> Machine:
    """The same machine, in which each variable has the name of another, and so has each action, and each text."""
    old = [variable.name for variable in machine.variables]
    new = {"": "", **dict(zip(old, reversed(old), strict=True))}
    actions = [action.name for action in machine.actions]
    texts = dict.fromkeys(
        text
        for one in (*machine.actions, *(place for role in machine.roles for place in role.locations))
        for text in (one.op, one.object)
    )
    other = dict(zip(texts, reversed(list(texts)), strict=True))
    memo: dict[int, Expr] = {}

    def renamed(expr: Expr) -> Expr:
        return fold(
            expr,
            lambda lit: lit,
            lambda field: Field(new[field.name], field.width),
            lambda node, parts: Apply(node.operator, tuple(parts), node.width),
            memo,
        )

    def checks(some: Iterable[Check]) -> tuple[Check, ...]:
        return tuple(
            one._replace(when=renamed(one.when), cases=tuple((renamed(when), said) for when, said in one.cases))
            for one in some
        )

    structure = machine.structure
    return replace(
        machine,
        variables=tuple(replace(one, name=new[one.name], about="something") for one in machine.variables),
        roles=tuple(
            role._replace(
                counter=new[role.counter],
                locations=tuple(
                    place._replace(
                        op=other[place.op],
                        object=other[place.object],
                        checks=checks(place.checks),
                        settled=renamed(place.settled),
                    )
                    for place in role.locations
                ),
            )
            for role in machine.roles
        ),
        actions=tuple(
            action._replace(
                name=name,
                op=other[action.op],
                object=other[action.object],
                guard=renamed(action.guard),
                updates=tuple((new[field], renamed(value)) for field, value in action.updates),
                checks=checks(action.checks),
            )
            for action, name in zip(machine.actions, reversed(actions), strict=True)
        ),
        checks=checks(machine.checks),
        structure=structure._replace(
            clusters=tuple(
                one._replace(variables=tuple(new[name] for name in one.variables)) for one in structure.clusters
            ),
            barriers=tuple(
                one._replace(
                    phase=new[one.phase],
                    pending=new[one.pending],
                    tx=new[one.tx],
                    expected=new[one.expected],
                    unseen=tuple((role, new[name]) for role, name in one.unseen),
                )
                for one in structure.barriers
            ),
            copies=tuple(
                one._replace(variable=new[one.variable], content=new[one.content], pieces=new[one.pieces])
                for one in structure.copies
            ),
        ),
    )


def model(name: str, **parameters: Any) -> Any:
    text = " ".join((name, *(f"{key}={value}" for key, value in parameters.items())))
    return pytest.param(PIPELINES[name](**parameters), id=text)


CORPUS = [
    pytest.param(pipeline, id=f"{case.id} {pipeline.name}")
    for case in CASES
    for pipeline in (case.broken, *case.fixed[:1])
]
LIBRARY = [model(name, stages=2) for name in PIPELINES] + [model("tma-async", stages=2, consumers=3)]


@pytest.mark.parametrize("pipeline", [*CORPUS[::9], *LIBRARY])
def test_search_reads_no_name(pipeline: Pipeline) -> None:
    """The same states, in the same order, and traces that can be executed again."""
    machine = machine_of(pipeline)
    other = scrambled(machine)
    groups = [[group.roles for group in find_groups(one)] for one in (machine, other)]
    assert groups[0] == groups[1]
    for reduced in (False, True):
        found, before = (explore(one, reduced=reduced, limit=MOST) for one in (other, machine))
        assert found.violations == before.violations
        assert (found.states, found.transitions) == (before.states, before.transitions)
        assert (found.depth, found.unreached) == (before.depth, before.unreached)
        for one in found.violations.values():
            told = make_trace(other, one.property, one.because, one.actions, one.stuck)
            assert shows_again(other, told) and len(told.steps) == len(one.actions)


MOST = 3_000
"""States of a model to look at here."""


SAID = {
    "waits": ("wait ", "wait.", "try_wait ", "test_wait "),
    "signals": (
        *("arrive", "cp.async.mbarrier.arrive", "bar.", "barrier.cluster.arrive"),
        *("st ", "st.release", "st.relaxed", "red.release", "red.relaxed", "atom."),
    ),
    "loop": ("next iteration",),
    "lands": ("land",),
}
"""How the operations of each kind of step read."""


@pytest.mark.parametrize("pipeline", [*CORPUS, *LIBRARY])
def test_steps_of_traces_are_of_the_kinds_that_they_read_like(pipeline: Pipeline) -> None:
    machine = machine_of(pipeline)
    for action in machine.actions:
        step = step_of(machine, action, {})
        reads = [kind for kind, starts in SAID.items() if step.op.startswith(starts)]
        assert [step.kind] == (reads or ["lands" if action.kind == "piece" else "other"])
        assert ",".join(step.things) == step.object


def test_a_trace_from_a_file_knows_the_kinds_of_its_steps_once_it_is_executed() -> None:
    shown = check(pair(wrong=True), engine="search").trace
    assert shown is not None and {"waits", "signals"} <= {step.kind for step in shown.steps}
    read = trace_of(json.loads(json.dumps(trace_object(shown))))
    assert {step.kind for step in read.steps} == {"other"}
    assert known_again(compile_kernel(trace(pair(wrong=True))), read) == shown


@pytest.mark.parametrize("pipeline", [*CORPUS[::3], *LIBRARY])
def test_invariants_are_guessed_from_no_name(pipeline: Pipeline) -> None:
    machine = machine_of(pipeline)
    guessed = [[candidate.template for candidate in candidates(one)] for one in (machine, scrambled(machine))]
    assert guessed[0] == guessed[1]


@pytest.mark.parametrize("pipeline", CORPUS[::32])
def test_bounded_z3_reads_no_name(pipeline: Pipeline) -> None:
    machine = machine_of(pipeline)
    before, found = (bounded(one, 6, timeout=60.0) for one in (machine, scrambled(machine)))
    assert {one: len(found.violations[one].actions) for one in found.violations} == {
        one: len(before.violations[one].actions) for one in before.violations
    }


def proved(machine: Machine) -> Answer:
    return SmtEngine().answer(Question(Subject(compiled=machine), timeout=120.0))


@pytest.mark.parametrize("pipeline", [model("tma-async", stages=1), CtaArrived()])
def test_induction_reads_no_name(pipeline: Pipeline) -> None:
    machine = machine_of(pipeline)
    before, after = ([(one.id, one.verdict) for one in proved(one).findings] for one in (machine, scrambled(machine)))
    assert before == after
