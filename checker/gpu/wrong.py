"""Whether a run found, or stored, other words than the specification says."""

from __future__ import annotations

from collections.abc import Hashable

from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import GpuRun
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of


def wrong_data(plan: ExecutorPlan, run: GpuRun) -> str:
    """The first read of a run that found other words than its tag says, words of two writes, or none; or nothing.

    Of two grids, a run that hangs says nothing: the second begins behind the end of the first that gave up.
    """
    if run.hangs and plan.kernel.launch.grids > 1:
        return ""
    for role_run in run.roles:
        reading: list[tuple[str, int, int]] = []  # by MMAs in flight, the oldest first
        for event in role_run.events:
            operation = plan.nodes[role_run.name][event.node].operation
            tags: list[Hashable] = []
            if isinstance(operation, op.OnWord):
                continue
            if isinstance(operation, op.Touch):
                pairs = zip(operation.accesses, operation.tags, strict=True)
                tags = [tag for access, tag in pairs if access.space != "registers"]
            for nth, (buffer, low, high) in enumerate(event.reads):
                if low != high:
                    return f"{role_run.name} found words of writes {low} and {high} in {buffer}"
                if isinstance(operation, op.Find):
                    tag = _tag(plan, buffer, low)
                    if tag not in operation.tags:
                        return f"{role_run.name} found {buffer} of {tag!r}, and none of {operation.tags!r}"
                    continue
                if not isinstance(operation, op.Touch):
                    if reading.pop(0) != (buffer, low, high):
                        return f"{buffer} changed while the MMA of {role_run.name} read it"
                    continue
                if operation.kind == "mma":
                    reading.append((buffer, low, high))
                if low == plan.initial.get(buffer, 0) and _is_to_be_written(plan, buffer):
                    return f"{role_run.name} found nothing in {buffer}"
                if (
                    tags[nth] is not None
                    and buffer not in plan.derived
                    and (other := _other(plan, buffer, low, tags[nth]))
                ):
                    return f"{role_run.name} found {buffer} {other}"
    for (role, node, access, _), (low, high) in zip(plan.stores, run.stored, strict=True):
        store = plan.nodes[role][node].operation
        assert isinstance(store, op.Store)
        expected = dict(zip(store.sources, store.tags, strict=True))[access]
        if low != high:
            return f"the store of {role} took words of writes {low} and {high} from {access.object}"
        known = expected is not None and access.object not in plan.derived
        if known and not run.hangs and (other := _other(plan, access.object, low, expected)):
            return f"the store of {role} took {access.object} {other}"
    return ""


def _other(plan: ExecutorPlan, buffer: str, number: int, expected: Hashable) -> str:
    """What the words of a write are, if they are not of the tag that a buffer is to hold, or were not written to it but
    to one that has the same bytes. 0 is no write: what the buffer holds at first.
    """
    _, accesses = plan.written.get(number, (None, ()))
    tag = _tag(plan, buffer, number)
    if tag != expected:
        return f"of {tag!r}, not of {expected!r}"
    objects = {access.object for access in accesses}
    first = number == plan.initial.get(buffer, 0)
    return "" if first or buffer in objects else f"as it was written to {', '.join(sorted(objects))}"


def _tag(plan: ExecutorPlan, buffer: str, number: int) -> Hashable:
    """What data of that number is, in a buffer."""
    if number == plan.initial.get(buffer, 0):
        return plan.kernel.layout.holds.get(buffer)
    return plan.written.get(number, (None, ()))[0]


def _is_to_be_written(plan: ExecutorPlan, buffer: str) -> bool:
    """What is in a buffer at first is no data of the pipeline, as far as that can be told: it is not said to hold any,
    and somebody writes it who does not read it first, and of no later grid than those who read it.
    """
    if plan.kernel.layout.holds.get(buffer) is not None:
        return False
    writers, readers = set(), set()
    for program in plan.programs:
        for node in program.nodes:
            for begun in effects_of(node.operation).begins:
                if begun.access.overlaps(plan.regions[buffer].access()):
                    grid = plan.kernel.launch.grid_of(program.me.number)
                    if not begun.access.write:
                        readers.add((program.name, grid))
                    elif (program.name, grid) in readers:
                        return False
                    else:
                        writers.add(grid)
    return bool(writers) and min(writers) <= min((grid for _, grid in readers), default=0)


def partial_sum(plan: ExecutorPlan, run: GpuRun) -> str:
    """The first read of a run that found a sum of which something is missing, in a buffer that is only added to; or
    nothing. Where that is no race, as when more is added later, it happens in the right pipeline too.
    """
    for role_run in run.roles:
        for event in role_run.events:
            operation = plan.nodes[role_run.name][event.node].operation
            for buffer, low, high in event.reads if isinstance(operation, op.Touch) else ():
                total = _total(plan, buffer)
                if total is not None and not low == high == total:
                    return f"{role_run.name} found {low} to {high} in {buffer}, and not the sum {total}"
    return ""


def _total(plan: ExecutorPlan, buffer: str) -> int | None:
    """The sum of all that red and red.async add to it; None where others write it too."""
    total, region = plan.initial.get(buffer, 0), plan.regions[buffer].access()
    if buffer not in plan.derived:
        return None
    adding: set[tuple[str, int]] = set()
    for program in plan.programs:
        for index, node in enumerate(program.nodes):
            writes = [one.access for one in effects_of(node.operation).begins if one.access.write]
            adds = isinstance(node.operation, op.StoreAsync) or getattr(node.operation, "kind", "") == "red"
            if any(access.overlaps(region) for access in writes):
                if not adds or len(writes) > 1 or writes[0].strong is None:
                    return None
                adding.add((program.name, index))
    return total + sum(number for number, key in plan.writers.items() if key in adding)
