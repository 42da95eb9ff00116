"""Decisions that roles share: trip counts and choices. Every role that asks for the n-th one of a name gets the same
answer, whoever asks first.

With the answers given, a role does the same in every schedule, whether it asks for all of them, for some or for none.
So each sequence of answers has a run of its own. A role that asks for an answer that is not given waits until nobody
else can go on without one; then the run forks, a run for every answer (forks).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from sm90_verify.engines.order.plan import DecisionUse, Plan
from sm90_verify.engines.order.state import DecisionState, RunState
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op

# ---------------------------------------------------------------- in the programs


def decided_by(node: Node) -> tuple[str, bool] | None:
    """The name of the decision that is asked for there, and whether it is that of a loop."""
    if node.loop:
        return node.loop, True
    return (node.operation.name, False) if isinstance(node.operation, op.Choose) else None


def decisions_of(programs: Iterable[Program]) -> tuple[DecisionUse, ...]:
    """All decisions, in the order in which the programs name them."""
    found: dict[tuple[str, bool], int] = {}
    for node in (node for program in programs for node in program.nodes):
        asked = decided_by(node)
        if asked is not None:
            found[asked] = max(found.get(asked, 0), len(node.successors))
    return tuple(DecisionUse(name, options, loop) for (name, loop), options in found.items())


def unequal(programs: Sequence[Program]) -> str:
    """Why the answers depend on who asks first: a role has fewer options than another one; "" if none has."""
    options = {(use.name, use.loop): use.options for use in decisions_of(programs)}
    for node in (node for program in programs for node in program.nodes):
        asked = decided_by(node)
        if asked is not None and len(node.successors) < options[asked]:
            return f"choose({asked[0]!r}) has fewer options than elsewhere ({node.source})"
    return ""


def asked_ahead(program: Program, decisions: Sequence[DecisionUse]) -> tuple[frozenset[int], ...]:
    """By location, the decisions that the role can come to from there, whatever the answers."""
    numbers = {(use.name, use.loop): number for number, use in enumerate(decisions)}
    own = [decided_by(node) for node in program.nodes]
    found = [frozenset(() if asked is None else (numbers[asked],)) for asked in own]
    changed = bool(decisions)
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            here = found[index].union(*(found[target] for target in program.nodes[index].successors.values()))
            if here != found[index]:
                found[index], changed = here, True
    return tuple(found)


# ---------------------------------------------------------------- in a run


def answer(use: DecisionUse, state: DecisionState, role: int) -> int | None:
    """What the role finds if it asks now; None if that has not been decided. A loop that is over stays so."""
    read = state.read[role]
    if read < len(state.answers):
        return state.answers[read]
    return 0 if _is_over(use, state) else None


def read(state: DecisionState, role: int) -> None:
    """The role has asked, and goes on with the answer."""
    state.read[role] = min(state.read[role] + 1, len(state.answers))


def unread(plan: Plan, state: RunState) -> Iterable[Hashable]:
    """Of each decision, what anybody can still find: the answers from the one on which some role that asks has yet to
    read, and how far each has come in them.
    """
    for number, (use, one) in enumerate(zip(plan.decisions, state.decisions, strict=True)):
        readers = [role for role, at in enumerate(state.at) if number in plan.asks[role][at]]
        first = min((one.read[role] for role in readers), default=0)
        if readers:
            pending = tuple(one.answers[first:])
            yield pending, tuple(one.read[role] - first for role in readers), _is_over(use, one)
        else:
            yield None


def _is_over(use: DecisionUse, state: DecisionState) -> bool:
    return use.loop and state.answers[-1:] == [0]
