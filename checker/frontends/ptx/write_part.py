"""From the events of lanes that do the same to the operations of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias, assert_never

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
    Expected,
    Fenced,
    Grouped,
    Initialised,
    Invalidated,
    LaneEvent,
    LanesAccessed,
    LanesCopied,
    LanesMet,
    LanesParted,
    MapFenced,
    MemoryFenced,
    Multiplied,
    NamedMet,
    Peeked,
    PeriodMarked,
    RegistersSet,
    RegistersTouched,
    StoredAsync,
    Triggered,
    Waited,
    What,
)
from sm90_verify.frontends.ptx.footprints import Ranges
from sm90_verify.frontends.ptx.memory_map import MemoryMap
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.register_file import RegisterFile
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access, Strong
from sm90_verify.spec.ptx.phase import Lineage, Phase


class PartOfRole(NamedTuple):
    """Lanes of a warp that do the same. rank: of its CTA. acting: those of the warp that do anything. place: of the
    warp in a role.
    """

    rank: int
    mask: int
    acting: int
    events: tuple[LaneEvent, ...]
    place: int


Step = tuple[int, op.Operation | PeriodMarked, int]
"""The number of the instruction, the operation or the mark of a period, and for a wait its distance."""
Unsure: TypeAlias = Callable[[LaneEvent, str], Undetermined]
"""Makes the error for what is not known of an event."""


class PartWriter:
    """Writes the events of one part as operations. everybody: the threads of a CTA; map: of its memory; made: records
    that were made before, which remember their effects; registers: of the part, None where nobody sees them; counted:
    barrier 0 of its CTA is one that counts.
    """

    def __init__(
        self,
        everybody: int,
        map: MemoryMap,
        made: dict[op.Operation, op.Operation],
        part: PartOfRole,
        unsure: Unsure,
        registers: RegisterFile | None,
        *,
        counted: bool,
    ) -> None:
        self.everybody, self.map, self.made, self.part, self.unsure = everybody, map, made, part, unsure
        self.rank, self.registers, self.counted = part.rank, registers, counted
        self.threads = part.mask.bit_count()
        self.lineage = Lineage()
        self.seen: dict[BarrierAt, int] = {}

    def operations(self) -> Iterator[Step]:
        for event in self.part.events:
            if isinstance(event.what, AsyncCopied):
                for copy in self._copied(event.what):
                    yield event.number, self._same(copy), 0
                continue
            if isinstance(event.what, PeriodMarked):
                if self.registers is not None:
                    self.registers.passed(event.what)
                yield event.number, event.what, 0
                continue
            operation, distance = self._one(event, event.what)
            if operation is not None:
                yield event.number, operation if isinstance(operation, op.Wait) else self._same(operation), distance

    def _copied(self, what: AsyncCopied) -> Iterator[op.Operation]:
        """cp.async: an operation for each piece."""
        for access in self.map.pieces(self.rank, what.ranges, write=True, asynchronous=False):
            yield op.CpAsync(access, None)

    def _same(self, operation: op.Operation) -> op.Operation:
        """An equal record that was made before, which remembers its effects."""
        return self.made.setdefault(operation, operation)

    def _pieces(self, ranges: Ranges, *, write: bool) -> tuple[Access, ...]:
        return tuple(self.map.pieces(self.rank, ranges, write=write, asynchronous=True))

    def _touch(self, what: Accessed) -> op.Operation:
        accesses = tuple(self.map.pieces(what.rank, what.ranges, write=what.writes, asynchronous=False))
        if what.atomic:
            strong = Strong(what.scope, self.rank, 0)  # type: ignore[arg-type]
            accesses = tuple(access._replace(strong=strong) for access in accesses)
        if what.value is not None:
            accesses = tuple(access._replace(value=what.value) for access in accesses)
        kind: op.TouchKind = "red" if what.atomic else "write" if what.writes else "read"
        return op.Touch(kind, accesses, (what.value,) * len(accesses))

    # -- events

    def _one(self, event: LaneEvent, what: What) -> tuple[op.Operation | None, int]:
        threads, name = self.threads, self.map.barriers
        match what:
            case Initialised(barrier, count):
                return op.Init(name[barrier], count, write=self._crowded(barrier)), 0
            case Invalidated(barrier):
                return op.Inval(name[barrier], write=self._crowded(barrier)), 0
            case Arrived(barrier, count, expect, kind, sem, scope):
                far = -1 if barrier.rank == self.rank else barrier.rank
                return op.Arrive(name[barrier], count * threads, expect, kind, far, sem, scope), 0
            case Expected(barrier, bytes):
                far = -1 if barrier.rank == self.rank else barrier.rank
                return op.Transaction(name[barrier], bytes * threads, far), 0
            case Waited():
                return self._wait(what)
            case CopiedIn():
                return self._copy(event, what), 0
            case CopiedOut(ranges, _, _):
                if ranges is None:
                    raise self.unsure(event, "the bytes that it reads")
                sources = self._pieces(ranges, write=False)
                return op.Store(sources, (None,) * len(sources)), 0
            case Triggered() | StoredAsync():
                return self._ordinary(what), 0
            case Multiplied(ranges):
                if ranges is None:
                    raise self.unsure(event, "the bytes that it reads")
                accesses = self._pieces(ranges, write=False)
                if self.registers is None:
                    return op.Touch("mma", accesses, (None,) * len(accesses)), 0
                return self.registers.multiplied(event.number, accesses), 0
            case RegistersTouched():
                assert self.registers is not None
                return self.registers.touched(what), 0
            case Grouped(kind, pending):
                self._passed(what)
                return op.Group(kind, pending, kind.startswith("mma")), 0
            case Fenced(kind):
                self._passed(what)
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
            case LanesParted(others):
                assert self.registers is not None
                return op.Parted(self.registers.code.function.code[event.number].name, others), 0
            case RegistersSet(registers, kind):
                return op.Setmaxnreg(registers, kind), 0
            case Depended(kind):
                return op.Griddepcontrol(kind), 0
            case Accessed():
                return self._touch(what), 0
            case MapFenced() | Peeked() | LanesAccessed() | LanesCopied() | AsyncCopied() | PeriodMarked():
                return None, 0
            case _:
                assert_never(what)

    def _passed(self, what: Fenced | Grouped) -> None:
        if self.registers is not None:
            self.registers.passed(what)

    def _crowded(self, barrier: BarrierAt) -> Access | None:
        """The bytes of a barrier, where a buffer lies in them too."""
        return self.map.crowded(barrier)

    def _wait(self, what: Waited) -> tuple[op.Operation, int]:
        name = self.map.barriers[what.barrier]
        if what.token:
            return op.Wait(name, op.Token(name), sem=what.sem, scope=what.scope), 0
        seen = self.seen.get(what.barrier, -1)
        if what.phase < seen:
            seen = -1
        self.seen[what.barrier] = what.phase
        phase = Phase(what.phase, self.lineage, False)
        return op.Wait(name, phase, sem=what.sem, scope=what.scope), what.phase - seen

    def _copy(self, event: LaneEvent, what: CopiedIn) -> op.Operation:
        if what.ranges is None or len(what.ranges) != 1:
            raise self.unsure(event, "the bytes that it writes")
        found: list[tuple[Access, str]] = []
        for rank, barrier in zip(what.ranks, what.barriers, strict=True):
            (access,) = self.map.pieces(rank, what.ranges, write=True, asynchronous=True)
            found.append((access, self.map.barriers[barrier]))
        read = next(iter(self._pieces(what.source, write=False)), None)
        return op.Load(found[0][0], found[0][1], what.size, None, 1, tuple(found[1:]), read)

    def _ordinary(self, what: Triggered | StoredAsync) -> op.Operation:
        """cp.async.mbarrier.arrive and st.async."""
        match what:
            case Triggered(barrier, noinc):
                return op.TriggeredArrive(self.map.barriers[barrier], self.threads, noinc)
            case StoredAsync(rank, ranges, barrier, size, reduces):
                (access,) = self.map.pieces(rank, ranges, write=True, asynchronous=False)
                if reduces:
                    access = access._replace(strong=Strong("cluster", self.rank, 0))
                return op.StoreAsync(access, self.map.barriers[barrier], size, None)

    def _named(self, id: int, count: int, *, blocks: bool) -> op.Operation:
        if id == 0 and count in (0, self.everybody) and blocks and not self.counted:
            return op.CtaSync()
        return op.NamedSync(id, count or self.everybody, blocks)

    def _lanes(self, event: LaneEvent, *, orders: bool) -> op.Operation | None:
        """A meeting of the classes of the warp that do anything."""
        assert isinstance(event.what, LanesMet)
        members = (event.what.members or event.mask) & self.part.acting
        if members == self.part.mask:
            return None
        return op.WarpSync(self.part.place, 0 if members == self.part.acting else members, orders)
