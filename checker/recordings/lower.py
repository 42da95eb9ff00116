"""From a kernel with a given trip count to the instructions that kernels/executor.cu executes.

A role's program must be one sequence: a kernel whose roles branch on an answer of try_wait or on a choice, loop
without end, touch memory other than shared, or meet at barrier.cluster is refused. Where only some of a role's threads
execute an operation, as one lane that starts a copy, the role's warps meet first, because the specification takes a
step of a role for one step of all its threads. Beyond that, warps meet where the program says so and nowhere else.
Every write and copy has a number, which all words that it writes hold, so that a read on the GPU says whose words it
has found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias, assert_never

from sm90_verify.recordings.plan import ExecutorPlan, Instruction, Lowered
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import CTA_THREADS, SHARED_OF_CTA, WARP, WARPGROUP, misaligned_copy
from sm90_verify.spec.ptx.memory import Access

Executed: TypeAlias = (
    op.Init
    | op.Inval
    | op.Wait
    | op.Arrive
    | op.Transaction
    | op.Load
    | op.Touch
    | op.Store
    | op.Group
    | op.Fence
    | op.NamedSync
    | op.CtaSync
    | op.WarpSync
    | op.Setmaxnreg
)
"""What kernels/executor.cu can do; anything else is refused."""
FENCES: dict[op.FenceKind, str] = {"proxy_async": "fence_proxy", "mbarrier_init": "fence_init", "wgmma": "nothing"}
GROUPS = 8
"""wait_group has its count in the instruction: up to 7 groups may be pending."""
MEETINGS = 64
"""Places where the executor's warps can meet."""
MOST_SHARED = SHARED_OF_CTA - 1024
"""Bytes of shared memory that a CTA can have, less what the executor needs itself."""


