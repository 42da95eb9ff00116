"""What engines answer alone and together: one answer is made of several, and a contradiction is an error."""

from __future__ import annotations

from itertools import permutations

import pytest
from corpus_table import CASES
from test_engines import WORDS, Claims, HandsOver

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.engines.combine import Contradiction, combine
from sm90_verify.engines.engine import Answer, Question, Subject
from sm90_verify.engines.smt.bounded import Bounded
from sm90_verify.engines.table import ENGINES
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

PIPELINES = kernels("pipeline")


def verdicts(answer):
    return {finding.id: finding.verdict for finding in answer.findings}


@pytest.fixture
def third(monkeypatch):
    """Registers one more engine, "third", that gives this verdict."""
    return lambda verdict: monkeypatch.setitem(ENGINES, "third", lambda: Claims("third", verdict))


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("words", [*WORDS, "smt+order+search"])
def test_every_combination_proves_and_refutes(words):
    proved = check(HandsOver(), engine=words)
    assert (proved.verdict, proved.engine) == (PROVED, words)
    wrong = check(HandsOver(waits=False), engine=words, properties=("race",))
    assert (wrong.verdict, wrong.engine) == (VIOLATED, words)
    assert wrong.trace is not None
    assert wrong.trace.property == "race"


@pytest.mark.parametrize("words", WORDS)
def test_only_what_is_asked_is_answered(words):
    result = check(HandsOver(), engine=words, properties=("race", "deadlock"))
    assert [finding.id for finding in result.findings] == ["deadlock", "race"]


def test_the_figures_are_those_of_the_first_engine():
    search, order = (check(HandsOver(), engine=words) for words in ("search", "order"))
    both = check(HandsOver(), engine="search+order")
    assert (both.states, both.transitions) == (search.states, search.transitions)
    assert (order.states, order.transitions) == (0, 5)
    assert (both.reduced, both.shortest) == (search.reduced, search.shortest) == (True, False)
    assert (order.reduced, order.shortest) == (None, None)


def test_bounds_reach_every_engine():
    result = check(PIPELINES["tma-async"](stages=2), engine="search+order", limit=120)
    assert set(verdicts(result).values()) == {UNDETERMINED}
    assert {finding.note for finding in result.findings} == {"search: the limit of 120 states (--limit)"}


@pytest.mark.parametrize("words", ["search", "order", "search+order"])
def test_a_third_engine_that_contradicts_is_caught(words, third):
    third(VIOLATED)
    first = words.split("+")[0]
    with pytest.raises(Contradiction, match=f"{first} and third contradict each other on deadlock"):
        check(HandsOver(), engine=f"{words}+third")
    third(PROVED)
    with pytest.raises(Contradiction, match=f"{first} and third contradict each other on race"):
        check(HandsOver(waits=False), engine=f"{words}+third", properties=("race",))
    assert check(HandsOver(), engine=f"{words}+third").verdict == PROVED


def test_a_contradiction_is_an_internal_error_of_the_command(third, capsys):
    third(VIOLATED)
    assert main(["pipeline", "tma-async", "--stages", "1", "--engine", "order+third"]) == 2
    err = capsys.readouterr().err
    assert "internal error" in err
    assert "order and third contradict each other" in err


def test_what_a_third_engine_leaves_open_is_open(third):
    third(UNDETERMINED)
    result = check(HandsOver(), engine="search+order+third")
    assert {finding.note for finding in result.findings} == {"third: no time"}
    assert result.verdict == UNDETERMINED
    wrong = check(HandsOver(waits=False), engine="third+search", properties=("race",))
    assert wrong.verdict == VIOLATED


def answer(name, *verdicts, shortest=None, notes=()):
    findings = tuple(Finding(f"p{number}", verdict, note=name) for number, verdict in enumerate(verdicts))
    return Answer(name, findings, notes, shortest=shortest)


def test_answers_are_compared_in_pairs_wherever_they_stand():
    proved, wrong, unsure = answer("a", PROVED), answer("b", VIOLATED), answer("c", UNDETERMINED)
    for answers in permutations((proved, wrong, unsure)):
        with pytest.raises(Contradiction, match=r"a and b|b and a"):
            combine(answers)
    for answers in permutations((wrong, unsure, wrong._replace(engine="d"))):
        assert verdicts(combine(answers)) == {"p0": VIOLATED}
    for answers in permutations((proved, unsure, proved._replace(engine="d"))):
        assert combine(answers).findings == (Finding("p0", UNDETERMINED, note="c: c"),)
    with pytest.raises(Contradiction, match="a answers on p0 where b does on other"):
        combine((proved, wrong._replace(findings=(Finding("other", PROVED),))))
    with pytest.raises(ValueError, match="longer"):
        combine((proved, answer("b", PROVED, PROVED)))


