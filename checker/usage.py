"""The command line's grammar: options with their ranges, one line for every mistake."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NoReturn

from spec.errors import SpecError

MAX_STAGES = 64
MAX_WARPGROUPS = 7
"""A CTA has at most 1024 threads, of which one warpgroup produces."""


class UsageError(SpecError):
    """A command line that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """argparse, with one line instead of the usage and exit 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


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
    value = whole(16, (1 << 20) - 16)(text)
    if value % 16:
        raise argparse.ArgumentTypeError(f"{text}: use a multiple of 16 from 16 to {(1 << 20) - 16}")
    return value


def cluster(text: str) -> str:
    """XxY with at most 16 CTAs."""
    x, _, y = text.partition("x")
    if not (x.isdigit() and y.isdigit()) or not 1 <= int(x) * int(y) <= 16:
        raise argparse.ArgumentTypeError(f"{text}: use XxY with 1 to 16 CTAs, for example 2x1")
    return f"{int(x)}x{int(y)}"


def setting(text: str) -> tuple[str, int | str]:
    """NAME=VALUE, a number where it is one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    return name, int(value) if value.lstrip("-").isdigit() else value


def make_parser() -> Parser:
    """The parser of `verify`."""
    parser = Parser(
        prog="verify", description="Proves that the asynchronous pipelines of Hopper kernels cannot hang or race."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    pipeline = commands.add_parser(
        "pipeline", help="one CUTLASS pipeline class", description="Checks a CUTLASS pipeline class."
    )
    pipeline.add_argument(
        "model",
        nargs="?",
        default="tma-async",
        metavar="CLASS",
        help="tma-async (default), transaction-async, async, tma-store, ordered-sequence",
    )
    pipeline.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help=f"1 to {MAX_STAGES}")
    pipeline.add_argument("--consumers", type=whole(1, MAX_WARPGROUPS), metavar="C", help="consumer warpgroups")
    pipeline.add_argument("--producers", type=whole(1, MAX_WARPGROUPS), metavar="P", help="producers")
    pipeline.add_argument("--cluster", type=cluster, metavar="XxY", help="CTAs of a cluster (1x1), 16 at most")
    pipeline.add_argument(
        "--trips", type=trips, metavar="N", help="a trip count, or forever (default): every trip count"
    )
    pipeline.add_argument("--bytes", type=copy_bytes, metavar="B", help="bytes of a stage, a multiple of 16")
    pipeline.add_argument("--prove", action="store_true", help="with Z3 as well")
    _add_common(pipeline)

    spec = commands.add_parser(
        "spec", help="a pipeline that you wrote", description="Checks pipelines of a Python file."
    )
    spec.add_argument("models", nargs="+", metavar="FILE.py[:CLASS]")
    spec.add_argument("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE")
    spec.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help="short for --set stages=N")
    spec.add_argument("--trips", type=trips, metavar="N", help="short for --set trips=N")
    spec.add_argument("--prove", action="store_true", help="with Z3 as well")
    _add_common(spec)

    log = commands.add_parser("log", help="a CUTLASS synclog", description="Checks sync logs of real kernels.")
    log.add_argument("files", nargs="+", metavar="FILE")
    log.add_argument("--engine", choices=("log",), default="log")
    _add_bounds(log)
    _add_output(log)

    claims = commands.add_parser(
        "claims",
        help="what is said about these pipelines, settled",
        description="Settles claims about these pipelines by running the engines: each holds, is refuted, or depends on"
        " a condition. Exit code 0: all settled, whichever way; 3: some undetermined. With numbers: the runs"
        " and the trace too.",
    )
    claims.add_argument("ids", nargs="*", type=whole(1, 10_000), metavar="ID", help="number of a claim; default: all")
    claims.add_argument("--all", dest="every_step", action="store_true", help="show every step of a counterexample")
    _add_output(claims)

    replay = commands.add_parser("replay", help="a counterexample, step by step", description="Executes a trace again.")
    replay.add_argument("trace", metavar="TRACE.json", help="what --format json wrote")
    _add_output(replay)

    explain = commands.add_parser("explain", help="what a property means", description="Explains a property.")
    explain.add_argument("id", metavar="ID")
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("search", "smt"), default="search", help="search (default) or smt")
    _add_bounds(parser)
    parser.add_argument("--memory", type=whole(1, 4096), default=0, metavar="GIB", help="default: 3/4 of it")
    parser.add_argument(
        "--unreduced", action="store_true", help="search every schedule, even those that nobody can tell apart"
    )
    parser.add_argument("--all", dest="every_step", action="store_true", help="show every step of a counterexample")
    _add_output(parser)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--property", dest="properties", action="append", default=[], metavar="ID", help="default: all")
    parser.add_argument("--limit", type=whole(1, 10**9), default=0, metavar="STATES")
    parser.add_argument("--timeout", type=seconds, default=0.0, metavar="SECONDS")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the result there instead of standard output")
