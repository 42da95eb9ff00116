"""Every value of one launch parameter from one on: `verify ptx --sweep NAME=A..`.

Values up to some bound are decided one by one. From there on, values that are a period apart have the same programs,
but for rounds of their loops, which is shown of the registers (sm90_verify.frontends.ptx.periods): so one kernel with
loops stands for all of them, and there is one for each value within the period. Nothing is claimed unless each of them
is proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sm90_verify.decide.cases import MOST_LOCATIONS, MOST_STATES, Asked, Kept, LaunchCase, of_case, together
from sm90_verify.decide.sweep import Swept, found_among
from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.order import order
from sm90_verify.engines.table import DEFAULT
from sm90_verify.frontends.ptx.heads import Unlike
from sm90_verify.frontends.ptx.inserted import Counting, counting, marked, may_go_on
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.lane_races import lane_races
from sm90_verify.frontends.ptx.launch import InPeriods, Launch, OpenValue
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.result import PROPERTIES, PROVED, UNDETERMINED, VIOLATED, Result
from sm90_verify.spec.model.kernel import Kernel

MOST_APART = 24
"""Values of a period that is looked for."""
MOST_TRIES = 4
"""Periods of which it is looked at the registers."""
GREATEST = (1 << 30, 1 << 20)
"""The greatest value that is claimed: the first of these for which nothing overflows; of parameters of fewer than four
bytes, a quarter of what they hold.
"""
WITHOUT = 24
"""Values that are decided where no larger ones can be claimed."""
BEYOND = 3
"""Values that are decided where a kernel with loops is violated, to see whether one of a launch is."""


class Classes(NamedTuple):
    """first: the number of the value from which on values are claimed; apart: how many values a period has; greatest:
    the greatest value. cases: of each value within the period. lines: of the heads of loops.
    """

    first: int
    apart: int
    greatest: int
    cases: tuple[tuple[LaunchCase, ...], ...]
    lines: tuple[int, ...]


@dataclass
class Larger:
    """Looks for periods of one launch. decide: the result on a launch with one value. loops: the kernels with
    loops that are proved, each with the first value that it stands for.
    """

    module: PtxModule
    function: Function
    launch: Launch
    swept: Swept
    asked: Asked
    effort: Effort
    decide: Callable[[Launch], Result]
    loops: list[tuple[int, Kept]] = field(default_factory=list)
    runs: dict[int, list[Counting]] = field(default_factory=dict)

    def result(self, name: str) -> Result:
        """The result for all values. name: of the kernel."""
        start = time.perf_counter()
        return replace(self._result(name), seconds=time.perf_counter() - start)

    def _result(self, name: str) -> Result:
        classes, why = self._classes()
        base = self._base(WITHOUT if classes is None else classes.first)
        if base.verdict == VIOLATED:
            return base
        if classes is None:
            return self._open(base, why)
        larger = []
        for number, cases in enumerate(classes.cases):
            try:
                kernels = [Kept(case, lift(case.execution, name)) for case in cases]
                one = together([self._of_case(case, kernel) for case, kernel in kernels])
            except (RanOut, Undetermined) as error:
                return self._open(base, str(error))
            if one.verdict != PROVED:
                return self._beyond(base, classes, number, one)
            larger.append(one)
            self.loops += [(self._value(classes.first + number), kernel) for kernel in kernels]
        return self._claimed(base, classes, larger)

    def _of_case(self, case: LaunchCase, kernel: Kernel) -> Result:
        """By default order alone, and then search for a while, of a small kernel: others may never come to an end."""
        if self.asked.engine != DEFAULT:
            return of_case(case, kernel, self.asked, self.effort)
        large = sum(len(program.nodes) for program in kernel.programs) > MOST_LOCATIONS
        if large and not self.asked.limit:
            self._must_be_proved(kernel)
        ordered = of_case(case, kernel, self.asked._replace(engine="order", limit=0, reduced=True), self.effort)
        if all(one.verdict == PROVED for one in ordered.findings) or lane_races(case.execution):
            return ordered
        limited = self.asked._replace(limit=self.asked.limit or MOST_STATES)
        return of_case(case, kernel, limited, self.effort)

    def _must_be_proved(self, kernel: Kernel) -> None:
        """By order, without a schedule that shows what is not: no violation of a kernel with loops is one yet.

        Raises Undetermined.
        """
        outcome = order(kernel.allowing(), effort=self.effort)
        wanted = self.asked.properties or PROPERTIES
        bad = [id for id, verdict in outcome.verdicts.items() if verdict != PROVED and id in wanted]
        if bad:
            why = next((one.because for one in outcome.failures if one.property in bad), outcome.why_open(bad[0]))
            raise Undetermined(f"{bad[0]} is not proved for any number of periods: {why}")

    def _value(self, number: int) -> int:
        return self.swept.values.start + number * self.swept.values.step

    def _of(self, number: int) -> Launch:
        value, most = self._value(number), (1 << 8 * self.swept.size) - 1
        if value > most:
            raise Unlike(f"{self.swept.name} holds no more than {most}")
        return self.launch.with_value(self.swept.offset, self.swept.size, value)

    # -- one by one

    def _base(self, count: int) -> Result:
        """The result for so many values."""

        def each() -> Iterator[tuple[int, Result]]:
            room = ((1 << 8 * self.swept.size) - 1 - self._value(0)) // self.swept.values.step + 1
            for number in range(min(count, room)):
                yield self._value(number), self.decide(self._of(number))

        return found_among(each(), self.swept)

    def _open(self, base: Result, why: str) -> Result:
        """Larger values are not claimed: what is not violated is undetermined."""
        decided = base.scope["sweep"][self.swept.name]
        note = f"larger values of {self.swept.name} are not claimed: {why}"
        findings = tuple(
            replace(
                one, verdict=UNDETERMINED, note=f"proved for {decided[0]} to {decided[1]}, larger ones are not claimed"
            )
            if one.verdict == PROVED
            else one
            for one in base.findings
        )
        return replace(base, findings=findings, notes=(note, *base.notes))

    # -- by periods

    def _classes(self) -> tuple[Classes | None, str]:
        """What stands for all larger values; or None, and why there is nothing."""
        why: list[str] = []
        for apart, first, greatest in self._tries(why):
            try:
                return self._of_period(first, apart, greatest), ""
            except Unlike as error:
                why.append(f"line {error.line}: {error}" if error.line else str(error))
            except (RanOut, Undetermined) as error:
                why.append(str(error))
        return None, why[0] if why else f"what it does does not come again by periods of up to {MOST_APART} values"

    def _tries(self, why: list[str]) -> Iterator[tuple[int, int, int]]:
        """Periods by which what the kernel does comes again, from which value on they do, and what is to be claimed."""
        tries = 0
        for apart in range(1, MOST_APART + 1):
            for first in (apart + 4, 3 * apart + 8):
                try:
                    goes_on = self._may_go_on(first, apart)
                except (RanOut, Undetermined, Unlike) as error:
                    why.append(str(error))
                    return
                if goes_on:
                    yield from ((apart, first, greatest) for greatest in self._bounds())
                    tries += 1
                if tries == MOST_TRIES:
                    return

    def _bounds(self) -> list[int]:
        """Greatest values to claim, the greatest first."""
        return list(GREATEST) if self.swept.size >= 4 else [1 << 8 * self.swept.size - 2]

    def _of_period(self, first: int, apart: int, greatest: int) -> Classes:
        found = [self._marked(first + number, apart, greatest) for number in range(apart)]
        lines = dict.fromkeys(line for _, some in found for line in some)
        return Classes(first, apart, greatest, tuple(cases for cases, _ in found), tuple(lines))

    def _may_go_on(self, first: int, apart: int) -> bool:
        runs = zip(*(self._counting(first + times * apart) for times in range(3)), strict=True)
        return all(may_go_on(*some) for some in runs)

    def _counting(self, number: int) -> list[Counting]:
        if number not in self.runs:
            sliced = next((some[0].run.code.sliced for some in self.runs.values()), None)
            launch = self._of(number)
            self.runs[number] = [
                counting(self.module, self.function, launch, blocks, self.effort.tick, sliced)
                for blocks in launch.clusters()
            ]
        return self.runs[number]

    def _marked(self, number: int, apart: int, greatest: int) -> tuple[tuple[LaunchCase, ...], tuple[int, ...]]:
        """The cases of all values that are a multiple of the period beyond one."""
        step = apart * self.swept.values.step
        start = self._value(number) + step
        if start > greatest:
            raise Unlike(f"values above {greatest} are not claimed, and {self.swept.name} is there already")
        value = OpenValue(
            self.swept.name, self.swept.offset, self.swept.size, step, (greatest - start) // step, InPeriods()
        )
        launch = replace(self._of(number + apart), open=value)
        lines: dict[int, None] = {}
        found: dict[object, LaunchCase] = {}
        pairs = zip(launch.clusters(), self._counting(number), self._counting(number + apart), strict=True)
        for blocks, few, more in pairs:
            run, some = marked(self.module, self.function, launch, blocks, self.effort.tick, few, more)
            lines.update(dict.fromkeys(some))
            key = tuple(tuple(warp.events) for cta in run.cluster.ctas for warp in cta.warps)
            known = found.get(key)
            found[key] = LaunchCase(blocks, 1 if known is None else known.clusters + 1, run)
        return tuple(found.values()), tuple(lines)

    def _beyond(self, base: Result, classes: Classes, number: int, found: Result) -> Result:
        """A kernel with loops is not proved: the result on a launch that it stands for and that is violated, if one of
        the first is.
        """
        for times in range(BEYOND if found.verdict == VIOLATED else 0):
            value = classes.first + number + times * classes.apart
            one = self.decide(self._of(value))
            if one.verdict == VIOLATED:
                return found_among(iter([(self._value(value), one)]), self.swept)
        first = next(one for one in found.findings if one.verdict != PROVED)
        what = f"{first.id} is {first.verdict} for any number of periods"
        return self._open(base, f"{what}{': ' if first.note else ''}{first.note}")

    def _claimed(self, base: Result, classes: Classes, larger: list[Result]) -> Result:
        name, step = self.swept.name, self.swept.values.step
        start, period = self._value(classes.first), classes.apart * step
        all_of = together([base, *larger])
        lines = ", ".join(map(str, classes.lines))
        note = (
            f"{name} from {start} on by periods of {period}: at the heads of loops (line {lines}) all that registers "
            "hold and that matters is as it was a period before, or has gone on by the same each time; and what has "
            "decides nothing but when to stop"
        )
        if not lines:
            note = f"{name} from {start} on by periods of {period}: no loop depends on it"
        by_periods = {"name": name, "from": start, "period": period, "one_by_one": base.scope["sweep"][name]}
        scope: dict[str, object] = {
            **base.scope,
            "sweep": {name: [self.swept.values.start, classes.greatest], "step": step},
            "periods": by_periods,
        }
        return replace(
            base,
            parameters={**base.parameters, name: f"{self.swept.values.start}.."},
            findings=all_of.findings,
            scope=scope,
            notes=(note, *all_of.notes),
            noted=all_of.noted,
            states=all_of.states,
            events=all_of.events,
        )
