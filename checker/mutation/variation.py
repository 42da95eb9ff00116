"""What a mutant changes: the operators by name, and one variation of an operation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sm90_verify.mutation.stream import AnswerChange, Rewrite
from sm90_verify.spec.ptx import operations as op

OPERATORS = {
    "drop": "an operation is left out",
    "duplicate": "an operation is done twice",
    "swap": "an operation changes places with the next one",
    "postpone": "an operation is done when its turn comes again, the last one at the end",
    "stage": "the barrier of another stage",
    "barrier": "another barrier array (full for empty)",
    "buffer": "another stage's buffer, or another buffer of that size",
    "parity": "the other phase bit",
    "blocking": "a wait that looks once and goes on; an answer that is taken for the other one",
    "count": "another number of arrivals",
    "kind": "another form of the same instruction",
    "bytes": "other bytes expected or delivered",
    "order": "arrive.expect_tx in two steps",
    "tag": "other data",
    "pending": "another number of groups that may stay pending",
    "commit": "a wgmma group that is left open",
    "fence": "another fence",
    "id": "another named barrier",
    "threads": "another thread count of a named barrier",
    "registers": "other register counts",
    "start": "another start state of the role",
    "mask": "another multicast mask",
    "cta": "the barrier of another CTA of the cluster",
    "trips": "one iteration more or less than the other roles",
    "init": "another count in mbarrier.init",
    "sem": "a weaker order, or a narrower scope",
    "value": "another value of a word",
}


@dataclass(frozen=True)
class Variation:
    """One thing to write instead. wide: worth trying at all sorts of executions, not only at all of them or from the
    second lap on. brief: only at those that leave others as they are."""

    operator: str
    text: str
    rewrite: Rewrite | None = None
    answer: AnswerChange | None = None
    moves: str = ""
    wide: bool = False
    brief: bool = False


def with_fields(operator: str, text: str, **changes: object) -> Variation:
    """The same operation with some of its fields changed."""
    return Variation(operator, text, lambda one: (changed(one, **changes),))


def changed(operation: op.Operation, **changes: Any) -> op.Operation:
    """The operation with other values in fields that it has."""
    record: Any = operation
    changed: op.Operation = replace(record, **changes)
    return changed
