"""The commands that show what this project claims about itself: the only ones that load it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sm90_verify.cli.output import tell, write
from sm90_verify.cli.values import UsageError
from sm90_verify.result import EXIT_CODE

if TYPE_CHECKING:
    from sm90_verify.evidence.mutation.run import Score


def frontier(options: argparse.Namespace) -> int:
    from sm90_verify.engines.table import DEFAULT
    from sm90_verify.evidence.frontier.box import Box
    from sm90_verify.evidence.frontier.report import report
    from sm90_verify.evidence.frontier.run import explore_box

    if options.engine not in ("order", DEFAULT):
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


def record(options: argparse.Namespace) -> int:
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


def claims(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.claims.claim import settle
    from sm90_verify.evidence.claims.report import exit_code, report
    from sm90_verify.evidence.claims.table import chosen

    settled = []
    for claim in chosen(options.ids):
        settled.append(settle(claim))
        print(f"claim {claim.id}: {settled[-1].verdict}", file=sys.stderr)
    write([report(settled, detailed=bool(options.ids), every_step=options.every_step)], options)
    return exit_code(settled)


def mutants(options: argparse.Namespace) -> int:
    from sm90_verify.evidence.mutation.report import report
    from sm90_verify.evidence.mutation.run import Options, exit_code, run_all

    if options.ptx or options.launch:
        scores = [_mutants_of_ptx(options)]
    else:
        for name, given in (("kernel", options.kernel), ("every", options.nth > 1)):
            if given:
                raise UsageError(f"--{name} means nothing without --ptx: leave it out")
        scores = run_all(
            Options(
                tuple(options.models),
                options.dense,
                options.timeout if options.prove else 0.0,
                options.processes,
                lambda line: print(line, file=sys.stderr),
                dict(options.settings),
            )
        )
    write([report(scores, every=options.every)], options)
    return exit_code(scores)


def _mutants_of_ptx(options: argparse.Namespace) -> Score:
    from sm90_verify.cli.progress import progress_line
    from sm90_verify.evidence.mutation.of_ptx import PtxQuestion, score_ptx

    if not (options.ptx and options.launch):
        raise UsageError("--ptx KERNEL.ptx and --launch LAUNCH.json go together: give both")
    given = ("models", "settings", "dense", "prove")
    for name in given:
        if getattr(options, name):
            raise UsageError(f"{name}: not with --ptx, whose edits are those of its text")
    question = PtxQuestion(options.ptx, options.launch, options.kernel, options.nth, options.timeout)
    with progress_line() as progress:

        def told(done: int, of: int) -> None:
            if progress is not None:
                progress(f"{done} of {of} edits")

        return score_ptx(question, options.processes, told)


COMMANDS = {"record": record, "claims": claims, "mutants": mutants}