def test_a_trace_is_the_shortest_only_if_its_engine_says_so():
    exact, other = answer("a", VIOLATED, shortest=True), answer("b", VIOLATED)
    open_one = answer("c", UNDETERMINED, shortest=True)
    assert combine((exact, other)).shortest
    assert not combine((other, exact)).shortest
    assert not combine((open_one, other)).shortest


class Stuck(Pipeline):
    """Waits for ever; one that polls instead may have a shorter schedule than bounded search sees."""

    polls = False
    never = barrier(arrivals=1)

    @role(warps=1)
    def waiter(self):
        if not self.polls or not (yield self.never.test_wait(0)):
            yield self.never.wait(0)


def test_z3_calls_a_trace_the_shortest_only_where_bounded_search_found_it(monkeypatch):
    proved, wrong = (check(HandsOver(waits=waits), engine="smt") for waits in (True, False))
    assert (proved.verdict, proved.shortest) == (PROVED, False)
    assert (wrong.verdict, wrong.shortest) == (VIOLATED, True)
    assert check(Stuck(), engine="smt", properties=("deadlock",)).shortest
    assert not check(Stuck(polls=True), engine="smt", properties=("deadlock",)).shortest
    monkeypatch.setattr("sm90_verify.engines.smt.induction.deepen", lambda *_, **__: Bounded())
    walked = check(Stuck(), engine="smt", properties=("deadlock",))
    assert (walked.verdict, walked.shortest) == (VIOLATED, False)


def test_no_note_comes_twice():
    assert combine((answer("a", PROVED, notes=("x", "y")), answer("b", PROVED, notes=("y", "z")))).notes == (
        "x",
        "y",
        "z",
    )


def test_programs_are_traced_and_compiled_once(monkeypatch):
    counted = {"trace": 0, "compile": 0}

    def counting(name, function):
        def call(*arguments, **named):
            counted[name] += 1
            return function(*arguments, **named)

        return call

    from sm90_verify.spec.model import compile

    monkeypatch.setattr("sm90_verify.engines.check.trace", counting("trace", trace))
    monkeypatch.setattr(compile, "compile_kernel", counting("compile", compile.compile_kernel))
    check(HandsOver(), engine="search+order+smt")
    assert counted == {"trace": 1, "compile": 1}
    check(HandsOver(), engine="order")
    assert counted == {"trace": 2, "compile": 1}


def test_proof_is_told_what_a_search_has_covered(monkeypatch):
    """A complete proof by search, and nothing else, makes the notes of Z3 about untaken actions superfluous."""
    asked = {}

    class Listens(Claims):
        def answer(self, question):
            asked[self.name] = question.covered
            return super().answer(question)

    monkeypatch.setitem(ENGINES, "third", lambda: Listens("third", UNDETERMINED))
    for words, covered in (("search+third", True), ("order+third", False), ("third", False)):
        check(HandsOver(), engine=words)
        assert asked["third"] == covered
    check(HandsOver(), engine="search+third", limit=1)
    assert asked["third"] is False


def test_a_question_is_put_to_an_engine_by_itself():
    answer = ENGINES["order"]().answer(Question(Subject(trace(HandsOver(waits=False))), ("race",)))
    assert (answer.engine, verdicts(answer), answer.events > 0) == ("order", {"race": VIOLATED}, True)


def test_one_deadlock_does_not_prove_that_no_barrier_starves():
    """search and order find different deadlocks of this one, of which one shows a barrier that gets too few."""
    (case,) = (case for case in CASES if case.id == "D02 full")
    found = {words: check(case.broken, engine=words) for words in ("search", "order", "search+order")}
    assert [verdicts(found[words])["arrival-count"] for words in found] == [UNDETERMINED, VIOLATED, VIOLATED]
    assert {verdicts(one)["deadlock"] for one in found.values()} == {VIOLATED}


# ---------------------------------------------------------------- arrivals in phases that nobody has seen begin

UNSEEN = [case for case in CASES if case.id in ("D11c self", "D38 local form")]


@pytest.mark.parametrize("words", ["search", "order", "smt"])
@pytest.mark.parametrize("case", UNSEEN, ids=[case.id for case in UNSEEN])
def test_an_unobserved_phase_is_not_a_lapped_wait(case, words):
    strict = type(case.broken)(**{**case.broken.parameters(), "strict": True})
    (finding,) = check(strict, engine=words, properties=("unobserved-phase",)).findings
    assert finding.verdict == VIOLATED
    assert finding.trace is not None and "9.7.13.15.4" in finding.trace.because
    lapped = check(case.broken, engine=words, properties=("phase-lapped",), timeout=4)
    assert lapped.verdict in (PROVED, UNDETERMINED)
    if (case.id, words) == ("D11c self", "search"):
        assert lapped.verdict == PROVED
