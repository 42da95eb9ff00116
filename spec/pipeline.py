"""The language in which a kernel's synchronisation is written down: a class with barriers, buffers and roles.

A role is a Python generator, the kernel with the arithmetic left out. Control flow is ordinary Python; `yield` hands
one operation to the hardware, and only there can another role run.

    class DoubleBuffer(Pipeline):
        stages = 2
        full = barrier(arrivals=1)
        empty = barrier(arrivals=1)
        a = tile(bytes=16_384)

        @role(warps=1)
        def producer(self, at):
            yield self.empty[at].wait(at.phase ^ 1)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])

A role that takes `at` is one iteration of the trip-count loop, with the PipelineState of that iteration. A role that
does not is the whole program, and loops with `for _ in self.loop():`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

from spec import operations as op
from spec.asynchronous import BULK_GROUPS, MMA_GROUPS
from spec.errors import Source, SpecError, here, place_of
from spec.hopper import BULK_ALIGNMENT
from spec.operations import Access
from spec.state import LAPS, Count, Phase, PipelineState

Body: TypeAlias = Generator[op.Operation, Any, Any]
Parameter: TypeAlias = int | str | Callable[[Any], int]
"""A number, the name of a parameter of the pipeline, or a function of the pipeline."""


class Tracer(Protocol):
    """What follows a role while it runs; see spec.program."""

    def created(self, operation: op.Operation) -> None: ...

    def loop_head(self, loop: str, bounded: bool) -> bool: ...

    def count_used(self) -> None: ...


@dataclass(frozen=True)
class Threads:
    """Who executes a role: `threads` threads that behave alike; index 0 of a split role is the one that is elected."""

    name: str
    threads: int
    index: int
    copy: int

    @property
    def leader(self) -> bool:
        return self.index == 0


# ---------------------------------------------------------------- declarations


@dataclass(frozen=True)
class BarrierDeclaration:
    """What barrier() declares."""

    arrivals: Parameter = 1
    slots: Parameter = "stages"
    initialised: bool = True
    address: int | None = None
    where: Source | None = field(default_factory=here, compare=False, repr=False)


@dataclass(frozen=True)
class TileDeclaration:
    """What tile() declares."""

    bytes: Parameter = 1024
    slots: Parameter = "stages"
    shares: str | tuple[str, ...] = ()
    address: int | None = None
    offset: Parameter = 0
    stride: Parameter | None = None
    space: str = "shared"
    holds: Hashable | Callable[[Any], Hashable] = None
    where: Source | None = field(default_factory=here, compare=False, repr=False)


def barrier(
    arrivals: Parameter = 1, slots: Parameter = "stages", *, initialised: bool = True, address: int | None = None
) -> Any:
    """An array of mbarriers, one per stage unless `slots` says otherwise, initialised before the roles start.

    arrivals: the count of mbarrier.init. initialised=False leaves the init to a role. address: first byte, if it
    matters.
    """
    return BarrierDeclaration(arrivals, slots, initialised, address)


def tile(
    bytes: Parameter = 1024,
    slots: Parameter = "stages",
    *,
    shares: str | tuple[str, ...] = (),
    address: int | None = None,
    offset: Parameter = 0,
    stride: Parameter | None = None,
    space: str = "shared",
    holds: Hashable | Callable[[Any], Hashable] = None,
) -> Any:
    """An array of buffers of `bytes` bytes each, one per stage unless `slots` says otherwise.

    shares: the name of another tile whose bytes this one is meant to overlay, `offset` bytes from its start. address:
    first byte, if the layout matters. stride: bytes from slot to slot. space: "shared", "global" or "registers".
    holds: the tag of what is there at the start.
    """
    return TileDeclaration(bytes, slots, shares, address, offset, stride, space, holds)


@dataclass(frozen=True)
class RoleDeclaration:
    """A role's body and the threads that run it."""

    body: Callable[..., Body]
    threads: Parameter
    copies: Parameter
    split: tuple[int, ...]


