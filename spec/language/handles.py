"""What a role holds in its hands: barriers, buffers, and arrays of them; each method gives an operation to yield."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.barriers import Barrier
from sm90_verify.spec.language.state import Count, PipelineState
from sm90_verify.spec.language.values import Owner, number, one_of, plain_tag
from sm90_verify.spec.language.word import Word
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT
from sm90_verify.spec.ptx.memory import WIDER, Access, Scope, Strong, as_read, as_write

__all__ = ["Array", "Barrier", "Owner", "Tile", "Word", "one_tile", "unyieldable"]


class Tile:
    """One buffer, as a role sees it. `tag` names the data: a read with a tag must find what was written with that
    tag.
    """

    __slots__ = ("_everywhere", "_owner", "access", "bytes", "tag")

    def __init__(
        self, owner: Owner, access: Access, tag: Hashable, everywhere: Callable[[int], Tile] | None = None
    ) -> None:
        self._owner, self.access, self.tag, self._everywhere = owner, access, tag, everywhere
        self.bytes = access.stop - access.start

    def on(self, cta: int) -> Tile:
        """The buffer at the same place in the shared memory of another CTA (distributed shared memory)."""
        return self if self._everywhere is None else self._everywhere(cta)

    def part(self, start: int, bytes: int) -> Tile:
        """So many bytes of the buffer from `start` on: what one warp stores of it, or one wgmma reads."""
        fits = isinstance(start, int) and isinstance(bytes, int) and 0 <= start < start + bytes <= self.bytes
        if not fits:
            what = f"{bytes!r} bytes from byte {start!r} on of {self.access.object}"
            raise SpecError(f"{what}: it has {self.bytes}, and a part has 1 or more of them")
        first = self.access.start + start
        mine, all_of = self.access._replace(start=first, stop=first + bytes), self._everywhere
        on = None if all_of is None else lambda cta: all_of(cta).part(start, bytes)
        return Tile(self._owner, mine, self.tag, on)

    def of(self, tag: Hashable) -> Tile:
        """The buffer for data with another tag than that of the state which picked it."""
        return Tile(self._owner, self.access, tag, self._everywhere)

    def load(
        self,
        signals: Barrier,
        bytes: int | None = None,
        tag: Hashable = None,
        pieces: int = 1,
        multicast: Sequence[int] | None = None,
        source: Tile | None = None,
        tensormap: Tile | None = None,
    ) -> op.Operation:
        """TMA or cp.async.bulk into this buffer, whose `bytes` are signalled on a barrier, in one or more pieces.

        multicast: the CTAs of the mask (.multicast::cluster); each gets the bytes, and the signal, at the same place.
        source: a buffer in global memory, or in the CTA's own shared memory, that is read until the copy has landed;
        None is global memory that nobody writes. tensormap: the one that describes the copy, if the kernel writes it.
        """
        count = number(self.bytes if bytes is None else bytes, "bytes of a bulk copy")
        number(pieces, "pieces of a bulk copy", least=1)
        signals = _one_barrier(signals)
        if count < BULK_ALIGNMENT or count % (BULK_ALIGNMENT * pieces):
            raise SpecError(
                f"a bulk copy of {count} bytes in {pieces} pieces: use a positive multiple of {BULK_ALIGNMENT} for each"
            )
        if multicast is None:
            (write, barrier), *also = [(self._first(count), signals.name)]
        elif not multicast or len(set(multicast)) != len(multicast):
            raise SpecError(f"a multicast to {list(multicast)}: name at least one CTA, each once")
        else:
            (write, barrier), *also = [(self.on(cta)._first(count), signals.on(cta).name) for cta in multicast]
        read = None if source is None else as_read(one_tile(source).access, "async")
        described = _described_by(tensormap)
        return self._owner.created(op.Load(write, barrier, count, self._tag(tag), pieces, tuple(also), read, described))

    def _first(self, count: int) -> Access:
        return self.access._replace(stop=self.access.start + count, write=True, proxy="async")

    def mma(self, tag: Hashable = None, *, into: Tile | Array | None = None, commit: bool = True) -> op.Operation:
        """wgmma.mma_async that reads this buffer until its group is waited for, and accumulates in the registers `into`
        if they are part of the model; `commit` closes the group at once. Of registers, without `into`: it accumulates
        in these.
        """
        if self.access.space == "registers" and into is None:
            return self._owner.created(accumulating((), (), self.of(self._tag(tag)), commit))
        return self._owner.created(accumulating((as_read(self.access, "async"),), (self._tag(tag),), into, commit))

    def _touched(self, kind: op.TouchKind, value: Hashable, scope: Scope | None) -> tuple[Access, Hashable]:
        """An ordinary access of it, as part of one of several buffers, and its tag."""
        access = as_read(self.access, "generic") if kind == "read" else as_write(self.access, "generic")
        strong = None if scope is None else self._strong(scope)
        return access._replace(value=value, strong=strong), self._tag(None, value)

    def read(self, tag: Hashable = None, *, value: Hashable = None, among: Sequence[Hashable] = ()) -> op.Operation:
        """Ordinary loads (ld.shared, ldmatrix) of this buffer, complete at once.

        value: what must be found in every byte, see `write`. among: the yield gives the tag that is found, which must
        be one of these; so roles can do different things because of what they read.
        """
        access = as_read(self.access, "generic")
        if among:
            return self._owner.created(op.Find(access, tuple(plain_tag(one) for one in among)))
        return self._owner.created(op.Touch("read", (access._replace(value=value),), (self._tag(tag, value),)))

    def write(self, tag: Hashable = None, *, value: Hashable = None) -> op.Operation:
        """Ordinary stores (st.shared, stmatrix) to this buffer.

        value: all that is written, where several roles may write the same: writes of one value to the same bytes do not
        race with each other. A read that must find this value may come before them where nothing orders it.
        """
        access = as_write(self.access, "generic")._replace(value=value)
        return self._owner.created(op.Touch("write", (access,), (self._tag(tag, value),)))

    def red(self, tag: Hashable = None, scope: Scope = "gpu") -> op.Operation:
        """red or atom on this buffer, relaxed: they do not race with each other, and do with ordinary accesses."""
        access = as_write(self.access, "generic")._replace(strong=self._strong(scope))
        return self._owner.created(op.Touch("red", (access,), (self._tag(tag),)))

    def reduce(self, to: Tile, tag: Hashable = None) -> op.Operation:
        """cp.reduce.async.bulk{.tensor}: adds this buffer to `to` in global memory, in a bulk group. Reductions do not
        race with each other, and do with other accesses.
        """
        destination = as_write(one_tile(to).access, "async")._replace(strong=self._strong("gpu"))
        reads = (as_read(self.access, "async"),)
        return self._owner.created(op.Store(reads, (self._tag(tag),), destination))

    def _strong(self, scope: Scope) -> Strong:
        return Strong(one_of(scope, WIDER, "a scope"), *self._owner._launch.place(self._owner._cta))

    def tensormap_replace(self, tag: Hashable = None) -> op.Operation:
        """tensormap.replace, of this tensormap in shared or global memory: an ordinary write."""
        return self.write(tag)

    def tensormap_cp_fenceproxy(self, source: Tile, tag: Hashable = None, scope: Scope = "gpu") -> op.Operation:
        """tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release: this tensormap in global memory is
        written from `source`, and released to whoever acquires it in the scope.
        """
        read = as_read(one_tile(source).access, "generic")
        return self._owner.created(op.CopyMap(read, as_write(self.access, "generic"), self._tag(tag), scope))

    def store(self, to: Tile | None = None, tag: Hashable = None, tensormap: Tile | None = None) -> op.Operation:
        """TMA store of this buffer: reads it and its tensormap, then writes `to`, until its bulk group is waited
        for.
        """
        destination = None if to is None else as_write(one_tile(to).access, "async")
        described = _described_by(tensormap)
        reads = (as_read(self.access, "async"),)
        return self._owner.created(op.Store(reads, (self._tag(tag),), destination, described))

    def cp_async(self, source: Tile | Array | None = None, tag: Hashable = None) -> op.Operation:
        """cp.async (not bulk) into this buffer, of global memory: ordinary accesses that go on until the group of the
        thread's cp.asyncs has been waited for.
        """
        read = None if source is None else as_read(one_tile(source).access, "generic")
        return self._owner.created(op.CpAsync(as_write(self.access, "generic"), self._tag(tag), read))

    def store_async(
        self, signals: Barrier | Array, bytes: int | None = None, tag: Hashable = None, pieces: int = 1
    ) -> op.Operation:
        """st.async of registers into the first `bytes` of this buffer, all of them unless said; each piece is signalled
        on a barrier of the same CTA: `self.a.on(1).store_async(signals=self.full.on(1))`.
        """
        return self._store_async(signals, bytes, tag, pieces, None)

    def reduce_async(
        self, signals: Barrier | Array, bytes: int | None = None, tag: Hashable = None, pieces: int = 1
    ) -> op.Operation:
        """red.async, as store_async; it does not race with others of its cluster."""
        return self._store_async(
            signals, bytes, tag, pieces, Strong("cluster", *self._owner._launch.place(self._owner._cta))
        )

    def _store_async(
        self, signals: object, bytes: int | None, tag: Hashable, pieces: int, strong: Strong | None
    ) -> op.Operation:
        count = number(self.bytes if bytes is None else bytes, "bytes of st.async", least=1)
        number(pieces, "pieces of st.async", least=1)
        write = as_write(self.access._replace(stop=self.access.start + count), "generic")._replace(strong=strong)
        return self._owner.created(op.StoreAsync(write, _one_barrier(signals).name, count, self._tag(tag), pieces))

    def _tag(self, tag: Hashable, value: Hashable = None) -> Hashable:
        if tag is not None and value is not None:
            raise SpecError(f"{self.access.object} with a tag and a value: a value is its own tag, leave the tag out")
        given = value if tag is None else tag
        return plain_tag(self.tag if given is None else given)

    def __bool__(self) -> bool:
        raise SpecError(f"{self.access.object} has no truth value: its contents are not part of the model")


def _one_barrier(signals: object) -> Barrier:
    """The barrier that an argument names: a barrier, or an array of one slot."""
    if isinstance(signals, Array) and signals.slots == 1:
        signals = signals[0]
    if not isinstance(signals, Barrier):
        name = getattr(signals, "name", repr(signals))
        raise SpecError(f"a bulk copy that signals {name}: name one barrier, for example signals=self.full[at]")
    return signals


def accumulating(
    reads: tuple[Access, ...], tags: tuple[Hashable, ...], into: Tile | Array | None, commit: bool
) -> op.Touch:
    """A wgmma, with its accumulator if that is part of the model."""
    if into is None:
        return op.Touch("mma", reads, tags, commit)
    tile = one_tile(into)
    return op.Touch("mma", reads, tags, commit, as_write(tile.access, "async"), plain_tag(tile.tag))


_INDICES = (PipelineState, Count, int)


class Array:
    """The slots of a declaration: index it with a PipelineState, a count reduced by %, or a plain number."""

    __slots__ = ("_get", "_kind", "bytes", "name", "slots")

    def __init__(
        self,
        name: str,
        slots: int,
        get: Callable[[int, Hashable], Any],
        kind: type[Barrier] | type[Tile] | type[Word],
        bytes: int = 0,
    ) -> None:
        self.name, self.slots, self._get, self._kind, self.bytes = name, slots, get, kind, bytes

    def __getitem__(self, at: int | PipelineState) -> Any:
        if not isinstance(at, _INDICES):
            raise SpecError(f"{self.name}[{at!r}]: index it with a pipeline state or a number")
        index = at.index if isinstance(at, PipelineState) else at.__index__()
        tag = at.tag if isinstance(at, PipelineState) and self.bytes else None
        if self.slots == 0:
            raise SpecError(f"{self.name}[{index}]: {self.name} has no slot with these parameters")
        if not 0 <= index < self.slots:
            raise SpecError(f"{self.name}[{index}]: its slots are 0 to {self.slots - 1}")
        return self._get(index, tag)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        kind = self._kind
        if self.slots == 1 and hasattr(kind, name):
            return getattr(self._get(0, None), name)
        if not hasattr(kind, name):
            verbs = ", ".join(verb for verb, code in vars(kind).items() if verb[0] != "_" and callable(code))
            raise SpecError(f"{self.name} has no {name!r}: it has {verbs}")
        raise SpecError(f"{self.name}.{name}: index it first, for example {self.name}[at].{name}")

    def __bool__(self) -> bool:
        raise SpecError(f"{self.name} has no truth value: a role can only ask for what it was given or has waited for")


def _described_by(tensormap: object) -> Access | None:
    return None if tensormap is None else as_read(one_tile(tensormap).access, "tensormap")


def one_tile(handle: object) -> Tile:
    """The buffer that an argument names: a tile, or an array of one slot."""
    if isinstance(handle, Array) and handle.slots == 1:
        handle = handle[0]
    if not isinstance(handle, Tile):
        name = getattr(handle, "name", repr(handle))
        raise SpecError(f"{name} is not one buffer: name one, for example self.a[at]")
    return handle


VERBS: dict[type, str] = {Barrier: "arrive()", Tile: "read()", Word: "ld()"}
"""What can be said of each kind of handle."""


def unyieldable(thing: object) -> str:
    """What is wrong with something that a role has yielded and that only leads to an operation; "" if it does not."""
    if isinstance(thing, Array):
        name, verb = f"{thing.name}[at]", VERBS[thing._kind]
        return f"a role yielded {thing.name}, which is no operation: say what is done, for example {name}.{verb}"
    if isinstance(thing, Barrier | Tile | Word):
        name = thing.name if isinstance(thing, Barrier) else thing.access.object
        verb = VERBS[type(thing)]
        return f"a role yielded {name}, which is no operation: say what is done, for example {name}.{verb}"
    if callable(thing):
        name = getattr(thing, "__name__", repr(thing))
        return f"a role yielded {name}, which was not called: write {name}(...)"
    if isinstance(thing, list | tuple) and any(isinstance(one, op.Yielded) for one in thing):
        return "a role yielded several operations at once: yield each by itself"
    return ""
