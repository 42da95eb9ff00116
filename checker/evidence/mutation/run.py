"""All mutants of some models, on all cores, and what they come to: counts by model, by property and by operator."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, NamedTuple, Protocol, TypeAlias

from sm90_verify.evidence.mutation.models import models
from sm90_verify.evidence.mutation.score import (
    DISAGREED,
    EQUIVALENT,
    KILLED,
    REFUSED,
    SURVIVED,
    UNDECIDED,
    MutantOutcome,
    run,
)
from sm90_verify.mutation.catalogue import Model, Mutant, mutants_of
from sm90_verify.python_file import load_classes
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import ENDLESS

Task: TypeAlias = tuple["Chosen", int, int, float]
"""Which models and which of them, from which mutant on, and seconds for a proof."""
BATCH = 12
"""Mutants that a process takes at a time."""
STATES_OF_FILES = 100_000
"""Of a search of every schedule of a mutant, for a model of a file."""


class SmallChange(Protocol):
    """A small change of something: a Mutant, or an edit of PTX."""

    @property
    def number(self) -> int: ...
    @property
    def operator(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def change(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Fate:
    """A mutant and what became of it."""

    mutant: SmallChange
    outcome: MutantOutcome


@dataclass(frozen=True)
class Score:
    """What became of the mutants of a model. copies: how many more there were that are the same program as another."""

    label: str
    fates: tuple[Fate, ...]
    copies: int = 0
    seconds: float = 0.0

    def of(self, verdict: str) -> list[Fate]:
        return [fate for fate in self.fates if fate.outcome.verdict == verdict]

    def count(self, verdict: str) -> int:
        return len(self.of(verdict))

    @property
    def decided(self) -> int:
        """Mutants that are another program with a meaning, and not equivalent: what a score is relative to."""
        return len(self.fates) - self.count(EQUIVALENT) - self.count(REFUSED)

    @property
    def score(self) -> float:
        return self.count(KILLED) / self.decided if self.decided else 1.0

    def killers(self) -> Counter[str]:
        return Counter(fate.outcome.property for fate in self.of(KILLED))

    def by_operator(self, verdict: str) -> Counter[str]:
        return Counter(fate.mutant.operator for fate in self.of(verdict))

    def reasons(self) -> Counter[str]:
        return Counter(fate.outcome.reason for fate in self.of(SURVIVED))


def total(scores: Sequence[Score]) -> Score:
    """All models as one."""
    fates = tuple(fate for score in scores for fate in score.fates)
    return Score("all models", fates, sum(s.copies for s in scores), sum(s.seconds for s in scores))


@dataclass(frozen=True)
class Options:
    """Which rows of the table (by name or label, all if empty), how many mutants, and what to do with them."""

    names: tuple[str, ...] = ()
    dense: bool = False
    proof_timeout: float = 0.0
    processes: int = 0
    told: Callable[[str], None] = field(default=lambda line: None)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the classes of files."""


def of_files(names: Iterable[str], settings: Mapping[str, Any], *, dense: bool) -> Iterator[Model]:
    """The models of the names that are FILE.py or FILE.py:CLASS, with these parameters. A loop without end that some
    change keeps from being closed is followed for a few iterations.
    """
    for name in names:
        path, _, only = name.partition(":")
        if path.endswith(".py"):
            for kernel in load_classes(path, only):
                as_asked = kernel(**settings)
                bounded = {"trips": 2 * as_asked.stages + 1} if as_asked.trips in ENDLESS else {}
                yield Model(kernel, dict(settings), bounded, not dense, STATES_OF_FILES)


def chosen(names: Iterable[str]) -> list[int]:
    """The numbers of the models that are named: by their name, or by their whole label; all if none is."""
    labels = [model.label for model in models()]
    found: dict[int, None] = {}
    for name in names:
        matching = [number for number, label in enumerate(labels) if name in (label, label.split()[0])]
        if not matching:
            known = dict.fromkeys(label.split()[0] for label in labels)
            raise SpecError(f"no model {name!r} has mutants: use one of {', '.join(known)}, or FILE.py")
        found.update(dict.fromkeys(matching))
    return sorted(found) or list(range(len(labels)))


class Chosen(NamedTuple):
    """Which models: those of Options, as what can be sent to a process."""

    names: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]
    dense: bool


@lru_cache(maxsize=8)
def _models(which: Chosen) -> tuple[Model, ...]:
    files = tuple(of_files(which.names, dict(which.settings), dense=which.dense))
    others = [name for name in which.names if not name.partition(":")[0].endswith(".py")]
    if which.settings and (others or not files):
        raise SpecError("parameters are those of a class in a file: name FILE.py, and no other model")
    table = models(dense=which.dense)
    return (*files, *(table[number] for number in (chosen(others) if others or not files else ())))


def run_all(options: Options) -> list[Score]:
    """The scores of the chosen models, in the order of the table, those of files first."""
    which = Chosen(options.names, tuple(options.settings.items()), options.dense)
    numbers = range(len(_models(which)))
    tasks: list[Task] = [
        (which, number, start, options.proof_timeout)
        for number in numbers
        for start in range(0, len(_mutants(which, number)), BATCH)
    ]
    outcomes: dict[int, list[MutantOutcome]] = {number: [] for number in numbers}
    processes = options.processes or os.cpu_count() or 1
    if processes == 1:
        return _gathered(which, map(_batch, tasks), outcomes, options)
    with get_context("fork").Pool(processes) as pool:
        return _gathered(which, pool.imap_unordered(_batch, tasks), outcomes, options)


def _gathered(
    which: Chosen,
    answers: Iterable[tuple[int, list[MutantOutcome]]],
    outcomes: dict[int, list[MutantOutcome]],
    options: Options,
) -> list[Score]:
    for number, found in answers:
        outcomes[number] += found
        done, whole = len(outcomes[number]), len(_mutants(which, number))
        if done == whole:
            options.told(f"{_models(which)[number].label}: {whole} mutants")
    return [
        score_of(_models(which)[n].label, _mutants(which, n), sorted(some, key=lambda one: one.number))
        for n, some in outcomes.items()
    ]


def _batch(task: Task) -> tuple[int, list[MutantOutcome]]:
    which, number, start, proof_timeout = task
    model, mutants = _models(which)[number], _mutants(which, number)[start : start + BATCH]
    return number, [run(model, mutant, proof_timeout=proof_timeout) for mutant in mutants]


@lru_cache(maxsize=64)
def _mutants(which: Chosen, number: int) -> tuple[Mutant, ...]:
    return tuple(mutants_of(_models(which)[number]))


def score_of(label: str, mutants: Sequence[Mutant], outcomes: Sequence[MutantOutcome]) -> Score:
    """The score of a model; of mutants that are the same program only the first counts."""
    fates: list[Fate] = []
    seen: set[str] = set()
    for mutant, outcome in zip(mutants, outcomes, strict=True):
        if outcome.program and outcome.program in seen:
            continue
        seen.add(outcome.program)
        fates.append(Fate(mutant, outcome))
    return Score(label, tuple(fates), len(outcomes) - len(fates), sum(outcome.seconds for outcome in outcomes))


def exit_code(scores: Sequence[Score]) -> int:
    """1 if two engines contradict each other on a mutant, 3 if one is undecided, else 0."""
    if any(score.count(DISAGREED) for score in scores):
        return 1
    return 3 if any(score.count(UNDECIDED) for score in scores) else 0
