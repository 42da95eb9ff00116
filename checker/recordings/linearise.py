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

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from itertools import accumulate

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

Content = dict[tuple[int, int, int], int]
"""By (CTA, first byte, end): the number of the write that all words there are of."""


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
        self.regions = {region.object: region for region in plan.kernel.layout.regions}
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


@dataclass
class _Frame:
    state: int
    done: tuple[int, ...]
    content: Content
    flying: tuple[tuple[str, str, int, Access], ...]
    choices: list[tuple[int, int, tuple[int, ...], Content, tuple[tuple[str, str, int, Access], ...]]]
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
        """setmaxnreg is left out on the GPU: the model may grant registers at any time that the programs allow."""
        left_out = effects_of(self.model.nodes[role][event.node].operation).registers is not None
        return replace(event, before=0, after=NEVER) if left_out else event

    def _over(self, role: str, node: int, after: int) -> int:
        """The time at which the effect is certain, by the clock."""
        effects = effects_of(self.model.nodes[role][node].operation)
        signal = effects.signal
        late = bool(effects.shows and effects.meets is None) or effects.registers is not None
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
        start = (0,) * len(self.events)
        seen: set[Hashable] = set()
        stack = self.stack
        stack.append(self._frame(self.packed.initial, start, {}, ()))
        while stack:
            frame = stack[-1]
            if all(done == len(events) for done, events in zip(frame.done, self.events, strict=True)):
                return Order(True, tuple(one.action for one in stack[1:]), len(seen), blocked=blocked)
            if not frame.choices:
                stack.pop()
                continue
            action, state, done, content, flying = frame.choices.pop()
            key = (state, done, frozenset(content.items()), flying)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > MOST_STATES:
                why = "too many orders to try"
                return Order(False, (), len(seen), why, "phase-lapped", complete=False, blocked=blocked)
            stack.append(self._frame(state, done, content, flying))
            stack[-1].action = action
        self.order.visited, self.order.blocked = len(seen), blocked
        return self.order

    def _frame(
        self, state: int, done: tuple[int, ...], content: Content, flying: tuple[tuple[str, str, int, Access], ...]
    ) -> _Frame:
        """What can come next: the choice to try first comes last."""
        landings, steps = [], []
        out: Successors = []
        bad: Violations = []
        for agent in self.packed.agents:
            agent(state, out, bad)
        for action, successor in out:
            if self.model.machine.actions[action].kind == "piece":  # the words are there with the last one
                landings.append((action, successor, done, content, flying))
                continue
            buffer, barrier = self.model.landing[action]
            number, access = next((n, a) for b, c, n, a in flying if (b, c) == (buffer, barrier))
            rest = tuple(one for one in flying if one[2:] != (number, access))
            landings.append((action, successor, done, _written(content, access, number), rest))
        for role, events in enumerate(self.events):
            if done[role] == len(events):
                continue
            event = events[done[role]]
            first = [
                other
                for other, theirs in enumerate(self.after)
                if other != role and done[other] < len(theirs) and theirs[done[other]] < event.before
            ]
            if first:
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
                wrong = "" if inside else self._reads(event.reads, role, event.node, content)
                if wrong:
                    self._note(done, "stale-read", wrong)
                    continue
                after, flies = content, flying
                if not inside:
                    after, flies = self._effect(self.names[role], event.node, content, flying)
                progress = done if inside else (*done[:role], done[role] + 1, *done[role + 1 :])
                steps.append((event.after, (action, successor, progress, after, flies)))
        steps.sort(key=lambda pair: (pair[1][0] not in self.model.taken, -pair[0]))
        return _Frame(state, done, content, flying, [*landings, *(step for _, step in steps)])

    def _note(self, done: tuple[int, ...], property: str, why: str) -> None:
        if sum(done) > self.furthest:
            self.furthest = sum(done)
            taken = tuple(frame.action for frame in self.stack[1:])
            self.order = Order(False, taken, because=why, property=property)

    def _reads(self, reads: tuple[tuple[str, int, int], ...], role: int, node: int, content: Content) -> str:
        """What is wrong with the words that were found."""
        for buffer, low, high in reads:
            region = self.model.regions[buffer]
            expected = content.get((region.cta, region.start, region.stop))
            if expected is not None and not low == high == expected:
                return f"{self.names[role]} found words {low} to {high} in {buffer}, not those of write {expected}"
        return ""

    def _effect(
        self, role: str, node: int, content: Content, flying: tuple[tuple[str, str, int, Access], ...]
    ) -> tuple[Content, tuple[tuple[str, str, int, Access], ...]]:
        lands = effects_of(self.model.nodes[role][node].operation).lands
        if lands:
            (number, _), *_ = self.model.writes[role, node]
            new = [(copies.write.object, copies.barrier, number, copies.write) for copies, _ in lands]
            return content, (*flying, *new)
        for number, access in self.model.writes.get((role, node), ()):
            content = _written(content, access, number)
        return content, flying


def _written(content: Content, access: Access, number: int) -> Content:
    """Afterwards; what overlaps is no longer the words of one write."""
    kept = {
        key: value
        for key, value in content.items()
        if key[0] != access.cta or key[2] <= access.start or access.stop <= key[1]
    }
    kept[access.cta, access.start, access.stop] = number
    return kept
