"""One operation as the instructions of kernels/executor.cu.

Where only some of a role's threads execute an operation, as one lane that starts a copy, the role's warps meet first,
because the specification takes a step of a role for one step of all its threads. Beyond that, warps meet where the
program says so and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, assert_never, get_args

from sm90_verify.recordings.places import GpuPlaces
from sm90_verify.recordings.plan import PEERS, Instruction
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import WARP, misaligned_copy
from sm90_verify.spec.ptx.memory import WIDER, Access

Executed: TypeAlias = (
    op.OnMbarriers
    | op.Load
    | op.Touch
    | op.Find
    | op.Store
    | op.CpAsync
    | op.TriggeredArrive
    | op.StoreAsync
    | op.Group
    | op.Fence
    | op.OnThreads
    | op.OnWords
)
"""What kernels/executor.cu can do; anything else is refused."""
FENCES: dict[op.FenceKind, str] = {"proxy_async": "fence_proxy", "mbarrier_init": "fence_init", "wgmma": "nothing"}
GROUPS = 8
"""wait_group has its count in the instruction: up to 7 groups may be pending."""
KINDS = ("ld", "spin", "st", "add", "inc", "dec", "exch", "cas", "min", "max", "and", "or", "xor")
"""The enumerators of `words::Kind` in kernels/words.cuh, in order."""
COMPARISONS: tuple[op.Comparison, ...] = ("==", "!=", "<", "<=", ">", ">=")
"""Those of `words::Comparison`. Those of Sem and Scope are in the order of the specification's types."""


def order_of(sem: str, usual: str, scope: op.AnyScope) -> int:
    """The enumerator of `ptx::Order`: 0 is what an instruction has that names neither. An mbarrier knows no wider scope
    than the cluster.
    """
    if (sem, scope) == (usual, ""):
        return 0
    return 1 + 2 * (sem == usual) + (scope not in ("", "cta"))


