"""Whether what a recording says are runs of its kernel: whole ones, of all its roles, at places of its programs.

Nothing is asked here of the order of what was done: a run that is none of the kernel's has no order that could be
looked for, and one that was cut short would have one all too easily.
"""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.recording import Recording
from sm90_verify.recordings.run import GpuRun
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Node


def must_fit(recording: Recording, plan: ExecutorPlan) -> None:
    """Raises SpecError with the line of the first run that is none of the plan's, or not a whole one."""
    clock = "clock64" if plan.alone else "globaltimer"
    if recording.clock != clock:
        ctas = plan.kernel.launch.ctas
        launch = f"a launch of {ctas} CTA{'s' if ctas > 1 else ''}"
        why = f"{recording.clock}, and {launch} is recorded with {clock}: record it again"
        raise SpecError(why, recording.where)
    regions = {region.object for region in plan.kernel.layout.regions}
    for number, run in enumerate(recording.runs):
        wrong = next(_unlike(plan, run, regions), "")
        cut = "" if wrong else next(_cut(plan, run), "")
        if wrong or cut:
            what = f"no run of {recording.model}: {wrong}" if wrong else f"not a whole run: {cut}"
            raise SpecError(f"{what}: record it again", recording.where_of(number))


def _unlike(plan: ExecutorPlan, run: GpuRun, regions: set[str]) -> Iterator[str]:
    """What of a run is not in the kernel, or of the kernel not in the run."""
    names = [role.name for role in run.roles]
    for name in names:
        if name not in plan.nodes:
            yield f"it has no role {name[:40]!r}, but {', '.join(plan.nodes)}"
    for name in plan.nodes:
        if name not in names:
            yield f"{name} is missing"
    if len(run.stored) not in (0, len(plan.stores)):
        yield f"it stores {len(plan.stores)} times, not {len(run.stored)}"
    for role in run.roles:
        nodes = plan.nodes[role.name]
        if role.node != -1 and not _is_place(nodes, role.node):
            yield f"{role.name} has no operation at node {role.node} to be in"
        for event in role.events:
            if not _is_place(nodes, event.node):
                yield f"{role.name} has no operation at node {event.node}"
            for buffer, _, _ in event.reads:
                if buffer not in regions:
                    yield f"it has no buffer {buffer[:40]!r}"


def _is_place(nodes: tuple[Node, ...], node: int) -> bool:
    return 0 <= node < len(nodes) and nodes[node].operation is not None


def _cut(plan: ExecutorPlan, run: GpuRun) -> Iterator[str]:
    """Which role is said to have ended and has not: the last event is that of the last operation of its program."""
    for role in run.roles:
        ends = _last(plan.nodes[role.name])
        last = max(ends)
        at = role.events[-1].node if role.events else -1
        if role.node >= 0:
            if not run.hangs:
                yield f"it is said to have ended, and {role.name} is at node {role.node}"
        elif at not in ends:
            yield f"{role.name} is recorded up to node {at} of {last}" if role.events else f"{role.name} has no events"


def _last(nodes: tuple[Node, ...]) -> set[int]:
    """The operations after which a program is over; -1 for a role that does nothing."""
    over = {index for index, node in enumerate(nodes) if node.operation is None and not node.successors}
    return {index for index, node in enumerate(nodes) if over & set(node.successors.values())} | (
        {-1} if 0 in over else set()
    )
