"""Operations on mbarriers as ways to take a step: the barrier itself, and everybody's ghosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.flow import just_waited
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.variables import AGE_WIDTH, Variables
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of, is_false, where
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.needs import SEEN
from sm90_verify.spec.ptx.signals import step_of
from sm90_verify.spec.ptx.step import Step, Way, saturating_increment


class Signals:
    """The mbarriers of a model. just_waited: by role and location, the barriers whose wait it has only just passed."""

    def __init__(self, variables: Variables) -> None:
        self.v = variables
        self.just_waited = {p.name: just_waited(p, 0) for p in variables.programs}
        self._just_seen = {p.name: just_waited(p, 1) for p in variables.programs}
        self._ways: dict[tuple[str, op.Operation, int], list[Way]] = {}
        self._waits: dict[tuple[str, op.Wait, int], Step] = {}

    def ways(self, role: str, node: Node) -> list[Way]:
        """The ways to take an operation on an mbarrier; none if it is not one. They are the same wherever the role is,
        for operations that are equal and waits as far ahead.
        """
        if node.operation is None:
            return []
        key = (role, node.operation, node.distance)
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
        return way._replace(updates=(*way.updates, *anew))

    def wait_ways(self, role: str, node: Node, wait: op.Wait) -> list[Way]:
        """A wait has one way, on; what only asks has one for each answer, and try_wait may always answer False."""
        step = self.wait(role, wait, node.distance)
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

    def wait(self, role: str, wait: op.Wait, distance: int) -> Step:
        """A wait with a token, or for the phase `distance` after the last; for phase 0 or -1 if the barrier was
        initialised again since. Its form for another CTA is refused only where it passes.
        """
        key = (role, wait, distance)
        known = self._waits.get(key)
        if known is None:
            known = self._waits[key] = self._new_wait(role, wait, distance)
        return known

    def _new_wait(self, role: str, wait: op.Wait, distance: int) -> Step:
        b, local = self.v.barriers[wait.barrier], replace(wait, remote=False)
        if isinstance(wait.phase, op.Token):
            return step_of(b, local, age=self.v.ages[role, wait.barrier])
        unseen = self.v.unseen[role, wait.barrier]
        step = step_of(b, local, unseen=unseen, distance=distance)
        fresh = self.v.fresh.get((role, wait.barrier))
        if fresh is None:
            return step
        anew = step_of(b, local, unseen=unseen, distance=1 - int(wait.phase))
        pairs = zip(anew.illegal, step.illegal, strict=True)
        return step._replace(illegal=tuple(old._replace(when=where(fresh, new.when, old.when)) for new, old in pairs))

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
            (self.v.unseen[role, name] == 0) & ~in_locations(self.v.counters[role], self._only_just_seen(role, name))
            if role != arriving
            else self.v.unseen[role, name] == 0
            for role in plan.distance
        )
        return Mbarrier(b.alive, b.phase, b.expected, b.pending, b.tx, seen)

    def _only_just_seen(self, role: str, name: str) -> list[int]:
        return [index for index, names in enumerate(self._just_seen[role]) if name in names]

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
                return self.v.unseen[program.name, wait.barrier] == node.distance
        return FALSE

    def overtaken(self, program: Program, index: int) -> Iterable[Check]:
        """Barriers that have completed a phase since the role passed its wait there, before it did anything that others
        can notice: they did not need it to pass, so they could have lapped the wait."""
        for name in self.just_waited[program.name][index]:
            because = SEEN.said(barrier=name, role=program.name)
            yield Check(SEEN.property, self.v.unseen[program.name, name] != 0, because, name)
