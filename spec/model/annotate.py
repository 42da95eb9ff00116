"""What a role has in flight, and how far it has got, at each location of its program: one pass over the graph.

A front end hands over what a role does: nodes with an operation, a place in a file, perhaps a loop, and where each
answer leads. Everything else that a Node says follows from the ways to it, and is found here.

Two ways may come to a node with different work in flight, or with parities of which the same wait means another phase.
The node is then split, one copy for each, as are those that follow while the difference lasts (the product of the
graph with what is held). Nothing is split whose ways agree, so a program that was annotated before, or that was traced,
keeps its nodes.

Numbers of arrivals, phases and iterations are no reason to split: a node has those of the first way to it, and as
`drift` those of every other edge into it. They change along an edge by what the edge's operation says, so on all
further ways they differ by sums of these differences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias, assert_never

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.phase import Phase, phases_ahead

MAX_NODES = 50_000
"""Of one program, split ones counted."""

Parities: TypeAlias = tuple[tuple[str, int], ...]
"""By barrier, the parity of the phase that a role has seen last."""


def annotate(program: Program, *, checked: bool = False, tick: Tick = unheard) -> Program:
    """The program with held, distance, choice, iteration, arrived, observed, ahead and drift at every node, whatever
    they were before; nodes are in the order in which they are first come to, those that no way leads to left out.

    A wait for a plain parity is meant for the next phase of that parity, which may be the one that the role saw last,
    and a wait for a token for the phase of its arrival: their distance is found here. A wait with a Phase keeps the
    distance that it has: the laps of a state say which phase is meant, but in a loop that has been closed they are
    those of one of its rounds, and only who has followed the state from its start knows how they compare with what the
    role has seen.

    checked: its fields and operations have been looked at. Raises SpecError for a field that does not hold what it
    says, for a graph whose edges do not fit its operations, and for one that has more than MAX_NODES nodes when it is
    split.
    """
    _check_edges(program, checked)
    reads = _parities_read(program)
    nodes: list[Node] = []
    places: list[dict[tuple[Held, Parities], int]] = [{} for _ in program.nodes]
    start = _Past(_at_start(program), {}, {}, {}, {})
    ways: deque[tuple[int, Hashable, int, _Past]] = deque([(-1, None, 0, start)])
    while ways:
        last, answer, index, past = ways.popleft()
        while True:
            seen = tuple([(name, past.observed.get(name, -1) & 1) for name in reads[index]])
            key = past.held, seen
            place = places[index].setdefault(key, len(nodes))
            known = place < len(nodes)
            if known:
                nodes[place].drift.append((past.arrived, past.observed, past.ahead, past.iteration))
            elif len(nodes) < MAX_NODES:
                nodes.append(past.annotated(program.nodes[index]))
                tick("following", program.name, len(nodes), program.nodes[index].source)
            else:
                raise SpecError(
                    f"role {program.name} has more than {MAX_NODES} locations, told apart by what is in flight there: "
                    "let it wait for its groups, or fence, before its ways join",
                    program.nodes[index].source,
                )
            if last >= 0:
                nodes[last].successors[answer] = place
            following = [] if known else list(program.nodes[index].successors.items())
            if not following:
                break
            for other, target in following[1:]:
                ways.append((place, other, target, past.after(nodes[place], other)))
            (answer, index), last = following[0], place
            past = past.after(nodes[place], answer)
    return replace(program, nodes=tuple(nodes))


# ---------------------------------------------------------------- what has happened on a way


class _Past(NamedTuple):
    """What the role has done on one way to a node. Nodes share the mappings, which nobody changes."""

    held: Held
    arrived: Mapping[str, int]
    observed: Mapping[str, int]
    ahead: Mapping[str, int]
    choices: Mapping[str, int]
    iteration: int = 0

    def annotated(self, node: Node) -> Node:
        """The node as it is for a role that has come to it on this way, without its edges."""
        operation = node.operation
        if isinstance(operation, op.TriggeredArrive) and operation.tracks != self.held.untracked():
            operation = replace(operation, tracks=self.held.untracked())
        return Node(
            operation,
            node.source,
            self.held,
            loop=node.loop,
            distance=self.distance(node),
            skips=node.skips,
            moves=node.moves,
            choice=self.choices.get(operation.name, 0) if isinstance(operation, op.Choose) else 0,
            iteration=self.iteration,
            arrived=self.arrived,
            observed=self.observed,
            ahead=self.ahead,
        )

    def distance(self, node: Node) -> int:
        wait = node.operation
        if not isinstance(wait, op.Wait) or isinstance(wait.phase, op.Token):
            return 0
        return node.distance if isinstance(wait.phase, Phase) else phases_ahead(self._seen(wait.barrier), wait.phase)

    def _seen(self, barrier: str) -> int:
        """The number of the phase that the role has seen last; before all, the one before the first."""
        return self.observed.get(barrier, -1)

    def after(self, node: Node, answer: Hashable) -> _Past:
        """The same once the role has left the node, as it is annotated, with this answer."""
        operation = node.operation
        if operation is None:
            return self._replace(iteration=self.iteration + 1) if node.loop and answer else self
        past = self._counted(operation, node, answer)
        held = self.held.after(operation)
        return past if held is self.held else past._replace(held=held)

    def _counted(self, operation: op.Operation, node: Node, answer: Hashable) -> _Past:
        effects, ahead = effects_of(operation), self.ahead
        for copies, _ in effects.lands:
            ahead = _plus(ahead, copies.barrier, -copies.bytes)
        past = self if ahead is self.ahead else self._replace(ahead=ahead)
        wait, choice = None if node.skips else effects.waits, effects.chooses
        if wait is not None and answer is not False and not isinstance(wait.phase, op.Token):
            past = past._replace(observed={**past.observed, wait.barrier: past._seen(wait.barrier) + node.distance})
        if choice is not None:
            past = past._replace(choices=_plus(past.choices, choice.name, 1))
        for signal in effects.signals:
            past = past._signalled(signal)
        return past

    def _signalled(self, signal: op.Signal) -> _Past:
        match signal:
            case op.Arrive(barrier=barrier, count=count, expect=expect):
                arrived = _plus(self.arrived, barrier, count)
                return self._replace(arrived=arrived, ahead=_plus(self.ahead, barrier, (expect or 0) * count))
            case op.Transaction(barrier=barrier, bytes=bytes):
                return self._replace(ahead=_plus(self.ahead, barrier, bytes))
            case op.Init() | op.Inval():
                return self
            case _:
                assert_never(signal)


def _plus(counts: Mapping[str, int], name: str, number: int) -> Mapping[str, int]:
    return {**counts, name: counts.get(name, 0) + number}


def _at_start(program: Program) -> Held:
    """Nothing is held; what is ordered by a release is followed where some arrival has none."""
    relaxed = [node.operation for node in program.nodes if effects_of(node.operation).orders == "relaxed"]
    within = all(isinstance(operation, op.WarpSync) for operation in relaxed)
    return IDLE._replace(tracks=True, within=within) if relaxed else IDLE


# ---------------------------------------------------------------- the graph


def _parities_read(program: Program) -> list[tuple[str, ...]]:
    """By node, the barriers of which it matters there which parity the role has seen last: it may come to a wait for a
    plain parity with no other wait on the barrier passed before.
    """
    waits = [node.operation if isinstance(node.operation, op.Wait) else None for node in program.nodes]
    found: list[dict[str, None]] = [
        {} if wait is None or isinstance(wait.phase, Phase | op.Token) else {wait.barrier: None} for wait in waits
    ]
    if not any(found):
        return [()] * len(found)
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            here, wait = found[index], waits[index]
            for answer, target in program.nodes[index].successors.items():
                for name in found[target]:
                    sees = wait is not None and wait.barrier == name and not isinstance(wait.phase, op.Token)
                    if name not in here and not (sees and answer is not False):
                        here[name] = None
                        changed = True
    return [tuple(sorted(names)) for names in found]


def _check_edges(program: Program, checked: bool) -> None:
    """Every node leads on for each answer that its operation can give, and for no other; to nodes that are there."""
    if not checked:
        from sm90_verify.spec.model.handmade import check_program

        check_program(program)
    if not program.nodes:
        raise SpecError(f"role {program.name} has no location: begin with one, if only its end", program.where)
    for index, node in enumerate(program.nodes):
        wrong = _wrong_with(node, len(program.nodes), checked)
        if wrong:
            raise SpecError(f"role {program.name}, location {index}: {wrong}", node.source)


def _wrong_with(node: Node, size: int, checked: bool) -> str:
    if node.operation is None:
        answers: tuple[Hashable, ...] = (True, False) if node.loop else ()
    elif node.loop:
        return "the decision of a loop has an operation: give it a location of its own"
    else:
        answers = effects_of(node.operation).answers or (None,)
    led = tuple(node.successors)
    alike = checked or sorted(map(repr, led)) == sorted(map(repr, answers))  # 1 is equal to True
    if not alike or (led != answers and set(led) != set(answers)):
        leads = ", ".join(map(str, node.successors)) or "none"
        return f"it leads on for the answers {leads}: it needs {', '.join(map(str, answers)) or 'none'}"
    outside = [target for target in node.successors.values() if not 0 <= target < size]
    return f"it leads to location {outside[0]}: use 0 to {size - 1}" if outside else ""
