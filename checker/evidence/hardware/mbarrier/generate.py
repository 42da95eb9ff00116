"""The meaning of the fuzzer's menu as C, generated from spec.ptx.mbarrier: C99 on a host, CUDA on a GPU.

Every entry of the menu becomes a function from the state of the barrier, as the spec has it, to the next state; it says
whether the operation is illegal there, whether it completes the phase and whether a wait passes. Two ghosts belong to
the state: `age`, the phases completed since the arrival whose token is kept, and `unseen`, the phases completed since
the last one that a wait has seen. Neither counts beyond 3, which every rule of the spec treats alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sm90_verify.engines.search.read_c import c_source
from sm90_verify.evidence.hardware.mbarrier.menu import (
    ARRIVALS,
    OTHER_VERBS,
    PLACES,
    PLAIN,
    VERBS,
    Operation,
    meant,
    step_of,
)
from sm90_verify.spec.ptx.expr import Expr, Field, Lit, apply, where
from sm90_verify.spec.ptx.mbarrier import NONE_PENDING, TX_WIDTH, Mbarrier
from sm90_verify.spec.ptx.numbers import WIDTHS
from sm90_verify.spec.ptx.step import saturating_increment, violated

GHOSTS = {"age": 2, "unseen": 2}
STATE = {**WIDTHS, **GHOSTS}
"""The state's fields and their widths."""
NO_TOKEN = 3
ILLEGAL, COMPLETES, PASSES = 1, 2, 4
"""Bits of a step's answer."""


@dataclass(frozen=True)
class Transition:
    """One entry of the menu, as expressions over the fields of STATE and the one-bit field `keep`: whether the token
    that the operation returns takes the place of the one that is kept.
    """

    illegal: Expr
    completes: Expr
    passes: Expr
    after: dict[str, Expr]


def transition(one: Operation, *, cautious: bool = False) -> Transition:
    """What the spec says of an operation, and what follows for the ghosts. cautious: what leaves no arrival pending and
    more bytes delivered than expected counts as illegal too.
    """
    fields = {name: Field(name, width) for name, width in STATE.items()}
    b = Mbarrier(**{name: fields[name] for name in WIDTHS})
    age, unseen = fields["age"], fields["unseen"]
    step = step_of(one, b, unseen, age)
    illegal = violated(step.illegal)
    if cautious and "tx" in step.then:
        pending, sign = step.then.get("pending", b.pending), Lit(1 << TX_WIDTH - 1, TX_WIDTH)
        illegal = illegal | (pending == 0) & ((step.then["tx"] & sign) != 0)
    after = {
        "age": saturating_increment(age, step.completes),
        "unseen": saturating_increment(unseen, step.completes),
        **step.then,
    }
    if one.verb.endswith(".parity"):
        illegal = illegal | ~meant(one, b.phase, unseen)
    elif one.verb in ("test_wait", "try_wait"):
        after["unseen"] = Lit(0, unseen.width)
    elif one.verb == "init":
        after.update(age=Lit(NO_TOKEN, age.width), unseen=Lit(0, unseen.width))
    elif one.has_token:
        own = saturating_increment(Lit(0, age.width), step.completes)
        after["age"] = where(Field("keep", 1), own, after["age"])
    return Transition(
        illegal,
        step.completes,
        step.when,
        {name: where(step.when, after[name], fields[name]) for name in STATE if _changes(after.get(name), name)},
    )


def _changes(expr: Expr | None, name: str) -> bool:
    return expr is not None and not (isinstance(expr, Field) and expr.name == name)


def vocabulary() -> str:
    """The text that goes in front of kernels/mbarrier.cuh: numbers of verbs and places, and struct Operation."""
    return "\n".join(
        [
            _PRELUDE,
            _enum("Verb", VERBS + OTHER_VERBS, "DO"),
            _enum("Place", PLACES, "BY"),
            "typedef struct Operation {",
            "  int verb, plain;  // plain: the form without an operand",
            "  uint32_t operand, count;  // count: of one lane's arrival",
            "  int lanes, place, has_token;",
            "} Operation;",
            "",
        ]
    )


def generated(entries: tuple[Operation, ...], *, cautious: bool = False) -> str:
    """The text that goes in front of kernels/mbarrier_fuzz.cu: the menu, and `step` with the meaning of its entries."""
    functions = [_function(number, one, cautious) for number, one in enumerate(entries)]
    cases = [f"    case {number}: return step_{number}(s, keep);" for number in range(len(entries))]
    return "\n".join(
        [
            f"enum Answer {{ ILLEGAL = {ILLEGAL}, COMPLETES = {COMPLETES}, PASSES = {PASSES} }};",
            f"enum {{ OPERATIONS = {len(entries)}, TX_WIDTH = {TX_WIDTH}, NONE_PENDING = {NONE_PENDING} }};",
            "typedef struct State {",
            *(f"  uint32_t {name};" for name in STATE),
            "} State;",
            _table(entries),
            *functions,
            "FUNCTION unsigned step(int number, State *s, uint64_t keep) {",
            "  switch (number) {",
            *cases,
            "  }",
            "  return ILLEGAL;",
            "}",
            *_groups(entries),
            "",
        ]
    )


