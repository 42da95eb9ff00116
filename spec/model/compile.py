"""From the programs of a kernel to a Machine: one location after another becomes guarded actions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import assert_never

from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.causality import Causality
from sm90_verify.spec.model.copies import finds, landings, starts, triggered, triggers, writes
from sm90_verify.spec.model.cut import Cut
from sm90_verify.spec.model.decisions import choice_ways, loop_ways
from sm90_verify.spec.model.flow import (
    arrivals_ahead,
    barrier_of,
    before_dec,
    blocks_inside,
    closed_meetings,
    final_nodes,
    kind_of,
    lets_others_go_on,
    meeting_of,
    next_waits,
    only_looks,
    parity_of,
    releasing_steps,
    threads_of_warp,
    waits_ahead,
    waits_for_a_grid,
)
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.machine import Action, Location, LocationKind, Machine, Role
from sm90_verify.spec.model.mbarriers import Signals
from sm90_verify.spec.model.proxies import edits, fences, is_seen
from sm90_verify.spec.model.state_checks import check_of, state_checks
from sm90_verify.spec.model.structure import structure_of
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.touching import bystanders
from sm90_verify.spec.model.unmet import Unmet
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.model.word_ways import leaves_its_values, word_ways
from sm90_verify.spec.model.words import things_at, unlike, words_of
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, all_of, is_false, where
from sm90_verify.spec.ptx.needs import READ_AT_EXIT
from sm90_verify.spec.ptx.registers import never_granted, register_way
from sm90_verify.spec.ptx.step import Illegal, Way
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
from sm90_verify.spec.ptx.turns import Turn, start_ways, wait_ways


def compile_kernel(
    kernel: Kernel,
    tick: Tick = unheard,
    *,
    kept: int | None = None,
    cut: Cut | None = None,
    ordered: bool | None = None,
) -> Machine:
    """The Machine of a kernel. tick: called at each of its locations. kept: the most shared decisions that it remembers
    for who has not read them (default: as many as the kernel's rings ask for). cut: what is compiled, if not all.
    ordered: whether spec.model.causality follows the accesses (default: where an operation orders less than all).
    """
    return _Compiler(kernel, tick, kept, cut, ordered).machine()


class _Compiler:
    def __init__(self, kernel: Kernel, tick: Tick, kept: int | None, cut: Cut | None, ordered: bool | None) -> None:
        self.kernel, self.programs, self.tick, self.cut = kernel, kernel.programs, tick, cut
        self.actions: list[Action] = []
        self.names: set[str] = set()
        self.v = Variables(kernel, kept, ordered=ordered if cut is None else False)
        self.homes = {program.name: program.home for program in kernel.programs}
        self.signals = Signals(self.v)
        self.causality = Causality(self.v) if self.v.ordered else None
        self.parts: dict[str, list[Program]] = {}
        for program in kernel.programs:
            self.parts.setdefault(program.role, []).append(program)
        self.closed, self.releasing = closed_meetings(kernel.programs), releasing_steps(kernel.programs)
        self.before_dec = {
            program.name: in_locations(self.v.counters[program.name], before_dec(program))
            for program in kernel.programs
        }
        self.ended = {p.name: in_locations(self.v.counters[p.name], final_nodes(p)) for p in kernel.programs}
        self.counts: dict[tuple[str, int], Expr] = {}
        self.exited = {home: self._exited(home, THREADS_WIDTH) for home in self.homes.values()}
        self.gone = {home: all_of(self.ended[p.name] for p in self._at_home(home)) for home in self.homes.values()}
        self.unmet = Unmet(self.v, bystanders(self.v), self.gone, self.causality)

    def machine(self) -> Machine:
        """Compiles every location of every role, then the agents without a program and the checks on whole states."""
        roles = tuple(self._role(program) for program in self.programs)
        self.actions += landings(self.v, self.signals, self.names, self.causality)
        self.actions += triggered(self.v, self.signals, self.names)
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
            structure_of(self.v, whole=self.cut is None),
            self.cut,
        )

    def _role(self, program: Program) -> Role:
        reachable = arrivals_ahead(program)
        awaited, ahead = (None, None) if self.cut else (waits_ahead(program), next_waits(program))
        begins = self.kernel.cluster.size > 1 and not self.kernel.rules.met
        locations, inside = list[Location](), list[Location]()
        for index, node in enumerate(program.nodes):
            self.tick("compiling", program.name, index, node.source)
            what, thing = words_of(node)
            if self.cut is not None and self.cut.ends_before(program.name, index) and node.successors:
                locations.append(Location(what, thing, node.source, arrives_on=tuple(reachable[index])))
                continue
            checks = [check_of(part, thing) for part in self._standing(program, node)]
            checks += self.signals.overtaken(program, index)
            locations.append(
                Location(
                    what,
                    thing,
                    node.source,
                    tuple(checks),
                    final=not node.successors,
                    kind=self._kind(program, node),
                    things=things_at(program, node),
                    barrier=barrier_of(node.operation),
                    parity=parity_of(node.operation),
                    signals=lets_others_go_on(node.operation),
                    arrives_on=tuple(reachable[index]),
                    waits_ahead=awaited[index] if awaited else (),
                    next_waits=tuple(ahead[index].items()) if ahead else (),
                    settled=self.signals.settled(program, node),
                    just_waited=self.signals.just_waited[program.name][index],
                    noticed=(begins and not index) or (program.name, index) in self.releasing,
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
                        things=things_at(program, node),
                        arrives_on=tuple(reachable[index]),
                        next_waits=tuple(ahead[index].items()) if ahead else (),
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

    def _edits(self, program: Program, node: Node) -> Iterable[tuple[str, Expr]]:
        known = None if self.causality is None else self.causality.shows
        return edits(self.v.edited, self.homes, known, self.v.triggers, program, node)

    def _kind(self, program: Program, node: Node) -> LocationKind:
        if is_seen(self.v.bare, program, node) or any(self._edits(program, node)):
            return "other"
        return "meet" if meeting_of(program, node.operation) in self.closed else kind_of(node)

    def _take(
        self, program: Program, node: Node, at: int, entrance: int, ways: Iterable[Way], prefix: str = ""
    ) -> None:
        what, thing = words_of(node)
        compared = self.cut is None or (program.name, at) in self.cut.watched
        accesses = [] if prefix else list(self.unmet.by_accesses(program, node, compared=compared))
        for way in self.signals.moving(program.name, node, ways):
            target = at if way.kind == "stays" else node.successors.get(way.answer)
            target = entrance if way.kind == "enters" else target
            if target is None or is_false(way.guard):
                continue
            op_text = f"{prefix}{what}" + (f": {way.label}" if way.label else "")
            checks = (*(check_of(part, thing) for part in way.illegal if not is_false(part.when)), *accesses)
            order = () if self.causality is None else self.causality.after(program, node, way, leaving=bool(prefix))
            self.actions.append(
                Action(
                    unlike(f"{program.name}@{at} {op_text} {thing}".rstrip(), self.names),
                    program.name,
                    op_text,
                    thing,
                    at,
                    target,
                    way.guard,
                    (*way.updates, *order),
                    checks,
                    node.source,
                    fails=only_looks(node.operation, way.answer),
                    kind=way.kind,
                    answer=way.answer,
                )
            )

    def _at_home(self, home: str) -> list[Program]:
        """The programs of a CTA, or of a whole cluster, by what its names begin with."""
        return [program for program in self.programs if home in (program.home, program.peers)]

    def _threads(self, home: str) -> int:
        """Threads of a CTA, or of a whole cluster."""
        return sum(program.me.threads for program in self._at_home(home))

    def _standing(self, program: Program, node: Node) -> list[Illegal]:
        """What must not hold while a role waits here, whether or not it can go on; and what a finished role must not
        hold.
        """
        effects = effects_of(node.operation)
        wait, change, choice = effects.waits, effects.registers, effects.chooses
        illegal: list[Illegal] = []
        if wait is not None:
            illegal += self.signals.wait(program.name, node, wait).illegal
        if change is not None:
            others = [other for other in self._at_home(program.home) if other.name != program.name]
            over = all_of(~self.before_dec[other.name] for other in others)
            need = (change.registers - self.kernel.registers_at(node)) * program.me.threads
            illegal += never_granted(program.name, self.v.free[program.home], need, over)
        if choice is not None:
            illegal.append(self.v.shared[f"choice {choice.name}"].held_up(program.name, len(choice.options)))
        if effects.word is not None:
            illegal += leaves_its_values(self.v, effects.word)
        illegal += self.unmet.unknown(program, node)
        ends = node.operation is None and not node.loop
        if ends and self.kernel.rules.strict and node.held.stores():
            illegal.append(READ_AT_EXIT.unmet(role=program.name))
        return [part for part in illegal if not is_false(part.when)]

    def _ways(self, program: Program, node: Node) -> list[Way]:
        role, effects = program.name, effects_of(node.operation)
        if node.operation is None:
            return loop_ways(self.v.shared[f"loop {node.loop}"], role) if node.loop else []
        if effects.signal is not None or effects.waits is not None:
            ways = self.signals.ways(role, node)
        elif effects.meets is not None:
            ways = self._meeting_ways(program, node, effects.meets)
        elif effects.chooses is not None:
            ways = choice_ways(self.v.shared[f"choice {effects.chooses.name}"], role, effects.chooses.options)
        elif effects.word is not None:
            ways = word_ways(self.v, effects.word)
        elif effects.finds is not None:
            ways = finds(self.v, role, effects.finds)
        elif effects.registers is not None:
            free, before = self.v.free[program.home], self.kernel.registers_at(node)
            ways = [register_way(free, before, program.me.threads, effects.registers)]
        elif effects.turns is not None:
            ways = self._turn_ways(program, node)
        elif effects.joins is not None:
            ways = [self.v.warpgroups.way(role, effects.joins)]
        elif isinstance(node.operation, op.TriggeredArrive):
            ways = [self.signals.trigger(role, node.operation)]
        else:
            ways = [Way(TRUE, ())]
        illegal = (*self.unmet.by_threads(program, effects), *self.unmet.by_copies(program, node))
        shown = (*fences(self.v.bare, self.v.triggers, program, node), *self._edits(program, node))
        updates = (*starts(self.v, effects), *triggers(self.v, effects), *writes(self.v, effects), *shown)
        return [
            way._replace(updates=(*way.updates, *updates), illegal=(*way.illegal, *illegal))
            if updates or illegal
            else way
            for way in ways
        ]

    def _meeting_ways(self, program: Program, node: Node, meets: op.Meeting) -> list[Way]:
        role, threads = program.name, program.me.threads
        meeting = self.v.meetings[meeting_of(program, meets) or ""]
        match meets:
            case op.ClusterArrive():
                exited, total = self._exited(program.peers, CLUSTER_WIDTH, meeting.flags), self._threads(program.peers)
                return cluster_arrive_ways(meeting, role, threads, exited, total)
            case op.ClusterWait():
                exited, total = self._exited(program.peers, CLUSTER_WIDTH, meeting.flags), self._threads(program.peers)
                return cluster_wait_ways(meeting, role, exited, total)
            case op.NamedSync():
                apart = list(self.unmet.by_threads_apart(program, node, meets))
                brings = meets.brings(threads)
                ways = named_ways(meeting, role, brings, meets.id, meets.threads, blocks=meets.blocks)
                return [way._replace(illegal=(*way.illegal, *apart)) for way in ways]
            case op.WarpSync():
                peers = self.parts.get(program.role, ())
                total = threads_of_warp(peers, program, meets)
                return named_ways(meeting, role, threads, None, total, blocks=True)
            case op.CtaSync():
                return cta_ways(meeting, role, threads, self.exited[program.home], self._threads(program.home))
            case _:
                assert_never(meets)

    def _turn_ways(self, program: Program, node: Node) -> list[Way]:
        launch, block = self.kernel.launch, self.kernel.launch.block(program.me.number)
        if isinstance(node.operation, op.CtaStart):
            assert self.v.put_off is not None
            earlier = launch.earlier(block, resident=self.kernel.rules.resident)
            follows = TRUE if self.kernel.rules.resident else self.v.started.get(block - 1, TRUE) == 1
            turn = Turn(self.v.started[block], self.v.put_off, self._all_ended(earlier), follows)
            return start_ways(turn)
        if self.v.complete is None or not waits_for_a_grid(program, node.operation, launch):
            return [Way(TRUE, ())]
        return wait_ways(self.v.complete, self._all_ended(range(launch.clusters)))

    def _all_ended(self, blocks: Container[int]) -> Expr:
        """All roles of these clusters, counted through the launch."""
        block_of = self.kernel.launch.block
        return all_of(self.ended[p.name] for p in self.programs if block_of(p.me.number) in blocks)

    def _exited(self, home: str, width: int, arrived: Mapping[str, Field] | None = None) -> Expr:
        """How many threads of a CTA, or a cluster without those that have arrived before, have exited."""
        if (home, width) in self.counts:
            return self.counts[home, width]
        total: Expr = Lit(0, width)
        arrived = arrived or {}
        for program in self._at_home(home):
            done = self.ended[program.name]
            if program.name in arrived:
                done = done & (arrived[program.name] != ARRIVED)
            total = total + where(done, Lit(program.me.threads, width), Lit(0, width))
        return self.counts.setdefault((home, width), total)
