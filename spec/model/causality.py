"""What happens before what in memory, where some operation orders less than all that came before it: relaxed and scoped
operations, and copies whose signal orders nothing but their own bytes (PTX ISA 8.8, 8.9.5).

Elsewhere whoever can only go on because of another role is ordered after it, so that a race shows in single states
(spec.model.accesses). Here ghosts follow the order: for each access X that could race, one bit says of each role
whether the last X is before whatever the role does next, and one of each barrier and word whether who acquires it will
be. X clears them all but its own; releases hand what their role knows to the barrier, waits take it over. A relaxed
operation hands over what its role knew at its last fence, and takes over at the next one, or at the next read of that
word that acquires. That is the happens-before of the schedule, so an access that finds the bit of a conflicting one
clear is a race, and if any schedule has a race, one of its schedules shows it there. Nothing is left out of the search
of such a kernel: steps that only differ in order leave different bits.

Scopes: what is handed over counts only between threads that are in each other's scope; each scope and CTA of those who
acquire has bits of its own. An operation on an mbarrier that names no scope is taken to reach whoever uses the barrier,
as CUTLASS has it (its remote arrivals are .release.cta).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sm90_verify.spec.model.flow import meeting_of, waits_for_a_grid
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.model.later import EVERYWHERE, Later, acquirers, level_of, reads_of
from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.proxies import Shown, shown_writes
from sm90_verify.spec.model.together import Together
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.model.weaker import Tracked, tracked_accesses
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies
from sm90_verify.spec.ptx.effects import Effects, acquires, effects_of, releases
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, where
from sm90_verify.spec.ptx.memory import WIDER, Access, describe
from sm90_verify.spec.ptx.needs import FENCED, ORDERED
from sm90_verify.spec.ptx.step import Updates, Way


class Acquirers(NamedTuple):
    """Those who acquire from an object: the CTA in which they are, and how far their scope reaches."""

    cta: int
    level: int


Bits: TypeAlias = Sequence[Expr]
"""One for each of the tracked accesses."""


class Causality:
    """The ghosts of one kernel, and what its operations do to them."""

    def __init__(self, v: Variables) -> None:
        self.v, self.programs, self.together = v, v.programs, Together(v.programs)
        self.tracked = tuple(tracked_accesses(v.kernel))
        self.shown = shown_writes(v.kernel)
        mine = (Tracked(one.role, one.access) for one in self.shown)
        self.tracked = tuple(dict.fromkeys((*self.tracked, *mine)))
        self.all = (*self.tracked, *(Tracked(one.role, one.access) for one in self.shown))
        self.later = {program.name: acquirers(program) for program in self.programs}
        self.fences = {role: [one.level for one in found if not one.word] for role, found in self.later.items()}
        fencing = [(role, level) for role, levels in self.fences.items() for level in levels]
        self.known = {p.name: self._bits(f"{{}} is before what {p.name} does next", p.name) for p in self.programs}
        self.fenced = {
            (role, level): self._bits(f"{{}} is before the last fence.{WIDER[level]} of {role}", role)
            for role, level in fencing
        }
        self.read = {
            (role, one): self._bits(f"{{}} is before what {one} of {role} acquires", role, start=0)
            for role, found in self.later.items()
            for one in found
        }
        self.rows = self._rows()
        self.open = {key: self._bits(f"{{}} is handed to {key[0]}", of=key[0], start=0) for key in self._completing()}
        self.public = {key: self._bits(f"{{}} is before {key[0]}", of=key[0], start=0) for key in self._keys()}
        self.released = {
            (role, key): self._bits(f"{{}} is before what {role} has released to {key[0]}", role, key[0], start=0)
            for role, name in self._released_first()
            for key in self._keys()
            if key[0] == name
        }

    # ---------------------------------------------------------------- ghosts

    def _bits(self, about: str, role: str = "", of: str = "", start: int = 1) -> list[Field]:
        found = []
        for index, one in enumerate(self.all):
            fenced = "a fence after " if index >= len(self.tracked) else ""
            text = about.format(f"{fenced}the last {describe(one.access).removeprefix('the ')} by {one.owner}")
            name = f"order.{role or of}.{index}"
            found.append(self.v.new(name, 1, start, text, kind="order", of=of, role=role, index=index, ghost=True))
        return found

    def _rows(self) -> dict[str, list[Acquirers]]:
        """By barrier, word and barrier of threads, who acquires from it."""
        rows: dict[str, dict[Acquirers, None]] = {}
        for program, _, node in self.v.nodes():
            name, level = self._acquired(program, node)
            if name:
                levels = (level, *(min(level, one.level) for one in self._later(program, name)))
                rows.setdefault(name, {}).update((Acquirers(program.me.number, one), None) for one in levels)
        return {name: list(found) for name, found in rows.items()}

    def _keys(self) -> list[tuple[str, Acquirers]]:
        return [(name, row) for name, rows in self.rows.items() for row in rows]

    def _released_first(self) -> list[tuple[str, str]]:
        """Roles with the words that they write both with a release and without."""
        wrote: dict[tuple[str, str], set[bool]] = {}
        for program, _, node in self.v.nodes():
            word = effects_of(node.operation).word
            if isinstance(word, op.WordStore | op.Atom):
                wrote.setdefault((program.name, word.access.object), set()).add(releases(word.order))
        return [key for key, kinds in wrote.items() if len(kinds) == 2]

    def _completing(self) -> list[tuple[str, Acquirers]]:
        """Those that hand over what they were given when they complete, and not at once as words do."""
        return [key for key in self._keys() if key[0] not in self.v.words]

    def _acquired(self, program: Program, node: Node) -> tuple[str, int]:
        """What an operation takes over from, whether at once or at the next fence, and how far its scope reaches."""
        effects = effects_of(node.operation)
        if effects.waits is not None:
            return effects.waits.barrier, level_of(effects.waits.scope)
        if (word := reads_of(node.operation)) is not None:
            return word.access.object, level_of(word.order.scope)
        if effects.meets is not None:
            return meeting_of(program, node.operation) or "", EVERYWHERE
        return "", 0

    # ---------------------------------------------------------------- steps

    def after(self, program: Program, node: Node, way: Way, *, leaving: bool = False) -> Updates:
        """What an operation does to the ghosts when it is taken in this way. leaving: a barrier of threads."""
        changes: dict[str, Expr] = {}
        if leaving:
            self._take_over(program, node, changes, at_once=True)
            return tuple(changes.items())
        effects = effects_of(node.operation)
        for access in effects.accesses:
            lasting = access in effects.lasting("mma_group", "bulk_group", "cp_group", "landed")
            self._begin(program, access, changes, over=not lasting)
        now = () if node.operation is None else node.held.after(node.operation).in_progress()
        for access in node.held.in_progress():
            if access not in now:
                self._end(program, access, changes)
        if way.answer is not False and effects.meets is None:
            self._take_over(program, node, changes, at_once=_acquires(effects.waits, effects.word))
        if isinstance(node.operation, op.ThreadFence):
            self._fence(program.name, level_of(node.operation.scope), changes)
        self._show(program.name, effects, changes)
        if waits_for_a_grid(program, node.operation, self.v.kernel.launch):
            changes.update((self.known[program.name][index].name, TRUE) for index in self._of_the_first_grid())
        self._hand_over(program, node, way, changes)
        if way.kind == "completes" or isinstance(node.operation, op.ClusterWait):
            self._take_over(program, node, changes, at_once=True)
        return tuple(changes.items())

    def lands(self, key: Copies, completes: Expr, *, whole: bool) -> Updates:
        """What bytes that land do: the last ones hand over that the copy is over, and nothing else."""
        changes: dict[str, Expr] = {}
        over = [TRUE if whole and one.copies == key else FALSE for one in self.all]
        self._give(key.barrier, lambda row: over, completes, changes)
        return tuple(changes.items())

    def _begin(self, program: Program, access: Access, changes: dict[str, Expr], *, over: bool) -> None:
        """The last access of its kind is now this one, and nobody is after it but its own role, if it is over."""
        for index, one in enumerate(self.all):
            mine = one.owner == program.name or one.copies is not None
            if mine and _alike(one.access, access) and (one.copies is None) == (access not in self._copied(program)):
                for bits in self._all():
                    changes[bits[index].name] = FALSE
                if over and index < len(self.tracked):
                    changes[self.known[program.name][index].name] = TRUE

    def _of_the_first_grid(self) -> Iterator[int]:
        """The accesses of its roles, and of the copies that they issue: all over when it is complete."""
        launch = self.v.kernel.launch
        first = {program.name for program in self.programs if launch.grid_of(program.me.number) == 0}
        for index, one in enumerate(self.all):
            issuers = [one.owner] if one.copies is None else [role for role, _, _ in self.v.copies[one.copies][2]]
            if first.intersection(issuers):
                yield index

    def _copied(self, program: Program) -> set[Access]:
        return {access for key in self.v.copies for access in key.accesses}

    def _end(self, program: Program, access: Access, changes: dict[str, Expr]) -> None:
        for index, one in enumerate(self.tracked):
            if one.owner == program.name and one.copies is None and _alike(one.access, access):
                changes[self.known[program.name][index].name] = TRUE

    def _all(self) -> Iterator[list[Field]]:
        for ghosts in (self.known, self.fenced, self.read, self.open, self.public, self.released):
            yield from ghosts.values()

    def _take_over(self, program: Program, node: Node, changes: dict[str, Expr], *, at_once: bool) -> None:
        name, level = self._acquired(program, node)
        into = [(level, self.known[program.name])]
        if not at_once:
            later = self._later(program, name)
            into = [(min(level, one.level), self.read[program.name, one]) for one in later]
        elif (again := Later(name, level)) in self.later[program.name]:
            self._acquire(program.name, again, changes)
        for reach, ours in into:
            bits = self.public.get((name, Acquirers(program.me.number, reach)), ())
            for mine, theirs in zip(ours, bits, strict=bool(bits)):
                changes[mine.name] = _now(mine, changes) | _now(theirs, changes)

    def _later(self, program: Program, name: str) -> list[Later]:
        """What acquires later in a role what it reads there without acquiring it."""
        return [one for one in self.later[program.name] if one.word in ("", name)]

    def _acquire(self, role: str, later: Later, changes: dict[str, Expr]) -> None:
        """Of what the role has read, what that acquires."""
        for known, read in zip(self.known[role], self.read[role, later], strict=True):
            changes[known.name] = _now(known, changes) | _now(read, changes)

    def _fence(self, role: str, level: int, changes: dict[str, Expr]) -> None:
        """A fence acquires what its scope reaches, and is one of every narrower scope too."""
        self._acquire(role, Later("", level), changes)
        for narrower in (one for one in self.fences[role] if one <= level):
            for known, fenced in zip(self.known[role], self.fenced[role, narrower], strict=True):
                changes[fenced.name] = _now(known, changes)

    def _show(self, role: str, effects: Effects, changes: dict[str, Expr]) -> None:
        """A proxy fence is after the writes that are before it; a release of tensormaps, after those of its thread."""
        known = self.known[role]
        for index, one in enumerate(self.shown, len(self.tracked)):
            if one.by in effects.shows and (one.by == "accesses" or one.role == role):
                write = known[self.tracked.index(Tracked(one.role, one.access))]
                changes[known[index].name] = _now(known[index], changes) | _now(write, changes)

    def _hand_over(self, program: Program, node: Node, way: Way, changes: dict[str, Expr]) -> None:
        effects, role = effects_of(node.operation), program.name
        meeting = meeting_of(program, node.operation)
        known = [_now(bit, changes) for bit in self.known[role]]
        strong = effects.orders == "release"
        level = EVERYWHERE
        if isinstance(effects.signal, op.Arrive):
            level = level_of(effects.signal.scope)
        elif effects.word is not None:
            level = level_of(effects.word.order.scope)

        def given(row: Acquirers) -> Bits:
            distance = self.v.kernel.launch.distance(row.cta, program.me.number)
            if distance > min(level, row.level):
                return [FALSE] * len(known)
            if strong:
                return known
            if isinstance(effects.meets, op.WarpSync):
                return [FALSE] * len(known)
            wide = [fence for fence in self.fences[role] if fence >= distance]
            return [_now(bit, changes) for bit in self.fenced[role, wide[0]]] if wide else [FALSE] * len(known)

        if isinstance(effects.signal, op.Arrive | op.Transaction):
            for signal in effects.signals:
                self._give(signal.barrier, given, dict(way.completed).get(signal.barrier, way.completes), changes)
        elif isinstance(effects.word, op.WordStore | op.Atom):
            self._write(program, effects.word, given, changes)
        elif meeting is not None and not isinstance(effects.meets, op.ClusterWait):
            strong = effects.orders != "relaxed"
            completes = TRUE if way.kind == "completes" else way.completes
            self._give(meeting, given, completes, changes)

    def _write(
        self,
        program: Program,
        word: op.WordStore | op.Atom,
        given: Callable[[Acquirers], Bits],
        changes: dict[str, Expr],
    ) -> None:
        """What is before the value that a word has now. A strong write goes on with what its role has released to the
        word before (8.8, release patterns). An atomic one goes on with what others have released, as far as it would
        acquire that itself: each write and the next read of such a chain are morally strong (8.9.2). A compare-and-swap
        that fails is taken for a read alone.
        """
        name, weak = word.access.object, word.order.sem == "weak"
        swaps = self.v.words[name] == word.compare if isinstance(word, op.Atom) and word.kind == "cas" else TRUE
        mine = Acquirers(program.me.number, level_of(word.order.scope))
        before = {row: [_now(bit, changes) for bit in self.public[name, row]] for row in self.rows.get(name, ())}
        for row, bits in before.items():
            more = list(given(row))
            earlier = self.released.get((program.name, (name, row)), ())
            reached = self.v.kernel.launch.distance(row.cta, mine.cta) <= min(row.level, mine.level)
            if earlier and releases(word.order):
                for bit, each in zip(earlier, more, strict=True):
                    changes[bit.name] = where(swaps, each, _now(bit, changes))
            elif earlier and reached and not weak:
                more = [each | _now(bit, changes) for each, bit in zip(more, earlier, strict=True)]
            if isinstance(word, op.Atom) and reached:
                more = [each | (old & own) for each, old, own in zip(more, bits, before[mine], strict=True)]
            for bit, each in zip(self.public[name, row], more, strict=True):
                changes[bit.name] = FALSE if weak else where(swaps, each, _now(bit, changes))

    def _give(self, name: str, given: Callable[[Acquirers], Bits], completes: Expr, changes: dict[str, Expr]) -> None:
        """Adds to what a barrier will hand over when it completes; when it does, it hands over all of it."""
        for row in self.rows.get(name, ()):
            bits = zip(self.open[name, row], self.public[name, row], given(row), strict=True)
            for gathered, public, more in bits:
                all_of_it = _now(gathered, changes) | more
                changes[public.name] = where(completes, _now(public, changes) | all_of_it, _now(public, changes))
                changes[gathered.name] = where(completes, FALSE, all_of_it)

    # ---------------------------------------------------------------- needs

    def shows(self, role: str, shown: Shown) -> Expr:
        """What shows a write is before the role's next operation."""
        return self.known[role][len(self.tracked) + self.shown.index(shown)] == 1

    def fence_checks(self, program: Program, access: Access) -> list[Check]:
        """The access begins where no proxy fence is between a generic write and it."""
        checks = []
        for one in self.shown:
            together = self.together.ordered(program.name, access, one.role, one.access)
            if one.by == "accesses" and access.wants_fence and one.access.overlaps(access) and not together:
                mine = describe(access)
                because = FENCED.said(other=one.role, earlier=one.access.object, access=mine, role=program.name)
                checks.append(Check(FENCED.property, ~self.shows(program.name, one), because, access.object))
        return checks

    def race_checks(self, program: Program, access: Access, finds: bool) -> list[Check]:
        """The access begins where a conflicting one is not before it. finds: it must find a value that others write."""
        checks = []
        for index, one in enumerate(self.tracked):
            if one.owner == program.name or not (one.access.races if finds else one.access.conflicts)(access):
                continue
            if self.together.ordered(program.name, access, one.owner, one.access):
                continue
            unordered = self.known[program.name][index] == 0
            mine, other = describe(access), "a bulk copy" if one.copies is not None else one.owner
            because = ORDERED.said(access=mine, role=program.name, earlier=describe(one.access), other=other)
            checks.append(Check(ORDERED.property, unordered, because, access.object))
        return checks


def _now(bit: Field, changes: Mapping[str, Expr]) -> Expr:
    return changes.get(bit.name, bit)


def _alike(one: Access, other: Access) -> bool:
    return one == other


def _acquires(waits: op.Wait | None, word: op.OnWord | None) -> bool:
    if waits is not None:
        return waits.sem == "acquire"
    return word is not None and acquires(word.order)
