"""What sm_90 instructions that wait say, from their 16 bytes.

The encodings are not documented; they were read off what NVIDIA's disassembler makes of compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass

CODE_BYTES = 16
"""Bytes of an instruction."""
PHASE_CHECK, BRANCH, CLUSTER_WAIT, WARP_SYNC, CONVERGE = 0x5A7, 0x947, 0xDC7, 0x948, 0x941
"""SYNCS.PHASECHK, BRA, UCGABAR_WAIT, WARPSYNC and BSYNC: bits 0 to 11."""
IMMEDIATE, ID_IN_REGISTER, COUNT_IN_REGISTER, BOTH_IN_REGISTER = 0xB1D, 0x51D, 0x91D, 0x31D
"""BAR, by where it has its number and its count."""
BARRIERS = (IMMEDIATE, ID_IN_REGISTER, COUNT_IN_REGISTER, BOTH_IN_REGISTER)
ARRIVES_ONLY = 1
NO_REGISTER, NO_UNIFORM_REGISTER = 255, 63
"""RZ and URZ."""


@dataclass(frozen=True)
class PhaseCheck:
    """mbarrier.test_wait or try_wait: the barrier's address is the sum of a register, a uniform register and an offset;
    the parity is bit 31 of a register. None stands for a register that is always 0.
    """

    base: int | None
    uniform: int | None
    offset: int
    parity: int | None


@dataclass(frozen=True)
class BarrierInstruction:
    """barrier.cta.sync or .red. id, threads: numbers, or None where a register has them; threads 0: the whole CTA.

    register: that has one, or both (the threads in the upper half); None where there is none.
    """

    id: int | None
    threads: int | None
    register: int | None


def operation(code: bytes) -> int:
    return int.from_bytes(code[:2], "little") & 0xFFF


def phase_check(code: bytes) -> PhaseCheck | None:
    """None for another instruction."""
    if len(code) < CODE_BYTES or operation(code) != PHASE_CHECK:
        return None
    low, high = int.from_bytes(code[:8], "little"), int.from_bytes(code[8:], "little")
    offset = low >> 40
    return PhaseCheck(
        _register(low >> 24 & 255),
        None if high & 63 == NO_UNIFORM_REGISTER else high & 63,
        offset - (1 << 24) if offset >> 23 else offset,
        _register(low >> 32 & 255),
    )


def thread_barrier(code: bytes) -> BarrierInstruction | None:
    """None for another instruction, and for an arrival that does not wait."""
    if len(code) < CODE_BYTES or (form := operation(code)) not in BARRIERS:
        return None
    low, high = int.from_bytes(code[:8], "little"), int.from_bytes(code[8:], "little")
    if high >> 13 & 3 == ARRIVES_ONLY:
        return None
    id_, threads, register = low >> 54 & 15, low >> 42 & 0xFFF, _register(low >> 32 & 255)
    return BarrierInstruction(
        id_ if form in (IMMEDIATE, COUNT_IN_REGISTER) else None,
        threads if form in (IMMEDIATE, ID_IN_REGISTER) else None,
        None if form == IMMEDIATE else register,
    )


def branch_target(code: bytes, pc: int) -> int | None:
    """Where a BRA goes to; None for another instruction."""
    if len(code) < CODE_BYTES or operation(code) != BRANCH:
        return None
    whole = int.from_bytes(code[:16], "little")
    words = whole >> 34 & (1 << 48) - 1
    words = (words - (1 << 48) if words >> 47 else words) << 8 | whole >> 16 & 255
    return pc + CODE_BYTES + 4 * words


def _register(number: int) -> int | None:
    return None if number == NO_REGISTER else number
