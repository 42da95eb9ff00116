"""What becomes of a mutant: killed by an engine, refused, the same program or behaviour, or a survivor that is proved.

A kill is a schedule that was executed again on the mutant. A survivor was proved by the reduced search; the search of
every schedule and happens-before must agree, and Z3 too where it is asked: a kill that one engine misses is a
disagreement, which is a bug of the checker. How a survivor's behaviour compares with the original's is computed from
all states, or where they are too many from happens-before, and is the reason why it may live.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from sm90_verify.counterexample.trace import make_trace
from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.mutation.behaviour import (
    CONTENTS,
    HARDWARE,
    MEMORY,
    OPEN,
    OTHER,
    SAME,
    Behaviour,
    behaviour,
    columns,
    compare,
)
from sm90_verify.evidence.mutation.orders import Orders, compare_orders, orders, runs_of
from sm90_verify.mutation.catalogue import Model, Mutant
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, severity
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.machine import LIMIT, Machine

KILLED, REFUSED, EQUIVALENT, SURVIVED, UNDECIDED, DISAGREED = (
    "killed",
    "refused",
    "equivalent",
    "survived",
    "undecided",
    "disagreed",
)
REASONS = {
    "fewer": "stronger: it only rules out orders of accesses that the original allows",
    "same": "the same accesses in the same orders; only its barriers count differently in between",
    "more": "weaker where nothing depends on it: it only adds orders of accesses, all of them proved",
    "accesses": "reads less or more, or writes the same again; buffers hold and receive the same in the same orders",
    "other": "buffers hold or receive other things, in other orders or in more pieces, all of them proved",
    "open": "proved; too many states to compare its behaviour, and more than one run of its schedules",
}
INDISTINGUISHABLE = "the same behaviour"
COMPARED = 20_000
"""States of models whose behaviours are compared, and pairs of sets of states that a comparison may take."""


@dataclass(frozen=True)
class MutantOutcome:
    """What became of one mutant. property: what killed it, or why the specification was refused; reason: a key of
    REASONS for a survivor, and what contradicts what for a disagreement. program: equal for equal programs. steps: of
    the schedule that shows a kill. seconds: of CPU.
    """

    number: int
    verdict: str
    property: str = ""
    reason: str = ""
    program: str = ""
    steps: int = 0
    states: int = 0
    seconds: float = 0.0
    ordered: str = ""
    """What happens-before says about a survivor: it is undetermined where control flow depends on the schedule."""
    confirmed: bool = True
    """The search of every schedule or happens-before has proved a survivor too; otherwise neither found anything."""
    proof: str = ""
    """Z3's verdict on a survivor, if it was asked."""
    trips: int = -1
    """The reason was read off happens-before, for trip counts up to this one where any is open; -1: off all states."""


def run(model: Model, mutant: Mutant, *, proof_timeout: float = 0.0) -> MutantOutcome:
    """Decides one mutant. What is only noted of a pipeline that is not strict (an unobserved phase) kills it as well:
    its Machine and its programs are asked with that rule. proof_timeout: seconds for Z3 on a survivor; 0: Z3 is not
    asked.
    """
    start = time.process_time()
    original(model)
    try:
        outcome = _decide(model, mutant, proof_timeout)
    except Exception as error:
        outcome = MutantOutcome(
            mutant.number, DISAGREED, reason=f"it broke the checker: {type(error).__name__}: {error}"
        )
    return replace(outcome, seconds=time.process_time() - start)


def _decide(model: Model, mutant: Mutant, proof_timeout: float) -> MutantOutcome:
    number = mutant.number
    try:
        machine, kernel, program = compiled(mutant.of(model))
    except SpecError as error:
        return _bounded(model, mutant, error)
    if program == original(model).program:
        return MutantOutcome(number, EQUIVALENT, reason="the same program", program=program)
    outcome = _searched(number, machine, program, model.limit)
    if outcome.verdict not in (SURVIVED, UNDECIDED):
        return outcome
    ordered = order(kernel).verdict
    if outcome.verdict == UNDECIDED:
        if ordered == VIOLATED:
            return _found_by_order(outcome, kernel)
        if ordered != PROVED:
            return outcome
        outcome = replace(outcome, verdict=SURVIVED, confirmed=False)
    if ordered == VIOLATED:
        return MutantOutcome(number, DISAGREED, reason="happens-before finds what both searches miss", program=program)
    proof = ""
    if proof_timeout:
        proof, violated = _by_z3(machine, proof_timeout)
        if violated:
            return MutantOutcome(number, DISAGREED, violated, "Z3 finds what both searches miss", program)
    reason, trips = by_states(model, machine, kernel.programs) if outcome.confirmed else OPEN, -1
    if reason == OPEN:
        reason, trips = by_order(model, kernel)
    verdict = EQUIVALENT if reason == INDISTINGUISHABLE else SURVIVED
    confirmed = outcome.confirmed or ordered == PROVED
    return replace(
        outcome, verdict=verdict, reason=reason, proof=proof, ordered=ordered, confirmed=confirmed, trips=trips
    )


