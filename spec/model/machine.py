"""A model as plain data: variables, roles with their control locations, guarded actions, and what must never happen.

It is read in several ways: search takes its actions one by one, Z3 turns them into formulas, order decides on the
programs and executes here what it finds wrong. A role is in one of its locations, held in the variable `counter`; an
action of a role can be taken in its location, when its guard holds. Actions of agents that have no program (a bulk copy
that lands) have no location. All updates of an action read the state before it.

Names of variables and actions are unique and otherwise mean nothing, and texts are for people: what a variable, an
action or a location is, and of what, is said by typed fields (`kind`, `of`, `role`, `barrier`, `lands`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.cut import Cut
from sm90_verify.spec.ptx.expr import FALSE, Expr

LIMIT = "limit"
"""The property of a check that bounds the model itself. Where a state violates it, nothing behind the state is known.
Where a step does, always, more may happen behind the step than really can: whoever looks for violations does not follow
it, and whoever proves something does (`Machine.beyond`).
"""

COPIES = "copies"
"""Who lands bulk copies, in traces and names of actions; they are no role."""


VariableKind = Literal[
    "location",
    "phase",
    "pending",
    "tx",
    "expected",
    "alive",
    "observed",
    "unseen",
    "since",
    "fresh",
    "age",
    "holds",
    "flight",
    "pieces",
    "bare",
    "edited",
    "triggered",
    "arrived",
    "count",
    "met",
    "ended",
    "iterations behind",
    "chosen",
    "choices behind",
    "registers",
    "value",
    "order",
    "started",
    "put off",
    "complete",
    "groups",
    "other",
]
"""What a variable is of its owner:

of a role: its location; of an mbarrier: its phase parity, the arrivals that are pending, the tx-count, the arrivals
that it expects in a phase, whether it is initialised, and whether somebody has observed its last phase; of a role at an
mbarrier: the phases that it has not seen, those completed since one that it has moved on from, whether the barrier is
initialised again since, and the age of its token; of a buffer: what it holds, the copy in flight into it, how many
pieces of that have landed, and whether a generic write by a role has met no proxy fence since; of a tensormap: whether
a write by a role has been released, and acquired; of an mbarrier again: the arrivals that follow cp.asyncs and have
not been made; of a barrier of threads: the threads that have arrived, the count that its generation was opened with,
and where a role is at it; of a trip-count loop: whether its number of iterations is decided, and how many a role is
behind; of a choice: what was chosen, by age, and how many a role is behind; of a CTA: its free registers; of a word:
its value; of a role, a barrier or a word: whether an access is before what follows it; of a cluster: whether it is
started; of the launch: whether those that are not must wait for others to end, and whether a thread has seen that the
first grid has.
"""


@dataclass(frozen=True)
class Variable:
    """A state variable of `width` bits; `about` says what it holds, for people. `ghost`: no hardware holds it.

    of: the mbarrier, buffer, barrier of threads, loop, choice or home of a CTA that it belongs to, "" if only to a
    role. role: the role that it belongs to, "" if to none. index: which of several of a kind.
    """

    name: str
    width: int
    initial: int
    about: str
    ghost: bool = False
    labels: tuple[str, ...] = ()
    """What each value stands for, where it is not a number."""
    kind: VariableKind = "other"
    of: str = ""
    role: str = ""
    index: int = 0


class Check(NamedTuple):
    """`property` is violated when `when` holds where the check stands; `because` is the sentence that says why.

    halts: what follows is undefined, so no step is explored after it. `object` is the barrier or buffer to blame.
    cases: conditions, and the sentence that is more exact where one holds; the first that does counts.
    """

    property: str
    when: Expr
    because: str
    object: str
    halts: bool = False
    cases: tuple[tuple[Expr, str], ...] = ()


ActionKind = Literal["step", "enters", "completes", "leaves", "stays", "lands", "piece"]
"""step: the role does its operation. At a barrier of threads: it enters and waits for the others, completes the
barrier, or leaves one that is complete. It is put off, and stays where it is. Of a copy: it lands with its last piece,
or another piece of it does.
"""


class Action(NamedTuple):
    """One atomic step. `target` is the role's next location; `checks` are evaluated in the state in which it is
    taken. `role` is "" for what has no program; name, op and object are for people, and the name is unique.
    """

    name: str
    role: str
    op: str
    object: str
    location: int | None
    target: int | None
    guard: Expr
    updates: tuple[tuple[str, Expr], ...]
    checks: tuple[Check, ...]
    source: Source
    fails: bool = False
    """A try_wait or test_wait that answers False, or a load of a word: a role that does nothing else for ever is
    stuck."""
    kind: ActionKind = "step"
    answer: Hashable = None
    """What the role is answered: by a test, a loop that goes on or ends, or of a choice the number of the option."""
    lands: int | None = None
    """The number in `Structure.copies` of the copy that lands, or of which a piece does."""

    @property
    def beyond(self) -> str:
        """Why the step is beyond what the model knows; "" if it is not."""
        return next((check.because for check in self.checks if check.property == LIMIT), "")


LocationKind = Literal[
    "local",
    "wait",
    "peek",
    "arrive",
    "load",
    "expect",
    "loop",
    "end",
    "meet",
    "inside",
    "registers",
    "choice",
    "other",
]
"""The operation at a location.

