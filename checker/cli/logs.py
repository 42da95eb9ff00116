"""The command log: one run that was recorded, every schedule of what it shows, or what it did beside a model."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial

from sm90_verify.cli.output import Questions
from sm90_verify.cli.progress import progress_line
from sm90_verify.cli.values import UsageError
from sm90_verify.engines.table import DEFAULT
from sm90_verify.recordings.recording import is_recording
from sm90_verify.result import Result

MODELS = ("gemm", "mainloop", "epilogue", "pipeline")
"""What a log can be held against."""

ANSWERED = {
    "output": "-o",
    "format": "--format",
    "properties": "--property",
    "limit": "--limit",
    "timeout": "--timeout",
    "memory": "--memory",
    "engine": "--engine",
    "unreduced": "--unreduced",
    "every_step": "--all",
    "redundant": "--redundant",
}
"""Options of a model that say how it is answered, and not what it is."""


def about_logs(options: argparse.Namespace) -> int:
    """Answers about each file; gives the exit code."""
    if options.all_schedules and options.against is not None:
        raise UsageError("--all-schedules and --against ask different things: give one of them")
    if options.all_schedules:
        about = _all_schedules
    elif options.against is not None:
        about = _against
    else:
        about = _one_run
    if not options.all_schedules:
        _must_mean_something(options)
    questions = Questions()
    for path in options.files:
        questions.ask(partial(about, options, path))
    return questions.finish(options)


def _must_mean_something(options: argparse.Namespace) -> None:
    if options.against is not None and (options.properties or options.limit or options.timeout):
        raise UsageError("--property, --limit and --timeout mean nothing with --against: leave them out")
    given = {
        "--table": options.table,
        "--engine": options.engine != DEFAULT,
        "--memory": options.memory,
        "--unreduced": options.unreduced,
    }
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} means nothing without --all-schedules: leave it out, or add --all-schedules")


def _one_run(options: argparse.Namespace, path: str) -> Iterable[Result]:
    from sm90_verify.frontends.bounds import bounded
    from sm90_verify.frontends.log.check import check_log
    from sm90_verify.recordings.recording import read

    bounded_by = partial(bounded, properties=options.properties, limit=options.limit, timeout=options.timeout)
    if not is_recording(path):
        return [bounded_by(check_log(path))]
    from sm90_verify.recordings.acceptance import check_recording

    return [bounded_by(check_recording(one)) for one in read(path)]


def _all_schedules(options: argparse.Namespace, path: str) -> Iterable[Result]:
    from sm90_verify.decide.log import check_log_schedules

    _must_be_a_synclog(path, "--all-schedules", "the model that it is of")
    with progress_line() as progress:
        return [
            check_log_schedules(
                path,
                table=options.table,
                properties=options.properties,
                engine=options.engine,
                limit=options.limit,
                timeout=options.timeout,
                memory=options.memory << 30,
                reduced=not options.unreduced,
                progress=progress,
            )
        ]


def _against(options: argparse.Namespace, path: str) -> Iterable[Result]:
    from sm90_verify.cli.collectives import choose, choose_pipeline
    from sm90_verify.cli.usage import make_parser
    from sm90_verify.decide.against import check_against

    words = options.against
    if not words or words[0] not in MODELS:
        raise UsageError(f"--against: name a model: {', '.join(MODELS)}, and its options behind it")
    _must_be_a_synclog(path, "--against", "the model that it is of")
    asked = make_parser().parse_args(words)
    usual = make_parser().parse_args([words[0], *(["--schedule", "ws"] if words[0] == "gemm" else [])])
    for name, option in ANSWERED.items():
        if getattr(asked, name) != getattr(usual, name):
            raise UsageError(f"{option} behind --against would be the model's: put it before --against")
    kernel, settings, _ = choose_pipeline(asked) if asked.command == "pipeline" else choose(asked)
    return [check_against(path, kernel(**settings))]


def _must_be_a_synclog(path: str, option: str, instead: str) -> None:
    if is_recording(path):
        raise UsageError(f"{option}: {path} is a recording of verify record: ask about {instead}")
