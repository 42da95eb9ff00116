"""What `verify ptx` says of a hand-written kernel, beside what is said of its model.

Data is not visible in PTX: that a role reads another iteration's (stale-read) is what a race or a wait for the wrong
phase comes to there. Otherwise a kernel with a mistake violates nothing that its model does not, and of what its model
violates nothing is proved.
"""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.decide.ptx import cases_of, check_ptx
from sm90_verify.engines.effort import Effort
from sm90_verify.engines.order import order
from sm90_verify.evidence.hardware.from_ptx.cases import PtxCase
from sm90_verify.frontends.ptx.instruction import PtxModule
from sm90_verify.frontends.ptx.launch_file import launch_of
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.read import entry_of
from sm90_verify.report.blame import to_blame
from sm90_verify.result import PROVED, VIOLATED, Result

DATA = ("stale-read",)
"""Properties that PTX does not show."""


@dataclass(frozen=True)
class PtxRow:
    """model: what the model violates. found: what the PTX does, each with a schedule that was executed; open: what is
    undetermined there. blamed: by property that is found, the lines of the sources that are to blame, the innermost
    function first.
    """

    name: str
    model: tuple[str, ...]
    found: tuple[str, ...]
    open: tuple[str, ...]
    blamed: dict[str, tuple[str, ...]]

    @property
    def contradicts(self) -> str:
        """In what PTX and model differ, or nothing."""
        return disagreement(self.model, self.found, self.open)


def disagreement(model: tuple[str, ...], found: tuple[str, ...], left_open: tuple[str, ...]) -> str:
    """In what the verdict on PTX differs from that on a model, or nothing."""
    if not model:
        return (
            f"the model is proved, and the PTX is not: {', '.join((*found, *left_open))}" if found or left_open else ""
        )
    missed = [one for one in model if one not in (*found, *left_open, *DATA, "unobserved-phase")]
    if missed:
        return f"proved of the PTX, and violated by the model: {', '.join(missed)}"
    if not set(found) & set(model):
        return f"violated by the model: {', '.join(model)}; by the PTX: {', '.join(found) or 'nothing'}"
    return ""


def module_of(case: PtxCase, text: str) -> PtxModule:
    return parse(text, f"{case.source}.ptx")


def decide(case: PtxCase, text: str, *, timeout: float = 0.0) -> Result:
    """The whole answer of `verify ptx` to the PTX of a case, with the schedules that were found first: to which one a
    search for shorter ones comes depends on the time that it has.
    """
    launch = launch_of(dict(case.launch), case.name)
    return check_ptx(module_of(case, text), launch, timeout=timeout, trace_seconds=0.0)


def row(case: PtxCase, text: str) -> PtxRow:
    """All that is kept of a case."""
    result = decide(case, text)
    found = [one for one in result.findings if one.verdict == VIOLATED]
    blamed = {}
    for one in found:
        place = None if one.trace is None else to_blame(one.trace)
        blamed[one.id] = () if place is None else place.origin
    left = tuple(one.id for one in result.findings if one.verdict not in (VIOLATED, PROVED))
    return PtxRow(case.name, case.violated(), tuple(one.id for one in found), left, blamed)


def argued(case: PtxCase, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What order violates of the PTX by its argument alone, without a schedule that is executed, and what it leaves
    open: a tenth of the time.
    """
    module, launch = module_of(case, text), launch_of(dict(case.launch), case.name)
    (only,) = cases_of(module, entry_of(module, launch.kernel, launch), launch, Effort())
    outcome = order(lift(only.execution, case.name))
    verdicts = outcome.verdicts
    if only.execution.stuck is not None:
        verdicts = {name: VIOLATED if one == VIOLATED else "undetermined" for name, one in verdicts.items()}
    found = tuple(name for name, one in verdicts.items() if one == VIOLATED)
    return found, tuple(name for name, one in verdicts.items() if one not in (VIOLATED, PROVED))
