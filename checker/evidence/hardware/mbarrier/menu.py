"""Operations on one mbarrier by name, as the fuzzer and the table of ill-formed sequences write them.

A name is what PTX calls the operation, with its operand: "arrive 3", "expect_tx 16", "arrive.noComplete 2". In front
of it may stand who does it: "4 lanes" (one each), "other" (another lane), "remote" (CTA 1 of the cluster, on the
barrier of CTA 0), "peer" (CTA 1 on its own barrier) and "peer's" (CTA 0 on the barrier of CTA 1). Behind a wait for a
parity stands which phase it is meant for, counted from the one that the waiter saw last: "test_wait.parity 0 +1".

What an operation means is said by the records of spec.ptx that it stands for; here for any mbarrier of expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx import signals
from sm90_verify.spec.ptx.expr import Expr
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.numbers import WIDTHS
from sm90_verify.spec.ptx.signals import CompleteTx, CpAsyncArrive, OnBarrier
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


def records(one: Operation) -> tuple[OnBarrier, ...]:
    """What the spec has for it, in turn; raises SpecError for an operation that is none on an mbarrier."""
    number, far = one.operand or 0, 0 if one.place == "remote" else -1
    bytes_, count = min(number, COUNT_LIMIT + 1), one.count * one.lanes
    match one.verb:
        case "init":
            return (op.Init("", number, far == 0),) * min(one.lanes, 2)
        case "inval":
            return (op.Inval("", far == 0),)
        case "expect_tx":
            return (op.Transaction("", bytes_, far),)
        case "complete_tx" | "bulk":
            return (CompleteTx(bytes_, far),)
        case "arrive":
            return (op.Arrive("", count, cta=far),)
        case "arrive.expect_tx":
            return (op.Arrive("", one.lanes, bytes_, cta=far),)
        case "arrive.noComplete":
            return (op.Arrive("", count, kind="no_complete", cta=far),)
        case "arrive_drop":
            return (op.Arrive("", count, kind="drop", cta=far),)
        case "arrive_drop.expect_tx":
            return (op.Arrive("", 1, bytes_, "drop", far),)
        case "test_wait.parity":
            return (op.Wait("", number, "test_wait", far == 0),)
        case "try_wait.parity":
            return (op.Wait("", number, "try_wait", far == 0),)
        case "test_wait":
            return (op.Wait("", op.Token(""), "test_wait", far == 0),)
        case "try_wait":
            return (op.Wait("", op.Token(""), "try_wait", far == 0),)
        case "cp.async.mbarrier.arrive":
            return (CpAsyncArrive(), op.Arrive("", cta=far))
        case "cp.async.mbarrier.arrive.noinc":
            return (op.Arrive("", cta=far),)
    raise SpecError(f"the spec of the mbarrier has no {one.verb}")


def step_of(one: Operation, b: Mbarrier, unseen: Expr, age: Expr) -> Step:
    """What the spec says of it. unseen: phases completed since the last that the waiting thread saw; age: phases
    completed since the arrival whose token is tested. An operand too large for the spec's fields raises SpecError.
    """
    whole = Step()
    for record in records(one):
        step = signals.step_of(b, record, unseen=unseen, distance=one.distance or 0, age=age)
        b = b._replace(**{name: value for name, value in step.then.items() if name in WIDTHS})
        whole = Step(
            whole.when & step.when,
            {**whole.then, **step.then},
            whole.completes | step.completes,
            (*whole.illegal, *step.illegal),
        )
    return whole


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
