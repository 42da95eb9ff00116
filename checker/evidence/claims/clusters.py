"""Claims about clusters: who arrives on whose barriers, how often, and what makes an initialisation visible."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from sm90_verify.evidence.claims.claim import Claim, Condition, Point
from sm90_verify.evidence.claims.models.clusters import ClusterInit, MulticastArrivals
from sm90_verify.evidence.claims.runs import box, enumerated, model, over
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.cluster import arrivals, empty_count, signals
from sm90_verify.spec.cutlass.launch_control import LaunchControl
from sm90_verify.spec.ptx.cluster import Cluster, all_shapes
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

CONSUMERS = (32, 64, 128, 200, 256, 384)
"""Consumer threads: one warp, warpgroups, and numbers that are neither."""
Cases = Iterable[tuple[bool, str]]


def _every_shape(name: str, cases: Callable[[Cluster, int], Cases], predicts: str = PROVED) -> list[Point]:
    """One enumeration for each shape of at most 16 CTAs and each number of consumer threads."""
    found = []
    for shape in all_shapes():
        for consumers in CONSUMERS:
            at = {"cluster": f"{shape.x}x{shape.y}", "consumers": consumers}
            run = enumerated(name, at, partial(cases, shape, consumers))
            found.append(Point(at, run, predicts))
    return found


def _arrivals_are(count: Callable[[Cluster, int], int]) -> Callable[[Cluster, int], Cases]:
    """On every empty barrier as many threads arrive per phase as the formula says, at least one (mbarrier.init)."""

    def cases(shape: Cluster, consumers: int) -> Cases:
        for cta, sources in enumerate(arrivals(shape, consumers)):
            total, wanted = sum(sources), count(shape, consumers)
            right = total == wanted and wanted >= 1
            yield right, f"{total} threads arrive on the empty barrier of CTA {cta}, and the formula says {wanted}"

    return cases


def _one_each(shape: Cluster, consumers: int) -> Cases:
    """Each warpgroup of each CTA arrives once on each CTA in its row or column, and nowhere else."""
    for source in range(shape.size):
        for group in range(0, consumers, WARPGROUP):
            threads = range(group, min(group + WARPGROUP, consumers))
            targets = [
                target for thread in threads if (target := signals(shape, consumers, source, thread)) is not None
            ]
            for cta in range(shape.size):
                sent, wanted = targets.count(cta), int(shape.shares_row_or_column(cta, source))
                yield sent == wanted, f"a warpgroup of CTA {source} sends {sent} arrivals to CTA {cta}, not {wanted}"


def _row_and_column(shape: Cluster, consumers: int) -> Cases:
    for cta in range(shape.size):
        mine = shape.writers(cta)
        near = tuple(other for other in range(shape.size) if shape.shares_row_or_column(other, cta))
        right = mine == near and len(mine) == shape.x + shape.y - 1
        yield right, f"CTA {cta} is written by {mine}, and its row and column are {near}"


def _reach(shape: Cluster, consumers: int) -> Cases:
    """The masks of A and B are one row and one column of the cluster, which meet in the CTA itself."""
    for cta in range(shape.size):
        both = [other for other in shape.sharing_a(cta) if other in shape.sharing_b(cta)]
        yield both == [cta], f"the masks of CTA {cta} have {both} in common"


def _first_of_warp(shape: Cluster, consumers: int) -> Cases:
    for cta in range(shape.size):
        found = [thread for thread in range(consumers) if signals(shape, consumers, cta, thread) is not None]
        first = list(range(0, consumers, WARP))
        yield found == first, f"in CTA {cta} threads {_few(found)} signal, not {_few(first)}"


def _all_threads(shape: Cluster, consumers: int) -> Cases:
    for thread in range(consumers):
        target = signals(shape, consumers, 0, thread)
        yield target == 0, f"thread {thread} of {consumers} signals {target}"


def _few(threads: list[int]) -> str:
    text = ", ".join(map(str, threads[:6]))
    return f"{text}, …" if len(threads) > 6 else text or "none"


def _size(p: dict[str, object]) -> int:
    x, y = str(p["cluster"]).split("x")
    return int(x) * int(y)


def _distributed(p: dict[str, object]) -> bool:
    """The numbers for which PipelineTmaAsync spreads its arrivals."""
    return _size(p) > 1 and (p["consumers"] == WARP or int(str(p["consumers"])) % WARPGROUP == 0)


def _claim_17() -> Iterable[Point]:
    formula = _arrivals_are(lambda s, n: (s.x + s.y - 1) * -(-n // WARPGROUP))
    yield from _every_shape("arrivals on the empty barrier", formula)
    for cluster in ("2x1", "1x2"):
        yield Point({"cluster": cluster, "consumers": WARPGROUP}, model(TmaAsync, stages=1, cluster=cluster))


def _claim_92() -> Iterable[Point]:
    for cluster, load in (("1x1", 0), ("1x1", 1), ("2x1", 0)):
        ctas = 2 if cluster == "2x1" else 1
        count = WARP + ctas * (WARP + WARPGROUP + WARP)
        for stages in (1, 2) if ctas == 1 else (1,):
            at = {"cluster": cluster, "epilogue_load": load, "stages": stages, "count": count}
            yield from over(LaunchControl, [at])
    yield from over(LaunchControl, box(stages=(1, 2), epilogue_load=(0, 1)), beyond=True)


SPREAD = Condition(
    "the cluster has more than one CTA, and the consumers are 32 or a multiple of 128 threads", _distributed
)

ROWS: tuple[Claim, ...] = (
    Claim(
        17,
        "in a cluster the arrival count of the empty barrier is (cx + cy - 1) * consumer warpgroups",
        "as many threads of all CTAs arrive on each empty barrier per phase as this product says",
        _claim_17,
        (SPREAD,),
    ),
    Claim(
        19,
        "the CTAs that can write a stage of a CTA are those in its row or its column: cx + cy - 1",
        "the CTAs whose multicast masks contain a CTA are its row and its column, cx + cy - 1 of them",
        lambda: [
            point
            for name, cases in (("writers of a stage", _row_and_column), ("masks of A and B", _reach))
            for point in _every_shape(name, cases)
            if point.at["consumers"] == WARPGROUP
        ],
    ),
    Claim(
        20,
        "each consumer warpgroup sends exactly one arrival to each such CTA",
        "one thread of each warpgroup arrives on each CTA in the row or column, and no thread anywhere else",
        lambda: _every_shape("arrivals of a warpgroup", _one_each),
        (SPREAD,),
    ),
    Claim(
        21,
        "with one CTA all consumer threads signal block 0",
        "every thread arrives on block 0, which is what the barrier counts, and the ring is right",
        lambda: [
            *(
                Point(
                    {"cluster": "1x1", "consumers": n},
                    enumerated("threads that signal", {}, partial(_all_threads, Cluster(1, 1), n)),
                )
                for n in CONSUMERS
            ),
            *(
                Point(
                    {"cluster": "1x1", "consumers": n},
                    enumerated("count", {}, partial(_arrivals_are(empty_count), Cluster(1, 1), n)),
                )
                for n in CONSUMERS
            ),
            *over(TmaAsync, box(stages=(1, 2), consumers=(1, 2))),
        ],
    ),
    Claim(
        27,
        "cluster_arrive_relaxed + cluster_wait alone make the barrier initialisation visible",
        "without a fence nothing is violated when a copy signals the barriers after the cluster has met",
        lambda: [
            *over(ClusterInit, box(fence=(0,), relaxed=(1,))),
            *over(ClusterInit, box(fence=(1,), relaxed=(1, 0)), beyond=True),
            *over(ClusterInit, box(fence=(0,), relaxed=(0,)), VIOLATED, beyond=True),
        ],
    ),
    Claim(
        53,
        "for multicast the sender must arrive on the barriers of all receivers",
        "something is violated if each leader arms the full barrier of its own CTA only",
        lambda: [
            *over(MulticastArrivals, box(cluster=("2x1", "1x2"), sends=("own",)), VIOLATED),
            *over(MulticastArrivals, box(cluster=("2x1", "1x2"), sends=("all",), count=(1,)), VIOLATED, beyond=True),
            *over(MulticastArrivals, box(cluster=("2x1",), sends=("all",), count=(2,)), beyond=True),
        ],
    ),
    Claim(
        92,
        "in the SM100 launch-control pipeline the empty barrier counts the scheduler warp plus, for each CTA, its load,"
        " epilogue and MMA threads",
        "with this count no property is violated",
        _claim_92,
        (
            Condition(
                "the epilogue needs no load warp: if it does, 32 threads more arrive in each CTA",
                lambda p: not p["epilogue_load"],
            ),
        ),
    ),
    Claim(
        97,
        "consumer warpgroups = num_consumers / 128 (integer division) in the empty-barrier count",
        "as many threads arrive as (cx + cy - 1) * (num_consumers / 128), rounded down, says",
        lambda: _every_shape(
            "arrivals on the empty barrier", _arrivals_are(lambda s, n: (s.x + s.y - 1) * (n // WARPGROUP))
        ),
        (
            Condition(
                "the cluster has more than one CTA and num_consumers is a multiple of 128: for a single consumer warp"
                " CUTLASS rounds up",
                lambda p: _size(p) > 1 and p["consumers"] % WARPGROUP == 0,
            ),
        ),
    ),
    Claim(
        98,
        "the first thread of each warp signals the release",
        "in every CTA exactly the threads 0, 32, 64, … signal",
        lambda: _every_shape("threads that signal", _first_of_warp),
    ),
    Claim(
        99,
        "the branch for num_consumers == 32 overlaps the branch for multiples of 128",
        "some number of consumers from 1 to 1024 satisfies both conditions",
        lambda: [
            Point(
                {"consumers": "1..1024"},
                enumerated(
                    "both branches",
                    {},
                    lambda: ((n % WARPGROUP != 0 or n != WARP, f"{n} takes both") for n in range(1, 1025)),
                ),
                VIOLATED,
            )
        ],
    ),
)
