"""The answer to one question about one model: findings with their traces, and what a log let recover.

report.sections makes of it what the formats render.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from sm90_verify.made_of import KernelTable, LeftOut
from sm90_verify.spec.model.properties import PROPERTIES, SEVERITY

PROVED, VIOLATED, UNDETERMINED = "proved", "violated", "undetermined"
ALLOWED = "allowed"
"""Of one run that was recorded: the specification allows it, and other schedules were not looked at."""
EXIT_CODE = {PROVED: 0, ALLOWED: 0, VIOLATED: 1, UNDETERMINED: 3}
EXIT_CANNOT_RUN = 2
LONG_NAME = 60
"""Letters of a kernel's name that are shown."""
SCHEMA = 1
"""Of results as JSON: what scripts rely on, and a saved trace is read by."""

__all__ = [
    "ALLOWED",
    "EXIT_CANNOT_RUN",
    "EXIT_CODE",
    "PROPERTIES",
    "PROVED",
    "SEVERITY",
    "UNDETERMINED",
    "VIOLATED",
    "Blocked",
    "Finding",
    "Note",
    "Result",
    "Trace",
    "TraceStep",
    "asked_alone",
    "severity",
    "worst",
]


StepKind = Literal["waits", "signals", "loop", "lands", "other"]
"""What a step of a trace is: a role passes or fails a wait; it lets others go on; it decides whether a trip-count loop
goes on; a copy, or a piece of one, lands.
"""


@dataclass(frozen=True)
class TraceStep:
    """One step of a schedule: who did what to which object, at which line, and what it changed (name -> "old->new").

    `action` names the transition of the model, so that the step can be executed again. kind, things: what it is and the
    barriers and buffers that it is on, for those who would otherwise have to read the texts; they are not written to
    files, and known again once the trace has been executed.
    """

    role: str
    op: str
    object: str
    file: str
    line: int
    changes: dict[str, str] = field(default_factory=dict)
    action: str = ""
    kind: StepKind = "other"
    things: tuple[str, ...] = ()
    origin: tuple[str, ...] = ()
    """The lines from which this one was compiled, `file:line`, the innermost of inlined functions first."""


@dataclass(frozen=True)
class Blocked:
    """A role that cannot go on: the barrier and phase that it waits for, what is missing there, and the line where it
    stands. to_blame: the one of several that a report points at. all_came: all roles that do not wait there have
    arrived in this phase, and nobody can again.
    """

    role: str
    waits_for: str
    phase: str
    missing: str
    file: str = ""
    line: int = 0
    to_blame: bool = False
    origin: tuple[str, ...] = ()
    """As of a TraceStep."""
    all_came: bool = False


