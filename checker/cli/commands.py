"""The commands of `verify`: reads the command line, asks the engines, and chooses the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sm90_verify.cli.output import Questions, finish, tell
from sm90_verify.cli.progress import progress_line
from sm90_verify.cli.usage import EVIDENCE, make_parser
from sm90_verify.cli.values import UsageError
from sm90_verify.files import must_have_a_folder
from sm90_verify.result import PROVED, Definition, Result

if TYPE_CHECKING:
    from sm90_verify.spec.language.pipeline import Pipeline


def run(arguments: Sequence[str] | None) -> int:
    """What a command line asks for; gives the exit code."""
    try:
        options = make_parser().parse_args(arguments)
    except SystemExit:  # argparse ends the program once it has shown help
        return 0
    if options.command is None:
        raise UsageError("which command? see verify --help")
    for option, name in (("-o", "output"), ("--emit", "emit")):
        path = getattr(options, name, None)
        if path and options.command != "record":
            must_have_a_folder(path, option)
    return _COMMANDS[options.command](options)


# ---------------------------------------------------------------- commands


def _pipeline(options: argparse.Namespace) -> int:
    from sm90_verify.cli.collectives import choose_pipeline

    kernel, settings, shown = choose_pipeline(options)
    return finish([_check(kernel, settings, options, shown)], options)


def _collective(options: argparse.Namespace) -> int:
    from sm90_verify.cli.collectives import asked_of_waits, choose

    if getattr(options, "frontier", False):
        from sm90_verify.cli import evidence

        return evidence.frontier(options)
    if getattr(options, "processes", 0):
        raise UsageError("--processes means nothing without --frontier: leave it out, or add --frontier")
    if getattr(options, "minimal_wait", False):
        from sm90_verify.engines.minimal_wait import minimal_wait

        with progress_line() as progress:
            result = minimal_wait(**asked_of_waits(options), progress=progress)
        return finish([result], options)
    kernel, settings, shown = choose(options)
    return finish([_check(kernel, settings, options, shown)], options)


def _spec(options: argparse.Namespace) -> int:
    from sm90_verify.python_file import load_classes

    settings = dict(options.settings)
    for name in ("stages", "trips"):
        given = getattr(options, name)
        if given is not None and name in settings:
            raise UsageError(f"--{name} {given} and --set {name}={settings[name]}: give one of them")
        if given is not None:
            settings[name] = given
    shown = tuple(dict.fromkeys(("stages", *settings)))
    questions = Questions()

    def about_class(kernel: type[Pipeline]) -> Iterable[Result]:
        return [_check(kernel, settings, options, shown)]

    def about_file(path: str, name: str) -> Iterable[Result]:
        for kernel in load_classes(path, name):
            questions.ask(partial(about_class, kernel))
        return ()

    for text in options.models:
        path, colon, name = text.partition(":")
        if colon and not name:
            raise UsageError(f"{text}: name a class behind the colon, or leave it out for all of the file")
        questions.ask(partial(about_file, path, name))
    return questions.finish(options)


def _bounds(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "limit": options.limit,
        "timeout": options.timeout,
        "memory": options.memory << 30,
        "reduced": not options.unreduced,
    }


def _check(kernel: Any, settings: dict[str, Any], options: argparse.Namespace, shown: tuple[str, ...]) -> Result:
    from sm90_verify.engines.check import check
    from sm90_verify.engines.table import with_engine

    engine = with_engine(options.engine, "smt") if getattr(options, "prove", False) else options.engine
    with progress_line() as progress:
        result = check(
            kernel(**settings),
            command=options.command,
            properties=options.properties,
            engine=engine,
            **_bounds(options),
            progress=progress,
        )
        if options.redundant and result.verdict == PROVED:
            from sm90_verify.decide.redundant_lines import with_redundant

            asked = {"properties": options.properties, "engine": options.engine, **_bounds(options)}
            result = with_redundant(result, kernel, settings, progress=progress, **asked)
    file = sys.modules[kernel.__module__].__file__ if options.command == "spec" else None
    definition = None if file is None else Definition(os.path.abspath(file), kernel.__name__)
    return replace(result, shown=shown, definition=definition)


def _log(options: argparse.Namespace) -> int:
    from sm90_verify.cli.logs import about_logs

    return about_logs(options)


def _ptx(options: argparse.Namespace) -> int:
    from sm90_verify.decide.ptx import check_ptx

    if options.dump_launch:
        return _dump_launch(options)
    if options.launch is None:
        raise UsageError("which launch? give --launch LAUNCH.json; --dump-launch writes one to fill in")
    with progress_line() as progress:
        result = check_ptx(
            options.file,
            options.launch,
            kernel=options.kernel,
            sweep=options.sweep,
            table=options.table,
            redundancy=options.redundant,
            emit=options.emit,
            properties=options.properties,
            engine=options.engine,
            **_bounds(options),
            progress=progress,
        )
    return finish([result], options)


def _dump_launch(options: argparse.Namespace) -> int:
    from sm90_verify.decide.template import launch_template
    from sm90_verify.files import write_whole
    from sm90_verify.frontends.ptx.read import kernel_named, read_module

    module = read_module(options.file)
    text = launch_template(module, kernel_named(module, options.kernel))
    if options.output:
        write_whole(options.output, text.encode())
    else:
        tell(text.rstrip(), is_answer=True)
    return 0


def _hang(options: argparse.Namespace) -> int:
    from sm90_verify.decide.hang import check_hang

    others = [one for one in options.properties if one != "deadlock"]
    if others:
        raise UsageError(f"--property {others[0]}: a hang is about deadlock alone: ask verify ptx with --launch")
    with progress_line() as progress:
        result = check_hang(
            options.file,
            ptx=options.ptx,
            engine=options.engine,
            **_bounds(options),
            progress=progress,
        )
    return finish([result], options)


def _replay(options: argparse.Namespace) -> int:
    import shlex

    from sm90_verify.counterexample.replay import replay

    result = replay(options.trace)
    again = f"verify replay {shlex.quote(options.trace)}"
    if options.hardware:
        from sm90_verify.gpu.replay import replay_on_gpu

        result = replay_on_gpu(options.trace, result, options.runs)
    return finish([result], options, again)


def _explain(options: argparse.Namespace) -> int:
    from sm90_verify.report.explain import explain, properties_in_lines

    tell(explain(options.id) if options.id else properties_in_lines(), is_answer=True)
    return 0


def _evidence(options: argparse.Namespace) -> int:
    from sm90_verify.cli import evidence

    return evidence.COMMANDS[options.command](options)


_COMMANDS = {
    "pipeline": _pipeline,
    "epilogue": _collective,
    "mainloop": _collective,
    "gemm": _collective,
    "spec": _spec,
    "log": _log,
    "ptx": _ptx,
    "hang": _hang,
    "replay": _replay,
    "explain": _explain,
    **dict.fromkeys((command.name for command in EVIDENCE), _evidence),
}
