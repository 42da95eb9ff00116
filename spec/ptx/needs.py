"""What must hold when an operation is executed, when a copy is in flight, and when roles end: each need once, with the
property that it belongs to and its only sentence.

A need is read in several ways: the compiler turns it into a check on states, order into a comparison of clocks. What
an operation on an mbarrier must not meet is part of its Step (spec.ptx.mbarrier), and of a barrier of threads, of its
ways (spec.ptx.thread_barriers).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, assert_never

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import TRUE, Expr
from sm90_verify.spec.ptx.step import Illegal


class Need(NamedTuple):
    """`property` is violated where it is not met; `because` says why, with places for what it is about."""

    property: str
    because: str

    def said(self, **names: object) -> str:
        """The sentence about these."""
        return self.because.format(**names)

    def unmet(self, when: Expr = TRUE, **names: object) -> Illegal:
        """It is not met where `when` holds."""
        return Illegal(self.property, when, self.said(**names))


# ---------------------------------------------------------------- accesses

ORDERED = Need("race", "nothing orders {access} by {role} after {earlier} by {other}")
"""Conflicting accesses by others are over, or not begun, in every schedule."""
UNORDERED = Need("race", "nothing orders {access} by {role} and {other} by {whom}, which can start as well")
"""The same, where the other one has not begun either."""
OVER = Need(
    "race", "{role} starts {access} while an asynchronous access of its own to these bytes is still in progress"
)
"""The groups of the thread's own conflicting accesses have been waited for."""
ACCUMULATED = Need(
    "register-hazard",
    "{role} starts {access} while a wgmma of its own may still use these registers: no wgmma.wait_group has waited for "
    "its group",
)
"""The accumulator and the A registers of a wgmma are left alone until its group has been waited for (9.7.15.7.3)."""
FIRST_FENCED = Need("register-hazard", "{role} starts {access} before any wgmma.fence")
"""A wgmma.fence is before the first wgmma of a warpgroup (9.7.15.7.1); asked where registers are part of the model."""
REGISTERS_FENCED = Need(
    "register-hazard", "{role} has not executed wgmma.fence since {earlier}, and starts {access} on these registers"
)
"""A wgmma.fence is between an access to registers and a wgmma on them, but for accumulators of one shape in several
wgmmas (9.7.15.7.1).
"""
LANDED = Need("race", "{role} starts {access} while a bulk copy is still writing {object}")
"""Copies into these bytes have landed."""
COPIED = Need("race", "{role} starts {access} while a cp.async may still access {object}")
"""The arrival that follows cp.asyncs has been made, or their group has been waited for."""
ALIKE = Need("limit", "two reductions into {object} that are alike are in flight at once, and not told apart")
"""A bound of the model."""
TRIGGER_FOLLOWED = Need(
    "limit",
    "what cp.async.mbarrier.arrive orders is not followed where an operation orders less than all that came before it",
)
"""A bound of the model."""
TRIGGERED = Need("limit", "{most} or more arrivals of one cp.async.mbarrier.arrive on {barrier} are under way at once")
"""A bound of the model."""
GROUPS_COUNTED = Need(
    "limit", "{role} can commit more than {most} groups of wgmmas that nobody of its warpgroup waits for"
)
"""A bound of the model."""
TAKEN = Need("race", "{role} starts {access} while a bulk copy is still reading {object}")
"""Copies out of these bytes have landed where they go."""
FENCED = Need(
    "missing-fence",
    "no fence.proxy.async comes between the generic access to {earlier} by {other} and {access} by {role}",
)
"""A proxy fence lies on the way from a generic write to an access through the async proxy: it is after the one and
before the other in causality order, whichever thread executes it. PTX asks for a proxy fence to synchronize across
proxies (8.6) and says of fence.proxy.async that it does so between these two (9.7.13.4, 9.7.9.25.2); where it has to be
it says in 8.9.5, for aliases and their fence: along the base causality path from the one to the other.
"""
FENCED_WHERE_MADE = Need(
    "missing-fence",
    "{other} has not executed fence.proxy.async since its generic access to {earlier}, and {access} by {role} goes "
    "through the async proxy",
)
"""The habit of CUTLASS, which `strict` asks for: who makes a generic access fences it before it lets others go on, and
reads that a bulk copy overwrites want that fence too.
"""
MAPPED = Need(
    "missing-fence",
    "{role} uses {map} as a tensormap, which {other} has written, without fence.proxy.tensormap: .release by {other}, "
    "then .acquire by {role}",
)
"""A tensormap is read through a proxy of its own. Who modifies one (tensormap.replace, ordinary stores) releases it
with fence.proxy.tensormap::generic.release or tensormap.cp_fenceproxy, and then who uses it acquires it with .acquire,
both in a scope that has the other thread (9.7.13.4).
"""
FENCE_FOLLOWED = Need(
    "limit",
    "{role} starts {access}, and st.async, or a cp.async that triggers an arrival, writes {object}: whether a proxy "
    "fence comes in between is not followed where operations order less than all that came before",
)
"""They go through the generic proxy and land at any time: a fence of their own thread does not cover them."""
FOUND = Need("stale-read", "{role} reads {object} for {tag!r} and finds other data in it")
"""A read finds the data that it is for."""
UNTOUCHED = Need(
    "barrier-init",
    "{role} starts {access} over {barrier}, which is live: nothing but mbarrier operations may touch it until "
    "mbarrier.inval",
)
"""The bytes of a live mbarrier are its own (9.7.13.15, .3)."""
INSIDE = Need("smem-overlap", "the copy of {bytes} bytes runs over the end of {object} into {other}")
"""A copy ends where its buffer does, or where nothing lies behind it."""
APART = Need(
    "smem-overlap",
    "{one} [{start}, {stop}) and {other} [{begin}, {end}) lie in the same bytes, which no `shares` declares",
)
"""Objects share bytes only where that is declared, or where they take turns."""

