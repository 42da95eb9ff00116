"""Operations on one mbarrier by name, as the fuzzer and the table of ill-formed sequences write them.

A name is what PTX calls the operation, with its operand: "arrive 3", "expect_tx 16", "arrive.noComplete 2". In front
of it may stand who does it: "4 lanes" (one each), "other" (another lane), "remote" (CTA 1 of the cluster, on the
barrier of CTA 0), "peer" (CTA 1 on its own barrier) and "peer's" (CTA 0 on the barrier of CTA 1). Behind a wait for a
parity stands which phase it is meant for, counted from the one that the waiter saw last: "test_wait.parity 0 +1".

What an operation means is taken from spec.ptx.mbarrier, here for any mbarrier of expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.expr import Expr
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.step import Step

VERBS = (
    "init",
    "inval",
    "expect_tx",
    "complete_tx",
    "arrive",
    "arrive.expect_tx",
    "arrive.noComplete",
    "arrive_drop",
    "arrive_drop.expect_tx",
    "test_wait.parity",
    "try_wait.parity",
    "test_wait",
    "try_wait",
    "cp.async.mbarrier.arrive",
    "cp.async.mbarrier.arrive.noinc",
)
"""Operations that spec.ptx.mbarrier gives a meaning to; their numbers on the GPU are their positions."""
OTHER_VERBS = (
    "store",
    "load",
    "pending_count",
    "align",
    "bulk.source",
    "bulk.target",
    "bulk",
    "exit",
)
"""What else the table of ill-formed sequences does: ordinary accesses, addresses, bulk copies, the end of a CTA."""
ARRIVALS = ("arrive", "arrive.expect_tx", "arrive.noComplete", "arrive_drop", "arrive_drop.expect_tx")
"""Operations that return a token, unless they are remote."""
WAITS = ("test_wait.parity", "try_wait.parity", "test_wait", "try_wait")
PLACES = ("", "other", "remote", "peer", "peer's")
PLAIN = ("arrive", "arrive_drop")
"""Operations with a form that has no operand; they count 1."""

_NAME = re.compile(
    r"(?:(?P<place>other|remote|peer's|peer) )?(?:(?P<lanes>\d+) lanes )?(?P<verb>[a-z][\w.]*)"
    r"(?: (?P<operand>\d+))?(?: \+(?P<distance>\d+))?"
)


@dataclass(frozen=True)
class Operation:
    """operand: a count, bytes, a parity, or the position of the arrival whose token it is; None where there is none.

    distance: for which phase after the one that this thread saw last a wait for a parity is meant; None: for the one
    that it can be meant for.
    """

    verb: str
    operand: int | None = None
    lanes: int = 1
    place: str = ""
    distance: int | None = None

    @property
    def count(self) -> int:
        """How much one lane's arrival counts."""
        if self.verb not in ARRIVALS:
            return 0
        return 1 if self.operand is None or self.verb.endswith("expect_tx") else self.operand

    @property
    def has_token(self) -> bool:
        return self.verb in ARRIVALS and self.place != "remote"

    def __str__(self) -> str:
        parts = [self.place, f"{self.lanes} lanes" if self.lanes > 1 else "", self.verb]
        parts.append("" if self.operand is None else str(self.operand))
        parts.append("" if self.distance is None else f"+{self.distance}")
        return " ".join(part for part in parts if part)


def operation(name: str) -> Operation:
    """The operation of this name; raises SpecError for what is none."""
    found = _NAME.fullmatch(name)
    if not found or found["verb"] not in VERBS + OTHER_VERBS:
        raise SpecError(f"{name!r} is no operation: write for example 'arrive 3', or '4 lanes arrive'")
    operand, lanes, distance = (
        None if text is None else int(text) for text in found.group("operand", "lanes", "distance")
    )
    return Operation(found["verb"], operand, lanes or 1, found["place"] or "", distance)


def step_of(one: Operation, b: Mbarrier, unseen: Expr, age: Expr) -> Step:
    """What the spec says of it. unseen: phases completed since the last that the waiting thread saw; age: phases
    completed since the arrival whose token is tested. An operand too large for the spec's fields raises SpecError.
    """
    step = _local(one, b, unseen, age)
    if one.place != "remote":
        return step
    verb = one.verb.replace(".", "_").replace("noComplete", "no_complete")
    return mbarrier.remote("arrive_drop" if verb.startswith("arrive_drop") else verb, step)


