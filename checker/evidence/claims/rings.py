"""Claims about the ring: who starts in which phase, who waits for whom, and how many arrive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sm90_verify.evidence.claims.claim import Claim, Condition, Point
from sm90_verify.evidence.claims.models import designs, first_laps, rings
from sm90_verify.evidence.claims.runs import at, behind, box, ended, model, over, stated, unless
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.classes import TmaAsync, TransactionAsync
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx.expr import Expr, any_of

STAGES = (1, 2, 3, 4)


def _slot(array: str, index: int, slots: int) -> str:
    return f"{array}[{index}]" if slots > 1 else array


def _unreleased_at_the_end(machine: Machine) -> tuple[Expr, str]:
    """The producer has ended and some copy that it issued has not been released."""
    producer, consumer = machine.roles[0], machine.roles[1]
    stages, issued = int(machine.parameters["stages"]), int(machine.parameters["trips"])
    left = [
        behind(
            machine,
            consumer.name,
            _slot("pipeline.empty", stage, stages),
            consumer.threads * len(range(stage, issued, stages)),
        )
        for stage in range(stages)
    ]
    return ended(machine, producer) & any_of(left), "the producer has ended and a stage that it filled is not released"


def _overtakes(machine: Machine) -> tuple[Expr, str]:
    """The producer copies into a stage on which not all consumers have arrived, in its last iteration."""
    producer, consumers = machine.roles[0], machine.roles[1:]
    stages, last = int(machine.parameters["stages"]), int(machine.parameters["trips"]) - 1
    barrier, buffer = _slot("pipeline.empty", last % stages, stages), _slot("a", last % stages, stages)
    loads = [i for i, place in enumerate(producer.locations) if place.kind == "load" and buffer in place.things]
    laps = max(1, last // stages)
    missing = [behind(machine, consumer.name, barrier, consumer.threads * laps) for consumer in consumers]
    because = f"the producer goes on with {buffer} and not every consumer has arrived on {barrier} for it"
    return at(machine, producer.name, lambda place: place == loads[-1]) & any_of(missing), because


def _claims_6() -> Iterable[Point]:
    for stages in (1, 2, 3):
        for trips in range(2 * stages + 1):
            for tail in (1, 0):
                # Without a tail nothing is left to wait for only if nothing was issued.
                sizes: dict[str, Any] = {"stages": stages, "trips": trips, "tail": tail}
                wrong = not tail and trips > 0
                yield Point(sizes, stated(rings.Tail, _unreleased_at_the_end, **sizes), unless(wrong))
    in_clusters = box(cluster=("2x1", "1x2"), stages=(1,), tail=(1, 0))
    yield from over(rings.Tail, in_clusters, lambda p: unless(not p["tail"]), "exit-hazard")


def _claims_11() -> Iterable[Point]:
    for consumers in (1, 2):
        for stages in (1, 2, 3):
            for k in range(2 * stages + 1):
                sizes: dict[str, Any] = {"stages": stages, "consumers": consumers, "trips": k + 1}
                yield Point({"stages": stages, "consumers": consumers, "k": k}, stated(TmaAsync, _overtakes, **sizes))


ROWS: tuple[Claim, ...] = (
    Claim(
        1,
        "the full and the empty barrier of each stage alone make the ring safe and live",
        "no property is violated, however the producer starts and whenever the consumers release",
        lambda: over(rings.Ring, box(stages=(1, 2, 3), consumers=(1, 2), first=(1, 0), release=("after", "before"))),
        (
            Condition(
                "the producer starts in the opposite phase, and the consumers arrive when their reads are over",
                lambda p: p["first"] == 1 and p["release"] == "after",
            ),
        ),
    ),
    Claim(
        6,
        "producer_tail waits for every stage to be released and so prevents an early exit",
        "with the tail the producer never ends before every stage that it filled is released, and no CTA exits while"
        " others reach into it; without it, both happen",
        _claims_6,
    ),
    Claim(
        10,
        "two consumers: the empty barrier is initialised to 2 and each consumer warpgroup arrives once",
        "with a count of 2 and one arrival of each of two warpgroups no property is violated",
        lambda: over(rings.OneArrivalPerWarpgroup, box(stages=(1, 2), reads=("wgmma", "ldmatrix"), meets=(0, 1))),
        (
            Condition(
                "the stage is read by WGMMA, which completes for all four warps at once, or the warps meet before one"
                " of them arrives (in a cluster of one CTA CUTLASS lets every thread arrive: 256)",
                lambda p: p["reads"] == "wgmma" or p["meets"] == 1,
            ),
        ),
    ),
    Claim(
        11,
        "the producer continues on a stage only after all consumers have arrived on its empty barrier",
        "when the producer copies in iteration k, every consumer has arrived on the stage's empty barrier for it",
        _claims_11,
        (
            Condition(
                "it is not the first lap (k >= stages), whose acquires pass on fresh barriers",
                lambda p: p["k"] >= p["stages"],
            ),
        ),
    ),
    Claim(
        13,
        "a producer that starts at phase 1 passes its first acquires on fresh barriers",
        "nobody releases anything and the producer does not block in its first `stages` iterations",
        lambda: [
            *over(
                rings.ProducerAlone,
                [{"stages": s, "trips": t} for s in (1, 2, 4, 8) for t in range(1, s + 1)],
                PROVED,
                "deadlock",
            ),
            *over(
                rings.ProducerAlone,
                [{"stages": s, "trips": s + 1} for s in (1, 2, 4, 8)],
                VIOLATED,
                "deadlock",
                beyond=True,
            ),
        ],
        scope="the first `stages` acquires",
    ),
    Claim(
        15,
        "the parity bit is enough to avoid confusing laps of the ring",
        "no wait is lapped and no read is stale, whoever waits on the stages",
        lambda: [
            *over(
                rings.Observer,
                box(stages=(1, 2, 3), consumers=(1, 2), counted=(1, 0)),
                PROVED,
                "phase-lapped",
                "stale-read",
            )
        ],
        (
            Condition(
                "everybody who waits on a full barrier is counted by the empty barrier and releases",
                lambda p: p["counted"] == 1,
            ),
        ),
    ),
    Claim(
        16,
        "the arrival count of the full barrier is the number of producers that arrive",
        "a full barrier of count c with p producers is right exactly when c = p",
        lambda: over(
            rings.Counts,
            box(stages=(1, 2), producers=(1, 2, 3), full=(1, 2, 3)),
            lambda p: unless(p["full"] != p["producers"]),
        ),
    ),
    Claim(
        18,
        "more than one leader that executes arrive.expect_tx breaks the full barrier",
        "with several leaders some property is violated",
        lambda: [
            *over(rings.Leaders, box(leaders=(2, 3), full=(1, 2, 3), expects=(1024, 512)), VIOLATED),
            *over(rings.Leaders, box(leaders=(1,), full=(1,), expects=(1024,)), PROVED, beyond=True),
        ],
        (
            Condition(
                "the barrier does not count that many leaders, or together they expect other bytes than are delivered",
                lambda p: p["full"] != p["leaders"] or p["leaders"] * p["expects"] != 1024,
            ),
        ),
    ),
    Claim(
        26,
        "is_leader = (thread 0 of the warpgroup) is right whichever lane elect.sync picks",
        "the elected lane runs the load loop, and no property is violated whichever lane it is",
        lambda: over(rings.Elected, box(stages=(1, 2), elected=range(32))),
        (Condition("elect.sync picks lane 0, which PTX does not promise", lambda p: p["elected"] == 0),),
    ),
    Claim(
        34,
        "the producer starts at (index 0, phase 0) and runs ahead by four stages",
        "a producer that starts at phase 0 takes four stages before anybody releases one",
        lambda: [
            *over(rings.ProducerAlone, box(stages=(4,), first=(0,), trips=(1, 2, 3, 4)), PROVED, "deadlock"),
            *over(rings.ProducerAlone, box(stages=(4,), first=(1,), trips=(4,)), PROVED, "deadlock", beyond=True),
        ],
    ),
    Claim(
        35,
        "at the wrap the producer waits with phase 1 for the first release",
        "a producer that waits with parity 1 in its second lap is right",
        lambda: [
            *over(first_laps.Wrap, box(stages=STAGES, lap0=(1, 0), lap1=(1,))),
            *over(first_laps.Wrap, box(stages=STAGES, lap0=(1,), lap1=(0,)), beyond=True),
        ],
    ),
    Claim(
        46,
        "producer and consumer both start at phase 0",
        "a ring whose producer starts at phase 0 is right",
        lambda: over(rings.Ring, box(stages=STAGES, first=(0,))),
    ),
    Claim(
        65,
        "full barrier: arrival count = number of consumers; empty barrier: number of producers",
        "the ring with these two counts is right for any numbers of producers and consumers",
        lambda: [
            Point(p, model(rings.Counts, **p, full=p["consumers"], empty=p["producers"]))
            for p in box(stages=(2,), producers=(1, 2, 3), consumers=(1, 2, 3))
        ],
    ),
    Claim(
        93,
        "producer_acquire returns at once if the pipeline is initially empty",
        "nobody releases anything and the first `stages` acquires do not block, whatever phase the producer starts in",
        lambda: over(
            rings.ProducerAlone,
            [{"stages": s, "trips": s, "first": f} for s in (1, 2, 4, 8) for f in (1, 0)],
            PROVED,
            "deadlock",
        ),
        (Condition("the producer starts in make_producer_start_state (phase 1)", lambda p: p["first"] == 1),),
    ),
    Claim(
        94,
        "skipping acquire in the first round and starting at make_producer_start_state are both correct",
        "the ring is right if the producer starts in phase 1, and if it skips acquire in its first lap",
        lambda: [
            *over(first_laps.FirstRound, box(stages=(1, 2, 3), skip=("nothing",), first=(1,))),
            *over(first_laps.FirstRound, box(stages=(1, 2, 3), skip=("wait", "acquire"), first=(1, 0))),
            *over(first_laps.FirstRoundAsync, box(stages=(1, 2, 3), skip=("nothing",), first=(1,))),
            *over(first_laps.FirstRoundAsync, box(stages=(1, 2, 3), skip=("wait",), first=(1, 0))),
        ],
        (
            Condition(
                "the state starts in phase 1 all the same, and what is skipped is the wait alone: the leader still arms"
                " the full barrier",
                lambda p: p["first"] == 1 and p["skip"] != "acquire",
            ),
        ),
    ),
    Claim(
        95,
        "without a prologue that commits every stage before the first acquire, acquire and wait block each other",
        "the ring without the prologue deadlocks",
        lambda: [
            *over(first_laps.Prologue, box(stages=STAGES, prologue=(0,), first=(1, 0)), VIOLATED, "deadlock"),
            *over(first_laps.Prologue, box(stages=STAGES, prologue=(1,), first=(0,)), beyond=True),
            *over(first_laps.Prologue, box(stages=STAGES, prologue=(1,), first=(1,)), VIOLATED, beyond=True),
        ],
        (Condition("the producer starts in phase 0 instead of make_producer_start_state", lambda p: p["first"] == 0),),
    ),
    Claim(
        96,
        "the four-stage demo with consumer_arv_count = 1 is correct for any number of warps",
        "with one arrival of each consumer warp and a count of 1 no property is violated",
        lambda: over(designs.FourStageDemo, box(warps=(1, 2, 3))),
    ),
    Claim(
        102,
        "forgetting expect_transaction only loses a number",
        "a ring whose producer never announces the bytes is right",
        lambda: [
            *over(designs.NoExpectation, box(stages=(1, 2, 3), consumers=(1, 2))),
            *over(TransactionAsync, box(stages=(1, 2, 3), consumers=(1, 2)), beyond=True),
        ],
    ),
)