# ---------------------------------------------------------------- barriers

COUNTED = Need("barrier-init", "{barrier} is initialised with the arrival count {count}")
"""An mbarrier expects at least one arrival (9.7.13.15.2)."""
INITIALISED = Need("barrier-init", "a copy signals {barrier} before its init")
"""The mbarrier that a copy signals is live when the copy starts."""
SHOWN_TO_COPIES = Need(
    "barrier-init",
    "a copy by {role} signals {barrier}, whose initialisation is not visible to it: no fence.mbarrier_init by {other}",
)
"""An init is shown to bulk copies by a fence of the thread that made it (9.7.13.4), as CUTLASS has it."""
SHOWN_TO_CTAS = Need(
    "barrier-init",
    "{barrier} is initialised by {other} and nothing makes that visible to other CTAs: no fence.mbarrier_init",
)
"""An init is shown to the cluster before another CTA acts on the barrier."""
SEEN = Need(
    "phase-lapped",
    "{barrier}: it completes another phase although {role} may not have seen the last one: lapped",
)
"""Who has waited for a phase is past its wait when the next one completes (9.7.13.15.16)."""
BALANCED = Need("tx-count", "{barrier}: all roles have ended and all copies landed, and its tx-count is not zero")
"""Bytes that are expected are delivered, and no others."""
ALIGNED = Need("named-barrier", "the threads of {role} execute an aligned barrier at two places")
"""bar.sync is .aligned: all threads of a warp execute the same one (9.7.13.1)."""

TOGETHER = Need("named-barrier", "{role} executes {instruction}, which is for all of them at once, and {others}")
"""An instruction with .aligned is executed by all threads of the warp, as bar.sync (9.7.13.1), or of the warpgroup, as
wgmma (9.7.15) and setmaxnreg (9.7.19.5); one with a membermask by threads that are in it, as shfl.sync (9.7.9.6).
"""

# ---------------------------------------------------------------- CTAs and roles

BEGUN = Need(
    "exit-hazard",
    "CTA {cta} may not have started yet: no barrier.cluster shows that its shared memory exists",
)
"""Another CTA has started before its shared memory is used."""
THERE = Need("exit-hazard", "{role} reaches into CTA {cta}, which may have exited: its shared memory is gone")
"""Another CTA has not exited when its shared memory is used."""
READ_AT_EXIT = Need("exit-hazard", "{role} ends while its bulk stores still read shared memory")
"""Bulk stores have read their sources when their thread exits."""
LANDED_AT_EXIT = Need("exit-hazard", "{roles} have ended while a copy {way} {object} is still in flight")
"""Copies into and out of a CTA's shared memory have landed when it exits."""
GRANTED = Need(
    "register-pool",
    "{role} needs {registers} more registers than it has, and nobody can give back as many any more",
)
"""A request for registers can still be granted."""
GOES_ON = Need("deadlock", "{roles} can never run again")
"""Whoever has not ended can go on at some time."""


def properties_of(operation: op.Operation | None) -> Iterable[str]:
    """The properties that an operation can violate, by what it needs and by its Step or its ways."""
    effects = effects_of(operation)
    if effects.begins:
        yield ORDERED.property
    if any(access.space == "registers" for access in effects.lasting("mma_group")):
        yield REGISTERS_FENCED.property
    if effects.finds is not None or any(tag is not None for _, tag in (*effects.expected, *effects.left)):
        yield FOUND.property
    if effects.lands:
        yield BALANCED.property
        yield LANDED_AT_EXIT.property
    match effects.signal:
        case op.Init() | op.Inval():
            yield COUNTED.property
        case op.Arrive():
            yield "arrival-count"
            if effects.signal.expect is not None:
                yield BALANCED.property
        case op.Transaction():
            yield BALANCED.property
        case None:
            pass
        case _:
            assert_never(effects.signal)
    if effects.triggers is not None:
        yield "arrival-count"
    if effects.waits is not None:
        yield SEEN.property
    if isinstance(effects.meets, op.NamedSync):
        yield ALIGNED.property
    if effects.parted is not None:
        yield TOGETHER.property
    if effects.registers is not None:
        yield GRANTED.property
