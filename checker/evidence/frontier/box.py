"""A box of epilogue configurations, and what CUTLASS 4.2's static assertions say about each.

E is epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp, P is pipeline/sm90_pipeline.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.cutlass.epilogue import Epilogue

STAGE_BYTES = 4096
ENDLESS = 1 << 20
"""What `forever` counts as in a formula over the number of tiles."""


@dataclass(frozen=True)
class Configuration:
    """The template parameters of a collective epilogue, and the tiles that a CTA works on.

    subtiles: epilogue tiles in an output tile. tiles: a number, or "forever". bytes_c, bytes_d: of a stage.
    """

    schedule: str
    stages_c: int
    stages_d: int
    delay_tma_store: bool
    reuse_smem_c: bool
    subtiles: int
    tiles: int | str
    bytes_c: int = STAGE_BYTES
    bytes_d: int = STAGE_BYTES

    def pipeline(self) -> Epilogue:
        return Epilogue(
            schedule=self.schedule,
            stages_c=self.stages_c,
            stages_d=self.stages_d,
            delay_tma_store=self.delay_tma_store,
            reuse_smem_c=self.reuse_smem_c,
            subtiles=self.subtiles,
            tiles=self.tiles,
            bytes_c=self.bytes_c,
            bytes_d=self.bytes_d,
        )

    def rejected_by(self) -> tuple[str, ...]:
        """The static assertions that fail. C and D have equally many elements in a stage, whatever their sizes, since
        both are an epilogue tile: that is all that E:170-172 compares.
        """
        found = []
        if self.reuse_smem_c and self.stages_d > self.stages_c:
            found.append("E:172")
        if self.delay_tma_store and self.reuse_smem_c and self.stages_c <= self.stages_d:
            found.append("E:731")
        if (self.stages_c if self.reuse_smem_c else self.stages_d) < 1:
            found.append("P:658")
        if self.stages_d - 1 < 0:
            found.append("P:659")
        return tuple(found)

    @property
    def numbers(self) -> dict[str, int]:
        """What a formula can speak of; endless is 1 for `forever`, which has no end that could go wrong."""
        tiles = self.tiles if isinstance(self.tiles, int) else ENDLESS
        return {
            "endless": int(self.tiles == "forever"),
            "StagesC": self.stages_c,
            "StagesD": self.stages_d,
            "subtiles": self.subtiles,
            "tiles": tiles,
            "tiles*subtiles": tiles * self.subtiles,
        }

    @property
    def group(self) -> tuple[str, bool, bool, bool]:
        """What a formula is given for: schedule, reuse, delay, and whether C and D have the same stage size."""
        return self.schedule, self.reuse_smem_c, self.delay_tma_store, self.bytes_c == self.bytes_d

    @property
    def size(self) -> tuple[int, ...]:
        """Smaller is simpler to look at."""
        tiles = self.numbers["tiles"]
        return tiles * self.subtiles, tiles, self.stages_c + self.stages_d, self.stages_c


@dataclass(frozen=True)
class Box:
    """All combinations of these values."""

    schedules: tuple[str, ...] = SCHEDULES
    stages_c: tuple[int, ...] = (1, 2, 3, 4, 5)
    stages_d: tuple[int, ...] = (1, 2, 3, 4, 5)
    delays: tuple[bool, ...] = (False, True)
    reuses: tuple[bool, ...] = (False, True)
    subtiles: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    tiles: tuple[int | str, ...] = (1, 2, 3, "forever")
    bytes: tuple[tuple[int, int], ...] = ((STAGE_BYTES, STAGE_BYTES), (STAGE_BYTES, 2 * STAGE_BYTES))

    def configurations(self) -> Iterator[Configuration]:
        """Every point, in the order of the axes."""
        axes = product(
            self.schedules,
            self.stages_c,
            self.stages_d,
            self.delays,
            self.reuses,
            self.subtiles,
            self.tiles,
            self.bytes,
        )
        for schedule, c, d, delay, reuse, subtiles, tiles, (bytes_c, bytes_d) in axes:
            yield Configuration(schedule, c, d, delay, reuse, subtiles, tiles, bytes_c, bytes_d)

    def narrowed(self, **values: object) -> Box:
        """The box with some of its axes reduced to one value."""
        return replace(self, **{name: (value,) for name, value in values.items() if value is not None})  # type: ignore[arg-type]
