"""Recovers from a synclog what its barriers are for: rings, stages, full and empty, arrivals per phase, bytes per
load.

Nothing is read but the entries. Three things are inferred, because the log does not contain them:

* Rings, from the order and the addresses of the inits (CUTLASS initialises full[i], empty[i] in turn,
  sm90_pipeline.hpp:305-324, and consecutive barriers of an OrderedSequenceBarrier in turn, sm90_pipeline.hpp:1290)
  and, failing that, from who waits before it loads.
* How many lanes a logged arrival stands for: only lane 0 of a warp logs. The arrivals of one phase must add up to
  the count of the barrier, so the count divided by the logged arrivals per phase is the number of lanes. If they
  cannot add up within this CTA and some arrival is addressed to another CTA, the rest is attributed to CTAs that do
  not log.
* The bytes of a TMA load: its box is a property of the tensor map, so each descriptor delivers the same bytes every
  time, the bytes of a phase's loads add up to what the phase expects, and no box is larger than the step from one
  stage to the next.

What is inferred is the same for every stage of a ring, from the majority of its phases; an entry that breaks it is
then found by the checks that run on the result, with its line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sm90_verify.frontends.log.infer import Arrivals, arrivals_of, box_bytes
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.usage import WGMMA, Usage, addresses_a_peer, usage
from sm90_verify.spec.ptx.limits import WARP

BARRIER_BYTES = 8


@dataclass(frozen=True)
class RecoveredArray:
    """Consecutive barriers with one purpose: their addresses in stage order, their count, what a phase consists of.

    `arrivals` is None if no number of lanes makes the logged arrivals add up to the count.
    """

    addresses: tuple[int, ...]
    count: int
    arrivals: Arrivals | None
    waiters: tuple[int, ...]
    arrivers: tuple[int, ...]


@dataclass(frozen=True)
class RecoveredRing:
    """A pipeline's barriers. `empty` is None for an OrderedSequenceBarrier, whose barriers are all in `full`."""

    name: str
    pipeline: str
    full: RecoveredArray
    empty: RecoveredArray | None
    bytes: int
    copied: bool = False
    """Whether cp.async fills the stages, and no TMA load does."""

    @property
    def stages(self) -> int:
        """Pipeline stages, or depth times length of an ordered sequence."""
        return len(self.full.addresses)


@dataclass(frozen=True)
class BarrierTable:
    """What the log's barriers are for."""

    rings: tuple[RecoveredRing, ...]
    cluster: bool
    box_bytes: dict[int, int]
    """TMA descriptor -> bytes of one load."""
    name: dict[int, str] = field(default_factory=dict)
    """Barrier address -> how a trace calls it."""
    partner: dict[int, int] = field(default_factory=dict)
    """Address of full[i] -> empty[i] and back."""
    array: dict[int, RecoveredArray] = field(default_factory=dict)
    ring: dict[int, RecoveredRing] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    """Warp -> role."""
    delayed: frozenset[int] = frozenset()
    """Barriers whose cp.async arrivals hold up a phase and are no part of its count."""


def recover(records: Sequence[Record]) -> BarrierTable:
    """The table of a log's barriers, rings in the order of their initialisation."""
    use = usage(records)
    cluster = any(addresses_a_peer(r) for r in records)
    rings = []
    for full, empty in _pair_by_use(_pair_by_init(list(use.inits)), use):
        rings.append(_ring(full, empty, use, cluster))
    named = _with_names(rings, use)
    boxes = box_bytes([ring.full.addresses for ring in named], use)
    table = BarrierTable(tuple(named), cluster, boxes, delayed=frozenset(use.delayed))
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


# ---------------------------------------------------------------- rings


def _pair_by_init(order: list[int]) -> list[tuple[list[int], list[int]]]:
    """Arrays (full, empty) from inits that alternate between two arrays; ([...], []) for plain arrays.

    Two arrays side by side alternate as often as the distance between them says, arrays apart as often as they do.
    """
    arrays: list[tuple[list[int], list[int]]] = []
    i = 0
    while i < len(order):
        base = order[i]
        stages, distance = 0, order[i + 1] - base if i + 1 < len(order) else 0
        while (
            distance > BARRIER_BYTES
            and stages < distance // BARRIER_BYTES
            and order[i + 2 * stages : i + 2 * stages + 2]
            == [base + BARRIER_BYTES * stages, base + distance + BARRIER_BYTES * stages]
        ):
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
    """Arrays with bytes that the inits left alone get the array that their loader waits on; a run splits where it
    must.
    """
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


def _ring(full: list[int], empty: list[int], use: Usage, cluster: bool) -> RecoveredRing:
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
    copied = any(a in use.copiers for a in full) and not any(a in use.loads for a in full)
    return RecoveredRing("", pipeline, full_array, empty_array, size, copied)


def _takes_turns(addresses: list[int], use: Usage) -> bool:
    """Whether groups of warps hand a turn around: each waits for its own barriers and arrives at the others'."""
    if len(addresses) < 2 or any(a in use.expects or a in use.loads or a in use.spread for a in addresses):
        return False
    return not any(use.arrivals.get(a, Counter()).keys() & use.waits.get(a, Counter()).keys() for a in addresses)


def _array(addresses: list[int], use: Usage, cluster: bool, paired: bool, phases: dict[int, float]) -> RecoveredArray:
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
        arrivals = arrivals_of(count, addresses, use, cluster=cluster and paired, warps=len(warps), seen=seen)
        rank = (stages, arrivals is not None and arrivals.lanes in (1, WARP))
        if best is None or rank > best[0]:
            best = (rank, count, arrivals)
    assert best is not None
    return RecoveredArray(tuple(addresses), best[1], best[2], tuple(sorted(waiters)), tuple(sorted(warps)))


# ---------------------------------------------------------------- names


def _with_names(rings: list[RecoveredRing], use: Usage) -> list[RecoveredRing]:
    named: list[RecoveredRing] = []
    math = {warp for warp, kinds in use.kinds.items() if any(kind in kinds for kind in WGMMA)}
    taken: Counter[str] = Counter()
    for ring in rings:
        if ring.pipeline == "OrderedSequenceBarrier":
            name = "math order" if math & {*ring.full.waiters, *ring.full.arrivers} else "load order"
        elif ring.pipeline in ("unused", "ClusterBarrier"):
            name = "unused" if ring.pipeline == "unused" else "barrier"
        elif ring.pipeline == "PipelineTmaAsync" or (ring.copied and math & {*ring.full.waiters}):
            name = "mainloop"
        else:
            name = "epilogue load" if ring.bytes else "async"
        taken[name] += 1
        if taken[name] > 1:
            name = f"{name} {taken[name]}"
        named.append(replace(ring, name=name))
    return named


def _roles(use: Usage, table: BarrierTable) -> dict[int, str]:
    """Role of each warp: consumer of a warpgroup that issues wgmma, loader or other producer of a ring,
    or idle.
    """
    loader: dict[int, list[str]] = defaultdict(list)
    for address, warp in use.issuers.items():
        ring = table.ring.get(address)
        if ring and ring.name not in loader[warp]:
            loader[warp].append(ring.name)
    for address, warps in use.copiers.items():
        for warp in warps:
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
            fed = [ring.name for ring in table.rings if ring.empty and warp in ring.full.arrivers]
            roles[warp] = " + ".join(f"{name} producer" for name in fed) or "idle"
    return roles
