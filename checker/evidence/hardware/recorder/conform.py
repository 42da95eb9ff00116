"""Hand-written kernels held to their models: operation by operation, and then in the order that the clocks allow.

A kernel that is watched by kernels/recorder.cuh leaves a tape of events per place, a warp or some of its lanes. The
places of a role are merged, and the role's n-th operation must be the one that the model's program has there: the same
kind, barrier, parity, bytes and buffers. What differs is told with both names. What agrees is a GpuRun, which
recordings.linearise then holds to the specification with its clocks and the words that were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from sm90_verify.evidence.hardware.recorder.tapes import FOREIGN, Did, Tape
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access

Atom: TypeAlias = tuple[Any, ...]
"""One operation on one object, the same whoever tells of it: what kind, and its operands."""
Written: TypeAlias = (
    op.Init
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
    | op.ClusterArrive
    | op.ClusterWait
    | op.Setmaxnreg
)
"""What hand-written kernels do; a model with anything else is refused."""


@dataclass(frozen=True)
class TapeNames:
    """How a kernel's numbers read in its model.

    places: by place of a CTA, the name of its role; several places may be one role. objects: by number, the name of a
    barrier, or those of the buffers that lie there, in order. All names are without what those of a CTA begin with.
    """

    places: tuple[str, ...]
    objects: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True)
class TapeDifference:
    """A role's operation, by number, that is not the model's."""

    role: str
    number: int
    did: str
    expected: str

    @property
    def because(self) -> str:
        return f"operation {self.number} of {self.role}: the kernel did {self.did}, the model does {self.expected}"


@dataclass(frozen=True)
class Conformance:
    """run: as far as the kernel did what the model does."""

    run: GpuRun
    differences: tuple[TapeDifference, ...]


def conform(
    plan: ExecutorPlan, names: TapeNames, tapes: Sequence[Sequence[Tape]], stored: Sequence[tuple[int, int]] = ()
) -> Conformance:
    """Holds what the CTAs of a cluster did to the programs of a plan.

    tapes: by CTA of the cluster and place. stored: the smallest and largest word of each store of the plan, in the
    kernel's own words.
    """
    reading = _Reading(plan, names)
    read, differences = [], []
    for program in plan.programs:
        mine = [
            tapes[program.me.cta][place]
            for place, role in enumerate(names.places)
            if program.home + role == program.name
        ]
        if not mine:
            raise SpecError(f"the kernel has no place for the role {program.name} of {plan.kernel.name}")
        role, difference = reading.role(program.name, program.home, mine)
        read.append(role)
        differences += difference
    hangs = any(tape.stuck is not None for row in tapes for tape in row)
    words = tuple(
        (reading.number(access, low), reading.number(access, high))
        for (_, _, access, _), (low, high) in zip(plan.stores, stored, strict=bool(stored))
    )
    roles = tuple(
        RoleRun(role.name, role.node, tuple(reading.event(event, reads) for event, reads in events))
        for role, events in read
    )
    return Conformance(GpuRun(hangs, roles, words), tuple(differences))


_Words: TypeAlias = list[tuple[str, int, int]]


class _Reading:
    """A kernel's tapes read as its model's programs. words: by word that was written, the numbers and places of it."""

    def __init__(self, plan: ExecutorPlan, names: TapeNames) -> None:
        self.plan, self.names = plan, names
        self.regions = {region.object: region for region in plan.kernel.layout.regions}
        self.words: dict[int, list[tuple[int, Access]]] = {}
        self.numbers: dict[tuple[str, int], list[tuple[int, Access]]] = {}
        for number, key in plan.writers.items():
            self.numbers.setdefault(key, []).extend((number, access) for access in plan.written[number][1])

    def role(
        self, role: str, home: str, tapes: Sequence[Tape]
    ) -> tuple[tuple[RoleRun, list[tuple[Event, _Words]]], list[TapeDifference]]:
        """The events of a role as far as it does what its program does, with the kernel's words."""
        events, difference = _merged(role, tapes)
        nodes = self.plan.nodes[role]
        expected = [(index, atom) for index in _path(self.plan, role) for atom in atoms(nodes[index].operation)]
        at = 0
        found: list[tuple[Event, _Words]] = []
        again: list[Did] = []
        for number, did in enumerate(events):
            if did.code == "mma_again":
                again.append(did)
                continue
            for atom in self.atoms(did, home):
                index, wanted = expected[at] if at < len(expected) else (-1, ("its end",))
                if atom != wanted:
                    difference.append(TapeDifference(role, number, _text(atom), _text(wanted)))
                    break
                at += 1
                reads = [read for one in (*again, did) for read in self.reads(one, home, atom)]
                self.wrote(role, index, did, atom)
                self.merge(found, Event(index, min(one.before for one in (*again, did)), did.after, did.waited), reads)
                again = []
            else:
                continue
            break
        stuck = min(tapes, key=lambda tape: len(tape.events)).stuck
        if not difference:
            difference += self.end(role, home, len(events), stuck, expected[at:])
        whole = at == len(expected)
        node = -1 if whole and stuck is None else expected[min(at, len(expected) - 1)][0]
        complete = [one for one in found if whole or one[0].node != node]
        return (RoleRun(role, node, ()), complete), difference

    def end(
        self, role: str, home: str, number: int, stuck: tuple[str, int, int] | None, rest: Sequence[tuple[int, Atom]]
    ) -> list[TapeDifference]:
        """Whether the role ends where its program ends, or is stuck in the operation that comes next there."""
        wanted = rest[0][1] if rest else ("its end",)
        if stuck is None:
            return [TapeDifference(role, number, "nothing more", _text(wanted))] if rest else []
        code, object, operand = stuck
        (did, *_) = self.atoms(Did(code, object, operand, 0, True, 0, 0, 0, 0, 0), home)
        return [] if did == wanted else [TapeDifference(role, number, f"give up {_text(did)}", _text(wanted))]

    def merge(self, found: list[tuple[Event, _Words]], event: Event, reads: _Words) -> None:
        if found and found[-1][0].node == event.node:
            last, before = found.pop()
            event = Event(event.node, last.before, max(last.after, event.after), last.waited or event.waited)
            reads = [*before, *reads]
        found.append((event, reads))

    def atoms(self, did: Did, home: str) -> Iterator[Atom]:
        """What an event says, in the model's names; one on several buffers is one atom for each."""
        match did.code:
            case "wait":
                yield "wait", home + self.barrier(did.object), did.operand
            case "arrive" | "arrive_expect":
                expect = None if did.code == "arrive" else did.operand
                if not did.targets:
                    yield "arrive", home + self.barrier(did.object), did.arrived, expect
                for cta, count in did.targets:
                    there = self.plan.kernel.cluster.home(cta)
                    yield "arrive", there + self.barrier(did.object), count, expect
            case "expect":
                yield "expect", home + self.barrier(did.object), did.operand
            case "load":
                mask = did.high  # the model names a copy to several CTAs by the first of them
                there = self.plan.kernel.cluster.home((mask & -mask).bit_length() - 1) if mask else home
                barrier = there + self.barrier(did.object >> 16)
                for buffer, size in self.buffers(did.object & 0xFFFF, did.operand, there):
                    yield "load", buffer, size, barrier, mask
            case "read" | "write" | "mma" | "store":
                for buffer, size in self.buffers(did.object, did.operand, home):
                    yield did.code, buffer, size
            case "init":
                yield "init", home + self.barrier(did.object), did.operand
            case "named_sync" | "named_arrive":
                yield did.code, did.object, did.operand
            case "mma_wait" | "bulk_wait" | "bulk_wait_read" | "cluster_arrive" | "registers_dec" | "registers_inc":
                yield did.code, did.operand
            case _:
                yield (did.code,)

    def barrier(self, number: int) -> str:
        return self.names.objects.get(number, (f"object {number}",))[0]

    def buffers(self, number: int, size: int, home: str) -> list[tuple[str, int]]:
        """The buffers that lie at an object and their bytes; those of the event, if they do not add up."""
        names = [home + name for name in self.names.objects.get(number, (f"object {number}",))]
        sizes = [region.stop - region.start if (region := self.regions.get(name)) else 0 for name in names]
        if sum(sizes) != size:
            return [(" and ".join(names), size)]
        return list(zip(names, sizes, strict=True))

    def reads(self, did: Did, home: str, atom: Atom) -> _Words:
        """The words that an event found in the buffer of its atom, or in all its buffers if it came before the atom."""
        if did.code not in ("read", "mma", "mma_again") or did.low > did.high:
            return []
        if did.code != "mma_again":
            return [(atom[1], did.low, did.high)]
        return [(buffer, did.low, did.high) for buffer, _ in self.buffers(did.object, did.operand, home)]

    def wrote(self, role: str, index: int, did: Did, atom: Atom) -> None:
        if did.code in ("load", "write"):
            known = self.numbers[role, index]
            mine = (one for one in known if did.code == "load" or one[1].object == atom[1])
            self.words.setdefault(did.low, []).extend(mine)

    def event(self, event: Event, reads: _Words) -> Event:
        found = []
        for buffer, low, high in reads:
            region = self.regions[buffer]
            access = Access(buffer, "shared", region.start, region.stop, False, "generic", region.cta)
            found.append((buffer, self.number(access, low), self.number(access, high)))
        return Event(event.node, event.before, event.after, event.waited, tuple(found))

    def number(self, access: Access, word: int) -> int:
        """The model's number of the write that a word is of; 0 for memory that nobody has written."""
        if not word:
            return 0
        return next((number for number, there in self.words.get(word, ()) if there.overlaps(access)), FOREIGN + word)


