"""The hand-written kernels of kernels/pipelines.cu on the GPU: recorded and held to the models of the same classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sm90_verify.evidence.hardware.pipelines.shapes import FIRST, LINE, NAMES, shape
from sm90_verify.evidence.hardware.recorder import tensor_map
from sm90_verify.evidence.hardware.recorder.conform import Conformance, TapeDifference, TapeNames, conform
from sm90_verify.evidence.hardware.recorder.tapes import Hold, Recorder, Tape
from sm90_verify.gpu.device import Module, gpu, sources
from sm90_verify.gpu.record import JITTER, resolution
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.recording import Recording, recorded
from sm90_verify.spec.cutlass.catalogue import kernels, to_record
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

FLOOD = 65_536
"""Bytes of a prefetch that only keeps the TMA unit busy."""
SOURCE = "kernels/pipelines.cu"
GIVE_UP = 100_000_000
"""Nanoseconds after which a run that may hang is given up: much longer than other processes may have the GPU."""
LONG = 2_000_000_000
"""The same for a run that ends."""


def sizes(kernel: str) -> list[dict[str, Any]]:
    """The parameters at which a kernel is recorded; raises SpecError for an unknown name."""
    if kernel not in NAMES:
        raise SpecError(f"no hand-written kernel {kernel!r}: use one of {', '.join(NAMES)}")
    return list(to_record(kernel).record)


@dataclass(frozen=True)
class PipelineLaunch:
    """tapes: by run, CTA of the cluster and place. errors: by run, words read that were others than they must be.
    output: an array of 32-bit words, by run and row. milliseconds: from before the launch to its end.
    """

    tapes: tuple[tuple[tuple[Tape, ...], ...], ...]
    errors: tuple[int, ...]
    output: Any
    milliseconds: float = 0.0

    def stuck(self, names: TapeNames, homes: Sequence[str]) -> list[tuple[str, ...]]:
        """By run, the roles that gave up."""
        return [
            tuple(
                sorted(
                    {
                        home + role
                        for home, row in zip(homes, run, strict=True)
                        for role, tape in zip(names.places, row, strict=True)
                        if tape.stuck is not None
                    }
                )
            )
            for run in self.tapes
        ]


class PipelineKernel:
    """A kernel at one size, compiled: with recording, with delays at its points, or with a mistake.

    model: what it is at these parameters.
    """

    def __init__(self, model: Pipeline, *, record: bool = False, directed: bool = False, wrong: int = 0) -> None:
        self.model, self.record = model, record
        self.kind = next(number for number, name in enumerate(NAMES) if isinstance(model, kernels()[name]))
        self.shape = shape(self.kind, model)
        macros: dict[str, int | str] = {"KERNEL": self.kind, "WRONG": wrong, "FLOOD": FLOOD, **self.shape.macros}
        macros |= {name: 1 for name, wanted in (("RECORD", record), ("DIRECTED", directed)) if wanted}
        if model.shape.size > 1:
            macros |= {"CLUSTER": model.shape.size, "CLUSTER_X": model.shape.x, "CLUSTER_Y": model.shape.y}
        self.module = Module((sources() / "pipelines.cu").read_text(), macros)

    def run(
        self,
        runs: int,
        *,
        seed: int = 0,
        jitter: int = 0,
        limit: int = GIVE_UP,
        holds: Sequence[Hold] = (),
        flood: int = 0,
        tensor: bool = False,
    ) -> PipelineLaunch:
        """Executes the kernel in `runs` clusters; jitter, limit and holds as Recorder has them.

        flood: prefetches that keep the TMA unit busy before a copy that is to be late. tensor: it copies by tensor maps
        instead of addresses. Raises SpecError if the launch faults.
        """
        cupy, shape, size = self.module.cupy, self.shape, self.model.shape.size
        ctas = runs * size
        recorder = Recorder(
            cupy,
            ctas,
            len(shape.places),
            capacity=shape.capacity if self.record else 1,
            limit=limit,
            jitter=jitter,
            seed=seed,
            holds=holds,
        )
        numbers = cupy.arange(1, shape.sources + 1, dtype=cupy.uint32)
        source = cupy.ascontiguousarray(cupy.repeat(numbers[:, None], shape.source_bytes // 4, axis=1))
        output = cupy.zeros((runs, max(shape.rows, 1), shape.stage // 4), dtype=cupy.uint32)
        scratch = cupy.zeros(FLOOD, dtype=cupy.uint8)
        errors = cupy.zeros(runs, dtype=cupy.uint32)
        maps = cupy.asarray(bytearray(self._maps(source, output)), dtype=cupy.uint8) if tensor else None
        first = 0 if maps is None else maps.data.ptr
        arguments = cupy.asarray(
            (
                recorder.argument.data.ptr,
                *(source.data.ptr, first, shape.source_bytes),
                *(output.data.ptr, first and first + 2 * tensor_map.BYTES, shape.stage),
                scratch.data.ptr,
                errors.data.ptr,
                shape.trips | shape.rows << 32,
                flood,
            ),
            dtype=cupy.uint64,
        )
        shared = FIRST + shape.shared
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self.module.launch("pipeline", ctas, shape.threads, (arguments,), shared=shared, cluster=size)
        end.record()
        end.synchronize()
        took = float(cupy.cuda.get_elapsed_time(start, end))
        tapes = recorder.tapes(recorded=self.record)
        by_run = tuple(tuple(tapes[run * size : (run + 1) * size]) for run in range(runs))
        return PipelineLaunch(by_run, tuple(int(one) for one in errors.get()), output.get(), took)

    def _maps(self, source: Any, output: Any) -> bytes:
        """Of the source in the boxes of its copies, A's and B's in a cluster, and of the output."""
        first, second = self.shape.boxes
        return b"".join(
            tensor_map.encode(array.data.ptr, (array.nbytes // LINE, LINE // 4), (box // LINE, LINE // 4), "uint32")
            for array, box in ((source, first), (source, second), (output, self.shape.stage))
        )

    def wrong(self, launch: PipelineLaunch) -> list[bool]:
        """By run, whether it found or stored other words than it must; of what is stored, if it came to its end."""
        found = []
        for run, errors in enumerate(launch.errors):
            hung = any(tape.stuck is not None for row in launch.tapes[run] for tape in row)
            rows = launch.output[run][: self.shape.rows]
            stored = any((row != self.shape.word(number)).any() for number, row in enumerate(rows))
            found.append(bool(errors) or (stored and not hung))
        return found


def _stored(plan: ExecutorPlan, model: Pipeline, output: Any) -> list[tuple[int, int]]:
    """The smallest and largest word of each store of the plan in the output of a run."""
    counts: dict[str, int] = {}
    seen: dict[tuple[str, int], int] = {}
    starts: dict[tuple[str, int], int] = {}
    found = []
    for role, node, access, _ in plan.stores:
        if (role, node) not in seen:
            seen[role, node], counts[role] = counts.get(role, 0), counts.get(role, 0) + 1
        number = seen[role, node]
        if isinstance(model, Epilogue) and model.schedule == "pingpong":
            tile, subtile = divmod(number, model.subtiles)
            number = (2 * tile + int(role[-1])) * model.subtiles + subtile
        start = starts.get((role, node), 0)
        starts[role, node] = start + access.stop - access.start
        words = output[number][start // 4 : starts[role, node] // 4]
        found.append((int(words.min()), int(words.max())))
    return found


def run_and_conform(model: Pipeline, runs: int, seed: int) -> tuple[list[Conformance], int]:
    """Runs of a recorded kernel held to its model's programs, the second half with tensor maps if it copies; and how
    many of them found or stored wrong words.
    """
    plan = lower(trace(model))
    kernel = PipelineKernel(model, record=True)
    copies = model.name not in ("async", "ordered-sequence")
    held, wrong = [], 0
    for tensor, count in ((False, runs - runs // 2), (True, runs // 2)) if copies else ((False, runs),):
        if not count:
            continue
        launch = kernel.run(count, seed=seed + tensor, jitter=JITTER, limit=LONG, tensor=tensor)
        wrong += sum(kernel.wrong(launch))
        held += [
            conform(plan, kernel.shape.names, tapes, _stored(plan, model, launch.output[run]))
            for run, tapes in enumerate(launch.tapes)
        ]
    return held, wrong


def differences(
    kernel: str, parameters: dict[str, Any], runs: int, seed: int
) -> tuple[Recording, list[TapeDifference]]:
    """The runs of a kernel at a size, and where the kernel did another operation than its model does, or nothing.
    Raises SpecError for wrong words.
    """
    sizes(kernel)
    model = kernels()[kernel](**parameters)
    held, wrong = run_and_conform(model, runs, seed)
    if wrong:
        raise SpecError(f"{kernel} {parameters}: wrong words in {wrong} of {runs} runs")
    recording = recorded(
        {**asdict(gpu()), "kernel": SOURCE},
        lower(trace(model)),
        [one.run for one in held],
        resolution(model.shape.size),
    )
    return recording, [difference for one in held for difference in one.differences]


def record(kernel: str, parameters: dict[str, Any], runs: int, seed: int) -> Recording:
    """The runs of a kernel at a size; raises SpecError where it did another operation than its model does."""
    recording, found = differences(kernel, parameters, runs, seed)
    if found:
        raise SpecError(f"{kernel} {parameters}: {found[0].because}")
    return recording
