"""What a kernel is made of, as tables: rings of barriers, roles, and buffers with who orders whose accesses.

It reads the programs of a Kernel alone: who arrives where, who waits, who accesses what.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sm90_verify.frontends.ptx.launch import Block
from sm90_verify.made_of import BufferRow, KernelTable, RingRow, WarpsRow
from sm90_verify.spec.model.flow import meeting_of
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import Effects, effects_of


@dataclass
class _Ring:
    slots: dict[str, int] = field(default_factory=dict)
    arrivals: int = 0
    bytes: int = 0
    arrive: dict[str, None] = field(default_factory=dict)
    copies: dict[str, None] = field(default_factory=dict)
    waits: dict[str, None] = field(default_factory=dict)


@dataclass
class _Buffer:
    slots: dict[str, tuple[int, int]] = field(default_factory=dict)
    writers: dict[tuple[str, str], None] = field(default_factory=dict)
    readers: dict[tuple[str, str], None] = field(default_factory=dict)


def kernel_tables(cases: Iterable[tuple[Kernel, Sequence[Block]]], base: int) -> KernelTable:
    """The table of the first CTA, with those that have the same rings, and the tables of others. cases: kernels of
    clusters with their CTAs, by rank. base: the address that others count from.
    """
    found: dict[object, tuple[KernelTable, list[Block]]] = {}
    for kernel, blocks in cases:
        for rank, block in enumerate(blocks):
            home = kernel.cluster.home(rank)
            table = replace(kernel_table(kernel, home, base), block=block)
            found.setdefault(_rings_seen_from(table, home), (table, []))[1].append(block)
    first, *others = (replace(table, alike=tuple(blocks[1:])) for table, blocks in found.values())
    return replace(first, others=tuple(others))


def _rings_seen_from(table: KernelTable, home: str) -> tuple[RingRow, ...]:
    """The same for CTAs with the same rings: its own names without the CTA, and for all others one name."""

    def one(name: str) -> str:
        own = re.sub(rf"(?<!\w){re.escape(home)}", "", name) if home else name
        return re.sub(r"\bcta\d+\.", "peer.", own)

    def some(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({one(name) for name in names}))

    return tuple(
        replace(row, ring=one(row.ring), arrive=some(row.arrive), copies=some(row.copies), waits=some(row.waits))
        for row in table.rings
    )


def kernel_table(kernel: Kernel, home: str, base: int) -> KernelTable:
    """The tables of a CTA, whose names begin with `home`. base: the address that others count from."""
    mine = [program for program in kernel.programs if program.home == home]
    rings, buffers = _rings(kernel, home), _buffers(kernel, home)
    signals = _signals(kernel, home)
    return KernelTable(
        tuple(
            RingRow(
                name,
                len(ring.slots),
                min(ring.slots.values()) - base,
                ring.arrivals,
                ring.bytes,
                tuple(ring.arrive),
                tuple(ring.copies),
                tuple(ring.waits),
            )
            for name, ring in rings.items()
        ),
        tuple(_roles(mine, home)),
        tuple(
            BufferRow(
                name,
                len(buffer.slots),
                min(start for start, _ in buffer.slots.values()) - base,
                max(stop - start for start, stop in buffer.slots.values()),
                tuple(f"{role} {how}" for role, how in buffer.writers),
                tuple(f"{role} {how}" for role, how in buffer.readers),
                tuple(_orders(buffer, signals)),
            )
            for name, buffer in buffers.items()
        ),
        base,
    )


def _array(name: str) -> str:
    return re.sub(r"\[\d+\]$", "", name)


def _short(program: Program) -> str:
    """The role, without its CTA where that is the first."""
    return program.role


def _rings(kernel: Kernel, home: str) -> dict[str, _Ring]:
    layout = kernel.layout
    found: dict[str, _Ring] = {}
    here = {
        one.object: one for one in layout.regions if one.declaration in layout.barriers and one.object.startswith(home)
    }
    for name, region in here.items():
        found.setdefault(_array(name), _Ring()).slots[name] = region.start
    for program in kernel.programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            for copies, _ in effects.lands:
                if copies.barrier in here:
                    found[_array(copies.barrier)].copies[_short(program)] = None
            for signal in effects.signals:
                if signal.barrier not in here:
                    continue
                ring = found[_array(signal.barrier)]
                if isinstance(signal, op.Init):
                    ring.arrivals = signal.count
                elif isinstance(signal, op.Arrive):
                    ring.arrive[_short(program)] = None
                    ring.bytes = max(ring.bytes, (signal.expect or 0) * signal.count)
            if effects.waits is not None and effects.waits.barrier in here:
                found[_array(effects.waits.barrier)].waits[_short(program)] = None
    return found


def _roles(programs: Iterable[Program], home: str) -> Iterable[WarpsRow]:
    by_role: dict[str, list[Program]] = {}
    for program in programs:
        by_role.setdefault(program.role, []).append(program)
    for role, parts in by_role.items():
        classes = tuple(part.me.threads for part in parts)
        yield WarpsRow(role.removeprefix(home), sum(classes), classes, sum(len(part.nodes) - 1 for part in parts))


def _how(effects: Effects, write: bool) -> str:
    if effects.lands:
        return "copy"
    if effects.lasting("bulk_group"):
        return "bulk store"
    if effects.lasting("mma_group"):
        return "wgmma"
    if effects.lasting("cp_group"):
        return "cp.async"
    return "st" if write else "ld"


def _buffers(kernel: Kernel, home: str) -> dict[str, _Buffer]:
    barriers = set(kernel.layout.barriers)
    found: dict[str, _Buffer] = {}
    shared = (one for one in kernel.layout.regions if one.space == "shared")
    here = {one.object: one for one in shared if one.declaration not in barriers}
    for name, region in here.items():
        if name.startswith(home):
            found.setdefault(_array(name), _Buffer()).slots[name] = (region.start, region.stop)
    for program in kernel.programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            for access in effects.accesses:
                buffer = found.get(_array(access.object))
                if buffer is not None and access.object in here:
                    who = buffer.writers if access.write else buffer.readers
                    who[_short(program), _how(effects, access.write)] = None
    return found


Signals = dict[str, dict[str, dict[str, None]]]
"""By role, the roles that may go on because of it, and by which rings and barriers of threads."""


def _signals(kernel: Kernel, home: str) -> Signals:
    gives: dict[str, dict[str, None]] = {}
    takes: dict[str, dict[str, None]] = {}
    for program in kernel.programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            given = [copies.barrier for copies, _ in effects.lands]
            given += [one.barrier for one in effects.signals if isinstance(one, op.Arrive)]
            met = meeting_of(program, node.operation)
            if met is not None and isinstance(node.operation, op.NamedSync):
                given.append(met)
                takes.setdefault(met, {})[program.role] = None
            for name in given:
                gives.setdefault(_array(name), {})[program.role] = None
            if effects.waits is not None:
                takes.setdefault(_array(effects.waits.barrier), {})[program.role] = None
    found: Signals = {}
    for name, who in gives.items():
        for giver in who:
            for taker in takes.get(name, {}):
                if taker != giver:
                    found.setdefault(giver, {}).setdefault(taker, {})[name] = None
    return found


def _orders(buffer: _Buffer, signals: Signals) -> Iterable[str]:
    """For each pair of roles of which one writes, the chain of barriers from the one to the other and back."""
    writers = dict.fromkeys(role for role, _ in buffer.writers)
    others = dict.fromkeys(role for role, _ in (*buffer.writers, *buffer.readers))
    told: set[frozenset[str]] = set()
    for writer in writers:
        for other in others:
            pair = frozenset((writer, other))
            if len(pair) < 2 or pair in told:
                continue
            told.add(pair)
            there, back = _chain(writer, other, signals), _chain(other, writer, signals)
            yield f"{writer} {there or '?'} {other}" + (f" {back} {writer}" if back else "")


def _chain(start: str, stop: str, signals: Signals) -> str:
    """`-full->` or `-full-> warp1 -bar1->`, the shortest; "" if there is none."""
    known: dict[str, str] = {start: ""}
    todo = [start]
    while todo:
        role = todo.pop(0)
        for other, names in signals.get(role, {}).items():
            if other not in known:
                step = f"-{'|'.join(names)}->"
                known[other] = f"{known[role]} {role} {step}".strip() if known[role] else step
                todo.append(other)
    return known.get(stop, "")
