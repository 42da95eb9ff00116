"""Which engines can be asked, alone and together; that all their answers are compared."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from checker import check
from checker.check import check_machine, check_pipeline
from checker.cli import main
from checker.result import ENGINES, PROVED, VIOLATED, Finding
from spec.compile import compile_pipeline
from spec.errors import SpecError
from spec.library import PIPELINES
from spec.pipeline import Pipeline, barrier, role, tile

WORDS = ["+".join(some) for count in (1, 2, 3) for some in permutations(ENGINES, count)]


class Unordered(Pipeline):
    a = tile(bytes=16)
    never = barrier(arrivals=1)

    @role(warps=1, copies=2)
    def writer(self):
        yield self.a.write()


@pytest.mark.parametrize("words", WORDS)
def test_every_combination_decides(words):
    right = check_pipeline(PIPELINES["tma-async"](stages=1, trips=2), command="pipeline", engine=words)
    assert (right.verdict, right.engine) == (PROVED, words)
    wrong = check_pipeline(Unordered(), command="spec", engine=words)
    assert wrong.verdict == VIOLATED and wrong.trace is not None and wrong.trace.property == "race"


@pytest.mark.parametrize("words", ["gpu", "smth", "", "search,order", "search+search", "search+gpu"])
def test_other_words_are_refused(words, capsys):
    with pytest.raises(SpecError, match="use search, order, smt"):
        check_pipeline(Unordered(), command="spec", engine=words)
    assert main(["pipeline", "--stages", "1", "--engine", words]) == 2
    assert "use search, order, smt" in capsys.readouterr().err


def test_order_decides_no_machine():
    with pytest.raises(SpecError, match="order decides a pipeline"):
        check_machine(compile_pipeline(Unordered()), command="spec", engine="order")


def test_prove_adds_z3_to_any_engine(capsys):
    assert main(["pipeline", "--stages", "1", "--trips", "1", "--engine", "order", "--prove", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "order+smt"
    assert main(["pipeline", "--stages", "1", "--trips", "1", "--engine", "smt", "--prove", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "smt"


def test_a_third_answer_that_contradicts_is_noticed(monkeypatch):
    def wrong(machine, asked, outcome):
        return check._Answer("order", tuple(Finding(property, VIOLATED) for property in asked), ())

    monkeypatch.setattr(check, "_by_order", wrong)
    with pytest.raises(AssertionError, match=r"(search|smt) and order contradict each other"):
        check_pipeline(PIPELINES["async"](stages=1, trips=1), command="pipeline", engine="search+smt+order")
