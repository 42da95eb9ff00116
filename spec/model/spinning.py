"""Which steps of a role only spin: it asks again and again whether something has come, and does nothing that could help
anybody. A role that can do nothing else any more is stuck, like one that is blocked.

A test that fails is such a step. So is one between two tests that changes nothing but barriers of threads and
registers: a read, a fence, a wait for groups, __syncwarp, a test or wait for a phase that the role has seen already (or
that may be such a one, where its waits skip phases), or a choice. The role comes back to the test, and to the state in
which it was. A loop of such steps in which nothing is tested is no spinning but an endless program, unless a choice
leads to a test from there; so is one that meets a role at a barrier of threads which goes on for ever with it. What a
role does once, on its way to a test or away from it, is a step.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from sm90_verify.spec.model.flow import ANY
from sm90_verify.spec.model.machine import Action, Machine, VariableKind

BARRIERS: frozenset[VariableKind] = frozenset(("arrived", "count", "met"))


def spinning(machine: Machine) -> frozenset[int]:
    """The actions by which a role only spins: the tests that fail, unless the role ends then, and the idle steps on
    cycles with them.
    """
    places = {role.name: role.locations for role in machine.roles}
    tests = frozenset(
        index
        for index, action in enumerate(machine.actions)
        if action.fails and not places[action.role][action.target or 0].final
    )
    return tests | on_cycles(machine, tests) if tests else tests


def on_cycles(machine: Machine, tests: frozenset[int]) -> frozenset[int]:
    """Of these tests and the idle steps of their roles: those on cycles of them, none of which is without a test."""
    roles = {machine.actions[index].role for index in tests}
    idle, meets = _idle(machine, roles), _meets(machine)
    by_role = {role.name: _of_role(machine, role.name) for role in machine.roles} if meets else {}
    recurring = {index for actions in by_role.values() for index in _cyclic(actions)}
    working: set[str] = set()
    while True:
        found: set[int] = set()
        for role in roles:
            mine = {index: machine.actions[index] for index in idle if machine.actions[index].role == role}
            mine = {index: action for index, action in mine.items() if meets.get(index, "") not in working}
            endless = _cyclic({index: action for index, action in mine.items() if not _chooses(machine, action)})
            left = {index: action for index, action in mine.items() if index not in endless}
            failing = {index: machine.actions[index] for index in tests if machine.actions[index].role == role}
            found |= _cyclic({**left, **failing}, failing)
        more = {name for index, name in meets.items() if index in recurring and index not in found} - working
        if not more:
            return frozenset(found)
        working |= more


def _of_role(machine: Machine, role: str) -> dict[int, Action]:
    return {index: action for index, action in enumerate(machine.actions) if action.role == role}


def _meets(machine: Machine) -> dict[int, str]:
    """By action at a barrier of threads, which one."""
    barriers = {variable.name: variable.of for variable in machine.variables if variable.kind in BARRIERS}
    return {
        index: barriers[name]
        for index, action in enumerate(machine.actions)
        for name, _ in action.updates
        if name in barriers
    }


def _idle(machine: Machine, roles: Container[str]) -> list[int]:
    """The steps that neither wait for anything new nor change anything but barriers of threads and registers."""
    kinds = {variable.name: variable.kind for variable in machine.variables}
    places = {role.name: role.locations for role in machine.roles}
    found = []
    for index, action in enumerate(machine.actions):
        if action.role not in roles or action.location is None or action.fails:
            continue
        place = places[action.role][action.location]
        changed = {kinds[name] for name, _ in action.updates}
        if _chooses(machine, action):
            found.append(index)
        elif place.kind in ("wait", "peek"):
            found += [index] if dict(place.next_waits).get(place.barrier) in ((0,), (ANY,)) else []
        elif changed <= {*BARRIERS, "registers", "since"} and (place.kind in ("local", "meet", "inside") or changed):
            found.append(index)
    return found


def _chooses(machine: Machine, action: Action) -> bool:
    """It only makes a choice, or finds one that was made: nobody waits for that."""
    roles = {role.name: role.locations for role in machine.roles}
    return action.location is not None and roles[action.role][action.location].kind == "choice"


def _cyclic(actions: Mapping[int, Action], through: Mapping[int, Action] | None = None) -> set[int]:
    """Those of the actions of a role that lie on a cycle of them, on one through some of these if they are given."""
    after: dict[int | None, list[int | None]] = {}
    for action in actions.values():
        after.setdefault(action.location, []).append(action.target)
    reached: dict[int | None, set[int | None]] = {}
    for start in {action.target for action in actions.values()}:
        seen: set[int | None] = {start}
        todo = [start]
        while todo:
            for target in after.get(todo.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        reached[start] = seen
    found = {index for index, action in actions.items() if action.location in reached[action.target]}
    if through is None:
        return found
    tests = [action for index, action in through.items() if index in found]
    return {
        index
        for index in found
        if any(
            test.location in reached[actions[index].target] and actions[index].location in reached[test.target]
            for test in tests
        )
    }
