"""What a launch of kernels/executor.cu reads and writes on the GPU, and what runs did by what it has written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from sm90_verify.recordings.plan import ExecutorPlan, Instruction, Lowered
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import SpecError

EVENT_WORDS = 8
"""32-bit words of struct Event: two clocks of 64 bits, the instruction, whether it waited, two words that were read."""
FOUND = ("read", "word", "find")
"""Instructions that say what they have found, if they name an object."""


class Arrays:
    """Those of so many runs of a plan. shared: bytes of shared memory of a CTA."""

    def __init__(
        self, cupy: Any, plan: ExecutorPlan, roles: Sequence[Lowered], runs: int, shared: int, *, record: bool
    ) -> None:
        self.cupy, self.plan, self.roles, self.runs, self.record = cupy, plan, roles, runs, record
        launch, warps = plan.kernel.launch, plan.warps
        words: list[tuple[int, ...]] = []
        table: list[tuple[int, ...]] = []
        for role in roles:
            begin = len(words)
            words += [instruction.words() for instruction in role.instructions]
            table.append((begin, len(words), role.warp, role.warps, role.threads, role.cta))
        self.longest = max(role.most for role in roles)
        self.stride = max(plan.largest // 4, 1)
        self.memory_words = -(-plan.memory // 128) * 32
        numbers = cupy.arange(len(plan.writers) + 1, dtype=cupy.uint32)
        self.program = (
            cupy.asarray(words or [(0,) * 9], dtype=cupy.int32),
            cupy.asarray(table, dtype=cupy.int32),
            number(cupy, len(roles)),
            *self._table(plan.barriers),
            *self._table([one for one in plan.words if one[0] >= 0]),
        )
        self.memory = cupy.zeros((runs, max(self.memory_words, 1)), dtype=cupy.uint32)
        for name, number_of in plan.initial.items():
            region = plan.regions[name]
            self.memory[:, region.start // 4 : -(-region.stop // 4)] = number_of
        for cta, at, value in plan.words:
            if cta < 0:
                self.memory[:, at // 4] = value
        self.choices = cupy.zeros((runs, max(len(plan.choices), 1)), dtype=cupy.int32)
        self.counters = (
            cupy.zeros(runs * launch.grids, dtype=cupy.int32),
            cupy.zeros(runs * launch.blocks, dtype=cupy.int32),
        )
        self.positions = cupy.full((runs, launch.ctas, warps, 2), 0xFFFFFFFF, dtype=cupy.uint32)
        self.events = cupy.zeros(
            (runs, launch.ctas, warps, self.longest, EVENT_WORDS) if record else 1, dtype=cupy.uint32
        )
        self.aborted = cupy.zeros(runs, dtype=cupy.int32)
        self.steps = cupy.zeros(runs, dtype=cupy.int32)
        self.output = cupy.zeros((runs, max(plan.output // 4, 1)), dtype=cupy.uint32)
        copies = cupy.ascontiguousarray(cupy.repeat(numbers[:, None], self.stride, axis=1))
        ballast = cupy.zeros(shared // 4 + 1, dtype=cupy.uint32)
        self.results = (self.positions, self.events, self.aborted, self.steps, copies, ballast, self.output)

    def _table(self, rows: Sequence[tuple[int, int, int]]) -> tuple[Any, Any]:
        flat = [*(word for one in rows for word in one), 0]
        return self.cupy.asarray(flat, dtype=self.cupy.int32), number(self.cupy, len(rows))

    def choose(self, seed: int, choices: Sequence[int]) -> None:
        """Which option each choice takes, in all runs, or at random."""
        if self.plan.choices:
            chance = random.Random(seed)
            rows = [
                list(choices) or [chance.randrange(options) for options in self.plan.choices] for _ in range(self.runs)
            ]
            self.choices[...] = self.cupy.asarray(rows, dtype=self.cupy.int32)

    def arguments(self, first: int, before: int, numbers: Sequence[int]) -> tuple[Any, ...]:
        """Of the kernel: for the runs from `first` on, and the grid that has so many CTAs of a run before it. numbers:
        limit, patience, jitter and seed.
        """
        plan = self.plan
        common = self.memory_words, len(plan.choices), first, before, plan.kernel.launch.ctas
        rest = self.stride, plan.output // 4, *numbers, self.longest, plan.warps
        return (
            *self.program,
            self.memory,
            self.choices,
            *self.counters,
            *(number(self.cupy, one) for one in common),
            *self.results,
            *(number(self.cupy, one) for one in rest),
        )

    def done(self) -> list[GpuRun]:
        """What the runs did."""
        plan, positions = self.plan, self.positions.get()
        events = self.events.get() if self.record else None
        stored = self.output.get()
        return [
            GpuRun(
                bool(hangs),
                tuple(
                    role_run(role, positions[run, role.cta], None if events is None else events[run, role.cta])
                    for role in self.roles
                ),
                tuple(_stored(stored[run], at, access.stop - access.start) for _, _, access, at in plan.stores),
                int(taken),
            )
            for run, (hangs, taken) in enumerate(zip(self.aborted.get(), self.steps.get(), strict=True))
        ]


def number(cupy: Any, value: int) -> Any:
    """An argument of 32 bits."""
    if not 0 <= value < 1 << 32:
        raise SpecError(f"{value} does not fit into 32 bits")
    return cupy.uint32(value)


def _stored(words: Any, at: int, size: int) -> tuple[int, int]:
    part = words[at // 4 : (at + size) // 4]
    return int(part.min()), int(part.max())


def role_run(role: Lowered, positions: Any, events: Any) -> RoleRun:
    """Merges what the warps of a role recorded, node by node. positions: by warp of its CTA, how many events there
    are, and at which instruction it was in the end; events: by warp and event, the words of struct Event.
    """
    mine = range(role.warp, role.warp + role.warps)
    last = min(mine, key=lambda warp: int(positions[warp][0]))
    done, at = min(int(positions[last][0]), role.most), int(positions[last][1])
    node = node_at(role.instructions, at)
    if events is None or not done:
        return RoleRun(role.name, node, ())
    rows = events[mine.start : mine.stop, :done]
    times = zip(_clock(rows, 0).min(axis=0).tolist(), _clock(rows, 2).max(axis=0).tolist(), strict=True)
    words = zip(rows[:, :, 6].min(axis=0).tolist(), rows[:, :, 7].max(axis=0).tolist(), strict=True)
    which, waited = rows[0, :, 4].tolist(), rows[:, :, 5].any(axis=0).tolist()
    found = merged(role.instructions, list(zip(which, times, waited, words, strict=True)))
    return RoleRun(role.name, node, found)


def merged(
    instructions: Sequence[Instruction], recorded: Sequence[tuple[int, tuple[int, int], bool, tuple[int, int]]]
) -> tuple[Event, ...]:
    """Events by node. recorded: which instruction it was, when it began and was over, whether it had to wait, and the
    smallest and largest word found. A role that comes to a node again goes back to an instruction that it has done.
    """
    found: list[Event] = []
    latest = -1
    for place, (before, after), waited, (low, high) in recorded:
        instruction = instructions[place]
        reads: tuple[tuple[str, int, int], ...] = ()
        if instruction.code in FOUND and instruction.object and (instruction.b or instruction.code == "word"):
            reads = ((instruction.object, low, high),)
        event = Event(instruction.node, before, after, bool(waited), reads)
        if found and found[-1].node == instruction.node and place > latest:
            early = found.pop()
            over, slow = max(early.after, event.after), early.waited or event.waited
            event = Event(instruction.node, early.before, over, slow, (*early.reads, *reads))
        found.append(event)
        latest = place
    return tuple(found)


def node_at(instructions: Sequence[Instruction], at: int) -> int:
    """Where a role was that had come to an instruction, -1 if it had done all. Whoever gives up at a branch is where
    he asked; and who is about to jump has done what was before.
    """
    while at < len(instructions) and instructions[at].code == "jump":
        at = instructions[at].b
    return -1 if at >= len(instructions) else instructions[at].node


def _clock(rows: Any, at: int) -> Any:
    return rows[:, :, at].astype("uint64") | rows[:, :, at + 1].astype("uint64") << 32