def _found_by_order(outcome: MutantOutcome, kernel: Kernel) -> MutantOutcome:
    """A mutant of too many states, in which order finds a schedule that goes wrong."""
    result = check(kernel, engine="order")
    if result.trace is None:
        return outcome
    id = min((one.id for one in result.findings if one.verdict == VIOLATED), key=severity)
    return replace(outcome, verdict=KILLED, property=id, reason=result.trace.because, steps=len(result.trace.steps))


def _searched(number: int, machine: Machine, program: str, limit: int) -> MutantOutcome:
    """Killed, undecided, or a survivor of both searches; or they contradict each other."""
    reduced = explore(machine, stop_at_first=True, reduced=True, limit=limit)
    found = [property for property in reduced.violations if property != LIMIT]
    if found:
        return _killed(number, machine, reduced, found[0], program)
    if is_undetermined(reduced):
        return MutantOutcome(number, UNDECIDED, reason=is_undetermined(reduced), program=program, states=reduced.states)
    full = explore(machine, stop_at_first=True, limit=limit)
    missed = [property for property in full.violations if property != LIMIT]
    if missed:
        return MutantOutcome(number, DISAGREED, missed[0], "search finds what the reduced search misses", program)
    return MutantOutcome(number, SURVIVED, program=program, states=full.states, confirmed=not is_undetermined(full))


def _bounded(model: Model, mutant: Mutant, error: SpecError) -> MutantOutcome:
    """A mutant without a meaning for every trip count: whether something is wrong in a few iterations already."""
    refused = MutantOutcome(mutant.number, REFUSED, error.what)
    if not model.bounded:
        return refused
    try:
        machine, _, program = compiled(mutant.of(model, **model.bounded))
    except SpecError:
        return refused
    outcome = _searched(mutant.number, machine, f"bounded {program}", model.limit)
    bound = ", ".join(f"{name}={value}" for name, value in model.bounded.items())
    if outcome.verdict == SURVIVED:
        return replace(refused, reason=f"nothing is wrong with {bound}")
    return replace(outcome, reason=f"with {bound}, {outcome.reason}; otherwise refused: {error.what}")


def _killed(number: int, machine: Machine, found: Exploration, property: str, program: str) -> MutantOutcome:
    violation = found.violations[property]
    try:
        trace = make_trace(machine, property, violation.because, violation.actions, violation.stuck)
    except (AssertionError, SpecError) as error:
        return MutantOutcome(
            number, DISAGREED, property, f"the reduced search's schedule does not show it: {error}", program
        )
    return MutantOutcome(number, KILLED, property, trace.because, program, len(trace.steps), found.states)


def _by_z3(machine: Machine, timeout: float) -> tuple[str, str]:
    """Z3's verdict, and the property that it finds violated."""
    from sm90_verify.engines.smt.induction import prove

    proof = prove(machine, timeout=timeout, covered=True)
    violated = [property for property, verdict in proof.verdicts.items() if verdict == VIOLATED]
    if violated:
        return VIOLATED, violated[0]
    return (PROVED if all(verdict == PROVED for verdict in proof.verdicts.values()) else UNDETERMINED), ""


# ---------------------------------------------------------------- comparison with the original


@dataclass
class Original:
    """What mutants of a model are compared with. behaviours: by projection and by what else is shown; runs: None if
    they do not speak for all schedules; orders: of the runs' accesses, by projection.
    """

    pipeline: Pipeline
    machine: Machine
    kernel: Kernel
    program: str
    behaviours: dict[Hashable, tuple[Behaviour | None, dict[Hashable, int]]] = field(default_factory=dict)

    @property
    def trips(self) -> int:
        """Up to this trip count runs are compared."""
        return 2 * getattr(self.pipeline, "stages", 2) + 1

    @cached_property
    def runs(self) -> tuple[Run, ...] | None:
        return runs_of(self.kernel, self.trips)

    @cached_property
    def orders(self) -> dict[str, tuple[Orders, ...]]:
        return {projection: orders(self.runs or (), projection) for projection in (MEMORY, CONTENTS)}