def by_some(operation: Executed, threads: int) -> tuple[bool, bool]:
    """Whether the warps of a role must meet before an operation that only some of its threads execute, and after it:
    the specification takes a role's step for one step of them all.
    """
    if threads <= WARP:
        return False, False
    match operation:
        case op.Arrive():
            some = operation.count < threads and operation.count != -(-threads // WARP)
            return some or bool(operation.also), False
        case op.Wait():
            return operation.kind != "wait", operation.kind != "wait"
        case op.Load() | op.Store() | op.Transaction() | op.Init() | op.Inval() | op.WordStore():
            return True, False
        case op.WordLoad() | op.Spin() | op.Find():
            return True, True
        case op.Atom():
            return True, operation.answers
        case op.TriggeredArrive():
            return operation.count < threads, False
        case op.Group():
            return False, operation.kind in ("bulk_wait", "bulk_wait_read")
        case op.Touch() | op.CpAsync() | op.StoreAsync() | op.Fence() | op.ThreadFence() | op.Griddepcontrol():
            return False, False
        case op.NamedSync() | op.CtaSync() | op.WarpSync() | op.ClusterArrive() | op.ClusterWait():
            return False, False
        case op.Setmaxnreg() | op.Choose() | op.CtaStart() | op.Parted():
            return False, False
        case _:
            assert_never(operation)


class Instructions:
    """Makes those of one kernel. stores: (role, node, source, offset in the output). output, largest: bytes of all
    stores, and of the largest copy.
    """

    def __init__(self, places: GpuPlaces) -> None:
        self.places = places
        self.stores: list[tuple[str, int, Access, int]] = []
        self.output = self.largest = 0

    def meet(self, index: int, role: str, parts: list[Program]) -> Instruction:
        """Parts of a role, of one CTA, that go on together."""
        warps = sum(-(-part.me.threads // WARP) for part in parts)
        return Instruction("meet", index, self.places.meetings[role], warps)

    def reads(self, program: Program, index: int, accesses: Iterable[Access]) -> Iterable[Instruction]:
        for access in accesses:
            of = self.places.bytes_of(access)
            yield Instruction("read", index, *of, e=self.places.place(access, program), object=access.object)

    def of(self, program: Program, index: int, operation: Executed) -> Iterable[Instruction]:
        """All but what waits for a wgmma group or is a meeting of a role's parts."""
        places, at = self.places, self.places.at
        match operation:
            case op.Wait():
                yield self._wait(index, operation)
            case op.Arrive():
                yield self._arrive(program, index, operation)
            case op.Transaction():
                yield Instruction(
                    "transaction", index, at(operation.barrier), operation.bytes, d=self._rank(operation.cta)
                )
            case op.Load():
                yield self._load(program, index, operation)
            case op.Touch():
                yield from self._touch(program, index, operation)
            case op.Find():
                access = operation.access
                of = places.bytes_of(access)
                yield Instruction("find", index, *of, e=places.place(access, program), object=access.object)
            case op.Store():
                yield from self._store(program, index, operation)
            case op.CpAsync():
                yield self._cp_async(program, index, operation)
            case op.TriggeredArrive():
                yield Instruction("cp_arrive", index, at(operation.barrier), operation.count, int(operation.noinc))
            case op.StoreAsync():
                yield self._store_async(program, index, operation)
            case op.Group():
                yield self._group(index, operation)
            case op.Fence():
                yield Instruction(FENCES[operation.kind], index)
            case op.ThreadFence():
                yield Instruction("fence", index, int(operation.kind == "sc"), WIDER.index(operation.scope))
            case op.WordLoad() | op.WordStore() | op.Atom() | op.Spin():
                yield self._word(program, index, operation)
            case op.NamedSync():
                code = "named_sync" if operation.blocks else "named_arrive"
                yield Instruction(code, index, operation.id, operation.threads)
            case op.CtaSync():
                yield Instruction("cta_sync", index)
            case op.ClusterArrive():
                yield Instruction("cluster_arrive", index, int(operation.release))
            case op.ClusterWait():
                yield Instruction("cluster_wait", index)
            case op.Init():
                yield Instruction("init", index, at(operation.barrier), operation.count)
            case op.Inval():
                yield Instruction("inval", index, at(operation.barrier))
            case op.Choose():
                key = operation.name, program.nodes[index].choice
                yield Instruction("choose", index, places.choices[key])
            case op.Griddepcontrol():
                alone = operation.kind == "wait" and not places.launch.grid_of(program.me.number)
                code = "grid_wait" if operation.kind == "wait" else "launch_dependents"
                yield Instruction("nothing" if alone else code, index)
            case op.Setmaxnreg() | op.CtaStart() | op.Parted():
                yield Instruction("nothing", index)
            case op.WarpSync():
                yield self.meet(index, program.role, places.parts[program.role])
            case _:
                assert_never(operation)

    def _wait(self, index: int, wait: op.Wait) -> Instruction:
        at, order = self.places.at(wait.barrier), order_of(wait.sem, "acquire", wait.scope)
        token = isinstance(wait.phase, op.Token)
        parity = -1 if isinstance(wait.phase, op.Token) else int(wait.phase) & 1
        if order and (token or wait.kind != "wait"):
            raise SpecError("the executor has .sem and .scope of a wait() for a parity alone")
        if wait.kind != "wait":
            return Instruction("try_wait", index, at, parity, int(wait.kind == "test_wait"))
        return Instruction("wait_token", index, at) if token else Instruction("wait", index, at, parity, order)

    def _arrive(self, program: Program, index: int, arrive: op.Arrive) -> Instruction:
        at, expect = self.places.at(arrive.barrier), -1 if arrive.expect is None else arrive.expect
        order = order_of(arrive.sem, "release", arrive.scope) << 16
        if order and (expect >= 0 or arrive.kind != "arrive"):
            raise SpecError("the executor has .sem and .scope of an arrive() alone")
        if arrive.also:
            if any(self.places.at(part.barrier) != at for part in arrive.parts):
                raise SpecError("the executor arrives at several CTAs at one address")
            ranks = (program.me.cta if part.cta < 0 else self._rank(part.cta) for part in arrive.parts)
            return Instruction("arrive", index, at, arrive.count, e=order | sum(1 << rank for rank in ranks))
        return Instruction(arrive.kind, index, at, arrive.count, expect, self._rank(arrive.cta), order)

    def _rank(self, cta: int) -> int:
        """Of a CTA in its cluster; -1 for the own one."""
        return cta if cta < 0 else self.places.launch.rank(cta)

    def _touch(self, program: Program, index: int, touch: op.Touch) -> Iterable[Instruction]:
        match touch.kind:
            case "read" | "mma":
                yield from self.reads(program, index, touch.accesses)
            case "write" | "red":
                numbers = self.places.numbers[program.name, index]
                for access, number in zip(touch.accesses, numbers, strict=True):
                    of, place = self.places.bytes_of(access), self.places.place(access, program)
                    yield Instruction(touch.kind, index, *of, d=number, e=place, object=access.object)
            case _:
                assert_never(touch.kind)

    def _group(self, index: int, group: op.Group) -> Instruction:
        match group.kind:
            case "mma_commit" | "mma_wait":
                return Instruction("nothing", index)
            case "bulk_commit" | "cp_commit":
                return Instruction(group.kind, index)
            case "bulk_wait" | "bulk_wait_read" | "cp_wait":
                if group.pending >= GROUPS:
                    raise SpecError(f"the executor's wait_group leaves {GROUPS - 1} groups pending at most")
                return Instruction(group.kind, index, group.pending)
            case "cp_wait_all":
                return Instruction("cp_wait", index, -1)
            case _:
                assert_never(group.kind)

    # ---------------------------------------------------------------- copies

    def _load(self, program: Program, index: int, load: op.Load) -> Instruction:
        places, write = self.places, load.write
        start, size = places.bytes_of(write)
        if size != load.bytes:
            raise SpecError(f"{write.object} has {size} bytes, and the copy {load.bytes}")
        if load.tensormap is not None:
            raise SpecError("the executor has no tensor maps: give no map to load()")
        mask = sum(1 << places.launch.rank(access.cta) for access, _ in load.destinations) if load.also else 0
        self.largest = max(self.largest, size)
        of = start, size, places.at(load.barrier)
        if load.read is None:
            (number,) = places.numbers[program.name, index]
            return Instruction("load", index, *of, number, mask, object=write.object)
        if load.read.space == "global":
            return Instruction("load_global", index, *of, self._source(load.read, size), mask, object=write.object)
        places.own(load.read, program)
        rank = places.launch.rank(write.cta)
        return Instruction("load_shared", index, *of, self._source(load.read, size), rank, object=write.object)

    def _source(self, read: Access, size: int) -> int:
        start, there = self.places.bytes_of(read)
        if there != size:
            raise SpecError(f"the executor copies whole buffers: {read.object} has {there} bytes, and the copy {size}")
        return start

    def _store(self, program: Program, index: int, store: op.Store) -> Iterable[Instruction]:
        if store.tensormap is not None:
            raise SpecError("the executor has no tensor maps: give no map to store()")
        for source in store.sources:
            of = self.places.own(source, program)
            wrong = misaligned_copy("the executor's store of", source.object, *of)
            if wrong:
                raise SpecError(wrong)
            if store.destination is not None:
                (to, there), reduces = self.places.bytes_of(store.destination), store.destination.strong is not None
                if len(store.sources) != 1 or there != of[1]:
                    raise SpecError(f"the executor stores one buffer to one of its size: {store.destination.object}")
                yield Instruction("reduce_to" if reduces else "store_to", index, *of, to, object=source.object)
            else:
                self.stores.append((program.name, index, source, self.output))
                yield Instruction("store", index, *of, self.output, object=source.object)
                self.output += source.stop - source.start

    def _cp_async(self, program: Program, index: int, copy: op.CpAsync) -> Instruction:
        start, size = self.places.own(copy.write, program)
        own = copy.source is None
        if copy.source is None:
            (source,) = self.places.numbers[program.name, index]
        else:
            source = self._source(copy.source, size)
        each = 16 if size % 16 == start % 16 == 0 and (own or source % 16 == 0) else 4
        if size % each or start % each or (not own and source % each):
            raise SpecError(
                f"the executor's cp.async is of 4 or 16 bytes: {copy.write.object} begins or ends elsewhere"
            )
        self.largest = max(self.largest, size)
        return Instruction("cp_async", index, start, size, each, source, int(own), object=copy.write.object)

    def _store_async(self, program: Program, index: int, store: op.StoreAsync) -> Instruction:
        (start, size), (number,) = self.places.bytes_of(store.write), self.places.numbers[program.name, index]
        if store.bytes != size:
            raise SpecError(f"{store.write.object} has {size} bytes, and st.async brings {store.bytes}")
        place = PEERS + self.places.launch.rank(store.write.cta)
        adds = 0 if store.write.strong is None else 1 << 16
        at = self.places.at(store.barrier)
        return Instruction("store_async", index, start, size, at, number, place | adds, object=store.write.object)

    # ---------------------------------------------------------------- words

    def _word(self, program: Program, index: int, on: op.OnWord) -> Instruction:
        access, word = on.access, self.places.kernel.layout.words[on.access.object]
        kind, operand, compare, comparison, answers = "ld", 0, 0, 0, True
        match on:
            case op.WordLoad():
                pass
            case op.Spin():
                kind, operand, comparison = "spin", on.value, COMPARISONS.index(on.comparison)
            case op.WordStore():
                kind, operand, answers = "st", on.value, False
            case op.Atom():
                kind, operand, compare, answers = on.kind, on.operand, on.compare, on.answers
                if not answers and on.order.sem in ("acquire", "acq_rel"):
                    raise SpecError(f"red has no .{on.order.sem}: use atom")
            case _:
                assert_never(on)
        if kind == "cas" and word.wraps:
            raise SpecError(f"the executor has no cas on {access.object}, which wraps")
        form = KINDS.index(kind) | get_args(op.Sem).index(on.order.sem) << 4 | WIDER.index(on.order.scope) << 7
        form |= comparison << 9 | answers << 12
        at, place = self.places.at(access.object), self.places.place(access, program)
        last = compare if kind == "cas" else word.values if word.wraps else 0
        return Instruction("word", index, at, place, form, operand, last, object=access.object if answers else "")
