"""kernels/executor.cu on an ideal GPU, step by step in time: what gates, holds and late copies are to bring about."""

from __future__ import annotations

import operator
import random
from collections import Counter, defaultdict
from dataclasses import replace

from emulated_state import Barrier, Generation, Role

from sm90_verify.recordings.instructions import COMPARISONS, KINDS
from sm90_verify.recordings.plan import CONTROL, GLOBAL, OWN, PEERS
from sm90_verify.recordings.run import Event, GpuRun, RoleRun

COMPARE = dict(zip(COMPARISONS, (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)))
INSTRUCTION, TURN, LOAD, STORE, SUM = 400, 300, 200, 100, 4_000
"""Nanoseconds: of an instruction; until the next turn is seen; until a copy has landed, or has read its source; and for
which each sum before a late copy keeps the copy engine busy. As measured on an H100, alone on it.
"""
QUEUED = 6
"""Operations that the copy engine queues; who starts more waits."""
GRANULE = 16


class Emulation:
    """One run."""

    def __init__(self, plan, roles, patience, choices=()):
        self.plan, self.patience, self.choices = plan, patience, choices
        self.launch = plan.kernel.launch
        self.words = {(cta, at): value for cta, at, value in plan.words}
        self.met_in_cluster, self.generation = defaultdict(set), Counter()
        self.roles = [Role(role) for role in roles]
        self.barriers = {(cta, at): Barrier(count) for cta, at, count in plan.barriers}
        self.memory, self.engine, self.output = Counter(), defaultdict(list), {}
        for name, number in plan.initial.items():
            region = plan.regions[name]
            self.memory.update({(-1, at): number for at in range(region.start, region.stop, GRANULE)})
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
            roles.append(RoleRun(role.lowered.name, node, tuple(role.events)))
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
            self.keep(role, Event(one.node, role.began, self.now, False, reads))
            role.ready, role.stage, role.at = self.now + INSTRUCTION, "gate", self.next(role)
            if one.gate >= 0 and not enters:
                self.pass_on(one.gate)

    def keep(self, role, event):
        """By node, as the recorder brings them back."""
        if role.events and role.events[-1].node == event.node and role.at > role.latest:
            last = role.events.pop()
            event = replace(last, after=event.after, reads=(*last.reads, *event.reads))
        role.events.append(event)
        role.latest = role.at

    def next(self, role):
        at, instructions = role.at + 1, role.lowered.instructions
        while at < len(instructions) and instructions[at].code in CONTROL:
            one = instructions[at]
            at = one.b if one.code == "jump" or one.a == role.answer else at + 1
        return at

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

    def peer(self, cta, rank):
        return cta if rank < 0 else self.launch.peer(cta, rank)

    def where(self, cta, place):
        """Whose memory it is, -1 if all have it."""
        return {OWN: cta, GLOBAL: -1}.get(place, self.peer(cta, place - PEERS))

    def over_in(self, block, role):
        """Who is in a cluster has come to its barrier, or is gone."""
        inside = [one for one in self.roles if self.launch.block(one.lowered.cta) == block]
        if all(one.instruction is None or id(one) in self.met_in_cluster[block] for one in inside):
            self.generation[block] += 1
            self.met_in_cluster[block].clear()
        return self.generation[block] > role.ticket

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
            case "cluster_wait":
                return self.over_in(self.launch.block(cta), role)
            case "grid_wait":
                grid = self.launch.grid_of(cta)
                return all(one.instruction is None for one in self.roles if self.launch.grid_of(one.lowered.cta) < grid)
            case "word" if KINDS[one.c & 15] == "spin":
                return COMPARE[COMPARISONS[one.c >> 9 & 7]](self.value(cta, one), one.d)
            case "cp_wait":
                left = max(one.a, 0)
                groups = [*role.copied, role.copies] if one.a < 0 else role.copied
                return all(copy["done"] for group in groups[: len(groups) - left] for copy in group)
            case "bulk_wait" | "bulk_wait_read":
                done = role.groups[: len(role.groups) - one.a]
                return all(store["done"] for group in done for store in group)
        return True

    def do(self, role, one, cta):
        match one.code:
            case "arrive" | "drop" | "no_complete":
                ranks = [rank for rank in range(16) if one.e >> rank & 1] or [one.d]
                for rank in ranks:
                    barrier = self.barriers[self.peer(cta, rank), one.a]
                    role.token = barrier.arrive(one.b, max(one.c, 0) * (not one.e & 0xFFFF), one.code == "drop")
            case "transaction":
                barrier = self.barriers[self.peer(cta, one.d), one.a]
                barrier.tx += one.b
                if one.b < 0:
                    barrier.settle()
            case "init":
                self.barriers[cta, one.a] = Barrier(one.b)
            case "load":
                for there in self.ctas(one, cta):
                    self.start(cta, LOAD, lambda there=there: self.land(one, there))
            case "load_global":
                for there in self.ctas(one, cta):
                    self.start(cta, LOAD, lambda there=there: self.copied(one, (-1, one.d), there))
            case "load_shared":
                self.start(cta, LOAD, lambda: self.copied(one, (cta, one.d), self.peer(cta, one.e)))
            case "store_to" | "reduce_to":
                store = {"done": False}
                role.stores.append(store)
                self.start(cta, STORE, lambda: self.stored_to(one, cta, store))
            case "red":
                self.add(one, self.where(cta, one.e))
            case "find":
                role.answer = self.words_at(one, self.where(cta, one.e))[0]
                return ((one.object, role.answer, role.answer),)
            case "cp_async":
                copy = {"done": False}
                role.copies.append(copy)
                self.fly(self.now + LOAD, lambda: self.cp_landed(one, cta, copy))
            case "cp_commit":
                role.copied.append(role.copies)
                role.copies = []
            case "cp_wait" if one.a < 0:
                role.copies = []
            case "cp_arrive":
                barrier = self.barriers[cta, one.a]
                barrier.pending += one.b * (not one.c)
                self.fly(self.now + LOAD, lambda: barrier.arrive(one.b))
            case "store_async":
                there = self.where(cta, one.e & 0xFFFF)
                self.fly(self.now + LOAD, lambda: self.land(one, there, adds=one.e >> 16))
            case "cluster_arrive":
                block = self.launch.block(cta)
                self.met_in_cluster[block].add(id(role))
                role.ticket = self.generation[block]
            case "try_wait":
                phase = self.barriers[cta, one.a].phase
                role.answer = int(phase != role.token if one.b < 0 else phase % 2 != one.b)
            case "choose":
                role.answer = self.choices[one.a]
            case "word":
                return self.on_word(role, one, cta)
            case "store":
                store = {"done": False}
                role.stores.append(store)
                self.start(cta, STORE, lambda: self.stored(one, cta, store))
            case "bulk_commit":
                role.groups.append(role.stores)
                role.stores = []
            case "read" if one.b:
                words = self.words_at(one, self.where(cta, one.e))
                return ((one.object, min(words), max(words)),)
            case "write":
                self.fill(one, self.where(cta, one.e))
        return ()

    def ctas(self, one, cta):
        return [self.peer(cta, rank) for rank in range(self.plan.cluster) if one.e >> rank & 1] or [cta]

    def value(self, cta, one):
        value = self.words.get((self.where(cta, one.b), one.a), 0)
        return value % one.e if one.e and KINDS[one.c & 15] != "cas" else value

    def on_word(self, role, one, cta):
        kind, found = KINDS[one.c & 15], self.value(cta, one)
        new = {
            "ld": found,
            "spin": found,
            "st": one.d,
            "add": found + one.d,
            "inc": 0 if found >= one.d else found + 1,
            "dec": one.d if found == 0 or found > one.d else found - 1,
            "exch": one.d,
            "cas": one.d if found == one.e else found,
            "min": min(found, one.d),
            "max": max(found, one.d),
            "and": found & one.d,
            "or": found | one.d,
            "xor": found ^ one.d,
        }[kind]
        self.words[self.where(cta, one.b), one.a] = new
        role.answer = found
        return ((one.object, found, found),) if one.object else ()

    def queue(self, cta, now, time):
        """When an operation of the copy engine is in its queue, and when it has been done."""
        ends = self.engine[cta]
        now = max(now, ends[-QUEUED] if len(ends) >= QUEUED else 0)
        ends.append(max([now, *ends[-1:]]) + time)
        return now, ends[-1]

    def start(self, cta, time, act):
        self.fly(self.queue(cta, self.now, time)[1], act)

    def fly(self, time, act):
        def landed():
            self.flying.remove(entry)
            act()

        entry = (time, landed)
        self.flying.append(entry)

    def places(self, one, cta):
        return [(cta, at) for at in range(one.a, one.a + one.b, GRANULE)]

    def words_at(self, one, cta):
        return [self.memory[place] for place in self.places(one, cta)]

    def fill(self, one, cta):
        for place in self.places(one, cta):
            self.memory[place] = one.d

    def add(self, one, cta):
        for place in self.places(one, cta):
            self.memory[place] += one.d

    def land(self, one, cta, adds=0):
        (self.add if adds else self.fill)(one, cta)
        self.signal(one, cta)

    def signal(self, one, cta):
        barrier = self.barriers[cta, one.c]
        barrier.tx -= one.b
        barrier.settle()

    def copied(self, one, source, cta):
        for at in range(0, one.b, GRANULE):
            self.memory[cta, one.a + at] = self.memory[source[0], source[1] + at]
        self.signal(one, cta)

    def stored_to(self, one, cta, store):
        for at in range(0, one.b, GRANULE):
            before = self.memory[-1, one.c + at] * (one.code == "reduce_to")
            self.memory[-1, one.c + at] = self.memory[cta, one.a + at] + before
        store["done"] = True

    def cp_landed(self, one, cta, copy):
        for at in range(0, one.b, GRANULE):
            self.memory[cta, one.a + at] = one.d if one.e else self.memory[-1, one.d + at]
        copy["done"] = True

    def stored(self, one, cta, store):
        words = self.words_at(one, cta)
        self.output[one.c] = min(words), max(words)
        store["done"] = True


class EmulatedExecutor:
    """In the place of gpu.executor.Executor. All runs are the same."""

    def __init__(self, plan):
        self.plan = plan

    def run(self, runs, *, seed=0, jitter=0, limit=20_000_000, patience=0, roles=(), choices=()):
        chance = random.Random(seed)
        choices = choices or [chance.randrange(options) for options in self.plan.choices]
        return [Emulation(self.plan, roles or self.plan.roles, patience, choices).run(limit)] * runs
