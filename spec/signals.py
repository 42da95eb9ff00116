"""Operations on mbarriers as ways to take a step: the barrier itself, and everybody's ghosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from spec import hopper
from spec import operations as op
from spec.accesses import in_locations
from spec.control import just_waited
from spec.expr import FALSE, TRUE, Expr, Field, Lit, any_of, where
from spec.graph import Node, Program
from spec.hopper import Illegal, Mbarrier, Step, saturating_increment
from spec.machine import Check
from spec.synchronise import Way
from spec.variables import AGE_WIDTH, Variables


class Signals:
    """The mbarriers of a model. just_waited: by role and location, the barriers whose wait it has only just passed."""

    def __init__(self, variables: Variables) -> None:
        self.v = variables
        self.just_waited = {p.name: just_waited(p, 0) for p in variables.programs}
        self._just_seen = {p.name: just_waited(p, 1) for p in variables.programs}

    def ways(self, role: str, node: Node) -> list[Way]:
        """The ways to take an operation on a mbarrier; none if it is not one."""
        operation = node.operation
        match operation:
            case op.Wait():
                return self.wait_ways(role, node, operation)
            case op.Init():
                return [self._init(role, operation)]
            case op.Inval() | op.Transaction():
                step = step_of(self.v.barriers[operation.barrier], operation)
                return [self.on(role, operation.barrier, step)]
            case op.Arrive():
                b = self._observable(operation.barrier, role)
                step = step_of(b, operation, observe=self.v.pipeline.observation)
                return [self.on(role, operation.barrier, step, arrives=True)]
            case None | op.Load() | op.Touch() | op.Store() | op.Group() | op.Fence() | op.NamedSync() | op.CtaSync():
                return []
            case op.ClusterArrive() | op.ClusterWait() | op.WarpSync() | op.Choose() | op.Setmaxnreg():
                return []
            case _:
                assert_never(operation)

    def _init(self, role: str, init: op.Init) -> Way:
        way = self.on(role, init.barrier, step_of(self.v.barriers[init.barrier], init))
        anew = [(bit.name, TRUE) for (_, name), bit in self.v.fresh.items() if name == init.barrier]
        anew += [
            (self.v.unseen[key].name, Lit(0, self.v.unseen[key].width))
            for key in self.v.fresh
            if key[1] == init.barrier
        ]
        return replace(way, updates=(*way.updates, *anew))

    def wait_ways(self, role: str, node: Node, wait: op.Wait) -> list[Way]:
        b = self.v.barriers[wait.barrier]
        if isinstance(wait.phase, op.Token):
            step = hopper.wait_token(b, self.v.ages[role, wait.barrier])
        else:
            step = self.wait_parity(role, wait, node.distance)
        passes = self.on(role, wait.barrier, step)
        wrong = hopper.remote(wait.kind, Step()).illegal if wait.remote else ()
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

    def wait_parity(self, role: str, wait: op.Wait, distance: int) -> Step:
        """A wait for the phase `distance` after the last; for phase 0 or -1 if the barrier was initialised again
        since.
        """
        assert not isinstance(wait.phase, op.Token)
        b, unseen, parity = self.v.barriers[wait.barrier], self.v.unseen[role, wait.barrier], int(wait.phase)
        step = hopper.wait_parity(b, parity, unseen, distance)
        fresh = self.v.fresh.get((role, wait.barrier))
        if fresh is None:
            return step
        anew = hopper.wait_parity(b, parity, unseen, 1 - parity)
        pairs = zip(anew.illegal, step.illegal, strict=True)
        return replace(step, illegal=tuple(replace(old, when=where(fresh, new.when, old.when)) for new, old in pairs))

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
        return Way(step.when, tuple(updates), step.illegal)

    def settled(self, program: Program, node: Node) -> Expr:
        if node.loop:
            return self.v.shared[f"loop {node.loop}"].settled(program.name)
        if isinstance(node.operation, op.Wait) and node.operation.kind == "wait":
            wait = node.operation
            passed = self.just_waited[program.name][node.successors[None]]
            if not isinstance(wait.phase, op.Token) and wait.barrier in passed and not self.v.plans[wait.barrier].inits:
                unseen = self.v.unseen[program.name, wait.barrier]
                b = self.v.barriers[wait.barrier]
                return (b.phase != Lit(int(wait.phase), 1)) & (unseen == node.distance)
        return FALSE

    def overtaken(self, program: Program, index: int) -> Iterable[Check]:
        """Barriers that have completed a phase since the role passed its wait there, before it did anything that others
        can notice: they did not need it to pass, so they could have lapped the wait."""
        for name in self.just_waited[program.name][index]:
            because = (
                f"{name}: it completes another phase although {program.name} may not have seen the last one: lapped"
            )
            yield Check("phase-lapped", self.v.unseen[program.name, name] != 0, because, name)


def step_of(b: Mbarrier, operation: op.Signal, *, observe: bool = True) -> Step:
    """What an init, inval, transaction or arrival does to a barrier, in its .shared::cluster form where it is remote.

    observe: demand of arrivals what the ISA does (9.7.13.15.4), with the way to ask for less.
    """
    match operation:
        case op.Init():
            name, step = "init", hopper.init(b, operation.count)
        case op.Inval():
            name, step = "inval", hopper.inval(b)
        case op.Transaction(bytes=bytes) if bytes >= 0:
            name, step = "expect_tx", hopper.expect_tx(b, bytes)
        case op.Transaction(bytes=bytes):
            name, step = "complete_tx", hopper.complete_tx(b, -bytes)
        case op.Arrive():
            name, step = _arrival(b, operation, observe)
        case _:
            assert_never(operation)
    step = replace(step, illegal=tuple(_optional(part) for part in step.illegal))
    far = operation.remote if isinstance(operation, op.Init | op.Inval) else operation.cta >= 0
    return hopper.remote(name, step) if far else step


def _arrival(b: Mbarrier, arrive: op.Arrive, observe: bool) -> tuple[str, Step]:
    """An arrival's instruction and its step."""
    count, expect = arrive.count, arrive.expect
    match arrive.kind:
        case "no_complete":
            return "arrive_no_complete", hopper.arrive_no_complete(b, count, observe=observe)
        case "drop":
            return "arrive_drop", hopper.arrive_drop(b, count, expect or 0, observe=observe)
        case "arrive" if expect is None:
            return "arrive", hopper.arrive(b, count, observe=observe)
        case "arrive":
            return "arrive_expect_tx", hopper.arrive_expect_tx(b, expect or 0, count, observe=observe)
        case _:
            assert_never(arrive.kind)


def _optional(part: Illegal) -> Illegal:
    """The rule on unobserved phases names the option of a pipeline that leaves it out."""
    if part.property != "unobserved-phase":
        return part
    less = "observation=False looks only at waits that can really be lapped"
    return replace(part, because=f"{part.because}; {less}")


def is_false(condition: Expr) -> bool:
    return isinstance(condition, Lit) and condition.value == 0
