"""What an option's text can be: its range, and one line for every mistake."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT, CLUSTER_LIMIT, COUNT_LIMIT, CTA_THREADS, WARPGROUP

MAX_STAGES = 64
MAX_TRIPS = 10_000
MAX_WARPGROUPS = CTA_THREADS // WARPGROUP - 1
"""Consumers in a CTA: one warpgroup of its threads produces."""
MAX_DIGITS = 100
"""Of a number in a setting; more would be no size of anything, and Python reads 4300 at most."""
MAX_BYTES = COUNT_LIMIT // BULK_ALIGNMENT * BULK_ALIGNMENT


class UsageError(SpecError):
    """A command line that cannot be understood."""


def number(text: str) -> int | None:
    """A whole number in the digits 0 to 9, which are not all that Python reads as one; None for anything else."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None


def whole(low: int, high: int, other: str = "", of: str = "") -> Callable[[str], int]:
    """A whole number from low to high; of: its unit, other: what else could be given, for the line that refuses a
    text.
    """

    def convert(text: str) -> int:
        value = number(text)
        if value is None or not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text}: use a whole number{of} from {low} to {high}{other}")
        return value

    return convert


def seconds(text: str) -> float:
    try:
        value = float(text) if text.isascii() else -1.0
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: use a number of seconds above 0")
    return value


def trips(text: str) -> int | str:
    """A trip count, or "all" for `forever`: every trip count, the one without end included."""
    if text in ("forever", "all"):
        return "all"
    return whole(0, MAX_TRIPS, ", or forever")(text)


def copy_bytes(text: str) -> int:
    value = whole(BULK_ALIGNMENT, MAX_BYTES)(text)
    if value % BULK_ALIGNMENT:
        raise argparse.ArgumentTypeError(
            f"{text}: use a multiple of {BULK_ALIGNMENT} from {BULK_ALIGNMENT} to {MAX_BYTES}"
        )
    return value


def cluster(text: str) -> str:
    """XxY with at most CLUSTER_LIMIT CTAs."""
    first, _, second = text.partition("x")
    x, y = number(first), number(second)
    if x is None or y is None or min(x, y) < 1 or x * y > CLUSTER_LIMIT:
        raise argparse.ArgumentTypeError(f"{text}: use XxY with 1 to {CLUSTER_LIMIT} CTAs, for example 2x1")
    return f"{x}x{y}"


def setting(text: str) -> tuple[str, int | str]:
    """NAME=VALUE, a number, true or false where it is one; stages as --stages takes them."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    if name == "stages" and not 1 <= (number(value) or 0) <= MAX_STAGES:
        raise argparse.ArgumentTypeError(f"{text}: use a whole number from 1 to {MAX_STAGES}")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    found = number(value)
    if found is None and value.removeprefix("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text}: write a number in at most {MAX_DIGITS} digits 0 to 9")
    return name, value if found is None else found


def engines(text: str) -> str:
    """Names of engines joined by "+"."""
    from sm90_verify.engines.table import names_of

    try:
        names_of(text)
    except SpecError as error:
        raise argparse.ArgumentTypeError(error.what) from None
    return text


def tile_shape(text: str) -> tuple[int, int, int]:
    """MxNxK of a CTA tile."""
    sizes = [number(size) or 0 for size in text.split("x")]
    if len(sizes) != 3 or not all(1 <= size <= 1024 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: use MxNxK with sizes from 1 to 1024, for example 128x128x64")
    m, n, k = sizes
    return m, n, k