def original(model: Model) -> Original:
    return _original(model.kernel, tuple(model.parameters.items()))  # type: ignore[arg-type]


@lru_cache(maxsize=4)
def _original(kernel: type[Pipeline], parameters: tuple[tuple[str, Any], ...]) -> Original:
    pipeline = kernel(**dict(parameters))
    first = Original(pipeline, *compiled(pipeline))
    found = explore(first.machine, stop_at_first=True, reduced=True)
    if found.violations or is_undetermined(found):
        raise SpecError(f"{first.machine.name} is not proved itself, so that its mutants would say nothing")
    return first


def compiled(pipeline: Pipeline) -> tuple[Machine, Kernel, str]:
    try:
        kernel = trace(pipeline)
    except SpecError as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, SpecError):
            raise AssertionError(f"a mutant broke the mutation itself: {error}") from error
        raise
    return compile_kernel(kernel), kernel, fingerprint(kernel)


def by_states(model: Model, machine: Machine, programs: tuple[Program, ...]) -> str:
    """How the behaviour compares with the original's: INDISTINGUISHABLE, or else a key of REASONS."""
    if _compared_as(HARDWARE, model, machine, programs) == SAME:
        return INDISTINGUISHABLE
    memory = _compared_as(MEMORY, model, machine, programs)
    if memory == OTHER and _compared_as(CONTENTS, model, machine, programs) == SAME:
        return "accesses"
    return memory


def _compared_as(projection: str, model: Model, machine: Machine, programs: tuple[Program, ...]) -> str:
    first = original(model)
    key = (projection, columns(machine, first.machine, projection))
    if key not in first.behaviours:
        names: dict[Hashable, int] = {}
        seen = behaviour(first.machine, first.kernel.programs, projection, machine, COMPARED, names)
        first.behaviours[key] = (seen, names)
    before, names = first.behaviours[key]
    after = None if before is None else behaviour(machine, programs, projection, first.machine, COMPARED, names)
    return OPEN if before is None or after is None else compare(before, after, COMPARED)


def by_order(model: Model, kernel: Kernel) -> tuple[str, int]:
    """How the accesses compare by happens-before: a key of REASONS, and for trip counts up to which."""
    first = original(model)
    runs = None if first.runs is None else runs_of(kernel, first.trips)
    if first.runs is None or runs is None:
        return OPEN, -1
    memory = compare_orders(first.orders[MEMORY], orders(runs, MEMORY))
    if memory == OTHER and compare_orders(first.orders[CONTENTS], orders(runs, CONTENTS)) == SAME:
        return "accesses", first.trips
    return memory, first.trips


def fingerprint(kernel: Kernel) -> str:
    """A hash that is the same for pipelines whose roles can do the same operations in the same orders."""
    counts = ",".join(f"{name}={count}" for name, count in kernel.layout.arrivals.items())
    text = "\n".join([counts, *(_canonical(program) for program in kernel.programs)])
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(program: Program) -> str:
    """The program with nodes that do the same from there on merged, numbered in the order in which they are reached."""
    nodes = program.nodes
    block = _numbered([_label(node) for node in nodes])
    while True:
        finer = _numbered(
            [
                (block[i], *((answer, block[next]) for answer, next in nodes[i].successors.items()))
                for i in range(len(nodes))
            ]
        )
        if len(set(finer)) == len(set(block)):
            break
        block = finer
    numbers = {block[0]: 0}
    lines, todo = [], [0]
    for index in todo:
        parts = []
        for answer, successor in nodes[index].successors.items():
            if block[successor] not in numbers:
                numbers[block[successor]] = len(numbers)
                todo.append(successor)
            parts.append(f"{answer}:{numbers[block[successor]]}")
        node = nodes[index]
        lines.append(f"{_label(node)} {' '.join(parts)}")
    return "\n".join([program.name, *lines])


def _label(node: Node) -> str:
    skips = f" skips {node.moves}" if node.skips or node.moves else ""
    return f"{node.operation!r} {node.loop} {node.distance} {node.choice}{skips}"


def _numbered(keys: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
