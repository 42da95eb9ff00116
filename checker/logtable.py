"""Recovers from a synclog what its barriers are for: rings, stages, full and empty, arrivals per phase, bytes per load.

Nothing is read but the entries. Three things are inferred, because the log does not contain them:

* Rings, from the order and the addresses of the inits (CUTLASS initialises full[i], empty[i] in turn, P:305-324, and
  consecutive barriers of an OrderedSequenceBarrier in turn, P:1290) and, failing that, from who waits before it loads.
* How many lanes a logged arrival stands for: only lane 0 of a warp logs. The arrivals of one phase must add up to the
  count of the barrier, so the count divided by the logged arrivals per phase is the number of lanes. If they cannot add
  up within this CTA and some arrival is addressed to another CTA, the rest is attributed to CTAs that do not log.
* The bytes of a TMA load: its box is a property of the tensor map, so each descriptor delivers the same bytes every
  time, the bytes of a phase's loads add up to what the phase expects, and no box is larger than the step from one stage
  to the next.

What is inferred is the same for every stage of a ring, from the majority of its phases; an entry that breaks it is then
found by the checks that run on the result, with its line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from checker.synclog import WARP, Record

BARRIER_BYTES = 8
EXPECTS = (
    "cluster_transaction_barrier_arrive_and_expect_tx",
    "cluster_transaction_barrier_arrive_and_expect_tx_cluster",
    "cluster_transaction_barrier_expect_transaction",
)
WAITS = ("cluster_barrier_wait", "cluster_barrier_try_wait", "cluster_barrier_test_wait")
PLAIN_ARRIVALS = ("cluster_barrier_arrive", "cluster_barrier_arrive_cluster", "cpasync_barrier_arrive")
WGMMA = ("wgmma_smem_smem", "wgmma_reg_smem")


@dataclass(frozen=True)
class Arrivals:
    """One phase of a barrier: `logged` arrivals of `lanes` threads each, `leaders` single ones, `unseen` in other CTAs."""

    logged: int
    lanes: int
    leaders: int
    unseen: int


@dataclass(frozen=True)
class Array:
    """Consecutive barriers with one purpose: their addresses in stage order, their count, what a phase consists of.

    `arrivals` is None if no number of lanes makes the logged arrivals add up to the count.
    """

    addresses: tuple[int, ...]
    count: int
    arrivals: Arrivals | None
    waiters: tuple[int, ...]
    arrivers: tuple[int, ...]


@dataclass(frozen=True)
class Ring:
    """A pipeline's barriers. `empty` is None for an OrderedSequenceBarrier, whose barriers are all in `full`."""

    name: str
    pipeline: str
    full: Array
    empty: Array | None
    bytes: int

    @property
    def stages(self) -> int:
        """Pipeline stages, or depth times length of an ordered sequence."""
        return len(self.full.addresses)


@dataclass(frozen=True)
class Table:
    """What the log's barriers are for."""

    rings: tuple[Ring, ...]
    cluster: bool
    box_bytes: dict[int, int]
    """TMA descriptor -> bytes of one load."""
    name: dict[int, str] = field(default_factory=dict)
    """Barrier address -> how a trace calls it."""
    partner: dict[int, int] = field(default_factory=dict)
    """Address of full[i] -> empty[i] and back."""
    array: dict[int, Array] = field(default_factory=dict)
    ring: dict[int, Ring] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    """Warp -> role."""


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
    kinds: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


def recover(records: Sequence[Record]) -> Table:
    """The table of a log's barriers, rings in the order of their initialisation."""
    use = usage(records)
    cluster = any(_addresses_a_peer(r) for r in records)
    rings = []
    for full, empty in _pair_by_use(_pair_by_init(list(use.inits)), use):
        rings.append(_ring(full, empty, use, cluster))
    named = _with_names(rings, use)
    table = Table(tuple(named), cluster, _box_bytes(named, use))
    for ring in named:
        for part, array in (("full", ring.full), ("empty", ring.empty)):
            for stage, address in enumerate(array.addresses if array else ()):
                assert array is not None
                table.name[address] = f"{ring.name} {part}[{stage}]" if ring.empty else f"{ring.name}[{stage}]"
                table.array[address] = array
                table.ring[address] = ring
        if ring.empty:
            pairs = list(zip(ring.full.addresses, ring.empty.addresses, strict=True))
            table.partner.update(pairs + [(empty, full) for full, empty in pairs])
    table.roles.update(_roles(use, table))
    return table


