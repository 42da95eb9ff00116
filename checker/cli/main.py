"""verify: reads the command line, asks the engines, writes the answer whole or not at all, and chooses the exit
code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from sm90_verify.cli.usage import UsageError, make_parser
from sm90_verify.files import write_whole
from sm90_verify.result import EXIT_CANNOT_RUN, EXIT_CODE, Result
from sm90_verify.spec.errors import SpecError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `verify`; gives the exit code: 0 proved, 1 violated, 2 could not run, 3 undetermined."""
    try:
        parser = make_parser()
        options = parser.parse_args(arguments)
        if options.command is None:
            raise UsageError("which command? see verify --help")
        return _COMMANDS[options.command](options)
    except SpecError as error:
        print(f"verify: error: {error}", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("verify: error: interrupted", file=sys.stderr)
    except Exception as error:
        message = " ".join(str(error).split())
        print(f"verify: error: internal error, {type(error).__name__}: {message}", file=sys.stderr)
        if os.environ.get("VERIFY_TRACEBACK"):
            raise
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
    return _finish([_check(kernel, settings, options, tuple(dict.fromkeys(shown)))], options)


def _collective(options: argparse.Namespace) -> int:
    from sm90_verify.cli.collectives import choose, minimal_wait

    if getattr(options, "frontier", False):
        return _frontier(options)
    if getattr(options, "minimal_wait", False):
        return _finish([minimal_wait(options)], options)
    kernel, settings, shown = choose(options)
    return _finish([_check(kernel, settings, options, shown)], options)


def _frontier(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.frontier.box import Box
    from sm90_verify.evidence.frontier.report import text, to_json
    from sm90_verify.evidence.frontier.run import explore_box

    if options.engine != "order":
        raise UsageError(f"--engine {options.engine}: --frontier is decided by order alone: leave --engine out")

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
    _write(text(frontier) if options.format == "text" else json.dumps(to_json(frontier), indent=1), options.output)
    return EXIT_CODE[frontier.verdict]


def _spec(options: argparse.Namespace) -> int:
    from sm90_verify.frontends.python_file import load_classes

    settings = dict(options.settings)
    for name in ("stages", "trips"):
        if getattr(options, name) is not None:
            settings[name] = getattr(options, name)
    results = []
    for text in options.models:
        path, _, name = text.partition(":")
        for kernel in load_classes(path, name):
            results.append(_check(kernel, settings, options, tuple(dict.fromkeys(("stages", *settings)))))
    return _finish(results, options)


def _check(kernel: Any, settings: dict[str, Any], options: argparse.Namespace, shown: tuple[str, ...]) -> Result:
    from dataclasses import replace

    from sm90_verify.engines.check import check
    from sm90_verify.engines.table import with_engine

    result = check(
        kernel(**settings),
        command=options.command,
        properties=options.properties,
        engine=with_engine(options.engine, "smt") if getattr(options, "prove", False) else options.engine,
        limit=options.limit,
        timeout=options.timeout,
        memory=options.memory << 30,
        reduced=not options.unreduced,
    )
    file = sys.modules[kernel.__module__].__file__ if options.command == "spec" else None
    model = {} if file is None else {"file": os.path.abspath(file), "class": kernel.__name__}
    return replace(result, extra={**result.extra, "shown": shown, "model": model})


def _log(options: argparse.Namespace) -> int:
    from sm90_verify.frontends.log.check import check_log
    from sm90_verify.recordings.recording import is_recording, read

    results = []
    for path in options.files:
        if is_recording(path):
            from sm90_verify.recordings.held import check_recording

            results += [_bounded(check_recording(one), options) for one in read(path)]
        else:
            results.append(_bounded(check_log(path), options))
    return _finish(results, options)


def _record(options: argparse.Namespace) -> int:
    from sm90_verify.gpu.record import record_kernels
    from sm90_verify.recordings.recording import write

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
    write(recordings, options.output)
    hung = sum(run.hangs for one in recordings for run in one.runs)
    print(f"verify: RECORDED {sum(len(one.runs) for one in recordings)} runs, {hung} of them hang  {options.output}")
    return 0


def _bounded(result: Result, options: argparse.Namespace) -> Result:
    """The result for the properties that were asked for; open, if the log was longer than the bounds allow."""
    from dataclasses import replace

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
    from sm90_verify.evidence.mutation.report import render, to_object
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
    text = json.dumps(to_object(scores), indent=1) if options.format == "json" else render(scores, every=options.every)
    _write(text, options.output)
    return exit_code(scores)


def _replay(options: argparse.Namespace) -> int:
    from sm90_verify.counterexample.replay import replay

    result = replay(options.trace)
    if options.hardware:
        from sm90_verify.gpu.replay import replay_on_gpu

        result = replay_on_gpu(options.trace, result, options.runs)
    return _finish([result], options)


def _claims(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.claims.claim import settle
    from sm90_verify.evidence.claims.report import exit_code, text, to_json
    from sm90_verify.evidence.claims.table import chosen

    settled = []
    for claim in chosen(options.ids):
        settled.append(settle(claim))
        print(f"claim {claim.id}: {settled[-1].verdict}", file=sys.stderr)
    if options.format == "json":
        _write(json.dumps(to_json(settled), indent=1), options.output)
    else:
        _write(text(settled, detailed=bool(options.ids), every_step=options.every_step), options.output)
    return exit_code(settled)


def _explain(options: argparse.Namespace) -> int:
    from sm90_verify.report.explain import explain

    print(explain(options.id))
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


# ---------------------------------------------------------------- output


def _finish(results: list[Result], options: argparse.Namespace) -> int:
    """Writes the results; the worst verdict decides: violated over undetermined over proved."""
    codes = [EXIT_CODE[result.verdict] for result in results]
    _write(_text(results, options) if options.format == "text" else _json(results), options.output)
    return max(codes, key=(0, 3, 1).index)


def _text(results: list[Result], options: argparse.Namespace) -> str:
    from sm90_verify.report.text import render

    parts = []
    for result in results:
        if "table" in result.extra:
            from sm90_verify.frontends.log.check import render_table

            parts.append(render_table(result))
        parts.append(render(result, every_step=getattr(options, "every_step", False)))
    return "\n".join(parts)


def _json(results: list[Result]) -> str:
    from sm90_verify.report.as_json import to_object

    objects = [to_object(result) for result in results]
    if len(objects) == 1:
        return json.dumps(objects[0], indent=1)
    from sm90_verify.result import worst

    together = {key: objects[0][key] for key in ("schema", "tool", "version", "command")}
    return json.dumps(
        {**together, "verdict": worst(result.verdict for result in results), "results": objects}, indent=1
    )


def _write(text: str, path: str | None) -> None:
    """To standard output, or whole to a file."""
    if path is None:
        print(text)
    else:
        write_whole(path, f"{text}\n".encode())
