"""Which phase a wait is meant for: a bit of parity does not say it, but the program that waits does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import assert_never

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.state import LAPS, PipelineState
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.phase import Lineage, Phase

FAR = 4 * LAPS
"""Distances between waits are followed exactly up to here."""


class Ghost:
    """What the role has waited for and arrived on so far, in exact numbers."""

    def __init__(self) -> None:
        self.arrived: dict[str, int] = {}
        self.observed: dict[str, int] = {}
        self.ahead: dict[str, int] = {}
        self.choices: dict[str, int] = {}
        self.rebase: dict[tuple[Lineage, str], int] = {}

    def target(self, wait: op.Wait) -> int:
        """The number of the phase that a wait is meant for, -1 being the one before the first.

        A state says it: its lap. A state that was made afresh starts over at the next phase of its parity that the role
        has not gone beyond; so does a plain parity, at every wait: nobody waits for the past.
        """
        last = self.observed.get(wait.barrier, -1)
        phase = wait.phase
        if isinstance(phase, Phase):
            base = self.rebase.get((phase.lineage, wait.barrier))
            if base is None:
                base = max(0, last - phase.lap + 1) // 2 * 2
                self.rebase[phase.lineage, wait.barrier] = base
            return phase.lap + base
        return last + (last - int(phase)) % 2 if isinstance(phase, int) else last

    def distance(self, wait: op.Wait) -> int:
        if isinstance(wait.phase, op.Token):
            return 0
        distance = self.target(wait) - self.observed.get(wait.barrier, -1)
        if distance < 0:
            raise SpecError(f"a wait on {wait.barrier} for a phase that this role has already gone beyond")
        if distance >= FAR:
            raise SpecError(f"a wait on {wait.barrier} skips {distance} phases: too many to follow across a loop")
        return distance

    def is_first(self, wait: op.Wait) -> bool:
        """No state of this lineage has waited there, so that its laps have counted for nothing yet."""
        return isinstance(wait.phase, Phase) and (wait.phase.lineage, wait.barrier) not in self.rebase

    def after(self, operation: op.Operation, answer: Hashable) -> None:
        match operation:
            case op.Wait():
                if answer is not False and not isinstance(operation.phase, op.Token):
                    self.observed[operation.barrier] = self.target(operation)
            case op.Arrive():
                self.arrived[operation.barrier] = self.arrived.get(operation.barrier, 0) + operation.count
                expected = (operation.expect or 0) * operation.count
                self.ahead[operation.barrier] = self.ahead.get(operation.barrier, 0) + expected
            case op.Transaction():
                self.ahead[operation.barrier] = self.ahead.get(operation.barrier, 0) + operation.bytes
            case op.Load():
                for _, barrier in operation.destinations:
                    self.ahead[barrier] = self.ahead.get(barrier, 0) - operation.bytes
            case op.Choose():
                self.choices[operation.name] = self.choices.get(operation.name, 0) + 1
            case op.Init() | op.Inval() | op.Touch() | op.Store() | op.Group() | op.Fence() | op.NamedSync():
                pass
            case op.CtaSync() | op.WarpSync() | op.ClusterArrive() | op.ClusterWait() | op.Setmaxnreg():
                pass
            case _:
                assert_never(operation)

    def key(self, states: Iterable[PipelineState]) -> Hashable:
        """The distances of all waits to come: exact for states that live on, by parity for what is made afresh."""
        exact = tuple(
            (barrier, min(FAR, max(-FAR, state.lap + self.rebase.get((state.lineage, barrier), 0) - last)))
            for state in states
            for barrier, last in self.observed.items()
            if (state.lineage, barrier) in self.rebase or state.lap > last
        )
        return exact, tuple((barrier, last & 1) for barrier, last in self.observed.items())
