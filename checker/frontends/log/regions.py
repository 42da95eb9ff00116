"""Where the copies of a log go: the bytes of each load, which of them overlap, and what else lies in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sm90_verify.frontends.log.clock import LoadedRegion
from sm90_verify.frontends.log.stages import operands_of_copies
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable


class Regions:
    """The regions that TMA loads of a log fill, by size.

    places: by full barrier, the regions that its loads fill, and what ordinary copies put in its stages. copied: the
    full barrier of operands that no TMA load wrote. inside: per operand position of wgmma, whether its matrices come
    from TMA loads.
    """

    def __init__(self, records: Sequence[Record], table: BarrierTable) -> None:
        self.records, self.table = records, table
        self.size: dict[LoadedRegion, int] = {}
        self.places: dict[int, list[LoadedRegion]] = defaultdict(list)
        for record in records:
            if record.kind == "tma_load":
                descriptor, full, start = record.values
                region = (full, start)
                if region not in self.size:
                    self.places[full].append(region)
                self.size[region] = max(self.size.get(region, 16), table.box_bytes.get(descriptor, 16))
        self.copied = operands_of_copies(records, table)
        for address, full in self.copied.items():
            self.places[full].append((full, address))
        self.sources = list(dict.fromkeys(r.values[1] for r in records if r.kind == "tma_store"))
        self._covering: dict[int, tuple[LoadedRegion, ...]] = {}
        self._overlapping: dict[LoadedRegion, tuple[LoadedRegion, ...]] = {}
        self._stored_from: dict[LoadedRegion, tuple[int, ...]] = {}
        self.inside = self._operands_from_tma()

    def _operands_from_tma(self) -> dict[int, bool]:
        """Per operand position of wgmma: whether its matrices come from TMA loads, which is the case if most do."""
        votes: Counter[int] = Counter()
        operands: Counter[tuple[int, int]] = Counter()
        for record in self.records:
            if record.kind in ("wgmma_smem_smem", "wgmma_reg_smem"):
                for position, address in enumerate(reversed(record.values)):
                    operands[position, address] += 1
        for (position, address), times in operands.items():
            votes[position] += times if self.covering(address) else -times
        return {position: votes[position] > 0 for position in (0, 1)}

    def covering(self, address: int) -> tuple[LoadedRegion, ...]:
        """The regions in which an address lies."""
        found = self._covering.get(address)
        if found is None:
            found = tuple(region for region, size in self.size.items() if region[1] <= address < region[1] + size)
            self._covering[address] = found
        return found

    def has_loads(self, full: int) -> bool:
        """Whether any load of this log signals a stage of the ring that `full` belongs to."""
        ring = self.table.ring[full]
        return any(self.places.get(address) for address in ring.full.addresses)

    def overlapping(self, region: LoadedRegion) -> tuple[LoadedRegion, ...]:
        """The regions that have bytes in common with one, itself included."""
        found = self._overlapping.get(region)
        if found is None:
            start, end = region[1], region[1] + self.size[region]
            found = tuple(other for other, size in self.size.items() if other[1] < end and start < other[1] + size)
            self._overlapping[region] = found
        return found

    def stored_from(self, region: LoadedRegion) -> tuple[int, ...]:
        """The addresses in a region from which the log stores by TMA."""
        found = self._stored_from.get(region)
        if found is None:
            found = tuple(s for s in self.sources if region[1] <= s < region[1] + self.size.get(region, 0))
            self._stored_from[region] = found
        return found
