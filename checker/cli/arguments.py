"""The options of the commands with which a user checks something.

Each function gives the parser of a command its arguments; it is called when that command is used, so that help and
mistakes about one command load nothing of the others.
"""

from __future__ import annotations

import argparse

from sm90_verify.cli.values import (
    MAX_STAGES,
    MAX_WARPGROUPS,
    cluster,
    copy_bytes,
    engines,
    seconds,
    setting,
    tile_shape,
    trips,
    whole,
)

DEFAULT_CLASS = "tma-async"
"""What `verify pipeline` checks unless it is told otherwise."""


def pipeline(parser: argparse.ArgumentParser) -> None:
    """One CUTLASS pipeline class."""
    from sm90_verify.spec.cutlass.catalogue import rows

    classes = [row.name for row in rows("pipeline")]
    clusters = ", ".join(row.name for row in rows("pipeline") if row.clusters)
    parser.add_argument(
        "model",
        nargs="?",
        default=DEFAULT_CLASS,
        metavar="CLASS",
        help=", ".join([f"{DEFAULT_CLASS} (default)", *(name for name in classes if name != DEFAULT_CLASS)]),
    )
    parser.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help=f"1 to {MAX_STAGES}")
    parser.add_argument("--consumers", type=whole(1, MAX_WARPGROUPS), metavar="C", help="consumer warpgroups")
    parser.add_argument("--producers", type=whole(1, MAX_WARPGROUPS), metavar="P", help="producers")
    parser.add_argument(
        "--cluster", type=cluster, metavar="XxY", help=f"CTAs of a cluster (1x1), 16 at most: {clusters}"
    )
    parser.add_argument("--trips", type=trips, metavar="N", help="a trip count, or forever (default): every trip count")
    parser.add_argument("--bytes", type=copy_bytes, metavar="B", help="bytes of a stage, a multiple of 16")
    parser.add_argument("--prove", action="store_true", help="with Z3 as well")
    add_redundant(parser)
    add_common(parser)


def epilogue(parser: argparse.ArgumentParser) -> None:
    """CUTLASS's epilogue collective, or a box of its sizes."""
    from sm90_verify.spec.cutlass.collective import SCHEDULES

    parser.add_argument("--schedule", choices=SCHEDULES, help="the kernel that calls it (cooperative)")
    add_epilogue(parser)
    parser.add_argument("--tiles", type=trips, metavar="N", help="output tiles, or forever (default): every number")
    parser.add_argument("--bytes-c", type=copy_bytes, metavar="B", help="bytes of a stage of C (4096)")
    parser.add_argument("--bytes-d", type=copy_bytes, metavar="B", help="bytes of a stage of D (as C)")
    parser.add_argument(
        "--frontier",
        action="store_true",
        help="every configuration of a box of sizes, against CUTLASS's static assertions; options that are given narrow"
        " the box. Exit code 0: all decided, whichever way",
    )
    parser.add_argument("--processes", type=whole(1, 1024), default=0, metavar="N", help="default: one per core")
    add_redundant(parser)
    add_common(parser)


def mainloop(parser: argparse.ArgumentParser) -> None:
    """CUTLASS's mainloop collective."""
    add_mainloop(parser)
    parser.add_argument(
        "--k-tiles", type=trips, metavar="N", help="k-tiles, or forever (default): every number from 1 (rs: 2) on"
    )
    parser.add_argument("--consumers", type=whole(1, MAX_WARPGROUPS), metavar="C", help="consumer warpgroups (1)")
    parser.add_argument("--minimal-wait", action="store_true", help="the largest wait_group<N> that is still safe")
    add_redundant(parser)
    add_common(parser)


def gemm(parser: argparse.ArgumentParser) -> None:
    """A whole kernel."""
    from sm90_verify.spec.cutlass.collective import SCHEDULES

    parser.add_argument("--schedule", choices=SCHEDULES, required=True)
    parser.add_argument("--tile", type=tile_shape, default=(128, 128, 64), metavar="MxNxK", help="f16 (128x128x64)")
    parser.add_argument("--tiles", type=trips, metavar="N", help="output tiles of a CTA, or forever (1)")
    parser.add_argument("--k-tiles", type=whole(0, 10_000), metavar="N", help="k-tiles of each (4)")
    add_mainloop(parser)
    add_epilogue(parser)
    storage = parser.add_mutually_exclusive_group()
    for kind in ("union", "struct"):
        text = f"mainloop and epilogue tensors as a {kind}"
        storage.add_argument(f"--{kind}", dest="storage", action="store_const", const=kind, help=text)
    add_redundant(parser)
    add_common(parser)


def spec(parser: argparse.ArgumentParser) -> None:
    """Pipelines of a Python file."""
    parser.add_argument("models", nargs="+", metavar="FILE.py[:CLASS]")
    parser.add_argument(
        "--set",
        dest="settings",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the class; may be repeated",
    )
    parser.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help="short for --set stages=N")
    parser.add_argument(
        "--trips", type=trips, metavar="N", help="a trip count, as --set trips=N, or forever: every trip count"
    )
    parser.add_argument("--prove", action="store_true", help="with Z3 as well")
    add_redundant(parser)
    add_common(parser)


