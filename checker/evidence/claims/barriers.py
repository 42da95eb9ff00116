"""Claims about one mbarrier: when a phase completes, what an arrival does, and what other barriers would do instead."""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.evidence.claims.claim import Claim, Condition, Point
from sm90_verify.evidence.claims.models import designs, rings, software_barriers
from sm90_verify.evidence.claims.observe import same_observations
from sm90_verify.evidence.claims.runs import box, machine, over
from sm90_verify.evidence.claims.steps import (
    BARRIER,
    after,
    before_settling,
    both_ways,
    for_every_state,
    implies,
    same,
)
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.classes import TransactionAsync
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.expr import TRUE, Expr, Lit
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT
from sm90_verify.spec.ptx.step import Step

STEPS: dict[str, tuple[Step, int]] = {
    "arrive": (mbarrier.arrive(BARRIER), 1),
    "arrive count 128": (mbarrier.arrive(BARRIER, 128), 128),
    "arrive.expect_tx": (mbarrier.arrive_expect_tx(BARRIER, BULK_ALIGNMENT), 1),
    "complete_tx": (mbarrier.complete_tx(BARRIER, BULK_ALIGNMENT), 0),
    "expect_tx": (mbarrier.expect_tx(BARRIER, BULK_ALIGNMENT), 0),
}
"""Operations on a barrier in any state, and how many arrivals each is."""
ARRIVALS = ("arrive", "arrive count 128", "arrive.expect_tx")
ARRIVALS_PENDING = {"yes": BARRIER.pending != 0, "no": BARRIER.pending == 0}


def _nothing_pending(name: str) -> Expr:
    """Both counts are zero once the operation has been counted."""
    step, arrivals = STEPS[name]
    pending, bytes_left = before_settling(BARRIER, step, arrivals)
    # A completion puts pending back in the same step, so that the bytes are looked at before that.
    return (pending == 0) & (bytes_left == 0)


def _claim_8() -> Iterable[Point]:
    for name, (step, _) in STEPS.items():
        statement = both_ways(step.completes, _nothing_pending(name))
        for pending, premise in ARRIVALS_PENDING.items():
            if name in ARRIVALS and pending == "no":
                continue
            because = f"{name} leaves no arrival and no bytes pending, and the phase does not complete"
            run = for_every_state(name, _unrestricted(name, step), statement, premise, because)
            yield Point({"operation": name, "pending": pending}, run)


def _unrestricted(name: str, step: Step) -> Step:
    """The operation with what the claim asks about allowed: expect_tx makes the bytes match, no arrival pending."""
    if name != "expect_tx":
        return step
    kept = tuple(part for part in step.illegal if "does not say" not in part.because)
    return Step(step.when, step.then, step.completes, kept)


def _claim_9() -> Iterable[Point]:
    step, _ = STEPS["complete_tx"]
    flips = implies(step.then["tx"] == 0, step.completes)
    for pending, premise in ARRIVALS_PENDING.items():
        run = for_every_state("complete_tx", step, flips, premise, "the bytes reach 0 and the phase does not complete")
        yield Point({"arrivals pending": pending}, run)


def _claim_43() -> Iterable[Point]:
    wait = mbarrier.wait_parity(BARRIER, 0, Lit(0, 2), 1)
    yield Point(
        {"operation": "wait(0)"}, for_every_state("wait parity 0", Step(), both_ways(wait.when, BARRIER.phase == 1))
    )


def _claim_49() -> Iterable[Point]:
    for name in ARRIVALS:
        step, _ = STEPS[name]
        reset = step.then["pending"] == step.then["expected"]
        statement = implies(_nothing_pending(name), step.completes & reset & (step.then["phase"] != BARRIER.phase))
        yield Point({"operation": name}, for_every_state(name, step, statement))


def _claim_50() -> Iterable[Point]:
    both, _ = STEPS["arrive.expect_tx"]
    first = mbarrier.expect_tx(BARRIER, BULK_ALIGNMENT)
    then = mbarrier.arrive(after(BARRIER, first))
    statement = same(after(BARRIER, both), after(after(BARRIER, first), then)) & (both.completes == then.completes)
    yield Point({"operation": "arrive.expect_tx"}, for_every_state("arrive.expect_tx", both, statement))
    reverse = mbarrier.arrive(BARRIER)
    late = mbarrier.expect_tx(after(BARRIER, reverse), BULK_ALIGNMENT)
    apart = same(after(BARRIER, both), after(after(BARRIER, reverse), late))
    because = "the other order of the two leaves another state"
    run = for_every_state("arrive, then expect_tx", reverse, apart, TRUE, because)
    yield Point({"operation": "arrive, then expect_tx"}, run, VIOLATED, beyond=True)


def _claim_51() -> Iterable[Point]:
    step, _ = STEPS["complete_tx"]
    statement = step.then["pending"] == BARRIER.pending
    because = "complete_tx completes the phase, and the pending count becomes the expected one"
    yield Point({"operation": "complete_tx"}, for_every_state("complete_tx", step, statement, step.completes, because))


