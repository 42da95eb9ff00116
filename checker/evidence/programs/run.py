"""Compares many programs, and counts what they consist of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sm90_verify.evidence.programs.compare import Compared, compare
from sm90_verify.evidence.programs.generate import random_program
from sm90_verify.evidence.programs.joint import LONGER, random_joint
from sm90_verify.evidence.programs.program import RandomProgram, Statement, written

FORMS = ("multicast", "source", "tensormap", "ctas", "noinc", "into", "among", "value", "to")
"""Arguments that make another operation of a verb."""


@dataclass
class LanguageTally:
    """answers: how many programs were proved, violated, undetermined or refused. operations: by operation or form of
    it, in how many programs of each answer it was executed. order: what order said, where it applies. noted: programs
    that violate what is only noted. left_out: those of which the reduction left schedules out. disagreements: the
    seed, who contradicts, and the program.
    """

    answers: Counter[str] = field(default_factory=Counter)
    operations: dict[str, Counter[str]] = field(default_factory=dict)
    order: Counter[str] = field(default_factory=Counter)
    noted: int = 0
    left_out: int = 0
    disagreements: list[str] = field(default_factory=list)

    def add(self, seed: int, program: RandomProgram, compared: Compared) -> None:
        self.answers[compared.answer] += 1
        self.noted += compared.noted
        self.left_out += compared.left_out
        if compared.order:
            self.order[compared.order] += 1
        text, steps = written(program)
        done = (form for line, step in steps.items() if line in compared.taken for form in forms(program, step))
        for name in dict.fromkeys((*done, *(of_the_program(program) if compared.taken else ()))):
            self.operations.setdefault(name, Counter())[compared.answer] += 1
        if compared.contradictions:
            self.disagreements.append(f"# seed {seed}: {'; '.join(compared.contradictions)}\n{text}")

    def values(self, first: int, stop: int) -> dict[str, Any]:
        """As plain data, to be kept."""
        return {
            "seeds": [first, stop],
            "answers": dict(sorted(self.answers.items())),
            "order": dict(sorted(self.order.items())),
            "noted": self.noted,
            "left_out": self.left_out,
            "disagreements": len(self.disagreements),
            "operations": {name: dict(sorted(counts.items())) for name, counts in sorted(self.operations.items())},
        }


def compare_all(
    first: int,
    stop: int,
    *,
    proof: float = 0.0,
    joint: bool = False,
    tell: Callable[[int, LanguageTally], None] | None = None,
) -> LanguageTally:
    """Compares the programs of the seeds from `first` to before `stop`. joint: those of warpgroups in parts."""
    tally = LanguageTally()
    for seed in range(first, stop):
        program = random_joint(seed) if joint else random_program(seed)
        tally.add(seed, program, compare(program, proof, LONGER if joint else 1))
        if tell is not None:
            tell(seed, tally)
    return tally


def forms(program: RandomProgram, step: Statement) -> Iterator[str]:
    """The operation of a step, and what is particular about it."""
    verb = step.verb
    if step.on is not None:
        kind = dict(program.declared)[step.on.name].partition("(")[0]
        verb = f"{kind}.{verb}"
    yield verb
    if step.on is not None and step.on.cta:
        yield f"{verb}, of another CTA"
    if step.until:
        yield f"{verb}, until it is so"
    if step.cases:
        yield f"{verb}, and goes on by the answer"
    for name, value in step.given:
        if name in FORMS:
            yield f"{verb}({name}=)"
        elif name in ("sem", "scope"):
            yield f"{verb}({name}={value!r})"
        elif name == "pieces" and value != 1:
            yield f"{verb}(pieces=)"
        elif name == "commit" and not value:
            yield f"{verb}(commit=False)"


def of_the_program(program: RandomProgram) -> Iterator[str]:
    """What the pipeline and its roles say of themselves."""
    settings = dict(program.settings)
    for name in ("cluster", "clusters", "strict", "met", "resident"):
        if name in settings:
            yield f"{name} = {settings[name]!r}"
    if any(one.looped for one in program.roles):
        yield f"trips = {settings['trips']!r}"
    said = " ".join(one.said for one in program.roles)
    yield from (word for word in ("copies=2", "split=(1, 31)", "grid=1") if word in said)
    if any('space="registers"' in text for _, text in program.declared):
        yield "tiles in registers"