def role(
    *,
    threads: Parameter | None = None,
    warps: int = 0,
    warpgroups: int = 0,
    copies: Parameter = 1,
    split: tuple[int, ...] = (),
) -> Callable[[Callable[..., Body]], RoleDeclaration]:
    """Marks a generator method as a role of `threads` threads (or 32 * warps, or 128 * warpgroups).

    copies: as many instances of the role, each with its own threads. split: representatives of one role, by number of
    threads, where not all threads do the same: (1, 31) is a warp with an elected lane. The body may take `at` (the
    state of this iteration) and `me` (a Threads).
    """
    count = threads if threads is not None else 32 * warps + 128 * warpgroups or 32

    def declare(body: Callable[..., Body]) -> RoleDeclaration:
        if not inspect.isgeneratorfunction(body):
            what = f"role {body.__name__} never yields: write `yield` in front of each operation"
            raise SpecError(what, place_of(body))
        return RoleDeclaration(body, count, copies, split)

    return declare


# ---------------------------------------------------------------- handles that a role uses


class Barrier:
    """One mbarrier, as a role sees it: each method gives an operation to yield."""

    def __init__(self, owner: Pipeline, name: str) -> None:
        self._owner, self.name = owner, name

    def wait(self, phase: int | Phase | op.Token) -> op.Operation:
        """Loop around mbarrier.try_wait with a parity, or with the token of an arrive: blocks until it has
        completed.
        """
        return self._new(op.Wait(self.name, _parity(phase)))

    def try_wait(self, phase: int | Phase | op.Token) -> op.Operation:
        """One mbarrier.try_wait: the yield gives True, or False (not completed, or the system's time limit)."""
        return self._new(op.Wait(self.name, _parity(phase), "try_wait"))

    def test_wait(self, phase: int | Phase | op.Token) -> op.Operation:
        """One mbarrier.test_wait: the yield gives True or False and never blocks."""
        return self._new(op.Wait(self.name, _parity(phase), "test_wait"))

    def arrive(self, count: int = 1) -> op.Operation:
        """mbarrier.arrive by `count` threads (or with that count operand); the yield gives its token."""
        return self._new(op.Arrive(self.name, count))

    def arrive_expect_tx(self, bytes: int, count: int = 1) -> op.Operation:
        """mbarrier.arrive.expect_tx by `count` threads, each expecting `bytes`."""
        return self._new(op.Arrive(self.name, count, expect=bytes))

    def arrive_no_complete(self, count: int = 1) -> op.Operation:
        """mbarrier.arrive.noComplete."""
        return self._new(op.Arrive(self.name, count, kind="no_complete"))

    def arrive_drop(self, count: int = 1, expect: int | None = None) -> op.Operation:
        """mbarrier.arrive_drop{.expect_tx}."""
        return self._new(op.Arrive(self.name, count, expect=expect, kind="drop"))

    def expect_tx(self, bytes: int) -> op.Operation:
        """mbarrier.expect_tx: announces bytes without arriving."""
        return self._new(op.Transaction(self.name, bytes))

    def complete_tx(self, bytes: int) -> op.Operation:
        """mbarrier.complete_tx: simulates that many bytes arriving."""
        return self._new(op.Transaction(self.name, -bytes))

    def init(self, count: int) -> op.Operation:
        """mbarrier.init."""
        return self._new(op.Init(self.name, count))

    def inval(self) -> op.Operation:
        """mbarrier.inval."""
        return self._new(op.Inval(self.name))

    def _new(self, operation: op.Operation) -> op.Operation:
        return self._owner.created(operation)

    def __bool__(self) -> bool:
        raise SpecError(f"{self.name} has no truth value: yield {self.name}.test_wait(phase) gives one")


