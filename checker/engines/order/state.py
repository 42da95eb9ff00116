"""What a run remembers, as plain data that can be copied: clocks, barriers, meetings, accesses, and what failed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.plan import Plan
from sm90_verify.spec.ptx.numbers import KnownBarrier

RunEvent = tuple[int, int, int, int]
"""(role, node, the answer or -1, its number); or for a copy that lands (~role, node of the load, barrier, stage)."""


@dataclass(frozen=True)
class Failure:
    """`property` is violated in the schedule that takes the events before `reached`, in the order of the run, and then
    `step`, a (role, node) or for a copy that lands (~role, node).

    certain: so says the argument in engines.order. astray: it is only certain that roles do something else there than
    in the run, and what comes of that is open; beyond: what to run after the step, to see. late: (role, event,
    barrier) of a copy that has not landed. put_off: by role, the first event that comes after all that may come before
    it; () for the order of the run. given: after every setmaxnreg.dec so far. stuck: roles that can never run
    again. log, length: the run so far.
    """

    property: str
    because: str
    object: str
    reached: tuple[int, ...]
    step: tuple[int, int] | None = None
    stuck: tuple[str, ...] = ()
    beyond: tuple[int, ...] = ()
    certain: bool = True
    astray: bool = False
    late: tuple[int, int, int] | None = None
    put_off: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    log: Sequence[RunEvent] = field(default=(), repr=False, compare=False)
    length: int = 0


class Contribution(NamedTuple):
    """What an event of a role, or of ~role a piece of the copy that it has issued, adds to a phase: the bytes by which
    it moves the tx-count, and the clock that it is published with.
    """

    moved: int
    clock: Clock
    role: int
    event: int


@dataclass(slots=True)
class BarrierState:
    """One mbarrier. stage: completions, inits and invals so far; first: the stage of its first phase;
    dead: the stages without a live object.

    shared: the join of the clocks of this phase's contributions; completions: the clock after each completion, init and
    inval.
    seen: by role, the stage it has seen last, only where it waits; fresh: roles that have not waited since an init.
    required: by role (~role: with a token), (stage, event, stand): the phase of that stage must not complete before the
    event, and can be seen to where the role stands after `stand` events.
    witness: by role, (stage, event): who is past that event shows that the stage was reached.
    arrived: by role, the stage of its last arrival. unfenced, hidden: by role, when it fences its init, and
    when it makes it visible to other CTAs.
    copies, copied: a copy is counted in this phase, or was in the last. contributions: to this phase, in the order of
    the run; expected: the bytes that they announce. highest, lowest: what the tx-count does not exceed in any order
    of them (+-NEVER: that it can leave its range is known).
    open_expects: (bytes, role, event) that must be before the completion and that no arrival of this phase is known to
    follow; open_arrivals: (role, event) of arrivals that must not be last. used: by role, its last event here, where it
    matters.
    """

    parts: KnownBarrier
    stage: int = 0
    first: int = 0
    dead: tuple[int, ...] = ()
    shared: Clock | None = None
    completions: list[Clock] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    fresh: tuple[int, ...] = ()
    required: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    witness: dict[int, tuple[int, int]] = field(default_factory=dict)
    arrived: dict[int, int] = field(default_factory=dict)
    unfenced: dict[int, int] = field(default_factory=dict)
    hidden: dict[int, int] = field(default_factory=dict)
    used: dict[int, int] = field(default_factory=dict)
    expected: int = 0
    highest: int = 0
    lowest: int = 0
    copies: bool = False
    copied: bool = False
    open_expects: list[tuple[int, int, int]] = field(default_factory=list)
    open_arrivals: list[tuple[int, int]] = field(default_factory=list)
    contributions: list[Contribution] = field(default_factory=list)

    def copy(self) -> BarrierState:
        return BarrierState(
            self.parts,
            self.stage,
            self.first,
            self.dead,
            self.shared,
            list(self.completions),
            dict(self.seen),
            self.fresh,
            dict(self.required),
            dict(self.witness),
            dict(self.arrived),
            dict(self.unfenced),
            dict(self.hidden),
            dict(self.used),
            self.expected,
            self.highest,
            self.lowest,
            self.copies,
            self.copied,
            list(self.open_expects),
            list(self.open_arrivals),
            list(self.contributions),
        )


@dataclass(slots=True)
class MeetingState:
    """A named barrier, __syncthreads() or barrier.cluster: threads arrived, the count it was opened with, completions,
    who has arrived, and at barrier.cluster who may leave after which completion. places: by role that is part of a warp
    and line, its arrival there in this generation, and whether it waits inside.
    """

    arrived: int = 0
    count: int = 0
    stage: int = 0
    shared: Clock | None = None
    members: tuple[int, ...] = ()
    completions: list[Clock] = field(default_factory=list)
    leaving: dict[int, int] = field(default_factory=dict)
    places: dict[tuple[int, str], tuple[int, bool]] = field(default_factory=dict)

    def copy(self) -> MeetingState:
        return MeetingState(
            self.arrived,
            self.count,
            self.stage,
            self.shared,
            self.members,
            list(self.completions),
            dict(self.leaving),
            dict(self.places),
        )


@dataclass(slots=True)
class Spans:
    """One role's accesses of one region: when the last write, the last read, and the last that was left without release
    end (NEVER: they have not), and with which event it was left so (loosened); wrote, began: when the last write and
    read began. raw_write, raw_read: when the last generic write ends; with `strict`, when the role has fenced the last
    one, and read (NEVER: it has not). -1 if there is none.
    """

    write: int = -1
    wrote: int = -1
    read: int = -1
    began: int = -1
    raw_write: int = -1
    raw_wrote: int = -1
    raw_read: int = -1
    loose_write: int = -1
    loose_read: int = -1
    loosened_write: int = -1
    loosened_read: int = -1
    group: int = -1
    """Of reads by wgmmas that a warpgroup executes together: the number of the group of the last one, from 0 on."""

    def close(self, event: int) -> None:
        """Whatever has not ended is over with this event."""
        for name in ("write", "read", "raw_write", "raw_read", "loose_write", "loose_read"):
            if getattr(self, name) == NEVER:
                setattr(self, name, event)

    def made_by(self, event: int, *, write: bool) -> None:
        """From here on a barrier tells whether the access is over: for its own part, it is made with this event."""
        if write:
            self.write, self.raw_write = event, -1
        else:
            self.read = event

    def copy(self) -> Spans:
        return Spans(
            self.write,
            self.wrote,
            self.read,
            self.began,
            self.raw_write,
            self.raw_wrote,
            self.raw_read,
            self.loose_write,
            self.loose_read,
            self.loosened_write,
            self.loosened_read,
            self.group,
        )


@dataclass(slots=True)
class Issued:
    """Groups of wgmmas of a part of a warpgroup. clocks: after its commit of each; waited: of each that it has waited
    for, the event of the first wait.
    """

    clocks: list[Clock] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)

    def copy(self) -> Issued:
        return Issued(list(self.clocks), list(self.waited))


class InFlight(NamedTuple):
    """The last copy or cp.async that a barrier tells of: the stage in which it is counted, who has issued it and with
    which event. copied: it is a cp.async, which an arrival follows; waited: the event with which its role has waited
    for its group.
    """

    stage: int
    role: int
    event: int
    copied: bool = False
    waited: int = NEVER


class MapWrite(NamedTuple):
    """A role's last write of a tensormap: its event, and those of the release after it for its own CTA and for others
    (NEVER: not yet).
    """

    event: int
    here: int = NEVER
    there: int = NEVER


@dataclass(slots=True)
class DecisionState:
    """The decisions of a name. answers: those that are given, from the first one on; read: by role, how many of them it
    has asked for.
    """

    answers: list[int]
    read: list[int]

    def copy(self) -> DecisionState:
        return DecisionState(list(self.answers), list(self.read))


@dataclass(slots=True)
class RunState:
    """Everything about a run that what comes next can depend on.

    raw: by role, regions with unfenced accesses. free: registers in the pool of each CTA. reached: by CTA, the last
    event and its node with which each role of another one reached into it. incs: by role, its last setmaxnreg.inc;
    given: the join of the clocks of all setmaxnreg.dec. edits: by region and role, of a tensormap; acquired: by role,
    region and whether as other CTAs have released it, the clock at its last acquire. waited: by role, its first event
    that waited for the end of the first grid. issued: by role, the wgmmas of a part of a warpgroup. been: by role and
    event, the location.
    """

    at: list[int]
    done: list[int]
    clock: list[Clock]
    inside: list[int]
    decisions: list[DecisionState]
    barriers: list[BarrierState]
    meetings: list[MeetingState]
    regions: list[dict[int, Spans]]
    flights: list[dict[int, InFlight]]
    content: dict[str, Hashable]
    raw: list[dict[int, None]]
    free: list[int]
    reached: list[dict[int, tuple[int, int]]]
    incs: dict[int, int] = field(default_factory=dict)
    given: Clock | None = None
    edits: dict[tuple[int, int], MapWrite] = field(default_factory=dict)
    acquired: dict[tuple[int, int, bool], Clock] = field(default_factory=dict)
    waited: dict[int, int] = field(default_factory=dict)
    issued: list[Issued] = field(default_factory=list)
    history: list[list[Clock]] = field(default_factory=list)
    been: list[list[int]] = field(default_factory=list)
    log: list[RunEvent] = field(default_factory=list)

    def copy(self) -> RunState:
        return RunState(
            list(self.at),
            list(self.done),
            list(self.clock),
            list(self.inside),
            [decision.copy() for decision in self.decisions],
            [barrier.copy() for barrier in self.barriers],
            [meeting.copy() for meeting in self.meetings],
            [{role: spans.copy() for role, spans in region.items()} for region in self.regions],
            [dict(flights) for flights in self.flights],
            dict(self.content),
            [dict(raw) for raw in self.raw],
            list(self.free),
            [dict(one) for one in self.reached],
            dict(self.incs),
            self.given,
            dict(self.edits),
            dict(self.acquired),
            dict(self.waited),
            [one.copy() for one in self.issued],
            [list(clocks) for clocks in self.history],
            [list(nodes) for nodes in self.been],
            list(self.log),
        )


def initial(plan: Plan) -> RunState:
    """Before the first event."""
    roles = len(plan.programs)
    barriers = []
    for use in plan.barriers:
        full = KnownBarrier.initialised(use.arrivals)
        state = BarrierState(full if use.initialised else full._replace(alive=0))
        state.seen = dict.fromkeys(use.distance, 0)
        if not use.initialised:
            state.first, state.dead = 1, (0,)
        barriers.append(state)
    return RunState(
        [0] * roles,
        [0] * roles,
        [[0] * plan.width] * roles,
        [-1] * roles,
        [DecisionState([], [0] * roles) for _ in plan.decisions],
        barriers,
        [MeetingState() for _ in plan.meetings],
        [{} for _ in plan.near],
        [{} for _ in plan.near],
        dict(plan.kernel.layout.holds),
        [{} for _ in range(roles)],
        [0] * len(plan.homes),
        [{} for _ in plan.homes],
        issued=[Issued() for _ in range(roles)],
        history=[[] for _ in range(roles)],
        been=[[] for _ in range(roles)],
    )
