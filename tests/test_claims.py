"""Claims are settled by runs alone: the rule that draws conclusions, what the runs say, and what people read."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.evidence.claims.claim import DEPENDS, HOLDS, OPEN, REFUTED, Claim, Condition, Point, settle
from sm90_verify.evidence.claims.models import rings
from sm90_verify.evidence.claims.report import exit_code
from sm90_verify.evidence.claims.runs import enumerated
from sm90_verify.evidence.claims.table import chosen, table
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result

# ---------------------------------------------------------------- the rule


def result(verdict: str) -> Result:
    return Result("claims", "m", {}, "search", (Finding("race", verdict, note="so it is"),))


def claim(*verdicts: tuple[str, str], conditions=(), beyond=()) -> Claim:
    """A claim whose n-th point predicts one verdict and gets another."""
    points = [
        Point({"n": n}, lambda got=got: result(got), predicted, n in beyond)
        for n, (predicted, got) in enumerate(verdicts)
    ]
    return Claim(1, "text", "statement", lambda: points, tuple(conditions))


P, V, U = PROVED, VIOLATED, UNDETERMINED
FIRST = Condition("n is 0", lambda p: p["n"] == 0)
ANY = Condition("always", lambda p: True)


@pytest.mark.parametrize(
    ("verdicts", "options", "expected"),
    [
        ([(P, P), (V, V)], {}, HOLDS),
        ([(P, V), (V, P)], {}, REFUTED),
        ([(P, P), (P, V)], {}, REFUTED),
        ([(P, P), (P, V)], {"conditions": [FIRST]}, DEPENDS),
        ([(P, P), (P, V)], {"conditions": [ANY, FIRST]}, DEPENDS),
        ([(P, V), (P, P)], {"conditions": [FIRST]}, OPEN),
        ([(P, P), (P, V), (P, P)], {"conditions": [FIRST]}, OPEN),
        ([(P, V), (P, V)], {"conditions": [FIRST]}, REFUTED),
        ([(P, P), (P, P)], {"conditions": [FIRST]}, HOLDS),
        ([(P, P), (P, U)], {}, OPEN),
        ([(P, P), (P, V)], {"beyond": [1]}, HOLDS),
        ([(P, P), (P, U)], {"beyond": [1]}, HOLDS),
    ],
)
def test_verdicts_follow_from_the_points(verdicts, options, expected):
    settled = settle(claim(*verdicts, **options))
    assert settled.verdict == expected
    assert (settled.condition == "n is 0") == (expected == DEPENDS)
    assert exit_code([settled]) == (3 if expected == OPEN else 0)


def test_a_claim_that_asks_nothing_is_an_error():
    with pytest.raises(ValueError, match="asks nothing"):
        settle(claim((P, P), beyond=[0]))
    with pytest.raises(ValueError, match="enumeration of nothing"):
        enumerated("nothing", {}, list)()


# ---------------------------------------------------------------- what the runs say

SETTLED = {
    6: HOLDS,
    8: DEPENDS,
    9: DEPENDS,
    11: DEPENDS,
    12: HOLDS,
    13: HOLDS,
    17: DEPENDS,
    19: HOLDS,
    20: DEPENDS,
    21: HOLDS,
    25: HOLDS,
    27: REFUTED,
    34: REFUTED,
    39: HOLDS,
    43: HOLDS,
    46: REFUTED,
    49: HOLDS,
    50: HOLDS,
    51: REFUTED,
    55: REFUTED,
    56: DEPENDS,
    57: HOLDS,
    58: REFUTED,
    59: HOLDS,
    61: DEPENDS,
    62: DEPENDS,
    63: REFUTED,
    67: REFUTED,
    72: HOLDS,
    73: DEPENDS,
    76: HOLDS,
    93: DEPENDS,
    94: DEPENDS,
    95: DEPENDS,
    97: DEPENDS,
    98: REFUTED,
    99: REFUTED,
    110: HOLDS,
}
"""The quick ones; `verify claims` settles all."""


@pytest.mark.parametrize("id", SETTLED)
def test_settled(id):
    (one,) = chosen([id])
    settled = settle(one)
    assert settled.verdict == SETTLED[id], settled.because
    assert bool(settled.condition) == (settled.verdict == DEPENDS)
    assert all(evidence.agrees for evidence in settled.evidence if evidence.point.beyond)
    wrong = [evidence for evidence in settled.evidence if not evidence.agrees]
    if settled.verdict in (REFUTED, DEPENDS):
        assert (wrong and settled.shown is not None) or all(one.result.verdict == PROVED for one in wrong)


def test_the_table_has_every_claim_once():
    ids = [one.id for one in table()]
    assert len(ids) == 61 == len(set(ids)) and ids == sorted(ids)


# ---------------------------------------------------------------- the command


def test_a_refuted_claim_comes_with_its_trace(capsys):
    assert main(["claims", "58"]) == 0
    out = capsys.readouterr().out
    assert "  58  refuted " in out and "error[race]" in out and "arrive full" in out
    assert (
        "again: verify spec checker/evidence/claims/models/rings.py:Expectation --set stages=1" in out
        and "verify replay" not in out
    )
    assert out.splitlines()[-1].startswith("verify: SETTLED 1 claims: 0 hold, 1 refuted, 0 depend")


def test_the_command_that_finds_it_again(capsys):
    assert main(["spec", f"{rings.__file__}:Expectation", "--set", "stages=1", "--set", "how=arrive-expect"]) == 1
    assert "error[race]" in capsys.readouterr().out


def test_a_claim_that_depends_names_its_condition(capsys):
    assert main(["claims", "9", "43"]) == 0
    out = capsys.readouterr().out
    assert "   9  depends " in out and "if no arrival is pending any more" in out and "  43  holds " in out


def test_json(capsys, tmp_path):
    assert main(["claims", "8", "51", "--format", "json", "-o", str(tmp_path / "claims.json")]) == 0
    assert capsys.readouterr().out == ""
    found = json.loads((tmp_path / "claims.json").read_text())
    assert (found["schema"], found["command"], found["settled"]) == (1, "claims", True)
    eight, fifty_one = found["claims"]
    assert eight["verdict"] == DEPENDS and "no arrival is pending" in eight["condition"]
    assert {one["agrees"] for one in eight["evidence"]} == {True, False}
    assert fifty_one["verdict"] == REFUTED and fifty_one["condition"] is None
    assert fifty_one["trace"]["steps"][0]["op"] == "complete_tx"
    assert fifty_one["evidence"][0]["engine"] == "smt"


def test_an_undetermined_claim_exits_3(monkeypatch, capsys):
    monkeypatch.setattr("sm90_verify.evidence.claims.table.table", lambda: (claim((P, U)),))
    assert main(["claims"]) == 3
    assert "verify: UNDETERMINED 1 claims" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["2"], ["0"], ["x"], ["58", "--engine", "smt"]])
def test_what_cannot_be_asked(arguments, capsys):
    assert main(["claims", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
