"""What became of edits of PTX, as rows that can be kept, and the tables of docs/results.md that they make.

A row has no text of the kernel, which may be somebody else's: its operator, line and number name an edit of PTX that
one has.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sm90_verify.evidence.mutation.of_ptx import Edited
from sm90_verify.evidence.mutation.score import (
    EQUIVALENT,
    KILLED,
    REASONS,
    REFUSED,
    SURVIVED,
    UNDECIDED,
    MutantOutcome,
)
from sm90_verify.evidence.mutation.two_engines import JUDGEMENTS, TwiceDecided
from sm90_verify.mutation.variation import OPERATORS
from sm90_verify.result import PROPERTIES


@dataclass(frozen=True)
class EditRow:
    """An edit of a kernel. verdict: of score.MutantOutcome, or a judgement of two_engines. said: the property that is
    violated first, or the computed reason, or why it is refused or open. search: what search says, if it was asked; and
    in how many states.
    """

    kernel: str
    number: int
    operator: str
    line: int
    verdict: str
    said: str
    search: str = ""
    states: int = 0
    seconds: float = 0.0

    @property
    def twice(self) -> bool:
        return self.verdict in JUDGEMENTS


def scored(label: str, edited: Edited, outcome: MutantOutcome) -> EditRow:
    edit = edited.edits[outcome.number]
    said = outcome.property or outcome.reason if outcome.verdict in (KILLED, REFUSED) else outcome.reason
    return EditRow(
        label, outcome.number, edit.operator, edit.line, outcome.verdict, said, seconds=round(outcome.seconds, 2)
    )


def compared(label: str, one: TwiceDecided) -> EditRow:
    said = one.why if one.order in ("refused", "undetermined") else one.order
    seconds = round(sum(one.seconds), 2)
    return EditRow(label, one.number, one.operator, one.line, one.judgement, said, one.search, one.states, seconds)


def line_of(row: EditRow) -> str:
    """The row as a line of a file."""
    return json.dumps(asdict(row))


def read_rows(path: Path) -> list[EditRow]:
    """Of a file of lines, which may be compressed (.gz)."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [EditRow(**json.loads(line)) for line in text.splitlines()]


# ---------------------------------------------------------------- tables


def tables(rows: Sequence[EditRow]) -> str:
    """The tables of docs/results.md: by kernel and operator, finds by property, survivors by reason; and what search
    says.
    """
    once, twice = [one for one in rows if not one.twice], [one for one in rows if one.twice]
    parts = [_by_operator(once), _by_said(once)] if once else []
    parts += [_by_judgement(twice)] if twice else []
    return "\n\n".join("\n".join(part) for part in parts)


def _kernels(rows: Iterable[EditRow]) -> list[str]:
    return list(dict.fromkeys(one.kernel for one in rows))


def _head(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"
    yield "|" + "---|" * len(cells)


def _row(name: str, numbers: Iterable[int]) -> str:
    return f"| {' | '.join((name, *(str(number or '') for number in numbers)))} |"


def _by_operator(rows: Sequence[EditRow]) -> list[str]:
    """A row a kernel: edits of each operator; what became of them all."""
    used = [one for one in OPERATORS if any(row.operator == one for row in rows)]
    fates = (KILLED, EQUIVALENT, SURVIVED, REFUSED, UNDECIDED)
    lines = list(_head("kernel", "edits", *used, "found", *fates[1:]))
    for name in (*_kernels(rows), "all"):
        some = [one for one in rows if name in (one.kernel, "all")]
        operators, verdicts = Counter(one.operator for one in some), Counter(one.verdict for one in some)
        lines.append(_row(name, (len(some), *(operators[one] for one in used), *(verdicts[one] for one in fates))))
    return lines


def _by_said(rows: Sequence[EditRow]) -> list[str]:
    """A row for each property that finds an edit, and for each computed reason of a survivor; a column a kernel."""
    names = _kernels(rows)
    lines = list(_head("found by, or why it survives", "edits", *names))
    found = [(KILLED, property, property) for property in PROPERTIES]
    reasons = [(EQUIVALENT, "the same program", "the same program")]
    for verdict, said, words in (*found, *reasons, *((SURVIVED, key, REASONS[key]) for key in REASONS)):
        some = [one for one in rows if (one.verdict, one.said) == (verdict, said)]
        if some:
            lines.append(_row(words, (len(some), *(sum(one.kernel == name for one in some) for name in names))))
    return lines


def _by_judgement(rows: Sequence[EditRow]) -> list[str]:
    """A row a kernel, a column a judgement."""
    used = [one for one in JUDGEMENTS if any(row.verdict == one for row in rows)]
    lines = list(_head("small launch", "edits", *used, "states, at most"))
    for name in (*_kernels(rows), "all"):
        some = [one for one in rows if name in (one.kernel, "all")]
        verdicts = Counter(one.verdict for one in some)
        lines.append(_row(name, (len(some), *(verdicts[one] for one in used), max(one.states for one in some))))
    return lines