def _claim_52() -> Iterable[Point]:
    for expects, beyond in ((1024, False), (512, True)):
        for p in box(stages=(1, 2), pieces=(2, 4)):
            whole, parts = ({"stages": p["stages"], "expects": expects, "pieces": n} for n in (1, p["pieces"]))
            run = same_observations(designs.Watched(**whole), designs.Watched(**parts), "watched, in one piece or more")
            yield Point({**p, "expects": expects}, run, VIOLATED, beyond)
    for p in box(stages=(1, 2), pieces=(2,)):
        whole, parts = ({"stages": p["stages"], "pieces": n} for n in (1, p["pieces"]))
        run = same_observations(TransactionAsync(**whole), TransactionAsync(**parts), "transaction-async, in pieces")
        yield Point(p, run, VIOLATED)


def _claim_55() -> Iterable[Point]:
    for words, beyond in ((2, False), (1, True)):
        run = machine(software_barriers.arrivals_and_bytes, words=words)
        yield Point({"words": words}, run, PROVED, beyond)


def _claim_56() -> Iterable[Point]:
    for at in box(threads=(2, 3, 4), sense=("before", "after")):
        run = machine(software_barriers.sense_reversing, **at)
        yield Point(at, run)
    for threads in (2, 3):
        run = machine(software_barriers.sense_reversing, threads=threads, order="flip-reset")
        yield Point({"threads": threads, "sense": "before", "order": "flip-reset"}, run, VIOLATED, beyond=True)


def _claim_61() -> Iterable[Point]:
    for threads in (2, 3, 4):
        for split in (False, True):
            at = {"threads": threads, "barrier": "split-phase" if split else "central"}
            run = machine(software_barriers.sense_reversing, threads=threads, split=split)
            yield Point(at, run)
        for sets in (1, 2):
            at = {"threads": threads, "barrier": "dissemination", "sets": sets}
            run = machine(software_barriers.dissemination, threads=threads, sets=sets)
            yield Point(at, run)
    for slack in (1, 2, 3, 4):
        run = machine(software_barriers.uncounted_watcher, "phase-lapped", slack=slack, bits=1)
        yield Point({"barrier": "uncounted watcher", "slack": slack}, run)


def _claim_63() -> Iterable[Point]:
    """At every lag at which a counter of some bits is fooled, the claim predicts that parity is not."""
    for bits in (2, 3):
        for slack in range(1, 10):
            counter = machine(software_barriers.uncounted_watcher, "phase-lapped", slack=slack, bits=bits)
            if counter().verdict == VIOLATED:
                yield Point({"counter bits": bits, "slack": slack}, counter, VIOLATED)
                parity = machine(software_barriers.uncounted_watcher, "phase-lapped", slack=slack, bits=1)
                yield Point({"parity instead of counter bits": bits, "slack": slack}, parity)


def _bits_are_enough(at: dict[str, object]) -> bool:
    match at["barrier"]:
        case "dissemination":
            return at["sets"] == 2 or at["threads"] == 3
        case "uncounted watcher":
            return at["slack"] == 1
    return True


SINGLE = box(stages=(1, 2), consumers=(1, 2), watches=("own", "every"), arrives=("own", "every"))
OVERWRITTEN = ("race", "stale-read", "deadlock")
EVERYBODY = Condition(
    "somebody does not arrive in every phase or does not wait for every phase, the other's included",
    lambda p: not (p.get("watches") == "every" and p.get("arrives") == "every"),
)

