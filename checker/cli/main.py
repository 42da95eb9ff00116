"""verify: reads the command line, asks the engines, and chooses the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sm90_verify.cli.output import Questions, finish, say, tell, write
from sm90_verify.cli.usage import UsageError, make_parser
from sm90_verify.result import EXIT_CANNOT_RUN, EXIT_CODE, Definition, Result
from sm90_verify.spec.errors import SpecError

if TYPE_CHECKING:
    from sm90_verify.spec.language.pipeline import Pipeline


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `verify`; gives the exit code: 0 proved, 1 violated, 2 could not run, 3 undetermined."""
    try:
        parser = make_parser()
        options = parser.parse_args(arguments)
    except SpecError as error:
        say(error)
        return EXIT_CANNOT_RUN
    try:
        if options.command is None:
            raise UsageError("which command? see verify --help")
        return _COMMANDS[options.command](options)
    except BaseException as error:
        say(error)
    return EXIT_CANNOT_RUN


# ---------------------------------------------------------------- commands


def _pipeline(options: argparse.Namespace) -> int:
    from sm90_verify.spec.cutlass.classes import PIPELINES

    if options.model not in PIPELINES:
        raise UsageError(f"no pipeline class {options.model!r}: use one of {', '.join(PIPELINES)}")
    kernel = PIPELINES[options.model]
    known = kernel.parameter_names()
    settings = {
        name: getattr(options, name)
        for name in ("stages", "consumers", "producers", "cluster", "trips", "bytes")
        if getattr(options, name) is not None
    }
    for name in settings:
        if name not in known:
            raise UsageError(f"--{name}: {options.model} has no {name}")
    shown = ["stages", *(name for name in ("consumers",) if name in known), *(s for s in settings if s != "stages")]
    return finish([_check(kernel, settings, options, tuple(dict.fromkeys(shown)))], options)


def _collective(options: argparse.Namespace) -> int:
    from sm90_verify.cli.collectives import choose, minimal_wait

    if getattr(options, "frontier", False):
        return _frontier(options)
    if getattr(options, "minimal_wait", False):
        return finish([minimal_wait(options)], options)
    kernel, settings, shown = choose(options)
    return finish([_check(kernel, settings, options, shown)], options)


