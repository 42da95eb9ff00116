"""Runs a lowered pipeline on the GPU and brings back what each role did, run by run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sm90_verify.gpu.device import Module, sources
from sm90_verify.recordings.plan import ExecutorPlan, Lowered
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import WARP

EVENT_WORDS = 8
"""32-bit words of struct Event: two clocks of 64 bits, the instruction, whether it waited, two words that were read."""
BALLAST = 200 << 10
"""Bytes of shared memory that the copy engine adds to global memory, again and again, to be busy. They need not be the
pipeline's: a CTA of a run with late copies has so many.
"""
NEVER = (1 << 32) - 1
"""Nanoseconds of patience that end after every limit."""


def shared_bytes(plan: ExecutorPlan, roles: Sequence[Lowered]) -> int:
    """Of a CTA's shared memory, what a launch asks for."""
    late = any(instruction.late for role in roles for instruction in role.instructions)
    return max(plan.shared, BALLAST) if late else plan.shared


class Executor:
    """A plan on the GPU, compiled with recording or without."""

    def __init__(self, plan: ExecutorPlan, *, record: bool = True) -> None:
        macros: dict[str, int | str] = {"RECORD": 1} if record else {}
        if plan.cluster > 1:
            macros["CLUSTER"] = plan.cluster
        self.plan, self.record = plan, record
        self.module = Module((sources() / "executor.cu").read_text(), macros)

    def run(
        self,
        runs: int,
        *,
        seed: int = 0,
        jitter: int = 0,
        limit: int = 20_000_000,
        patience: int = 0,
        roles: Sequence[Lowered] = (),
    ) -> list[GpuRun]:
        """Executes the plan in `runs` clusters. jitter: up to so many nanoseconds before some instructions. limit:
        nanoseconds after which waits give up. patience: nanoseconds after which a gate is passed out of turn; 0: never.
        roles: with gates or holds, instead of the plan's.
        """
        cupy, plan = self.module.cupy, self.plan
        roles = tuple(roles) or plan.roles
        words: list[tuple[int, ...]] = []
        table: list[tuple[int, ...]] = []
        for role in roles:
            begin = len(words)
            words += [instruction.words() for instruction in role.instructions]
            table.append((begin, len(words), role.warp, role.warps, role.threads, role.cta))
        longest = max(len(role.instructions) for role in roles)
        warps, ctas = plan.warps, runs * plan.cluster
        shared = shared_bytes(plan, roles)
        stride = max(plan.largest // 4, 1)
        numbers = cupy.arange(len(plan.writers) + 1, dtype=cupy.uint32)
        positions = cupy.full(ctas * warps, 0xFFFFFFFF, dtype=cupy.uint32)
        events = cupy.zeros(ctas * warps * longest * EVENT_WORDS if self.record else 1, dtype=cupy.uint32)
        output = cupy.zeros(runs * max(plan.output // 4, 1), dtype=cupy.uint32)
        aborted = cupy.zeros(runs, dtype=cupy.int32)
        steps = cupy.zeros(runs, dtype=cupy.int32)
        words_of_copies = cupy.ascontiguousarray(cupy.repeat(numbers[:, None], stride, axis=1))
        self.module.launch(
            "executor",
            ctas,
            (warps + 1) * WARP,
            (
                cupy.asarray(words, dtype=cupy.int32),
                cupy.asarray(table, dtype=cupy.int32),
                _int(cupy, len(roles)),
                cupy.asarray([*(word for one in plan.barriers for word in one), 0], dtype=cupy.int32),
                _int(cupy, len(plan.barriers)),
                positions,
                events,
                aborted,
                steps,
                words_of_copies,
                cupy.zeros(shared // 4 + 1, dtype=cupy.uint32),
                output,
                _int(cupy, stride),
                _int(cupy, plan.output // 4),
                _int(cupy, limit),
                _int(cupy, patience or NEVER),
                _int(cupy, jitter),
                _int(cupy, seed),
                _int(cupy, longest),
                _int(cupy, warps),
            ),
            shared=shared,
            cluster=plan.cluster,
        )
        by_run = events.get().reshape(runs, plan.cluster, warps, longest, EVENT_WORDS) if self.record else None
        where = positions.get().reshape(runs, plan.cluster, warps)
        stored = output.get().reshape(runs, -1)
        return [
            GpuRun(
                bool(hangs),
                tuple(_role_run(role, where[run], None if by_run is None else by_run[run]) for role in roles),
                tuple(_stored(stored[run], at, access.stop - access.start) for _, _, access, at in plan.stores),
                int(taken),
            )
            for run, (hangs, taken) in enumerate(zip(aborted.get(), steps.get(), strict=True))
        ]


def _int(cupy: Any, value: int) -> Any:
    if not 0 <= value < 1 << 32:
        raise SpecError(f"{value} does not fit into 32 bits")
    return cupy.uint32(value)


def _stored(words: Any, at: int, size: int) -> tuple[int, int]:
    part = words[at // 4 : (at + size) // 4]
    return int(part.min()), int(part.max())


def _role_run(role: Lowered, positions: Any, events: Any) -> RoleRun:
    """Merges what the warps of a role recorded, node by node."""
    mine = range(role.warp, role.warp + role.warps)
    done = min(int(positions[role.cta, warp]) for warp in mine)
    ended = done == len(role.instructions)
    node = -1 if ended else role.instructions[min(done, len(role.instructions) - 1)].node
    merged: list[Event] = []
    if events is None or not done:
        return RoleRun(role.name, node, ())
    rows = events[role.cta, mine.start : mine.stop, :done]
    before = _clock(rows, 0).min(axis=0).tolist()
    after = _clock(rows, 2).max(axis=0).tolist()
    waited = rows[:, :, 5].any(axis=0).tolist()
    low, high = rows[:, :, 6].min(axis=0).tolist(), rows[:, :, 7].max(axis=0).tolist()
    for index, instruction in enumerate(role.instructions[:done]):
        reads: tuple[tuple[str, int, int], ...] = ()
        if instruction.code == "read" and instruction.b:
            reads = ((instruction.object, low[index], high[index]),)
        event = Event(instruction.node, before[index], after[index], waited[index], reads)
        if merged and merged[-1].node == instruction.node:
            last = merged.pop()
            event = Event(
                instruction.node,
                last.before,
                max(last.after, event.after),
                last.waited or event.waited,
                (*last.reads, *reads),
            )
        merged.append(event)
    return RoleRun(role.name, node, tuple(merged))


def _clock(rows: Any, at: int) -> Any:
    return rows[:, :, at].astype("uint64") | rows[:, :, at + 1].astype("uint64") << 32
