"""Random programs, decided by the engines and by an explorer that shares nothing with them."""

from __future__ import annotations

import pytest

from sm90_verify.evidence.fuzz.explorer import explore
from sm90_verify.evidence.fuzz.generate import random_program
from sm90_verify.evidence.fuzz.run import RULES, FuzzTally, compare, fuzz

FACTS = [
    # what an H100 did, one thread and one barrier: a launch that faults is a violation, a wait that blocks a deadlock
    ((("wait", 0, 1),), 3, set()),
    ((("wait", 0, 0),), 3, {"deadlock"}),
    ((("arrive", 0, 4), ("wait", 0, 0)), 4, set()),
    ((("arrive", 0, 3),), 2, {"arrival-count"}),
    ((("arrive", 0, 0), ("arrive", 0, 3), ("wait", 0, 0)), 3, set()),
    ((("arm", 0, 4096), ("complete", 0, 2048), ("wait", 0, 0)), 1, {"deadlock"}),
    ((("arm", 0, 4096), ("complete", 0, 2048), ("complete", 0, 2048), ("wait", 0, 0)), 1, set()),
    ((("complete", 0, 16), ("arm", 0, 16), ("wait", 0, 0)), 1, set()),
    ((("complete", 0, 16), ("arrive", 0, 1), ("expect", 0, 16), ("arrive", 0, 1), ("wait", 0, 0)), 2, set()),
    ((("arm", 0, 0), ("wait", 0, 0)), 1, set()),
    ((("expect", 0, 2**20 - 1), ("expect", 0, 1)), 1, {"tx-count"}),
    ((("complete", 0, 2**20 - 1), ("complete", 0, 1)), 1, {"tx-count"}),
    ((("complete", 0, 2**20 - 1), ("expect", 0, 2**20 - 1)), 1, set()),
]


@pytest.mark.parametrize(("role", "count", "violated"), FACTS)
def test_the_explorer_knows_what_the_hardware_does(role, count, violated):
    found = explore((role,), (count,))
    assert found is not None and found.violated == violated


def test_the_explorer_tells_waits_that_are_lapped_and_phases_that_nobody_sees():
    lapped = ((("wait", 0, 0),), (("arrive", 0, 1), ("arrive", 0, 1)))
    assert explore(lapped, (1,)).violated == {"phase-lapped", "unobserved-phase", "deadlock"}
    meeting = ((("wait", 0, 0), ("arrive", 1, 1)), (("arrive", 0, 1), ("wait", 1, 0), ("arrive", 0, 1)))
    assert explore(meeting, (1, 1)).violated == set()


def test_the_engines_decide_as_the_explorer_does():
    tally = fuzz(0, 300)
    assert tally.disagreements == []
    assert tally.programs == 300 and 10 <= tally.proved <= 290
    assert all(tally.used[rule] for rule in RULES), tally.used


def test_a_wrong_engine_is_told(monkeypatch):
    monkeypatch.setattr("sm90_verify.evidence.fuzz.run.reduced_search", lambda machine: (False, set()))
    tally = FuzzTally()
    for seed in range(5):
        compare(*random_program(seed), tally)
    assert any("reduced search: proved" in one and "class Found(Pipeline):" in one for one in tally.disagreements)