def usage(records: Iterable[Record]) -> Usage:
    """One pass over the log: who initialises, waits on, arrives at, expects at and loads to each barrier."""
    use = Usage()
    last_wait: dict[int, int] = {}
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
    return use


def _addresses_a_peer(record: Record) -> bool:
    if record.kind == "cluster_barrier_arrive_cluster":
        return bool(record.values[1]) or not record.values[2]
    return record.kind.endswith("expect_tx_cluster") and bool(record.values[2])


# ---------------------------------------------------------------- rings


def _pair_by_init(order: list[int]) -> list[tuple[list[int], list[int]]]:
    """Arrays (full, empty) from inits that alternate between two arrays; ([...], []) for plain arrays.

    Two arrays side by side alternate exactly as often as the distance between them says, arrays apart as often as they do.
    """
    arrays: list[tuple[list[int], list[int]]] = []
    i = 0
    while i < len(order):
        base = order[i]
        stages, distance = 0, order[i + 1] - base if i + 1 < len(order) else 0
        while distance > BARRIER_BYTES and stages < distance // BARRIER_BYTES and order[
            i + 2 * stages : i + 2 * stages + 2
        ] == [base + BARRIER_BYTES * stages, base + distance + BARRIER_BYTES * stages]:
            stages += 1
        if stages >= 2:
            arrays.append((order[i : i + 2 * stages : 2], order[i + 1 : i + 2 * stages : 2]))
            i += 2 * stages
            continue
        run = [base]
        while i + len(run) < len(order) and order[i + len(run)] == run[-1] + BARRIER_BYTES:
            run.append(order[i + len(run)])
        arrays.append((run, []))
        i += len(run)
    return arrays


def _pair_by_use(arrays: list[tuple[list[int], list[int]]], use: Usage) -> list[tuple[list[int], list[int]]]:
    """Arrays with bytes that the inits left alone get the array that their loader waits on; a run splits where it must."""
    done: list[tuple[list[int], list[int]]] = [pair for pair in arrays if pair[1]]
    loose = [address for run, empty in arrays if not empty for address in run]
    partner = {}
    for address in loose:
        before = use.waited_before.get(address)
        if before:
            other = max(before, key=lambda a: (before[a], -a))
            if other in loose and other not in use.expects and other != address:
                partner[address] = other
    taken = {*partner, *partner.values()}
    groups: list[list[int]] = []
    for address in sorted(partner):
        last = groups[-1][-1] if groups else None
        if last is not None and _alike(last, address, use) and partner[address] > partner[last]:
            groups[-1].append(address)
        else:
            groups.append([address])
    done += [(group, [partner[a] for a in group]) for group in groups]
    for run, empty in arrays:
        rest: list[int] = []
        for address in run if not empty else ():
            if address in taken or (rest and use.inits[rest[-1]] != use.inits[address]):
                done += [(rest, [])] if rest else []
                rest = []
            rest += [] if address in taken else [address]
        done += [(rest, [])] if rest else []
    first = {address: n for n, address in enumerate(use.inits)}
    return sorted(done, key=lambda pair: first[pair[0][0]])


def _alike(one: int, other: int, use: Usage) -> bool:
    return use.inits[one] == use.inits[other] and use.issuers.get(one) == use.issuers.get(other)


