"""What a kernel is made of, and what it could do without: rows for people, as data; and the lines it was made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RingRow:
    """A ring of barriers of a kernel. address: of its first slot, in dynamic shared memory. arrivals: of a phase;
    bytes: that an arrival expects. arrive, copies, waits: the roles that arrive there, whose copies signal it, and that
    wait.
    """

    ring: str
    slots: int
    address: int
    arrivals: int
    bytes: int
    arrive: tuple[str, ...]
    copies: tuple[str, ...]
    waits: tuple[str, ...]


@dataclass(frozen=True)
class WarpsRow:
    """A role of a kernel. classes: threads of each class of lanes that do the same. operations: of all of these."""

    role: str
    threads: int
    classes: tuple[int, ...]
    operations: int


@dataclass(frozen=True)
class BufferRow:
    """A buffer of a kernel. address: of its first slot, in dynamic shared memory; bytes: of a slot. writers, readers:
    roles, and how. orders: for each pair of them of which one writes, the barriers from one to the other and back.
    """

    buffer: str
    slots: int
    address: int
    bytes: int
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    orders: tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """An operation without which a proof still holds, in all that execute its line. together: with the others of which
    this is said. origin: the lines from which it was compiled, the innermost of inlined functions first.
    """

    what: str
    file: str
    line: int
    together: bool
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelTable:
    """What a CTA of a kernel is made of. base: the shared::cta address that the others count from. block: the CTA in
    the grid; alike: CTAs with the same rings. others: the tables of CTAs that have others.
    """

    rings: tuple[RingRow, ...]
    roles: tuple[WarpsRow, ...]
    buffers: tuple[BufferRow, ...]
    base: int = 0
    block: tuple[int, int, int] = (0, 0, 0)
    alike: tuple[tuple[int, int, int], ...] = ()
    others: tuple[KernelTable, ...] = ()


def compiled_from(origin: tuple[str, ...]) -> str:
    """The lines from which one was compiled, to stand behind it: of many functions that were inlined into each other,
    the innermost two and the outermost.
    """
    names = [one.rpartition("/")[2] for one in origin]
    shown = names if len(names) < 4 else [*names[:2], "…", names[-1]]
    return f" ({' < '.join(shown)})" if shown else ""
