"""What a warp did that others can notice, in the order of its instructions."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from sm90_verify.frontends.ptx.footprints import Ranges
from sm90_verify.spec.ptx.mbarrier_operations import AnyScope, ArriveKind, ArriveSem, WaitSem
from sm90_verify.spec.ptx.memory import Scope
from sm90_verify.spec.ptx.memory_operations import FenceKind, GroupKind, MapFenceKind


class BarrierAt(NamedTuple):
    """An mbarrier: the rank of its CTA, and its address in the shared memory there."""

    rank: int
    address: int


class Initialised(NamedTuple):
    """mbarrier.init"""

    barrier: BarrierAt
    arrivals: int


class Invalidated(NamedTuple):
    """mbarrier.inval"""

    barrier: BarrierAt


class Arrived(NamedTuple):
    """mbarrier.arrive by each lane. arrivals: of each; expect: bytes that each expects, None without .expect_tx."""

    barrier: BarrierAt
    arrivals: int
    expect: int | None
    kind: ArriveKind
    sem: ArriveSem
    scope: AnyScope


class Expected(NamedTuple):
    """mbarrier.expect_tx by each lane, or complete_tx with bytes below 0."""

    barrier: BarrierAt
    bytes: int


class Waited(NamedTuple):
    """A wait for a phase that ended with the phase of this number; parity: of the operand. token: it was given the
    state of the lane's last arrival.
    """

    barrier: BarrierAt
    parity: int
    phase: int
    token: bool
    sem: WaitSem
    scope: AnyScope


class Peeked(NamedTuple):
    """A try_wait or test_wait after which its lanes go on whatever it says."""

    barrier: BarrierAt
    parity: int


class CopiedIn(NamedTuple):
    """cp.async.bulk{.tensor} into shared memory, in each of the CTAs of these ranks; ranges: None if its bytes are not
    known. size: bytes that complete in each. source: of a copy from the CTA's own shared memory. map: the address of
    the tensor map.
    """

    ranks: tuple[int, ...]
    ranges: Ranges | None
    barriers: tuple[BarrierAt, ...]
    size: int
    source: Ranges
    map: int
    address: int


class CopiedOut(NamedTuple):
    """cp.async.bulk{.tensor} out of shared memory, or a reduction."""

    ranges: Ranges | None
    map: int
    address: int


class LanesCopied(NamedTuple):
    """cp.async. addresses: where each lane writes, -1 of those that do not take part. size: bytes of each."""

    addresses: tuple[int, ...]
    size: int


class AsyncCopied(NamedTuple):
    """cp.async of lanes that do the same: all that they write."""

    ranges: Ranges


class Triggered(NamedTuple):
    """cp.async.mbarrier.arrive by each lane."""

    barrier: BarrierAt
    noinc: bool


class StoredAsync(NamedTuple):
    """st.async or red.async of one lane."""

    rank: int
    ranges: Ranges
    barrier: BarrierAt
    size: int
    reduces: bool


class LanesAccessed(NamedTuple):
    """ld, st, ldmatrix, stmatrix, atom or red on shared memory. rank: of the CTA. addresses: by lane, -1 of those that
    do not take part. size: bytes of each. matrices: of ldmatrix and stmatrix, how many; transposed: with .trans.
    value: what is written, if that is known and the same for all lanes. scope: of an atomic or strong access, "" of a
    weak one.
    """

    rank: int
    addresses: tuple[int, ...]
    size: int
    writes: bool
    matrices: int = 0
    transposed: bool = False
    atomic: bool = False
    scope: str = ""
    value: int | None = None


class Accessed(NamedTuple):
    """What lanes that do the same have accessed between two events of other kinds: ordinarily, or atomically with a
    scope.
    """

    rank: int
    ranges: Ranges
    writes: bool
    atomic: bool = False
    scope: str = ""
    value: int | None = None


class Multiplied(NamedTuple):
    """wgmma.mma_async. a, b: what it reads of shared memory; None if that is not known."""

    ranges: Ranges | None


class RegisterRange(NamedTuple):
    """Bytes [start, stop) of a set of registers that wgmmas name, which has a name of its own."""

    name: str
    start: int
    stop: int


class RegistersTouched(NamedTuple):
    """Ordinary instructions read or write registers of wgmmas. sure: that they are executed is known."""

    registers: RegisterRange
    write: bool
    sure: bool = True


class Grouped(NamedTuple):
    """A commit_group or wait_group."""

    kind: GroupKind
    pending: int


class Fenced(NamedTuple):
    """A proxy fence, fence.mbarrier_init, or wgmma.fence."""

    kind: FenceKind


class MemoryFenced(NamedTuple):
    """fence.acq_rel, fence.sc, membar."""

    kind: Literal["acq_rel", "sc"]
    scope: Scope


class MapFenced(NamedTuple):
    """fence.proxy.tensormap"""

    kind: MapFenceKind
    scope: Scope
    map: int


class NamedMet(NamedTuple):
    """bar or barrier.cta; threads: 0 for all of the CTA. blocks: not .arrive."""

    id: int
    threads: int
    blocks: bool


class ClusterArrived(NamedTuple):
    """barrier.cluster.arrive"""

    release: bool


class ClusterWaited(NamedTuple):
    """barrier.cluster.wait"""


class LanesMet(NamedTuple):
    """An instruction at which lanes meet. orders: memory, too (bar.warp.sync). members: those that must, where not all
    of them come to this instruction; else 0.
    """

    orders: bool
    members: int = 0


class LanesParted(NamedTuple):
    """Lanes execute an instruction that others must execute with them, and those never come; others: what they do."""

    others: str


class RegistersSet(NamedTuple):
    """setmaxnreg"""

    registers: int
    kind: Literal["dec", "inc"]


class Depended(NamedTuple):
    """griddepcontrol"""

    kind: Literal["launch_dependents", "wait"]


class PeriodMarked(NamedTuple):
    """Lanes come to the head of a loop, where a period of what it does begins or is over, which stands for any number
    of them.
    """

    begins: bool


What: TypeAlias = (
    Initialised
    | Invalidated
    | Arrived
    | Expected
    | Waited
    | Peeked
    | CopiedIn
    | CopiedOut
    | LanesCopied
    | AsyncCopied
    | Triggered
    | StoredAsync
    | LanesAccessed
    | Accessed
    | Multiplied
    | RegistersTouched
    | Grouped
    | Fenced
    | MemoryFenced
    | MapFenced
    | NamedMet
    | ClusterArrived
    | ClusterWaited
    | LanesMet
    | LanesParted
    | RegistersSet
    | Depended
    | PeriodMarked
)


class LaneEvent(NamedTuple):
    """number: of the instruction in its function. mask: the lanes that took part. what: all that it did."""

    number: int
    mask: int
    what: What


def is_of_wgmma(what: What) -> bool:
    """A wgmma, its fence, commit or wait."""
    match what:
        case Multiplied():
            return True
        case Fenced(kind):
            return kind == "wgmma"
        case Grouped(kind):
            return kind in ("mma_commit", "mma_wait")
        case _:
            return False
