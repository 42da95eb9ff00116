"""Claims about mainloops, epilogues and whole kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sm90_verify.evidence.claims.claim import Claim, Condition, Point
from sm90_verify.evidence.claims.models.clusters import TwoTiles
from sm90_verify.evidence.claims.runs import arrived, at, box, over, stated, unless
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GemmCooperative, GemmPingpong, GemmWs
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx.expr import Expr, any_of

SMALL: dict[str, Any] = {"stages": 2, "k_tiles": 2, "subtiles": 2, "stages_c": 2, "stages_d": 1}
"""Sizes at which a kernel's stages are used more than once."""
CARRIED = ("deadlock", "race", "phase-lapped", "arrival-count", "tx-count", "unobserved-phase")
"""What a state that is not advanced can break; its tags would name the same data twice, so stale-read says nothing."""


def _not_exactly_released(machine: Machine) -> tuple[Expr, str]:
    """The consumer has ended and has not released each stage once for every k-tile in it."""
    consumer = machine.roles[1]
    stages, k_tiles = int(machine.parameters["stages"]), int(machine.parameters["k_tiles"])
    wrong = []
    for stage in range(stages):
        counts = arrived(machine, consumer.name, f"mainloop.empty[{stage}]")
        needed = consumer.threads * len(range(stage, k_tiles, stages))
        places = [i for i, place in enumerate(consumer.locations) if place.final and counts[i] != needed]
        wrong.append(at(machine, consumer.name, places.__contains__))
    return any_of(wrong), "mma_tail is over and some stage is not released exactly once for each of its k-tiles"


def _claim_25() -> Iterable[Point]:
    for p in box(stages=(3,), mmas_in_flight=(1, 2), k_tiles=(1, 2, 3, 4, 5)):
        yield Point({**p, "asked": "releases"}, stated(Mainloop, _not_exactly_released, **p))
        yield from over(Mainloop, [p])
    outside = [{"stages": 3, "mmas_in_flight": 0, "k_tiles": k} for k in (1, 2)]
    outside += [{"stages": 3, "mmas_in_flight": 1, "k_tiles": 0}]
    yield from over(Mainloop, outside, VIOLATED, beyond=True)
    yield from over(
        Mainloop, [{"stages": 3, "k_tiles": k, "without": "mma_tail"} for k in (3, 4)], VIOLATED, beyond=True
    )


def hangs(p: dict[str, Any]) -> bool:
    """The candidate for when an epilogue deadlocks, in terms of its sizes.

    A load of subtile g waits for the release of g - StagesC, which follows the store of g - StagesC + StagesD - 1. Up
    to the next tail there are `run` subtiles; a delayed store waits for the next subtile of its tile. The tail releases
    at most `subtiles` stages.
    """
    if not p["reuse_smem_c"]:
        return False
    c, d, subtiles = p["stages_c"], p["stages_d"], p["subtiles"]
    together = p.get("schedule", "cooperative") == "cooperative"
    run = subtiles * p["tiles"] if together else subtiles
    lags = c < d and run > c
    delayed = p["delay_tma_store"] and c == d and any(g % subtiles for g in range(c, run))
    kept = together and d - 1 > subtiles and run > subtiles
    return bool(lags or delayed or kept)


def _sizes(**fixed: Any) -> list[dict[str, Any]]:
    """Epilogues around the boundary: up to four stages of C, three of D, three subtiles and two tiles."""
    ranges: dict[str, Any] = {
        "reuse_smem_c": (True,),
        "delay_tma_store": (True,),
        "subtiles": (1, 2, 3),
        "stages_c": (1, 2, 3, 4),
        "stages_d": (1, 2, 3),
        "tiles": (1, 2),
    }
    ranges.update({name: value if isinstance(value, tuple) else (value,) for name, value in fixed.items()})
    return list(box(**ranges))


def _claim_78() -> Iterable[Point]:
    sizes = [
        *_sizes(),
        *_sizes(schedule="ws", tiles=1, stages_c=(1, 2, 3)),
        *_sizes(reuse_smem_c=False, subtiles=(1, 2), stages_c=(1, 2), stages_d=(1, 2)),
    ]
    return over(Epilogue, sizes, lambda p: unless(p["stages_c"] <= p["stages_d"]), "deadlock")


def _refused(p: dict[str, Any]) -> bool:
    """The static assertion at epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp:731."""
    return bool(p["delay_tma_store"] and p["reuse_smem_c"] and p["stages_c"] <= p["stages_d"])


def _claim_79() -> Iterable[Point]:
    """Among the configurations that the other assertion (:172, StagesD <= StagesC with ReuseSmemC) lets through."""
    sizes = [
        *_sizes(delay_tma_store=(True, False)),
        *_sizes(reuse_smem_c=False, delay_tma_store=(True, False), subtiles=2, stages_c=(1, 2), stages_d=(1, 2)),
    ]
    admitted = [p for p in sizes if not p["reuse_smem_c"] or p["stages_d"] <= p["stages_c"]]
    return over(Epilogue, admitted, lambda p: unless(_refused(p)), "deadlock")


def _claim_81() -> Iterable[Point]:
    sizes = [p for p in _sizes(delay_tma_store=(True, False)) if p["stages_d"] <= p["stages_c"]]
    yield from over(Epilogue, sizes)
    larger = [{"stages_c": 2, "stages_d": 1, "subtiles": 3, "tiles": 1, "bytes_c": 4096, "bytes_d": 8192}]
    yield from over(Epilogue, larger, VIOLATED, beyond=True)


def _claim_86() -> Iterable[Point]:
    for kernel in (GemmCooperative, GemmPingpong):
        for tiles in (2, 1):
            for p in box(storage=("union", "struct"), source_needed=(True, False)):
                at = {**SMALL, "subtiles": 1, "tiles": tiles, **p}
                alone = kernel is GemmPingpong and tiles == 1 and not p["source_needed"]
                yield from over(kernel, [at], unless(p["storage"] == "union" and not alone), beyond=tiles == 1)


