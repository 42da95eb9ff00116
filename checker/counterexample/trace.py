"""Traces: from the actions that an engine found to steps that people read, and back to a run of the concrete model.

`shows_again` executes a trace on the specification itself (spec.ptx.expr.evaluate, no generated code) and says whether
it reproduces the violation; every trace that is printed has been replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.counterexample import waiting
from sm90_verify.counterexample.advice import advice
from sm90_verify.counterexample.counted_bytes import bytes_counted
from sm90_verify.result import Blocked, StepKind, Trace, TraceStep
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.machine import COPIES, Action, Check, Location, Machine, Variable
from sm90_verify.spec.model.words import unlike
from sm90_verify.spec.ptx.expr import Known, evaluate
from sm90_verify.spec.ptx.needs import SEEN

State = dict[str, int]


class MachineStep(NamedTuple):
    """One executed action, the state before it and the checks that it violated."""

    action: Action
    before: State
    violated: tuple[Check, ...]


class MachineRun(NamedTuple):
    """A schedule executed from the initial state. `violated`: the checks that its last state or step violates."""

    steps: tuple[MachineStep, ...]
    last: State
    violated: tuple[Check, ...]


def initial_state(machine: Machine) -> State:
    return {variable.name: variable.initial for variable in machine.variables}


def is_enabled(machine: Machine, action: Action, state: State, known: Known | None = None) -> bool:
    """The role is at the action's location and its guard holds. known: of the state."""
    if action.location is not None and state[machine.named[action.role].counter] != action.location:
        return False
    return bool(evaluate(action.guard, state, known))


def take(machine: Machine, action: Action, state: State, known: Known | None = None) -> State:
    """The state after an action; all updates read the state before it. known: of the state before."""
    known = {} if known is None else known
    after = dict(state)
    for name, value in action.updates:
        after[name] = evaluate(value, state, known)
    if action.target is not None:
        after[machine.named[action.role].counter] = action.target
    return after


def changed_by(machine: Machine, action: Action, before: State, after: State) -> list[str]:
    """The variables that have another value after the action, in declaration order."""
    found = {name for name, _ in action.updates if before[name] != after[name]}
    if action.target is not None and action.target != action.location:
        found.add(machine.named[action.role].counter)
    return sorted(found, key=machine.order.__getitem__)


def violated_in(machine: Machine, state: State) -> tuple[Check, ...]:
    """The checks on states that a state violates: those of the whole machine and those of the locations of its
    roles.
    """
    checks = list(machine.checks)
    for role in machine.roles:
        checks += role.locations[state[role.counter]].checks
    known: Known = {}
    return tuple(check for check in checks if evaluate(check.when, state, known))


def execute(machine: Machine, actions: Sequence[int], *, every: bool = True) -> MachineRun:
    """Runs a schedule, given as indices of actions; raises SpecError if one of them cannot be taken. every: also of the
    steps before the last, say which checks they violate; else only of one behind which nothing is defined.
    """
    state, steps = initial_state(machine), []
    for number, index in enumerate(actions):
        action, known = machine.actions[index], Known()
        if not is_enabled(machine, action, state, known):
            raise SpecError(
                f"step {number + 1}, {action.name}, cannot be taken: the trace does not belong to this model"
            )
        asked = every or number == len(actions) - 1
        checks = (check for check in action.checks if asked or check.halts)
        violated = tuple(check for check in checks if evaluate(check.when, state, known))
        if not asked and violated:  # it is the last one after all
            violated = tuple(check for check in action.checks if evaluate(check.when, state, known))
        steps.append(MachineStep(action, state, violated))
        if any(check.halts for check in violated):
            return MachineRun(tuple(steps), state, violated)
        state = take(machine, action, state, known)
    last = steps[-1].violated if steps else ()
    return MachineRun(tuple(steps), state, (*last, *violated_in(machine, state)))


def reason(check: Check, state: State) -> str:
    """Why a check is violated, as exactly as the state tells."""
    return next((sentence for condition, sentence in check.cases if evaluate(condition, state)), check.because)


def make_trace(
    machine: Machine, property: str, because: str, actions: Sequence[int], stuck: Sequence[str] = ()
) -> Trace:
    """A trace of a violation, replayed; `stuck` are the roles that can never run again."""
    run = execute(machine, actions, every=False)
    steps = []
    for number, step in enumerate(run.steps):
        after = run.steps[number + 1].before if number + 1 < len(run.steps) else run.last
        steps.append(step_of(machine, step.action, changes(machine, step.action, step.before, after)))
    blocked: tuple[Blocked, ...] = ()
    advised = ""
    if stuck:
        path = [(step.action.role, step.before) for step in run.steps]
        came = waiting.arrivals_in(machine, path, run.last)
        advised = advice(machine, path, run.last, stuck)
        blocked = waiting.explain(machine, run.last, stuck, came)
        because = waiting.sentence(machine, run.last, stuck, came)
    else:
        told = [check for check in run.violated if (check.property, check.because) == (property, because)]
        because = reason(told[0], run.last) if told else because
    ahead = _ahead(machine, run, property, because)
    if property == "tx-count" and run.steps and run.steps[-1].violated:
        last = run.steps[-1]
        counted = bytes_counted(machine, [step.before for step in run.steps[:-1]], last.action, last.before)
        because = f"{because} ({counted})" if counted else because
    trace = Trace(property, because, tuple(steps), blocked, ahead, advised)
    if not shows_again(machine, trace):
        raise AssertionError(f"the trace of {property} does not reproduce it")
    return trace


