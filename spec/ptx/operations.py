"""What a role can yield: one frozen record per operation, in PTX's terms, without any meaning yet.

`Operation` is the union of all of them, and it is closed: whoever reads operations has a case for each and ends in
`assert_never`, so that mypy lists every place that a new record must reach; and `unknown` says of what a role has
yielded why it is none of them, before anybody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import BULK_GROUPS, COUNT_LIMIT, CTA_THREADS
from sm90_verify.spec.ptx.memory import Access

WaitKind: TypeAlias = Literal["wait", "try_wait", "test_wait"]
ArriveKind: TypeAlias = Literal["arrive", "drop", "no_complete"]
TouchKind: TypeAlias = Literal["read", "write", "mma"]
GroupKind: TypeAlias = Literal["mma_commit", "mma_wait", "bulk_commit", "bulk_wait", "bulk_wait_read"]
FenceKind: TypeAlias = Literal["proxy_async", "mbarrier_init"]
RegistersKind: TypeAlias = Literal["dec", "inc"]
Count: TypeAlias = Annotated[int, range(COUNT_LIMIT + 1)]
"""Of arrivals, or of bytes."""


class Yielded:
    """Something that only means anything when it is yielded."""

    _effects = None
    """Its Effects, once they have been asked for (spec.ptx.effects)."""
    _led = None
    """The Held before it that was asked about last, and the one after it (spec.ptx.groups)."""

    def __bool__(self) -> bool:
        raise SpecError(
            "an operation has no truth value: write `yield` in front of it (try_wait, test_wait and choose give their "
            "answer as the value of the yield)"
        )

    def __iter__(self) -> NoReturn:
        raise SpecError("an operation has no parts: write `yield` in front of it, not `yield from`")


@dataclass(frozen=True)
class Token:
    """The state that mbarrier.arrive returns, to be waited with: it stands for the phase of that arrival."""

    barrier: str


@dataclass(frozen=True)
class Init(Yielded):
    """mbarrier.init with the arrival count `count`. remote: of a barrier of another CTA, which PTX does not have.
    write: the barrier's bytes, where a buffer lies in them too.
    """

    barrier: str
    count: int
    remote: bool = False
    write: Access | None = None


@dataclass(frozen=True)
class Inval(Yielded):
    """mbarrier.inval. remote, write: as for Init."""

    barrier: str
    remote: bool = False
    write: Access | None = None


@dataclass(frozen=True)
class Wait(Yielded):
    """kind: "wait" blocks; "try_wait" may also give up, "test_wait" only looks: both answer True or False.

    phase: a parity (a Phase, if it comes from a state), or the token of the role's last arrival. remote: as for Init.
    """

    barrier: str
    phase: Annotated[int, range(2)] | Token
    kind: WaitKind = "wait"
    remote: bool = False


@dataclass(frozen=True)
class Arrive(Yielded):
    """kind: "arrive", "drop" or "no_complete"; expect: bytes of arrive.expect_tx, or None for a plain arrive.

    count: the operand, or as many threads that arrive once each; with expect, each of them expects so many bytes. cta:
    the CTA of the barrier, if it is another one (the .shared::cluster form); -1 for the thread's own.
    """

    barrier: str
    count: Count = 1
    expect: Count | None = None
    kind: ArriveKind = "arrive"
    cta: int = -1


@dataclass(frozen=True)
class Transaction(Yielded):
    """expect_tx (bytes >= 0) or complete_tx (bytes < 0) without an arrival; cta as for an Arrive."""

    barrier: str
    bytes: Annotated[int, range(-COUNT_LIMIT, COUNT_LIMIT + 1)]
    cta: int = -1


@dataclass(frozen=True)
class Load(Yielded):
    """cp.async.bulk{.tensor} global -> shared: written at any later time, in `pieces`, then complete_tx on the barrier.

    bytes: those that it signals in each CTA, a multiple of `pieces`. tag: of the data that it brings. also: with
    .multicast::cluster, the same bytes of the other CTAs of the mask and the barriers that they signal; in each CTA the
    copy lands at a time of its own.
    """

    write: Access
    barrier: str
    bytes: int
    tag: Hashable
    pieces: int = 1
    also: tuple[tuple[Access, str], ...] = ()

    @property
    def destinations(self) -> tuple[tuple[Access, str], ...]:
        """What is written and which barrier is signalled, in every CTA of the mask."""
        return ((self.write, self.barrier), *self.also)


@dataclass(frozen=True)
class Touch(Yielded):
    """Accesses of one kind: "read" or "write" (generic, at once), "mma" (wgmma, until its group is waited for).

    tags: of each access, the data that a read must find (None: any) or that a write leaves. commit: wgmma.commit_group
    follows at once.
    """

    kind: TouchKind
    accesses: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    commit: bool = False


@dataclass(frozen=True)
class Store(Yielded):
    """cp.async.bulk{.tensor} shared -> global: reads sources and tensormap, writes its destination, until its group is
    waited for. tags: as for a Touch, of each source.
    """

    sources: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    destination: Access | None = None
    tensormap: Access | None = None

    @property
    def reads(self) -> tuple[Access, ...]:
        """The sources, and the tensormap if there is one."""
        return self.sources if self.tensormap is None else (*self.sources, self.tensormap)


@dataclass(frozen=True)
class Group(Yielded):
    """kind: "mma_commit", "mma_wait", "bulk_commit", "bulk_wait" or "bulk_wait_read"; pending: groups still allowed."""

    kind: GroupKind
    pending: Annotated[int, range(BULK_GROUPS)] = 0


@dataclass(frozen=True)
class Fence(Yielded):
    """kind: "proxy_async" (fence.proxy.async) or "mbarrier_init" (fence.mbarrier_init.release.cluster)."""

    kind: FenceKind


@dataclass(frozen=True)
class NamedSync(Yielded):
    """bar.sync (blocks) or bar.arrive (does not): `threads` is the count that the instruction names."""

    id: int
    threads: Annotated[int, range(CTA_THREADS + 1)]
    blocks: bool = True


@dataclass(frozen=True)
class CtaSync(Yielded):
    """__syncthreads(): all threads of the CTA that have not exited."""


@dataclass(frozen=True)
class ClusterArrive(Yielded):
    """barrier.cluster.arrive; `release`: .release (the default) or .relaxed, which orders no memory access."""

    release: bool = True


@dataclass(frozen=True)
class ClusterWait(Yielded):
    """barrier.cluster.wait, of the generation in which the thread has arrived."""


@dataclass(frozen=True)
class WarpSync(Yielded):
    """__syncwarp(), or a barrier of one warpgroup alone: all representatives of the role."""


@dataclass(frozen=True)
class Choose(Yielded):
    """A choice that the model cannot know and that all roles share: the n-th choice of a name is the same for all."""

    name: str
    options: Annotated[tuple[Hashable, ...], range(2, COUNT_LIMIT)]


@dataclass(frozen=True)
class Setmaxnreg(Yielded):
    """setmaxnreg.dec or .inc to `registers` a thread, by all threads of the role."""

    registers: int
    kind: RegistersKind


Operation: TypeAlias = (
    Init
    | Inval
    | Wait
    | Arrive
    | Transaction
    | Load
    | Touch
    | Store
    | Group
    | Fence
    | NamedSync
    | CtaSync
    | ClusterArrive
    | ClusterWait
    | WarpSync
    | Choose
    | Setmaxnreg
)
"""All that a role can yield."""

Signal: TypeAlias = Init | Inval | Arrive | Transaction
"""What changes an mbarrier by itself, without a copy."""

Meeting: TypeAlias = NamedSync | CtaSync | WarpSync | ClusterArrive | ClusterWait
"""The operations on barriers of threads."""

OPERATIONS: tuple[type[Any], ...] = get_args(Operation)


@cache
def _fields(record: type[Any]) -> tuple[tuple[str, Any, tuple[str, ...]], ...]:
    """The fields of a record, with their types, or the words that they can be."""
    types = get_type_hints(record, include_extras=True).items()
    return tuple((name, type_, get_args(type_) if get_origin(type_) is Literal else ()) for name, type_ in types)


@cache
def _tests(record: type[Any]) -> tuple[tuple[str, Callable[[Any], bool]], ...]:
    """The fields of a record, and what their values must pass."""
    return tuple((name, fits(type_)) for name, type_, _ in _fields(cast(Any, record)))


def unknown(thing: object) -> str:
    """What is wrong with something that a role has yielded: no engine knows what it does; "" if they all do.

    Its class must be one of the union itself: a subclass, or an object with the same fields, may mean anything.
    """
    if type(thing) not in OPERATIONS:
        bases = [base.__name__ for base in type(thing).__mro__[1:] if base in OPERATIONS]
        why = f"{type(thing).__name__} is a subclass of {bases[0]}" if bases else repr(thing)
        return f"a role yielded {why}, which no engine knows: yield an operation of spec.ptx.operations"
    for name, test in _tests(cast(Any, type(thing))):
        if not test(getattr(thing, name)):
            from sm90_verify.spec.ptx.misfit import misfit

            where, why = misfit(thing)
            return f"a role yielded {thing!r}, whose {where} no engine knows: {why}"
    if isinstance(thing, Touch | Store) and len(thing.tags) != len(_tagged(thing)):
        of_each = f"use {len(_tagged(thing))}, one for each access"
        return f"a role yielded {thing!r}, whose tags no engine knows: {of_each}"
    return ""


def _tagged(operation: Touch | Store) -> tuple[Access, ...]:
    return operation.accesses if isinstance(operation, Touch) else operation.sources


@cache
def fits(type_: Any) -> Callable[[Any], bool]:
    """What tells whether a value has the type of its field, with the range that it is annotated with."""
    origin, parts = get_origin(type_), get_args(type_)
    if type_ is Any:
        return lambda value: True
    if type_ is Hashable:
        return _is_hashable
    if origin is Literal:
        return lambda value: type(value) is str and value in parts
    if origin is Annotated:
        test, allowed = fits(parts[0]), parts[1]
        return lambda value: test(value) and allowed.start <= _size(value) < allowed.stop
    if origin in (UnionType, Union):
        tests = tuple(map(fits, parts))
        return lambda value: any(test(value) for test in tests)
    if origin is tuple and parts[1:] == (...,):
        test = fits(parts[0])
        return lambda value: isinstance(value, tuple) and all(map(test, value))
    if origin is tuple:
        tests = tuple(map(fits, parts))
        return lambda value: (
            isinstance(value, tuple) and len(value) == len(tests) and all(t(v) for t, v in zip(tests, value))
        )
    if is_dataclass(type_) or hasattr(type_, "_fields"):
        return lambda value: (
            type(value) is type_ and all(test(getattr(value, name)) for name, test in _tests(cast(Any, type_)))
        )
    return lambda value: isinstance(value, type_)


def _size(value: Any) -> int:
    """What a range is about: a number, or how many there are."""
    return value if isinstance(value, int) else len(value)


def _is_hashable(value: object) -> bool:
    try:
        return isinstance(hash(value), int)
    except TypeError:
        return False