ROWS: tuple[Claim, ...] = (
    Claim(
        23,
        "a consumer must wait for its WGMMAs (warpgroup_wait<K_PIPE_MMAS>) before it releases the stage",
        "the mainloop is right if at most K_PIPE_MMAS groups are pending at the release, wrong if more or any may be",
        lambda: [
            *over(
                Mainloop,
                box(stages=(2,), k_tiles=("all",), release=("after", "before"), pending=(0, 1, 2)),
                lambda p: unless(p["release"] == "before" or p["pending"] > 1),
            ),
            *over(
                Mainloop,
                box(stages=(3,), k_tiles=(7,), release=("after", "before"), pending=(0, 1, 2)),
                lambda p: unless(p["release"] == "before" or p["pending"] > 1),
            ),
            *over(Mainloop, box(stages=(3,), k_tiles=(1, 2, 3), release=("before",)), PROVED, beyond=True),
        ],
        scope="K_PIPE_MMAS = 1, as in CUTLASS; more k-tiles than stages, else no stage is filled again",
    ),
    Claim(
        25,
        "mma_tail waits for all WGMMAs and then releases exactly the stages that are still unreleased",
        "after the tail each stage has been released once for each of its k-tiles, and no property is violated",
        _claim_25,
        scope="1 <= K_PIPE_MMAS < Stages and at least one k-tile; K_PIPE_MMAS = 0, which ss:473 allows, deadlocks",
    ),
    Claim(
        73,
        "load and mma take the pipeline state by value, so the caller must advance it",
        "with two output tiles something is violated where the caller of load or of mma goes on with the old state",
        lambda: [
            *over(
                TwoTiles,
                [
                    p
                    for p in box(k_tiles=(1, 2, 3, 4, 5, 8), load_advances=(0, 1), mma_advances=(0, 1))
                    if not (p["load_advances"] and p["mma_advances"])
                ],
                VIOLATED,
                *CARRIED,
            ),
            *over(TwoTiles, box(k_tiles=(1, 2, 3, 4, 5, 8)), PROVED, *CARRIED, beyond=True),
        ],
        (
            Condition(
                "k-tiles is not a multiple of 2 * Stages: else the state would be the same anyway",
                lambda p: p["k_tiles"] % 4 != 0,
            ),
        ),
        scope="two stages",
    ),
    Claim(
        78,
        "DelayTmaStore is deadlock-free exactly when StagesC > StagesD",
        "with DelayTmaStore the epilogue deadlocks if StagesC <= StagesD and does not otherwise",
        _claim_78,
        (
            Condition(
                "ReuseSmemC is on (else nothing deadlocks) and there are enough subtiles: up to a tail a subtile number"
                " g >= StagesC, for StagesC = StagesD one that is not the first of its tile; and StagesD - 1 <="
                " subtiles if one tail serves several tiles (cooperative), since it releases no more",
                lambda p: (p["stages_c"] > p["stages_d"]) != hangs(p),
            ),
        ),
    ),
    Claim(
        79,
        "the static assertion that says `will deadlock` rejects exactly the configurations that deadlock",
        "a configuration that the other assertions admit deadlocks if and only if this one rejects it",
        _claim_79,
    ),
    Claim(
        81,
        "support_smem_reuse (StagesD <= StagesC, equal cosize) is sufficient for C and D to alias safely",
        "with ReuseSmemC, StagesD <= StagesC and equal sizes no property of the epilogue is violated",
        _claim_81,
        (
            Condition(
                "it does not deadlock: with DelayTmaStore StagesC > StagesD, unless no subtile number g >= StagesC is"
                " other than the first of its tile; and StagesD - 1 <= subtiles if one tail serves several tiles",
                lambda p: not hangs(p),
            ),
        ),
    ),
    Claim(
        85,
        "the non-cooperative kernel may alias mainloop and epilogue tensors",
        "the kernel for one tile is right with its tensors in a union",
        lambda: [
            *over(
                GemmWs, [{**SMALL, **p} for p in box(storage=("union", "struct"), k_tiles=(1, 2, 3), stages_c=(1, 2))]
            ),
            *over(GemmWs, [{**SMALL, "storage": "union", "without": "load_tail"}], VIOLATED, beyond=True),
        ],
    ),
    Claim(
        86,
        "the cooperative and the pingpong kernel may not alias mainloop and epilogue tensors",
        "with their tensors in a union some property is violated, in a struct none",
        _claim_86,
        scope="more than one tile of a CTA; a single pingpong tile without C is right even in a union",
    ),
    Claim(
        110,
        "gemm, commit, wait<K_PIPE_MMAS>, then release of the lagging stage is the right order",
        "the mainloop in this order violates no property",
        lambda: [
            *over(Mainloop, box(stages=(2,), mmas_in_flight=(1,), k_tiles=("all",))),
            *over(
                Mainloop,
                [
                    {"stages": s, "mmas_in_flight": k, "k_tiles": n}
                    for s in (2, 3, 4)
                    for k in range(1, s)
                    for n in (1, s, 2 * s + 1)
                ],
            ),
            *over(
                Mainloop,
                [{"stages": s, "mmas_in_flight": k, "k_tiles": 2 * s + 1} for s in (2, 3) for k in (0, s)],
                VIOLATED,
                beyond=True,
            ),
            *over(Mainloop, box(stages=(2, 3), k_tiles=(7,), release=("before",)), VIOLATED, beyond=True),
        ],
        scope="1 <= K_PIPE_MMAS < Stages (1 in CUTLASS)",
    ),
)
