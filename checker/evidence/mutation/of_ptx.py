"""The mutation score of a kernel in PTX: what would be noticed of its own synchronisation, if it were wrong.

Every instruction that synchronises and that a launch executes is changed in the text; what the kernel is then is read,
executed and decided like any other. A survivor is proved. Why it may live is computed from the orders of its accesses,
as happens-before has them, beside those of the original.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from typing import NamedTuple

from sm90_verify.decide.cases import LaunchCase
from sm90_verify.decide.ptx import cases_of, check_ptx
from sm90_verify.engines.effort import Effort
from sm90_verify.evidence.mutation.behaviour import CONTENTS, MEMORY, OPEN, OTHER, SAME
from sm90_verify.evidence.mutation.orders import Orders, compare_orders, orders, runs_of
from sm90_verify.evidence.mutation.run import Fate, Score
from sm90_verify.evidence.mutation.score import (
    EQUIVALENT,
    INDISTINGUISHABLE,
    KILLED,
    REFUSED,
    SURVIVED,
    UNDECIDED,
    MutantOutcome,
)
from sm90_verify.frontends.core_launch import is_core, launch_from_core
from sm90_verify.frontends.ptx.edits import PtxEdit, edits_of
from sm90_verify.frontends.ptx.instruction import PtxModule
from sm90_verify.frontends.ptx.launch import Launch
from sm90_verify.frontends.ptx.launch_file import read_launch
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.read import entry_of, read_module
from sm90_verify.result import PROVED, VIOLATED, Result, severity
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel

STATES = 20_000
"""Of the search for what order leaves open of a mutant."""


class PtxMutant(NamedTuple):
    """One edit. As mutation.catalogue.Mutant has them."""

    number: int
    operator: str
    where: str
    change: str

    @property
    def text(self) -> str:
        """For a line."""
        return f"{self.operator}: {self.where}" + (f": {self.change}" if self.change else "")


@dataclass
class Edited:
    """A kernel whose PTX is edited. kernels: of the cases of its launch, as it is; known: their orders, once asked."""

    path: str
    text: str
    launch: Launch
    name: str
    kernels: tuple[Kernel, ...]
    edits: tuple[PtxEdit, ...]
    known: dict[str, tuple[tuple[Orders, ...], ...] | None] = field(default_factory=dict)

    def mutant(self, number: int) -> PtxMutant:
        edit = self.edits[number]
        return PtxMutant(number, edit.operator, f"{os.path.basename(self.path)}:{edit.line} {edit.was}", edit.change)


@lru_cache(maxsize=2)
def read_edited(path: str, launch: str, kernel: str = "") -> Edited:
    """The kernel of a file and its edits. Raises SpecError for what cannot be read."""
    module = read_module(path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not is_core(launch):
        return to_edit(module, text, read_launch(launch), kernel)
    found = launch_from_core(launch, module, kernel)
    return to_edit(module, text, found.launch, found.function.name)


def to_edit(module: PtxModule, text: str, launch: Launch, kernel: str = "") -> Edited:
    """A kernel that has been read from this text, and its edits."""
    function = entry_of(module, kernel or launch.kernel, launch)
    cases = cases_of(module, function, launch, Effort(math.inf))
    executed = {function.code[number].line for case in cases for number in _numbers(case)}
    kernels = tuple(lift(case.execution, "kernel") for case in cases)
    return Edited(module.path, text, launch, function.name, kernels, tuple(edits_of(text, executed)))


def _numbers(case: LaunchCase) -> Iterable[int]:
    return (event.number for cta in case.execution.cluster.ctas for warp in cta.warps for event in warp.events)


def decide(edited: Edited, number: int, timeout: float = 60.0) -> MutantOutcome:
    """What becomes of one edit."""
    start = time.process_time()
    outcome = _decide(edited, number, timeout)
    return replace(outcome, seconds=time.process_time() - start)


def _decide(edited: Edited, number: int, timeout: float) -> MutantOutcome:
    text = edited.edits[number].of(edited.text)
    try:
        module = parse(text, edited.path)
        result = check_ptx(module, edited.launch, kernel=edited.name, timeout=timeout, limit=STATES, trace_seconds=0.0)
    except SpecError as error:
        return MutantOutcome(number, REFUSED, error.what)
    if result.verdict == VIOLATED:
        return _killed(number, result)
    if result.verdict != PROVED:
        why = next((one.note for one in result.findings if one.verdict != PROVED), "")
        return MutantOutcome(number, UNDECIDED, reason=why)
    return _survived(edited, number, module)


def _killed(number: int, result: Result) -> MutantOutcome:
    found = [one.id for one in result.findings if one.verdict == VIOLATED]
    trace = result.trace
    because = "" if trace is None else trace.because
    return MutantOutcome(
        number, KILLED, min(found, key=severity), because, steps=0 if trace is None else len(trace.steps)
    )


def _survived(edited: Edited, number: int, module: PtxModule) -> MutantOutcome:
    """Proved: what its accesses are, and in which orders, beside those of the original."""
    function = entry_of(module, edited.name, edited.launch)
    kernels = tuple(
        lift(one.execution, "kernel") for one in cases_of(module, function, edited.launch, Effort(math.inf))
    )
    if len(kernels) == len(edited.kernels) and all(map(_same, edited.kernels, kernels)):
        return MutantOutcome(number, EQUIVALENT, reason="the same program")
    reason = _compared(edited, kernels, MEMORY)
    if reason == OTHER and _compared(edited, kernels, CONTENTS) == SAME:
        reason = "accesses"
    verdict = EQUIVALENT if reason == INDISTINGUISHABLE else SURVIVED
    return MutantOutcome(number, verdict, reason=reason, ordered=PROVED, trips=0)


def _same(one: Kernel, other: Kernel) -> bool:
    """The same operations at every place."""
    return len(one.programs) == len(other.programs) and all(
        (first.name, [node.operation for node in first.nodes])
        == (second.name, [node.operation for node in second.nodes])
        for first, second in zip(one.programs, other.programs, strict=True)
    )


def _compared(edited: Edited, kernels: Sequence[Kernel], projection: str) -> str:
    """The worst of the cases: a key of REASONS."""
    if projection not in edited.known:
        edited.known[projection] = _orders(edited.kernels, projection)
    first, second = edited.known[projection], _orders(kernels, projection)
    if first is None or second is None:
        return OPEN
    if len(first) != len(second):
        return OTHER
    found = {compare_orders(one, other) for one, other in zip(first, second, strict=True)}
    return found.pop() if len(found) == 1 else OTHER


def _orders(kernels: Sequence[Kernel], projection: str) -> tuple[tuple[Orders, ...], ...] | None:
    """None where one run does not speak for all. What is only noted of a kernel keeps its run from nothing."""
    runs = [runs_of(kernel.allowing(), 0) for kernel in kernels]
    return None if None in runs else tuple(orders(one, projection) for one in runs if one is not None)


# ---------------------------------------------------------------- all of them


class PtxQuestion(NamedTuple):
    """A kernel, every how manyth edit of each operator is decided, and in how many seconds each."""

    path: str
    launch: str
    kernel: str = ""
    every: int = 1
    timeout: float = 60.0


def score_ptx(question: PtxQuestion, processes: int, told: Callable[[int, int], None]) -> Score:
    """What became of the edits. told: called with how many are done of how many. Raises SpecError for a kernel that is
    not proved as it is.
    """
    edited = read_edited(*question[:3])
    before = check_ptx(question.path, question.launch, kernel=question.kernel)
    if before.verdict != PROVED:
        raise SpecError(f"{question.path} is {before.verdict} as it is: verify ptx says why")
    numbers = chosen_edits(edited.edits, question.every)
    fates = []
    start = time.process_time()
    for outcome in _outcomes(question, numbers, processes or os.cpu_count() or 1):
        fates.append(Fate(edited.mutant(outcome.number), outcome))
        told(len(fates), len(numbers))
    seconds = sum(one.outcome.seconds for one in fates) or time.process_time() - start
    return Score(os.path.basename(question.path), tuple(fates), 0, seconds)


def chosen_edits(edits: Sequence[PtxEdit], every: int) -> list[int]:
    """The numbers of the edits to decide: of each operator the first, and every so manyth after it. An instruction has
    several edits in a fixed order, so that one in three of all would have no parity of most waits.
    """
    seen: Counter[str] = Counter()
    chosen = []
    for number, edit in enumerate(edits):
        if seen[edit.operator] % every == 0:
            chosen.append(number)
        seen[edit.operator] += 1
    return chosen


def _outcomes(question: PtxQuestion, numbers: Sequence[int], processes: int) -> Iterable[MutantOutcome]:
    tasks = [(question, number) for number in numbers]
    if processes == 1:
        yield from map(_task, tasks)
        return
    with get_context("fork").Pool(processes) as pool:
        yield from pool.imap(_task, tasks, chunksize=2)


def _task(task: tuple[PtxQuestion, int]) -> MutantOutcome:
    question, number = task
    return decide(read_edited(*question[:3]), number, question.timeout)
