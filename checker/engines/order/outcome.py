"""What order says about a pipeline: the failures of its run, or of those for all answers to its decisions."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from sm90_verify.engines.effort import Effort
from sm90_verify.engines.order.forks import Forks
from sm90_verify.engines.order.plan import Plan
from sm90_verify.engines.order.planner import make_plan
from sm90_verify.engines.order.refusals import why_not
from sm90_verify.engines.order.state import Failure
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.model.barrier_bytes import barriers_under
from sm90_verify.spec.model.handing import may_hand_on
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.model.properties import HALTING, PROPERTIES, UNORDERED
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.needs import FENCED, GOES_ON, GRANTED, READ_AT_EXIT, UNTOUCHED, properties_of

STARVED = (GOES_ON.property, GRANTED.property, "arrival-count")
"""What is violated where a request for registers is never granted."""


@dataclass(frozen=True)
class Outcome:
    """The answer of order, as far as it is known without executing anything on the Machine.

    failures: what is violated, or may be, in the order of the run. why: what keeps everything that is not violated from
    being proved; "" if nothing does. unreliable: properties that a violation of another one leaves open. contested: why
    those of STARVED are open; "" if they are not. handed: as of a Run, why those of UNORDERED are. events: how
    many operations and copies were looked at. stopped: there are more.
    """

    kernel: Kernel = field(repr=False)
    plan: Plan | None = field(repr=False)
    applies: tuple[str, ...]
    failures: tuple[Failure, ...] = ()
    why: str = ""
    unreliable: tuple[str, ...] = ()
    contested: str = ""
    handed: str = ""
    events: int = 0
    seconds: float = 0.0
    stopped: bool = False

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    def verdict_on(self, property: str) -> str:
        """proved, violated (by the argument alone, if `trace_of` has not shown it) or undetermined."""
        if any(failure.certain for failure in self.failures if failure.property == property):
            return VIOLATED
        starved = self.contested and property in STARVED
        unordered = self.handed and property in UNORDERED
        return UNDETERMINED if self.why or starved or unordered or property in self.unreliable else PROVED

    def why_open(self, property: str) -> str:
        """Why a property is undetermined."""
        own = self.contested if property in STARVED else self.handed if property in UNORDERED else ""
        return self.why or own or "it depends on what a race leaves behind"

    @property
    def verdict(self) -> str:
        """The worst of them."""
        if any(failure.certain for failure in self.failures):
            return VIOLATED
        return UNDETERMINED if self.why or self.contested or self.handed or self.unreliable else PROVED

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
    kernel: Kernel,
    *,
    timeout: float = 0.0,
    asked: Collection[str] = PROPERTIES,
    effort: Effort | None = None,
    stopping: Collection[str] = (),
) -> Outcome:
    """Decides a kernel whose control flow does not depend on the schedule; see engines.order for the argument.

    timeout: seconds after which the run is given up (0: no bound); or what `effort` bounds. asked: of which properties
    a violation ends a run without end. stopping: of which properties a violation stops any run some events later, so
    that others which are violated still later are open.
    """
    start = time.perf_counter()
    applies = applicable(kernel)
    refused = why_not(kernel)
    if refused:
        return Outcome(kernel, None, applies, why=refused, seconds=time.perf_counter() - start)
    plan = make_plan(kernel)
    runs = Forks(plan, effort or Effort(timeout), asked, stopping)
    runs.follow()
    failures = tuple(runs.failures)
    why = runs.unsure or runs.diverged
    halted = [failure.property for failure in failures if failure.property in HALTING and failure.certain]
    if not why and halted:
        why = f"what follows a violation of {halted[0]} is undefined and was not looked at"
    over_barriers = ("barrier-init",) if kernel.layout.under else ()
    unreliable = ("stale-read", "missing-fence", *over_barriers) if runs.raced else ()
    return Outcome(
        kernel,
        plan,
        applies,
        failures,
        why,
        unreliable,
        runs.contested,
        runs.handed,
        runs.events,
        time.perf_counter() - start,
        runs.stopped,
    )


def hands_on(kernel: Kernel, effort: Effort | None = None) -> bool:
    """Whether somebody may rely on what others have told it where they met and released nothing; so it is said if there
    is no time to tell.
    """
    outcome = order(kernel, effort=effort) if may_hand_on(kernel) else None
    return outcome is not None and bool(outcome.handed or outcome.why)


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
    arrives.update(one.triggers.barrier for one in effects if one.triggers is not None)
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
