"""Who touches which barrier in a synclog: one pass over its entries, and the kinds of entry that later passes ask
for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from sm90_verify.frontends.log.synclog import Record

EXPECTS = (
    "cluster_transaction_barrier_arrive_and_expect_tx",
    "cluster_transaction_barrier_arrive_and_expect_tx_cluster",
    "cluster_transaction_barrier_expect_transaction",
)
WAITS = ("cluster_barrier_wait", "cluster_barrier_try_wait", "cluster_barrier_test_wait")
PLAIN_ARRIVALS = ("cluster_barrier_arrive", "cluster_barrier_arrive_cluster")
COPY_ARRIVAL = "cpasync_barrier_arrive"
WARPS = 4
"""Of a warpgroup."""
WGMMA = ("wgmma_smem_smem", "wgmma_reg_smem")


@dataclass
class Usage:
    """Who touches each barrier, by address."""

    inits: dict[int, int] = field(default_factory=dict)
    waits: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    arrivals: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    leaders: Counter[int] = field(default_factory=Counter)
    expects: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    loads: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    waited_before: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    spread: set[int] = field(default_factory=set)
    issuers: dict[int, int] = field(default_factory=dict)
    copiers: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """Barrier -> warp -> cp.async arrivals."""
    delayed: set[int] = field(default_factory=set)
    """Barriers whose cp.async arrivals only hold up the phase in which their warps arrive (without .noinc)."""
    kinds: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def usage(records: Iterable[Record]) -> Usage:
    """One pass over the log: who initialises, waits on, arrives at, expects at and loads to each barrier."""
    use = Usage()
    last_wait: dict[int, int] = {}
    plain: Counter[tuple[int, int]] = Counter()
    for record in records:
        kind, warp, values = record.kind, record.warp, record.values
        use.kinds[warp][kind] += 1
        if kind in WAITS:
            use.waits[values[0]][warp] += 1
            last_wait[warp] = values[0]
        elif kind == "cluster_barrier_init":
            use.inits.setdefault(values[0], values[1])
        elif kind in PLAIN_ARRIVALS:
            if kind == "cluster_barrier_arrive_cluster" and (values[1] or not values[2]):
                use.spread.add(values[0])
            else:
                use.arrivals[values[0]][warp] += 1
                plain[warp, values[0]] += 1
        elif kind == COPY_ARRIVAL:
            use.copiers[values[0]][warp] += 1
        elif kind in EXPECTS:
            if len(values) == 4 and (values[2] or not values[3]):
                continue
            use.expects[values[0]].append(values[1])
            if kind != EXPECTS[2]:
                use.leaders[values[0]] += 1
                use.arrivals[values[0]][warp] += 1
            if warp in last_wait:
                use.waited_before[values[0]][last_wait[warp]] += 1
        elif kind == "tma_load":
            use.loads[values[1]].append((values[0], values[2]))
            use.issuers.setdefault(values[1], warp)
            if warp in last_wait:
                use.waited_before[values[1]][last_wait[warp]] += 1
    for address, warps in use.copiers.items():
        if any(plain[warp, address] for warp in warps):
            use.delayed.add(address)
        else:
            use.arrivals[address].update(warps)
    return use


def addresses_a_peer(record: Record) -> bool:
    if record.kind == "cluster_barrier_arrive_cluster":
        return bool(record.values[1]) or not record.values[2]
    return record.kind.endswith("expect_tx_cluster") and bool(record.values[2])
