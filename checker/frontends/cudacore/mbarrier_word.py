"""The 64-bit word of shared memory that an mbarrier object is on sm_90.

PTX calls the object opaque (9.7.13.15.2). Measured on an H200, driver 580, in core dumps of barriers after sequences of
operations that the specification allows: all of 4,864 words read as below (`tests/test_mbarrier_word.py` has 768). What
nvcc stores for mbarrier.init agrees.

    bit 63       the parity of the current phase
    bits 43-62   minus the pending count
    bit 42       0
    bits 21-41   minus the tx-count: bytes delivered less bytes expected
    bits 1-20    minus the count that a phase begins with
    bit 0        0

Each field holds its number modulo its size, without a borrow from the next. Threads that wait leave no trace. A kernel
that loads the word itself is answered with an older one: only mbarrier.inval, or a dump, brings it up to date.
"""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

COUNT_BITS, TX_BITS = 20, 21
PHASE_AT, PENDING_AT, TX_AT, EXPECTED_AT = 63, 43, 21, 1
ALWAYS_ZERO = 1 << 42 | 1


class MbarrierWord(NamedTuple):
    """phase: the parity of the current phase. pending: arrivals that it still waits for. expected: that a phase begins
    with. tx_count: bytes expected less bytes delivered.
    """

    phase: int
    pending: int
    expected: int
    tx_count: int


def decode(word: int) -> MbarrierWord:
    """The parts of a word; raises SpecError for one that no mbarrier has, as `is_plausible` says."""
    if not is_plausible(word):
        raise SpecError(f"{word:#018x} is not the word of an mbarrier: was it initialised, and is the address right?")
    return _parts(word)


def is_plausible(word: int) -> bool:
    """Whether a word can be that of a barrier that was initialised and only used as PTX allows.

    Of random words, one in eight is: an address that the program names is better evidence.
    """
    if not 0 <= word < 1 << 64 or word & ALWAYS_ZERO:
        return False
    parts = _parts(word)
    return (
        1 <= parts.expected <= COUNT_LIMIT
        and parts.pending <= parts.expected
        and abs(parts.tx_count) <= COUNT_LIMIT
        and (parts.pending, parts.tx_count) != (0, 0)  # the phase would be over
    )


def encode(parts: MbarrierWord) -> int:
    """The word of a barrier; raises SpecError for parts that do not fit."""
    if not 0 <= parts.phase <= 1 or not all(0 <= one <= COUNT_LIMIT for one in (parts.pending, parts.expected)):
        raise SpecError(f"{parts}: the phase is 0 or 1, and counts are 0 to {COUNT_LIMIT}")
    if abs(parts.tx_count) > COUNT_LIMIT:
        raise SpecError(f"{parts}: the tx-count is -{COUNT_LIMIT} to {COUNT_LIMIT}")
    return (
        parts.phase << PHASE_AT
        | _negated(parts.pending, COUNT_BITS) << PENDING_AT
        | _negated(parts.tx_count, TX_BITS) << TX_AT
        | _negated(parts.expected, COUNT_BITS) << EXPECTED_AT
    )


def _parts(word: int) -> MbarrierWord:
    tx = _negated(word >> TX_AT, TX_BITS)
    return MbarrierWord(
        word >> PHASE_AT & 1,
        _negated(word >> PENDING_AT, COUNT_BITS),
        _negated(word >> EXPECTED_AT, COUNT_BITS),
        tx - (1 << TX_BITS) if tx >> TX_BITS - 1 else tx,
    )


def _negated(number: int, bits: int) -> int:
    return -number & (1 << bits) - 1
