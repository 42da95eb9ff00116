"""The command line's grammar: options with their ranges, one line for every mistake."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from sm90_verify.engines.table import ENGINES, names_of
from sm90_verify.report.formats import FORMATS
from sm90_verify.spec.errors import SpecError

MAX_STAGES = 64
SCHEDULES = ("ws", "cooperative", "pingpong")
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
    """NAME=VALUE, a number, true or false where it is one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    if value.lower() in ("true", "false"):
        return name, value.lower() == "true"
    return name, int(value) if value.lstrip("-").isdigit() else value


def engines(text: str) -> str:
    """Names of engines joined by "+"."""
    try:
        names_of(text)
    except SpecError as error:
        raise argparse.ArgumentTypeError(error.what) from None
    return text


class _Given(argparse.Action):
    """Stores a value, and that it was given."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, values)
        setattr(namespace, f"{self.dest}_is_given", True)


def tile_shape(text: str) -> tuple[int, int, int]:
    """MxNxK of a CTA tile."""
    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isdigit() and 1 <= int(size) <= 1024 for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: use MxNxK with sizes from 1 to 1024, for example 128x128x64")
    m, n, k = (int(size) for size in sizes)
    return m, n, k


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
        help="tma-async (default), transaction-async, async, tma-store, ordered-sequence, launch-control",
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

    _add_collectives(commands)

    spec = commands.add_parser(
        "spec", help="a pipeline that you wrote", description="Checks pipelines of a Python file."
    )
    spec.add_argument("models", nargs="+", metavar="FILE.py[:CLASS]")
    spec.add_argument("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE")
    spec.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help="short for --set stages=N")
    spec.add_argument("--trips", type=trips, metavar="N", help="short for --set trips=N")
    spec.add_argument("--prove", action="store_true", help="with Z3 as well")
    _add_common(spec)

    log = commands.add_parser(
        "log",
        help="a CUTLASS synclog, or what verify record wrote",
        description="Checks sync logs and recordings of real kernels.",
    )
    log.add_argument("files", nargs="+", metavar="FILE")
    log.add_argument("--engine", choices=("log",), default="log")
    _add_bounds(log)
    _add_output(log)

    record = commands.add_parser(
        "record",
        help="what real kernels do, on a Hopper GPU",
        description="Runs kernels of the library on a Hopper GPU and writes what each role did; verify log checks it.",
    )
    record.add_argument(
        "kernels", nargs="*", metavar="KERNEL", help="tma-async, epilogue, gemm-pingpong, ..., or FILE.py[:CLASS]"
    )
    record.add_argument(
        "--by-hand", action="store_true", help="the hand-written kernels of these names, instead of the executor's"
    )
    record.add_argument("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE")
    record.add_argument(
        "--all", dest="everything", action="store_true", help="all kernels and the tables of predictions; -o: a folder"
    )
    record.add_argument(
        "--runs", type=whole(1, 10_000), default=0, metavar="N", help="of each size (so many that a kernel has 200)"
    )
    record.add_argument("--seed", type=whole(0, 2**31), default=1, metavar="N", help="of the delays between steps (1)")
    record.add_argument(
        "--every", type=whole(1, 10_000), default=3, metavar="N", help="with --all: one prediction in N (3)"
    )
    record.add_argument(
        "--faults", metavar="DIR", default="", help="with --all: also the pairs in CASES of its Python files"
    )
    record.add_argument("-o", dest="output", metavar="FILE", required=True, help="where the recording goes")

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
    replay.add_argument("--hardware", action="store_true", help="on a Hopper GPU as well, with gates at its steps")
    replay.add_argument("--runs", type=whole(1, 100_000), default=100, metavar="N", help="with --hardware (100)")
    _add_output(replay)

    mutants = commands.add_parser(
        "mutants",
        help="the mutation score",
        description="Changes models in many small ways and counts what is noticed.",
    )
    mutants.add_argument("models", nargs="*", metavar="MODEL", help="a model's name, or its whole label (default: all)")
    mutants.add_argument("--list", dest="every", action="store_true", help="what became of each mutant")
    mutants.add_argument("--dense", action="store_true", help="also at single executions, and by single instances")
    mutants.add_argument("--prove", action="store_true", help="ask Z3 about every survivor as well")
    mutants.add_argument("--timeout", type=seconds, default=60.0, metavar="SECONDS", help="for one proof (60)")
    mutants.add_argument("--processes", type=whole(1, 1024), default=0, metavar="N", help="default: one per core")
    _add_output(mutants)

    explain = commands.add_parser("explain", help="what a property means", description="Explains a property.")
    explain.add_argument("id", metavar="ID")
    return parser


def _add_collectives(commands: Any) -> None:
    """epilogue, mainloop and gemm: CUTLASS's collectives and the kernels made of them."""
    epilogue = commands.add_parser(
        "epilogue", help="the TMA epilogue", description="Checks the TMA warp-specialised epilogue of a schedule."
    )
    epilogue.add_argument("--schedule", choices=SCHEDULES, help="the kernel that calls it (cooperative)")
    _add_epilogue(epilogue)
    epilogue.add_argument("--tiles", type=trips, metavar="N", help="output tiles, or forever (default): every number")
    epilogue.add_argument("--bytes-c", type=copy_bytes, metavar="B", help="bytes of a stage of C (4096)")
    epilogue.add_argument("--bytes-d", type=copy_bytes, metavar="B", help="bytes of a stage of D (as C)")
    epilogue.add_argument(
        "--frontier",
        action="store_true",
        help="every configuration of a box of sizes, against CUTLASS's static assertions; options that are given narrow"
        " the box. Exit code 0: all decided, whichever way",
    )
    epilogue.add_argument("--processes", type=whole(1, 1024), default=0, metavar="N", help="default: one per core")
    _add_common(epilogue, "order")

    mainloop = commands.add_parser(
        "mainloop", help="the TMA and WGMMA mainloop", description="Checks the TMA and WGMMA mainloop."
    )
    _add_mainloop(mainloop)
    mainloop.add_argument(
        "--k-tiles", type=trips, metavar="N", help="k-tiles, or forever (default): every number from 1 (rs: 2) on"
    )
    mainloop.add_argument("--consumers", type=whole(1, MAX_WARPGROUPS), metavar="C", help="consumer warpgroups (1)")
    mainloop.add_argument("--minimal-wait", action="store_true", help="the largest wait_group<N> that is still safe")
    _add_common(mainloop)

    gemm = commands.add_parser(
        "gemm",
        help="a whole GEMM kernel",
        description="Checks a whole GEMM kernel; what is not given is as CUTLASS's builder chooses it.",
    )
    gemm.add_argument("--schedule", choices=SCHEDULES, required=True)
    gemm.add_argument("--tile", type=tile_shape, default=(128, 128, 64), metavar="MxNxK", help="f16 (128x128x64)")
    gemm.add_argument("--tiles", type=trips, metavar="N", help="output tiles of a CTA, or forever (1)")
    gemm.add_argument("--k-tiles", type=whole(0, 10_000), metavar="N", help="k-tiles of each (4)")
    _add_mainloop(gemm)
    _add_epilogue(gemm)
    storage = gemm.add_mutually_exclusive_group()
    for kind in ("union", "struct"):
        text = f"mainloop and epilogue tensors as a {kind}"
        storage.add_argument(f"--{kind}", dest="storage", action="store_const", const=kind, help=text)
    _add_common(gemm, "order")