_PRELUDE = """\
#if defined(__CUDACC_RTC__)  // which has no <stdint.h>
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
#define UINT64_C(value) value##ull
#else
#include <stdint.h>
#endif
#if defined(__CUDACC__)
#pragma nv_diag_suppress 177, 186  // unused functions; an unsigned number less than 0, as of an arrival that counts 0
#define FUNCTION static __device__ __forceinline__
#define TABLE static __constant__ const
#else
#define FUNCTION static inline
#define TABLE static const
#endif"""


def c_name(word: str) -> str:
    """A verb or a place as part of a C name."""
    return word.replace("'", "").replace(".", "_").upper() or "SELF"


def _enum(name: str, words: Iterable[str], prefix: str) -> str:
    return f"enum {name} {{ {', '.join(f'{prefix}_{c_name(word)}' for word in words)} }};"


def _table(entries: tuple[Operation, ...]) -> str:
    rows = [f"  {{{', '.join(map(str, row(one)))}}}, // {one}" for one in entries]
    return "\n".join([f"TABLE Operation MENU[{len(entries)}] = {{", *rows, "};"])


def row(one: Operation) -> tuple[int, ...]:
    """An operation as the GPU has it: the fields of struct Operation."""
    plain = one.verb in PLAIN and one.operand is None
    place = PLACES.index(one.place)
    verb = (VERBS + OTHER_VERBS).index(one.verb)
    return (verb, int(plain), one.operand or 0, one.count, one.lanes, place, int(one.has_token))


def _function(number: int, one: Operation, cautious: bool) -> str:
    """The C function of one entry; nothing changes where the operation is illegal or its wait does not pass."""
    meaning = transition(one, cautious=cautious)
    answer = apply("or", (_bit(meaning.completes, COMPLETES), _bit(meaning.passes, PASSES)), 3)
    lines = [
        f"FUNCTION unsigned step_{number}(State *s, uint64_t keep) {{  // {one}",
        "  (void)keep;",
        f"  if ({_c(meaning.illegal)}) return ILLEGAL;",
        f"  const unsigned answer = (unsigned){_c(answer)};",
        *(f"  const uint32_t {name} = (uint32_t){_c(expr)};" for name, expr in meaning.after.items()),
        *(f"  s->{name} = {name};" for name in meaning.after),
        "  return answer;",
        "}",
    ]
    return "\n".join(lines)


def _c(expr: Expr) -> str:
    return c_source(expr, lambda name: name if name == "keep" else f"(uint64_t)s->{name}")


def _bit(condition: Expr, bit: int) -> Expr:
    return where(condition, Lit(bit, 3), Lit(0, 3))


def _groups(entries: tuple[Operation, ...]) -> list[str]:
    """Entries by what they are good for, so that the fuzzer's choices can lean towards what completes phases.

    Of the arrivals and the bytes the largest come first.
    """
    numbered = list(enumerate(entries))
    by_size = {
        verb: [n for n, one in sorted(numbered, key=lambda e: -(e[1].operand or 0)) if one.verb == verb]
        for verb in ("init", "expect_tx", "complete_tx")
    }
    arrivals = [(one.count * one.lanes, n) for n, one in numbered if one.verb in ARRIVALS[:2] and one.count]
    waits = {
        verb: [
            next(n for n, one in numbered if (one.verb, one.operand, one.distance) == (verb, parity, distance))
            for parity in (0, 1)
            for distance in (0, 1, 2)
        ]
        for verb in ("test_wait.parity", "try_wait.parity")
    }
    return [
        _array("INITS", by_size["init"]),
        _array("EXPECTS", by_size["expect_tx"]),
        _array("LANDS", by_size["complete_tx"]),
        _array("ARRIVALS", [n for _, n in sorted(arrivals, key=lambda e: (-e[0], e[1]))]),
        _array("TOKEN_WAITS", [n for n, one in numbered if one.verb in ("test_wait", "try_wait")]),
        _array("TESTS", waits["test_wait.parity"]),
        _array("TRIES", waits["try_wait.parity"]),
        f"enum {{ INVAL = {next(n for n, one in numbered if one.verb == 'inval')} }};",
    ]


def _array(name: str, numbers: list[int]) -> str:
    size = len(numbers)
    return f"enum {{ {name}_COUNT = {size} }};\nTABLE int {name}[{size}] = {{{', '.join(map(str, numbers))}}};"