def _local(one: Operation, b: Mbarrier, unseen: Expr, age: Expr) -> Step:
    number = one.operand or 0
    bytes_ = min(number, COUNT_LIMIT + 1)
    match one.verb:
        case "init":
            step = mbarrier.init(b, number)
            return step if one.lanes == 1 else _again(step, b)
        case "inval":
            return mbarrier.inval(b)
        case "expect_tx":
            return mbarrier.expect_tx(b, bytes_)
        case "complete_tx" | "bulk":
            return mbarrier.complete_tx(b, bytes_)
        case "arrive":
            return mbarrier.arrive(b, one.count * one.lanes)
        case "arrive.expect_tx":
            return mbarrier.arrive_expect_tx(b, bytes_, one.lanes)
        case "arrive.noComplete":
            return mbarrier.arrive_no_complete(b, one.count * one.lanes)
        case "arrive_drop":
            return mbarrier.arrive_drop(b, one.count * one.lanes)
        case "arrive_drop.expect_tx":
            return mbarrier.arrive_drop(b, 1, bytes_)
        case "test_wait.parity" | "try_wait.parity":
            return mbarrier.wait_parity(b, number, unseen, one.distance or 0)
        case "test_wait" | "try_wait":
            return mbarrier.wait_token(b, age)
        case "cp.async.mbarrier.arrive":
            first = mbarrier.cp_async_arrive(b)
            then = mbarrier.arrive(replace(b, pending=first.then["pending"]), 1)
            return replace(then, illegal=(*first.illegal, *then.illegal))
        case "cp.async.mbarrier.arrive.noinc":
            return mbarrier.arrive(b, 1)
    raise SpecError(f"the spec of the mbarrier has no {one.verb}")


def _again(step: Step, b: Mbarrier) -> Step:
    """Several threads initialise it, so that it is live when the second one does."""
    live = replace(b, **step.then)
    return replace(step, illegal=(*step.illegal, *mbarrier.init(live, 1).illegal))


def meant(one: Operation, phase: Expr, unseen: Expr) -> Expr:
    """Whether a wait for a parity at a distance names the parity of the phase that it is meant for."""
    odd = (unseen & 1) == 1
    return (phase ^ odd) == ((one.operand or 0) ^ 1 ^ (one.distance or 0)) & 1


def menu(*, cluster: bool = False) -> tuple[Operation, ...]:
    """What the fuzzer chooses from; for a cluster, with the remote forms."""
    large = COUNT_LIMIT
    names = [
        *(f"init {count}" for count in (1, 2, 3, 4, 7, 32, 128, large)),
        "inval",
        *(f"expect_tx {count}" for count in (0, 1, 16, 2048, 65536, large)),
        *(f"complete_tx {count}" for count in (0, 1, 16, 2048, 65536, large)),
        "arrive",
        *(f"arrive {count}" for count in (0, 1, 2, 3, 5, 32, 128, 65535, large)),
        *(f"arrive.expect_tx {count}" for count in (0, 1, 16, 2048, large)),
        *(f"arrive.noComplete {count}" for count in (0, 1, 2, 5, 32)),
        "arrive_drop",
        *(f"arrive_drop {count}" for count in (1, 2, 3, 32)),
        *(f"arrive_drop.expect_tx {count}" for count in (0, 1, 16, 2048, large)),
        *(
            f"{verb} {parity} +{distance}"
            for verb in ("test_wait.parity", "try_wait.parity")
            for parity in (0, 1)
            for distance in (0, 1, 2)
        ),
        "test_wait",
        "try_wait",
        *(f"{lanes} lanes arrive" for lanes in (2, 3, 4, 7, 16, 31, 32)),
        *("2 lanes arrive 2", "32 lanes arrive 3", "32 lanes arrive 0"),
        *("3 lanes arrive.noComplete 1", "32 lanes arrive.noComplete 2"),
        *("2 lanes arrive.expect_tx 8", "32 lanes arrive.expect_tx 1", "2 lanes arrive_drop", "31 lanes arrive_drop"),
        *("cp.async.mbarrier.arrive", "cp.async.mbarrier.arrive.noinc"),
    ]
    if cluster:
        names += [
            "remote arrive",
            *(f"remote arrive {count}" for count in (0, 1, 2, 3, 5, 32, 128, large)),
            *(f"remote arrive.expect_tx {count}" for count in (0, 1, 16, 2048)),
            "remote arrive_drop",
            *(f"remote arrive_drop {count}" for count in (1, 2, 3)),
            *(f"remote arrive_drop.expect_tx {count}" for count in (0, 16)),
            *(f"remote expect_tx {count}" for count in (0, 1, 16, 2048, large)),
            *(f"remote complete_tx {count}" for count in (0, 1, 16, 2048, large)),
            *(f"remote {lanes} lanes arrive" for lanes in (2, 4, 32)),
            "remote 32 lanes arrive.expect_tx 1",
        ]
    return tuple(map(operation, names))
