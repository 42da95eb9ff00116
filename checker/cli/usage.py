"""The command line's grammar: the commands in two groups, each with the options that its own module gives it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from sm90_verify.cli import arguments, evidence_arguments
from sm90_verify.cli.output import tell
from sm90_verify.cli.values import UsageError


class Command(NamedTuple):
    """A word of `verify`. arguments: gives its parser its options."""

    name: str
    help: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]


CHECKS = (
    Command("pipeline", "one CUTLASS pipeline class", "Checks a CUTLASS pipeline class.", arguments.pipeline),
    Command(
        "epilogue", "the TMA epilogue", "Checks the TMA warp-specialised epilogue of a schedule.", arguments.epilogue
    ),
    Command("mainloop", "the TMA and WGMMA mainloop", "Checks the TMA and WGMMA mainloop.", arguments.mainloop),
    Command(
        "gemm",
        "a whole GEMM kernel",
        "Checks a whole GEMM kernel; what is not given is as CUTLASS's builder chooses it.",
        arguments.gemm,
    ),
    Command("spec", "a pipeline that you wrote", "Checks pipelines of a Python file.", arguments.spec),
    Command(
        "log",
        "a CUTLASS synclog, or what verify record wrote",
        "Checks sync logs and recordings of real kernels.",
        arguments.log,
    ),
    Command(
        "ptx",
        "a kernel's PTX and one launch of it",
        "Checks every schedule of one launch of a kernel that is given as PTX.",
        arguments.ptx,
    ),
    Command(
        "hang",
        "a core dump of a kernel that hangs",
        "Says of a kernel that hangs what its warps wait for, and whether its PTX leads there in some schedule.",
        arguments.hang,
    ),
    Command("replay", "a counterexample, step by step", "Executes a trace again.", arguments.replay),
    Command("explain", "what a property means", "Explains a property.", arguments.explain),
)
"""What a user checks with."""
EVIDENCE = (
    Command(
        "record",
        "what real kernels do, on a Hopper GPU",
        "Runs kernels of the library on a Hopper GPU and writes what each role did; verify log checks it.",
        evidence_arguments.record,
    ),
    Command(
        "claims",
        "what is said about these pipelines, settled",
        "Settles claims about these pipelines by running the engines: each holds, is refuted, or depends on"
        " a condition. Exit code 0: all settled, whichever way; 3: some undetermined. With numbers: the runs"
        " and the trace too.",
        evidence_arguments.claims,
    ),
    Command(
        "mutants",
        "the mutation score",
        "Changes models in many small ways and counts what is noticed.",
        evidence_arguments.mutants,
    ),
)
"""What shows how far these verdicts can be trusted."""


class Parser(argparse.ArgumentParser):
    """argparse, with one line instead of the usage and exit 2. command: its options are added when it is used."""

    def __init__(self, *, command: Command | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._command = command

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:  # type: ignore[override]
        command, self._command = self._command, None
        if command is not None:
            command.arguments(self)
        return super().parse_known_args(args, namespace)

    def print_help(self, file: Any = None) -> None:
        tell(self.format_help().removesuffix("\n"), is_answer=True)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def make_parser() -> Parser:
    """The parser of `verify`."""
    parser = Parser(
        prog="verify",
        usage="verify [-h] COMMAND ...",
        description="Proves that the asynchronous pipelines of Hopper kernels cannot hang or race.",
        epilog="\n\n".join(
            [
                _group("What you check with:", CHECKS),
                _group("What this project shows about itself:", EVIDENCE),
                "  epilogue --frontier: every size of a box of epilogues, against CUTLASS's static assertions",
                "verify COMMAND --help shows the options of a command.",
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(
        prog="verify", dest="command", metavar="COMMAND", help=argparse.SUPPRESS, parser_class=Parser
    )
    for command in (*CHECKS, *EVIDENCE):
        commands.add_parser(command.name, description=command.description, command=command)
    return parser


def _group(title: str, commands: Sequence[Command]) -> str:
    return "\n".join([title, *(f"  {command.name:<10} {command.help}" for command in commands)])
