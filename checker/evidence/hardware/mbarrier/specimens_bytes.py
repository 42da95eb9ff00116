"""Ill-formed sequences: bytes expected and delivered, and waits."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.evidence.hardware.mbarrier.specimens import BYTES, COUNTS, TOO_LARGE, Kind, kind
from sm90_verify.spec.ptx.limits import COUNT_LIMIT


def transactions() -> Iterator[Kind]:
    top = COUNT_LIMIT
    over = [
        (top, 1),
        (top, 2),
        (top, 16),
        (top, top),
        (1, top),
        (16, top),
        (524288, 524288),
        (65536, top),
        (top - 15, 16),
    ]
    over += [(top - 1, 2), (1000000, 100000)]
    yield kind(
        "expect-overflow",
        "the tx-count exceeds 2^20-1",
        [(f"init 1; expect_tx {a}; expect_tx {b}", f"init 1; expect_tx {a}; expect_tx {top - a}") for a, b in over],
    )
    yield kind(
        "complete-underflow",
        "the tx-count falls below -(2^20-1)",
        [
            (f"init 1; complete_tx {a}; complete_tx {b}", f"init 1; complete_tx {a}; complete_tx {top - a}")
            for a, b in over
        ],
    )
    for verb, count in (("arrive.expect_tx", 2), ("arrive_drop.expect_tx", 3)):
        yield kind(
            f"{verb.replace('.', '-')}-overflow",
            "the tx-count exceeds 2^20-1 with an arrival",
            [
                (f"init {count}; expect_tx {a}; {verb} {b}", f"init {count}; expect_tx {a}; {verb} {top - a}")
                for a, b in over
            ],
        )
    for verb in ("expect_tx", "complete_tx", "arrive.expect_tx"):
        yield kind(
            f"{verb.replace('.', '-')}-too-large",
            "more bytes in one operation than the tx-count can hold, from a register",
            [(f"init 2; {verb} {count}", f"init 2; {verb} {top}") for count in TOO_LARGE],
        )
    yield kind(
        "too-many-bytes",
        "more bytes are delivered than expected, and no arrival is pending",
        [
            (
                f"init {n}; expect_tx {b}; arrive {n}; complete_tx {b + more}",
                f"init {n}; expect_tx {b}; arrive {n}; complete_tx {b}",
            )
            for n, b in ((1, 16), (2, 1), (4, 2048), (32, 65536))
            for more in (1, 16, 1024)
        ],
    )
    yield kind(
        "bytes-match-late",
        "expect_tx brings a negative tx-count to 0 while no arrival is pending: does the phase complete?",
        [
            (
                f"init {n}; complete_tx {b}; arrive {n}; expect_tx {b}",
                f"init {n}; complete_tx {b}; expect_tx {b}; arrive {n}",
            )
            for n, b in zip(COUNTS, BYTES)
        ]
        + [
            (
                f"init 2; complete_tx {b}; arrive; arrive; expect_tx {b}",
                f"init 2; complete_tx {b}; arrive; expect_tx {b}; arrive",
            )
            for b in BYTES[:4]
        ],
    )


def waits() -> Iterator[Kind]:
    def phases(n: int, many: int, wait: str) -> str:
        return f"init {n}; " + "".join(f"arrive {n}; {wait.format(k % 2)}; " for k in range(many))

    other = "other test_wait.parity {}"
    yield kind(
        "two-phases-late",
        "a wait for a phase whose successor is over too",
        [
            (f"{phases(n, many, other)}{verb} 0 +1", f"{phases(n, 1, other)}{verb} 0 +1")
            for n, many in ((1, 2), (2, 2), (4, 2), (32, 2), (1, 3), (1, 4))
            for verb in ("test_wait.parity", "try_wait.parity")
        ],
    )
    yield kind(
        "future-phase",
        "a wait for a phase that has not begun",
        [
            (f"init {n}; {verb} {(d + 1) % 2} +{d}", f"init {n}; {verb} 0 +1")
            for n in (1, 4)
            for d in (2, 3, 4)
            for verb in ("test_wait.parity", "try_wait.parity")
        ]
        + [
            (
                f"{phases(n, 1, 'test_wait.parity {}')}test_wait.parity 0 +2",
                f"{phases(n, 1, 'test_wait.parity {}')}test_wait.parity 1 +1",
            )
            for n in (1, 4)
        ],
    )
    yield kind(
        "old-token",
        "a wait with a token two phases old, or older",
        [
            (f"{phases(n, many, 'test_wait.parity {}')}{verb} 1", f"{phases(n, 1, 'test_wait.parity {}')}{verb} 1")
            for n, many in ((1, 2), (2, 2), (4, 2), (32, 2), (1, 3), (1, 4))
            for verb in ("test_wait", "try_wait")
        ],
    )
    yield kind(
        "token-of-another-life",
        "a wait with a token from before the barrier's inval and init",
        [
            (f"init {n}; arrive; inval; init {m}; {verb} 1", f"init {n}; arrive; inval; init {m}; arrive; {verb} 4")
            for n in (1, 2, 4)
            for m in (1, 3)
            for verb in ("test_wait", "try_wait")
        ],
    )
