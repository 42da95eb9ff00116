"""What kernels/gemm.cu can do wrong: what the specification predicts of it, and what the GPU does.

A deadlock must hang in every run, with the roles stuck that the search says; a race must leave wrong numbers in nearly
every run in which a role is held where the race is, and in none of the right kernel's with the same holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.violation import Violation
from sm90_verify.evidence.hardware.gemm.config import K_TILE, POINTS, Config, names
from sm90_verify.evidence.hardware.gemm.kernel import GemmKernel
from sm90_verify.evidence.hardware.gemm.models import model_class
from sm90_verify.evidence.hardware.reactions import STATES, WRONG
from sm90_verify.evidence.hardware.recorder.tapes import ALL, Hold
from sm90_verify.result import PROVED
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

RUNS = 100
HELD = 20_000
"""Nanoseconds: longer than a copy takes, and than all k-tiles do."""
LIMIT = 100_000_000
"""Nanoseconds after which waits of a kernel that may hang give up: longer than other processes may have the GPU."""
PATIENT = 2_000_000_000
"""The same for a kernel that ends."""
HARMLESS = {*WRONG, "missing-fence", "exit-hazard"}
"""Properties whose violation changes nothing of what roles do next, as none of them looks at the numbers."""


@dataclass(frozen=True)
class Variant:
    """A wrong kernel, for `tiles` tiles of D a CTA. holds: (point, role, iteration, nanoseconds) of a directed run; a
    role of "" is all, an iteration of -1 too. shows: what a run is to show, "hang" or "wrong"; "" if nothing certain.
    """

    config: Config
    k_tiles: int
    tiles: int = 1
    holds: tuple[tuple[str, str, int, int], ...] = ()
    shows: str = "hang"

    @property
    def label(self) -> str:
        return f"{self.config.schedule} {self.config.wrong or 'store_tail'}"

    @property
    def twin(self) -> Variant | None:
        """The same without what is wrong; None where it is the sizes that are."""
        return replace(self, config=replace(self.config, wrong="")) if self.config.wrong else None

    def directed(self) -> tuple[Hold, ...]:
        """The holds, place by place."""
        known = names(self.config).places
        found = []
        for point, role, iteration, nanoseconds in self.holds:
            places = [place for place, name in enumerate(known) if name == role] if role else [ALL]
            when = ALL if iteration < 0 else iteration
            found += [Hold(POINTS.index(point), place, when, nanoseconds) for place in places]
        return tuple(found)


@dataclass(frozen=True)
class GemmPrediction:
    """violations: by property, the shortest schedule. complete: nothing else can be violated."""

    violations: dict[str, Violation]
    complete: bool

    @property
    def wrong(self) -> bool:
        return any(name in self.violations for name in WRONG)

    @property
    def stuck(self) -> tuple[str, ...]:
        """The roles of the deadlock."""
        deadlock = self.violations.get("deadlock")
        return tuple(sorted(deadlock.stuck)) if deadlock else ()


@dataclass(frozen=True)
class GemmReaction:
    """What the GPU did in `runs` runs: how many hung, and how many left wrong numbers. stuck: by the roles that did not
    end, in how many runs. differs: runs that were not, operation by operation, what the wrong model does; like_right:
    runs that were what the right one does. twin_hangs, twin_wrong: of the right kernel with the same holds, -1: none.
    """

    runs: int
    hangs: int
    wrong: int
    stuck: tuple[tuple[tuple[str, ...], int], ...]
    differs: int
    like_right: int
    because: str
    twin_hangs: int = -1
    twin_wrong: int = -1


def predict(variant: Variant, states: int = STATES) -> GemmPrediction:
    """By the search of every schedule, and by order if there are too many for that and it has found nothing."""
    pipeline = variant.config.model(variant.k_tiles, variant.tiles, model_class(variant.config))
    kernel = trace(pipeline)
    machine = compile_kernel(kernel)
    found = explore(machine, limit=states)
    if found.violations or found.complete:
        return GemmPrediction(found.violations, found.complete)
    outcome = order(kernel)
    return GemmPrediction(confirm(outcome, machine), outcome.verdict == PROVED)


class React:
    """A variant on the GPU, one CTA or cluster a run."""

    def __init__(self, variant: Variant, runs: int = RUNS) -> None:
        self.variant, self.runs = variant, runs

    def kernel(self, config: Config) -> GemmKernel:
        variant = self.variant
        rows = next(count for count in (10, 5, 4, 2, 1) if self.runs % count == 0)
        columns = self.runs // rows * variant.tiles
        return GemmKernel(
            config,
            rows * config.ctas * config.tile[0],
            columns * config.tile[1],
            variant.k_tiles * K_TILE,
            ctas=self.runs * config.ctas,
            directed=True,
        )

    @cached_property
    def reaction(self) -> GemmReaction:
        """What the wrong kernel did, and the right one with the same holds."""
        variant = self.variant
        kernel = self.kernel(variant.config)
        outcome = kernel.run(limit=LIMIT, holds=variant.directed())
        own = kernel.plan(variant.tiles, model_class(variant.config))
        right = kernel.plan(variant.tiles)
        every, ctas = range(self.runs), variant.config.ctas
        differences = [one.differences for one in kernel.conform(outcome, own, every)]
        against = [one.differences for one in kernel.conform(outcome, right, every)]
        known = names(variant.config).places
        stuck: Counter[tuple[str, ...]] = Counter()
        for run in every:
            roles = {
                right.kernel.cluster.home(cta) + name
                for cta in range(ctas)
                for name, tape in zip(known, outcome.tapes[run * ctas + cta], strict=True)
                if tape.stuck is not None
            }
            stuck[tuple(sorted(roles))] += bool(roles)
        done = GemmReaction(
            self.runs,
            _runs(outcome.hangs, ctas),
            _runs(outcome.wrong, ctas),
            tuple((roles, count) for roles, count in stuck.most_common() if count),
            sum(bool(one) for one in differences),
            sum(not one for one in against),
            next((one[0].because for one in (*differences, *against) if one), ""),
        )
        twin = variant.twin
        if twin is None:
            return done
        beside = self.kernel(twin.config).run(limit=PATIENT, holds=variant.directed())
        return replace(done, twin_hangs=_runs(beside.hangs, ctas), twin_wrong=_runs(beside.wrong, ctas))


def _runs(ctas: Sequence[bool], of_a_run: int) -> int:
    """Runs of which some CTA is meant."""
    return sum(any(ctas[first : first + of_a_run]) for first in range(0, len(ctas), of_a_run))


def contradicts(prediction: GemmPrediction, variant: Variant, reaction: GemmReaction) -> str:
    """What the GPU did that the prediction rules out, or that the directed run was to show and did not; or nothing."""
    of = f"of {reaction.runs} runs"
    if reaction.differs:
        return f"{reaction.differs} {of} are not what the model of the wrong kernel does: {reaction.because}"
    if reaction.twin_hangs > 0 or reaction.twin_wrong > 0:
        return f"the right kernel hangs in {reaction.twin_hangs} and is wrong in {reaction.twin_wrong} {of}"
    if not prediction.wrong and reaction.wrong > reaction.hangs:
        return f"no race is predicted, and {reaction.wrong} {of} are wrong"
    if reaction.hangs and prediction.complete and not set(prediction.violations) - HARMLESS:
        return f"no deadlock is predicted, and {reaction.hangs} {of} hang"
    if variant.shows == "hang":
        if reaction.hangs < reaction.runs:
            return f"a deadlock is predicted, and {reaction.hangs} {of} hang"
        if [roles for roles, _ in reaction.stuck] != [prediction.stuck]:
            return f"stuck are to be {', '.join(prediction.stuck)}, and {reaction.stuck} are"
    elif variant.shows == "wrong" and reaction.wrong < 0.95 * reaction.runs:
        return f"a race is predicted, and {reaction.wrong} {of} are wrong"
    return ""


def variants() -> Iterator[Variant]:
    """Every wrong kernel of every schedule that it has a meaning for, small enough to be searched."""
    for schedule in ("ws", "cooperative", "pingpong"):
        tiles = 1 if schedule == "ws" else 2
        tile = (128 if schedule == "cooperative" else 64, 64)

        def one(
            wrong: str,
            *holds: tuple[str, str, int, int],
            shows: str = "wrong",
            k_tiles: int = 5,
            schedule: str = schedule,
            tiles: int = tiles,
            tile: tuple[int, int] = tile,
            **more: int | bool | tuple[int, int],
        ) -> Variant:
            config = Config(schedule, **{"stages": 2, "tile": tile, "wrong": wrong, **more})  # type: ignore[arg-type]
            return Variant(config, k_tiles, tiles, holds, shows)

        yield one("release_before_mma", ("mma", "", -1, HELD))
        yield one("release_own", shows="hang", cluster=True)
        yield one("release_before_wait", shows="", repeat=7)
        yield one("release_unwaited", shows="", repeat=7, tile=(tile[0], 256))
        yield one("expect_less", ("load_b", "", -1, HELD))
        yield one("expect_more", shows="hang")
        yield one("consumer_parity", ("load_a", "", -1, HELD))
        yield one("producer_phase", shows="hang")
        yield one("no_release", shows="hang")
        yield one("no_tail_release", shows="hang")
        # The producer must not be a lap ahead of its own copies, or the full barrier is armed twice: a fault.
        yield one("no_acquire", ("load_a", "", -1, HELD // 4), ("mma", "", -1, HELD), k_tiles=4, tiles=1)
        yield one(
            "no_store_sync",
            ("write", "consumer.1", -1, HELD),
            *(("write", role, -1, HELD) for role in ("consumer0.1", "consumer1.1", "consumer1")),
        )
        yield one("no_store_fence", shows="")
        yield one("no_store_wait", shows="", tile=(tile[0], 128), stages_d=1)
        yield one("source_released", ("read", "", -1, HELD), tile=(tile[0], 128), source=True, stages_c=1)
        if schedule == "ws":
            yield one("no_load_tail", ("mma", "", -1, HELD), source=True)
        if schedule == "cooperative":
            yield one("", shows="hang", source=True, reuse=True, stages_c=5, stages_d=4)
        if schedule == "pingpong":
            yield one("order_swapped", shows="hang")
            yield one("no_mma_order", ("load_a", "", 0, HELD))
            yield one("no_epilogue_order", ("write", "consumer0.1", -1, HELD))