@dataclass(frozen=True)
class Trace:
    """A schedule that ends in the violation of `property`; `because` is one sentence. next: what a role that the
    sentence names is about to do to the same bytes. advice: what to write instead, if that is likely.
    """

    property: str
    because: str
    steps: tuple[TraceStep, ...]
    blocked: tuple[Blocked, ...] = ()
    next: tuple[TraceStep, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class Finding:
    """The verdict on one property, with the shortest trace if it is violated and what ran out if it is undetermined."""

    id: str
    verdict: str
    trace: Trace | None = None
    note: str = ""


@dataclass(frozen=True)
class Note:
    """Something that the ISA rules out, and that goes well on hardware all the same: what would violate `property` if
    the model were strict. because: one sentence; role, file, line: who does it where; origin: as of a TraceStep.
    """

    property: str
    because: str
    role: str
    file: str
    line: int
    origin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Definition:
    """The class of a Python file that is a model: with its parameters, enough to make the model again."""

    file: str
    name: str


@dataclass(frozen=True)
class BarrierRow:
    """An array of barriers that a log let recover: part "full", "empty" or "order" of a ring.

    pipeline: the CUTLASS class. first: the shared-memory address of the first of its stages. count: arrivals of a
    phase. logged warps arrive by so many lanes each; unseen arrivals come from CTAs that do not log. arrives, waits:
    the roles that do. bytes: expected by a phase. phases: completed in this run, of all stages together.
    """

    ring: str
    pipeline: str
    part: str
    stages: int
    first: int
    count: int
    logged: int
    lanes: int
    unseen: int
    arrives: tuple[str, ...]
    waits: tuple[str, ...]
    bytes: int
    phases: int


@dataclass(frozen=True)
class RoleRow:
    """A role that a log let recover, and its warps."""

    role: str
    warps: tuple[int, ...]


@dataclass(frozen=True)
class Recovered:
    """The barriers and roles that a log let recover."""

    barriers: tuple[BarrierRow, ...]
    roles: tuple[RoleRow, ...]


@dataclass(frozen=True)
class HungWait:
    """Lanes of some warps of a CTA that stand at one place and wait for one thing.

    kind: "mbarrier", "threads" (barrier.cta), "cluster" (barrier.cluster), "lanes" (of their own warp), or "unknown":
    they run, sleep, or wait for something that the dump does not say. lanes: how many, of all warps together. thing:
    the barrier in words. address, rank, parity: of an mbarrier, and of the phase that is waited for; None where the
    dump lacks it. missing: what has not come, in words. places: CUDA lines, the innermost first, then those that it was
    inlined into. ptx_line: 0 where the dump has none.
    """

    kind: Literal["mbarrier", "threads", "cluster", "lanes", "unknown"]
    warps: tuple[int, ...]
    lanes: int
    thing: str
    address: int | None
    rank: int | None
    parity: int | None
    missing: str
    places: tuple[tuple[str, int], ...]
    ptx_line: int


@dataclass(frozen=True)
class HungBarrier:
    """An mbarrier of a CTA, from its word. name: by what the kernel does with it, "" if nobody says. found: "waited
    for", "initialised" by the PTX, or only "beside" one of these and like an mbarrier. phase: the parity of the current
    one; pending of count arrivals it waits for; bytes: expected less delivered. brings: who arrives or copies there,
    and where these stand now.
    """

    address: int
    name: str
    found: str
    phase: int
    pending: int
    count: int
    bytes: int
    brings: tuple[str, ...] = ()


@dataclass(frozen=True)
class HungCtas:
    """CTAs of a grid that stand alike. ended: warps that have."""

    kernel: str
    blocks: tuple[tuple[int, int, int], ...]
    rank: int
    waits: tuple[HungWait, ...]
    barriers: tuple[HungBarrier, ...]
    ended: tuple[int, ...]


@dataclass(frozen=True)
class HangState:
    """What a core dump of a kernel that hangs says. chain: from one wait to what it waits for, in sentences."""

    file: str
    driver: str
    devices: tuple[str, ...]
    exceptions: tuple[str, ...]
    ctas: tuple[HungCtas, ...]
    chain: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The answer to one question about one model.

    scope: what the verdict covers. seconds: wall clock. shown: the parameters that a summary names. definition: where
    the model is written, if a user wrote it. notes: sentences beside the verdict; noted: what PTX rules out, and is no
    violation here. reduced: schedules that nobody can tell apart were left out; shortest: no schedule that shows the
    violation is shorter than its trace (None: the engine does not say). engine: who answered; asked: the word for who
    was to answer, and because: why it is this engine, if the word leaves that open. events: operations and copies that
    order has looked at. hang: the state in a core dump, which the verdict is about. table: what the kernel is made of;
    redundant: what can be left out of it, where that was asked.
    """

    command: str
    model: str
    parameters: dict[str, Any]
    engine: str
    findings: tuple[Finding, ...]
    scope: dict[str, Any] = field(default_factory=dict)
    states: int = 0
    transitions: int = 0
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    definition: Definition | None = None
    reduced: bool | None = None
    shortest: bool | None = None
    recovered: Recovered | None = None
    asked: str = ""
    because: str = ""
    events: int = 0
    noted: tuple[Note, ...] = ()
    hang: HangState | None = None
    table: KernelTable | None = None
    redundant: tuple[LeftOut, ...] | None = None

    @property
    def verdict(self) -> str:
        """The worst of the findings; no finding at all is an error of the caller, never a proof."""
        if not self.findings:
            raise ValueError("a result without a single checked property")
        return worst(finding.verdict for finding in self.findings)

    @property
    def trace(self) -> Trace | None:
        """The trace of the most severe violation."""
        traces = [finding.trace for finding in self.findings if finding.trace is not None]
        return min(traces, key=lambda trace: severity(trace.property)) if traces else None


def asked_alone(note: Note) -> str:
    """Why a note is no answer where nothing but its property was asked: neither proved nor violated would be true."""
    why = f"{note.property} is all that was asked, and no more than a note unless a pipeline is strict"
    return f"{why} (--set strict=true): {note.because}"


def severity(property: str) -> int:
    """The place of a property in SEVERITY; what a model of its own calls a property comes last."""
    return SEVERITY.index(property) if property in SEVERITY else len(SEVERITY)


def worst(verdicts: Iterable[str]) -> str:
    """violated over undetermined over allowed over proved."""
    order = (PROVED, ALLOWED, UNDETERMINED, VIOLATED)
    return order[max((order.index(verdict) for verdict in verdicts), default=1)]
