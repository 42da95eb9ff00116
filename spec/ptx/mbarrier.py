"""What Hopper's mbarriers do: one function per PTX operation, and what bulk copies do to them.

Every operation is a `Step` with the same four parts in the same order, so that two of them can be compared by eye:

    when       the condition under which the operation can run; a thread whose next operation cannot run is blocked
    then       what changes, by field name
    completes  whether it completes the current phase
    illegal    what the operation must not meet, each with the property that it violates

The state of an mbarrier (PTX ISA 9.7.13.15.2) is (phase, expected, pending, tx); only tokens, pending_count and waits
show it.
"""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Lit, where
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.step import Illegal, Step

NONE_PENDING = 1 << 20
"""What mbarrier.pending_count gives on an H100 where no arrival was pending and only bytes were awaited. PTX
(9.7.13.15.17) says the pending count, which is 0; any other is given as it is.
"""
COUNT_WIDTH = 20
TX_WIDTH = 22
"""Two's complement: the sum of two legal tx-counts still fits."""


class Mbarrier(NamedTuple):
    """One mbarrier object: each part an expression, a constant where nothing in the program can change it.

    phase is the parity of the phase number; observed is a ghost: some thread has seen the phase before this one
    complete (9.7.13.15.4 demands it before an arrive-on of this phase).
    """

    alive: Expr
    phase: Expr
    expected: Expr
    pending: Expr
    tx: Expr
    observed: Expr

    @staticmethod
    def initialised(count: int, width: int = COUNT_WIDTH, tx_width: int = TX_WIDTH) -> Mbarrier:
        """The constant object just after mbarrier.init with this count."""
        full = Lit(count, width)
        return Mbarrier(TRUE, FALSE, full, full, Lit(0, tx_width), TRUE)


# ---------------------------------------------------------------- the object's lifetime


def init(b: Mbarrier, count: int) -> Step:
    """mbarrier.init.shared::cta.b64 [b], count (9.7.13.15.9)."""
    fits = 1 <= count <= COUNT_LIMIT
    full = Lit(count if fits else 1, b.pending.width)
    return Step(
        when=TRUE,
        then={
            "alive": TRUE,
            "phase": FALSE,
            "expected": full,
            "pending": full,
            "tx": Lit(0, b.tx.width),
            "observed": TRUE,
        },
        completes=FALSE,
        illegal=(
            Illegal(
                "barrier-init", FALSE if fits else TRUE, f"the arrival count {count} is outside 1 to {COUNT_LIMIT}"
            ),
            Illegal("barrier-init", b.alive, "it is initialised again while it is live: its phase is lost"),
        ),
    )


def inval(b: Mbarrier) -> Step:
    """mbarrier.inval (9.7.13.15.10): the object is dead and its bytes may be used for something else."""
    return Step(when=TRUE, then={"alive": FALSE}, completes=FALSE, illegal=(_dead(b),))


# ---------------------------------------------------------------- bytes


def expect_tx(b: Mbarrier, count: int) -> Step:
    """mbarrier.expect_tx (9.7.13.15.11): tx += count. PTX does not follow it by a test for completion.

    Where it brings a negative tx-count to 0 while no arrival is pending, an H100 was measured to complete the phase,
    and to begin the next one as ever. PTX leaves it open, so that a program must not depend on it.
    """
    tx = b.tx + Lit(count, b.tx.width)
    return Step(
        when=TRUE,
        then={"tx": tx},
        completes=FALSE,
        illegal=(
            _dead(b),
            _out_of_range(tx, count),
            Illegal(
                "tx-count",
                (b.pending == 0) & (tx == 0),
                "expect_tx makes the bytes match with no arrival pending: PTX does not say whether the phase completes"
                " (an H100 completes it)",
            ),
        ),
    )


def complete_tx(b: Mbarrier, count: int) -> Step:
    """mbarrier.complete_tx (9.7.13.15.12), and what a landing bulk copy does: tx -= count, then test for completion."""
    tx = b.tx - Lit(count, b.tx.width)
    return _settle(
        b,
        b.expected,
        b.pending,
        tx,
        (
            _dead(b),
            _out_of_range(tx, count),
            Illegal(
                "tx-count",
                (b.pending == 0) & _negative(tx),
                "more bytes are delivered than were expected, and no arrival is pending that could still expect them",
            ),
        ),
    )


# ---------------------------------------------------------------- arrivals


def arrive(b: Mbarrier, count: int = 1, *, observe: bool = True) -> Step:
    """mbarrier.arrive with a count, or `count` threads that arrive once each (9.7.13.15.13)."""
    return _arrive_on(b, b.expected, b.tx, count, observe)


