"""What an option's text can be: its range, and one line for every mistake."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT, CLUSTER_LIMIT, COUNT_LIMIT, CTA_THREADS, WARPGROUP

MAX_STAGES = 64
MAX_WARPGROUPS = CTA_THREADS // WARPGROUP - 1
"""Consumers in a CTA: one warpgroup of its threads produces."""
MAX_BYTES = COUNT_LIMIT // BULK_ALIGNMENT * BULK_ALIGNMENT


class UsageError(SpecError):
    """A command line that cannot be understood."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """A whole number from low to high."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: use a whole number from {low} to {high}") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text}: use a whole number from {low} to {high}")
        return value

    return convert


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text}: use a number of seconds above 0")
    return value


def trips(text: str) -> int | str:
    """A trip count, or "all" for `forever`: every trip count, the one without end included."""
    if text in ("forever", "all"):
        return "all"
    return whole(0, 10_000)(text)


def copy_bytes(text: str) -> int:
    value = whole(BULK_ALIGNMENT, MAX_BYTES)(text)
    if value % BULK_ALIGNMENT:
        raise argparse.ArgumentTypeError(
            f"{text}: use a multiple of {BULK_ALIGNMENT} from {BULK_ALIGNMENT} to {MAX_BYTES}"
        )
    return value


def cluster(text: str) -> str:
    """XxY with at most CLUSTER_LIMIT CTAs."""
    x, _, y = text.partition("x")
    if not (x.isdigit() and y.isdigit()) or not 1 <= int(x) * int(y) <= CLUSTER_LIMIT:
        raise argparse.ArgumentTypeError(f"{text}: use XxY with 1 to {CLUSTER_LIMIT} CTAs, for example 2x1")
    return f"{int(x)}x{int(y)}"


def setting(text: str) -> tuple[str, int | str]:
    """NAME=VALUE, a number, true or false where it is one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    return name, int(value) if value.lstrip("-").isdigit() else value


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
    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isdigit() and 1 <= int(size) <= 1024 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: use MxNxK with sizes from 1 to 1024, for example 128x128x64")
    m, n, k = (int(size) for size in sizes)
    return m, n, k


class Given(argparse.Action):
    """Stores a value, and that it was given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values)
        setattr(namespace, f"{self.dest}_is_given", True)
