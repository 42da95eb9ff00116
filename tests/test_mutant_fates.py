"""What becomes of mutants: how their behaviour compares, what kills them, and what they come to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from mutant_names import named

from sm90_verify.cli.main import main
from sm90_verify.engines.order import order
from sm90_verify.engines.search.exploration import Exploration
from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.mutation import score
from sm90_verify.evidence.mutation.behaviour import FEWER, MORE, OPEN, OTHER, SAME, Behaviour, compare
from sm90_verify.evidence.mutation.run import exit_code, score_of
from sm90_verify.evidence.mutation.score import DISAGREED, EQUIVALENT, KILLED, REFUSED, SURVIVED, MutantOutcome, run
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import Async, TmaAsync, TmaStore
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.ghost import Ghost

PIPELINES = kernels("pipeline")

# ---------------------------------------------------------------- comparison


def chain(*labels, loop=False):
    """A behaviour that shows these labels one after the other, None for a step that shows nothing."""
    steps = [[(label, number + 1)] for number, label in enumerate(labels)] + [[]]
    if loop:
        steps[-1] = [("again", 0)]
    return Behaviour([0] * len(steps), steps)


def both(one: Behaviour, other: Behaviour) -> Behaviour:
    """One or the other, decided by a step that shows nothing."""
    shift = 1 + len(one.steps)
    steps = [[(None, 1), (None, shift)]]
    steps += [[(label, target + 1) for label, target in ways] for ways in one.steps]
    steps += [[(label, target + shift) for label, target in ways] for ways in other.steps]
    return Behaviour([0] * len(steps), steps)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (chain("a", "b"), chain("a", "b"), SAME),
        (chain("a", None, "b"), chain(None, "a", "b", None), SAME),
        (chain("a", "b", loop=True), chain(None, "a", "b", loop=True), SAME),
        (both(chain("a"), chain("b")), chain("a"), FEWER),
        (chain("a"), both(chain("a"), chain("b")), MORE),
        (chain("a", "b"), chain("b", "a"), OTHER),
        (both(chain("a", "b"), chain("a", "c")), both(chain("a", "c"), chain("a", "b")), SAME),
        (Behaviour([0, 1], [[(None, 1)], []]), Behaviour([0, 2], [[(None, 1)], []]), OTHER),
        (Behaviour([0], [[]]), Behaviour([1], [[]]), OTHER),
    ],
)
def test_sequences_are_compared(first, second, answer):
    assert compare(first, second, 100) == answer


def test_a_comparison_can_be_cut_short():
    assert compare(chain("a", "b", "c"), chain("a", "b", "c"), 2) == OPEN


RING = Model(TmaAsync, {"stages": 2, "consumers": 1}, {"trips": 5})


def fate(operator: str, *words: str, model: Model = RING, nth: int = -1) -> MutantOutcome:
    return run(model, named(model, operator, *words, nth=nth))


def test_an_equivalent_mutant_is_told_from_others():
    """A second wait for the same phase shows nothing; expect_tx in a step of its own shows an announced barrier."""
    outcome = fate("duplicate", "consumer", "wait parity 0")
    assert (outcome.verdict, outcome.reason) == (EQUIVALENT, "the same behaviour")
    assert (fate("order", "expect_tx, then arrive").verdict, fate("order", "expect_tx, then arrive").reason) == (
        SURVIVED,
        "same",
    )


@pytest.mark.parametrize(
    ("model", "words", "reason"),
    [
        (RING, ("postpone", "consumer", "arrive x128"), "fewer"),
        (RING, ("drop", "producer", "wait parity 1"), "more"),
        (RING, ("duplicate", "consumer", " mma k=0"), "accesses"),
        (Model(TmaStore, {"stages": 2}), ("pending", "store_warp", "1 -> 0"), "fewer"),
        (Model(TmaStore, {"stages": 2}), ("drop", "store_warp", " store k=0"), "accesses"),
    ],
)
def test_why_a_survivor_may_live(model, words, reason):
    """The second wait of a producer is that of its tail."""
    outcome = fate(*words, model=model, nth=1 if "producer" in words else -1)
    assert (outcome.verdict, outcome.reason, outcome.confirmed) == (SURVIVED, reason, True)


def test_a_wait_for_what_has_ended_already_shows_nothing():
    """With one stage of D every store has been waited for before the tail does."""
    model = Model(Epilogue, {"stages_c": 2, "stages_d": 1, "subtiles": 2, "tiles": 1})
    outcome = fate("drop", "store_warp", "wait_group.read 0", model=model, nth=1)
    assert (outcome.verdict, outcome.reason) == (EQUIVALENT, "the same behaviour")


def test_the_same_program_is_noticed():
    outcome = fate("start", "store_warp", "other phase", model=Model(TmaStore, {"stages": 2}))
    assert (outcome.verdict, outcome.reason) == (EQUIVALENT, "the same program")


# ---------------------------------------------------------------- fates


@pytest.mark.parametrize(
    ("words", "property"),
    [
        (("drop", "consumer", "arrive x128"), "deadlock"),
        (("swap", "wait_group 0"), "race"),
        (("tag", "consumer"), "stale-read"),
        (("bytes", "expect_tx", "-> 16384"), "tx-count"),
        (("count", "128 -> 129"), "arrival-count"),
        (("bytes", "load", "-> 32784"), "smem-overlap"),
        (("init", "pipeline.full", "1 -> 0"), "barrier-init"),
    ],
)
def test_what_kills_it(words, property):
    outcome = fate(*words)
    assert (outcome.verdict, outcome.property) == (KILLED, property)
    assert outcome.steps > 0 or property in ("barrier-init", "smem-overlap")


def test_a_mutant_without_meaning_is_refused():
    outcome = fate("postpone", "producer", "wait parity 1", nth=0)
    assert outcome.verdict == REFUSED
    assert "already gone beyond" in outcome.property


def test_a_mutant_that_skips_phases_without_end_is_decided_for_all_trips():
    outcome = fate("drop", "producer", "wait parity 1", nth=0)
    assert (outcome.verdict, outcome.property) == (KILLED, "arrival-count")
    assert outcome.reason.startswith("pipeline.full[0]: more arrivals than")


def test_a_mutant_that_cannot_be_closed_is_decided_for_a_few_trips(monkeypatch):
    """As one whose waits skip phases by the states of two origins."""
    monkeypatch.setattr(Ghost, "waits_alone", lambda *_: False)
    outcome = fate("drop", "producer", "wait parity 1", nth=0)
    assert (outcome.verdict, outcome.property) == (KILLED, "arrival-count")
    assert outcome.reason.startswith("with trips=5, pipeline.full[0]: more arrivals than")
    assert "; otherwise refused: role producer: a wait on pipeline.empty[0] skips" in outcome.reason


def without_violations(machine, **options):
    """A search that sees nothing wrong."""
    found = explore(machine, **options)
    return Exploration(found.states, found.transitions, complete=True) if options.get("reduced") else found


def test_a_kill_that_the_reduced_search_misses_is_a_disagreement(monkeypatch):
    monkeypatch.setattr(score, "explore", without_violations)
    outcome = fate("swap", "wait_group 0")
    assert (outcome.verdict, outcome.property) == (DISAGREED, "race")
    assert exit_code([score_of("x", [named(RING, "swap", "wait_group 0")], [outcome])]) == 1


def test_z3_is_asked_about_survivors():
    model = Model(TmaStore, {"stages": 2})
    outcome = run(model, named(model, "pending", "store_warp", "1 -> 0"), proof_timeout=30.0)
    assert (outcome.verdict, outcome.proof) == (SURVIVED, "proved")


def test_a_kill_that_both_searches_miss_is_a_disagreement(monkeypatch):
    monkeypatch.setattr(score, "explore", lambda machine, **options: Exploration(complete=True))
    wrong = named(RING, "drop", "consumer", "arrive x128")
    outcome = run(RING, wrong)
    assert (outcome.verdict, outcome.reason) == (DISAGREED, "happens-before finds what both searches miss")
    monkeypatch.setattr(score, "order", lambda kernel: replace(order(kernel), failures=(), why="not asked"))
    outcome = run(RING, wrong, proof_timeout=30.0)
    assert (outcome.verdict, outcome.reason) == (DISAGREED, "Z3 finds what both searches miss")


def test_happens_before_confirms_what_the_search_of_every_schedule_leaves(monkeypatch):
    survivor = named(RING, "swap", "arrive.expect_tx")
    whole = run(RING, survivor)
    assert (whole.verdict, whole.ordered) in [(SURVIVED, "proved"), (EQUIVALENT, "proved")]
    monkeypatch.setattr(score, "explore", without_the_end)
    assert run(RING, survivor).confirmed
    monkeypatch.setattr(score, "order", lambda kernel: replace(order(kernel), why="not asked"))
    assert not run(RING, survivor).confirmed


def without_the_end(machine, **options):
    """A search of every schedule that runs out of states."""
    found = explore(machine, **options)
    return found if options.get("reduced") else replace(found, complete=False, ran_out="states")


def test_a_model_that_is_wrong_itself_has_no_score():
    model = Model(Async, {"stages": 2, "consumers": 0})
    with pytest.raises(SpecError, match="async is not proved itself"):
        run(model, mutants_of(model)[0])


def test_a_mutant_that_breaks_the_checker_is_a_disagreement(monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(score, "make_trace", broken)
    outcome = fate("swap", "wait_group 0")
    assert (outcome.verdict, outcome.reason) == (DISAGREED, "it broke the checker: ZeroDivisionError: by zero")


def test_only_the_first_of_equal_programs_counts():
    mutants = mutants_of(Model(TmaStore, {"stages": 2}, thin=True))[:3]
    outcomes = [
        MutantOutcome(0, KILLED, program="p"),
        MutantOutcome(1, KILLED, program="p"),
        MutantOutcome(2, REFUSED, "why"),
    ]
    one = score_of("x", mutants, outcomes)
    assert (len(one.fates), one.copies, one.decided, one.score) == (2, 1, 1, 1.0)


def test_reading_what_nobody_writes_is_stale():
    outcome = fate("drop", "producer", "write", model=Model(Async, {"stages": 2, "consumers": 1}))
    assert (outcome.verdict, outcome.property) == (KILLED, "stale-read")


# ---------------------------------------------------------------- the whole


def test_the_score_of_a_small_model():
    model = Model(PIPELINES["ordered-sequence"], {"stages": 2, "consumers": 2}, {"trips": 5}, thin=True)
    mutants = mutants_of(model)
    one = score_of(model.label, mutants, [run(model, mutant) for mutant in mutants])
    counts = {verdict: one.count(verdict) for verdict in (KILLED, SURVIVED, EQUIVALENT, REFUSED, DISAGREED)}
    assert counts == {KILLED: 36, SURVIVED: 4, EQUIVALENT: 2, REFUSED: 0, DISAGREED: 0}
    assert one.copies == len(mutants) - 42
    assert one.killers() == {
        "deadlock": 10,
        "race": 4,
        "stale-read": 9,
        "phase-lapped": 4,
        "arrival-count": 7,
        "barrier-init": 1,
        "unobserved-phase": 1,
    }


def test_command(capsys):
    assert main(["mutants", "ordered-sequence stages=2 consumers=1", "--format", "json", "--processes", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (one,) = answer["models"]
    assert (answer["verdict"], answer["disagreed"], one["undecided"]) == ("proved", 0, 0)
    assert (
        one["killed"] + one["survived"]
        == one["not_equivalent"]
        == sum(fate["verdict"] in (KILLED, SURVIVED) for fate in one["fates"])
    )


def test_unknown_model(capsys):
    assert main(["mutants", "nonsense"]) == 2
    assert "no model 'nonsense' has mutants: use one of tma-async" in capsys.readouterr().err
