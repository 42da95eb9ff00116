"""What the GPU does with a case, beside what the specification predicts: the rows of the table of predictions.

Proved: it is run freely, with small random delays, and must end with the right words. A deadlock and a race are run as
their counterexamples say (gpu.directed); the deadlock must leave the same roles behind in every run, and
the race wrong words in nearly every one. What makes a launch fault (a count that underflows, bytes out of range) is
left to the table of ill-formed operations, and what waits for registers is left out, as the executor has none to give.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.hardware.cases import Case
from sm90_verify.gpu.directed import deadlock_directions, race_directions, with_turns_of
from sm90_verify.gpu.executor import Executor
from sm90_verify.gpu.ways import go_wrong, take
from sm90_verify.gpu.wrong import partial_sum, wrong_data
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.run import observed
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Location, Machine

FAULTS = ("arrival-count", "tx-count", "barrier-init", "named-barrier", "register-pool")
"""Properties whose violation the hardware answers with a fault, or with what no watch can end."""
STATES = 60_000
"""States to visit for all violations of a case."""
WRONG = ("race", "stale-read")
"""Properties whose violation leaves wrong data behind."""


@dataclass(frozen=True)
class Prediction:
    """verdict: "proved", "deadlock", "race", "faults", "other" (violated in a way that a run need not show),
    "undetermined" or "refused". stuck: roles. others: some other role can still go on where the deadlock's schedule
    ends, and so may be stuck too in the end. schedules: of the deadlock, or of the races, each the numbers of its
    actions.
    """

    verdict: str
    stuck: tuple[str, ...] = ()
    others: bool = False
    schedules: tuple[tuple[int, ...], ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Reaction:
    """runs: how many; hangs, wrong: in how many the watch gave up, and wrong words were found. stuck: of the first that
    hung. held: the role that was held. fault: the launch faulted.
    """

    runs: int = 0
    hangs: int = 0
    wrong: int = 0
    same: bool = True
    """All runs left the same roles behind."""
    stuck: tuple[str, ...] = ()
    held: str = ""
    late: bool = False
    """Copies in flight at the end of the schedule were made late."""
    taken: int = -1
    """Runs that took their whole schedule; -1: none was given, or it is not known."""
    twin_wrong: int = -1
    """Runs of the right pipeline, with the same turns and holds, that found wrong words or hung; -1: it was not run."""
    fault: bool = False


@dataclass(frozen=True)
class PredictedCase:
    case: Case
    prediction: Prediction
    reaction: Reaction = field(default_factory=Reaction)

    def line(self) -> dict[str, Any]:
        """As JSON."""
        prediction = asdict(self.prediction)
        prediction.pop("schedules")
        return {**self.case.line(), "predicted": prediction, "did": asdict(self.reaction)}


def predict(case: Case, states: int = STATES) -> Prediction:
    """By the search of every schedule, all violations if there are not too many states; else by the reduced search."""
    try:
        pipeline = case.pipeline()
        plan = lower(trace(pipeline))
        machine = compile_kernel(plan.kernel)
    except SpecError as error:
        return Prediction("refused", why=error.what)
    found = explore(machine, limit=states)
    if not found.violations and not found.complete:
        found = explore(machine, limit=states * 4, reduced=True)
    violations = found.violations
    if not violations:
        why = is_undetermined(found)
        return Prediction("undetermined" if why else "proved", why=why)
    if set(violations) & set(FAULTS):
        return Prediction("faults", why=", ".join(violations))
    if "deadlock" in violations:
        one = violations["deadlock"]
        ends = _ends(machine, one.actions)
        if any(place.kind == "registers" for place in ends.values()):
            return Prediction("other", why="a deadlock of setmaxnreg")
        if any(machine.actions[index].kind == "stays" for index in one.actions):
            return Prediction("other", why="a deadlock for want of CTAs that nobody promises")
        others = any(not place.final for role, place in ends.items() if role not in one.stuck)
        return Prediction("deadlock", tuple(sorted(one.stuck)), others, (one.actions,))
    shown = [name for name in WRONG if name in violations]
    if shown:
        return Prediction("race", (), False, tuple(violations[name].actions for name in shown), shown[0])
    return Prediction("other", why=", ".join(violations))


def _ends(machine: Machine, actions: tuple[int, ...]) -> dict[str, Location]:
    """Where each role is when the schedule has been taken."""
    at = {role.name: 0 for role in machine.roles}
    for index in actions:
        action = machine.actions[index]
        if action.target is not None:
            at[action.role] = action.target
    return {role.name: role.locations[at[role.name]] for role in machine.roles}


def contradicts(prediction: Prediction, reaction: Reaction) -> str:
    """What the GPU did that the prediction rules out, or nothing.

    A race need not show wrong words, as when both writes are of the same; and after it anything may follow. A deadlock
    whose schedule the GPU did not take, as when a copy lands before its turn, is no evidence either way.
    """
    hangs = f"{reaction.hangs} of {reaction.runs} runs hang"
    if prediction.verdict == "proved":
        if reaction.fault or reaction.hangs:
            return "proved, and the launch faults" if reaction.fault else f"proved, and {hangs}"
        return f"proved, and {reaction.wrong} of {reaction.runs} runs find wrong words" if reaction.wrong else ""
    if prediction.verdict != "deadlock":
        return ""
    if not reaction.fault and -1 < reaction.taken < reaction.runs:
        return ""
    if reaction.fault or reaction.hangs < reaction.runs or not reaction.same:
        return f"a deadlock, and {'the launch faults' if reaction.fault else hangs}"
    missing = set(prediction.stuck) - set(reaction.stuck)
    more = () if prediction.others else set(reaction.stuck) - set(prediction.stuck)
    if missing or more:
        return f"stuck are to be {', '.join(prediction.stuck)}, and {', '.join(reaction.stuck)} are"
    return ""


def react(case: Case, prediction: Prediction, *, runs: int = 20, directed: int = 100) -> Reaction:
    """Runs the case on the GPU as its prediction asks for."""
    pipeline = case.pipeline()
    plan = lower(trace(pipeline))
    executor = Executor(plan)
    if prediction.verdict == "proved":
        done = executor.run(runs, seed=1, jitter=2000)
        seen = observed(done)
        return Reaction(runs, seen.hangs, sum(bool(wrong_data(plan, run)) for run in done))
    machine = compile_kernel(plan.kernel)
    if prediction.verdict == "deadlock":
        tried = take(executor, deadlock_directions(plan, machine, prediction.schedules[0]), runs)
        seen = observed(tried.done)
        stuck = next((roles for run, roles in zip(tried.done, seen.stuck, strict=True) if run.hangs), ())
        same = len(set(seen.stuck)) == 1
        return Reaction(runs, seen.hangs, 0, same, stuck, late=tried.way.late, taken=tried.taken)
    ways = [way for actions in prediction.schedules for way in race_directions(plan, machine, actions)]
    tried = go_wrong(executor, ways, plan, directed)
    wrong = sum(map(bool, tried.wrong))
    best = Reaction(
        directed, observed(tried.done).hangs, wrong, held=tried.way.held, taken=tried.taken, late=tried.way.late
    )
    twin = case.twin()
    if twin is None or not wrong:
        return best
    right = lower(trace(twin.pipeline()))
    roles = with_turns_of(right, tried.way.roles)
    way = tried.way
    choices = way.choices if len(way.choices) == len(right.choices) else ()
    done = Executor(right).run(directed, limit=10 * way.limit, patience=way.patience, roles=roles, choices=choices)
    return replace(
        best, twin_wrong=sum(run.hangs or bool(wrong_data(right, run) or partial_sum(right, run)) for run in done)
    )
