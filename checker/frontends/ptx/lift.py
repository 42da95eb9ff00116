"""From what the warps of a cluster did to a Kernel: each class of lanes a program, in the order of its instructions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, assert_never

from sm90_verify.frontends.ptx.events import (
    Accessed,
    Arrived,
    AsyncCopied,
    BarrierAt,
    ClusterArrived,
    ClusterWaited,
    CopiedIn,
    CopiedOut,
    Depended,
    Event,
    Expected,
    Fenced,
    Grouped,
    Initialised,
    Invalidated,
    LanesAccessed,
    LanesMet,
    MapFenced,
    MemoryFenced,
    Multiplied,
    NamedMet,
    Peeked,
    RegistersSet,
    StoredAsync,
    Triggered,
    Waited,
    What,
)
from sm90_verify.frontends.ptx.execute import Execution
from sm90_verify.frontends.ptx.footprints import Ranges, merged
from sm90_verify.frontends.ptx.lanes import Class, classes_of, footprint_of
from sm90_verify.frontends.ptx.memory_map import MemoryMap, memory_map
from sm90_verify.frontends.ptx.naming import Did, names_of
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.peeks import Peeks
from sm90_verify.frontends.ptx.state import CtaState, Warp
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import WARP
from sm90_verify.spec.ptx.memory import Access, Strong
from sm90_verify.spec.ptx.phase import Lineage, Phase


def lift(execution: Execution, name: str, tick: Tick = unheard) -> Kernel:
    """The kernel of a cluster that has been executed. Raises SpecError for what is wrong in every schedule."""
    return _Lift(execution, name, tick).kernel()


class _Lift:
    def __init__(self, execution: Execution, name: str, tick: Tick) -> None:
        self.execution, self.name, self.tick = execution, name, tick
        self.code, self.launch = execution.code, execution.launch
        self.cluster = Cluster(len(execution.cluster.ctas), 1)
        self.sources = [Source(self.code.path, one.line) for one in self.code.function.code]
        self.made: dict[op.Operation, op.Operation] = {}
        self.peeks = Peeks(self.code, (number for number, spins in execution.spinning.items() if not spins))
        self.footprints: dict[tuple[LanesAccessed, int], Ranges] = {}
        self.unions: dict[tuple[Ranges, ...], Ranges] = {}
        self.alike = self._written_alike()
        self.roles = self._gathered()
        done = ((cta.rank, event.what) for cta, _, _, parts in self.roles for part in parts for event in part.events)
        homes = [self.cluster.home(cta.rank) for cta in execution.cluster.ctas]
        base = execution.addresses.dynamic
        self.names = names_of(
            (
                Did(name, cta.rank, one.what)
                for cta, name, _, parts in self.roles
                for part in parts
                for one in part.events
            ),
            base,
        )
        self.map: MemoryMap = memory_map(done, homes, self.names, base)
        self.layout = self.map.layout()
        self.crowded = {region.object: region for found in self.layout.under.values() for region in found}

    def kernel(self) -> Kernel:
        programs = [program for role in self.roles for program in self._programs(*role)]
        registers = self.launch.registers or 168
        kernel = Kernel(self.name, {}, self.layout, tuple(programs), self.cluster, Rules(met=False), registers)
        validate(kernel, annotated=True)
        return kernel

    def _gathered(self) -> list[tuple[CtaState, str, Sequence[Warp], list[_Part]]]:
        """By role: what each of its parts did. A role is a warp, or the four warps of a warpgroup that executes wgmma."""
        found = []
        for cta in self.execution.cluster.ctas:
            multiplying = {
                warp.number // 4 for warp in cta.warps if any(isinstance(one.what, Multiplied) for one in warp.events)
            }
            groups: dict[str, list[Warp]] = {}
            for warp in cta.warps:
                group = warp.number // 4
                name = f"warps{4 * group}_{4 * group + 3}" if group in multiplying else f"warp{warp.number}"
                groups.setdefault(name, []).append(warp)
            for name, warps in groups.items():
                parts = [part for warp in warps for part in self._parts(warp, warps[0].number)]
                found.append((cta, name, warps, parts))
        return found

    def _written_alike(self) -> frozenset[tuple[int, Ranges, int | None]]:
        """Bytes to which several threads store the same value: nobody can tell these stores apart."""
        who: dict[tuple[int, Ranges, int | None], set[tuple[str, int]]] = {}
        for cta in self.execution.cluster.ctas:
            for warp in cta.warps:
                for one in self._classes(warp):
                    for _, event in one.events:
                        what = event.what
                        if isinstance(what, LanesAccessed) and what.writes and what.value is not None:
                            key = what.rank, self._footprint(event, what, one.mask), what.value
                            who.setdefault(key, set()).add((warp.name, one.mask))
        return frozenset(key for key, some in who.items() if len(some) > 1)

    def _classes(self, warp: Warp) -> tuple[Class, ...]:
        count = min(WARP, self.launch.threads - warp.number * WARP)
        events = [*warp.events, *(event for _, event in warp.left if event is not None)]
        return classes_of(events, (1 << count) - 1)

    def _parts(self, warp: Warp, first: int) -> Iterator[_Part]:
        classes = self._classes(warp)
        acting = sum(one.mask for one in classes)
        for one in classes:
            self.peeks.check([event for _, event in one.events])
            yield _Part(warp, one.mask, acting, tuple(self.gathered(one)), warp.number - first)

    def _programs(self, cta: CtaState, name: str, warps: Sequence[Warp], parts: Sequence[_Part]) -> Iterator[Program]:
        home = self.cluster.home(cta.rank)
        role = f"{home}{name}"
        for index, part in enumerate(parts):
            program = f"{role}.{index}" if len(parts) > 1 else role
            first = part.place * WARP + (part.mask & -part.mask).bit_length() - 1
            me = Threads(program, part.mask.bit_count(), index, 0, cta.rank, first)
            yield annotate(Program(program, me, tuple(self._nodes(part)), role, home), checked=True, tick=self.tick)

    def _nodes(self, part: _Part) -> Iterator[Node]:
        steps = list(_Writer(self, part).operations())
        for index, (number, operation, distance) in enumerate(steps):
            yield Node(operation, self.sources[number], distance=distance, successors={None: index + 1})
        yield Node(None, self.sources[steps[-1][0] if steps else 0])

    def gathered(self, one: Class) -> Iterator[Event]:
        """The events of a class. Accesses between two events of other kinds are one, with the last line of them; peeks
        are left out.
        """
        found: dict[tuple[int, bool, bool, str, int | None], dict[Ranges, None]] = {}
        last = 0
        for _, event in one.events:
            what = event.what
            if isinstance(what, LanesAccessed):
                ranges = self._footprint(event, what, one.mask)
                alike = (what.rank, ranges, what.value) in self.alike
                value = what.value if alike else None
                key = what.rank, what.writes, what.atomic, what.scope if what.atomic else "", value
                found.setdefault(key, {})[ranges] = None
                last = event.number
            elif not isinstance(what, Peeked):
                yield from self._accessed(found, last, one.mask)
                found.clear()
                yield event
        yield from self._accessed(found, last, one.mask)

    def _footprint(self, event: Event, what: LanesAccessed, mask: int) -> Ranges:
        key = what, mask
        ranges = self.footprints.get(key)
        if ranges is None:
            ranges = footprint_of(what, mask)
            if ranges is None:
                raise self.unsure(event, "the bytes that it accesses")
            self.footprints[key] = ranges
        return ranges

    def _accessed(
        self, found: dict[tuple[int, bool, bool, str, int | None], dict[Ranges, None]], last: int, mask: int
    ) -> Iterator[Event]:
        for (rank, writes, atomic, scope, value), some in found.items():
            key = tuple(some)
            if key not in self.unions:
                self.unions[key] = merged(piece for ranges in some for piece in ranges)
            yield Event(last, mask, Accessed(rank, self.unions[key], writes, atomic, scope, value))

    def unsure(self, event: Event, what: str) -> Undetermined:
        """The error for what is not known for certain."""
        name = self.code.function.code[event.number].name
        return Undetermined(f"{name}: {what} are not known for certain", self.sources[event.number])


class _Part(NamedTuple):
    """Lanes of a warp that do the same. acting: all lanes of the warp that do anything. place: of the warp in its role."""

    warp: Warp
    mask: int
    acting: int
    events: tuple[Event, ...]
    place: int


Step = tuple[int, op.Operation, int]
"""The number of the instruction, the operation, and for a wait its distance."""


class _Writer:
    """Writes the events of one part as operations."""

    def __init__(self, lift: _Lift, part: _Part) -> None:
        self.lift, self.cta, self.part, self.warp = lift, part.warp.cta, part, part.warp
        self.threads = part.mask.bit_count()
        self.lineage = Lineage()
        self.seen: dict[BarrierAt, int] = {}

    def operations(self) -> Iterator[Step]:
        for event in self.part.events:
            if isinstance(event.what, AsyncCopied):
                for copy in self._copied(event, event.what):
                    yield event.number, self._same(copy), 0
                continue
            operation, distance = self._one(event, event.what)
            if operation is not None:
                yield event.number, operation if isinstance(operation, op.Wait) else self._same(operation), distance

    def _copied(self, event: Event, what: AsyncCopied) -> Iterator[op.Operation]:
        """cp.async: an operation for each piece."""
        if what.ranges is None:
            raise self.lift.unsure(event, "the bytes that it writes")
        for access in self.lift.map.pieces(self.cta.rank, what.ranges, write=True, asynchronous=False):
            yield op.CpAsync(access, None)

    def _same(self, operation: op.Operation) -> op.Operation:
        """An equal record that was made before, which remembers its effects."""
        return self.lift.made.setdefault(operation, operation)

    def _pieces(self, ranges: Ranges, *, write: bool) -> tuple[Access, ...]:
        return tuple(self.lift.map.pieces(self.cta.rank, ranges, write=write, asynchronous=True))

    def _touch(self, what: Accessed) -> op.Operation:
        accesses = tuple(self.lift.map.pieces(what.rank, what.ranges, write=what.writes, asynchronous=False))
        if what.atomic:
            strong = Strong(what.scope, self.cta.rank, 0)  # type: ignore[arg-type]
            accesses = tuple(access._replace(strong=strong) for access in accesses)
        if what.value is not None:
            accesses = tuple(access._replace(value=what.value) for access in accesses)
        kind: op.TouchKind = "red" if what.atomic else "write" if what.writes else "read"
        return op.Touch(kind, accesses, (what.value,) * len(accesses))

    # -- events

    def _one(self, event: Event, what: What) -> tuple[op.Operation | None, int]:
        threads, name = self.threads, self.lift.map.barriers
        match what:
            case Initialised(barrier, count):
                return op.Init(name[barrier], count, write=self._crowded(barrier)), 0
            case Invalidated(barrier):
                return op.Inval(name[barrier], write=self._crowded(barrier)), 0
            case Arrived(barrier, count, expect, kind, sem, scope):
                far = -1 if barrier.rank == self.cta.rank else barrier.rank
                return op.Arrive(name[barrier], count * threads, expect, kind, far, sem, scope), 0
            case Expected(barrier, bytes):
                far = -1 if barrier.rank == self.cta.rank else barrier.rank
                return op.Transaction(name[barrier], bytes * threads, far), 0
            case Waited():
                return self._wait(what)
            case CopiedIn():
                return self._copy(event, what), 0
            case CopiedOut(ranges, _, _):
                if ranges is None:
                    raise self.lift.unsure(event, "the bytes that it reads")
                sources = self._pieces(ranges, write=False)
                return op.Store(sources, (None,) * len(sources)), 0
            case Triggered() | StoredAsync():
                return self._ordinary(what), 0
            case Multiplied(ranges):
                if ranges is None:
                    raise self.lift.unsure(event, "the bytes that it reads")
                accesses = self._pieces(ranges, write=False)
                return op.Touch("mma", accesses, (None,) * len(accesses)), 0
            case Grouped(kind, pending):
                return op.Group(kind, pending, kind.startswith("mma")), 0
            case Fenced(kind):
                return op.Fence(kind), 0
            case MemoryFenced(kind, scope):
                return op.ThreadFence(kind, scope), 0
            case NamedMet(id, count, blocks):
                return self._named(id, count, blocks=blocks), 0
            case ClusterArrived(release):
                return op.ClusterArrive(release), 0
            case ClusterWaited():
                return op.ClusterWait(), 0
            case LanesMet(orders):
                return self._lanes(event, orders=orders), 0
            case RegistersSet(registers, kind):
                return op.Setmaxnreg(registers, kind), 0
            case Depended(kind):
                return op.Griddepcontrol(kind), 0
            case Accessed():
                return self._touch(what), 0
            case MapFenced() | Peeked() | LanesAccessed() | AsyncCopied():
                return None, 0
            case _:
                assert_never(what)

    def _crowded(self, barrier: BarrierAt) -> Access | None:
        """The bytes of a barrier, where a buffer lies in them too."""
        region = self.lift.crowded.get(self.lift.map.barriers[barrier])
        return None if region is None else region.access(write=True)

    def _wait(self, what: Waited) -> tuple[op.Operation, int]:
        name = self.lift.map.barriers[what.barrier]
        if what.token:
            return op.Wait(name, op.Token(name), sem=what.sem, scope=what.scope), 0
        seen = self.seen.get(what.barrier, -1)
        if what.phase < seen:
            seen = -1
        self.seen[what.barrier] = what.phase
        phase = Phase(what.phase, self.lineage, False)
        return op.Wait(name, phase, sem=what.sem, scope=what.scope), what.phase - seen

    def _copy(self, event: Event, what: CopiedIn) -> op.Operation:
        if what.ranges is None or len(what.ranges) != 1:
            raise self.lift.unsure(event, "the bytes that it writes")
        lift = self.lift
        found: list[tuple[Access, str]] = []
        for rank, barrier in zip(what.ranks, what.barriers, strict=True):
            (access,) = lift.map.pieces(rank, what.ranges, write=True, asynchronous=True)
            found.append((access, lift.map.barriers[barrier]))
        read = next(iter(self._pieces(what.source, write=False)), None)
        return op.Load(found[0][0], found[0][1], what.size, None, 1, tuple(found[1:]), read)

    def _ordinary(self, what: Triggered | StoredAsync) -> op.Operation:
        """cp.async.mbarrier.arrive and st.async."""
        lift = self.lift
        match what:
            case Triggered(barrier, noinc):
                return op.TriggeredArrive(lift.map.barriers[barrier], self.threads, noinc)
            case StoredAsync(rank, ranges, barrier, size, reduces):
                (access,) = lift.map.pieces(rank, ranges, write=True, asynchronous=False)
                if reduces:
                    access = access._replace(strong=Strong("cluster", self.cta.rank, 0))
                return op.StoreAsync(access, lift.map.barriers[barrier], size, None)

    def _named(self, id: int, count: int, *, blocks: bool) -> op.Operation:
        everybody = self.lift.launch.threads
        if id == 0 and count in (0, everybody) and blocks:
            return op.CtaSync()
        return op.NamedSync(id, count or everybody, blocks)

    def _lanes(self, event: Event, *, orders: bool) -> op.Operation | None:
        """A meeting of the classes of the warp that do anything."""
        assert isinstance(event.what, LanesMet)
        members = (event.what.members or event.mask) & self.part.acting
        if members == self.part.mask:
            return None
        return op.WarpSync(self.part.place, 0 if members == self.part.acting else members, orders)
