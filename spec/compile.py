"""From the traced programs of a pipeline to a Machine: one location after another becomes guarded actions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from math import gcd

from spec import hopper
from spec import operations as op
from spec.accesses import Bystander, Flight, Spot, accesses_of, fence_checks, in_locations, race_checks, stale_check
from spec.errors import Source
from spec.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of, where
from spec.hopper import Illegal, Mbarrier, Step, saturating_increment
from spec.machine import (
    Action,
    BarrierInfo,
    Check,
    CopyInfo,
    Location,
    Machine,
    Progress,
    Role,
    Structure,
    Variable,
)
from spec.operations import Access
from spec.pipeline import Pipeline
from spec.program import Node, Program, trace_programs
from spec.synchronise import (
    THREADS_WIDTH,
    Meeting,
    Shared,
    Way,
    choice_ways,
    cta_leave_ways,
    cta_ways,
    leave_ways,
    loop_ways,
    named_ways,
)

HALTING = ("arrival-count", "tx-count", "barrier-init", "limit")
HISTORY = 6
AGE_WIDTH = 2
REGISTERS = 65_536
"""32-bit registers per SM, as 9.7.20.5 (setmaxnreg) hands them out to one CTA at a time."""
COPIES = "copies"
"""The role that bulk copies are attributed to."""


@dataclass
class _Plan:
    """What the program uses of one mbarrier, and so which of its parts are variables."""

    arrivals: int
    initialised: bool = True
    inits: bool = False
    invals: bool = False
    transactions: bool = False
    drops: bool = False
    tokens: bool = False
    most: int = 0
    distance: dict[str, int] = field(default_factory=dict)
    token_roles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Copies:
    """Bulk copies of one size into one buffer that signal one barrier: one variable serves them all."""

    write: Access
    barrier: str
    bytes: int
    pieces: int


def compile_pipeline(pipeline: Pipeline) -> Machine:
    """The Machine of a pipeline; raises SpecError for a specification that has no meaning."""
    return _Compiler(pipeline, trace_programs(pipeline)).machine()


class _Compiler:
    def __init__(self, pipeline: Pipeline, programs: tuple[Program, ...]) -> None:
        self.pipeline, self.programs = pipeline, programs
        self.variables: list[Variable] = []
        self.actions: list[Action] = []
        self.plans = self._plan()
        self.counters = {p.name: self._counter(p) for p in programs}
        self.barriers = {name: self._barrier(name, plan) for name, plan in self.plans.items()}
        self.unseen = {
            (role, name): self._new(
                f"unseen.{role}.{name}",
                (max(distance, int(plan.invals)) + 1).bit_length(),
                0,
                f"phases of {name} that {role} has not seen",
                True,
            )
            for name, plan in self.plans.items()
            for role, distance in plan.distance.items()
        }
        self.fresh = {
            (role, name): self._new(
                f"fresh.{role}.{name}", 1, 0, f"{name} is initialised again since {role} waited", True
            )
            for role, name in self.unseen
            if self.plans[name].invals
        }
        self.ages = {
            (role, name): self._new(f"age.{role}.{name}", AGE_WIDTH, 0, f"phases of {name} since {role} arrived", True)
            for name, plan in self.plans.items()
            for role in plan.token_roles
        }
        self._plan_copies()
        self._plan_meetings()
        self._plan_shared()
        self._plan_registers()
        self.just_waited = {p.name: _just_waited(p, 0) for p in programs}
        self.just_seen = {p.name: _just_waited(p, 1) for p in programs}
        self.bystanders = {p.name: self._bystander(p) for p in programs}
        self.exited = self._exited()

    # ---------------------------------------------------------------- what there is

    def _nodes(self) -> Iterable[tuple[Program, int, Node]]:
        return ((program, index, node) for program in self.programs for index, node in enumerate(program.nodes))

    def _new(
        self, name: str, width: int, initial: int, about: str, ghost: bool = False, labels: tuple[str, ...] = ()
    ) -> Field:
        self.variables.append(Variable(name, width, initial, about, ghost, labels))
        return Field(name, width)

    def _counter(self, program: Program) -> Field:
        inside = sum(1 for node in program.nodes if _blocks_inside(node.operation))
        width = max(1, (len(program.nodes) + inside - 1).bit_length())
        return self._new(f"at.{program.name}", width, 0, f"location of {program.name}")

    def _plan(self) -> dict[str, _Plan]:
        arrivals = self.pipeline.layout.arrivals
        plans: dict[str, _Plan] = {}
        for region in self.pipeline.layout.regions:
            if region.declaration in self.pipeline.layout.barriers:
                count = arrivals.get(region.object, 1)
                plans[region.object] = _Plan(max(count, 1), region.object in arrivals)
        for program, _, node in self._nodes():
            match node.operation:
                case op.Init() | op.Inval():
                    plan = plans[node.operation.barrier]
                    plan.inits = True
                    plan.invals |= isinstance(node.operation, op.Inval)
                    if isinstance(node.operation, op.Init):
                        plan.most = max(plan.most, min(node.operation.count, hopper.COUNT_LIMIT))
                case op.Arrive():
                    plan = plans[node.operation.barrier]
                    plan.most = max(plan.most, node.operation.count)
                    plan.transactions |= node.operation.expect is not None
                    plan.drops |= node.operation.kind == "drop"
                case op.Transaction() | op.Load():
                    plans[node.operation.barrier].transactions = True
                case op.Wait(phase=op.Token()):
                    plan = plans[node.operation.barrier]
                    plan.tokens = True
                    if program.name not in plan.token_roles:
                        plan.token_roles.append(program.name)
                case op.Wait():
                    plan = plans[node.operation.barrier]
                    plan.distance[program.name] = max(plan.distance.get(program.name, 0), node.distance)
        return plans

    def _barrier(self, name: str, plan: _Plan) -> Mbarrier:
        width = max(plan.arrivals, plan.most, 1).bit_length()
        full = Lit(plan.arrivals, width)
        pending = self._new(f"{name}.pending", width, plan.arrivals, f"pending arrivals of {name}")
        phase = self._new(f"{name}.phase", 1, 0, f"phase parity of {name}")
        tx: Expr = Lit(0, hopper.TX_WIDTH)
        if plan.transactions:
            tx = self._new(f"{name}.tx", hopper.TX_WIDTH, 0, f"tx-count of {name} in bytes")
        expected: Expr = full
        if plan.drops or plan.inits:
            expected = self._new(f"{name}.expected", width, plan.arrivals, f"arrivals that {name} expects in a phase")
        alive: Expr = TRUE if plan.initialised else FALSE
        if plan.inits:
            alive = self._new(f"{name}.alive", 1, int(plan.initialised), f"{name} is initialised")
        observed: Expr = TRUE
        if plan.tokens:
            observed = self._new(f"{name}.observed", 1, 1, f"somebody has seen the last phase of {name} complete", True)
        return Mbarrier(alive, phase, expected, pending, tx, observed)

    def _plan_copies(self) -> None:
        self.tags: dict[str, dict[Hashable, int]] = {}
        for name, tag in self.pipeline.layout.holds.items():
            self._tag(name, tag)
        read: dict[str, bool] = {}
        copies: dict[_Copies, list[tuple[str, int, Hashable]]] = {}
        for program, index, node in self._nodes():
            match node.operation:
                case op.Load() as load:
                    key = _Copies(load.write, load.barrier, load.bytes, load.pieces)
                    copies.setdefault(key, []).append((program.name, index, load.tag))
                    self._tag(load.write.object, load.tag)
                case op.Touch(kind="write") as touch:
                    for access, tag in zip(touch.accesses, touch.tags, strict=True):
                        self._tag(access.object, tag)
                case op.Touch() as touch:
                    for access, tag in zip(touch.accesses, touch.tags, strict=True):
                        read[access.object] = read.get(access.object, False) or tag is not None
                case op.Store() as store:
                    for access, tag in zip(store.sources, store.tags, strict=True):
                        read[access.object] = read.get(access.object, False) or tag is not None
        self.content: dict[str, Field] = {}
        for name, expected in read.items():
            if expected and name in self.tags:
                width = len(self.tags[name]).bit_length()
                start = self.tags[name][self.pipeline.layout.holds[name]] if name in self.pipeline.layout.holds else 0
                self.content[name] = self._new(
                    f"{name}.holds", width, start, f"what {name} holds", labels=("nothing", *_labels(self.tags[name]))
                )
        self.copies: dict[_Copies, tuple[Field, Field | None, tuple[tuple[str, int, int], ...]]] = {}
        names: dict[str, int] = {}
        for key, issues in copies.items():
            base = f"{key.write.object}.flight"
            number = names[base] = names.get(base, 0) + 1
            name = base if number == 1 else f"{base}{number}"
            tags = self.tags[key.write.object]
            about, labels = f"the copy in flight into {key.write.object}", ("none", *_labels(tags))
            busy = self._new(name, len(tags).bit_length(), 0, about, labels=labels)
            piece = None
            if key.pieces > 1:
                piece = self._new(
                    f"{name}.pieces", (key.pieces - 1).bit_length(), 0, f"pieces of {name} that have landed"
                )
            self.copies[key] = (busy, piece, tuple((role, node, tags[tag]) for role, node, tag in issues))
        self.flights = [
            Flight(key.write, busy != 0, key.write.object, key) for key, (busy, _, _) in self.copies.items()
        ]

    def _tag(self, name: str, tag: Hashable) -> None:
        values = self.tags.setdefault(name, {})
        values.setdefault(tag, len(values) + 1)

    def _plan_meetings(self) -> None:
        members: dict[str, dict[str, None]] = {}
        counts: dict[str, dict[int, None]] = {}
        for program, _, node in self._nodes():
            found = _meeting(program, node.operation)
            if found is not None:
                members.setdefault(found, {})[program.name] = None
                if isinstance(node.operation, op.NamedSync):
                    counts.setdefault(found, {})[node.operation.threads] = None
        self.meetings: dict[str, Meeting] = {}
        for name, roles in members.items():
            arrived = self._new(f"{name}.arrived", THREADS_WIDTH, 0, f"threads that have arrived at {name}")
            count: Expr = Lit(0, THREADS_WIDTH)
            if len(counts.get(name, {})) > 1:
                count = self._new(f"{name}.count", THREADS_WIDTH, 0, f"threads that {name} waits for")
            flags = {
                role: self._new(f"{name}.{role}", 1, 0, f"{role} has arrived at {name}, which has not completed")
                for role in roles
            }
            self.meetings[name] = Meeting(arrived, count, flags)

    def _plan_shared(self) -> None:
        loops: dict[str, dict[str, None]] = {}
        choices: dict[str, dict[str, None]] = {}
        options: dict[str, int] = {}
        for program, _, node in self._nodes():
            if node.loop:
                loops.setdefault(node.loop, {})[program.name] = None
            elif isinstance(node.operation, op.Choose):
                choices.setdefault(node.operation.name, {})[program.name] = None
                options[node.operation.name] = max(options.get(node.operation.name, 0), len(node.operation.options))
        stages = max([self.pipeline.stages, *self.pipeline.layout.slots.values()])
        self.shared: dict[str, Shared] = {}
        for name, roles in loops.items():
            width = (4 * stages + 8).bit_length() if len(roles) > 1 else 1
            behind = self._behind(name, roles, width, "iterations")
            stopped = self._new(f"loop.{name}.ended", 1, 0, f"the number of iterations of loop {name!r} is decided")
            self.shared[f"loop {name}"] = Shared(behind, (), stopped)
        for name, roles in choices.items():
            behind = self._behind(name, roles, 3, "choices")
            history: tuple[Field, ...] = ()
            if len(roles) > 1:
                bits = max(1, (options[name] - 1).bit_length())
                history = tuple(
                    self._new(f"choice.{name}.{age}", bits, 0, f"choice {name!r}, {age} before the last", True)
                    for age in range(HISTORY)
                )
            self.shared[f"choice {name}"] = Shared(behind, history)

    def _behind(self, name: str, roles: Iterable[str], width: int, what: str) -> dict[str, Field]:
        about = "how many {} of {!r} {} is behind the most advanced role"
        return {
            role: self._new(f"behind.{role}.{name}", width, 0, about.format(what, name, role), True) for role in roles
        }

    def _plan_registers(self) -> None:
        self.free: Field | None = None
        if any(isinstance(node.operation, op.Setmaxnreg) for _, _, node in self._nodes()):
            self.free = self._new("registers.free", 17, 0, "registers of the CTA that no warp holds")

    def _bystander(self, program: Program) -> Bystander:
        spots = [Spot(node.held, tuple(ahead)) for node, ahead in zip(program.nodes, _soon(program), strict=True)]
        spots += [Spot(node.held, ()) for node in program.nodes if _blocks_inside(node.operation)]
        return Bystander(program.name, self.counters[program.name], tuple(spots))

    def _exited(self) -> Expr:
        threads = Lit(0, THREADS_WIDTH)
        total: Expr = threads
        for program in self.programs:
            done = in_locations(self.counters[program.name], _final(program))
            total = total + where(done, Lit(program.me.threads, THREADS_WIDTH), threads)
        return total

    # ---------------------------------------------------------------- actions

    def machine(self) -> Machine:
        """Compiles every location of every role, then the agents without a program and the checks on whole states."""
        roles = tuple(self._role(program) for program in self.programs)
        for key in self.copies:
            self._landing(key)
        checks = tuple(self._state_checks())
        found = {"deadlock": None}
        for check in (
            *checks,
            *(check for action in self.actions for check in action.checks),
            *(check for role in roles for location in role.locations for check in location.checks),
        ):
            found[check.property] = None
        if self.plans:
            found["arrival-count"] = None
        found.pop("limit", None)
        if self.free is not None:
            found["register-pool"] = None
        structure = Structure(tuple(self._barrier_info()), tuple(self._copy_info()), tuple(self._progress()))
        return Machine(
            self.pipeline.name,
            self.pipeline.parameters(),
            tuple(self.variables),
            roles,
            tuple(self.actions),
            checks,
            tuple(found),
            structure,
        )

    def _role(self, program: Program) -> Role:
        self.others = [other for name, other in self.bystanders.items() if name != program.name]
        reachable = _arrivals_ahead(program)
        locations: list[Location] = []
        inside: list[Location] = []
        for index, node in enumerate(program.nodes):
            what, thing = _words(node)
            checks = [_check(part, thing) for part in self._standing(program, node)]
            checks += self._overtaken(program, index)
            waits = node.operation.barrier if isinstance(node.operation, op.Wait) else ""
            locations.append(
                Location(
                    what,
                    thing,
                    node.source,
                    tuple(checks),
                    final=not node.successors,
                    kind=_kind(node),
                    waits_for=waits,
                    arrives_on=tuple(reachable[index]),
                    settled=self._settled(program, node),
                    just_waited=self.just_waited[program.name][index],
                )
            )
            if _blocks_inside(node.operation):
                entrance = len(program.nodes) + len(inside)
                waiting = Location(f"inside {what}", thing, node.source, arrives_on=tuple(reachable[index]))
                inside.append(waiting)
                self._take(program, node, index, entrance, self._ways(program, node))
                meeting = self.meetings[_meeting(program, node.operation) or ""]
                leaving = (
                    cta_leave_ways(meeting, program.name, self.exited, self._threads())
                    if isinstance(node.operation, op.CtaSync)
                    else leave_ways(meeting, program.name)
                )
                self._take(program, node, entrance, entrance, leaving, "leave ")
            else:
                self._take(program, node, index, index, self._ways(program, node))
        return Role(program.name, self.counters[program.name].name, (*locations, *inside), program.me.threads)

    def _take(
        self, program: Program, node: Node, at: int, entrance: int, ways: Iterable[Way], prefix: str = ""
    ) -> None:
        what, thing = _words(node)
        for way in ways:
            target = entrance if way.goes == "inside" else node.successors.get(way.answer)
            if target is None or _is_false(way.guard):
                continue
            op_text = f"{prefix}{what}" + (f": {way.label}" if way.label else "")
            accesses = self._access_checks(program, node) if not prefix else []
            checks = (*(_check(part, thing) for part in way.illegal if not _is_false(part.when)), *accesses)
            name = f"{program.name}@{at} {op_text} {thing}".rstrip()
            self.actions.append(
                Action(name, program.name, op_text, thing, at, target, way.guard, way.updates, checks, node.source)
            )

    def _settled(self, program: Program, node: Node) -> Expr:
        if node.loop:
            return self.shared[f"loop {node.loop}"].settled(program.name)
        if isinstance(node.operation, op.Wait) and node.operation.kind == "wait":
            wait = node.operation
            passed = self.just_waited[program.name][node.successors[None]]
            if not isinstance(wait.phase, op.Token) and wait.barrier in passed and not self.plans[wait.barrier].inits:
                unseen = self.unseen[program.name, wait.barrier]
                b = self.barriers[wait.barrier]
                return (b.phase != Lit(int(wait.phase), 1)) & (unseen == node.distance)
        return FALSE

    def _threads(self) -> int:
        return sum(program.me.threads for program in self.programs)

    def _standing(self, program: Program, node: Node) -> list[Illegal]:
        """What must not hold while a role waits here, whether or not it can go on; and what a finished role must not hold."""
        operation = node.operation
        illegal: list[Illegal] = []
        if isinstance(operation, op.Wait):
            b = self.barriers[operation.barrier]
            if isinstance(operation.phase, op.Token):
                illegal += hopper.wait_token(b, self.ages[program.name, operation.barrier]).illegal
            else:
                illegal += self._wait_parity(program.name, operation, node.distance).illegal
        elif isinstance(operation, op.Setmaxnreg):
            illegal += self._never_granted(program, node, operation)
        elif isinstance(operation, op.Choose):
            illegal.append(self.shared[f"choice {operation.name}"].too_far(program.name))
        elif operation is None and not node.loop and self.pipeline.strict and node.held.stores():
            illegal.append(
                Illegal("exit-hazard", TRUE, f"{program.name} ends while its bulk stores still read shared memory")
            )
        return [part for part in illegal if not _is_false(part.when)]

    def _overtaken(self, program: Program, index: int) -> Iterable[Check]:
        """Barriers that have completed a phase since the role passed its wait there, before it did anything that others
        can notice: they did not need it to pass, so they could have lapped the wait."""
        for name in self.just_waited[program.name][index]:
            because = (
                f"{name}: it completes another phase although {program.name} may not have seen the last one: lapped"
            )
            yield Check("phase-lapped", self.unseen[program.name, name] != 0, because, name)

    def _ways(self, program: Program, node: Node) -> list[Way]:
        role, operation = program.name, node.operation
        match operation:
            case None if node.loop:
                return loop_ways(self.shared[f"loop {node.loop}"], role)
            case None:
                return []
            case op.Wait():
                return self._wait_ways(role, node, operation)
            case op.Init():
                way = self._on(role, operation.barrier, hopper.init(self.barriers[operation.barrier], operation.count))
                anew = [(bit.name, TRUE) for (_, name), bit in self.fresh.items() if name == operation.barrier]
                anew += [
                    (self.unseen[key].name, Lit(0, self.unseen[key].width))
                    for key in self.fresh
                    if key[1] == operation.barrier
                ]
                return [replace(way, updates=(*way.updates, *anew))]
            case op.Inval():
                return [self._on(role, operation.barrier, hopper.inval(self.barriers[operation.barrier]))]
            case op.Arrive():
                return [self._on(role, operation.barrier, self._arrive(role, operation), arrives=True)]
            case op.Transaction():
                b = self.barriers[operation.barrier]
                step = (
                    hopper.expect_tx(b, operation.bytes)
                    if operation.bytes >= 0
                    else hopper.complete_tx(b, -operation.bytes)
                )
                return [self._on(role, operation.barrier, step)]
            case op.Load():
                return [self._load_way(program, node, operation)]
            case op.Touch(kind="write"):
                return [Way(TRUE, tuple(self._writes(operation)))]
            case op.NamedSync():
                meeting = self.meetings[_meeting(program, operation) or ""]
                return named_ways(
                    meeting, role, program.me.threads, operation.id, operation.threads, blocks=operation.blocks
                )
            case op.WarpSync():
                meeting = self.meetings[_meeting(program, operation) or ""]
                total = sum(other.me.threads for other in self.programs if other.role == program.role)
                return named_ways(meeting, role, program.me.threads, None, total, blocks=True)
            case op.CtaSync():
                return cta_ways(self.meetings["cta"], role, program.me.threads, self.exited, self._threads())
            case op.Choose():
                return choice_ways(self.shared[f"choice {operation.name}"], role, operation.options)
            case op.Setmaxnreg():
                return [self._register_way(program, node, operation)]
        return [Way(TRUE, ())]

    def _wait_ways(self, role: str, node: Node, wait: op.Wait) -> list[Way]:
        b = self.barriers[wait.barrier]
        if isinstance(wait.phase, op.Token):
            step = hopper.wait_token(b, self.ages[role, wait.barrier])
        else:
            step = self._wait_parity(role, wait, node.distance)
        passes = self._on(role, wait.barrier, step)
        if wait.kind == "wait":
            return [Way(step.when, passes.updates)]
        gives_up = TRUE if wait.kind == "try_wait" else ~step.when
        return [
            Way(step.when, passes.updates, answer=True, label="True"),
            Way(gives_up, (), answer=False, label="False"),
        ]

    def _wait_parity(self, role: str, wait: op.Wait, distance: int) -> Step:
        """A wait for the phase `distance` after the last; for phase 0 or -1 if the barrier was initialised again since."""
        assert not isinstance(wait.phase, op.Token)
        b, unseen, parity = self.barriers[wait.barrier], self.unseen[role, wait.barrier], int(wait.phase)
        step = hopper.wait_parity(b, parity, unseen, distance)
        fresh = self.fresh.get((role, wait.barrier))
        if fresh is None:
            return step
        anew = hopper.wait_parity(b, parity, unseen, 1 - parity)
        pairs = zip(anew.illegal, step.illegal, strict=True)
        return replace(step, illegal=tuple(replace(old, when=where(fresh, new.when, old.when)) for new, old in pairs))

    def _arrive(self, role: str, arrive: op.Arrive) -> Step:
        b = self._observable(arrive.barrier, role)
        match arrive:
            case op.Arrive(kind="no_complete"):
                return hopper.arrive_no_complete(b, arrive.count)
            case op.Arrive(kind="drop"):
                return hopper.arrive_drop(b, arrive.count, arrive.expect or 0)
            case op.Arrive(expect=None):
                return hopper.arrive(b, arrive.count)
        return hopper.arrive_expect_tx(b, arrive.expect or 0, arrive.count)

    def _observable(self, name: str, arriving: str) -> Mbarrier:
        """The barrier with its ghost `observed`: some waiter has nothing unseen, and has done something since that shows it.

        A role other than the one that arrives that has only just passed its wait could as well be standing there still.
        Without any waiter nobody can be lapped.
        """
        b, plan = self.barriers[name], self.plans[name]
        if plan.tokens or not plan.distance:
            return b
        seen = any_of(
            (self.unseen[role, name] == 0) & ~in_locations(self.counters[role], self._only_just_seen(role, name))
            if role != arriving
            else self.unseen[role, name] == 0
            for role in plan.distance
        )
        return Mbarrier(b.alive, b.phase, b.expected, b.pending, b.tx, seen)

    def _only_just_seen(self, role: str, name: str) -> list[int]:
        return [index for index, names in enumerate(self.just_seen[role]) if name in names]

    def _on(self, role: str, name: str, step: Step, *, arrives: bool = False) -> Way:
        """A step on a barrier as updates of the variables that the barrier has, and of everybody's ghosts."""
        b = self.barriers[name]
        parts = {
            "alive": b.alive,
            "phase": b.phase,
            "expected": b.expected,
            "pending": b.pending,
            "tx": b.tx,
            "observed": b.observed,
        }
        updates = [
            (part.name, step.then[key])
            for key, part in parts.items()
            if isinstance(part, Field) and key in step.then and step.then[key] is not part
        ]
        if "unseen" in step.then:
            updates.append((self.unseen[role, name].name, step.then["unseen"]))
            if (role, name) in self.fresh:
                updates.append((self.fresh[role, name].name, FALSE))
        for (waiter, barrier), unseen in self.unseen.items():
            if barrier == name and not _is_false(step.completes):
                updates.append((unseen.name, saturating_increment(unseen, step.completes)))
        for (waiter, barrier), age in self.ages.items():
            if barrier == name and arrives and waiter == role:
                updates.append((age.name, where(step.completes, Lit(1, AGE_WIDTH), Lit(0, AGE_WIDTH))))
            elif barrier == name and not _is_false(step.completes):
                updates.append((age.name, saturating_increment(age, step.completes)))
        return Way(step.when, tuple(updates), step.illegal)

    def _load_way(self, program: Program, node: Node, load: op.Load) -> Way:
        busy, _, _ = self.copies[_Copies(load.write, load.barrier, load.bytes, load.pieces)]
        value = self.tags[load.write.object][load.tag]
        illegal = [
            Illegal(
                "barrier-init", ~self.barriers[load.barrier].alive, f"a copy signals {load.barrier} before its init"
            )
        ]
        illegal += self._unfenced_init(program, node, load.barrier)
        for region in self.pipeline.layout.regions:
            if region.object == load.write.object:
                home = region
        for region in self.pipeline.layout.regions:
            other = Access(region.object, region.space, region.start, region.stop, True, "generic")
            beyond = Access(home.object, home.space, home.stop, max(home.stop, load.write.stop), True, "async")
            if beyond.start < beyond.stop and region.object != home.object and beyond.overlaps(other):
                because = f"the copy of {load.bytes} bytes runs over the end of {home.object} into {region.object}"
                illegal.append(Illegal("smem-overlap", TRUE, because))
        return Way(TRUE, ((busy.name, Lit(value, busy.width)),), tuple(illegal))

    def _unfenced_init(self, program: Program, node: Node, name: str) -> list[Illegal]:
        """A bulk copy signals a barrier whose initialisation is visible to generic accesses only."""
        because = (
            f"a copy by {program.name} signals {name}, whose initialisation is not visible to it: "
            "no fence.mbarrier_init by {}"
        )
        found = []
        if name in node.held.unfenced_inits:
            found.append(Illegal("barrier-init", TRUE, because.format(program.name)))
        for other in self.others:
            when = other.where(lambda spot: name in spot.held.unfenced_inits)
            if not _is_false(when):
                found.append(Illegal("barrier-init", when, because.format(other.name)))
        return found

    def _writes(self, touch: op.Touch) -> Iterable[tuple[str, Expr]]:
        for access, tag in zip(touch.accesses, touch.tags, strict=True):
            yield from self._new_content(access, Lit(self.tags[access.object][tag], 32))

    def _new_content(self, access: Access, value: Expr) -> Iterable[tuple[str, Expr]]:
        """The buffer holds the value; every other buffer that shares bytes with it holds nothing any more."""
        for region in self.pipeline.layout.regions:
            content = self.content.get(region.object)
            if content is None:
                continue
            if region.object == access.object:
                yield content.name, Lit(value.value, content.width) if isinstance(value, Lit) else value
            elif access.overlaps(Access(region.object, region.space, region.start, region.stop, True, "generic")):
                yield content.name, Lit(0, content.width)

    def _register_way(self, program: Program, node: Node, change: op.Setmaxnreg) -> Way:
        assert self.free is not None
        before = node.held.registers or self.pipeline.registers
        delta = (change.registers - before) * program.me.threads
        wrong = not 24 <= change.registers <= 256 or change.registers % 8 != 0
        wrong |= delta > 0 if change.kind == "dec" else delta < 0
        illegal = ()
        if wrong:
            because = f"setmaxnreg.{change.kind} {change.registers} from {before}: a multiple of 8 from 24 to 256 that goes the right way"
            illegal = (Illegal("register-pool", TRUE, because),)
        if delta <= 0:
            return Way(TRUE, ((self.free.name, self.free + Lit(-delta, self.free.width)),), illegal)
        need = Lit(delta, self.free.width)
        return Way(self.free >= need, ((self.free.name, self.free - need),), illegal)

    def _never_granted(self, program: Program, node: Node, change: op.Setmaxnreg) -> list[Illegal]:
        """The pool has too few registers, and no other role will execute setmaxnreg.dec any more."""
        assert self.free is not None
        need = (change.registers - (node.held.registers or self.pipeline.registers)) * program.me.threads
        if need <= 0:
            return []
        others = [other for other in self.programs if other.name != program.name]
        over = all_of(~in_locations(self.counters[other.name], _before_dec(other)) for other in others)
        because = f"{program.name} needs {need} more registers than it has, and nobody can give back as many any more"
        return [Illegal("register-pool", (self.free < Lit(need, self.free.width)) & over, because)]

    def _access_checks(self, program: Program, node: Node) -> list[Check]:
        role, operation = program.name, node.operation
        checks: list[Check] = []
        load = operation if isinstance(operation, op.Load) else None
        kind = None if load is None else _Copies(load.write, load.barrier, load.bytes, load.pieces)
        for access in accesses_of(operation):
            checks += race_checks(role, access, node.held, self.others, self.flights, kind)
            checks += fence_checks(role, access, node.held, self.others, strict=self.pipeline.strict)
        expectations: list[tuple[Access, Hashable]] = []
        if isinstance(operation, op.Touch) and operation.kind != "write":
            expectations = list(zip(operation.accesses, operation.tags, strict=True))
        elif isinstance(operation, op.Store):
            expectations = list(zip(operation.sources, operation.tags, strict=True))
        for access, tag in expectations:
            if tag is not None:
                known = self.tags.get(access.object, {}).get(tag)
                checks += stale_check(role, access, self.content.get(access.object), known, tag)
        return checks

    def _landing(self, key: _Copies) -> None:
        busy, piece, issues = self.copies[key]
        source = self._source(issues)
        step = hopper.complete_tx(self.barriers[key.barrier], key.bytes // key.pieces)
        thing = key.write.object
        checks = tuple(_check(part, key.barrier) for part in step.illegal if not _is_false(part.when))
        signal = self._on(COPIES, key.barrier, step).updates
        landed = (*signal, *self._new_content(key.write, busy), (busy.name, Lit(0, busy.width)))
        last: Expr = TRUE
        if piece is not None:
            last = piece == key.pieces - 1
            text = f"{key.bytes // key.pieces} bytes of"
            name = f"{COPIES} {busy.name} piece"
            updates = (*signal, (piece.name, piece + 1))
            guard = all_of((busy != 0, ~last))
            self.actions.append(Action(name, COPIES, text, thing, None, None, guard, updates, checks, source))
            landed = (*landed, (piece.name, Lit(0, piece.width)))
        text = "land"
        guard = all_of((busy != 0, last))
        self.actions.append(
            Action(f"{COPIES} {busy.name} lands", COPIES, text, thing, None, None, guard, landed, checks, source)
        )

    def _source(self, issues: tuple[tuple[str, int, int], ...]) -> Source:
        role, node, _ = issues[0]
        return next(program.nodes[node].source for program in self.programs if program.name == role)

    def _state_checks(self) -> Iterable[Check]:
        layout = self.pipeline.layout
        for one, other in layout.overlaps():
            because = (
                f"{one.object} [{one.start}, {one.stop}) and {other.object} [{other.start}, {other.stop}) lie in the same "
                f"bytes, which no `shares` declares"
            )
            yield Check("smem-overlap", TRUE, because, other.object)
        for name, count in layout.arrivals.items():
            if count < 1:
                yield Check("barrier-init", TRUE, f"{name} is initialised with the arrival count {count}", name, True)
        if self.copies:
            finished = all_of(in_locations(self.counters[p.name], _final(p)) for p in self.programs)
            if not _is_false(finished):
                for key, (busy, _, _) in self.copies.items():
                    because = f"all roles have ended while a copy into {key.write.object} is still in flight"
                    yield Check("exit-hazard", finished & (busy != 0), because, key.write.object)
                for name, b in self.barriers.items():
                    flying = any_of(busy != 0 for key, (busy, _, _) in self.copies.items() if key.barrier == name)
                    because = f"{name}: all roles have ended and all copies landed, and its tx-count is not zero"
                    yield Check("tx-count", finished & ~flying & (b.tx != 0), because, name)

    # ---------------------------------------------------------------- what proofs and reports need to know

    def _barrier_info(self) -> Iterable[BarrierInfo]:
        for name, b in self.barriers.items():
            unseen = tuple((role, var.name) for (role, barrier), var in self.unseen.items() if barrier == name)
            plan = self.plans[name]
            names = (_name(b.phase), _name(b.pending), _name(b.tx))
            yield BarrierInfo(name, plan.arrivals, *names, unseen, self._is_plain(name, plan), self._announces(name))

    def _announces(self, name: str) -> bool:
        return any(
            isinstance(node.operation, op.Transaction) and node.operation.barrier == name
            for _, _, node in self._nodes()
        )

    def _is_plain(self, name: str, plan: _Plan) -> bool:
        if plan.inits or plan.drops or plan.tokens or max(plan.distance.values(), default=0) > 1:
            return False
        for _, _, node in self._nodes():
            match node.operation:
                case op.Wait(barrier=barrier, kind="test_wait"):
                    if barrier == name:
                        return False
                case op.Arrive(barrier=barrier, kind=kind):
                    if barrier == name and kind != "arrive":
                        return False
        return True

    def _copy_info(self) -> Iterable[CopyInfo]:
        for key, (busy, piece, issues) in self.copies.items():
            content = self.content.get(key.write.object)
            names = ("" if content is None else content.name, "" if piece is None else piece.name)
            yield CopyInfo(busy.name, key.write.object, key.barrier, key.bytes, *names, issues)

    def _progress(self) -> Iterable[Progress]:
        for program in self.programs:
            inside = [node for node in program.nodes if _blocks_inside(node.operation)]
            nodes = (*program.nodes, *inside)
            for kind, pick, start in (("arrived", 0, 0), ("observed", 1, -1), ("expected", 2, 0)):
                names: dict[str, None] = {}
                for node in nodes:
                    names.update(dict.fromkeys((node.arrived, node.observed, node.ahead)[pick]))
                for name in names:
                    values = tuple((node.arrived, node.observed, node.ahead)[pick].get(name, start) for node in nodes)
                    modulus = 0
                    for node in nodes:
                        here = (node.arrived, node.observed, node.ahead)[pick].get(name, start)
                        for drift in node.drift:
                            modulus = gcd(modulus, drift[pick].get(name, start) - here)  # type: ignore[union-attr]
                    yield Progress(program.name, kind, name, modulus, values)
            if any(node.loop for node in nodes):
                modulus = 0
                for node in nodes:
                    for drift in node.drift:
                        modulus = gcd(modulus, drift[3] - node.iteration)
                yield Progress(program.name, "iteration", "trips", modulus, tuple(node.iteration for node in nodes))


# ---------------------------------------------------------------- small questions about programs


def _blocks_inside(operation: op.Operation | None) -> bool:
    return isinstance(operation, op.CtaSync | op.WarpSync) or (isinstance(operation, op.NamedSync) and operation.blocks)


def _meeting(program: Program, operation: op.Operation | None) -> str | None:
    match operation:
        case op.NamedSync():
            return f"bar{operation.id}"
        case op.CtaSync():
            return "cta"
        case op.WarpSync():
            return f"warp.{program.role}"
    return None


def _final(program: Program) -> list[int]:
    return [index for index, node in enumerate(program.nodes) if not node.successors]


def _is_local(operation: op.Operation | None) -> bool:
    return isinstance(operation, op.Touch | op.Group | op.Fence | op.Store)


def _kind(node: Node) -> str:
    match node.operation:
        case None:
            return "loop" if node.loop else "end"
        case op.Wait():
            return "wait" if node.operation.kind == "wait" else "peek"
        case op.Arrive(kind="arrive"):
            return "arrive"
        case op.Load():
            return "load"
        case op.Transaction() if node.operation.bytes >= 0:
            return "expect"
    return "local" if _is_local(node.operation) else "other"


def _just_waited(program: Program, distance: int) -> list[tuple[str, ...]]:
    """By node, the barriers whose wait the role has passed, on every path, with only accesses, groups, fences and other
    waits since: nothing that another role could have needed. Only waits of at least that distance count: one of distance 0
    sees no phase that was not seen before."""
    unknown = None
    found: list[tuple[str, ...] | None] = [(), *[unknown] * (len(program.nodes) - 1)]
    changed = True
    while changed:
        changed = False
        for index, node in enumerate(program.nodes):
            here = found[index]
            if here is None:
                continue
            for answer, target in node.successors.items():
                then = _waited_after(node, here, answer, distance)
                before = found[target]
                joined = then if before is None else tuple(name for name in before if name in then)
                if joined != before:
                    found[target] = joined
                    changed = True
    return [names or () for names in found]


def _waited_after(node: Node, before: tuple[str, ...], answer: Hashable, distance: int) -> tuple[str, ...]:
    wait = node.operation
    if isinstance(wait, op.Wait):
        if answer is False or isinstance(wait.phase, op.Token) or wait.barrier in before or node.distance < distance:
            return before
        return (*before, wait.barrier)
    return before if _is_local(wait) else ()


def _soon(program: Program) -> list[list[Access]]:
    """By node, the accesses that can start without anything from another role: its own, and those that follow it with
    only the role's own accesses, groups and fences in between."""
    soon = [dict.fromkeys(accesses_of(node.operation)) for node in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            if _is_local(program.nodes[index].operation):
                for target in program.nodes[index].successors.values():
                    missing = [access for access in soon[target] if access not in soon[index]]
                    soon[index].update(dict.fromkeys(missing))
                    changed |= bool(missing)
    return [list(accesses) for accesses in soon]


def _before_dec(program: Program) -> list[int]:
    """The locations from which the role can still execute setmaxnreg.dec."""
    before = {
        index
        for index, node in enumerate(program.nodes)
        if isinstance(node.operation, op.Setmaxnreg) and node.operation.kind == "dec"
    }
    size = -1
    while size != len(before):
        size = len(before)
        before |= {index for index, node in enumerate(program.nodes) if before & set(node.successors.values())}
    inside = [index for index, node in enumerate(program.nodes) if _blocks_inside(node.operation)]
    entered = [len(program.nodes) + number for number, index in enumerate(inside) if index in before]
    return sorted((*before, *entered))


def _arrivals_ahead(program: Program) -> list[list[str]]:
    """By node, the barriers on which the role can still arrive, whatever the answers."""
    own = [{node.operation.barrier: None} if isinstance(node.operation, op.Arrive) else {} for node in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            for target in program.nodes[index].successors.values():
                missing = [name for name in own[target] if name not in own[index]]
                own[index].update(dict.fromkeys(missing))
                changed |= bool(missing)
    return [list(names) for names in own]


def _words(node: Node) -> tuple[str, str]:
    """An operation and its object, in PTX's words."""
    match node.operation:
        case None:
            return ("next iteration", node.loop) if node.loop else ("end", "")
        case op.Init():
            return f"init {node.operation.count}", node.operation.barrier
        case op.Inval():
            return "inval", node.operation.barrier
        case op.Wait(phase=op.Token()):
            return f"{node.operation.kind} token", node.operation.barrier
        case op.Wait():
            return f"{node.operation.kind} parity {int(node.operation.phase)}", node.operation.barrier  # type: ignore[arg-type]
        case op.Arrive() as arrive:
            verb = {"arrive": "arrive", "drop": "arrive_drop", "no_complete": "arrive.noComplete"}[arrive.kind]
            expect = "" if arrive.expect is None else f".expect_tx {arrive.expect}"
            return f"{verb}{expect}" + (f" x{arrive.count}" if arrive.count != 1 else ""), arrive.barrier
        case op.Transaction():
            verb = "expect_tx" if node.operation.bytes >= 0 else "complete_tx"
            return f"{verb} {abs(node.operation.bytes)}", node.operation.barrier
        case op.Load():
            return f"load {_tag_text(node.operation.tag)}", node.operation.write.object
        case op.Touch() as touch:
            tags = ",".join(dict.fromkeys(_tag_text(tag) for tag in touch.tags if tag is not None))
            return f"{touch.kind} {tags}".rstrip(), ",".join(access.object for access in touch.accesses)
        case op.Store():
            tags = ",".join(dict.fromkeys(_tag_text(tag) for tag in node.operation.tags if tag is not None))
            return f"store {tags}".rstrip(), ",".join(access.object for access in node.operation.sources)
        case op.Group():
            text = {"mma": "wgmma", "bulk": "cp.async.bulk"}[node.operation.kind.split("_")[0]]
            rest = node.operation.kind.split("_", 1)[1]
            verb = {"commit": "commit_group", "wait": "wait_group", "wait_read": "wait_group.read"}[rest]
            return f"{text}.{verb}" + (f" {node.operation.pending}" if rest != "commit" else ""), ""
        case op.Fence():
            return "fence." + node.operation.kind.replace("proxy_async", "proxy.async"), ""
        case op.NamedSync():
            return (
                f"bar.{'sync' if node.operation.blocks else 'arrive'} {node.operation.threads}",
                f"bar{node.operation.id}",
            )
        case op.CtaSync():
            return "__syncthreads", "cta"
        case op.WarpSync():
            return "__syncwarp", "warp"
        case op.Choose():
            return "choose", node.operation.name
        case op.Setmaxnreg():
            return f"setmaxnreg.{node.operation.kind} {node.operation.registers}", "registers"
    return type(node.operation).__name__, ""


def _labels(tags: Iterable[Hashable]) -> tuple[str, ...]:
    return tuple(_tag_text(tag) or "data" for tag in tags)


def _tag_text(tag: Hashable) -> str:
    return "" if tag is None else f"k={tag}"


def _check(illegal: Illegal, thing: str) -> Check:
    because = (
        illegal.because
        if illegal.property in ("smem-overlap", "limit", "exit-hazard")
        else f"{thing}: {illegal.because}"
    )
    return Check(illegal.property, illegal.when, because, thing, illegal.property in HALTING)


def _name(part: Expr) -> str:
    return part.name if isinstance(part, Field) else ""


def _is_false(condition: Expr) -> bool:
    return isinstance(condition, Lit) and condition.value == 0