def lower(kernel: Kernel) -> ExecutorPlan:
    """The instructions of all roles; raises SpecError for what the executor cannot do."""
    if kernel.launch.blocks > 1:
        raise SpecError("the executor launches one cluster at a time: give clusters=1, and one grid")
    lowering = _Lowering(kernel)
    roles, free = [], [0] * kernel.cluster.size
    for program in kernel.programs:
        cta, threads = program.me.cta, program.me.threads
        if threads % WARPGROUP == 0:
            free[cta] = -(-free[cta] // 4) * 4
        instructions = tuple(lowering.role(program))
        roles.append(Lowered(program.name, cta, free[cta], threads, instructions))
        free[cta] += roles[-1].warps
    if (max(free) + 1) * WARP > CTA_THREADS:
        raise SpecError(
            f"the roles need {max(free)} warps of a CTA, and one more watches: {CTA_THREADS // WARP} is most"
        )
    regions = {region.object: region for region in kernel.layout.regions}
    shared = max((region.stop for region in regions.values() if region.space == "shared"), default=0)
    if shared > MOST_SHARED:
        raise SpecError(f"{shared} bytes of shared memory: a CTA has {MOST_SHARED}; give smaller stages, or fewer")
    barriers = tuple((regions[name].cta, regions[name].start, count) for name, count in kernel.layout.arrivals.items())
    synced = [replace(role, instructions=_with_threads(role, free)) for role in roles]
    return ExecutorPlan(
        kernel,
        tuple(synced),
        barriers,
        lowering.writers,
        tuple(lowering.stores),
        shared,
        lowering.output,
        lowering.largest,
    )


def _with_threads(role: Lowered, warps: list[int]) -> tuple[Instruction, ...]:
    """__syncthreads waits for all warps of the CTA that have a role."""
    return tuple(replace(one, b=warps[role.cta] * WARP) if one.code == "cta_sync" else one for one in role.instructions)


def _by_some(operation: Executed, threads: int) -> tuple[bool, bool]:
    """Whether the warps of a role must meet before an operation that only some of its threads execute, and after it:
    the specification takes a role's step for one step of them all.
    """
    if threads <= WARP:
        return False, False
    match operation:
        case op.Arrive():
            return operation.count < threads and operation.count != -(-threads // WARP), False
        case op.Load() | op.Store() | op.Transaction() | op.Init() | op.Inval():
            return True, False
        case op.Group():
            return False, operation.kind in ("bulk_wait", "bulk_wait_read")
        case op.Wait() | op.Touch() | op.Fence() | op.NamedSync() | op.CtaSync() | op.WarpSync():
            return False, False
        case op.Setmaxnreg():
            return False, False
        case _:
            assert_never(operation)


class _Lowering:
    def __init__(self, kernel: Kernel) -> None:
        programs = kernel.programs
        self.parts = {
            name: [one for one in programs if one.role == name] for name in sorted({p.role for p in programs})
        }
        names = dict.fromkeys((*self.parts, *(f"{program.name}." for program in programs)))
        self.meetings = {name: number for number, name in enumerate(names)}
        if len(names) > MEETINGS:
            raise SpecError(f"{len(programs)} roles are too many for the executor")
        self.regions = {region.object: region for region in kernel.layout.regions}
        self.writers: dict[int, tuple[str, int]] = {}
        self.stores: list[tuple[str, int, Access, int]] = []
        self.output = self.largest = 0

    def role(self, program: Program) -> Iterable[Instruction]:
        groups: list[list[Access]] = []
        open: list[Access] = []
        index = 0
        while program.nodes[index].operation is not None or program.nodes[index].successors:
            node = program.nodes[index]
            operation = node.operation
            if len(node.successors) > 1 or operation is None:
                raise SpecError("the executor takes no branch: give a trip count, and no try_wait", node.source)
            if not isinstance(operation, Executed):
                raise SpecError(f"the executor cannot do {operation!r}")
            if isinstance(operation, op.NamedSync) and program.me.threads % WARP:
                why = f"bar.sync counts warps, and the executor gives {program.name} some that are not full"
                raise SpecError(why, node.source)
            effects = effects_of(operation)
            operands, ends = effects.lasting("mma_group"), effects.ends
            if isinstance(operation, op.WarpSync):
                yield self.meet(index, program.role, self.parts[program.role])
            elif ends is not None and ends.groups == "mma":
                done, groups = groups[: len(groups) - ends.pending], groups[-ends.pending :] if ends.pending else []
                yield Instruction("nothing", index)
                for group in done:
                    yield from self.reads(index, group)
            elif operands or effects.commits == "mma":
                open += operands
                if effects.commits == "mma":
                    groups.append(open)
                    open = []
                yield from self.reads(index, operands) if operands else (Instruction("nothing", index),)
            else:
                before, after = _by_some(operation, program.me.threads)
                meeting = self.meet(index, f"{program.name}.", [program])
                yield from (meeting,) * before
                yield from self.one(program.name, index, operation)
                yield from (meeting,) * after
            (follower,) = node.successors.values()
            if follower <= index:
                raise SpecError("the executor takes no loop without end: give a trip count", node.source)
            index = follower
        for group in (*groups, open):  # in flight to the end, as no wait covers it
            yield from self.reads(index, group)

    def meet(self, index: int, role: str, parts: list[Program]) -> Instruction:
        """Parts of a role, of one CTA, that go on together."""
        warps = sum(-(-part.me.threads // WARP) for part in parts)
        return Instruction("meet", index, self.meetings[role], warps)

    def reads(self, index: int, accesses: Iterable[Access]) -> Iterable[Instruction]:
        for access in accesses:
            yield Instruction("read", index, *self.bytes_of(access), object=access.object)

    def bytes_of(self, access: Access) -> tuple[int, int]:
        if access.space == "registers":
            return 0, 0
        if access.space != "shared":
            raise SpecError(f"the executor has no {access.space} memory for {access.object}")
        return access.start, access.stop - access.start

    def number(self, role: str, index: int) -> int:
        self.writers[len(self.writers) + 1] = (role, index)
        return len(self.writers)

    def at(self, barrier: str) -> int:
        return self.regions[barrier].start

    def one(self, role: str, index: int, operation: Executed) -> Iterable[Instruction]:
        match operation:
            case op.Wait():
                if operation.kind != "wait":
                    raise SpecError(f"the executor cannot do {operation!r}")
                if isinstance(operation.phase, op.Token):
                    yield Instruction("wait_token", index, self.at(operation.barrier))
                else:
                    yield Instruction("wait", index, self.at(operation.barrier), int(operation.phase) & 1)
            case op.Arrive() if operation.also:
                raise SpecError(f"the executor arrives at one CTA at a time, not at {len(operation.parts)}")
            case op.Arrive():
                expect = -1 if operation.expect is None else operation.expect
                yield Instruction(
                    operation.kind, index, self.at(operation.barrier), operation.count, expect, operation.cta
                )
            case op.Transaction():
                at = self.at(operation.barrier)
                yield Instruction("transaction", index, at, operation.bytes, d=operation.cta)
            case op.Load():
                yield self.load(role, index, operation)
            case op.Touch():
                yield from self.touch(role, index, operation)
            case op.Store():
                for source in operation.sources:
                    wrong = misaligned_copy("the executor's store of", source.object, *self.bytes_of(source))
                    if wrong:
                        raise SpecError(wrong)
                    self.stores.append((role, index, source, self.output))
                    yield Instruction("store", index, *self.bytes_of(source), self.output, object=source.object)
                    self.output += source.stop - source.start
            case op.Group():
                yield self.group(index, operation)
            case op.Fence():
                yield Instruction(FENCES[operation.kind], index)
            case op.NamedSync():
                yield Instruction(
                    "named_sync" if operation.blocks else "named_arrive", index, operation.id, operation.threads
                )
            case op.CtaSync():
                yield Instruction("cta_sync", index)
            case op.Init():
                yield Instruction("init", index, self.at(operation.barrier), operation.count)
            case op.Inval():
                yield Instruction("inval", index, self.at(operation.barrier))
            case op.Setmaxnreg():
                yield Instruction("nothing", index)
            case op.WarpSync():
                raise AssertionError("the parts of a role meet in `role`")
            case _:
                assert_never(operation)

    def touch(self, role: str, index: int, operation: op.Touch) -> Iterable[Instruction]:
        match operation.kind:
            case "read" | "mma":
                yield from self.reads(index, operation.accesses)
            case "write":
                for access in operation.accesses:
                    number = self.number(role, index)
                    yield Instruction("write", index, *self.bytes_of(access), d=number, object=access.object)
            case "red":
                raise SpecError(f"the executor cannot do red on {operation.accesses[0].object}")
            case _:
                assert_never(operation.kind)

    def group(self, index: int, operation: op.Group) -> Instruction:
        match operation.kind:
            case "mma_commit" | "mma_wait":
                return Instruction("nothing", index)
            case "bulk_commit":
                return Instruction("bulk_commit", index)
            case "bulk_wait" | "bulk_wait_read":
                if operation.pending >= GROUPS:
                    raise SpecError(f"the executor's wait_group leaves {GROUPS - 1} groups pending at most")
                return Instruction(operation.kind, index, operation.pending)
            case "cp_commit" | "cp_wait" | "cp_wait_all":
                raise SpecError(f"the executor cannot do {operation!r}")
            case _:
                assert_never(operation.kind)

    def load(self, role: str, index: int, operation: op.Load) -> Instruction:
        start, size = self.bytes_of(operation.write)
        if size != operation.bytes:
            raise SpecError(f"{operation.write.object} has {size} bytes, and the copy {operation.bytes}")
        if operation.read is not None:
            raise SpecError(f"the executor has no copy from {operation.read.object}: it reads data of its own")
        mask = 0
        if operation.also:
            mask = sum(1 << access.cta for access, _ in operation.destinations)
        self.largest = max(self.largest, size)
        number = self.number(role, index)
        return Instruction(
            "load", index, start, size, self.at(operation.barrier), number, mask, object=operation.write.object
        )