def _ring(full: list[int], empty: list[int], use: Usage, cluster: bool) -> Ring:
    if empty and any(a in use.loads or a in use.expects for a in empty):
        full, empty = empty, full
    full_array = _array(full, use, cluster, bool(empty), {})
    phases = {}
    if full_array.arrivals:
        per_phase = full_array.arrivals.logged + full_array.arrivals.leaders
        for f, e in zip(full, empty, strict=False):
            phases[e] = sum(use.arrivals[f].values()) / per_phase if f in use.arrivals else 0
    empty_array = _array(empty, use, cluster, True, phases) if empty else None
    expected: Counter[int] = Counter()
    for address in full:
        expected.update(use.expects.get(address, ()))
    if not any(a in use.waits or a in use.arrivals for a in full + empty):
        pipeline = "unused"
    elif not empty:
        pipeline = "OrderedSequenceBarrier" if _takes_turns(full, use) else "ClusterBarrier"
    elif any(use.leaders[a] for a in full):
        pipeline = "PipelineTmaAsync"
    else:
        pipeline = "PipelineTransactionAsync" if expected else "PipelineAsync"
    size = expected.most_common(1)[0][0] if expected else 0
    return Ring("", pipeline, full_array, empty_array, size)


def _takes_turns(addresses: list[int], use: Usage) -> bool:
    """Whether groups of warps hand a turn around: each waits for its own barriers and arrives at those of the others."""
    if len(addresses) < 2 or any(a in use.expects or a in use.loads or a in use.spread for a in addresses):
        return False
    return not any(use.arrivals.get(a, Counter()).keys() & use.waits.get(a, Counter()).keys() for a in addresses)


def _array(addresses: list[int], use: Usage, cluster: bool, paired: bool, phases: dict[int, float]) -> Array:
    warps: Counter[int] = Counter()
    waiters: Counter[int] = Counter()
    for address in addresses:
        warps.update(use.arrivals.get(address, {}))
        waiters.update(use.waits.get(address, {}))
    ratios = Counter(
        round(sum(use.arrivals[a].values()) / phases[a]) for a in addresses if phases.get(a) and a in use.arrivals
    )
    seen = max(ratios, key=lambda r: (ratios[r], r)) if ratios else 0
    best: tuple[tuple[int, bool], int, Arrivals | None] | None = None
    for count, stages in Counter(use.inits[a] for a in addresses).most_common():
        arrivals = _arrivals(count, addresses, use, cluster and paired, len(warps), seen)
        rank = (stages, arrivals is not None and arrivals.lanes in (1, WARP))
        if best is None or rank > best[0]:
            best = (rank, count, arrivals)
    assert best is not None
    return Array(tuple(addresses), best[1], best[2], tuple(sorted(waiters)), tuple(sorted(warps)))


def _arrivals(count: int, addresses: list[int], use: Usage, cluster: bool, warps: int, seen: int) -> Arrivals | None:
    """What makes up a phase of `count`; an arrive.expect_tx is one thread, as in every CUTLASS pipeline (P:515)."""
    if count < 1:
        return None
    spread = any(a in use.spread for a in addresses)
    leaders = int(any(use.leaders[a] for a in addresses))
    plain = any(sum(use.arrivals.get(a, {}).values()) > use.leaders[a] for a in addresses)
    if leaders and not plain:
        if count == 1 or cluster:
            return Arrivals(0, 1, 1, count - 1)
        return Arrivals(0, 1, count, 0) if all(use.leaders[a] % count == 0 for a in addresses) else None
    found = _solve(count - leaders, warps, max(0, seen - leaders), cluster, spread)
    return found and Arrivals(found.logged, found.lanes, leaders, found.unseen)


