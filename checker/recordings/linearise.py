"""Whether the specification allows what a recorded run did: an order of its steps must exist that the model can take.

An event has happened at some time between the two readings of the clock around it. An order is looked for in which
every step is one that the model can take and that violates nothing, no event comes after another that had begun only
when it was over, and every read finds the words that the order says are there. Copies land whenever that fits. An
event without a result that the clock could wait for (a remote arrival, an expect_tx, a store, a copy's start) may take
effect later, up to when something that comes after it in its role's program is known to have happened.

The search is depth-first, and exact: it gives up only when every order has been tried. Of the roles that may go next,
the one whose event was over first is tried first, and copies land where nobody can go on without.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from sm90_verify.counterexample.trace import reason
from sm90_verify.engines.search.packed import PackedMachine, Successors, Violations, pack
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import Event, GpuRun
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access

NEVER = 1 << 63
MOST_STATES = 200_000
"""States to visit for one run before the answer is given up."""

Place = tuple[str, int, int, int]
"""(memory space, CTA, first byte, end)."""
Content = dict[Place, int]
"""What all words of a place are: the number of a write or a sum of such."""


class Overlaps:
    """What overlaps each place that was ever written, itself included: found once for each, not for each write."""

    def __init__(self) -> None:
        self.of: dict[Place, list[Place]] = {}

    def landed(self, content: Content, copy: FlyingCopy) -> Content:
        """Afterwards; what overlaps is no longer the words of one write."""
        place = _key(copy.access)
        if place not in self.of:
            self._meet(place)
        after = content.copy()
        for other in self.of[place]:
            after.pop(other, None)
        if copy.number >= 0 and (not copy.adds or place in content):
            after[place] = copy.number + (content[place] if copy.adds else 0)
        return after

    def _meet(self, place: Place) -> None:
        space, cta, start, stop = place
        mine = [other for other in self.of if other[:2] == (space, cta) and start < other[3] and other[2] < stop]
        for other in mine:
            self.of[other].append(place)
        self.of[place] = [place, *mine]


class FlyingCopy(NamedTuple):
    """A copy that has not landed. number: of its words, -1 if that is not known; adds: they are added."""

    buffer: str
    barrier: str
    number: int
    access: Access
    adds: bool = False


@dataclass
class Order:
    """accepted: an order exists. actions: its steps, or those of the order that got furthest; visited: states.

    For a run without an order, because: what it cannot do next, and property: what that would violate.
    """

    accepted: bool
    actions: tuple[int, ...] = ()
    visited: int = 0
    because: str = ""
    property: str = ""
    complete: bool = True
    blocked: set[tuple[str, int]] = field(default_factory=set)
    """(role, node) of the waits that had to wait."""


class Linearise:
    """A pipeline's model, to which any number of its runs are held. tolerance: the clock's resolution."""

    def __init__(self, plan: ExecutorPlan, machine: Machine, *, tolerance: int = 0) -> None:
        self.plan, self.machine, self.tolerance = plan, machine, tolerance
        self.packed: PackedMachine = pack(machine)
        self.nodes = plan.nodes
        self.inside = [[place.kind == "inside" for place in role.locations] for role in machine.roles]
        self.taken: set[int] = set()
        """Steps of orders that were found: where several roles may go next, one whose step is new is tried first."""
        self.writes: dict[tuple[str, int], list[tuple[int, Access]]] = {}
        """By role and node, what it writes under which numbers."""
        for number, key in plan.writers.items():
            self.writes.setdefault(key, []).extend((number, access) for access in plan.written[number][1])
        self.regions = plan.regions
        self.words = {variable.of: variable.name for variable in machine.of_kind("value")}
        self.overlaps = Overlaps()
        self.first: Content = {}
        for name, number in {**dict.fromkeys(sorted(plan.derived), 0), **plan.initial}.items():
            self.first = self.overlaps.landed(self.first, FlyingCopy(name, "", number, self.regions[name].access()))
        self.landing = self._landing()

    def _landing(self) -> dict[int, tuple[str, str]]:
        """By action of a copy, or of a piece of it, the buffer and the barrier."""
        found = {}
        for index, action in enumerate(self.machine.actions):
            copy = self.machine.landing(action)
            if copy is not None:
                found[index] = (copy.buffer, copy.barrier)
        return found

    def order(self, run: GpuRun) -> Order:
        """An order of the run's steps, or the reason why there is none."""
        order = _Search(self, run).search()
        if order.accepted:
            self.taken.update(order.actions)
        return order