def arrive_expect_tx(b: Mbarrier, count: int, arrivals: int = 1, *, observe: bool = True) -> Step:
    """mbarrier.arrive.expect_tx (9.7.13.15.13): first tx += count, then arrive-on, in one step.

    `arrivals` threads may do it together; each then expects its own `count` bytes.
    """
    tx = b.tx + Lit(count * arrivals, b.tx.width)
    step = _arrive_on(b, b.expected, tx, arrivals, observe)
    return step._replace(illegal=(*step.illegal, _out_of_range(tx, count * arrivals)))


def arrive_no_complete(b: Mbarrier, count: int = 1, *, observe: bool = True) -> Step:
    """mbarrier.arrive.noComplete (9.7.13.15.13): an arrival that must not complete the phase."""
    step = _arrive_on(b, b.expected, b.tx, count, observe)
    completes = Illegal(
        "arrival-count", step.completes, "arrive.noComplete completes the phase, which PTX leaves undefined"
    )
    return step._replace(illegal=(*step.illegal, completes))


def arrive_drop(b: Mbarrier, count: int = 1, expect: int = 0, *, observe: bool = True) -> Step:
    """mbarrier.arrive_drop{.expect_tx} (9.7.13.15.14): this and every later phase expects `count` fewer arrivals.

    With bytes it has no count: `count` threads do it, and each expects its own `expect` bytes.
    """
    tx = b.tx + Lit(expect * count, b.tx.width)
    expected = b.expected - Lit(count, b.expected.width)
    step = _arrive_on(b, expected, tx, count, observe)
    empty = Illegal(
        "arrival-count",
        b.expected <= Lit(count, b.expected.width),
        "arrive_drop leaves a barrier that expects no arrival at all",
    )
    return step._replace(illegal=(*step.illegal, empty, _out_of_range(tx, expect * count)))


def cp_async_arrive(b: Mbarrier, count: int = 1) -> Step:
    """cp.async.mbarrier.arrive without .noinc (9.7.13.15.15) by `count` threads: one more arrival of each is pending,
    until the copies trigger it.

    The arrival itself, when all earlier cp.async of the thread are done, is `arrive(b, 1)`; with .noinc it is all
    there is.

    For sm_90a ptxas makes it one byte more expected, and one delivered when the copies are done, which comes to the
    same. Measured on an H100: where no copy is outstanding, the delivery can take effect first. At the ends of the
    tx-count's range, and where it makes the bytes match for a moment while no arrival is pending, it does not come to
    the same.
    """
    overflow = b.pending > Lit((1 << b.pending.width) - 1 - count, b.pending.width)
    zero, edge = Lit(0, b.tx.width), Lit(min(COUNT_LIMIT, (1 << b.tx.width - 1) - 1), b.tx.width)
    back = zero - b.tx
    at_edge = (b.tx == edge) | (back == edge) | (b.pending == 0) & ((b.tx == 1) | (back == 1))
    return Step(
        when=TRUE,
        then={"pending": b.pending + Lit(count, b.pending.width)},
        completes=FALSE,
        illegal=(
            _dead(b),
            Illegal("arrival-count", overflow, "the pending count exceeds 2^20-1"),
            Illegal(
                "tx-count",
                at_edge,
                "cp.async.mbarrier.arrive expects a byte and delivers it, in either order: here the phase may complete"
                " early or the tx-count leave its range",
            ),
        ),
    )


# ---------------------------------------------------------------- the same, from another CTA of the cluster

REMOTE = ("arrive", "arrive_expect_tx", "arrive_drop", "expect_tx", "complete_tx")
"""Operations with a .shared::cluster form. For arrive_drop the ISA contradicts itself: its table (9.7.13.15.8) rules it
out, its syntax (.14) lists it; it is taken as allowed."""


def remote(operation: str, step: Step, *, token: bool = False) -> Step:
    """The .shared::cluster form of an operation: the same effect on the barrier of the CTA that mapa names.

    There is no remote init, inval, test_wait, try_wait or noComplete, and no remote arrive that returns a token
    (9.7.13.15.9 to .16).
    """
    missing = Illegal(
        "barrier-init",
        FALSE if operation in REMOTE and not token else TRUE,
        f"{operation}{' with a token' if token else ''} has no .shared::cluster form",
    )
    return step._replace(illegal=(*step.illegal, missing))


# ---------------------------------------------------------------- waits


