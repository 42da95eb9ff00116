"""What kernels/recorder.cuh records on the GPU: the memory that a launch writes to, and the tapes that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sm90_verify.spec.errors import SpecError

CODES = (
    "nothing",
    "wait",
    "arrive",
    "arrive_expect",
    "expect",
    "load",
    "read",
    "write",
    "mma",
    "mma_commit",
    "mma_again",
    "mma_wait",
    "store",
    "bulk_commit",
    "bulk_wait",
    "bulk_wait_read",
    "fence_proxy",
    "fence_init",
    "named_sync",
    "named_arrive",
    "cta_sync",
    "cluster_arrive",
    "cluster_wait",
    "init",
    "registers_dec",
    "registers_inc",
    "warp_sync",
)
"""The enumerators of did::Code in kernels/recorder.cuh, in order."""
EVENT_WORDS = 10
"""32-bit words of struct Event."""
POSITION_WORDS = 4
ALL = (1 << 32) - 1
"""In a Hold: every point, place or iteration. In a Position: the place has not come to its end."""
FOREIGN = 1 << 40
"""Added to words that no write of the model has, so that they equal none."""


@dataclass(frozen=True)
class Did:
    """An event of a place, or of several that play a role together. targets: by CTA, how many arrived there."""

    code: str
    object: int
    operand: int
    iteration: int
    waited: bool
    arrived: int
    before: int
    after: int
    low: int
    high: int
    targets: tuple[tuple[int, int], ...] = ()

    @property
    def key(self) -> tuple[str, int, int, int]:
        return self.code, self.object, self.operand, self.iteration


@dataclass(frozen=True)
class Tape:
    """What a place did. stuck: (code, object, operand) of what it gave up in, or None if it came to its end."""

    events: tuple[Did, ...]
    stuck: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class Hold:
    """A delay of all lanes of a place, at a point that the kernel names by number."""

    point: int = ALL
    place: int = ALL
    iteration: int = ALL
    nanoseconds: int = 0


class Recorder:
    """The memory that a launch of `ctas` CTAs with `places` places each records into; `argument` is for the kernel.

    capacity: events of a place. limit: nanoseconds after which waits give up. jitter: up to so many nanoseconds before
    some operations. cupy: as gpu.device has it.
    """

    def __init__(
        self,
        cupy: Any,
        ctas: int,
        places: int,
        *,
        capacity: int = 1,
        limit: int = 20_000_000,
        jitter: int = 0,
        seed: int = 0,
        holds: Sequence[Hold] = (),
    ) -> None:
        self.shape = (ctas, places, capacity, EVENT_WORDS)
        self.events = cupy.zeros(ctas * places * capacity * EVENT_WORDS, dtype=cupy.uint32)
        self.positions = cupy.full(ctas * places * POSITION_WORDS, ALL, dtype=cupy.uint32)
        table = [word for one in holds for word in (one.point, one.place, one.iteration, one.nanoseconds)]
        self.holds = cupy.asarray([*table, 0, 0], dtype=cupy.uint32)
        words = (
            *(one.data.ptr for one in (self.events, self.positions, self.holds)),
            capacity | len(holds) << 32,
            limit | jitter << 32,
            seed,
        )
        self.argument = cupy.asarray(words, dtype=cupy.uint64)

    def tapes(self, *, recorded: bool = True) -> list[tuple[Tape, ...]]:
        """By CTA of the grid, the tapes of its places; without events if the kernel was compiled without RECORD."""
        ctas, places, capacity, _ = self.shape
        events = self.events.get().reshape(self.shape) if recorded else None
        positions = self.positions.get().reshape(ctas, places, POSITION_WORDS).tolist()
        found = []
        for cta in range(ctas):
            row = []
            for place in range(places):
                count, code, object, operand = positions[cta][place]
                if code == ALL:
                    raise SpecError(f"place {place} of CTA {cta} came neither to its end nor to a wait that gave up")
                if count > capacity:
                    raise SpecError(f"place {place} did {count} operations, and {capacity} can be recorded")
                rows = () if events is None else tuple(_did(one) for one in events[cta, place, :count].tolist())
                row.append(Tape(rows, (CODES[code], object, operand) if code else None))
            found.append(tuple(row))
        return found


def _did(words: Sequence[int]) -> Did:
    code, object, operand, iteration, low, high = words[4:]
    before, after = words[0] | words[1] << 32, words[2] | words[3] << 32
    return Did(
        CODES[code & 255], object, operand, iteration, bool(code >> 8 & 255), code >> 16, before, after, low, high
    )