class Tile:
    """One buffer, as a role sees it. `tag` names the data: a read with a tag must find what was written with that
    tag.
    """

    def __init__(self, owner: Pipeline, access: Access, tag: Hashable) -> None:
        self._owner, self.access, self.tag = owner, access, tag
        self.bytes = access.stop - access.start

    def load(self, signals: Barrier, bytes: int | None = None, tag: Hashable = None, pieces: int = 1) -> op.Operation:
        """TMA or cp.async.bulk into this buffer, whose `bytes` are signalled on a barrier, in one or more pieces."""
        count = self.bytes if bytes is None else bytes
        if count < BULK_ALIGNMENT or count % (BULK_ALIGNMENT * pieces):
            raise SpecError(
                f"a bulk copy of {count} bytes in {pieces} pieces: use a positive multiple of {BULK_ALIGNMENT} for each"
            )
        whole = Access(
            self.access.object, self.access.space, self.access.start, self.access.start + count, True, "async"
        )
        return self._owner.created(op.Load(whole, signals.name, count, self._tag(tag), pieces))

    def mma(self, tag: Hashable = None, *, commit: bool = True) -> op.Operation:
        """wgmma.mma_async that reads this buffer until its group is waited for; `commit` closes the group at once."""
        return self._owner.created(op.Touch("mma", (op.as_read(self.access, "async"),), (self._tag(tag),), commit))

    def read(self, tag: Hashable = None) -> op.Operation:
        """Ordinary loads (ld.shared, ldmatrix) of this buffer, complete at once."""
        return self._owner.created(op.Touch("read", (op.as_read(self.access, "generic"),), (self._tag(tag),)))

    def write(self, tag: Hashable = None) -> op.Operation:
        """Ordinary stores (st.shared, stmatrix) to this buffer."""
        return self._owner.created(op.Touch("write", (op.as_write(self.access, "generic"),), (self._tag(tag),)))

    def store(self, to: Tile | None = None, tag: Hashable = None, tensormap: Tile | None = None) -> op.Operation:
        """TMA store of this buffer: reads it and its tensormap, then writes `to`, until its bulk group is waited
        for.
        """
        destination = None if to is None else op.as_write(to.access, "async")
        described = None if tensormap is None else op.as_read(tensormap.access, "async")
        reads = (op.as_read(self.access, "async"),)
        return self._owner.created(op.Store(reads, (self._tag(tag),), destination, described))

    def _tag(self, tag: Hashable) -> Hashable:
        return _plain_tag(self.tag if tag is None else tag)

    def __bool__(self) -> bool:
        raise SpecError(f"{self.access.object} has no truth value: its contents are not part of the model")


class Array:
    """The slots of a declaration: index it with a PipelineState, a count reduced by %, or a plain number."""

    def __init__(self, name: str, slots: int, get: Callable[[int, Hashable], Any], bytes: int = 0) -> None:
        self.name, self.slots, self._get, self.bytes = name, slots, get, bytes

    def __getitem__(self, at: int | PipelineState) -> Any:
        index, tag = (at.index, at.tag) if isinstance(at, PipelineState) else (at.__index__(), None)
        if not 0 <= index < self.slots:
            raise SpecError(f"{self.name}[{index}]: it has {self.slots} slots, 0 to {self.slots - 1}")
        return self._get(index, tag)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.slots == 1 and hasattr(Barrier if self.bytes == 0 else Tile, name):
            return getattr(self._get(0, None), name)
        kind = Barrier if self.bytes == 0 else Tile
        if not hasattr(kind, name):
            verbs = ", ".join(verb for verb in vars(kind) if not verb.startswith("_"))
            raise SpecError(f"{self.name} has no {name!r}: it has {verbs}")
        raise SpecError(f"{self.name}.{name}: index it first, for example {self.name}[at].{name}")

    def __bool__(self) -> bool:
        raise SpecError(f"{self.name} has no truth value: a role can only ask for what it was given or has waited for")


# ---------------------------------------------------------------- the pipeline


