"""`verify record --all`: all that is kept of what a GPU did, made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from sm90_verify.evidence.hardware.arithmetic.record import record_arithmetic
from sm90_verify.evidence.hardware.cases import epilogues, faults, mutants
from sm90_verify.evidence.hardware.footprints import maps, record
from sm90_verify.evidence.hardware.gemm import record as gemm_record
from sm90_verify.evidence.hardware.mbarrier.tables import record_fuzz, record_reactions
from sm90_verify.evidence.hardware.pipelines import record as pipelines_record
from sm90_verify.evidence.hardware.pipelines.shapes import NAMES
from sm90_verify.evidence.hardware.reactions import predict
from sm90_verify.evidence.hardware.table import Tell, table, workers, write_table
from sm90_verify.evidence.hardware.twins import record_twins
from sm90_verify.evidence.hardware.unobserved import record_unobserved
from sm90_verify.gpu.device import gpu
from sm90_verify.gpu.record import record_kernels
from sm90_verify.recordings.recording import Recording, write
from sm90_verify.spec.cutlass.catalogue import recordable
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.errors import SpecError


def _kernels(folder: str) -> None:
    write(record_kernels(recordable()), f"{folder}/kernels.jsonl.gz")


def _mbarriers(folder: str) -> None:
    record_fuzz(f"{folder}/mbarriers.jsonl.gz")


def _pipelines(folder: str) -> None:
    pipelines_record.record_pipelines(f"{folder}/pipelines.jsonl.gz")


def _mistakes(folder: str) -> None:
    pipelines_record.record_mistakes(f"{folder}/pipelines_mistakes.jsonl.gz")


def _ill_formed(folder: str) -> None:
    record_reactions(f"{folder}/ill_formed.jsonl.gz")


def _unobserved(folder: str) -> None:
    record_unobserved(f"{folder}/unobserved.jsonl.gz")


def _footprints(folder: str) -> None:
    record.record_footprints(f"{folder}/footprints.jsonl.gz")


def _tensor_maps(folder: str) -> None:
    maps.record_maps(f"{folder}/tensor_maps.jsonl.gz")


def _arithmetic(folder: str) -> None:
    record_arithmetic(f"{folder}/arithmetic.jsonl.gz")


PARTS: dict[str, Callable[[str], object]] = {
    "the executor": _kernels,
    "mbarriers": _mbarriers,
    "pipelines": _pipelines,
    "mistakes of pipelines": _mistakes,
    "GEMMs and their mistakes": gemm_record.record_all,
    "ill-formed operations": _ill_formed,
    "unobserved phases": _unobserved,
    "footprints": _footprints,
    "tensor maps": _tensor_maps,
    "arithmetic": _arithmetic,
}
"""What is recorded beside the tables, each into files of a folder."""


def record_by_hand(names: Sequence[str], *, runs: int = 0, seed: int = 1) -> list[Recording]:
    """The hand-written kernels of these names at all their sizes. runs: of each size; 0: so many that a kernel has 200.

    Raises SpecError for an unknown name, without a Hopper GPU, and for what is not as the models say.
    """
    gemms = {f"gemm-{schedule}": schedule for schedule in GEMMS}
    for name in names:
        if name not in (*NAMES, *gemms):
            raise SpecError(f"no hand-written kernel {name!r}: use one of {', '.join((*NAMES, *gemms))}")
    gpu()
    found: list[Recording] = []
    for name in names:
        if name in gemms:
            found += gemm_record.record_kernel(gemms[name], each=runs, seed=seed)
        else:
            found += pipelines_record.record_kernel(name, each=runs, seed=seed)
    return found


def record_all(directory: str, progress: Tell, *, every: int = 1, folder_of_faults: str = "") -> None:
    """Records all kernels and the tables of predictions. every: of the mutants and epilogues, only every so manieth.
    folder_of_faults: of Python files with pairs of pipelines, for a table of their own.

    Raises SpecError for the parts that fail, once everything else is written.
    """
    gpu()  # or it is said at once that there is none
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    cases = {"epilogues": list(epilogues())[::every], "mutants": list(mutants())[::every]}
    if folder_of_faults:
        cases["faults"] = list(faults(folder_of_faults))
    failed: list[str] = []
    with ProcessPoolExecutor(max_workers=workers()) as pool:
        predicted = {name: pool.map(predict, some, chunksize=8) for name, some in cases.items()}  # meanwhile
        parts = dict(PARTS)
        if folder_of_faults:
            parts["twins of the faults"] = lambda into: record_twins(folder_of_faults, f"{into}/twins.jsonl.gz")
        for name, part in parts.items():
            progress(name)
            try:
                part(str(folder))
            except SpecError as error:
                failed.append(f"{name}: {error.what}")
        for name, some in cases.items():
            rows = table(some, partial(_say, progress, name), list(predicted[name]), failed)
            write_table(rows, str(folder / f"{name}.jsonl.gz"))
    if failed:
        raise SpecError("; ".join(failed))


def _say(progress: Tell, name: str, text: str) -> None:
    progress(f"{name}: {text}")
