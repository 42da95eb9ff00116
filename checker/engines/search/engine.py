"""All reachable states: first without the schedules that nobody can tell apart, then for the shortest traces."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from sm90_verify.engines.effort import Effort, RanOut, memory_bound
from sm90_verify.engines.engine import Answer, Bound, Question, Subject
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.shorten import shortened
from sm90_verify.engines.shown import finding, leads
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import COPIES, LIMIT, Action, Machine

Violations: TypeAlias = Mapping[str, Violation]
ENOUGH = 50_000
"""States to visit after the first violation, for the violations of other properties."""
FEW = 1
"""Decisions to remember where roles lose some whatever is remembered."""
REFINED = 1_000_000
"""States to visit for the shortest trace of a violation that the reduced search has found."""


class SearchEngine:
    """sm90_verify.engines.search.explore."""

    name = "search"
    needs: Literal["machine"] = "machine"
    heeds: tuple[Bound, ...] = ("limit", "timeout", "memory", "reduced")

    def answer(self, question: Question) -> Answer:
        """First by the reduced search; if that finds anything wrong, by one of every schedule."""
        asked = question.asked()
        if not question.reduced:
            machine, found = _explored(question, enough=ENOUGH, wanted=_that_count(asked))
            noted: dict[str, Violation] = {}
            if not found.complete and _only_noted(question.subject, found):
                noted = found.violations
                lenient = question._replace(subject=question.subject.lenient)
                machine, found = _explored(lenient, enough=ENOUGH, wanted=_that_count(asked))
            return self._told(question, machine, found, {}, noted)
        machine, quick, noted = reduced_search(question)
        if not quick.violations and not quick.open:
            return self._told(question, machine, quick, {}, noted, reduced=True)
        lost = quick.beyond if quick.open else ""
        known = {property: one for property, one in quick.violations.items() if property in asked}
        if known:
            effort, limit = question.effort.for_a_trace(), question.limit or REFINED
            return self.look_closer(question, known, effort, limit, lost, noted, machine)
        bounded = LIMIT in quick.violations or bool(quick.open)
        limit = question.limit or (REFINED if bounded else 0)
        return self.look_closer(question, {}, question.effort, limit, lost, noted, machine)

    def look_closer(
        self,
        question: Question,
        known: Violations,
        effort: Effort,
        limit: int,
        lost: str = "",
        noted: Violations = MappingProxyType({}),
        machine: Machine | None = None,
    ) -> Answer:
        """By a search of every schedule, which ends when all that is asked is violated: for the shortest traces of the
        violations that are known, and for others. lost: why what is found may depend on decisions that nobody
        remembers. noted: what is known to be only noted. machine: the one to go through, if it is not the question's.
        """

        def go_through(machine: Machine) -> Exploration:
            try:
                return explore(
                    machine,
                    limit=limit,
                    memory=question.memory or memory_bound(),
                    enough=ENOUGH,
                    wanted=_that_count(question.asked()),
                    effort=effort,
                )
            except RanOut as error:  # before its first state, which takes nothing from what is known
                return Exploration(ran_out=str(error))

        machine = machine or question.subject.machine
        exploration = go_through(machine)
        if not exploration.complete and _only_noted(question.subject, exploration):
            noted, machine = {**exploration.violations, **noted}, question.subject.lenient.machine
            exploration = go_through(machine)
        return self._told(question, machine, exploration, {} if exploration.complete else known, noted, lost=lost)

    def _told(
        self,
        question: Question,
        machine: Machine,
        found: Exploration,
        known: Violations,
        noted: Violations,
        *,
        reduced: bool = False,
        lost: str = "",
    ) -> Answer:
        open_, vacuous = "" if found.complete else lost, _vacuous(machine, found)
        violations = {**known, **found.violations}
        for property in known:
            if property not in found.violations:
                violations[property] = shortened(machine, known[property], question.effort.for_a_trace())
        findings = tuple(
            finding(question.subject.machine, property, noted, "")
            if property in noted
            else finding(machine, property, violations, open_ or is_undetermined(found, property) or vacuous)
            for property in question.asked()
        )
        told = [one for one in findings if one.id not in question.subject.noted]
        return Answer(
            self.name,
            findings,
            tuple(_notes(machine, found)),
            found.states,
            found.transitions,
            reduced=reduced,
            shortest=leads(told) in found.violations,
        )


def _explored(
    question: Question,
    *,
    stop_at_first: bool = False,
    reduced: bool = False,
    enough: int = 0,
    wanted: Collection[str] = (),
) -> tuple[Machine, Exploration]:
    """A search, and the machine that it went through: one that remembers only a few decisions, if roles lose some
    anyway and nothing is wrong whatever these were.
    """

    def go_through(machine: Machine, *, known: bool = False, first: bool = stop_at_first) -> Exploration:
        return explore(
            machine,
            limit=question.limit,
            memory=question.memory or memory_bound(),
            stop_at_first=first,
            enough=enough,
            reduced=reduced,
            known=known,
            wanted=wanted,
            effort=question.effort,
        )

    machine = question.subject.machine
    exploration = go_through(machine, known=True)
    if not exploration.beyond:
        return machine, exploration
    if question.subject.kernel is not None and not exploration.violations:
        small = compile_kernel(question.subject.kernel, question.effort.tick, kept=FEW)
        found = go_through(small, first=True)
        if not found.violations and not is_undetermined(found):
            return small, found
    return machine, go_through(machine)


def _that_count(asked: tuple[str, ...]) -> tuple[str, ...]:
    """That a barrier starves is seen in a deadlock."""
    return (*asked, "deadlock") if "arrival-count" in asked and "deadlock" not in asked else asked


def reduced_search(question: Question) -> tuple[Machine, Exploration, dict[str, Violation]]:
    """The search that leaves schedules out, the machine that it went through, and what is only noted that it has found
    on its way.

    The reduction relies on phases being seen. Where one is not, and this is only noted, the search begins again and
    relies no more on the barriers of that array.
    """
    subject, noted = question.subject, dict[str, Violation]()
    while True:
        machine, found = _explored(question._replace(subject=subject), stop_at_first=True, reduced=True)
        if not _only_noted(subject, found):
            return machine, found, noted
        (violation,) = found.violations.values()
        noted.setdefault(violation.property, violation)
        subject = subject.allowing(subject.signalled_like(machine.actions[violation.actions[-1]]))


def _only_noted(subject: Subject, found: Exploration) -> bool:
    return bool(found.violations) and all(property in subject.noted for property in found.violations)


def _dead(machine: Machine, unreached: Collection[int]) -> list[Action]:
    """One action for each line that never happens, or test there that never fails or never succeeds: in no role, and in
    no copy of the line.
    """
    never = set(unreached)
    happens = {_place(action) for index, action in enumerate(machine.actions) if index not in never}
    dead: dict[Hashable, Action] = {}
    for index in unreached:
        dead.setdefault(_place(machine.actions[index]), machine.actions[index])
    return [action for place, action in dead.items() if place not in happens]


def _place(action: Action) -> tuple[Source, Hashable, bool]:
    return action.source, action.answer if isinstance(action.answer, bool) else None, bool(action.role)


def _vacuous(machine: Machine, exploration: Exploration) -> str:
    """Why a complete search proves nothing: nothing ever moved."""
    if exploration.transitions == 0 and any(role.locations[0].kind != "end" for role in machine.roles):
        return "no step was ever taken"
    return ""


def _notes(machine: Machine, exploration: Exploration) -> list[str]:
    notes = []
    if exploration.complete and not exploration.violations:
        for action in _dead(machine, exploration.unreached):
            what = f"{action.role or COPIES}: {action.op} {action.object}"
            notes.append(f"never happens: {what} ({action.source})")
    if LIMIT in exploration.violations:
        notes.append(exploration.violations[LIMIT].because)
    return list(dict.fromkeys(notes))
