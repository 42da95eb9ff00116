"""The operations on mbarriers (PTX ISA 9.7.13.15), as records: what is yielded, and nothing about what it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.yielded import Count, Yielded

WaitKind: TypeAlias = Literal["wait", "try_wait", "test_wait"]
ArriveKind: TypeAlias = Literal["arrive", "drop", "no_complete"]
WaitSem: TypeAlias = Literal["acquire", "relaxed"]
ArriveSem: TypeAlias = Literal["release", "relaxed"]
AnyScope: TypeAlias = Literal["", "cta", "cluster", "gpu", "sys"]
""""" where the instruction names none."""


@dataclass(frozen=True)
class Token:
    """The state that mbarrier.arrive returns, to be waited with: it stands for the phase of that arrival."""

    barrier: str


@dataclass(frozen=True)
class Init(Yielded):
    """mbarrier.init with the arrival count `count`. remote: of a barrier of another CTA, which PTX does not have.
    write: the barrier's bytes, where a buffer lies in them too.
    """

    barrier: str
    count: int
    remote: bool = False
    write: Access | None = None


@dataclass(frozen=True)
class Inval(Yielded):
    """mbarrier.inval. remote, write: as for Init."""

    barrier: str
    remote: bool = False
    write: Access | None = None


@dataclass(frozen=True)
class Wait(Yielded):
    """kind: "wait" blocks; "try_wait" may also give up, "test_wait" only looks: both answer True or False.

    phase: a parity (a Phase, if it comes from a state), or the token of the role's last arrival. remote: as for Init.
    """

    barrier: str
    phase: Annotated[int, range(2)] | Token
    kind: WaitKind = "wait"
    remote: bool = False
    sem: WaitSem = "acquire"
    scope: AnyScope = ""


@dataclass(frozen=True)
class Arrive(Yielded):
    """kind: "arrive", "drop" or "no_complete"; expect: bytes of arrive.expect_tx, or None for a plain arrive.

    count: the operand, or as many threads that arrive once each; with expect, each of them expects so many bytes. cta:
    the CTA of the barrier, if it is another one (the .shared::cluster form); -1 for the thread's own. also: where lanes
    of one instruction arrive at several CTAs, the other barriers and their CTAs; all of them take effect together.
    """

    barrier: str
    count: Count = 1
    expect: Count | None = None
    kind: ArriveKind = "arrive"
    cta: int = -1
    sem: ArriveSem = "release"
    scope: AnyScope = ""
    also: tuple[tuple[str, int], ...] = ()

    @property
    def parts(self) -> tuple[Arrive, ...]:
        """One arrival for each CTA."""
        if not self.also:
            return (self,)
        return tuple(
            replace(self, barrier=name, cta=cta, also=()) for name, cta in ((self.barrier, self.cta), *self.also)
        )


@dataclass(frozen=True)
class Transaction(Yielded):
    """expect_tx (bytes >= 0) or complete_tx (bytes < 0) without an arrival; cta as for an Arrive."""

    barrier: str
    bytes: Annotated[int, range(-COUNT_LIMIT, COUNT_LIMIT + 1)]
    cta: int = -1


Signal: TypeAlias = Init | Inval | Arrive | Transaction
"""What changes an mbarrier by itself, without a copy."""

OnMbarriers: TypeAlias = Signal | Wait
"""All of them."""
