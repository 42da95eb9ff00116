"""An mbarrier in a role's hands: each method gives an operation to yield."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.values import Owner, arrivals, bytes_of, number, one_of
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.phase import Phase

_WAIT_SEMS, _ARRIVE_SEMS, _SCOPES = get_args(op.WaitSem), get_args(op.ArriveSem), get_args(op.AnyScope)


class Barrier:
    """One mbarrier, as a role sees it: each method gives an operation to yield."""

    __slots__ = ("_everywhere", "_owner", "_write", "cta", "name")

    def __init__(
        self,
        owner: Owner,
        name: str,
        cta: int = 0,
        everywhere: Callable[[int], Barrier] | None = None,
        write: Access | None = None,
    ) -> None:
        """write: its bytes, where a buffer lies in them too."""
        self._owner, self.name, self.cta, self._everywhere, self._write = owner, name, cta, everywhere, write

    def on(self, cta: int) -> Barrier:
        """The barrier at the same place in the shared memory of another CTA (mapa): only arrivals and bytes reach
        it.
        """
        return self if self._everywhere is None else self._everywhere(cta)

    @property
    def _target(self) -> int:
        """The CTA for the .shared::cluster form of an operation, -1 for the .shared::cta form."""
        return -1 if self.cta == self._owner._cta else self.cta

    def wait(
        self, phase: int | Phase | op.Token, *, sem: op.WaitSem = "acquire", scope: op.AnyScope = ""
    ) -> op.Operation:
        """Loop around mbarrier.try_wait{.sem.scope} with a parity, or with the token of an arrive: blocks until it has
        completed.
        """
        return self._wait(phase, "wait", sem, scope)

    def try_wait(
        self, phase: int | Phase | op.Token, *, sem: op.WaitSem = "acquire", scope: op.AnyScope = ""
    ) -> op.Operation:
        """One mbarrier.try_wait: the yield gives True, or False (not completed, or the system's time limit)."""
        return self._wait(phase, "try_wait", sem, scope)

    def test_wait(
        self, phase: int | Phase | op.Token, *, sem: op.WaitSem = "acquire", scope: op.AnyScope = ""
    ) -> op.Operation:
        """One mbarrier.test_wait: the yield gives True or False and never blocks."""
        return self._wait(phase, "test_wait", sem, scope)

    def _wait(
        self, phase: int | Phase | op.Token, kind: op.WaitKind, sem: op.WaitSem, scope: op.AnyScope
    ) -> op.Operation:
        sem, scope = one_of(sem, _WAIT_SEMS, "sem"), one_of(scope, _SCOPES, "a scope")
        return self._new(op.Wait(self.name, self._phase(phase), kind, self._target >= 0, sem, scope))

    def arrive(
        self,
        count: int = 1,
        *,
        ctas: Sequence[int] | None = None,
        sem: op.ArriveSem = "release",
        scope: op.AnyScope = "",
    ) -> op.Operation:
        """mbarrier.arrive{.sem.scope} by `count` threads (or with that count operand); the yield gives its token, to be
        waited with until the role arrives on the barrier again.

        ctas: one instruction whose lanes arrive at the barrier in each of these CTAs (`lane < n ? arrive(lane)`), which
        gives no token. sem: "relaxed" orders no access of the role before it. scope: "cta", "cluster", "gpu" or "sys";
        one that is not named is taken to reach whoever waits.
        """
        sem, scope = one_of(sem, _ARRIVE_SEMS, "sem"), one_of(scope, _SCOPES, "a scope")
        first, *more = [self] if ctas is None else [self.on(cta) for cta in _several(ctas)]
        also = tuple((one.name, one._target) for one in more)
        return self._new(op.Arrive(first.name, arrivals(count), cta=first._target, sem=sem, scope=scope, also=also))

    def arrive_expect_tx(
        self, bytes: int, count: int = 1, *, sem: op.ArriveSem = "release", scope: op.AnyScope = ""
    ) -> op.Operation:
        """mbarrier.arrive.expect_tx{.sem.scope} by `count` threads, each expecting `bytes`."""
        number(bytes_of(bytes) * arrivals(count), "bytes expected by all threads together")
        sem, scope = one_of(sem, _ARRIVE_SEMS, "sem"), one_of(scope, _SCOPES, "a scope")
        return self._new(op.Arrive(self.name, count, expect=bytes, cta=self._target, sem=sem, scope=scope))

    def arrive_no_complete(self, count: int = 1) -> op.Operation:
        """mbarrier.arrive.noComplete."""
        return self._new(op.Arrive(self.name, arrivals(count), kind="no_complete", cta=self._target))

    def cp_async_arrive(self, count: int = 1, *, noinc: bool = False) -> op.Operation:
        """cp.async.mbarrier.arrive{.noinc} by `count` threads: an arrival of each follows when its cp.asyncs before are
        done. With noinc the barrier's count has it; otherwise one more is pending until then.
        """
        if self._target >= 0:
            raise SpecError(f"cp.async.mbarrier.arrive on {self.name}: use a barrier of its own CTA")
        return self._new(op.TriggeredArrive(self.name, arrivals(count), noinc))

    def arrive_drop(self, count: int = 1, expect: int | None = None) -> op.Operation:
        """mbarrier.arrive_drop{.expect_tx}."""
        expected = None if expect is None else bytes_of(expect)
        return self._new(op.Arrive(self.name, arrivals(count), expect=expected, kind="drop", cta=self._target))

    def expect_tx(self, bytes: int) -> op.Operation:
        """mbarrier.expect_tx: announces bytes without arriving."""
        return self._new(op.Transaction(self.name, bytes_of(bytes), self._target))

    def complete_tx(self, bytes: int) -> op.Operation:
        """mbarrier.complete_tx: simulates that many bytes arriving."""
        return self._new(op.Transaction(self.name, -bytes_of(bytes), self._target))

    def init(self, count: int) -> op.Operation:
        """mbarrier.init."""
        return self._new(op.Init(self.name, count, self._target >= 0, self._write))

    def inval(self) -> op.Operation:
        """mbarrier.inval."""
        return self._new(op.Inval(self.name, self._target >= 0, self._write))

    def _phase(self, phase: int | Phase | op.Token) -> int | Phase | op.Token:
        if isinstance(phase, op.Token) and phase.barrier != self.name:
            raise SpecError(
                f"the token of an arrive on {phase.barrier} says nothing about {self.name}: wait on its own"
            )
        return _parity(phase)

    def _new(self, operation: op.Operation) -> op.Operation:
        return self._owner.created(operation)

    def __bool__(self) -> bool:
        raise SpecError(f"{self.name} has no truth value: yield {self.name}.test_wait(phase) gives one")


def _several(ctas: Sequence[int]) -> Sequence[int]:
    if not isinstance(ctas, Sequence) or not ctas or len(set(ctas)) != len(ctas):
        raise SpecError(f"an arrival at the CTAs {ctas!r}: name at least one, each once")
    return ctas


def _parity(phase: int | Phase | op.Token) -> int | Phase | op.Token:
    if isinstance(phase, op.Token):
        return phase
    if not isinstance(phase, int):
        raise SpecError(f"a wait with {phase!r}: use the phase of a state, a parity, or the token of an arrive")
    if phase not in (0, 1):
        raise SpecError(f"a wait with phase {phase}: parity is 0 or 1 (write phase & 1)")
    return phase
