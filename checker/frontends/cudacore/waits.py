"""What a lane waits for, from the instruction where it stands and its registers.

A wait for an mbarrier is a loop: the lane stands somewhere in it. At a barrier of threads a lane stands behind the
instruction; at the barrier of the cluster, or where it waits for lanes of its own warp, at it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.frontends.cudacore.dump import CoreLane, CoreWarp, CudaCore
from sm90_verify.frontends.cudacore.instructions import (
    CLUSTER_WAIT,
    CODE_BYTES,
    CONVERGE,
    WARP_SYNC,
    PhaseCheck,
    branch_target,
    operation,
    phase_check,
    thread_barrier,
)
from sm90_verify.frontends.cudacore.modules import module_with

LOOP = 16
"""Instructions of a loop that waits, at most."""
WINDOW = 0xFFFFFF
"""Bits of an address within the shared memory of a CTA; those above are the CTA's rank in its cluster."""


@dataclass(frozen=True)
class MbarrierWait:
    """pc: of the instruction. address: of the barrier, in the shared memory of the CTA with this rank in the cluster.
    parity: what is waited for. None where a register that the dump lacks has them.
    """

    pc: int
    address: int | None
    rank: int | None
    parity: int | None


@dataclass(frozen=True)
class ThreadsWait:
    """barrier.cta.sync. threads: that it counts, 0: all of the CTA. None: in a register that the dump lacks."""

    pc: int
    id: int | None
    threads: int | None


@dataclass(frozen=True)
class ClusterBarrierWait:
    """barrier.cluster.wait."""

    pc: int


@dataclass(frozen=True)
class LanesWait:
    """For other lanes of the warp: bar.warp.sync, an instruction that all execute together, or the end of a branch."""

    pc: int


LaneWait = MbarrierWait | ThreadsWait | ClusterBarrierWait | LanesWait


def wait_of(core: CudaCore, warp: CoreWarp, lane: CoreLane) -> LaneWait | None:
    """None where the lane waits for nothing that is known here: it runs, or sleeps, or waits for copies."""
    module = module_with(core.modules, lane.pc)
    if module is None:
        return None
    for pc in (lane.pc - CODE_BYTES, lane.pc):
        found = thread_barrier(module.code(pc))
        if found is not None:
            word = None if found.register is None else lane.register(found.register)
            both = found.id is None and found.threads is None
            id_ = found.id if found.id is not None or word is None else word & 15
            threads = found.threads if found.threads is not None or word is None else word >> 16 * both & 0xFFF
            return ThreadsWait(pc, id_, threads)
    here = operation(module.code(lane.pc))
    if here == CLUSTER_WAIT:
        return ClusterBarrierWait(lane.pc)
    if here in (WARP_SYNC, CONVERGE) and len(warp.pcs) > 1:
        return LanesWait(lane.pc)
    checks = {}
    for pc in loop_at(core, lane.pc):
        check = phase_check(module.code(pc))
        if check is not None:
            checks[check] = pc
    if len(checks) != 1:
        return None
    ((check, pc),) = checks.items()
    return _resolved(pc, check, warp, lane)


def loop_at(core: CudaCore, pc: int) -> range:
    """The addresses of the innermost short loop that an instruction is in, as a range; empty if there is none."""
    module = module_with(core.modules, pc)
    for at in range(pc, pc + LOOP * CODE_BYTES, CODE_BYTES) if module else ():
        assert module is not None
        target = branch_target(module.code(at), at)
        if target is not None and at - LOOP * CODE_BYTES <= target <= pc:
            return range(target, at + CODE_BYTES, CODE_BYTES)
    return range(0)


def _resolved(pc: int, check: PhaseCheck, warp: CoreWarp, lane: CoreLane) -> MbarrierWait:
    base = 0 if check.base is None else lane.register(check.base)
    uniform = 0 if check.uniform is None else warp.uniform_register(check.uniform)
    word = 0 if check.parity is None else lane.register(check.parity)
    address = None if base is None or uniform is None else (base + uniform + check.offset) & 0xFFFFFFFF
    return MbarrierWait(
        pc,
        None if address is None else address & WINDOW,
        None if address is None else address >> 24,
        None if word is None else word >> 31,
    )