def _merged(role: str, tapes: Sequence[Tape]) -> tuple[list[Did], list[TapeDifference]]:
    """What the places of a role did together, up to where one of them got no further, or did something else."""
    found: list[Did] = []
    for number, row in enumerate(zip(*(tape.events for tape in tapes), strict=False)):
        first = row[0]
        for place, other in enumerate(row):
            if other.key != first.key:
                what = f"{first.code} {first.object} {first.operand} of iteration {first.iteration}"
                mine = f"{other.code} {other.object} {other.operand} of iteration {other.iteration} in warp {place}"
                return found, [TapeDifference(role, number, mine, f"{what} in its first warp")]
        targets: dict[int, int] = {}
        if first.code in ("arrive", "arrive_expect"):
            for one in row:
                for cta in range(32):
                    if one.low >> cta & 1:
                        targets[cta] = targets.get(cta, 0) + 1
        found.append(
            Did(
                first.code,
                first.object,
                first.operand,
                first.iteration,
                any(one.waited for one in row),
                sum(one.arrived for one in row),
                min(one.before for one in row),
                max(one.after for one in row),
                min(one.low for one in row),
                max(one.high for one in row),
                tuple(sorted(targets.items())),
            )
        )
    return found, []


def _path(plan: ExecutorPlan, role: str) -> Iterator[int]:
    """The nodes of a program that is one sequence, as `lower` demands."""
    nodes, index = plan.nodes[role], 0
    while nodes[index].operation is not None:
        yield index
        (index,) = nodes[index].successors.values()