class Pipeline:
    """Base class of every model. Class attributes that are plain values are its parameters; keyword arguments set them.

    stages: slots of barriers and tiles that do not say otherwise. trips: a number of iterations; "all" (every trip
    count from 0 on, and no end); or "forever" (no end). registers: registers per thread at launch, for setmaxnreg.
    """

    stages: int = 1
    trips: int | str = "all"
    registers: int = 168
    strict: bool = False
    """Demand a proxy fence between generic reads and the bulk copy that overwrites them, and no store in flight at
    exit.
    """

    default_period: ClassVar[int] = 0

    def __init__(self, **parameters: Any) -> None:
        self._tracer: Tracer | None = None
        names = self.parameter_names()
        for name, value in parameters.items():
            if name not in names:
                raise SpecError(f"{type(self).__name__} has no parameter {name!r}: it has {', '.join(names)}", here())
            object.__setattr__(self, name, value)
        self._arrays: dict[str, Array] = {}
        from spec.layout import lay_out

        self.layout = lay_out(self)

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """The class attributes that can be set, in declaration order, base classes first."""
        found: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if not name.startswith("_") and isinstance(value, int | str) and name != "default_period":
                    found[name] = None
        return tuple(found)

    @property
    def name(self) -> str:
        return str(getattr(type(self), "_label", type(self).__name__))

    def parameters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.parameter_names()}

    def value(self, parameter: Parameter) -> int:
        """A declaration's parameter as a number."""
        if isinstance(parameter, str):
            return int(getattr(self, parameter))
        return parameter if isinstance(parameter, int) else parameter(self)

    def created(self, operation: op.Operation) -> op.Operation:
        """Tells the tracer of an operation, so that one that is never yielded is noticed."""
        if self._tracer is not None:
            self._tracer.created(operation)
        return operation

    # -- loops

    def loop(self, trips: int | str | None = None, *, period: int = 0, name: str = "trips") -> Iterator[Any]:
        """The trip-count loop: `trips` iterations, or with "all" every number of them, shared by all roles that loop.

        Gives the number of the iteration. period: the number after which counts recur, if a multiple of the default
        (4 * stages) is not it.
        """
        trips = self.trips if trips is None else trips
        if isinstance(trips, int) and not isinstance(trips, bool):
            if trips < 0:
                raise SpecError(f"a loop of {trips} trips: use 0 or more, 'all' or 'forever'")
            return iter(range(trips))
        if trips not in ("all", "forever"):
            raise SpecError(f"a loop of {trips!r} trips: use a number, 'all' or 'forever'")
        return self._endless(period or self.default_period or LAPS * max(1, self.stages), trips == "all", name)

    def forever(self, *, period: int = 0) -> Iterator[Any]:
        """A loop that never ends."""
        return self.loop("forever", period=period, name="forever")

    def _endless(self, period: int, bounded: bool, name: str) -> Iterator[Any]:
        if self._tracer is None:
            raise SpecError("loop() outside a role")
        return _EndlessLoop(self._tracer, period, bounded, name)

    # -- operations that belong to no barrier or buffer

    def mma(self, *tiles: Tile, commit: bool = True) -> op.Operation:
        """One wgmma group that reads several buffers."""
        reads = tuple(op.as_read(one.access, "async") for one in tiles)
        return self.created(op.Touch("mma", reads, tuple(_plain_tag(one.tag) for one in tiles), commit))

    def store(self, *tiles: Tile, to: Tile | None = None) -> op.Operation:
        """One TMA store of bytes that were written as several buffers."""
        reads = tuple(op.as_read(one.access, "async") for one in tiles)
        destination = None if to is None else op.as_write(to.access, "async")
        return self.created(op.Store(reads, tuple(_plain_tag(one.tag) for one in tiles), destination))

    def mma_commit(self) -> op.Operation:
        """wgmma.commit_group."""
        return self.created(op.Group("mma_commit"))

    def mma_wait(self, pending: int) -> op.Operation:
        """wgmma.wait_group: at most `pending` groups of this warpgroup are still reading."""
        return self.created(op.Group("mma_wait", _pending(pending, MMA_GROUPS)))

    def bulk_commit(self) -> op.Operation:
        """cp.async.bulk.commit_group."""
        return self.created(op.Group("bulk_commit"))

    def bulk_wait(self, pending: int) -> op.Operation:
        """cp.async.bulk.wait_group: older groups of this thread are complete, their writes visible."""
        return self.created(op.Group("bulk_wait", _pending(pending, BULK_GROUPS)))

    def bulk_wait_read(self, pending: int) -> op.Operation:
        """cp.async.bulk.wait_group.read: older groups of this thread have read their source."""
        return self.created(op.Group("bulk_wait_read", _pending(pending, BULK_GROUPS)))

    def fence_proxy_async(self) -> op.Operation:
        """fence.proxy.async: this thread's generic accesses before it are ordered before async accesses after it."""
        return self.created(op.Fence("proxy_async"))

    def fence_mbarrier_init(self) -> op.Operation:
        """fence.mbarrier_init.release.cluster."""
        return self.created(op.Fence("mbarrier_init"))

    def named_sync(self, id: int, threads: int) -> op.Operation:
        """bar.sync id, threads."""
        return self.created(op.NamedSync(id, threads))

    def named_arrive(self, id: int, threads: int) -> op.Operation:
        """bar.arrive id, threads."""
        return self.created(op.NamedSync(id, threads, blocks=False))

    def cta_sync(self) -> op.Operation:
        """__syncthreads()."""
        return self.created(op.CtaSync())

    def warp_sync(self) -> op.Operation:
        """__syncwarp() among the representatives of a split role."""
        return self.created(op.WarpSync())

    def choose(self, name: str, *options: Hashable) -> op.Operation:
        """A value that the model leaves open; the n-th choice of a name is the same for every role. Yield it."""
        if len(options) < 2:
            raise SpecError(f"choose({name!r}) needs at least two options")
        return self.created(op.Choose(name, options))

    def setmaxnreg_dec(self, registers: int) -> op.Operation:
        """setmaxnreg.dec."""
        return self.created(op.Setmaxnreg(registers, "dec"))

    def setmaxnreg_inc(self, registers: int) -> op.Operation:
        """setmaxnreg.inc: blocks until the CTA's pool has the registers."""
        return self.created(op.Setmaxnreg(registers, "inc"))

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if isinstance(value, BarrierDeclaration | TileDeclaration):
            return object.__getattribute__(self, "_arrays")[name]
        return value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [key for base in reversed(type(self).__mro__[:-2]) for key in vars(base) if not key.startswith("_")]
        raise SpecError(f"{type(self).__name__} has no barrier, tile or parameter {name!r}: it has {', '.join(known)}")


