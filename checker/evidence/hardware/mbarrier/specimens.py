"""Ill-formed sequences of operations on an mbarrier, by kind: what one is, and what the kinds are made of.

A sequence is written as in evidence.hardware.mbarrier.menu, its operations separated by semicolons; the last one is
wrong. Its twin is a sequence as like it as can be that nothing is wrong with. Where the mbarrier of the spec cannot
express what is wrong (an address, a copy's size, the end of a CTA), the kind names the rule of PTX. Kinds whose rule is
LEGAL are legal by the spec, and are kept because it looks as if hardware might not agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sm90_verify.spec.ptx.limits import COUNT_LIMIT

COUNTS = (1, 2, 3, 4, 7, 32, 128, 1000, 65535, COUNT_LIMIT)
BYTES = (1, 2, 15, 16, 32, 1024, 2048, 4096, 65536, COUNT_LIMIT)
JUNK = (1, 2, 255, 4096, 305419896, 1048576, 2147483648, 2863311530, 4026531840, 4294967295)
USES = (
    "inval",
    "expect_tx 16",
    "complete_tx 16",
    "arrive",
    "arrive 2",
    "arrive.expect_tx 16",
    "arrive.noComplete 1",
    "arrive_drop",
    "arrive_drop.expect_tx 16",
    "test_wait.parity 0",
    "test_wait.parity 1",
    "try_wait.parity 1",
    "cp.async.mbarrier.arrive",
    "cp.async.mbarrier.arrive.noinc",
)
REMOTE_USES = (
    "remote arrive",
    "remote arrive 2",
    "remote arrive.expect_tx 16",
    "remote arrive_drop",
    "remote arrive_drop.expect_tx 16",
    "remote expect_tx 16",
    "remote complete_tx 16",
)
PAIRS = ((1, 2), (1, 3), (2, 3), (2, 32), (3, 5), (4, 128), (7, 8), (32, 33), (128, 65535), (1000, COUNT_LIMIT))
"""A count, and one that is too large for it."""
TOO_LARGE = (
    *(COUNT_LIMIT + more for more in (1, 2, 3, 8, 4096, COUNT_LIMIT, COUNT_LIMIT + 1)),
    *(1 << 24, 1 << 31, (1 << 32) - 1),
)
LEGAL = "legal"


@dataclass(frozen=True)
class Specimen:
    """operations, of which the last is ill-formed; twin: legal ones, none where there is nothing alike."""

    operations: tuple[str, ...]
    twin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """what: in words. rule: of PTX, where the spec of the mbarrier cannot express it; LEGAL: nothing is wrong."""

    name: str
    what: str
    specimens: tuple[Specimen, ...]
    rule: str = ""


def kind(name: str, what: str, pairs: Iterable[tuple[str, str]], rule: str = "") -> Kind:
    """A kind from its sequences, each with its twin."""
    return Kind(name, what, tuple(Specimen(_split(wrong), _split(twin)) for wrong, twin in pairs), rule)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split("; ") if part)