def _solve(count: int, warps: int, seen: int, cluster: bool, spread: bool) -> Arrivals | None:
    """Lanes per arrival: logged * lanes + unseen = count. `seen`: logged arrivals per phase if known, else 0.

    Whole warps come first, then single lanes, then any number up to 32; arrivals from other CTAs only where this CTA
    addresses other CTAs itself. `spread`: the lanes of a warp signal different CTAs, so one lane at most is for this one.
    """
    if not warps:
        return Arrivals(0, 1, 0, count if cluster else 0)
    if seen:
        if 32 * seen == count or (not cluster and count % seen == 0 and count // seen <= WARP):
            return Arrivals(seen, count // seen, 0, 0)
        logged = seen
    else:
        for lanes in (WARP, 1):
            if count % lanes == 0 and count // lanes <= warps:
                return Arrivals(count // lanes, lanes, 0, 0)
        logged = warps
    if cluster:
        lanes = 1 if spread or WARP * logged > count else WARP
        return Arrivals(logged, lanes, 0, count - lanes * logged) if lanes * logged <= count else None
    if count % logged == 0 and count // logged <= WARP:
        return Arrivals(logged, count // logged, 0, 0)
    for lanes in (WARP, 1):
        if not seen and count % (lanes * warps) == 0:
            return Arrivals(count // lanes, lanes, 0, 0)
    return None


# ---------------------------------------------------------------- bytes


def _box_bytes(rings: Sequence[Ring], use: Usage) -> dict[int, int]:
    """Bytes of one load by descriptor: each ring's most frequent (descriptors, expected bytes) are solved in turn."""
    box: dict[int, int] = {}
    for ring in rings:
        step: dict[int, int] = {}
        places: dict[int, set[int]] = defaultdict(set)
        phases: Counter[tuple[tuple[int, ...], int]] = Counter()
        for address in ring.full.addresses:
            loads, expects = use.loads.get(address, []), use.expects.get(address, [])
            nth: Counter[tuple[int, int]] = Counter()
            by_phase: dict[int, list[int]] = defaultdict(list)
            for descriptor, place in loads:
                places[descriptor].add(place)
                by_phase[nth[descriptor, place]].append(descriptor)
                nth[descriptor, place] += 1
            each = max(1, round(len(expects) / len(by_phase))) if by_phase else 1
            for phase, descriptors in by_phase.items():
                expected = sum(expects[phase * each : (phase + 1) * each])
                phases[tuple(sorted(descriptors)), expected] += 1
        for descriptor, starts in places.items():
            ordered = sorted(starts)
            step[descriptor] = min((b - a for a, b in zip(ordered, ordered[1:], strict=False)), default=0)
        for (descriptors, expected), _ in phases.most_common():
            unknown = [d for d in dict.fromkeys(descriptors) if d not in box]
            rest = expected - sum(box.get(d, 0) for d in descriptors)
            for n, descriptor in enumerate(unknown):
                times = descriptors.count(descriptor)
                later = sum(descriptors.count(d) for d in unknown[n + 1 :])
                size = (rest - 16 * later) // times
                box[descriptor] = max(0, min(size, step[descriptor] or size) if later else size)
                rest -= box[descriptor] * times
    return box


# ---------------------------------------------------------------- names


def _with_names(rings: list[Ring], use: Usage) -> list[Ring]:
    named: list[Ring] = []
    math = {warp for warp, kinds in use.kinds.items() if any(kind in kinds for kind in WGMMA)}
    taken: Counter[str] = Counter()
    for ring in rings:
        if ring.pipeline == "OrderedSequenceBarrier":
            name = "math order" if math & {*ring.full.waiters, *ring.full.arrivers} else "load order"
        elif ring.pipeline in ("unused", "ClusterBarrier"):
            name = "unused" if ring.pipeline == "unused" else "barrier"
        elif ring.pipeline == "PipelineTmaAsync":
            name = "mainloop"
        else:
            name = "epilogue load" if ring.bytes else "async"
        taken[name] += 1
        if taken[name] > 1:
            name = f"{name} {taken[name]}"
        named.append(Ring(name, ring.pipeline, ring.full, ring.empty, ring.bytes))
    return named


def _roles(use: Usage, table: Table) -> dict[int, str]:
    """Role of each warp: consumer of a warpgroup that issues wgmma, loader of a ring, or idle."""
    loader: dict[int, list[str]] = defaultdict(list)
    for address, warp in use.issuers.items():
        ring = table.ring.get(address)
        if ring and ring.name not in loader[warp]:
            loader[warp].append(ring.name)
    groups = sorted({warp // 4 for warp, kinds in use.kinds.items() if any(kind in kinds for kind in WGMMA)})
    roles = {}
    for warp in sorted(use.kinds):
        if warp // 4 in groups and any(kind in use.kinds[warp] for kind in WGMMA):
            roles[warp] = f"consumer {groups.index(warp // 4)}"
        elif loader.get(warp):
            roles[warp] = " + ".join(n if n.endswith("load") else f"{n} load" for n in loader[warp])
        else:
            roles[warp] = "idle"
    return roles
