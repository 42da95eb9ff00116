"""What every engine says of one program, and where they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

from sm90_verify.counterexample.trace import execute
from sm90_verify.engines.engine import Question, Subject
from sm90_verify.engines.order import Outcome, order
from sm90_verify.engines.order.outcome import hands_on
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.engine import SearchEngine
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.packed import PackedMachine, pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.evidence.programs.program import RandomProgram, pipeline_of, written
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.machine import LIMIT, Machine

Answer: TypeAlias = Literal["proved", "violated", "undetermined", "refused"]
MOST_OPERATIONS, MOST_STATES, MOST_TO_SHOW = 400, 2_000, 10_000
"""Of a role while it is traced; of a search of every schedule; of one that is to show a trace."""


class TooLong(Exception):
    """A role is not closed within MOST_OPERATIONS."""


@dataclass(frozen=True)
class Compared:
    """answer: that of the search of every schedule, in which what is only noted is no violation. noted: something is.
    order: what order says, "" if it does not apply. left_out: the reduction left schedules out. taken: the lines of the
    text whose operations were executed. contradictions: what somebody else says of a property.
    """

    answer: Answer
    why: str = ""
    noted: bool = False
    order: str = ""
    left_out: bool = False
    taken: frozenset[int] = frozenset()
    contradictions: tuple[str, ...] = ()


def compare(program: RandomProgram, proof: float = 0.0, times: int = 1) -> Compared:
    """Holds all engines to the search of every schedule; Z3 too, if it may take so many seconds. times: how often the
    bounds above it may take.
    """
    try:
        kernel = trace(pipeline_of(written(program).text), partial(_tick, times=times))
    except SpecError as error:
        return Compared("refused", str(error))
    except TooLong as error:
        return Compared("undetermined", str(error))
    subject = Subject(kernel, hands_on=hands_on)
    first = last = _decided(subject, proof, times)
    noted = tuple(one for one in first.every.violations if one in subject.noted)
    found = list(first.contradictions)
    if noted and not first.unknown:
        last = _decided(subject.lenient, 0.0, times)
        found += [f"{one} (lenient)" for one in last.contradictions]
        found += [] if last.unknown else _of_engine(subject, last.every, noted)
    if last.unknown:
        return Compared("undetermined", last.unknown, contradictions=tuple(found))
    open_ = next(filter(None, (is_undetermined(last.every, one) for one in subject.machine.properties)), "")
    return Compared(
        "violated" if last.every.violations else "undetermined" if open_ else "proved",
        open_,
        bool(noted),
        last.order,
        last.left_out,
        _taken(subject.machine, first.every),
        tuple(found),
    )


class _Decided(NamedTuple):
    """The search of every schedule; why it decides nothing, or ""; what order says, and whether the reduced search
    visits less; what contradicts it.
    """

    every: Exploration
    unknown: str
    order: str = ""
    left_out: bool = False
    contradictions: tuple[str, ...] = ()


def _decided(subject: Subject, proof: float, times: int) -> _Decided:
    machine = subject.machine
    packed = pack(machine, exchange=True)
    every = _search(pack(machine) if packed.groups else packed, False, times)
    if every.beyond:
        every = explore(machine, limit=MOST_STATES * times)
    if not every.complete or LIMIT in every.violations:
        return _Decided(every, every.ran_out or "a limit of the model")
    reduced = _search(packed, True, times)
    if reduced.beyond:
        reduced = explore(machine, limit=2 * MOST_STATES * times, reduced=True)
    outcome = order(subject.whole)
    found = [
        *_of_search(machine, every, reduced),
        *_of_order(outcome, machine, every),
        *(_of_proof(machine, set(every.violations), proof) if proof else ()),
    ]
    said = outcome.verdict if outcome.plan is not None else ""
    return _Decided(every, "", said, reduced.states < every.states, tuple(found))


def _search(packed: PackedMachine, reduced: bool, times: int) -> Exploration:
    search = Search(packed, SearchBounds((2 if reduced else 1) * MOST_STATES * times), False)
    search.reduced = reduced
    return search.run()


def _tick(what: str, role: str, done: int, where: Source | None, times: int = 1) -> None:
    if done > MOST_OPERATIONS * times:
        raise TooLong(f"{role} has more than {MOST_OPERATIONS * times} operations")


def _of_search(machine: Machine, every: Exploration, reduced: Exploration) -> Iterator[str]:
    """Traces that show nothing, and what the reduced search contradicts."""
    violated = set(every.violations)
    for violation in every.violations.values():
        shown = {check.because for check in execute(machine, violation.actions).violated}
        if violation.because not in shown and not violation.stuck:
            yield f"search: its trace does not show {violation.property}"
    if not reduced.complete:
        yield "reduced search: more states than there are"
    elif bool(reduced.violations) != bool(violated) or not set(reduced.violations) <= violated:
        yield f"reduced search: {sorted(reduced.violations) or PROVED}, and not {sorted(violated) or PROVED}"


def _of_order(said: Outcome, machine: Machine, every: Exploration) -> Iterator[str]:
    shown, violated = set(confirm(said, machine)), set(every.violations)
    for property in sorted(shown - violated):
        yield f"order: {property} is violated"
    for property in sorted(violated - shown):
        if said.verdict_on(property) == PROVED:
            yield f"order: {property} is proved"
    for failure in said.failures:
        if failure.certain and failure.property not in shown and not every.halted:
            yield f"order: no schedule shows {said.describe(failure)}"


def _of_proof(machine: Machine, violated: set[str], seconds: float) -> Iterator[str]:
    from sm90_verify.engines.smt.induction import prove

    proved = prove(machine, timeout=seconds)
    for property in sorted(set(proved.violations) - violated):
        yield f"smt: {property} is violated"
    for property, verdict in proved.verdicts.items():
        if verdict == PROVED and property in violated:
            yield f"smt: {property} is proved"


def _of_engine(subject: Subject, lenient: Exploration, noted: tuple[str, ...]) -> Iterator[str]:
    """What the engine says where a violation that is only noted makes the reduced search begin again."""
    answer = SearchEngine().answer(Question(subject, limit=MOST_TO_SHOW))
    for one in answer.findings:
        if one.id in noted:
            continue
        if one.verdict == PROVED and one.id in lenient.violations:
            yield f"search engine: {one.id} is proved"
        starves = one.id == "arrival-count" and "deadlock" in lenient.violations  # which the engine tells from it
        if one.verdict == VIOLATED and one.id not in lenient.violations and not starves:
            yield f"search engine: {one.id} is violated"


def _taken(machine: Machine, every: Exploration) -> frozenset[int]:
    never = set(every.unreached)
    return frozenset(action.source.line for index, action in enumerate(machine.actions) if index not in never)
