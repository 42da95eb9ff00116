"""What a verdict takes for granted of one kernel alone, as sentences beside it."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.engines.within_roles import unmet_threads
from sm90_verify.spec.model.flow import final_nodes
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of


def assumed(kernel: Kernel) -> Iterator[str]:
    """That strong accesses of several objects have one order, that threads of a role meet, that loops of all clusters
    agree, that these all run.
    """
    yield from _one_order(kernel)
    yield from unmet_threads(kernel)
    if kernel.clusters == 1:
        return
    if any(node.loop for program in kernel.programs for node in program.nodes):
        yield f"assumed: loops of one name have as many iterations in all {kernel.clusters} clusters"
    if kernel.rules.resident:
        yield f"assumed: all {kernel.clusters} clusters of the grid run at once (resident = False: in waves)"


def _one_order(kernel: Kernel) -> Iterator[str]:
    """Without fence.sc between them, two roles may each miss what the other has done to another word or barrier (store
    buffering), and relaxed accesses of several may be seen in any order. It matters for words; for barriers that a role
    asks and leaves without having seen the phase; and where a value is read once, for relaxed barriers.
    """
    words: dict[str, None] = {}
    polled: dict[str, None] = {}
    relaxed: dict[str, None] = {}
    depends = False
    for program in kernel.programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            if effects.word is not None:
                words[effects.word.access.object] = None
                depends |= bool(effects.answers)
            if effects.waits is not None and _leaves_unseen(program, node):
                polled[effects.waits.barrier] = None
            relaxed.update((name, None) for name in _relaxed(node.operation))
    barriers = {**polled, **(relaxed if depends or polled else {})}
    if len(words) + len(barriers) < 2:
        return
    found = [(len(words), "word"), (len(barriers), "barrier")]
    counted = " and ".join(f"{count} {what}{'s' if count > 1 else ''}" for count, what in found if count)
    yield f"assumed: {counted} change in one order that all roles see (PTX: with fence.sc between them)"


def _relaxed(operation: op.Operation | None) -> list[str]:
    """The barriers of a relaxed arrival or wait."""
    effects = effects_of(operation)
    if effects.waits is not None:
        return [effects.waits.barrier] if effects.waits.sem == "relaxed" else []
    if isinstance(effects.signal, op.Arrive) and effects.signal.sem == "relaxed":
        return [one.barrier for one in effects.signal.parts]
    return []


def _leaves_unseen(program: Program, asked: Node) -> bool:
    """The role can come to its end without asking the barrier again that has just said that it is not complete."""
    wait = effects_of(asked.operation).waits
    if wait is None or False not in asked.successors:
        return False
    ends, todo = set(final_nodes(program)), [asked.successors[False]]
    seen = set(todo)
    while todo:
        index = todo.pop()
        again = effects_of(program.nodes[index].operation).waits
        if again is not None and again.barrier == wait.barrier:
            continue
        if index in ends:
            return True
        todo += [to for to in program.nodes[index].successors.values() if to not in seen]
        seen.update(todo)
    return False