def _frontier(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.frontier.box import Box
    from sm90_verify.evidence.frontier.report import report
    from sm90_verify.evidence.frontier.run import explore_box

    if options.engine != "order":
        raise UsageError(f"--engine {options.engine}: --frontier is decided by order alone: leave --engine out")

    names = ("properties", "limit", "timeout", "memory", "unreduced", "every_step", "void_c", "without")
    for name in names:
        if getattr(options, name):
            option = {"properties": "property", "every_step": "all"}.get(name, name.replace("_", "-"))
            raise UsageError(f"--{option} means nothing to --frontier: leave it out")

    def progress(done: int, of: int) -> None:
        if done % 100 == 0 or done == of:
            print(f"\r{done} of {of} configurations", end="" if done < of else "\n", file=sys.stderr, flush=True)

    sizes = None
    if options.bytes_c or options.bytes_d:
        sizes = (options.bytes_c or options.bytes_d, options.bytes_d or options.bytes_c)
    box = Box().narrowed(
        schedules=options.schedule,
        stages_c=options.stages_c,
        stages_d=options.stages_d,
        delays=options.delay_tma_store,
        reuses=options.reuse_smem_c,
        subtiles=options.subtiles,
        tiles="forever" if options.tiles == "all" else options.tiles,
        bytes=sizes,
    )
    frontier = explore_box(box, processes=options.processes, progress=progress)
    write([report(frontier)], options)
    return EXIT_CODE[frontier.verdict]


def _spec(options: argparse.Namespace) -> int:
    from sm90_verify.frontends.python_file import load_classes

    settings = dict(options.settings)
    for name in ("stages", "trips"):
        if getattr(options, name) is not None:
            settings[name] = getattr(options, name)
    shown = tuple(dict.fromkeys(("stages", *settings)))
    questions = Questions()

    def about_class(kernel: type[Pipeline]) -> Iterable[Result]:
        return [_check(kernel, settings, options, shown)]

    def about_file(path: str, name: str) -> Iterable[Result]:
        for kernel in load_classes(path, name):
            questions.ask(partial(about_class, kernel))
        return ()

    for text in options.models:
        path, _, name = text.partition(":")
        questions.ask(partial(about_file, path, name))
    return questions.finish(options)


def _check(kernel: Any, settings: dict[str, Any], options: argparse.Namespace, shown: tuple[str, ...]) -> Result:
    from sm90_verify.engines.check import check
    from sm90_verify.engines.table import heed, with_engine

    engine = with_engine(options.engine, "smt") if getattr(options, "prove", False) else options.engine
    kept = not options.limit or options.engine_is_given or heed(engine, "limit")
    result = check(
        kernel(**settings),
        command=options.command,
        properties=options.properties,
        engine=engine,
        limit=options.limit if kept else 0,
        timeout=options.timeout,
        memory=options.memory << 30,
        reduced=not options.unreduced,
    )
    file = sys.modules[kernel.__module__].__file__ if options.command == "spec" else None
    definition = None if file is None else Definition(os.path.abspath(file), kernel.__name__)
    return replace(result, shown=shown, definition=definition)


def _log(options: argparse.Namespace) -> int:
    from sm90_verify.frontends.log.check import check_log
    from sm90_verify.recordings.recording import is_recording, read

    def about_file(path: str) -> Iterable[Result]:
        if not is_recording(path):
            return [_bounded(check_log(path), options)]
        from sm90_verify.recordings.held import check_recording

        return [_bounded(check_recording(one), options) for one in read(path)]

    questions = Questions()
    for path in options.files:
        questions.ask(partial(about_file, path))
    return questions.finish(options)


def _record(options: argparse.Namespace) -> int:
    from sm90_verify.gpu.record import record_kernels
    from sm90_verify.recordings.recording import write as write_recordings

    if options.everything == bool(options.kernels):
        raise UsageError("which kernels? name some, or give --all")
    if options.everything:
        from sm90_verify.evidence.hardware.everything import record_all

        record_all(
            options.output,
            lambda text: print(text, file=sys.stderr),
            every=options.every,
            folder_of_faults=options.faults,
        )
        return 0
    if options.by_hand:
        from sm90_verify.evidence.hardware.everything import record_by_hand

        if options.settings:
            raise UsageError("--set: hand-written kernels are recorded at sizes of their own")
        recordings = record_by_hand(options.kernels, runs=options.runs, seed=options.seed)
    else:
        recordings = record_kernels(
            options.kernels, runs=options.runs, seed=options.seed, settings=dict(options.settings)
        )
    write_recordings(recordings, options.output)
    hung = sum(run.hangs for one in recordings for run in one.runs)
    tell(f"verify: RECORDED {sum(len(one.runs) for one in recordings)} runs, {hung} of them hang  {options.output}")
    return 0


def _bounded(result: Result, options: argparse.Namespace) -> Result:
    """The result for the properties that were asked for; open, if the log was longer than the bounds allow."""
    from sm90_verify.result import UNDETERMINED, Finding

    findings = [finding for finding in result.findings if finding.id in options.properties or not options.properties]
    missing = [id for id in options.properties if id not in [finding.id for finding in result.findings]]
    if missing:
        known = ", ".join(finding.id for finding in result.findings)
        raise UsageError(f"--property {missing[0]}: a log shows nothing about it: use one of {known}")
    over = (options.limit and result.states > options.limit) or (options.timeout and result.seconds > options.timeout)
    if over:
        findings = [Finding(finding.id, UNDETERMINED, note="--limit or --timeout was reached") for finding in findings]
    return replace(result, findings=tuple(findings))


def _mutants(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.mutation.report import report
    from sm90_verify.evidence.mutation.run import Options, exit_code, run_all

    proof_timeout = options.timeout if options.prove else 0.0
    scores = run_all(
        Options(
            tuple(options.models),
            options.dense,
            proof_timeout,
            options.processes,
            lambda line: print(line, file=sys.stderr),
        )
    )
    write([report(scores, every=options.every)], options)
    return exit_code(scores)


def _replay(options: argparse.Namespace) -> int:
    from sm90_verify.counterexample.replay import replay

    result = replay(options.trace)
    if options.hardware:
        from sm90_verify.gpu.replay import replay_on_gpu

        result = replay_on_gpu(options.trace, result, options.runs)
    return finish([result], options)


def _claims(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.claims.claim import settle
    from sm90_verify.evidence.claims.report import exit_code, report
    from sm90_verify.evidence.claims.table import chosen

    settled = []
    for claim in chosen(options.ids):
        settled.append(settle(claim))
        print(f"claim {claim.id}: {settled[-1].verdict}", file=sys.stderr)
    write([report(settled, detailed=bool(options.ids), every_step=options.every_step)], options)
    return exit_code(settled)


def _explain(options: argparse.Namespace) -> int:
    from sm90_verify.report.explain import explain

    tell(explain(options.id))
    return 0


_COMMANDS = {
    "pipeline": _pipeline,
    "epilogue": _collective,
    "mainloop": _collective,
    "gemm": _collective,
    "spec": _spec,
    "log": _log,
    "record": _record,
    "claims": _claims,
    "mutants": _mutants,
    "replay": _replay,
    "explain": _explain,
}
