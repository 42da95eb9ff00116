"""The options of the commands that show what this project claims about itself."""

from __future__ import annotations

import argparse

from sm90_verify.cli.arguments import add_every_step, add_output
from sm90_verify.cli.values import seconds, setting, whole


def record(parser: argparse.ArgumentParser) -> None:
    """Kernels on a GPU."""
    from sm90_verify.spec.cutlass.catalogue import recordable

    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"{', '.join(recordable())}, or FILE.py[:CLASS]")
    parser.add_argument(
        "--by-hand", action="store_true", help="the hand-written kernels of these names, instead of the executor's"
    )
    parser.add_argument("--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--all", dest="everything", action="store_true", help="all kernels and the tables of predictions; -o: a folder"
    )
    parser.add_argument(
        "--runs", type=whole(1, 10_000), default=0, metavar="N", help="of each size (so many that a kernel has 200)"
    )
    parser.add_argument("--seed", type=whole(0, 2**31), default=1, metavar="N", help="of the delays between steps (1)")
    parser.add_argument(
        "--every", type=whole(1, 10_000), default=3, metavar="N", help="with --all: one prediction in N (3)"
    )
    parser.add_argument(
        "--faults", metavar="DIR", default="", help="with --all: also the pairs in CASES of its Python files"
    )
    parser.add_argument("-o", dest="output", metavar="FILE", required=True, help="where the recording goes")


def claims(parser: argparse.ArgumentParser) -> None:
    """The table of claims."""
    parser.add_argument("ids", nargs="*", type=whole(1, 10_000), metavar="ID", help="number of a claim; default: all")
    add_every_step(parser)
    add_output(parser)


def mutants(parser: argparse.ArgumentParser) -> None:
    """The mutation score."""
    from sm90_verify.spec.cutlass.catalogue import rows

    names = ", ".join(row.name for row in rows() if row.mutate)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"{names}, a model's whole label, or FILE.py[:CLASS] (default: all)"
    )
    parser.add_argument(
        "--set", dest="settings", type=setting, action="append", default=[], metavar="NAME=VALUE", help="of FILE.py"
    )
    parser.add_argument("--ptx", default="", metavar="KERNEL.ptx", help="a kernel in PTX, instead of models")
    parser.add_argument("--launch", default="", metavar="FILE", help="of --ptx: a launch file or a core dump")
    parser.add_argument("--kernel", default="", metavar="NAME", help="of --ptx: the .entry, where there are several")
    parser.add_argument(
        "--every",
        dest="nth",
        type=whole(1, 10_000),
        default=1,
        metavar="N",
        help="of --ptx: one edit in N of each operator (1)",
    )
    parser.add_argument("--list", dest="every", action="store_true", help="what became of each mutant")
    parser.add_argument("--dense", action="store_true", help="also at single executions, and by single instances")
    parser.add_argument("--prove", action="store_true", help="ask Z3 about every survivor as well")
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="SECONDS", help="for one proof, or one edit of --ptx (60)"
    )
    parser.add_argument("--processes", type=whole(1, 1024), default=0, metavar="N", help="default: one per core")
    add_output(parser)
