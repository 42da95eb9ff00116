"""Ill-formed sequences: the lifetime of an mbarrier, and arrivals."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.evidence.hardware.mbarrier.specimens import BYTES, COUNTS, JUNK, PAIRS, TOO_LARGE, USES, Kind, kind
from sm90_verify.spec.ptx.limits import COUNT_LIMIT


def lifetime() -> Iterator[Kind]:
    before = [f"store {junk}; " for junk in (0, *JUNK[3:7])] + [f"init {count}; inval; " for count in COUNTS[1:6]]
    before += ["", "init 4; arrive; inval; ", "init 2; expect_tx 16; inval; "]
    yield kind("init-0", "an arrival count of 0", [(f"{b}init 0", f"{b}init 1") for b in before])
    yield kind(
        "init-too-large",
        "an arrival count above 2^20-1",
        [(f"init {count}", f"init {COUNT_LIMIT}") for count in TOO_LARGE]
        + [(f"init 4; inval; init {TOO_LARGE[0]}", f"init 4; inval; init {COUNT_LIMIT}")],
    )
    yield kind("zeroed", "use before init, of bytes that are 0", [(use, f"init 40; {use}") for use in USES])
    yield kind(
        "junk",
        "use before init, of bytes that are anything",
        [(f"store {JUNK[n % 10]}; {use}", f"store {JUNK[n % 10]}; init 40; {use}") for n, use in enumerate(USES * 2)],
    )
    yield kind(
        "after-inval",
        "use after inval",
        [(f"init {COUNTS[n % 10]}; inval; {use}", f"init 40; inval; init 40; {use}") for n, use in enumerate(USES)],
    )
    yield kind(
        "init-twice",
        "a live barrier, fresh, is initialised again",
        [(f"init {a}; init {b}", f"init {a}; inval; init {b}") for a in (1, 4, 128) for b in (1, 3, 4, COUNT_LIMIT)],
    )
    work = ("arrive", "arrive 2", "expect_tx 16", "complete_tx 16", "arrive 4", "arrive 4; test_wait.parity 0")
    yield kind(
        "init-in-use",
        "a barrier is initialised again in mid-phase, or in a later one",
        [(f"init 4; {w}; init {c}", f"init 4; {w}; inval; init {c}") for w in work for c in (1, 4)],
    )
    yield kind(
        "inval-twice",
        "inval of what is dead",
        [(f"init {count}; inval; inval", f"init {count}; inval") for count in COUNTS],
    )
    yield kind(
        "init-by-several",
        "several threads initialise it",
        [(f"{lanes} lanes init {c}", f"init {c}") for lanes in (2, 3, 4, 16, 32) for c in (1, lanes)],
    )
    live = [f"init {count}; " for count in COUNTS[:4]] + [
        "init 4; arrive; ",
        "init 1; arrive; ",
        "init 2; expect_tx 16; ",
    ]
    rule = "PTX 9.7.13.15: only mbarrier operations may access a live mbarrier object"
    yield kind("store-over-live", "an ordinary store", [(f"{b}store {v}", b) for b in live for v in JUNK[::5]], rule)
    yield kind("load-of-live", "an ordinary load", [(f"{b}load {half}", b) for b in live for half in (0, 1)], rule)


def arrivals() -> Iterator[Kind]:
    few = COUNTS[:7]
    yield kind(
        "underflow",
        "more arrivals than pending",
        [(f"init {a}; arrive {b}", f"init {a}; arrive {a}") for a, b in PAIRS],
    )
    yield kind(
        "one-too-many", "no arrival is pending", [(f"{_full(n)}arrive", f"{_next_phase(n)}arrive") for n in COUNTS]
    )
    lanes = [
        (a, n) for a, n in ((1, 2), (1, 32), (2, 3), (3, 4), (4, 7), (7, 8), (15, 16), (16, 31), (30, 31), (31, 32))
    ]
    yield kind(
        "underflow-by-lanes",
        "more lanes arrive than are pending, while bytes hold the phase back",
        [
            (f"init {a}; expect_tx 16; {n} lanes arrive", f"init {a + n}; expect_tx 16; {n} lanes arrive")
            for a, n in lanes
        ],
    )
    yield kind(
        "lanes-beyond-the-phase",
        "more lanes arrive than the phase expects",
        [(f"init {a}; {n} lanes arrive", f"init {n}; {n} lanes arrive") for a, n in lanes],
    )
    for verb, name in (("arrive.noComplete", "underflow-noComplete"), ("arrive_drop", "underflow-drop")):
        pairs = [(a, b) for a, b in PAIRS if a > 1] + [(5, 6), (9, 10)]
        yield kind(name, "the same", [(f"init {a}; {verb} {b}", f"init {a}; {verb} {a - 1}") for a, b in pairs])
    for verb, name in (
        ("arrive.expect_tx", "one-too-many-expect"),
        ("arrive_drop.expect_tx", "one-too-many-drop-expect"),
    ):
        yield kind(
            name,
            "no arrival is pending",
            [(f"{_full(n)}{verb} {b}", f"init {n + 1}; expect_tx 16; {verb} {b}") for n in few[1:] for b in (0, 16)],
        )
    yield kind(
        "noComplete-completes",
        "arrive.noComplete completes the phase",
        [(f"init {n}; arrive.noComplete {n}", f"init {n + 1}; arrive.noComplete {n}") for n in COUNTS[:-1]]
        + [(f"init {n}; arrive {n - 1}; arrive.noComplete 1", f"init {n}; arrive {n - 1}; arrive") for n in few[1:]],
    )
    yield kind(
        "drop-to-0",
        "no arrival is left for the next phase",
        [(f"init {n}; arrive_drop {n}", f"init {n + 1}; arrive_drop {n}") for n in COUNTS[:-1]]
        + [("init 1; arrive_drop", "init 2; arrive_drop")],
    )
    yield kind(
        "drop-after-drop",
        "the last of several drops leaves no arrival",
        [(f"{_drops(n)}arrive_drop", f"{_drops(n)}arrive") for n in range(2, 8)]
        + [
            (f"{text}arrive_drop", f"{text}arrive")
            for n in range(2, 7)
            for text in (f"{_drops(n)}arrive; test_wait.parity 0; ",)
        ],
    )
    yield kind(
        "drop-expect-to-0",
        "the same, with bytes",
        [(f"init 1; arrive_drop.expect_tx {b}", f"init 2; arrive_drop.expect_tx {b}") for b in (0, *BYTES[:-1])],
    )
    arrivals = [use for use in USES if "arrive" in use] + ["3 lanes arrive", "arrive 40"]
    yield kind(
        "unobserved",
        "an arrival in a phase although nobody has seen the last one complete",
        [(f"init 40; arrive 40; {use}", f"init 40; arrive 40; test_wait.parity 0; {use}") for use in arrivals]
        + [
            (f"{_next_phase(n)}arrive {n}; arrive", f"{_next_phase(n)}arrive {n}; test_wait.parity 1; arrive")
            for n in few[:4]
        ],
    )
    for verb in ("arrive", "arrive.noComplete", "arrive_drop"):
        yield kind(
            f"count-too-large-{verb}",
            "a count above 2^20-1, from a register",
            [(f"init 40; {verb} {count}", f"init 40; {verb} 39") for count in TOO_LARGE],
        )
    dull = ("", "expect_tx 16; ", "complete_tx 16; ", "arrive 0; ", "arrive.noComplete 0; ", "test_wait.parity 1; ")
    duller = ("expect_tx 0; ", "arrive 1048575; test_wait.parity 0; ", "complete_tx 0; ", "expect_tx 1048574; ")
    yield kind(
        "cp-async-overflow",
        "cp.async.mbarrier.arrive would make 2^20 arrivals pending",
        [
            (
                f"init {COUNT_LIMIT}; {d}cp.async.mbarrier.arrive",
                f"init {COUNT_LIMIT}; {d}arrive; cp.async.mbarrier.arrive",
            )
            for d in (*dull, *duller)
        ],
    )
    asynchronous = "cp.async.mbarrier.arrive"
    yield kind(
        "cp-async-edge",
        "cp.async.mbarrier.arrive, which expects a byte and delivers one, at an end of the tx-count's range",
        [
            (f"init {n}; {verb} {COUNT_LIMIT}; {asynchronous}", f"init {n}; {verb} {COUNT_LIMIT - 1}; {asynchronous}")
            for n in (1, 2, 4, 32, 128)
            for verb in ("expect_tx", "complete_tx")
        ],
    )
    yield kind(
        "cp-async-bytes-match",
        "the same where it makes the bytes match for a moment, and no arrival is pending",
        [
            (f"init {n}; {one.format(1)}; {asynchronous}", f"init {n}; {one.format(2)}; {asynchronous}")
            for n in (1, 2, 4, 32, 128)
            for one in (f"complete_tx {{}}; arrive {n}", f"expect_tx {{}}; arrive {n}")
        ],
    )
    yield kind(
        "noinc-one-too-many",
        "no arrival is pending for cp.async.mbarrier.arrive.noinc",
        [
            (f"{_full(n)}cp.async.mbarrier.arrive.noinc", f"{_next_phase(n)}cp.async.mbarrier.arrive.noinc")
            for n in COUNTS
        ],
    )
    yield kind(
        "pending-count",
        "mbarrier.pending_count of the token of an arrival without noComplete",
        [
            (f"init {n}; {verb}; pending_count 1", "")
            for n in (3, 4, 128)
            for verb in ("arrive", "arrive 2", "arrive_drop", "arrive.expect_tx 16")
        ],
        "PTX mbarrier.pending_count: only tokens of arrive.noComplete and arrive_drop.noComplete",
    )


def _full(n: int) -> str:
    """All arrivals have come, and bytes hold the phase back."""
    return f"init {n}; expect_tx 16; arrive {n}; "


def _next_phase(n: int) -> str:
    """The first phase is over, and seen."""
    return f"init {n}; arrive {n}; test_wait.parity 0; "


def _drops(n: int) -> str:
    """Drops leave one arrival."""
    return f"init {n}; " + "arrive_drop; " * (n - 1)