class _EndlessLoop:
    """Iterator that shows the tracer each loop head, and stops when the tracer says that the trip count is reached."""

    def __init__(self, tracer: Tracer, period: int, bounded: bool, name: str) -> None:
        self._tracer, self._period, self._bounded, self._name = tracer, period, bounded, name
        self._next = 0

    def __iter__(self) -> _EndlessLoop:
        return self

    def __next__(self) -> Count:
        if not self._tracer.loop_head(self._name, self._bounded):
            raise StopIteration
        self._next += 1
        return Count(self._next - 1, self._period, self._tracer.count_used)


def _parity(phase: int | Phase | op.Token) -> int | Phase | op.Token:
    if isinstance(phase, int) and phase not in (0, 1):
        raise SpecError(f"a wait with phase {phase}: parity is 0 or 1 (write phase & 1)")
    return phase


def _pending(pending: int, groups: int) -> int:
    if not 0 <= pending < groups:
        raise SpecError(f"a wait that leaves {pending} groups pending: use 0 to {groups - 1}")
    return pending


def _plain_tag(tag: Hashable) -> Hashable:
    if isinstance(tag, Count | PipelineState):
        return tag.tag
    if isinstance(tag, tuple):
        return tuple(_plain_tag(part) for part in tag)
    if not isinstance(tag, Hashable):
        raise SpecError(f"the tag {tag!r}: a tag is a number, a string, a count, a state or a tuple of them")
    return tag