def log(parser: argparse.ArgumentParser) -> None:
    """Sync logs and recordings."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="plain, or compressed by gzip or xz: see docs/logs.md")
    parser.add_argument(
        "--all-schedules",
        action="store_true",
        help="every schedule of what was logged, with what it leaves out inferred",
    )
    parser.add_argument("--table", action="store_true", help="with --all-schedules: as of verify ptx")
    parser.add_argument(
        "--against",
        nargs=argparse.REMAINDER,
        default=None,
        metavar="MODEL ...",
        help="the last option: whether each warp did what a model does, such as gemm --schedule ws --stages 6",
    )
    add_common(parser)


def ptx(parser: argparse.ArgumentParser) -> None:
    """A launch of a kernel that is given as PTX."""
    parser.add_argument("file", metavar="KERNEL.ptx")
    parser.add_argument(
        "--launch", metavar="FILE", help="a launch file (docs/ptx_launch.md) or a core dump (docs/hang.md)"
    )
    parser.add_argument("--dump-launch", action="store_true", help="write a launch file to fill in, and check nothing")
    parser.add_argument("--table", action="store_true", help="rings of barriers, roles, buffers, and who orders whom")
    parser.add_argument("--emit", default="", metavar="FILE.py", help="write the kernel down for verify spec")
    add_redundant(parser)
    parser.add_argument(
        "--sweep",
        default="",
        metavar="NAME=A..B",
        help="every value of a parameter: its name, or an offset: +8:u32; NAME=A.. for all from A on",
    )
    parser.add_argument("--kernel", default="", metavar="NAME", help="the .entry, where the file has several")
    add_common(parser)


def hang(parser: argparse.ArgumentParser) -> None:
    """A core dump of a kernel that hangs."""
    parser.add_argument("file", metavar="FILE.cudacore", help="plain, or compressed by gzip or xz: see docs/hang.md")
    parser.add_argument("--ptx", default="", metavar="KERNEL.ptx", help="of the kernel that hangs (that in the dump)")
    add_common(parser)


def replay(parser: argparse.ArgumentParser) -> None:
    """A saved counterexample."""
    parser.add_argument("trace", metavar="TRACE.json", help="what --format json wrote")
    parser.add_argument("--hardware", action="store_true", help="on a Hopper GPU as well, with gates at its steps")
    parser.add_argument("--runs", type=whole(1, 100_000), default=100, metavar="N", help="with --hardware (100)")
    add_every_step(parser)
    add_output(parser)


def explain(parser: argparse.ArgumentParser) -> None:
    """A property."""
    from sm90_verify.spec.model.properties import PROPERTIES

    parser.add_argument(
        "id", metavar="ID", nargs="?", default="", help=", ".join(PROPERTIES) + " (all, in a line each)"
    )


# ---------------------------------------------------------------- what several have in common


def add_mainloop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stages", type=whole(1, MAX_STAGES), metavar="N", help="of A and B")
    parser.add_argument("--cluster", type=cluster, metavar="XxY", help="CTAs of a cluster (1x1), 16 at most")
    parser.add_argument("--mmas-in-flight", type=whole(0, 7), metavar="K", help="K_PIPE_MMAS (1)")
    parser.add_argument("--form", choices=("ss", "rs"), help="rs: A through registers (ss)")
    parser.add_argument("--k-blocks", type=whole(1, 64), metavar="N", help="MMA k-iterations of a k-tile, for rs (4)")
    parser.add_argument("--pending", type=whole(0, 7), metavar="N", help="of the wait_group<N> before a release")
    parser.add_argument("--without", action="append", default=[], metavar="PART", help="leave a part out")


def add_epilogue(parser: argparse.ArgumentParser) -> None:
    on_or_off = argparse.BooleanOptionalAction
    parser.add_argument("--stages-c", type=whole(1, MAX_STAGES), metavar="N", help="StagesC")
    parser.add_argument("--stages-d", type=whole(1, 32), metavar="N", help="StagesD")
    parser.add_argument("--reuse-smem-c", action=on_or_off, default=None, help="D over the C that it is made of")
    parser.add_argument("--delay-tma-store", action=on_or_off, default=None, help="store a subtile one later")
    parser.add_argument("--void-c", action="store_true", default=None, help="no source")
    parser.add_argument("--subtiles", type=whole(1, 64), metavar="N", help="epilogue tiles of an output tile")
    if not any("--without" in action.option_strings for action in parser._actions):
        parser.add_argument("--without", action="append", default=[], metavar="PART", help="leave a part out")


def add_common(parser: argparse.ArgumentParser) -> None:
    from sm90_verify.engines.table import DEFAULT, ENGINES

    names = f"{', '.join(ENGINES)}, or several joined by + (order where it decides, search where it does not)"
    parser.add_argument("--engine", type=engines, default=DEFAULT, metavar="NAMES", help=names)
    add_bounds(parser)
    parser.add_argument(
        "--memory",
        type=whole(1, 4096, of=" of GiB"),
        default=0,
        metavar="GIB",
        help="at most, in whole GiB (3/4 of what there is)",
    )
    parser.add_argument(
        "--unreduced", action="store_true", help="search every schedule, even those that nobody can tell apart"
    )
    add_every_step(parser)
    add_output(parser)


def add_redundant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--redundant", action="store_true", help="what the kernel could do without, if it is proved")


def add_every_step(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", dest="every_step", action="store_true", help="show every step of a counterexample")


def add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--property", dest="properties", action="append", default=[], metavar="ID", help="may be repeated (all)"
    )
    parser.add_argument(
        "--limit",
        type=whole(1, 10**9),
        default=0,
        metavar="STATES",
        help="that a search visits (none; 1000000 to look for the shortest trace of what it has found)",
    )
    parser.add_argument("--timeout", type=seconds, default=0.0, metavar="SECONDS", help="of each engine (none)")


def add_output(parser: argparse.ArgumentParser) -> None:
    from sm90_verify.report.formats import FORMATS

    parser.add_argument("--format", choices=tuple(FORMATS), default="text")
    parser.add_argument("-o", dest="output", metavar="FILE", help="write the result there instead of standard output")
