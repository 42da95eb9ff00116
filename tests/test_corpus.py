"""Every broken pipeline of the corpus gives exactly the findings that it must, and every fixed twin is proved."""

from __future__ import annotations

import inspect
import re
from functools import cache

import pytest
from corpus_table import CASES, LEFT_OUT, MODULES, Case
from machines import machine_of

from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROPERTIES
from sm90_verify.spec.language.pipeline import Pipeline

BROKEN = [pytest.param(case, id=case.id) for case in CASES]
FIXED = [
    pytest.param(pipeline, id=f"{case.id} {pipeline.name} {number}")
    for case in CASES
    for number, pipeline in enumerate(case.fixed)
]
MOST_STATES = 5_000
MOST_STEPS = 26


@cache
def explored(pipeline: Pipeline) -> Exploration:
    return explore(machine_of(pipeline))


@pytest.mark.parametrize("case", BROKEN)
def test_broken_pipeline_gives_its_findings(case: Case) -> None:
    found = explored(case.broken).violations
    assert set(found) == set(case.finds)
    for property, blamed in case.finds.items():
        violation = found[property]
        report = " ".join((violation.object, violation.because, *violation.stuck))
        assert any(name in report for name in blamed.split(" or ")), violation


@pytest.mark.parametrize("case", BROKEN)
def test_broken_pipeline_is_small(case: Case) -> None:
    """Other engines must be able to agree on it: few states, and a short trace of the first violation."""
    exploration = explored(case.broken)
    assert exploration.complete
    assert exploration.states <= MOST_STATES
    assert min(len(violation.actions) for violation in exploration.violations.values()) <= MOST_STEPS


@pytest.mark.parametrize("pipeline", FIXED)
def test_fixed_twin_is_proved(pipeline: Pipeline) -> None:
    exploration = explored(pipeline)
    assert exploration.complete
    assert exploration.violations == {}
    assert is_undetermined(exploration) == ""


@pytest.mark.parametrize("pipeline", FIXED)
def test_fixed_twin_does_something(pipeline: Pipeline) -> None:
    """A proof about a program that never gets anywhere proves nothing: every line of every role is executed."""
    machine = machine_of(pipeline)
    unreached = set(explored(pipeline).unreached)
    executed = {(action.role, action.source) for index, action in enumerate(machine.actions) if index not in unreached}
    lines = {
        (role.name, location.source) for role in machine.roles for location in role.locations if not location.final
    }
    assert lines - executed == set()


@pytest.mark.parametrize("case", BROKEN)
def test_reduced_search_finds_something_too(case: Case) -> None:
    assert explore(machine_of(case.broken), reduced=True).violations


@pytest.mark.parametrize("pipeline", FIXED)
def test_reduced_search_proves_it_too(pipeline: Pipeline) -> None:
    reduced = explore(machine_of(pipeline), reduced=True)
    assert (reduced.complete, reduced.violations, is_undetermined(reduced)) == (True, {}, "")
    assert reduced.states <= explored(pipeline).states


def test_every_case_is_in_or_has_a_reason_not_to_be() -> None:
    faults = [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        11,
        12,
        13,
        14,
        15,
        17,
        19,
        20,
        22,
        23,
        25,
        27,
        28,
        30,
        31,
        32,
        34,
        35,
        36,
        37,
        38,
    ]
    races = [2, 3, 4, 5, 6, 8, 10, 11, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]
    patterns = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19]
    known = [
        f"{letter}{n:02}" for letter, numbers in zip("DRF", (faults, races, patterns), strict=True) for n in numbers
    ]
    cases = {match[0] for case in CASES if (match := re.match(r"[DRF]\d\d", case.id))}
    assert sorted((*cases, *LEFT_OUT)) == sorted(known)


def test_every_broken_class_says_where_to_read_about_it() -> None:
    silent = [case.id for case in CASES if not type(case.broken).__doc__]
    assert silent == []


def test_cases_are_well_formed() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    for case in CASES:
        assert set(case.finds) <= set(PROPERTIES)
        assert case.finds
        assert case.fixed


def test_every_module_is_what_a_user_would_write() -> None:
    """It imports the public names and nothing else, so that `verify spec FILE:CLASS` runs each of its classes."""
    for module in MODULES:
        imports = re.findall(r"^(?:from|import) ([a-z_0-9.]+)", inspect.getsource(module), re.MULTILINE)
        assert set(imports) <= {"__future__", "sm90_verify"}
