"""What order says about a pipeline: one run, or for all trip counts one that forks at every end, and its failures."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.order import turns
from sm90_verify.engines.order.plan import Plan
from sm90_verify.engines.order.planner import make_plan, orders_less, refusal
from sm90_verify.engines.order.progress import ALTERNATIVES
from sm90_verify.engines.order.recur import situation
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import Failure
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.model.barrier_bytes import barriers_under
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.model.properties import HALTING, PROPERTIES
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.needs import FENCED, GOES_ON, READ_AT_EXIT, UNTOUCHED, properties_of

MOST_ROUNDS, MOST_EVENTS, MOST_IN_A_PHASE = 4_000, 2_000_000, 500
"""Rounds, events, and contributions to one phase after which a run without end is given up."""
AFTER_A_VIOLATION = 20
"""Rounds for which a run without end goes on in search of violations of other properties."""


@dataclass(frozen=True)
class Outcome:
    """The answer of order, as far as it is known without executing anything on the Machine.

    failures: what is violated, or may be, in the order of the run. why: what keeps everything that is not violated from
    being proved; "" if nothing does. unreliable: properties that a violation of another one leaves open. events: how
    many operations and copies were looked at.
    """

    kernel: Kernel = field(repr=False)
    plan: Plan | None = field(repr=False)
    applies: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    why: str = ""
    unreliable: tuple[str, ...] = ()
    events: int = 0
    seconds: float = 0.0

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    def verdict_on(self, property: str) -> str:
        """proved, violated (by the argument alone, if `trace_of` has not shown it) or undetermined."""
        if any(failure.certain for failure in self.failures if failure.property == property):
            return VIOLATED
        return UNDETERMINED if self.why or property in self.unreliable else PROVED

    @property
    def verdict(self) -> str:
        """The worst of them."""
        if any(failure.certain for failure in self.failures):
            return VIOLATED
        return UNDETERMINED if self.why or self.unreliable else PROVED

    @property
    def verdicts(self) -> dict[str, str]:
        found = dict.fromkeys((*self.applies, *(failure.property for failure in self.failures)))
        return {property: self.verdict_on(property) for property in found}

    def describe(self, failure: Failure) -> str:
        """One line: what is violated, and where each role is in the schedule that shows it."""
        places = []
        for number, program in enumerate(self.programs):
            done = failure.reached[number] if failure.reached else 0
            places.append(f"{program.name} after {done}")
        return f"{failure.property}: {failure.because} ({', '.join(places)})"


def order(
    kernel: Kernel, *, timeout: float = 0.0, asked: Collection[str] = PROPERTIES, effort: Effort | None = None
) -> Outcome:
    """Decides a kernel whose control flow does not depend on the schedule; see engines.order for the argument.

    timeout: seconds after which the run is given up (0: no bound); or what `effort` bounds. asked: of which properties
    a violation ends a run without end.
    """
    start = time.perf_counter()
    applies = applicable(kernel)
    refused = refusal(kernel.programs) or orders_less(kernel)
    if refused:
        return Outcome(kernel, None, applies, why=refused, seconds=time.perf_counter() - start)
    plan = make_plan(kernel)
    walk = _Walk(plan, effort or Effort(timeout), asked)
    walk.walk()
    failures = tuple(walk.failures)
    why = walk.unsure or walk.diverged
    halted = [failure.property for failure in failures if failure.property in HALTING and failure.certain]
    if not why and halted:
        why = f"what follows a violation of {halted[0]} is undefined and was not looked at"
    over_barriers = ("barrier-init",) if kernel.layout.under else ()
    unreliable = ("stale-read", "missing-fence", *over_barriers) if walk.raced else ()
    return Outcome(kernel, plan, applies, failures, why, unreliable, walk.events, time.perf_counter() - start)


class _Walk:
    """The run, and with trip counts left open a run for every one of them."""

    def __init__(self, plan: Plan, effort: Effort, asked: Collection[str]) -> None:
        self.plan, self.effort, self.asked = plan, effort, asked
        self.failures: list[Failure] = []
        self.diverged = self.unsure = ""
        self.raced = False
        self.events = self.bad = 0

    def walk(self) -> None:
        run = Run(self.plan)
        if self.plan.loop:
            run.before_decision = lambda decision: self._end_here(run, decision)
        run.tick = self._tick
        run.start()
        try:
            if not run.halted:
                if self.plan.endless:
                    self._until_it_recurs(run)
                else:
                    run.finish()
        except RanOut as error:
            self.unsure = self.unsure or str(error)
        self._collect(run)

    def _tick(self, role: int, events: int) -> None:
        """Some events are over, the last one of this role."""
        self.effort.tell(f"order, {self.events + events} events")
        why = self.effort.ran_out()
        if why:
            raise RanOut(f"{why}, reached after {self.events + events} events in {self.plan.programs[role].name}")

    def _until_it_recurs(self, run: Run) -> None:
        known: dict[object, list[int]] = {}
        while True:
            key = situation(run)
            if key in known:
                self._without_end(run, known[key])
                return
            known[key] = list(run.state.done)
            if not run.round():
                if not run.halted:
                    run.at_rest()
                return
            why = self._gives_up(run, len(known))
            if why:
                run.unsure = why
                return

    def _gives_up(self, run: Run, rounds: int) -> str:
        self.bad += any(failure.property in self.asked for failure in (*self.failures, *run.failures))
        if self.bad > AFTER_A_VIOLATION:
            return "the run was stopped after the first violations"
        grows = any(len(barrier.contributions) > MOST_IN_A_PHASE for barrier in run.state.barriers)
        if grows or rounds >= MOST_ROUNDS or len(run.state.log) > MOST_EVENTS:
            return f"the run does not recur within {rounds} rounds"
        return ""

    def _without_end(self, run: Run, before: list[int]) -> None:
        """From here on everything repeats: who has not moved since never will, unless other schedules do something else
        and the phase it waits for comes and goes between its turns.
        """
        waiting = turns.waiting(run)
        stuck = [
            program.name
            for role, program in enumerate(self.plan.programs)
            if run.state.done[role] == before[role] and not run.ended(role) and role not in waiting
        ]
        if stuck and not run.diverged:
            run.deadlock(tuple(stuck))

    def _end_here(self, run: Run, decision: int) -> None:
        """Some role is the first to decide whether there is another iteration: the run that ends here."""
        fork = Run(self.plan, run.state.copy(), decision)
        fork.tick = self._tick
        fork.diverged = run.diverged
        already = len(fork.state.log)
        if self.plan.forever:
            self._until_it_recurs(fork)
        else:
            fork.finish()
        self.events -= already
        self._collect(fork)

    def _collect(self, run: Run) -> None:
        for failure in run.failures:
            alike = [
                known
                for known in self.failures
                if (known.property, known.certain) == (failure.property, failure.certain)
            ]
            if len(alike) < ALTERNATIVES and failure not in alike:
                self.failures.append(failure)
        self.diverged = self.diverged or run.diverged
        self.unsure = self.unsure or run.unsure or turns.unsure(run)
        self.raced = self.raced or run.raced
        self.events += len(run.state.log)


def applicable(kernel: Kernel) -> tuple[str, ...]:
    """The properties that the kernel could violate at all."""
    operations = [node.operation for program in kernel.programs for node in program.nodes]
    effects = [effects_of(one) for one in operations]
    concerned = {GOES_ON.property}
    for one in operations:
        concerned.update(properties_of(one))
    waited = {one.waits.barrier for one in effects if one.waits is not None}
    signals = [signal for one in effects for signal in one.signals]
    arrives = {signal.barrier for signal in signals if isinstance(signal, op.Arrive) and signal.count}
    if not waited.isdisjoint(arrives.difference(kernel.rules.unobserved)):
        concerned.add("unobserved-phase")
    if kernel.rules.strict:
        concerned.add(READ_AT_EXIT.property)
    if kernel.layout.under and any(barriers_under(kernel.layout, one) for one in operations):
        concerned.add(UNTOUCHED.property)
    proxies = {access.proxy for one in effects for access in one.accesses if access.space != "registers"}
    if "generic" in proxies and len(proxies) > 1:
        concerned.add(FENCED.property)
    return tuple(property for property in PROPERTIES if property in concerned)