def wait_parity(b: Mbarrier, parity: int, unseen: Expr, distance: int) -> Step:
    """mbarrier.{test,try}_wait.parity (9.7.13.15.16), as the loop around it: blocks until the phase has completed.

    Two ghosts tell a legal wait from a wrong one that parity cannot tell apart. `unseen` is how many phases have
    completed since the last one that this thread waited for, and `distance` how many phases after that one this wait is
    meant for (0: the same again). The phase it is meant for is current if unseen = distance - 1 and has just completed
    if unseen = distance; anything else is outside what the ISA allows, whatever the parity says. A fresh barrier counts
    as having completed a phase of parity 1: the ISA does not say it, an H100 does it, and CUTLASS relies on it
    (make_producer_start_state, sm90_pipeline.hpp:252-260).
    """
    late, early = wrong_wait(unseen, distance)
    return Step(
        when=b.phase != Lit(parity, 1),
        then={"observed": TRUE, "unseen": Lit(0, unseen.width)},
        completes=FALSE,
        illegal=(_dead(b), late, early),
    )


LAPPED = "the barrier is two phases ahead of the wait: one bit of parity cannot tell"

EARLY = "the barrier has not reached the phase before: the wait passes once an earlier one of its parity is over"


def wrong_wait(unseen: Expr, distance: int) -> tuple[Illegal, Illegal]:
    """The two ways in which a wait can be out of step with its barrier: lapped, and early."""
    top = (1 << unseen.width) - 1
    late = unseen > Lit(distance, unseen.width) if distance < top else FALSE
    early = unseen < Lit(distance - 1, unseen.width) if 1 <= distance <= top else FALSE
    return (
        Illegal("phase-lapped", late, LAPPED),
        Illegal("phase-lapped", early, EARLY),
    )


def wait_token(b: Mbarrier, age: Expr) -> Step:
    """mbarrier.{test,try}_wait with the token of an arrive (9.7.13.15.16). `age`: phases completed since the
    arrival, 2 where the barrier was initialised since.
    """
    return Step(
        when=(age & 1) == 1,
        then={"observed": TRUE},
        completes=FALSE,
        illegal=(
            _dead(b),
            Illegal(
                "phase-lapped",
                age > Lit(1, age.width),
                "the token is two phases old, or of before an init: its wait is undefined",
            ),
        ),
    )


# ---------------------------------------------------------------- rules shared by the operations


def _arrive_on(b: Mbarrier, expected: Expr, tx: Expr, count: int, observe: bool) -> Step:
    """arrive-on (9.7.13.15.7): pending -= count, then test for completion."""
    amount = Lit(count, b.pending.width)
    illegal = [
        _dead(b),
        Illegal(
            "arrival-count",
            b.pending < amount,
            "more arrivals than the barrier still expects in this phase: the pending count underflows",
        ),
    ]
    if observe and count:
        illegal.append(
            Illegal(
                "unobserved-phase",
                ~b.observed,
                "an arrival in a phase before any test_wait or try_wait is sure to have seen the last one complete"
                " (9.7.13.15.4)",
            )
        )
    return _settle(b, expected, b.pending - amount, tx, tuple(illegal), may_complete=bool(count))


def _settle(
    b: Mbarrier, expected: Expr, pending: Expr, tx: Expr, illegal: tuple[Illegal, ...], *, may_complete: bool = True
) -> Step:
    """The completion rule (9.7.13.15.6): when pending = 0 and tx = 0, phase += 1 and pending := expected, in one
    step.
    """
    completes = (pending == 0) & (tx == 0) if may_complete else FALSE
    return Step(
        when=TRUE,
        then={
            "phase": b.phase ^ completes,
            "expected": expected,
            "pending": where(completes, expected, pending),
            "tx": tx,
            "observed": b.observed & ~completes,
        },
        completes=completes,
        illegal=illegal,
    )


def _dead(b: Mbarrier) -> Illegal:
    return Illegal("barrier-init", ~b.alive, "it is used before its initialisation, or after inval")


def _negative(tx: Expr) -> Expr:
    return (tx & Lit(1 << tx.width - 1, tx.width)) != 0


def _out_of_range(tx: Expr, moved: int) -> Illegal:
    """The tx-count, which has just moved by so many bytes, is out of its range: by more than that, it wraps around."""
    because = "the tx-count leaves its range of +-(2^20-1) bytes"
    if moved > 2 * COUNT_LIMIT:
        return Illegal("tx-count", TRUE, because)
    limit = Lit(min(COUNT_LIMIT, (1 << tx.width - 1) - 1), tx.width)
    magnitude = where(_negative(tx), Lit(0, tx.width) - tx, tx)
    return Illegal("tx-count", magnitude > limit, because)
