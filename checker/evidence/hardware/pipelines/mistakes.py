"""Mistakes that the hand-written kernels can be compiled with, each beside the model that makes the same one.

The model is what the specification's verdict is asked of; the delays are what makes the kernel show it. A race needs
one role to be late at the right place; with the same delays the kernel without the mistake must stay right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.hardware.pipelines import mistaken
from sm90_verify.evidence.hardware.recorder.tapes import Hold
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

MISTAKES = (
    "none",
    "producer-phase",
    "release-before-read",
    "expect-more",
    "expect-less",
    "release-by-some-warps",
    "count-of-one-group",
    "count-too-large",
    "state-not-advanced",
    "phase-not-flipped",
    "acquire-skipped",
    "multicast-to-itself",
    "release-to-itself",
    "cluster-forgotten",
    "tail-left-out",
    "expect-left-out",
    "commit-by-one-lane",
    "commit-before-write",
    "fence-left-out",
    "wait-read-left-out",
    "store-sync-left-out",
    "acquire-sync-left-out",
    "turn-not-advanced",
    "all-groups-wait",
    "arrives-at-itself",
    "released-after-read",
    "store-tail-left-out",
)
"""The enumerators of Mistake in kernels/pipelines.cuh, in order."""
POINTS = {"load": 1, "read": 2, "release": 3, "write": 4, "store": 5, "turn": 6}
"""Before what a Hold can be, as Point has it."""
LATE = 60_000
"""Nanoseconds for which a role is held: longer than everything else takes."""
LANDING = 10_000
"""Nanoseconds in which a copy surely lands."""
STATES = 150_000
"""To visit of a model in search of all that it violates."""
FLOOD = 16
"""Prefetches that keep the TMA unit busy longer than it takes to write a stage."""


@dataclass(frozen=True)
class MistakePrediction:
    """violated: properties; none if the model is proved. stuck: the roles of a deadlock."""

    violated: tuple[str, ...]
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    """name: of MISTAKES; kernel, parameters: of the kernel. model: that makes the same mistake. shows: what the GPU is
    to do: "hang", "wrong" words, "fault", "nothing" that can be told from a right run, or "anything", as the ISA does
    not say what.
    """

    name: str
    kernel: str
    parameters: dict[str, Any]
    model: Callable[..., Pipeline]
    shows: str
    holds: tuple[Hold, ...] = ()
    flood: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    """Parameters that only the model has."""

    @property
    def number(self) -> int:
        return MISTAKES.index(self.name)

    @property
    def label(self) -> str:
        cluster = self.parameters.get("cluster")
        return f"{self.kernel} {self.name}" + (f" in a cluster of {cluster}" if cluster else "")

    def pipeline(self) -> Pipeline:
        return self.model(**self.parameters, **self.more)

    def predict(self) -> MistakePrediction:
        """Of every schedule, as far as STATES go; raises SpecError if nothing was found and not all were visited."""
        found = _predicted(self.model, (*self.parameters.items(), *self.more.items()))
        if found is None:
            raise SpecError(f"{self.label}: {STATES} states are too few")
        return found


@cache
def _predicted(model: Callable[..., Pipeline], parameters: tuple[tuple[str, Any], ...]) -> MistakePrediction | None:
    machine = compile_kernel(trace(model(**dict(parameters))))
    found = explore(machine, limit=STATES)
    if not found.violations and not found.complete:
        found = explore(machine, limit=4 * STATES, reduced=True)
    if not found.violations and not found.complete:
        return None
    deadlock = found.violations.get("deadlock")
    return MistakePrediction(tuple(found.violations), deadlock.stuck if deadlock else ())


# ---------------------------------------------------------------- all of them


def _late(before: str, *places: int, iteration: int = 0, nanoseconds: int = LATE) -> tuple[Hold, ...]:
    """The places of the cluster, all without any, come late at a point."""
    point = POINTS[before]
    if not places:
        return (Hold(point, iteration=iteration, nanoseconds=nanoseconds),)
    return tuple(Hold(point, place, iteration, nanoseconds) for place in places)


_RING = {"stages": 2, "trips": 7, "bytes": 4096}
_CLUSTER = {"stages": 2, "trips": 5, "bytes": 4096, "cluster": "2x1"}
_STORE = {"stages": 2, "trips": 6, "bytes": 8192}
_TURNS = {"stages": 2, "consumers": 2, "trips": 5}
_EPILOGUE = {
    "schedule": "cooperative",
    "stages_c": 4,
    "stages_d": 2,
    "reuse_smem_c": True,
    "subtiles": 4,
    "tiles": 2,
    "bytes_c": 4096,
    "bytes_d": 4096,
}
_SHORT = {**_EPILOGUE, "stages_c": 2, "subtiles": 2, "tiles": 1}
_APART = {**_EPILOGUE, "stages_c": 2, "stages_d": 1, "reuse_smem_c": False}


def _without(part: str) -> dict[str, Any]:
    return {"without": part.replace("-", "_")}


def mistakes() -> tuple[Mistake, ...]:
    """All mistakes, kernel by kernel."""
    first_of_two = {**_RING, "consumers": 2}
    one_stage = {**_STORE, "stages": 1}
    return (
        Mistake("producer-phase", "tma-async", _RING, mistaken.ProducerPhase, "hang"),
        Mistake("release-before-read", "tma-async", _RING, mistaken.ReleaseBeforeRead, "wrong", _late("read")),
        Mistake("expect-more", "tma-async", _RING, mistaken.ExpectMore, "hang"),
        Mistake("expect-less", "tma-async", _RING, mistaken.ExpectLess, "anything"),
        Mistake("release-by-some-warps", "tma-async", _RING, mistaken.ReleaseBySomeWarps, "hang"),
        Mistake(
            "count-of-one-group",
            "tma-async",
            first_of_two,
            mistaken.CountOfOneGroup,
            "wrong",
            _late("read", 5, 6, 7, 8),
        ),
        Mistake("count-too-large", "tma-async", _RING, mistaken.CountTooLarge, "hang"),
        Mistake("state-not-advanced", "tma-async", _RING, mistaken.StateNotAdvanced, "wrong"),
        Mistake("phase-not-flipped", "tma-async", _RING, mistaken.PhaseNotFlipped, "wrong", _late("load", iteration=2)),
        Mistake(
            "acquire-skipped",
            "tma-async",
            _RING,
            mistaken.AcquireSkipped,
            "wrong",
            (*_late("read"), Hold(POINTS["load"], nanoseconds=LANDING)),
        ),
        Mistake("multicast-to-itself", "tma-async", _CLUSTER, mistaken.MulticastToItself, "hang"),
        Mistake("release-to-itself", "tma-async", _CLUSTER, mistaken.ReleaseToItself, "hang"),
        Mistake(
            "cluster-forgotten", "tma-async", _CLUSTER, mistaken.ClusterForgotten, "wrong", _late("read", 6, 7, 8, 9)
        ),
        Mistake(
            "tail-left-out",
            "tma-async",
            _CLUSTER,
            mistaken.TailLeftOut,
            "fault",
            _late("release", 6, 7, 8, 9, iteration=4),
        ),
        Mistake("producer-phase", "tma-async", _CLUSTER, mistaken.ProducerPhase, "hang"),
        Mistake("expect-left-out", "transaction-async", _RING, mistaken.ExpectLeftOut, "wrong", flood=FLOOD),
        Mistake("commit-by-one-lane", "transaction-async", _RING, mistaken.CommitByOneLane, "hang"),
        Mistake("release-by-some-warps", "transaction-async", _RING, mistaken.CReleaseBySomeWarps, "hang"),
        Mistake("release-before-read", "transaction-async", _RING, mistaken.CReleaseBeforeRead, "wrong", _late("read")),
        Mistake("commit-before-write", "async", _RING, mistaken.CommitBeforeWrite, "wrong", _late("write")),
        Mistake("acquire-skipped", "async", _RING, mistaken.XAcquireSkipped, "wrong", _late("read")),
        Mistake("fence-left-out", "tma-store", _STORE, mistaken.StoreWithout, "nothing", more={"fence": False}),
        Mistake(
            "wait-read-left-out",
            "tma-store",
            one_stage,
            mistaken.StoreWithout,
            "wrong",
            flood=FLOOD,
            more={"wait": False},
        ),
        Mistake(
            "store-sync-left-out",
            "tma-store",
            _STORE,
            mistaken.StoreWithout,
            "wrong",
            _late("write", 1, 2, 3),
            more={"store_sync": False},
        ),
        Mistake(
            "acquire-sync-left-out",
            "tma-store",
            one_stage,
            mistaken.StoreWithout,
            "wrong",
            _late("store"),
            more={"acquire_sync": False},
        ),
        Mistake(
            "turn-not-advanced",
            "ordered-sequence",
            _TURNS,
            mistaken.TurnNotAdvanced,
            "wrong",
            _late("turn", 4, 5, 6, 7),
        ),
        Mistake("all-groups-wait", "ordered-sequence", _TURNS, mistaken.AllGroupsWait, "hang"),
        Mistake("arrives-at-itself", "ordered-sequence", _TURNS, mistaken.ArrivesAtItself, "hang"),
        Mistake("released-after-read", "epilogue", _EPILOGUE, mistaken.ReleasedAfterRead, "wrong", _late("store")),
        Mistake("store-tail-left-out", "epilogue", _SHORT, Epilogue, "hang", more=_without("store-tail")),
        Mistake(
            "store-sync-left-out",
            "epilogue",
            _APART,
            Epilogue,
            "wrong",
            _late("write", *range(3, 10)),
            more=_without("store-sync"),
        ),
        Mistake(
            "acquire-sync-left-out",
            "epilogue",
            _APART,
            Epilogue,
            "wrong",
            _late("store"),
            more=_without("acquire-sync"),
        ),
        Mistake("wait-read-left-out", "epilogue", _APART, Epilogue, "wrong", flood=FLOOD, more=_without("store-wait")),
        Mistake("fence-left-out", "epilogue", _APART, Epilogue, "nothing", more=_without("store-fence")),
        Mistake(
            "none",
            "epilogue",
            {**_EPILOGUE, "stages_c": 5, "stages_d": 4, "subtiles": 2},
            Epilogue,
            "hang",
        ),
    )
