"""Mutation scores as text for people and as an object for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sm90_verify.evidence.mutation.run import Fate, Score, exit_code, total
from sm90_verify.evidence.mutation.score import DISAGREED, EQUIVALENT, KILLED, REASONS, REFUSED, SURVIVED, UNDECIDED
from sm90_verify.mutation.operators import OPERATORS
from sm90_verify.report.as_json import header
from sm90_verify.result import PROPERTIES

VERDICTS = {0: "proved", 1: "violated", 3: "undetermined"}


def render(scores: Sequence[Score], *, every: bool) -> str:
    """A line a model; by operator and by property; survivors by reason. every: with the fate of each mutant."""
    whole = total(scores)
    heads = ("mutants", "equiv.", "refused", "killed", "survive", "open", "score")
    lines = [f"{'model':44} " + " ".join(f"{head:>7}" for head in heads)]
    lines += [_row(score) for score in (*scores, whole)]
    lines += ["", f"{'operator':12} {'killed':>7} {'survive':>7}  what it does"]
    for operator, what in OPERATORS.items():
        killed, survived = whole.by_operator(KILLED)[operator], whole.by_operator(SURVIVED)[operator]
        if killed or survived:
            lines.append(f"{operator:12} {killed:7} {survived:7}  {what}")
    lines += ["", f"{'killed by':16} {'':>7}  {'  '.join(score.label.split()[0] for score in _named(scores))}"]
    for property in PROPERTIES:
        counts = [score.killers()[property] for score in _named(scores)]
        if any(counts):
            row = "  ".join(
                f"{count:>{len(s.label.split()[0])}}" for count, s in zip(counts, _named(scores), strict=True)
            )
            lines.append(f"{property:16} {sum(counts):7}  {row}")
    unconfirmed = sum(not fate.outcome.confirmed for fate in whole.of(SURVIVED))
    lines += ["", "survivors, proved by the reduced search, and by the search of every schedule or happens-before"]
    if unconfirmed:
        lines[-1] += f" (but {unconfirmed})"
    lines += [f"{count:7}  {REASONS[reason]}" for reason, count in whole.reasons().most_common()]
    read_off = sum(fate.outcome.trips >= 0 for fate in whole.of(SURVIVED))
    if read_off:
        lines.append(
            f"{read_off} of these were compared by happens-before, and where a trip count is open for up to "
            "2 * stages + 1 iterations; the others by all their states"
        )
    asked = [fate.outcome.proof for fate in whole.of(SURVIVED) + whole.of(EQUIVALENT) if fate.outcome.proof]
    if asked:
        proved, left = asked.count("proved"), asked.count("undetermined")
        lines.append(f"Z3 was asked about {len(asked)} survivors and equivalents: {proved} proved, {left} left open")
    for verdict in (DISAGREED, UNDECIDED):
        lines += [f"{verdict}: {one}" for score in scores for one in _fates(score, verdict)]
    if every:
        for verdict in (SURVIVED, EQUIVALENT, REFUSED, KILLED):
            lines += ["", *(f"{verdict}: {one}" for score in scores for one in _fates(score, verdict))]
    lines.append(
        f"verify: MUTANTS {whole.decided} not equivalent, {whole.count(KILLED)} killed, score {whole.score:.3f}, "
        f"{whole.count(SURVIVED)} proved survivors, {whole.count(DISAGREED)} disagreements  {whole.seconds:.0f} s"
    )
    return "\n".join(lines)


def _named(scores: Sequence[Score]) -> list[Score]:
    """The models by name alone, whatever their sizes."""
    names = dict.fromkeys(score.label.split()[0] for score in scores)
    return [
        Score(name, tuple(fate for score in scores if score.label.split()[0] == name for fate in score.fates))
        for name in names
    ]


def _row(score: Score) -> str:
    counts = (EQUIVALENT, REFUSED, KILLED, SURVIVED)
    numbers = " ".join(f"{score.count(verdict):7}" for verdict in counts)
    open_ones = score.count(UNDECIDED) + score.count(DISAGREED)
    return f"{score.label:44} {len(score.fates):7} {numbers} {open_ones:7} {score.score:7.3f}"


def _fates(score: Score, verdict: str) -> Iterable[str]:
    for fate in score.of(verdict):
        outcome = fate.outcome
        why = ": ".join(part for part in (outcome.property, outcome.reason) if part)
        yield f"{score.label} #{fate.mutant.number} {fate.mutant.text} [{why}]"


def to_object(scores: Sequence[Score]) -> dict[str, Any]:
    """One JSON-able object: the whole, and each model with all its mutants."""
    return {
        **header("mutants"),
        "verdict": VERDICTS[exit_code(scores)],
        **_counts(total(scores)),
        "models": [{**_counts(score), "fates": [_fate(fate) for fate in score.fates]} for score in scores],
    }


def _counts(score: Score) -> dict[str, Any]:
    return {
        "model": score.label,
        "mutants": len(score.fates),
        "copies": score.copies,
        "not_equivalent": score.decided,
        **{verdict: score.count(verdict) for verdict in (KILLED, SURVIVED, EQUIVALENT, REFUSED, UNDECIDED, DISAGREED)},
        "score": round(score.score, 4),
        "killed_by": dict(score.killers()),
        "operators": {
            operator: {KILLED: score.by_operator(KILLED)[operator], SURVIVED: score.by_operator(SURVIVED)[operator]}
            for operator in OPERATORS
        },
        "reasons": dict(score.reasons()),
        "seconds": round(score.seconds, 2),
    }


def _fate(fate: Fate) -> dict[str, Any]:
    outcome = fate.outcome
    return {
        "number": fate.mutant.number,
        "operator": fate.mutant.operator,
        "where": fate.mutant.where,
        "change": fate.mutant.change,
        "verdict": outcome.verdict,
        "property": outcome.property,
        "reason": outcome.reason,
        "steps": outcome.steps,
        "states": outcome.states,
        "proof": outcome.proof,
        "confirmed": outcome.confirmed,
        "order": outcome.ordered,
        "compared": {"by": "order" if outcome.trips >= 0 else "states", "trips": outcome.trips},
    }
