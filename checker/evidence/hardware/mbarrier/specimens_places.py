"""Ill-formed sequences: other CTAs of the cluster, addresses and bulk copies; and legal ones that are doubted."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.evidence.hardware.mbarrier.specimens import BYTES, COUNTS, LEGAL, PAIRS, REMOTE_USES, USES, Kind, kind
from sm90_verify.spec.ptx.limits import COUNT_LIMIT


def other_ctas() -> Iterator[Kind]:
    uses = [(use, junk) for junk in ("", "store 305419896; ") for use in REMOTE_USES]
    yield kind(
        "remote-before-init", "by another CTA before init", [(f"{j}{use}", f"{j}init 40; {use}") for use, j in uses]
    )
    yield kind(
        "remote-after-inval",
        "by another CTA after inval",
        [(f"init {n}; inval; {use}", f"init {n + 40}; {use}") for n in (1, 4) for use in REMOTE_USES],
    )
    yield kind(
        "remote-underflow",
        "by another CTA",
        [(f"init {a}; remote arrive {b}", f"init {a}; remote arrive {a}") for a, b in PAIRS],
    )
    yield kind(
        "remote-drop-to-0",
        "by another CTA",
        [(f"init {n}; remote arrive_drop {n}", f"init {n + 1}; remote arrive_drop {n}") for n in COUNTS[:-1]]
        + [("init 1; remote arrive_drop.expect_tx 16", "init 2; remote arrive_drop.expect_tx 16")],
    )
    top = COUNT_LIMIT
    yield kind(
        "remote-overflow",
        "the tx-count leaves its range by what another CTA does",
        [
            (f"init 2; {verb} {a}; remote {verb} {b}", f"init 2; {verb} {a}; remote {verb} {top - a}")
            for verb in ("expect_tx", "complete_tx")
            for a, b in ((top, 1), (1, top), (16, top), (524288, 524288), (top - 15, 16))
        ],
    )
    live = [f"init {n}; " for n in COUNTS[3:]] + [
        "init 4; arrive; ",
        "init 4; expect_tx 16; ",
        "init 4; complete_tx 16; ",
    ]
    for verb, twin in (
        ("init 4", "inval; init 4"),
        ("inval", "inval"),
        ("test_wait.parity 0", "test_wait.parity 0"),
        ("try_wait.parity 1", "try_wait.parity 1"),
        ("arrive.noComplete 1", "arrive.noComplete 1"),
    ):
        name = f"remote-{verb.split(' ')[0].replace('.', '-')}"
        what = "what has no form for the barrier of another CTA, by its generic address"
        yield kind(name, what, [(f"{b}remote {verb}", f"{b}{twin}") for b in live])
    afar = [use.replace("remote", "peer's") for use in REMOTE_USES] + [
        "peer's arrive 3",
        "peer's expect_tx 2048",
        "peer's arrive.expect_tx 0",
    ]
    yield kind(
        "exited-cta",
        "an operation on the barrier of a CTA that has exited",
        [(f"init 1; peer init 4; peer exit; {use}", "") for use in afar],
        "PTX shared::cluster: the shared memory of a CTA exists until the CTA exits",
    )


def addresses() -> Iterator[Kind]:
    aligned = "PTX 9.7.13.15: an mbarrier object is aligned to 8 bytes"
    yield kind(
        "misaligned",
        "a barrier at an address that is no multiple of 8",
        [(f"align {at}; init {n}", f"align 8; init {n}") for at in (4, 1, 2, 6, 12, 20) for n in (1, 4)],
        aligned,
    )
    yield kind(
        "misaligned-use",
        "an operation 4 bytes beside its barrier",
        [(f"init 40; align 4; {use}", f"init 40; {use}") for use in USES],
        aligned,
    )
    copy = "PTX 9.7.9.25.4: size and addresses of a bulk copy are multiples of 16"
    begin = "init 1; arrive.expect_tx 32; "
    sizes = (1, 2, 3, 4, 8, 12, 15, 17, 20, 24, 28, 31)
    yield kind(
        "bulk-size", "a size that is no multiple of 16", [(f"{begin}bulk {n}", f"{begin}bulk 32") for n in sizes], copy
    )
    for side in ("source", "target"):
        yield kind(
            f"bulk-{side}",
            f"a {side} that is no multiple of 16",
            [
                (f"{begin}bulk.{side} {n}; bulk 32", f"{begin}bulk.{side} 16; bulk 32")
                for n in (1, 2, 3, 4, 6, 8, 12, 15, 20, 24)
            ],
            copy,
        )
    yield kind(
        "bulk-dead",
        "a bulk copy that signals a dead barrier",
        [
            (f"{dead}bulk {n}", f"{begin}bulk 32")
            for dead in ("", "store 305419896; ", "init 1; inval; ")
            for n in (16, 32, 1024, 4096)
        ],
    )
    yield kind(
        "bulk-too-many-bytes",
        "a bulk copy of more bytes than are expected, and no arrival is pending",
        [
            (f"init 1; arrive.expect_tx {a}; bulk {b}", f"init 1; arrive.expect_tx {b}; bulk {b}")
            for a in (16, 48, 1008)
            for b in (1024, 2048, 4096, 1040)
        ],
    )


def legal() -> Iterator[Kind]:
    yield kind(
        "legal-last-arrival-early",
        "the last arrival comes while more bytes are delivered than expected; others are expected later",
        [
            (f"init {n}; complete_tx {b}; arrive {n}; expect_tx {2 * b}; complete_tx {b}", "")
            for n, b in zip(COUNTS, (*BYTES[:9], 5))
        ],
        LEGAL,
    )
    yield kind(
        "legal-count-0",
        "arrivals that count 0",
        [
            (f"init 4; {b}{verb} 0", "")
            for b in ("", "expect_tx 16; arrive 4; ", "arrive 4; test_wait.parity 0; ", "arrive 4; ")
            for verb in ("arrive", "arrive.noComplete", "arrive_drop")
        ],
        LEGAL,
    )
