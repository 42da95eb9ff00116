"""The report on mutation scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sm90_verify.evidence.mutation.run import Fate, Score, exit_code, total
from sm90_verify.evidence.mutation.score import DISAGREED, EQUIVALENT, KILLED, REASONS, REFUSED, SURVIVED, UNDECIDED
from sm90_verify.mutation.variation import OPERATORS
from sm90_verify.report.sections import Break, Column, JsonValues, Lines, Paragraph, Report, Section, Table, Tally
from sm90_verify.result import PROPERTIES

VERDICTS = {0: "proved", 1: "violated", 3: "undetermined"}


HEADS = ("mutants", "equiv.", "refused", "killed", "survive", "open", "score")
SCORES = (Column("model", 44), *(Column(head, 7, right=True) for head in HEADS))
BY_OPERATOR = (
    Column("operator", 12),
    Column("killed", 7, right=True),
    Column("survive", 7, right=True),
    Column("what it does", gap=2),
)


def report(scores: Sequence[Score], *, every: bool) -> Report:
    """A row a model; by operator and by property; survivors by reason. every: with the fate of each mutant."""
    whole = total(scores)
    sections: list[Section] = [Table(SCORES, tuple(_row(score) for score in (*scores, whole)))]
    sections += [Break(), _by_operator(whole), Break(), _killers(_named(scores)), Break(), *_survivors(whole)]
    for verdict in (DISAGREED, UNDECIDED):
        sections.append(_fates(scores, verdict))
    if every:
        for verdict in (SURVIVED, EQUIVALENT, REFUSED, KILLED):
            sections += [Break(), _fates(scores, verdict)]
    what = (
        f"{whole.decided} not equivalent, {whole.count(KILLED)} killed, score {whole.score:.3f}, "
        f"{whole.count(SURVIVED)} proved survivors, {whole.count(DISAGREED)} disagreements"
    )
    return (*sections, Tally("MUTANTS", what, (f"{whole.seconds:.0f} s",)), JsonValues("mutants", _values(scores)))


def _by_operator(whole: Score) -> Table:
    killed, survived = whole.by_operator(KILLED), whole.by_operator(SURVIVED)
    rows = ((operator, killed[operator], survived[operator], what) for operator, what in OPERATORS.items())
    return Table(BY_OPERATOR, tuple((name, str(k), str(s), what) for name, k, s, what in rows if k or s))


def _killers(named: Sequence[Score]) -> Table:
    """A row for each property that kills a mutant, a column for each model."""
    names = [score.label.split()[0] for score in named]
    columns = (
        Column("killed by", 16),
        Column("", 7, right=True),
        *(Column(name, len(name), right=True, gap=2) for name in names),
    )
    rows = []
    for property in PROPERTIES:
        counts = [score.killers()[property] for score in named]
        if any(counts):
            rows.append((property, str(sum(counts)), *map(str, counts)))
    return Table(columns, tuple(rows))


def _survivors(whole: Score) -> Iterable[Section]:
    unconfirmed = sum(not fate.outcome.confirmed for fate in whole.of(SURVIVED))
    but = f" (but {unconfirmed})" if unconfirmed else ""
    yield Paragraph(
        f"survivors, proved by the reduced search, and by the search of every schedule or happens-before{but}"
    )
    reasons = tuple((str(count), REASONS[reason]) for reason, count in whole.reasons().most_common())
    yield Table((Column(width=7, right=True), Column(gap=2)), reasons)
    read_off = sum(fate.outcome.trips >= 0 for fate in whole.of(SURVIVED))
    if read_off:
        yield Lines(
            (
                f"{read_off} of these were compared by happens-before, and where a trip count is open for up to "
                "2 * stages + 1 iterations; the others by all their states",
            )
        )
    asked = [fate.outcome.proof for fate in whole.of(SURVIVED) + whole.of(EQUIVALENT) if fate.outcome.proof]
    if asked:
        proved, left = asked.count("proved"), asked.count("undetermined")
        yield Paragraph(f"Z3 was asked about {len(asked)} survivors and equivalents: {proved} proved, {left} left open")


def _named(scores: Sequence[Score]) -> list[Score]:
    """The models by name alone, whatever their sizes."""
    names = dict.fromkeys(score.label.split()[0] for score in scores)
    return [
        Score(name, tuple(fate for score in scores if score.label.split()[0] == name for fate in score.fates))
        for name in names
    ]


def _row(score: Score) -> tuple[str, ...]:
    counts = (score.count(verdict) for verdict in (EQUIVALENT, REFUSED, KILLED, SURVIVED))
    open_ones = score.count(UNDECIDED) + score.count(DISAGREED)
    return (score.label, *map(str, (len(score.fates), *counts, open_ones)), f"{score.score:.3f}")


def _fates(scores: Sequence[Score], verdict: str) -> Lines:
    lines = []
    for score in scores:
        for fate in score.of(verdict):
            outcome = fate.outcome
            why = ": ".join(part for part in (outcome.property, outcome.reason) if part)
            lines.append(f"{verdict}: {score.label} #{fate.mutant.number} {fate.mutant.text} [{why}]")
    return Lines(tuple(lines))


def _values(scores: Sequence[Score]) -> dict[str, Any]:
    """The whole, and each model with all its mutants."""
    return {
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
