"""From a kernel with a given trip count to the instructions that kernels/executor.cu executes.

A role's program is laid out as one list of instructions, with a branch behind each operation that gives an answer. A
loop that only asks one try_wait or test_wait until it says yes is a wait; any other loop must have an end, so a kernel
whose roles loop without one is refused, as is what instructions.py has no form for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TypeAlias

from sm90_verify.recordings.instructions import Executed, Instructions, by_some
from sm90_verify.recordings.places import GpuPlaces
from sm90_verify.recordings.plan import ExecutorPlan, Instruction, Lowered
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import CTA_THREADS, WARP, WARPGROUP
from sm90_verify.spec.ptx.memory import Access

HELPERS = 2
"""Warps of a CTA beside those of its roles, at most: one watches, and one takes part in barrier.cluster."""
Flying: TypeAlias = tuple[tuple[tuple[Access, ...], ...], tuple[Access, ...]]
"""The operands of committed groups of wgmmas, and of those that are not committed."""


def lower(kernel: Kernel) -> ExecutorPlan:
    """The instructions of all roles; raises SpecError for what the executor cannot do."""
    places = GpuPlaces(kernel)
    instructions = Instructions(places)
    roles, free = [], [0] * kernel.launch.ctas
    for program in kernel.programs:
        cta, threads = program.me.number, program.me.threads
        if threads % WARPGROUP == 0:
            free[cta] = -(-free[cta] // 4) * 4
        own = tuple(_Role(program, instructions).instructions())
        roles.append(Lowered(program.name, cta, free[cta], threads, own))
        free[cta] += roles[-1].warps
    if (max(free) + HELPERS) * WARP > CTA_THREADS:
        most = CTA_THREADS // WARP
        raise SpecError(f"the roles need {max(free)} warps of a CTA, and {HELPERS} more help: {most} is most")
    of = places.regions
    barriers = tuple((of[name].cta, of[name].start, count) for name, count in kernel.layout.arrivals.items())
    synced = [replace(role, instructions=_with_threads(role, roles)) for role in roles]
    return ExecutorPlan(
        kernel,
        tuple(synced),
        barriers,
        places.writers,
        tuple(instructions.stores),
        places.size("shared"),
        instructions.output,
        instructions.largest,
        places.words(),
        tuple(places.options),
        places.size("global"),
        frozenset(places.derived),
        places.initial,
    )


def _with_threads(role: Lowered, roles: list[Lowered]) -> tuple[Instruction, ...]:
    """__syncthreads waits for all warps of the CTA that have something to do."""
    threads = sum(one.warps for one in roles if one.cta == role.cta and one.instructions) * WARP
    return tuple(replace(one, b=threads) if one.code == "cta_sync" else one for one in role.instructions)


class _Role:
    """One program as a list. begins: by node, its first instruction; jumps: by place in the list, the node to go to."""

    def __init__(self, program: Program, instructions: Instructions) -> None:
        self.program, self.nodes, self.make = program, program.nodes, instructions
        self.found: list[Instruction] = []
        self.begins: dict[int, int] = {}
        self.jumps: dict[int, int] = {}
        self.flying: dict[int, Flying] = {0: ((), ())}
        self.ending = _that_end(program.nodes)

    def instructions(self) -> list[Instruction]:
        """All of them."""
        todo, end = [0], -1
        while todo:
            index = todo.pop()
            if index in self.begins:
                continue
            while index not in self.begins:
                self.begins[index] = len(self.found)
                if index in self.ending and not self.nodes[index].successors:
                    for group in (*self.flying[index][0], self.flying[index][1]):  # to the end, as no wait covers it
                        self.found += self.make.reads(self.program, index, group)
                    self._jump(index, end)
                    break
                index, others = self._node(index)
                todo += others
            else:
                self._jump(index, index)
        if self.jumps.get(len(self.found) - 1) == end:
            del self.jumps[len(self.found) - 1]
            self.found.pop()
        for place, index in self.jumps.items():
            target = len(self.found) if index == end else self.begins[index]
            self.found[place] = replace(self.found[place], b=target)
        return self.found

    def _jump(self, node: int, to: int) -> None:
        self.jumps[len(self.found)] = to
        self.found.append(Instruction("jump", node))

    def _node(self, index: int) -> tuple[int, list[int]]:
        """Lays out a node and the branches behind it: where to go on, and what is left to lay out."""
        node, program = self.nodes[index], self.program
        operation = node.operation
        if operation is None or index not in self.ending:
            raise SpecError("the executor takes no loop without end: give a trip count", node.source)
        if not isinstance(operation, Executed):
            raise SpecError(f"the executor cannot do {operation!r}", node.source)
        if isinstance(operation, op.NamedSync) and program.me.threads % WARP:
            why = f"bar.sync counts warps, and the executor gives {program.name} some that are not full"
            raise SpecError(why, node.source)
        if isinstance(operation, op.NamedSync) and operation.by:
            raise SpecError("all warps of a role execute its bar.sync on the executor, not some", node.source)
        ways = dict(node.successors)
        if isinstance(operation, op.Wait) and operation.kind != "wait" and ways.get(False) == index:
            operation, ways = replace(operation, kind="wait"), {True: ways[True]}
        flying = self._add(index, operation)
        for follower in ways.values():
            if self.flying.setdefault(follower, flying) != flying:
                raise SpecError("the executor needs the same wgmmas in flight on all ways to a place", node.source)
        if len(set(ways.values())) == 1:
            return next(iter(ways.values())), []
        shared = int(program.me.threads > WARP and not isinstance(operation, op.Choose))
        *answers, (_, last) = self._answers(operation, ways)
        for answer, to in answers:
            self.jumps[len(self.found)] = to
            self.found.append(Instruction("branch", index, answer, c=shared))
        return last, list(ways.values())

    def _answers(self, operation: Executed, ways: dict[Hashable, int]) -> list[tuple[int, int]]:
        """What the GPU answers, and where each answer leads. What a read finds is the number of a write."""
        if isinstance(operation, op.Find):
            return list(self._numbers(operation, ways))
        return [(int(answer), to) for answer, to in ways.items() if isinstance(answer, int)]

    def _numbers(self, find: op.Find, ways: dict[Hashable, int]) -> Iterable[tuple[int, int]]:
        """The writes that leave one of its tags where a read looks."""
        places = self.make.places
        for which, tag in enumerate(find.tags):
            if places.kernel.layout.holds.get(find.access.object) == tag:
                yield places.initial.get(find.access.object, 0), ways[which]
            for number, left in places.tags.items():
                if left == tag:
                    yield number, ways[which]

    def _add(self, index: int, operation: Executed) -> Flying:
        """Adds the instructions of an operation. What is in flight afterwards."""
        program, effects, (groups, open) = self.program, effects_of(operation), self.flying[index]
        operands, ends = effects.lasting("mma_group"), effects.ends
        if ends is not None and ends.groups == "mma":
            done = max(0, len(groups) - ends.pending)
            self.found.append(Instruction("nothing", index))
            for group in groups[:done]:
                self.found += self.make.reads(program, index, group)
            return groups[done:], open
        if operands or effects.commits == "mma":
            self.found += self.make.reads(program, index, operands) if operands else (Instruction("nothing", index),)
            open = (*open, *operands)
            return ((*groups, open), ()) if effects.commits == "mma" else (groups, open)
        before, after = by_some(operation, program.me.threads)
        meeting = self.make.meet(index, f"{program.name}.", [program])
        self.found += (*(meeting,) * before, *self.make.of(program, index, operation), *(meeting,) * after)
        return groups, open


def _that_end(nodes: tuple[Node, ...]) -> set[int]:
    """The nodes from which the end of the program can be reached."""
    before: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        for follower in node.successors.values():
            before.setdefault(follower, []).append(index)
    todo = [index for index, node in enumerate(nodes) if node.operation is None and not node.successors]
    found = set(todo)
    while todo:
        new = [one for one in before.get(todo.pop(), ()) if one not in found]
        found.update(new)
        todo += new
    return found
