"""Where the needs of an operation (spec.ptx.needs) are not met, as conditions on the states of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.accesses import (
    Bystander,
    Flight,
    fence_checks,
    in_locations,
    live_checks,
    map_checks,
    own_checks,
    race_checks,
    stale_check,
)
from sm90_verify.spec.model.barrier_bytes import barriers_under
from sm90_verify.spec.model.barrier_plans import MOST_TRIGGERED
from sm90_verify.spec.model.causality import Causality
from sm90_verify.spec.model.flow import blocks_inside, meeting_of, share_a_warp
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.proxies import Bare, Edited, late, told_by_place
from sm90_verify.spec.model.state_checks import check_of
from sm90_verify.spec.model.together import Together
from sm90_verify.spec.model.touching import Touching
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.model.warpgroups import MOST_COMMITTED
from sm90_verify.spec.model.weaker import reads_its_own
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies
from sm90_verify.spec.ptx.effects import Effects, effects_of
from sm90_verify.spec.ptx.expr import TRUE, Expr, any_of, is_false
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.limits import WARP
from sm90_verify.spec.ptx.memory import Access, describe
from sm90_verify.spec.ptx.needs import (
    ALIGNED,
    ALIKE,
    BEGUN,
    FENCE_FOLLOWED,
    GROUPS_COUNTED,
    INITIALISED,
    INSIDE,
    SHOWN_TO_COPIES,
    SHOWN_TO_CTAS,
    THERE,
    TOGETHER,
    TRIGGER_FOLLOWED,
    TRIGGERED,
)
from sm90_verify.spec.ptx.step import Illegal


class _Around(NamedTuple):
    """What else there is: other roles, copies in flight, and bits of writes."""

    others: list[Bystander]
    flights: list[Flight]
    bare: Bare
    edited: Edited


class _Met(NamedTuple):
    """What an access must not meet of all that others do."""

    races: tuple[Check, ...]
    unfenced: tuple[Check, ...]
    maps: tuple[Check, ...]


class Unmet:
    """The needs of the operations of one kernel. bystanders: each role as others see it; gone: by the home of a CTA,
    all its roles have ended.
    """

    def __init__(
        self,
        v: Variables,
        bystanders: Mapping[str, Bystander],
        gone: Mapping[str, Expr],
        causality: Causality | None = None,
    ) -> None:
        self.v, self.kernel, self.bystanders, self.gone, self.causality = v, v.kernel, bystanders, gone, causality
        late_ones = (one for _, _, node in v.nodes() for one in late(node.operation))
        fences = any("accesses" in effects_of(node.operation).shows for _, _, node in v.nodes())
        self._shared = {program.name: self._around(program) for program in self.v.programs}
        self._not_shown: dict[tuple[str, str, bool], Expr] = {}
        self._waiting: dict[str, dict[str | None, list[tuple[int, Source]]]] = {}
        self._touching, self._together = Touching(list(bystanders.values())), Together(v.programs)
        self._met: dict[tuple[str, Access, Copies | None], _Met] = {}
        self.unfollowed = () if causality is None or not fences else tuple(dict.fromkeys(late_ones))

    def by_threads(self, program: Program, effects: Effects) -> Iterator[Illegal]:
        """What an operation on barriers of other CTAs must not meet, nor one that all execute or nobody."""
        if (parted := effects.parted) is not None:
            yield TOGETHER.unmet(role=program.name, instruction=parted.instruction, others=parted.others)
        for signal in effects.signals:
            if isinstance(signal, op.Arrive | op.Transaction) and signal.cta >= 0:
                yield from self._reaches(program, signal.cta)
                for name, when in self._elsewhere(program, signal.barrier, hidden=True):
                    yield SHOWN_TO_CTAS.unmet(when, barrier=signal.barrier, other=name)

    def by_copies(self, program: Program, node: Node) -> Iterator[Illegal]:
        """What the copies that start there must not meet."""
        for key, _ in effects_of(node.operation).lands:
            yield INITIALISED.unmet(~self.v.barriers[key.barrier].alive, barrier=key.barrier)
            yield from self._shown(program, node, key)
            for access in key.accesses:
                yield from self._runs_over(key.bytes, access)
                if access.space == "shared" and access.cta != program.me.number:
                    yield from self._not_begun(access.cta)

    def _shown(self, program: Program, node: Node, key: Copies) -> Iterator[Illegal]:
        """The init of the barrier that a copy signals is visible: to the async proxy for a bulk copy, and to the thread
        of another CTA for st.async, which signals through the generic proxy.
        """
        if key.write.proxy == "async":
            if key.barrier in node.held.unfenced_inits:
                yield SHOWN_TO_COPIES.unmet(role=program.name, barrier=key.barrier, other=program.name)
            for name, when in self._elsewhere(program, key.barrier, hidden=False):
                yield SHOWN_TO_COPIES.unmet(when, role=program.name, barrier=key.barrier, other=name)
        elif key.write.cta != program.me.number:
            for name, when in self._elsewhere(program, key.barrier, hidden=True):
                yield SHOWN_TO_CTAS.unmet(when, barrier=key.barrier, other=name)

    def by_threads_apart(self, program: Program, node: Node, sync: op.NamedSync) -> Iterator[Illegal]:
        """bar.sync is .aligned (PTX ISA 9.7.13.1): all threads of a warp execute the same one, not each its own."""
        for other in self.v.programs:
            parts_of_a_warp = other.me.threads % WARP and program.me.threads % WARP
            if other is program or not parts_of_a_warp or not share_a_warp(other, program):
                continue
            inside = self._inside(other).get(meeting_of(program, sync), ())
            elsewhere = [place for place, source in inside if source != node.source]
            if elsewhere:
                waits = in_locations(self.v.counters[other.name], elsewhere)
                arrived = self.v.meetings[meeting_of(program, sync) or ""].flags[other.name] == 1
                yield ALIGNED.unmet(waits & arrived, role=program.role)

    def _inside(self, program: Program) -> dict[str | None, list[tuple[int, Source]]]:
        """By barrier of threads, the locations inside it of a role, and where they come from."""
        found = self._waiting.get(program.name)
        if found is None:
            found = self._waiting[program.name] = {}
            nodes = (node for node in program.nodes if blocks_inside(node.operation))
            for place, node in enumerate(nodes, len(program.nodes)):
                found.setdefault(meeting_of(program, node.operation), []).append((place, node.source))
        return found

    def by_accesses(self, program: Program, node: Node, *, compared: bool = True) -> Iterator[Check]:
        """What the accesses that begin there must not meet. compared: also where something is defined behind it."""
        role, effects = program.name, effects_of(node.operation)
        kinds = {access: key for key, _ in effects.lands for access in key.accesses}
        for access in effects.accesses:
            if not compared:
                yield from self._undefined_behind(program, access, kinds.get(access))
                continue
            if self.causality is not None:
                finds = not access.write and access.value is not None and not reads_its_own(program, node)
                yield from self.causality.race_checks(program, access, finds)
            yield from own_checks(role, access, node.held)
            met = self._met_by(program, access, kinds.get(access))
            yield from met.races
            if self._unfollowed(access) is None:
                held = told_by_place(self.v.covered, role, node.held)
                yield from fence_checks(role, access, held, (), {}, strict=self.kernel.rules.strict)
                yield from met.unfenced
            yield from met.maps
        yield from live_checks(role, barriers_under(self.kernel.layout, node.operation), self.v.barriers)
        for access, tag in effects.expected:
            if tag is not None:
                yield from stale_check(role, access, self.v.found(access, tag), tag)

    def _met_by(self, program: Program, access: Access, kind: Copies | None) -> _Met:
        """The same wherever the role makes the access."""
        key = program.name, access, kind
        if key not in self._met:
            self._met[key] = self._new_met(program, access, kind)
        return self._met[key]

    def _undefined_behind(self, program: Program, access: Access, kind: Copies | None) -> list[Check]:
        """Of what an access must not meet, that behind which nothing is defined: a copy of its own kind."""
        around = self._shared[program.name] if kind is not None else ()
        flights = (one for some in around for one in some.flights if one.kind == kind)
        return race_checks(program.name, access, (), flights, kind)

    def _new_met(self, program: Program, access: Access, kind: Copies | None) -> _Met:
        role, strict = program.name, self.kernel.rules.strict
        (others, flights, bare, edited), (ended, over, bare_before, edited_before) = self._shared[role]
        others, ended = (
            self._together.seen_by(role, access, self._touching.among(some, access)) for some in (others, ended)
        )
        races = race_checks(role, access, others if self.causality is None else [], flights, kind)
        races += self._unless_complete(race_checks(role, access, (), over, kind))
        if self.causality is None:
            races += self._unless_complete(race_checks(role, access, ended, ()))
        if access.space != "global" and access.cta != program.me.number and kind is None:
            races += [check_of(part, access.object) for part in self._reaches(program, access.cta)]
        bare = {
            (who, one): bit for (who, one), bit in bare.items() if not self._together.ordered(role, access, who, one)
        }
        unfenced = fence_checks(role, access, IDLE, others, bare, strict=strict)
        unfenced += self._unless_complete(fence_checks(role, access, IDLE, ended, bare_before, strict=strict))
        if self.causality is not None:
            unfenced += self.causality.fence_checks(program, access)
        maps = [*map_checks(role, access, edited), *self._unless_complete(map_checks(role, access, edited_before))]
        return _Met(tuple(races), tuple(unfenced), tuple(maps))

    def unknown(self, program: Program, node: Node) -> Iterator[Illegal]:
        """Where the role stands there: what the model does not follow if it goes on."""
        effects = effects_of(node.operation)
        for access in effects.accesses:
            if (written := self._unfollowed(access)) is not None:
                yield FENCE_FOLLOWED.unmet(role=program.name, access=describe(access), object=written)
        for key, _ in effects.lands:
            if key.write.strong is not None:
                yield ALIKE.unmet(self.v.copies[key][0] != 0, object=key.write.object)
        if (arrivals := effects.triggers) is not None:
            if self.causality is not None:
                yield TRIGGER_FOLLOWED.unmet()
            many = self.v.triggers[arrivals][0] == MOST_TRIGGERED
            yield TRIGGERED.unmet(many, most=MOST_TRIGGERED, barrier=arrivals.barrier)
        if effects.joins is not None:
            many = self.v.warpgroups.uncounted(program.name, effects.joins)
            yield GROUPS_COUNTED.unmet(many, role=program.name, most=MOST_COMMITTED)

    def _unfollowed(self, access: Access) -> str | None:
        """A buffer that st.async writes, which the access wants a fence after, where operations order less than all
        that came before; without any fence there is none in between either.
        """
        if not access.wants_fence:
            return None
        return next((one.object for one in self.unfollowed if one.overlaps(access)), None)

    def _others(self, program: Program) -> list[Bystander]:
        return [other for name, other in self.bystanders.items() if name != program.name]

    def _around(self, program: Program) -> tuple[_Around, _Around]:
        """What a role meets of its own grid or a later one, and of the grid before."""
        grids = {other.name: self.kernel.launch.grid_of(other.me.number) for other in self.v.programs}
        mine = grids[program.name]

        def around(before: bool) -> _Around:
            return _Around(
                [other for other in self._others(program) if (grids[other.name] < mine) == before],
                [one for one in self.v.flights if (one.grid is not None and one.grid < mine) == before],
                {key: bit for key, bit in self.v.bare.items() if (grids[key[0]] < mine) == before},
                {key: field for key, field in self.v.edited.items() if (grids[key[0]] < mine) == before},
            )

        return around(before=False), around(before=True)

    def _unless_complete(self, checks: Iterable[Check]) -> Iterator[Check]:
        """What the grid before has done is over, and shown to everybody, once a thread has waited for it: if that is
        not before an access, then there is a state in which the access can begin and nobody has waited yet.
        """
        complete = self.v.complete
        for check in checks:
            yield check if complete is None else check._replace(when=check.when & (complete == 0))

    def _elsewhere(self, program: Program, barrier: str, *, hidden: bool) -> Iterator[tuple[str, Expr]]:
        """Other roles that have initialised a barrier, and where they have not shown it to CTAs (hidden) or copies."""
        for other in self._others(program):
            key = other.name, barrier, hidden
            if key not in self._not_shown:
                inits = [spot.held.hidden_inits if hidden else spot.held.unfenced_inits for spot in other.spots]
                places = [index for index, one in enumerate(inits) if barrier in one]
                self._not_shown[key] = in_locations(other.counter, places)
            if not is_false(self._not_shown[key]):
                yield other.name, self._not_shown[key]

    def _runs_over(self, bytes: int, access: Access) -> Iterator[Illegal]:
        home = next(region for region in self.kernel.layout.regions if region.object == access.object)
        beyond = access._replace(start=home.stop, stop=max(home.stop, access.stop))
        for region in self.kernel.layout.regions:
            if beyond.start < beyond.stop and region.object != home.object and beyond.overlaps(region.access()):
                yield INSIDE.unmet(bytes=bytes, object=home.object, other=region.object)

    def _reaches(self, program: Program, cta: int) -> Iterator[Illegal]:
        """What an operation on the shared memory of another CTA must not meet: that it has exited, or not begun."""
        yield THERE.unmet(
            self.gone.get(self.kernel.launch.home(cta), TRUE), role=program.name, cta=self.kernel.launch.called(cta)
        )
        yield from self._not_begun(cta)

    def _not_begun(self, cta: int) -> Iterator[Illegal]:
        if not self.kernel.rules.met:
            home = self.kernel.launch.home(cta)
            begun = any_of(self.v.counters[p.name] != 0 for p in self.v.programs if p.home == home)
            yield BEGUN.unmet(~begun, cta=self.kernel.launch.called(cta))
