"""From the programs of a kernel to a Machine: one location after another becomes guarded actions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.accesses import Bystander, Spot, fence_checks, in_locations, race_checks, stale_check
from sm90_verify.spec.model.barrier_bytes import barriers_under, live_checks
from sm90_verify.spec.model.decisions import choice_ways, loop_ways
from sm90_verify.spec.model.flow import (
    arrivals_ahead,
    barrier_of,
    before_dec,
    blocks_inside,
    closed_meetings,
    final_nodes,
    kind_of,
    meeting_of,
    next_waits,
    parity_of,
    soon,
    waits_ahead,
)
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.machine import COPIES, Action, ActionKind, Check, Location, Machine, Role
from sm90_verify.spec.model.mbarriers import Signals
from sm90_verify.spec.model.state_checks import check_of, state_checks
from sm90_verify.spec.model.structure import structure_of
from sm90_verify.spec.model.variables import Copies, Variables, copies_of
from sm90_verify.spec.model.words import things_of, unlike, words_of
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import accesses_of, contents, expectations
from sm90_verify.spec.ptx.expr import TRUE, Expr, Lit, all_of, any_of, is_false, where
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.registers import never_granted, register_way
from sm90_verify.spec.ptx.step import Illegal, Updates, Way
from sm90_verify.spec.ptx.thread_barriers import (
    ARRIVED,
    CLUSTER_WIDTH,
    THREADS_WIDTH,
    cluster_arrive_ways,
    cluster_wait_ways,
    cta_leave_ways,
    cta_ways,
    leave_ways,
    named_ways,
)


def compile_kernel(kernel: Kernel) -> Machine:
    """The Machine of a kernel."""
    return _Compiler(kernel).machine()


class _Compiler:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.programs = kernel, kernel.programs
        self.actions: list[Action] = []
        self.names: set[str] = set()
        self.v = Variables(kernel)
        self.signals = Signals(self.v)
        self.bystanders = {p.name: self._bystander(p) for p in kernel.programs}
        self.closed = closed_meetings(kernel.programs)
        self.exited = {home: self._exited(home, THREADS_WIDTH) for home in self._homes()}
        self.gone = {
            home: all_of(in_locations(self.v.counters[p.name], final_nodes(p)) for p in self._at_home(home))
            for home in self._homes()
        }

    def machine(self) -> Machine:
        """Compiles every location of every role, then the agents without a program and the checks on whole states."""
        roles = tuple(self._role(program) for program in self.programs)
        for number, key in enumerate(self.v.copies):
            self._landing(number, key)
        checks = tuple(state_checks(self.v, self.gone))
        found = {"deadlock": None}
        for check in (
            *checks,
            *(check for action in self.actions for check in action.checks),
            *(check for role in roles for location in role.locations for check in location.checks),
        ):
            found[check.property] = None
        if self.v.plans:
            found["arrival-count"] = None
        found.pop("limit", None)
        if self.v.free:
            found["register-pool"] = None
        return Machine(
            self.kernel.name,
            dict(self.kernel.parameters),
            tuple(self.v.all),
            roles,
            tuple(self.actions),
            checks,
            tuple(found),
            structure_of(self.v),
        )

    def _role(self, program: Program) -> Role:
        self.others = [other for name, other in self.bystanders.items() if name != program.name]
        reachable, awaited, ahead = arrivals_ahead(program), waits_ahead(program), next_waits(program)
        locations: list[Location] = []
        inside: list[Location] = []
        for index, node in enumerate(program.nodes):
            what, thing = words_of(node)
            checks = [check_of(part, thing) for part in self._standing(program, node)]
            checks += self.signals.overtaken(program, index)
            locations.append(
                Location(
                    what,
                    thing,
                    node.source,
                    tuple(checks),
                    final=not node.successors,
                    kind="meet" if meeting_of(program, node.operation) in self.closed else kind_of(node),
                    things=things_of(node),
                    barrier=barrier_of(node.operation),
                    parity=parity_of(node.operation),
                    signals=isinstance(node.operation, op.Arrive | op.NamedSync | op.ClusterArrive),
                    arrives_on=tuple(reachable[index]),
                    waits_ahead=awaited[index],
                    next_waits=tuple(ahead[index].items()),
                    settled=self.signals.settled(program, node),
                    just_waited=self.signals.just_waited[program.name][index],
                )
            )
            if blocks_inside(node.operation):
                entrance = len(program.nodes) + len(inside)
                meeting = self.v.meetings[meeting_of(program, node.operation) or ""]
                inside.append(
                    Location(
                        f"inside {what}",
                        thing,
                        node.source,
                        kind="inside",
                        things=things_of(node),
                        arrives_on=tuple(reachable[index]),
                        next_waits=tuple(ahead[index].items()),
                        settled=meeting.flags[program.name] == 0,
                    )
                )
                self._take(program, node, index, entrance, self._ways(program, node))
                leaving = (
                    cta_leave_ways(meeting, program.name, self.exited[program.home], self._threads(program.home))
                    if isinstance(node.operation, op.CtaSync)
                    else leave_ways(meeting, program.name)
                )
                self._take(program, node, entrance, entrance, leaving, "leave ")
            else:
                self._take(program, node, index, index, self._ways(program, node))
        return Role(program.name, self.v.counters[program.name].name, (*locations, *inside), program.me.threads)

    def _take(
        self, program: Program, node: Node, at: int, entrance: int, ways: Iterable[Way], prefix: str = ""
    ) -> None:
        what, thing = words_of(node)
        for way in ways:
            target = entrance if way.kind == "enters" else node.successors.get(way.answer)
            if target is None or is_false(way.guard):
                continue
            op_text = f"{prefix}{what}" + (f": {way.label}" if way.label else "")
            accesses = self._access_checks(program, node) if not prefix else []
            checks = (*(check_of(part, thing) for part in way.illegal if not is_false(part.when)), *accesses)
            self.actions.append(
                Action(
                    unlike(f"{program.name}@{at} {op_text} {thing}".rstrip(), self.names),
                    program.name,
                    op_text,
                    thing,
                    at,
                    target,
                    way.guard,
                    way.updates,
                    checks,
                    node.source,
                    fails=isinstance(node.operation, op.Wait) and way.answer is False,
                    kind=way.kind,
                )
            )

    def _homes(self) -> dict[str, None]:
        return dict.fromkeys(program.home for program in self.programs)

    def _at_home(self, home: str | None) -> list[Program]:
        return [program for program in self.programs if home is None or program.home == home]

    def _threads(self, home: str | None = None) -> int:
        """Threads of a CTA, or of the whole cluster."""
        return sum(program.me.threads for program in self._at_home(home))

    def _standing(self, program: Program, node: Node) -> list[Illegal]:
        """What must not hold while a role waits here, whether or not it can go on; and what a finished role must not
        hold.
        """
        operation = node.operation
        illegal: list[Illegal] = []
        match operation:
            case op.Wait():
                illegal += self.signals.wait(program.name, operation, node.distance).illegal
            case op.Setmaxnreg():
                others = [other for other in self._at_home(program.home) if other.name != program.name]
                over = all_of(~in_locations(self.v.counters[other.name], before_dec(other)) for other in others)
                need = (operation.registers - self._registers(node)) * program.me.threads
                illegal += never_granted(program.name, self.v.free[program.home], need, over)
            case op.Choose():
                illegal.append(self.v.shared[f"choice {operation.name}"].too_far(program.name))
            case None:
                if not node.loop and self.kernel.rules.strict and node.held.stores():
                    because = f"{program.name} ends while its bulk stores still read shared memory"
                    illegal.append(Illegal("exit-hazard", TRUE, because))
            case op.Init() | op.Inval() | op.Arrive() | op.Transaction() | op.Load() | op.Touch() | op.Store():
                pass
            case op.Group() | op.Fence() | op.NamedSync() | op.CtaSync() | op.WarpSync():
                pass
            case op.ClusterArrive() | op.ClusterWait():
                pass
            case _:
                assert_never(operation)
        return [part for part in illegal if not is_false(part.when)]

    def _ways(self, program: Program, node: Node) -> list[Way]:
        role, operation = program.name, node.operation
        match operation:
            case None:
                return loop_ways(self.v.shared[f"loop {node.loop}"], role) if node.loop else []
            case op.Arrive() | op.Transaction() if operation.cta >= 0:
                far = (*self._reaches(program, operation.cta), *self._hidden_init(operation.barrier))
                return [replace(way, illegal=(*way.illegal, *far)) for way in self.signals.ways(role, node)]
            case op.Init() | op.Inval():
                lost = tuple(self._writes(operation))
                return [replace(way, updates=(*way.updates, *lost)) for way in self.signals.ways(role, node)]
            case op.Wait() | op.Arrive() | op.Transaction():
                return self.signals.ways(role, node)
            case op.ClusterArrive():
                meeting, exited = self.v.meetings["cluster"], self._exited(None, CLUSTER_WIDTH)
                return cluster_arrive_ways(meeting, role, program.me.threads, exited, self._threads())
            case op.ClusterWait():
                meeting, exited = self.v.meetings["cluster"], self._exited(None, CLUSTER_WIDTH)
                return cluster_wait_ways(meeting, role, exited, self._threads())
            case op.Load():
                return [self._load_way(program, node, operation)]
            case op.Touch() | op.Store() | op.Group() | op.Fence():
                return [Way(TRUE, tuple(self._writes(operation)))]
            case op.NamedSync():
                meeting = self.v.meetings[meeting_of(program, operation) or ""]
                apart = self._diverged(program, node, operation)
                ways = named_ways(
                    meeting, role, program.me.threads, operation.id, operation.threads, blocks=operation.blocks
                )
                return [replace(way, illegal=(*way.illegal, *apart)) for way in ways]
            case op.WarpSync():
                meeting = self.v.meetings[meeting_of(program, operation) or ""]
                total = sum(other.me.threads for other in self.programs if other.role == program.role)
                return named_ways(meeting, role, program.me.threads, None, total, blocks=True)
            case op.CtaSync():
                meeting = self.v.meetings[meeting_of(program, operation) or ""]
                exited, total = self.exited[program.home], self._threads(program.home)
                return cta_ways(meeting, role, program.me.threads, exited, total)
            case op.Choose():
                return choice_ways(self.v.shared[f"choice {operation.name}"], role, operation.options)
            case op.Setmaxnreg():
                return [register_way(self.v.free[program.home], self._registers(node), program.me.threads, operation)]
            case _:
                assert_never(operation)

    def _diverged(self, program: Program, node: Node, sync: op.NamedSync) -> list[Illegal]:
        """bar.sync is .aligned (PTX ISA 9.7.13.1): all threads of a warp execute the same one, not each its own."""
        found = []
        for other in self.programs:
            parts_of_a_warp = other.me.threads % 32 and program.me.threads % 32
            if other.role != program.role or other is program or not parts_of_a_warp:
                continue
            inside = [each for each in other.nodes if blocks_inside(each.operation)]
            elsewhere = [
                len(other.nodes) + number
                for number, each in enumerate(inside)
                if meeting_of(other, each.operation) == meeting_of(program, sync) and each.source != node.source
            ]
            if elsewhere:
                because = f"the threads of {program.role} execute an aligned barrier at two places"
                waits = in_locations(self.v.counters[other.name], elsewhere)
                arrived = self.v.meetings[meeting_of(program, sync) or ""].flags[other.name] == 1
                found.append(Illegal("named-barrier", waits & arrived, because))
        return found

    def _load_way(self, program: Program, node: Node, load: op.Load) -> Way:
        updates: list[tuple[str, Expr]] = []
        illegal: list[Illegal] = []
        for key in copies_of(load):
            busy, _, _ = self.v.copies[key]
            updates.append((busy.name, Lit(self.v.tags[key.write.object][load.tag], busy.width)))
            dead = ~self.v.barriers[key.barrier].alive
            illegal.append(Illegal("barrier-init", dead, f"a copy signals {key.barrier} before its init"))
            illegal += self._unfenced_init(program, node, key.barrier)
            illegal += self._runs_over(load, key.write)
            if key.write.cta != program.me.cta:
                illegal += self._not_begun(key.write.cta)
        return Way(TRUE, tuple(updates), tuple(illegal))

    def _runs_over(self, load: op.Load, write: Access) -> Iterable[Illegal]:
        home = next(region for region in self.kernel.layout.regions if region.object == write.object)
        beyond = replace(write, start=home.stop, stop=max(home.stop, write.stop))
        for region in self.kernel.layout.regions:
            if beyond.start < beyond.stop and region.object != home.object and beyond.overlaps(region.access()):
                because = f"the copy of {load.bytes} bytes runs over the end of {home.object} into {region.object}"
                yield Illegal("smem-overlap", TRUE, because)

    def _reaches(self, program: Program, cta: int) -> list[Illegal]:
        """What an operation on the shared memory of another CTA must not meet: that it has exited, or not begun."""
        home = self.kernel.cluster.home(cta)
        because = f"{program.name} reaches into CTA {cta}, which may have exited: its shared memory is gone"
        return [Illegal("exit-hazard", self.gone.get(home, TRUE), because), *self._not_begun(cta)]

    def _not_begun(self, cta: int) -> list[Illegal]:
        if self.kernel.rules.met:
            return []
        begun = any_of(self.v.counters[p.name] != 0 for p in self._at_home(self.kernel.cluster.home(cta)))
        because = f"CTA {cta} may not have started yet: no barrier.cluster shows that its shared memory exists"
        return [Illegal("exit-hazard", ~begun, because)]

    def _hidden_init(self, name: str) -> list[Illegal]:
        """An arrival from another CTA on a barrier whose initialisation only its own CTA can see."""
        because = f"{name} is initialised by {{}} and nothing makes that visible to other CTAs: no fence.mbarrier_init"
        found = []
        for other in self.others:
            when = other.at([name in spot.held.hidden_inits for spot in other.spots])
            if not is_false(when):
                found.append(Illegal("barrier-init", when, because.format(other.name)))
        return found

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
            when = other.at([name in spot.held.unfenced_inits for spot in other.spots])
            if not is_false(when):
                found.append(Illegal("barrier-init", when, because.format(other.name)))
        return found

    def _writes(self, operation: op.Operation) -> Iterable[tuple[str, Expr]]:
        for access, tag in contents(operation):
            yield from self._new_content(access, Lit(self.v.tags[access.object][tag], 32))

    def _new_content(self, access: Access, value: Expr) -> Iterable[tuple[str, Expr]]:
        """The buffer holds the value; every other buffer that shares bytes with it holds nothing any more."""
        for region in self.kernel.layout.regions:
            content = self.v.content.get(region.object)
            if content is None:
                continue
            if region.object == access.object:
                yield content.name, Lit(value.value, content.width) if isinstance(value, Lit) else value
            elif access.overlaps(region.access()):
                yield content.name, Lit(0, content.width)

    def _registers(self, node: Node) -> int:
        """Registers of each of the role's threads there."""
        return node.held.registers or self.kernel.registers

    def _access_checks(self, program: Program, node: Node) -> list[Check]:
        role, operation = program.name, node.operation
        checks: list[Check] = []
        kinds = {key.write: key for key in copies_of(operation)} if isinstance(operation, op.Load) else {}
        for access in accesses_of(operation):
            checks += race_checks(role, access, node.held, self.others, self.v.flights, kinds.get(access))
            if access.space != "global" and access.cta != program.me.cta and not kinds:
                checks += [check_of(part, access.object) for part in self._reaches(program, access.cta)]
            checks += fence_checks(role, access, node.held, self.others, strict=self.kernel.rules.strict)
        checks += live_checks(role, barriers_under(self.kernel.layout, operation), self.v.barriers)
        for access, tag in expectations(operation):
            if tag is not None:
                known = self.v.tags.get(access.object, {}).get(tag)
                checks += stale_check(role, access, self.v.content.get(access.object), known, tag)
        return checks

    def _landing(self, number: int, key: Copies) -> None:
        busy, piece, issues = self.v.copies[key]
        source = self._source(issues)
        step = mbarrier.complete_tx(self.v.barriers[key.barrier], key.bytes // key.pieces)
        thing = key.write.object
        checks = tuple(check_of(part, key.barrier) for part in step.illegal if not is_false(part.when))
        signal = self.signals.on("", key.barrier, step).updates
        landed = (*signal, *self._new_content(key.write, busy), (busy.name, Lit(0, busy.width)))
        last: Expr = TRUE

        def add(kind: ActionKind, end: str, text: str, guard: Expr, updates: Updates) -> None:
            name = unlike(f"{COPIES} {busy.name} {end}", self.names)
            self.actions.append(
                Action(name, "", text, thing, None, None, guard, updates, checks, source, kind=kind, lands=number)
            )

        if piece is not None:
            last = piece == key.pieces - 1
            text = f"{key.bytes // key.pieces} bytes of"
            add("piece", "piece", text, all_of((busy != 0, ~last)), (*signal, (piece.name, piece + 1)))
            landed = (*landed, (piece.name, Lit(0, piece.width)))
        add("lands", "lands", "land", all_of((busy != 0, last)), landed)

    def _source(self, issues: tuple[tuple[str, int, int], ...]) -> Source:
        role, node, _ = issues[0]
        return next(program.nodes[node].source for program in self.programs if program.name == role)

    def _bystander(self, program: Program) -> Bystander:
        spots = [Spot(node.held, tuple(ahead)) for node, ahead in zip(program.nodes, soon(program), strict=True)]
        spots += [Spot(node.held, ()) for node in program.nodes if blocks_inside(node.operation)]
        return Bystander(program.name, self.v.counters[program.name], tuple(spots))

    def _exited(self, home: str | None, width: int) -> Expr:
        """How many threads of a CTA have exited; of the whole cluster, without those that have arrived before."""
        total: Expr = Lit(0, width)
        arrived = self.v.meetings["cluster"].flags if home is None else {}
        for program in self._at_home(home):
            done = in_locations(self.v.counters[program.name], final_nodes(program))
            if program.name in arrived:
                done = done & (arrived[program.name] != ARRIVED)
            total = total + where(done, Lit(program.me.threads, width), Lit(0, width))
        return total