local: it touches memory or the role's own groups and fences only. wait: a blocking wait; peek: a try_wait or
test_wait. meet: a barrier of threads of which every generation needs each participant once. inside: a barrier of
threads that is not complete yet. registers: setmaxnreg. choice: choose. loop, end: the head of a trip-count loop, the
program's end.
"""


class Location(NamedTuple):
    """A place in a role's program: its next operation, and the checks that hold whenever the role is there.

    op, object: the operation, for people. things: the barriers and buffers that it is on. barrier: the mbarrier of an
    operation on one, "" otherwise. parity: of a wait by parity, what it waits for. signals: the operation is an
    arrival that lets others go on. arrives_on: the barriers to which the role can still arrive from here on.
    """

    op: str
    object: str
    source: Source
    checks: tuple[Check, ...] = ()
    final: bool = False
    kind: LocationKind = "other"
    things: tuple[str, ...] = ()
    barrier: str = ""
    parity: int | None = None
    signals: bool = False
    arrives_on: tuple[str, ...] = ()
    settled: Expr = FALSE
    """When this holds, nothing that other roles do can change what the step here does: another role has made the shared
    decision already, or the wait passes and can only be lapped, which `just_waited` still shows afterwards."""
    waits_ahead: tuple[str, ...] = ()
    """Barriers of which every way from here to the end of the role passes a blocking wait for a phase not seen yet."""
    next_waits: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(barrier, distances): which phases the role's next wait on the barrier may be for, counted from the one that it
    has seen last; spec.model.flow.ANY if only the machine knows."""
    just_waited: tuple[str, ...] = ()
    """Barriers whose wait the role has passed and since when it has done nothing that another role can notice."""
    noticed: bool = False
    """Others depend on whether the role is still here: its CTA may not run yet, or accesses are released only here."""

    @property
    def waits_for(self) -> str:
        """The barrier of a wait, "" for anything else."""
        return self.barrier if self.kind in ("wait", "peek") else ""


class Role(NamedTuple):
    """A sequential program; `counter` is the variable that holds its location, which starts at 0."""

    name: str
    counter: str
    locations: tuple[Location, ...]
    threads: int


ProgressKind = Literal["arrived", "observed", "expected", "iteration"]


class RoleProgress(NamedTuple):
    """What a role has done by each of its locations, as numbers modulo `modulus`; None where paths disagree.

    kind: "arrived" (arrivals on the barrier), "observed" (the phase that it last waited for), "expected" (bytes
    announced less bytes of copies issued; exact, modulus 0) or "iteration" (of the trip-count loop).
    """

    role: str
    kind: ProgressKind
    object: str
    modulus: int
    by_location: tuple[int | None, ...]


class BarrierInfo(NamedTuple):
    """One mbarrier of the model: its initial count, and the names of its variables ("" where the part is constant)."""

    name: str
    arrivals: int
    phase: str
    pending: str
    tx: str
    expected: str
    unseen: tuple[tuple[str, str], ...]
    """(role, variable) of each role that waits on it."""
    plain: bool = False
    """Only arrivals, in phases that are observed, balanced bytes, and blocking waits or try_waits by parity."""
    announces: bool = False
    """Some bytes are announced or completed by an operation of their own, apart from arrivals and copies."""
    balanced: bool = True
    """Whoever issues copies that signal it announces their bytes with an arrival of its own, without a wait in between,
    so that a phase cannot complete while a copy that counts in it has not landed."""


class CopyInfo(NamedTuple):
    """Bulk copies into one buffer that signal one barrier: the variable is 0 when none is in flight, else its content
    tag.

    content names the variable of what the buffer holds ("" if nobody reads it with an expectation), pieces the one that
    counts the pieces that have landed ("" if there is only one).
    issues: (role, location, tag value) of every load.
    """

    variable: str
    buffer: str
    barrier: str
    bytes: int
    content: str
    pieces: str
    issues: tuple[tuple[str, int, int], ...]


class ClusterInfo(NamedTuple):
    """One of several clusters: its grid, its roles, and its variables, in corresponding order for all of a grid."""

    grid: int
    roles: tuple[str, ...]
    variables: tuple[str, ...]


class Structure(NamedTuple):
    """What is known about the model besides its transitions: reports explain with it, proofs derive invariants from
    it.
    """

    barriers: tuple[BarrierInfo, ...] = ()
    copies: tuple[CopyInfo, ...] = ()
    progress: tuple[RoleProgress, ...] = ()
    clusters: tuple[ClusterInfo, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A closed model. `properties` are those that its checks and the deadlock analysis decide."""

    name: str
    parameters: dict[str, Any]
    variables: tuple[Variable, ...]
    roles: tuple[Role, ...]
    actions: tuple[Action, ...]
    checks: tuple[Check, ...]
    properties: tuple[str, ...]
    structure: Structure = field(default_factory=Structure)
    cut: Cut | None = None
    """What of it is compiled, if not all."""

    @cached_property
    def named(self) -> dict[str, Role]:
        """The roles, by name."""
        return {role.name: role for role in self.roles}

    @cached_property
    def order(self) -> dict[str, int]:
        """By variable, its number in declaration order."""
        return {variable.name: number for number, variable in enumerate(self.variables)}

    @cached_property
    def actions_at(self) -> dict[tuple[str, int | None], list[int]]:
        """By role and location, the numbers of its actions there; of what has no program, at None."""
        found: dict[tuple[str, int | None], list[int]] = {}
        for number, action in enumerate(self.actions):
            found.setdefault((action.role, action.location), []).append(number)
        return found

    def of_kind(self, kind: VariableKind) -> tuple[Variable, ...]:
        """The variables of a kind, in declaration order."""
        return tuple(variable for variable in self.variables if variable.kind == kind)

    def beyond(self) -> Machine:
        """The machine of which steps beyond what the model knows are followed."""
        actions = [
            action._replace(checks=tuple(check for check in action.checks if check.property != LIMIT))
            for action in self.actions
        ]
        return replace(self, actions=tuple(actions))

    def landing(self, action: Action) -> CopyInfo | None:
        """The copy that an action lands, or of which it lands a piece."""
        return None if action.lands is None else self.structure.copies[action.lands]