def atoms(operation: op.Operation | None) -> Iterator[Atom]:
    """What an operation of a program says, one buffer at a time."""
    if not isinstance(operation, Written):
        raise SpecError(f"no hand-written kernel can be held to {operation!r}")
    match operation:
        case op.Wait() if operation.kind == "wait" and not isinstance(operation.phase, op.Token):
            yield "wait", operation.barrier, int(operation.phase) & 1
        case op.Arrive() if operation.kind == "arrive":
            yield "arrive", operation.barrier, operation.count, operation.expect
        case op.Transaction() if operation.bytes > 0:
            yield "expect", operation.barrier, operation.bytes
        case op.Load():
            mask = sum(1 << access.cta for access, _ in operation.destinations) if operation.also else 0
            yield "load", operation.write.object, operation.bytes, operation.barrier, mask
        case op.Touch():
            for access in operation.accesses:
                yield operation.kind, access.object, access.stop - access.start
            if operation.commit:
                yield ("mma_commit",)
        case op.Store():
            for source in operation.sources:
                yield "store", source.object, source.stop - source.start
        case op.Group():
            yield (operation.kind,) if operation.kind.endswith("commit") else (operation.kind, operation.pending)
        case op.Fence():
            if operation.kind != "wgmma":
                yield ("fence_proxy" if operation.kind == "proxy_async" else "fence_init",)
        case op.NamedSync():
            yield "named_sync" if operation.blocks else "named_arrive", operation.id, operation.threads
        case op.CtaSync():
            yield ("cta_sync",)
        case op.WarpSync():
            yield ("warp_sync",)
        case op.ClusterArrive():
            yield "cluster_arrive", int(operation.release)
        case op.ClusterWait():
            yield ("cluster_wait",)
        case op.Init():
            yield "init", operation.barrier, operation.count
        case op.Setmaxnreg():
            yield f"registers_{operation.kind}", operation.registers
        case op.Wait() | op.Arrive() | op.Transaction():
            raise SpecError(f"no hand-written kernel can be held to {operation!r}")
        case _:
            assert_never(operation)


def _text(atom: Atom) -> str:
    """An atom in words."""
    return " ".join(str(part) for part in atom if part is not None)