ROWS: tuple[Claim, ...] = (
    Claim(
        8,
        "a phase completes exactly when pending bytes and pending arrivals are both zero",
        "after each operation the phase has completed if and only if it leaves no arrival and no bytes pending",
        _claim_8,
        (
            Condition(
                "no bytes are announced when no arrival is pending: expect_tx is not followed by a test for completion",
                lambda p: p["operation"] != "expect_tx" or p["pending"] == "yes",
            ),
        ),
    ),
    Claim(
        9,
        "the full barrier flips when the pending bytes reach 0",
        "complete_tx that brings the bytes to 0 completes the phase",
        _claim_9,
        (Condition("no arrival is pending any more", lambda p: p["arrivals pending"] == "no"),),
    ),
    Claim(
        39,
        "a proxy fence is needed between the writes to shared memory and the TMA store",
        "without fence.proxy.async something is violated, with it nothing is",
        lambda: [
            *over(designs.Stored, box(stages=(1, 2, 3), written=("st",), fence=(0,)), VIOLATED),
            *over(designs.Stored, box(stages=(1, 2, 3), written=("st",), fence=(1,)), PROVED),
            *over(designs.Stored, box(stages=(1, 2, 3), written=("tma",), fence=(0,)), PROVED, beyond=True),
        ],
        scope="ordinary stores; what TMA itself has written needs none",
    ),
    Claim(
        41,
        "mbarrier.arrive.shared::cluster takes the CTA id as its last operand",
        "a release whose last operand, PTX's number of arrivals, is the id of the CTA is right for every id",
        lambda: over(designs.LastOperand, box(cta=range(16))),
    ),
    Claim(
        43,
        "wait(0) returns exactly when the phase bit has become 1",
        "a wait with parity 0 can pass if and only if the phase bit is 1",
        _claim_43,
    ),
    Claim(
        49,
        "an arrival that brings the count to zero with no bytes pending completes the phase and resets the count",
        "then the phase completes, its parity flips, and pending is the expected count again",
        _claim_49,
    ),
    Claim(
        50,
        "arrive.expect_tx behaves as one atomic operation: the added bytes and one arrival",
        "its effect is that of expect_tx and then arrive with nothing in between",
        _claim_50,
    ),
    Claim(
        51,
        "complete_tx that completes a phase leaves the arrival count as it is",
        "where complete_tx completes the phase, the pending count after it is the one before it",
        _claim_51,
    ),
    Claim(
        52,
        "one TMA load that signals its bytes in two pieces can be told apart from one that signals them at once",
        "some sequence of the roles' operations and answers is possible in one of the two only",
        _claim_52,
        scope="pipelines that announce all bytes of a copy before the last arrival",
    ),
    Claim(
        54,
        "two producers, one expected transaction: the phase flips only when both have arrived and all bytes are there",
        "the consumer, which reads what both bring, never races and never finds old data",
        lambda: [
            *over(designs.TwoProducers, box(stages=(1, 2, 3), full=(2,))),
            *over(designs.TwoProducers, box(stages=(1, 2), full=(1,)), VIOLATED, beyond=True),
        ],
    ),
    Claim(
        55,
        "a software barrier of two separate atomics (arrivals, bytes) behaves as a transaction barrier",
        "with two words nothing deadlocks and the consumer finds new data",
        _claim_55,
    ),
    Claim(
        56,
        "a barrier whose last arriver resets the count and then flips the phase can be reused at once",
        "round after round nobody passes before all have come, and nobody is left behind",
        _claim_56,
        (
            Condition(
                "each thread reads the phase that it waits to see changed before it arrives",
                lambda p: p["sense"] == "before",
            ),
        ),
    ),
    Claim(
        57,
        "expect_tx without any arrival deadlocks",
        "a producer that announces bytes and never arrives leaves the ring deadlocked",
        lambda: over(rings.Expectation, box(stages=(1, 2, 3), how=("expect",)), VIOLATED, "deadlock"),
    ),
    Claim(
        58,
        "arrive() followed by a separate expect_tx() is equivalent to arrive_and_expect_tx()",
        "the ring is right with the two operations in place of the one",
        lambda: [
            *over(rings.Expectation, box(stages=(1, 2, 3), how=("arrive-expect",))),
            *over(
                rings.Expectation,
                box(stages=(1, 2, 3), how=("one", "expect-arrive", "arrive-expect-arrive")),
                beyond=True,
            ),
        ],
        scope="a full barrier that counts one arrival; right where another arrival of the phase comes after expect_tx",
    ),
    Claim(
        59,
        "arrive followed by a separate expect_tx can flip the phase too early",
        "the consumer finds the stage not filled",
        lambda: over(rings.Expectation, box(stages=(1, 2, 3), how=("arrive-expect",)), VIOLATED, "stale-read"),
    ),
    Claim(
        61,
        "one parity bit tells the current round from the next",
        "with one bit nobody passes too early and nobody misses a round",
        _claim_61,
        (
            Condition(
                "nobody can signal another round before the waiter has seen this one: everybody who waits is counted in"
                " each round; a dissemination barrier of 2 or 4 threads needs two sets of flags",
                _bits_are_enough,
            ),
        ),
    ),
    Claim(
        63,
        "a generation counter has an ABA problem that parity avoids",
        "where the rounds run so far ahead that a counter of some bits is fooled, one bit is not",
        _claim_63,
    ),
    Claim(
        66,
        "with a single barrier per stage data can be overwritten or the pipeline can deadlock",
        "every ring of one barrier per stage has a race, a stale read or a deadlock",
        lambda: [
            *over(designs.SingleBarrier, SINGLE, VIOLATED, *OVERWRITTEN),
            *over(designs.SharedPhase, box(stages=(1, 2), consumers=(1, 2)), VIOLATED, *OVERWRITTEN),
        ],
        (EVERYBODY,),
    ),
    Claim(
        67,
        "one mbarrier per stage, used in both directions, is correct for one producer and one consumer",
        "the ring in which the producer arms the barrier and the consumer arrives on it is right",
        lambda: over(
            designs.SingleBarrier, box(stages=(1, 2, 3), consumers=(1,), watches=("own", "every"), arrives=("own",))
        ),
    ),
    Claim(
        68,
        "a single barrier per stage cannot serve several consumers",
        "every ring of one barrier per stage with several consumers violates some property",
        lambda: [
            *over(designs.SingleBarrier, (p for p in SINGLE if p["consumers"] > 1), VIOLATED),
            *over(designs.SingleBarrier, (p | {"stages": 1, "consumers": 3} for p in SINGLE[:4]), VIOLATED),
            *over(designs.SharedPhase, box(stages=(1, 2), consumers=(2, 3)), VIOLATED),
        ],
        (EVERYBODY,),
    ),
)