def _add_mainloop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help="of A and B")
    parser.add_argument("--cluster", type=cluster, metavar="XxY", help="CTAs of a cluster (1x1), 16 at most")
    parser.add_argument("--mmas-in-flight", type=whole(0, 7), metavar="K", help="K_PIPE_MMAS (1)")
    parser.add_argument("--form", choices=("ss", "rs"), help="rs: A through registers (ss)")
    parser.add_argument("--k-blocks", type=whole(1, 64), metavar="N", help="MMA k-iterations of a k-tile, for rs (4)")
    parser.add_argument("--pending", type=whole(0, 7), metavar="N", help="of the wait_group<N> before a release")
    parser.add_argument("--without", action="append", default=[], metavar="PART", help="leave a part out")


def _add_epilogue(parser: argparse.ArgumentParser) -> None:
    on_or_off = argparse.BooleanOptionalAction
    parser.add_argument("--stages-c", type=whole(1, MAX_STAGES), metavar="N", help="StagesC")
    parser.add_argument("--stages-d", type=whole(1, 32), metavar="N", help="StagesD")
    parser.add_argument("--reuse-smem-c", action=on_or_off, default=None, help="D over the C that it is made of")
    parser.add_argument("--delay-tma-store", action=on_or_off, default=None, help="store a subtile one later")
    parser.add_argument("--void-c", action="store_true", default=None, help="no source")
    parser.add_argument("--subtiles", type=whole(1, 64), metavar="N", help="epilogue tiles of an output tile")
    if not any("--without" in action.option_strings for action in parser._actions):
        parser.add_argument("--without", action="append", default=[], metavar="PART", help="leave a part out")


def _add_common(parser: argparse.ArgumentParser, engine: str = "search") -> None:
    names = f"{', '.join(ENGINES)}, or several joined by + ({engine})"
    parser.add_argument("--engine", action=_Given, type=engines, default=engine, metavar="NAMES", help=names)
    parser.set_defaults(engine_is_given=False)
    _add_bounds(parser)
    parser.add_argument(
        "--memory", type=whole(1, 4096), default=0, metavar="GIB", help="of a search (default: 3/4 of what there is)"
    )
    parser.add_argument(
        "--unreduced", action="store_true", help="search every schedule, even those that nobody can tell apart"
    )
    parser.add_argument("--all", dest="every_step", action="store_true", help="show every step of a counterexample")
    _add_output(parser)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--property", dest="properties", action="append", default=[], metavar="ID", help="default: all")
    parser.add_argument("--limit", type=whole(1, 10**9), default=0, metavar="STATES", help="that a search visits")
    parser.add_argument("--timeout", type=seconds, default=0.0, metavar="SECONDS")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=tuple(FORMATS), default="text")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the result there instead of standard output")