def _ahead(machine: Machine, run: MachineRun, property: str, because: str) -> tuple[TraceStep, ...]:
    """What belongs to the violation and is still ahead when the trace ends: what roles that the sentence names, other
    than that of the last step, are about to do to the same objects; and the waits that it is wrong to stand at.
    """
    last = run.steps[-1].action if run.steps else None
    touched = set(step_of(machine, last, {}).things) if last else set()
    said = because.replace(",", " ").split()
    found = []
    for role in machine.roles:
        place = role.locations[run.last[role.counter]]
        same = touched.union(said) & set(place.things)
        conflicts = last is not None and role.name != last.role and role.name in said and same
        if conflicts or (place.waits_for and _stands_wrong(role.name, place, run.last, property, because)):
            file, line, kind = place.source.file, place.source.line, _kind(place)
            found.append(TraceStep(role.name, place.op, place.object, file, line, kind=kind, things=place.things))
    return tuple(found)


def _stands_wrong(role: str, place: Location, state: State, property: str, because: str) -> bool:
    """Whether a check of the place itself is what is violated; that of a phase nobody saw is about the wait before."""
    return any(
        check.property == property
        and check.because != SEEN.said(barrier=check.object, role=role)
        and evaluate(check.when, state)
        and reason(check, state) == because
        for check in place.checks
    )


def known_again(machine: Machine, trace: Trace) -> Trace:
    """A trace that shows its violation on the machine, told by the machine alone: of a file, only the actions,
    the property, who is blocked, and which of several reasons is meant.
    """
    run = run_of(machine, trace)
    told = [check for check in run.violated if check.property == trace.property]
    because = [check.because for check in told if reason(check, run.last) == trace.because]
    because += [check.because for check in told]
    stuck = [entry.role for entry in trace.blocked]
    return make_trace(machine, trace.property, because[0] if because else "", _numbers(machine, trace), stuck)


def run_of(machine: Machine, trace: Trace) -> MachineRun:
    """The steps of a trace, executed; raises SpecError if the machine has no such steps, or one cannot be taken."""
    return execute(machine, _numbers(machine, trace), every=False)


def _numbers(machine: Machine, trace: Trace) -> list[int]:
    numbers = {action.name: index for index, action in enumerate(machine.actions)}
    missing = [step.action for step in trace.steps if step.action not in numbers]
    if missing:
        raise SpecError(f"{missing[0]!r} is not a step of {machine.name}: replay it with the parameters of the trace")
    return [numbers[step.action] for step in trace.steps]


def _kind(place: Location) -> StepKind:
    """What an operation is where a trace tells it."""
    if place.waits_for:
        return "waits"
    if place.signals:
        return "signals"
    return "loop" if place.kind == "loop" else "other"


def step_of(machine: Machine, action: Action, changed: dict[str, str]) -> TraceStep:
    """An action and what it changed, as a step of a trace; what has no program is done by the copies."""
    who = action.role or unlike(COPIES, {*machine.named})
    copy = machine.landing(action)
    kind: StepKind = "lands"
    things: tuple[str, ...] = () if copy is None else (copy.buffer,)
    if copy is None:  # an arrival that follows cp.asyncs
        kind, things = "signals", (action.object,)
    if action.location is not None:
        place = machine.named[action.role].locations[action.location]
        kind, things = _kind(place), place.things
    source = action.source
    return TraceStep(who, action.op, action.object, source.file, source.line, changed, action.name, kind, things)


def changes(machine: Machine, action: Action, before: State, after: State) -> dict[str, str]:
    """What a step changed in the hardware's state: neither locations nor ghosts."""
    found, mine = {}, machine.named[action.role].counter if action.role else ""
    for name in changed_by(machine, action, before, after):
        variable = machine.variables[machine.order[name]]
        if not variable.ghost and name != mine:
            found[name] = f"{_text(variable, before[name])}->{_text(variable, after[name])}"
    return found


def shows_again(machine: Machine, trace: Trace) -> bool:
    """Whether the trace, executed step by step on the concrete model, ends in the violation that it claims. Of roles
    that wait for ever: whether they wait. (afterwards.py says whether they wait for ever.)
    """
    run = run_of(machine, trace)
    if not trace.blocked:
        return any(check.property == trace.property for check in run.violated)
    stuck = [entry.role for entry in trace.blocked]
    if trace.property == "arrival-count" and waiting.never_enough(machine, run.last, stuck) is None:
        return False
    return trace.property in ("deadlock", "arrival-count") and waiting.reproduces(machine, run.last, trace)


def _text(variable: Variable, value: int) -> str:
    if variable.labels:
        return variable.labels[value]
    negative = variable.kind == "tx" and value >> variable.width - 1
    return str(value - (1 << variable.width) if negative else value)
