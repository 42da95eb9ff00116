"""Solves for what a synclog leaves out: the lanes behind an arrival, the arrivals of other CTAs, the bytes of a load.

Only lane 0 of a warp logs. The arrivals of one phase must add up to the count of the barrier, so the count divided
by the logged arrivals of a phase is the number of lanes; what cannot add up within this CTA is attributed to CTAs
that do not log, if this CTA signals other CTAs itself. The box of a TMA load is a property of its tensor map, so
each descriptor delivers the same bytes every time, and the loads of a phase add up to what the phase expects.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sm90_verify.frontends.log.usage import Usage
from sm90_verify.spec.ptx.limits import WARP


@dataclass(frozen=True)
class Arrivals:
    """One phase of a barrier: `logged` arrivals of `lanes` threads each, `leaders` single ones, `unseen` in other
    CTAs.
    """

    logged: int
    lanes: int
    leaders: int
    unseen: int


def arrivals_of(
    count: int, addresses: list[int], use: Usage, *, cluster: bool, warps: int, seen: int
) -> Arrivals | None:
    """What makes up a phase of `count`; an arrive.expect_tx is one thread, as in every CUTLASS pipeline
    (sm90_pipeline.hpp:515).
    """
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
    addresses other CTAs itself. `spread`: the lanes of a warp signal different CTAs, so at most one is for this CTA.
    """
    if not warps:
        return Arrivals(0, 1, 0, count if cluster else 0)
    if seen:
        if WARP * seen == count or (not cluster and count % seen == 0 and count // seen <= WARP):
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


def box_bytes(rings: Sequence[Sequence[int]], use: Usage) -> dict[int, int]:
    """Bytes of one load by descriptor: each ring's most frequent (descriptors, expected bytes) are solved in turn."""
    box: dict[int, int] = {}
    for ring in rings:
        step: dict[int, int] = {}
        places: dict[int, set[int]] = defaultdict(set)
        phases: Counter[tuple[tuple[int, ...], int]] = Counter()
        for address in ring:
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
            step[descriptor] = min((b - a for a, b in itertools.pairwise(sorted(starts))), default=0)
        for (boxes, expected), _ in phases.most_common():
            unknown = [d for d in dict.fromkeys(boxes) if d not in box]
            rest = expected - sum(box.get(d, 0) for d in boxes)
            for n, descriptor in enumerate(unknown):
                times = boxes.count(descriptor)
                later = sum(boxes.count(d) for d in unknown[n + 1 :])
                size = (rest - 16 * later) // times
                box[descriptor] = max(0, min(size, step[descriptor] or size) if later else size)
                rest -= box[descriptor] * times
    return box
