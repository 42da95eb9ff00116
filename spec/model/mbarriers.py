"""Operations on mbarriers as ways to take a step: the barrier itself, and everybody's ghosts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.flow import just_waited
from sm90_verify.spec.model.kernel import SKIPPED, Moves, Node, Program
from sm90_verify.spec.model.lags import AGE_WIDTH, LOST, SINCE_WIDTH, TOO_OLD
from sm90_verify.spec.model.machine import LIMIT, Check
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of, is_false, where
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.needs import SEEN
from sm90_verify.spec.ptx.signals import step_of
from sm90_verify.spec.ptx.step import Illegal, Step, Way, saturating_increment


class Signals:
    """The mbarriers of a model. just_waited: by role and location, the barriers whose wait it has only just passed."""

    def __init__(self, variables: Variables) -> None:
        self.v = variables
        self.just_waited = {p.name: just_waited(p, 0) for p in variables.programs}
        self._just_seen = {p.name: just_waited(p, 1) for p in variables.programs}
        self._elsewhere: dict[tuple[str, str], Expr] = {}
        self._ways: dict[tuple[str, op.Operation, int, bool], list[Way]] = {}
        self._waits: dict[tuple[str, op.Wait, int, bool], Step] = {}

    def ways(self, role: str, node: Node) -> list[Way]:
        """The ways to take an operation on an mbarrier; none if it is not one. They are the same wherever the role is,
        for operations that are equal and waits as far ahead.
        """
        if node.operation is None:
            return []
        key = (role, node.operation, node.distance, node.skips)
        known = self._ways.get(key)
        if known is None:
            known = self._ways[key] = self._new_ways(role, node)
        return known

    def _new_ways(self, role: str, node: Node) -> list[Way]:
        effects = effects_of(node.operation)
        operation = effects.signal
        match operation:
            case op.Init():
                return [self._init(role, operation)]
            case op.Inval() | op.Transaction():
                step = step_of(self.v.barriers[operation.barrier], operation)
                return [self.on(role, operation.barrier, step)]
            case op.Arrive():
                return [self._together([(part.barrier, self._arrives(role, part)) for part in operation.parts])]
            case None:
                return [] if effects.waits is None else self.wait_ways(role, node, effects.waits)
            case _:
                assert_never(operation)

    def triggered(self, arrivals: TriggeredArrivals) -> Way:
        """The arrivals that follow cp.asyncs (9.7.13.15.15)."""
        b, arrive = self._observable(arrivals.barrier, ""), op.Arrive(arrivals.barrier, arrivals.threads)
        step = step_of(b, arrive, observe=arrivals.barrier not in self.v.kernel.rules.unobserved)
        return self.on("", arrivals.barrier, step)

    def trigger(self, role: str, arrive: op.TriggeredArrive) -> Way:
        """cp.async.mbarrier.arrive itself: what it does to the barrier at once."""
        b = self.v.barriers[arrive.barrier]
        step = Step() if arrive.noinc else mbarrier.cp_async_arrive(b, arrive.count)
        return self.on(role, arrive.barrier, step)

    def _arrives(self, role: str, arrive: op.Arrive) -> Way:
        b = self._observable(arrive.barrier, role)
        step = step_of(b, arrive, observe=arrive.barrier not in self.v.kernel.rules.unobserved)
        return self.on(role, arrive.barrier, step, arrives=True)

    @staticmethod
    def _together(ways: list[tuple[str, Way]]) -> Way:
        """Steps on barriers that are not the same, at once; what is illegal says on which."""
        if len(ways) == 1:
            return ways[0][1]
        return Way(
            all_of(way.guard for _, way in ways),
            tuple(update for _, way in ways for update in way.updates),
            tuple(part._replace(because=f"{name}: {part.because}") for name, way in ways for part in way.illegal),
            completed=tuple((name, way.completes) for name, way in ways),
        )

    def _init(self, role: str, init: op.Init) -> Way:
        way = self.on(role, init.barrier, step_of(self.v.barriers[init.barrier], init))
        anew = [(bit.name, TRUE) for (_, name), bit in self.v.fresh.items() if name == init.barrier]
        anew += [
            (self.v.unseen[key].name, Lit(0, self.v.unseen[key].width))
            for key in self.v.fresh
            if key[1] == init.barrier
        ]
        anew += [(one.name, Lit(LOST[0], one.width)) for (_, name), one in self.v.since.items() if name == init.barrier]
        anew += [(one.name, Lit(TOO_OLD, one.width)) for (_, name), one in self.v.ages.items() if name == init.barrier]
        return way._replace(updates=(*way.updates, *anew))

    def wait_ways(self, role: str, node: Node, wait: op.Wait) -> list[Way]:
        """A wait has one way, on; what only asks has one for each answer, and try_wait may always answer False."""
        step = self.wait(role, node, wait)
        passes = self.on(role, wait.barrier, step)
        wrong = mbarrier.remote(wait.kind, Step()).illegal if wait.remote else ()
        match wait.kind:
            case "wait":
                return [Way(step.when, passes.updates, wrong)]
            case "try_wait":
                gives_up: Expr = TRUE
            case "test_wait":
                gives_up = ~step.when
            case _:
                assert_never(wait.kind)
        return [
            Way(step.when, passes.updates, wrong, answer=True, label="True"),
            Way(gives_up, (), wrong, answer=False, label="False"),
        ]

    def wait(self, role: str, node: Node, wait: op.Wait) -> Step:
        """A wait with a token, or for the phase that its node says; for phase 0 or -1 if the barrier was initialised
        again since. Its form for another CTA is refused only where it passes.
        """
        key = (role, wait, node.distance, node.skips)
        known = self._waits.get(key)
        if known is None:
            known = self._waits[key] = self._new_wait(*key)
        return known

    def _new_wait(self, role: str, wait: op.Wait, distance: int, skips: bool) -> Step:
        b, local = self.v.barriers[wait.barrier], replace(wait, remote=False)
        if isinstance(wait.phase, op.Token):
            return step_of(b, local, age=self.v.ages[role, wait.barrier])
        unseen = self.v.unseen[role, wait.barrier]
        if skips:
            return self._skipping(role, wait.barrier, step_of(b, local, unseen=unseen), distance)
        step = step_of(b, local, unseen=unseen, distance=distance)
        fresh = self.v.fresh.get((role, wait.barrier))
        if fresh is None:
            return step
        anew = step_of(b, local, unseen=unseen, distance=1 - int(wait.phase))
        pairs = zip(anew.illegal, step.illegal, strict=True)
        return step._replace(illegal=tuple(old._replace(when=where(fresh, new.when, old.when)) for new, old in pairs))

    def _skipping(self, role: str, name: str, step: Step, distance: int) -> Step:
        """The same wait where it is the role's `since` that says which phase has completed last."""
        since = self.v.since[role, name]
        lost = any_of(since == one for one in LOST)
        wrong = tuple(one._replace(when=one.when & ~lost) for one in mbarrier.wrong_wait(since, distance))
        others = [one for one in step.illegal if one.property != "phase-lapped"]
        return step._replace(illegal=(*others, *wrong, _out_of_reach(role, name, lost)))

    def moving(self, role: str, node: Node, ways: Iterable[Way]) -> Iterable[Way]:
        """The same ways; those out of the node, with how many phases the role moves on there."""
        return (self._moves(role, node.moves, way) for way in ways) if node.moves else ways

    def _moves(self, role: str, moves: Mapping[Hashable, Moves], way: Way) -> Way:
        updates = dict(way.updates)
        for name, phases in moves.get(way.answer, ()) if way.kind not in ("enters", "stays") else ():
            if (since := self.v.since.get((role, name))) is not None:
                updates[since.name] = _moved(updates.get(since.name, since), phases)
        return way._replace(updates=tuple(updates.items()))

    def _observable(self, name: str, arriving: str) -> Mbarrier:
        """The barrier with its ghost `observed`: some waiter has nothing unseen, and has done something since that
        shows it.

        A role other than the one that arrives that has only just passed its wait could as well be standing there still.
        Without any waiter nobody can be lapped.
        """
        b, plan = self.v.barriers[name], self.v.plans[name]
        if plan.tokens or not plan.distance:
            return b
        seen = any_of(
            self._has_shown(role, name) if role != arriving else self.v.unseen[role, name] == 0
            for role in plan.distance
        )
        return Mbarrier(b.alive, b.phase, b.expected, b.pending, b.tx, seen)

    def _has_shown(self, role: str, name: str) -> Expr:
        """The role has nothing of the barrier unseen, and has done something since that others can notice."""
        if (role, name) not in self._elsewhere:
            only_just = [index for index, names in enumerate(self._just_seen[role]) if name in names]
            self._elsewhere[role, name] = ~in_locations(self.v.counters[role], only_just)
        return (self.v.unseen[role, name] == 0) & self._elsewhere[role, name]

    def on(self, role: str, name: str, step: Step, *, arrives: bool = False) -> Way:
        """A step on a barrier as updates of the variables that the barrier has, and of everybody's ghosts."""
        b = self.v.barriers[name]
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
            updates.append((self.v.unseen[role, name].name, step.then["unseen"]))
            if (role, name) in self.v.fresh:
                updates.append((self.v.fresh[role, name].name, FALSE))
        for (_, barrier), unseen in self.v.unseen.items():
            if barrier == name and not is_false(step.completes):
                updates.append((unseen.name, saturating_increment(unseen, step.completes)))
        for (_, barrier), since in self.v.since.items():
            if barrier == name and not is_false(step.completes):
                updates.append(
                    (since.name, where(since == LOST[0], since, saturating_increment(since, step.completes)))
                )
        for (waiter, barrier), age in self.v.ages.items():
            if barrier == name and arrives and waiter == role:
                updates.append((age.name, where(step.completes, Lit(1, AGE_WIDTH), Lit(0, AGE_WIDTH))))
            elif barrier == name and not is_false(step.completes):
                updates.append((age.name, saturating_increment(age, step.completes)))
        return Way(step.when, tuple(updates), step.illegal, completes=step.completes)

    def settled(self, program: Program, node: Node) -> Expr:
        """The decision has been made, or the phase that the wait is for has just completed, so that it passes."""
        if node.loop:
            return self.v.shared[f"loop {node.loop}"].settled(program.name)
        if isinstance(node.operation, op.Choose):
            choice = node.operation
            return self.v.shared[f"choice {choice.name}"].settled(program.name, len(choice.options))
        if isinstance(node.operation, op.Wait) and node.operation.kind == "wait":
            wait = node.operation
            passed = self.just_waited[program.name][node.successors[None]]
            if not isinstance(wait.phase, op.Token) and wait.barrier in passed and not self.v.plans[wait.barrier].inits:
                counter = self.v.since if node.skips else self.v.unseen
                return counter[program.name, wait.barrier] == node.distance
        return FALSE

    def overtaken(self, program: Program, index: int) -> Iterable[Check]:
        """Barriers that have completed a phase since the role passed its wait there, before it did anything that others
        can notice: they did not need it to pass, so they could have lapped the wait."""
        for name in self.just_waited[program.name][index]:
            because = SEEN.said(barrier=name, role=program.name)
            yield Check(SEEN.property, self.v.unseen[program.name, name] != 0, because, name)


def _moved(since: Expr, phases: int) -> Expr:
    """`since` once its role has moved on, or back; what is lost stays lost."""
    least, most = LOST
    then = since - phases if phases > 0 else since + -phases
    beyond = since < least + phases if phases > 0 else since > most + phases
    end = Lit(least if phases > 0 else most, SINCE_WIDTH)
    return where(any_of(since == one for one in LOST), since, where(beyond, end, then))


def _out_of_reach(role: str, name: str, when: Expr) -> Illegal:
    """A bound of the model, and no fault of the kernel."""
    what = f"{role} waits on {name}, and has been {SKIPPED - 2} phases or more from what had completed there"
    return Illegal(LIMIT, when, f"{what}: wait in each iteration too, or trips=8 decides it for so many iterations")
