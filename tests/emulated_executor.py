"""kernels/executor.cu on an ideal GPU, step by step in time: what gates, holds and late copies are to bring about."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from sm90_verify.gpu.device import Fault
from sm90_verify.recordings.run import Event, GpuRun, RoleRun

INSTRUCTION, TURN, LOAD, STORE, SUM = 400, 300, 200, 100, 4_000
"""Nanoseconds: of an instruction; until the next turn is seen; until a copy has landed, or has read its source; and for
which each sum before a late copy keeps the copy engine busy. As measured on an H100, alone on it.
"""
QUEUED = 6
"""Operations that the copy engine queues; who starts more waits."""
GRANULE = 16


@dataclass
class Barrier:
    """An mbarrier, as PTX describes it, with the number of its phase."""

    expected: int
    pending: int = 0
    tx: int = 0
    phase: int = 0

    def __post_init__(self):
        self.pending = self.expected

    def arrive(self, count=1, expect=0, drop=False):
        """Returns the token."""
        token = self.phase
        self.tx += expect
        self.expected -= count * drop
        self.pending -= count
        self.settle()
        return token

    def settle(self):
        if self.pending < 0:
            raise Fault("an arrival that nobody expects")
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected


@dataclass
class Generation:
    """Threads that have come to a barrier of threads, of how many."""

    came: int = 0
    of: int = 0

    @property
    def complete(self):
        return self.came >= self.of


@dataclass
class Role:
    lowered: object
    at: int = 0
    stage: str = "gate"
    ready: int = 0
    began: int = 0
    token: int = -1
    ticket: object = 0
    events: list = field(default_factory=list)
    stores: list = field(default_factory=list)
    groups: list = field(default_factory=list)

    @property
    def instruction(self):
        return self.lowered.instructions[self.at] if self.at < len(self.lowered.instructions) else None


class Emulation:
    """One run."""

    def __init__(self, plan, roles, patience):
        self.plan, self.patience = plan, patience
        self.roles = [Role(role) for role in roles]
        self.barriers = {(cta, at): Barrier(count) for cta, at, count in plan.barriers}
        self.memory, self.engine, self.output = Counter(), defaultdict(list), {}
        self.met, self.generations = Counter(), {}
        self.flying = []
        self.now = self.step = self.stepped = 0

    def run(self, limit):
        while (chosen := min(self.possible(), key=lambda one: one[0], default=None)) and chosen[0] < limit:
            self.now, act = chosen
            act()
        roles = []
        for role in self.roles:
            node = -1 if role.instruction is None else role.instruction.node
            roles.append(RoleRun(role.lowered.name, node, merged(role.events)))
        stored = tuple(self.output.get(at, (0, 0)) for *_, at in self.plan.stores)
        return GpuRun(any(role.node >= 0 for role in roles), tuple(roles), stored, self.step)

    def possible(self):
        yield from self.flying
        for role in self.roles:
            one = role.instruction
            if one is None:
                continue
            if role.stage != "gate":
                if self.passes(role, one):
                    yield max(role.ready, self.now), lambda role=role: self.go(role)
            elif one.gate <= self.step:
                yield max(role.ready, (self.stepped + TURN) * (one.gate >= 0)), lambda role=role: self.go(role)
            elif self.patience:
                yield role.ready + self.patience, lambda role=role: self.go(role)

    def go(self, role):
        one = role.instruction
        enters = one.gate >= 0 and one.code in ("named_sync", "cta_sync")
        if role.stage == "gate":
            role.ready, role.stage = self.now + one.hold, "begin"
            if enters:
                self.pass_on(one.gate)
        elif role.stage == "begin":
            role.began, role.stage = self.now, "end"
            for _ in range(one.late):
                role.ready = self.queue(role.lowered.cta, role.ready, SUM)[0]
            self.come(role, one)
        else:
            reads = self.do(role, one, role.lowered.cta)
            role.events.append(Event(one.node, role.began, self.now, False, reads))
            role.ready, role.stage, role.at = self.now + INSTRUCTION, "gate", role.at + 1
            if one.gate >= 0 and not enters:
                self.pass_on(one.gate)

    def pass_on(self, gate):
        if gate + 1 > self.step:
            self.step, self.stepped = gate + 1, self.now

    def come(self, role, one):
        """To a meeting or a barrier of threads: the ticket says how many must have come, or who comes together."""
        if one.code == "meet":
            key = role.lowered.cta, one.a
            role.ticket = (self.met[key] // one.b + 1) * one.b
            self.met[key] += role.lowered.warps
        elif one.code in ("named_sync", "named_arrive", "cta_sync"):
            key = role.lowered.cta, 15 if one.code == "cta_sync" else one.a
            role.ticket = self.generations.setdefault(key, Generation())
            role.ticket.came += role.lowered.warps * 32
            role.ticket.of = max(role.ticket.of, one.b)
            if role.ticket.complete:
                del self.generations[key]

    def passes(self, role, one):
        cta = role.lowered.cta
        if role.stage == "begin":
            return True
        match one.code:
            case "wait":
                return self.barriers[cta, one.a].phase % 2 != one.b
            case "wait_token":
                return self.barriers[cta, one.a].phase != role.token
            case "meet":
                return self.met[cta, one.a] >= role.ticket
            case "named_sync" | "cta_sync":
                return role.ticket.complete
            case "bulk_wait" | "bulk_wait_read":
                done = role.groups[: len(role.groups) - one.a]
                return all(store["done"] for group in done for store in group)
        return True

    def do(self, role, one, cta):
        match one.code:
            case "arrive" | "drop" | "no_complete":
                there = cta if one.d < 0 else one.d
                role.token = self.barriers[there, one.a].arrive(one.b, max(one.c, 0), one.code == "drop")
            case "transaction":
                barrier = self.barriers[cta if one.d < 0 else one.d, one.a]
                barrier.tx += one.b
                if one.b < 0:
                    barrier.settle()
            case "init":
                self.barriers[cta, one.a] = Barrier(one.b)
            case "load":
                ctas = [n for n in range(self.plan.cluster) if one.e >> n & 1] or [cta]
                for there in ctas:
                    self.start(cta, LOAD, lambda there=there: self.land(one, there))
            case "store":
                store = {"done": False}
                role.stores.append(store)
                self.start(cta, STORE, lambda: self.stored(one, cta, store))
            case "bulk_commit":
                role.groups.append(role.stores)
                role.stores = []
            case "read" if one.b:
                words = self.words(one, cta)
                return ((one.object, min(words), max(words)),)
            case "write":
                self.fill(one, cta)
        return ()

    def queue(self, cta, now, time):
        """When an operation of the copy engine is in its queue, and when it has been done."""
        ends = self.engine[cta]
        now = max(now, ends[-QUEUED] if len(ends) >= QUEUED else 0)
        ends.append(max([now, *ends[-1:]]) + time)
        return now, ends[-1]

    def start(self, cta, time, act):
        def landed():
            self.flying.remove(entry)
            act()

        entry = (self.queue(cta, self.now, time)[1], landed)
        self.flying.append(entry)

    def places(self, one, cta):
        return [(cta, at) for at in range(one.a, one.a + one.b, GRANULE)]

    def words(self, one, cta):
        return [self.memory[place] for place in self.places(one, cta)]

    def fill(self, one, cta):
        for place in self.places(one, cta):
            self.memory[place] = one.d

    def land(self, one, cta):
        self.fill(one, cta)
        barrier = self.barriers[cta, one.c]
        barrier.tx -= one.b
        barrier.settle()

    def stored(self, one, cta, store):
        words = self.words(one, cta)
        self.output[one.c] = min(words), max(words)
        store["done"] = True


def merged(events):
    """By node, as the recorder brings them back."""
    found = []
    for event in events:
        if found and found[-1].node == event.node:
            last = found.pop()
            event = replace(last, after=event.after, reads=(*last.reads, *event.reads))
        found.append(event)
    return tuple(found)


class EmulatedExecutor:
    """In the place of gpu.executor.Executor. All runs are the same."""

    def __init__(self, plan):
        self.plan = plan

    def run(self, runs, *, seed=0, jitter=0, limit=20_000_000, patience=0, roles=()):
        return [Emulation(self.plan, roles or self.plan.roles, patience).run(limit)] * runs