class _Choice(NamedTuple):
    """A step that can come next. role: whose event it is, -1 if a copy lands; passes: the event is over with it."""

    action: int
    successor: int
    role: int = -1
    passes: bool = True


@dataclass
class _Frame:
    state: int
    done: tuple[int, ...]
    content: Content
    flying: tuple[FlyingCopy, ...]
    choices: list[_Choice]
    action: int = -1


class _Search:
    def __init__(self, model: Linearise, run: GpuRun) -> None:
        self.model, self.run, self.packed = model, run, model.packed
        by_name = {role.name: role for role in run.roles}
        self.names = [role.name for role in model.machine.roles]
        self.events = [tuple(self._timeless(name, event) for event in by_name[name].events) for name in self.names]
        self.after = [
            self._bounds([self._over(name, event.node, event.after) for event in events])
            for name, events in zip(self.names, self.events, strict=True)
        ]
        self.furthest = -1
        self.order = Order(False, because="a wait passes before its phase can be complete", property="phase-lapped")
        self.stack: list[_Frame] = []

    @staticmethod
    def _bounds(over: list[int]) -> list[int]:
        """By when each event has taken effect: by its own time, or that of a later one of the same role."""
        return list(accumulate(reversed(over), min))[::-1]

    def _timeless(self, role: str, event: Event) -> Event:
        """setmaxnreg, and the start of a CTA that others may keep waiting, are left out on the GPU: the model may take
        them at any time that the programs allow.
        """
        effects = effects_of(self.model.nodes[role][event.node].operation)
        left_out = effects.registers is not None or isinstance(effects.turns, op.CtaStart)
        return replace(event, before=0, after=NEVER) if left_out else event

    def _over(self, role: str, node: int, after: int) -> int:
        """The time at which the effect is certain, by the clock."""
        effects = effects_of(self.model.nodes[role][node].operation)
        signal = effects.signal
        late = bool(effects.shows and effects.meets is None) or effects.registers is not None
        late |= effects.triggers is not None or isinstance(effects.turns, op.CtaStart)
        late |= signal is not None and (not isinstance(signal, op.Arrive) or signal.cta >= 0)
        late |= any(one.access.write or one.until in ("bulk_group", "landed") for one in effects.begins)
        return NEVER if late else after + self.model.tolerance

    def search(self) -> Order:
        blocked = {
            (name, event.node)
            for name, events in zip(self.names, self.events, strict=True)
            for event in events
            if event.waited
        }
        start, end = (0,) * len(self.events), tuple(map(len, self.events))
        seen: set[Hashable] = set()
        stack = self.stack
        stack.append(self._frame(self.packed.initial, start, self.model.first, ()))
        while stack:
            frame = stack[-1]
            if frame.done == end:
                return Order(True, tuple(one.action for one in stack[1:]), len(seen), blocked=blocked)
            if not frame.choices:
                stack.pop()
                continue
            choice = frame.choices.pop()
            state, (done, content, flying) = choice.successor, self._after(frame, choice)
            key = (state, done, frozenset(content.items()), flying)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > MOST_STATES:
                why = "too many orders to try"
                return Order(False, (), len(seen), why, "phase-lapped", complete=False, blocked=blocked)
            stack.append(self._frame(state, done, content, flying))
            stack[-1].action = choice.action
        self.order.visited, self.order.blocked = len(seen), blocked
        return self.order

    def _frame(self, state: int, done: tuple[int, ...], content: Content, flying: tuple[FlyingCopy, ...]) -> _Frame:
        """What can come next: the choice to try first comes last."""
        steps: list[tuple[int, _Choice]] = []
        out: Successors = []
        bad: Violations = []
        for agent in self.packed.agents:
            agent(state, out, bad)
        landings = [_Choice(action, successor) for action, successor in out]
        over = [after[number] if number < len(after) else NEVER for after, number in zip(self.after, done, strict=True)]
        first = min(over)
        for role, events in enumerate(self.events):
            if done[role] == len(events):
                continue
            event = events[done[role]]
            if first < event.before and any(o < event.before for other, o in enumerate(over) if other != role):
                continue
            shift, mask, functions = self.packed.roles[role]
            place = state >> shift & mask
            if place != event.node and not self.model.inside[role][place]:
                self._note(done, "deadlock", f"{self.names[role]} did another operation than the model can do next")
                continue
            out.clear()
            bad.clear()
            functions[place](state, out, bad)
            if bad:
                check = self.packed.checks[bad[0][0]]
                because = reason(check, self.packed.unpack(state))
                self._note(done, check.property, f"{self.names[role]}: {because}")
                continue
            for action, successor in out:
                inside = self.model.inside[role][successor >> shift & mask]
                wrong = "" if inside else self._reads(event.reads, role, state, content)
                if wrong:
                    self._note(done, "stale-read", wrong)
                    continue
                steps.append((event.after, _Choice(action, successor, role, not inside)))
        steps.sort(key=lambda pair: (pair[1].action not in self.model.taken, -pair[0]))
        return _Frame(state, done, content, flying, [*landings, *(step for _, step in steps)])

    def _after(self, frame: _Frame, choice: _Choice) -> tuple[tuple[int, ...], Content, tuple[FlyingCopy, ...]]:
        """How far the roles are, the words and the copies in flight when a choice has been taken."""
        done, content, flying = frame.done, frame.content, frame.flying
        role = choice.role
        if role < 0:
            landing = self.model.landing.get(choice.action)
            # an arrival that follows cp.asyncs lands nothing, and with a piece of a copy the words are not there yet
            if landing is None or self.model.machine.actions[choice.action].kind == "piece":
                return done, content, flying
            at = next(n for n, one in enumerate(flying) if one[:2] == landing)
            return done, self.model.overlaps.landed(content, flying[at]), (*flying[:at], *flying[at + 1 :])
        if not choice.passes:
            return done, content, flying
        content, flying = self._effect(self.names[role], self.events[role][done[role]].node, content, flying)
        return (*done[:role], done[role] + 1, *done[role + 1 :]), content, flying

    def _note(self, done: tuple[int, ...], property: str, why: str) -> None:
        if sum(done) > self.furthest:
            self.furthest = sum(done)
            taken = tuple(frame.action for frame in self.stack[1:])
            self.order = Order(False, taken, because=why, property=property)

    def _reads(self, reads: tuple[tuple[str, int, int], ...], role: int, state: int, content: Content) -> str:
        """What is wrong with the words that were found."""
        for buffer, low, high in reads:
            if buffer in self.model.words:
                shift, mask = self.packed.shifts[self.model.words[buffer]]
                value = state >> shift & mask
                if not low == high == value:
                    return f"{self.names[role]} found {low} in {buffer}, whose value is {value}"
                continue
            expected = content.get(_key(self.model.regions[buffer].access()))
            if expected is not None and not low == high == expected:
                return f"{self.names[role]} found words {low} to {high} in {buffer}, not those of write {expected}"
        return ""

    def _effect(
        self, role: str, node: int, content: Content, flying: tuple[FlyingCopy, ...]
    ) -> tuple[Content, tuple[FlyingCopy, ...]]:
        operation = self.model.nodes[role][node].operation
        lands = effects_of(operation).lands
        numbers = [number for number, _ in self.model.writes.get((role, node), ())]
        if lands:
            read = lands[0][0].read
            number = numbers[0] if read is None else content.get(_key(read), -1)
            adds = isinstance(operation, op.StoreAsync) and operation.write.strong is not None
            new = (FlyingCopy(copies.write.object, copies.barrier, number, copies.write, adds) for copies, _ in lands)
            return content, (*flying, *new)
        for access, number, adds in _made(operation, numbers, content):
            content = self.model.overlaps.landed(content, FlyingCopy("", "", number, access, adds))
        return content, flying


def _made(
    operation: op.Operation | None, numbers: Sequence[int], content: Content
) -> Iterator[tuple[Access, int, bool]]:
    """What an operation writes that is no copy to a barrier: where, which words, and whether they are added. A copy
    whose end its thread waits for is made at once: nobody may look before.
    """
    if isinstance(operation, op.Touch) and numbers:
        for access, number in zip(operation.accesses, numbers, strict=True):
            yield access, number, operation.kind == "red"
    elif isinstance(operation, op.CpAsync):
        source = operation.source
        yield operation.write, numbers[0] if source is None else content.get(_key(source), -1), False
    elif isinstance(operation, op.Store) and operation.destination is not None:
        adds = operation.destination.strong is not None
        yield operation.destination, content.get(_key(operation.sources[0]), -1), adds


def _key(access: Access) -> Place:
    return access.space, access.cta, access.start, access.stop
