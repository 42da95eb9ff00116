"""From what the warps of a cluster did to a Kernel: each class of lanes a program, in the order of its instructions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from sm90_verify.frontends.ptx.barrier_zero import counted_ctas
from sm90_verify.frontends.ptx.beyond import beyond
from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.events import (
    Accessed,
    AsyncCopied,
    LaneEvent,
    LanesAccessed,
    LanesCopied,
    Multiplied,
    Peeked,
    PeriodMarked,
    RegistersTouched,
    What,
    is_of_wgmma,
)
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.footprints import Ranges, merged
from sm90_verify.frontends.ptx.lanes import WHOLE_WARP, Class, classes_of, copied_by, footprint_of
from sm90_verify.frontends.ptx.memory_map import MemoryMap, barriers_of, memory_map, ranges_of
from sm90_verify.frontends.ptx.naming import Doing, names_of
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.peeks import Peeks
from sm90_verify.frontends.ptx.programs import PartsWriter
from sm90_verify.frontends.ptx.register_file import APART, RegisterFile, touching
from sm90_verify.frontends.ptx.state import CtaState, Warp
from sm90_verify.frontends.ptx.write_part import PartOfRole
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import MBARRIER_BYTES, WARP


def lift(execution: ClusterRun, name: str, tick: Tick = unheard) -> Kernel:
    """The kernel of a cluster that has been executed. Raises SpecError for what is wrong in every schedule."""
    return _Lift(execution, name, tick).kernel()


class _Lift:
    def __init__(self, execution: ClusterRun, name: str, tick: Tick) -> None:
        self.execution, self.name, self.tick = execution, name, tick
        self.code, self.launch = execution.code, execution.launch
        self.cluster = Cluster(len(execution.cluster.ctas), 1)
        self.sources = [Source(self.code.path, one.line) for one in self.code.function.code]
        self.peeks = Peeks(self.code, (number for number, one in execution.spinning.items() if not one.spins))
        self.footprints: dict[tuple[LanesAccessed, int], Ranges] = {}
        self.unions: dict[tuple[Ranges, ...], Ranges] = {}
        self.alike = self._written_alike()
        self.roles = self._gathered()
        done = ((cta.rank, event.what) for cta, _, parts in self.roles for part in parts for event in part.events)
        homes = [self.cluster.home(cta.rank) for cta in execution.cluster.ctas]
        base = execution.addresses.dynamic
        mine = (
            Doing(name, cta.rank, one.what) for cta, name, parts in self.roles for part in parts for one in part.events
        )
        self.names = names_of(mine if execution.stuck is None else beyond(execution, tick).doings, base)
        self.map: MemoryMap = memory_map(done, homes, self.names, base)

    def _must_be_there(self) -> None:
        """Raises SpecError for an access beyond the shared memory that the launch gives."""
        stop = self.execution.addresses.dynamic + self.launch.dynamic_shared
        known: set[What] = set()
        for cta, _, parts in self.roles:
            for event in (event for part in parts for event in part.events if event.what not in known):
                known.add(event.what)
                beyond = [end for _, ranges in ranges_of(event.what, cta.rank) for _, end in ranges if end > stop]
                beyond += [at.address + MBARRIER_BYTES for at in barriers_of(event.what) if at.address >= stop]
                if beyond:
                    name, place = (
                        self.code.function.code[event.number].name,
                        beyond[0] - self.execution.addresses.dynamic,
                    )
                    what = f"{name}: up to byte {place} of dynamic shared memory"
                    given = f"of which the launch has {self.launch.dynamic_shared}: see dynamic_shared"
                    raise SpecError(f"{what}, {given}", self.sources[event.number])

    def kernel(self) -> Kernel:
        self._must_be_there()
        self.files: list[RegisterFile] = []
        writer = PartsWriter(
            self.map,
            self.launch.threads,
            self.cluster,
            self.sources,
            partial(unsure, self.code),
            self.tick,
            registers=self._file,
            counted=counted_ctas(self.execution.cluster.ctas, self.launch.threads),
        )
        programs = [program for cta, name, parts in self.roles for program in writer.programs(cta.rank, name, parts)]
        owned = (one for file in self.files for one in file.regions())
        return writer.kernel(self.name, programs, self.launch.registers or 168, owned)

    def _file(self, program: str, part: PartOfRole) -> RegisterFile:
        """The registers of a program."""
        file = RegisterFile(self.code, program, part.rank, APART * len(self.files))
        if any(isinstance(event.what, Multiplied) for event in part.events):
            self.files.append(file)
        return file

    def _gathered(self) -> list[tuple[CtaState, str, list[PartOfRole]]]:
        """By role: what each of its parts did. A role is a warp, or the four of a warpgroup that executes wgmma."""
        found: list[tuple[CtaState, str, list[PartOfRole]]] = []
        for cta in self.execution.cluster.ctas:
            multiplying = {warp.number // 4 for warp in cta.warps if any(is_of_wgmma(one.what) for one in warp.events)}
            groups: dict[str, list[Warp]] = {}
            for warp in cta.warps:
                group = warp.number // 4
                name = f"warps{4 * group}_{4 * group + 3}" if group in multiplying else f"warp{warp.number}"
                groups.setdefault(name, []).append(warp)
            for name, warps in groups.items():
                parts = [
                    part for warp in warps for part in self._parts(warp, warps[0].number, multiplies=len(warps) > 1)
                ]
                found.append((cta, name, parts))
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

    def _parts(self, warp: Warp, first: int, *, multiplies: bool) -> Iterator[PartOfRole]:
        """What each class of lanes did; a warp that others wait for at a wgmma is there even if it did nothing."""
        classes = self._classes(warp)
        if multiplies and not classes:
            yield PartOfRole(warp.cta.rank, WHOLE_WARP, WHOLE_WARP, (), warp.number - first)
        acting = sum(one.mask for one in classes)
        for one in classes:
            self.peeks.check(twice([event for _, event in one.events]))
            yield PartOfRole(warp.cta.rank, one.mask, acting, tuple(self.gathered(one)), warp.number - first)

    def gathered(self, one: Class) -> Iterator[LaneEvent]:
        """The events of a class. Accesses between two events of other kinds are one, with the last line of them; peeks
        are left out.
        """
        found: dict[tuple[int, bool, bool, str, int | None], dict[Ranges, None]] = {}
        last = 0
        for event in touching(one.events):
            what = event.what
            if isinstance(what, LanesAccessed):
                ranges = self._footprint(event, what, one.mask)
                alike = (what.rank, ranges, what.value) in self.alike
                value = what.value if alike else None
                key = what.rank, what.writes, what.atomic, what.scope if what.atomic else "", value
                found.setdefault(key, {})[ranges] = None
                last = event.number
            elif isinstance(what, RegistersTouched):
                yield event
            elif isinstance(what, LanesCopied):
                yield from self._accessed(found, last, one.mask)
                found.clear()
                copied = copied_by(what, one.mask)
                if copied is None:
                    raise unsure(self.code, event, "the bytes that it writes")
                yield event._replace(what=AsyncCopied(copied))
            elif not isinstance(what, Peeked):
                yield from self._accessed(found, last, one.mask)
                found.clear()
                yield event
        yield from self._accessed(found, last, one.mask)

    def _footprint(self, event: LaneEvent, what: LanesAccessed, mask: int) -> Ranges:
        key = what, mask
        ranges = self.footprints.get(key)
        if ranges is None:
            ranges = footprint_of(what, mask)
            if ranges is None:
                raise unsure(self.code, event, "the bytes that it accesses")
            self.footprints[key] = ranges
        return ranges

    def _accessed(
        self, found: dict[tuple[int, bool, bool, str, int | None], dict[Ranges, None]], last: int, mask: int
    ) -> Iterator[LaneEvent]:
        for (rank, writes, atomic, scope, value), some in found.items():
            key = tuple(some)
            if key not in self.unions:
                self.unions[key] = merged(piece for ranges in some for piece in ranges)
            yield LaneEvent(last, mask, Accessed(rank, self.unions[key], writes, atomic, scope, value))


def twice(events: list[LaneEvent]) -> list[LaneEvent]:
    """With every period that stands for others a second time."""
    found: list[LaneEvent] = []
    begun = 0
    for event in events:
        found.append(event)
        if isinstance(event.what, PeriodMarked) and event.what.begins:
            begun = len(found)
        elif isinstance(event.what, PeriodMarked):
            found += found[begun:]
    return found


def unsure(code: Code, event: LaneEvent, what: str) -> Undetermined:
    """The error for what is not known for certain."""
    name = code.function.code[event.number].name
    return Undetermined(f"{name}: {what} are not known for certain", code.source(event.number))
