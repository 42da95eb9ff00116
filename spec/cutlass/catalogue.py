"""The catalogue: every model of CUTLASS's kernels that the library has, a row each.

A row says what checks a model, and the sizes at which it is searched, recorded on a GPU and mutated. Help texts, the
command line, saved traces, recordings and the mutation score read it; a new model is its class and a row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GemmCooperative, GemmPingpong, GemmWs
from sm90_verify.spec.cutlass.launch_control import LaunchControl
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline, label_of

Sizes: TypeAlias = dict[str, Any]
"""Parameters of a model that are not the defaults of its class."""
RECORDED_BYTES = 4096
"""Of a stage where a model is recorded, so that eight of them fit into a CTA."""


class Mutated(NamedTuple):
    """Sizes at which every mutant of a model is searched.

    bounded: parameters under which it ends, for mutants whose loops without end cannot be closed. thin: each change at
    all executions by all instances of its role, and no other. limit: states of a search of every schedule.
    """

    sizes: Sizes
    bounded: Sizes = {}
    thin: bool = False
    limit: int = 400_000


class Row(NamedTuple):
    """A model. command: the word of `verify` that checks it; "pipeline" checks a class by its name.

    search: sizes at which every schedule is searched. record: sizes at which it runs on a GPU; none if it has no
    executor program. mutate: sizes at which its mutants are counted; variants: the same, with an option that most
    kernels do not use.
    """

    kernel: type[Pipeline]
    command: str = "pipeline"
    search: tuple[Sizes, ...] = ({},)
    record: tuple[Sizes, ...] = ()
    mutate: tuple[Mutated, ...] = ()
    variants: tuple[Mutated, ...] = ()

    @property
    def name(self) -> str:
        """What results, recordings and the command line call it."""
        return label_of(self.kernel)

    @property
    def clusters(self) -> bool:
        """Whether it has a meaning in a cluster of several CTAs."""
        return self.kernel._clusters


def rows(*commands: str) -> tuple[Row, ...]:
    """The rows of some commands, or all, in the order of the catalogue."""
    return tuple(row for row in CATALOGUE if not commands or row.command in commands)


def kernels(*commands: str) -> dict[str, type[Pipeline]]:
    """The model classes of some commands, or all, by name."""
    return {row.name: row.kernel for row in rows(*commands)}


def to_record(name: str) -> Row:
    """The row of a model that is recorded; SpecError for any other name."""
    found = next((row for row in CATALOGUE if row.name == name and row.record), None)
    if found is None:
        raise SpecError(f"no kernel {name!r} to record: use one of {', '.join(recordable())}")
    return found


def recordable() -> tuple[str, ...]:
    """The names of the models that are recorded on a GPU."""
    return tuple(row.name for row in CATALOGUE if row.record)


def mutated() -> Iterator[tuple[type[Pipeline], Mutated]]:
    """The models whose mutants are counted, at all their sizes: pipeline classes, their variants, whole kernels."""
    alone = [row for row in CATALOGUE if row.command == "pipeline"]
    for group in (alone, [row for row in CATALOGUE if row.command != "pipeline"]):
        yield from ((row.kernel, sizes) for row in group for sizes in row.mutate)
        yield from ((row.kernel, sizes) for row in group for sizes in row.variants)


# ---------------------------------------------------------------- sizes


def _box(stages: Iterable[int], consumers: Iterable[int]) -> tuple[Sizes, ...]:
    return tuple({"stages": n, "consumers": c} for n in stages for c in consumers)


def _twice(stages: int) -> int:
    """Trips in which every stage is used twice and one a third time."""
    return 2 * stages + 1


def _bounded(sizes: Sizes, thin: bool = False) -> Mutated:
    return Mutated(sizes, {"trips": _twice(sizes["stages"])}, thin)


def _mutated(*sizes: tuple[int, int], thin: tuple[tuple[int, int], ...] = ()) -> tuple[Mutated, ...]:
    """A pipeline class at several (stages, consumers), the larger ones thin."""
    return tuple(_bounded({"stages": n, "consumers": c}, (n, c) in thin) for n, c in sizes)


def _ended(boxes: Iterable[Sizes], more: int = 0, **others: Any) -> tuple[Sizes, ...]:
    return tuple({**sizes, "trips": _twice(sizes["stages"]) + more, **others} for sizes in boxes)


def _recorded_mainloops() -> Iterator[Sizes]:
    for form in ("ss", "rs"):
        for stages in (2, 3, 4, 6):
            for k_tiles in (1, stages, _twice(stages)):
                yield {"form": form, "stages": stages, "k_tiles": k_tiles, **_STAGE_OF_AB}


def _recorded_epilogues() -> Iterator[Sizes]:
    for schedule in SCHEDULES:
        for stages_c, stages_d, reuse, delay in (
            (4, 2, True, False),
            (4, 2, False, True),
            (4, 2, False, False),
            (2, 1, True, False),
            (1, 1, False, False),
            (3, 3, False, False),
        ):
            yield {
                "schedule": schedule,
                "stages_c": stages_c,
                "stages_d": stages_d,
                "reuse_smem_c": reuse,
                "delay_tma_store": delay,
                "subtiles": 4,
                "tiles": 1 if schedule == "ws" else 3,
                "bytes_c": RECORDED_BYTES,
                "bytes_d": RECORDED_BYTES,
            }


def _recorded_gemms(*tiles: int) -> Iterator[Sizes]:
    """tiles: numbers of output tiles, none for the kernel that has one."""
    for k_tiles in (1, 2, 5):
        for stages in (2, 4):
            for reuse, delay in ((True, False), (False, True)):
                epilogue = {"stages_c": 4, "stages_d": 2, "reuse_smem_c": reuse, "delay_tma_store": delay}
                sizes = {"stages": stages, "k_tiles": k_tiles, **epilogue, "subtiles": 4, **_STAGE_OF_AB}
                yield from ({**sizes, "tiles": count} for count in tiles)
                if not tiles:
                    yield sizes


_STAGE_OF_AB = {"bytes_a": RECORDED_BYTES, "bytes_b": RECORDED_BYTES}
_STAGES = (1, 2, 3, 4, 6, 8)
_USUAL = ((2, 1), (2, 2), (3, 1), (3, 2))
_SMALL = {"subtiles": 2, "stages_c": 1, "stages_d": 1}
_TINY = {**_SMALL, "subtiles": 1, "k_tiles": 1}
_LARGE = {"bytes_c": 32_768, "bytes_d": 32_768}
"""C and D that lie over all stages of A and B."""
_DELAYED = {"reuse_smem_c": False, "delay_tma_store": True}
"""With reuse, a delayed store needs more stages of C than of D."""

# ---------------------------------------------------------------- the table

CATALOGUE: tuple[Row, ...] = (
    Row(
        TmaAsync,
        search=_box((1, 2, 3, 4), (1, 2)),
        record=(
            *_ended(_box(_STAGES, (1, 2)), bytes=RECORDED_BYTES),
            {"stages": 2, "trips": 7, "bytes": 32_768},
            {"stages": 2, "trips": 5, "bytes": RECORDED_BYTES, "producers": 2},
            *(
                {"stages": stages, "trips": _twice(stages), "bytes": RECORDED_BYTES, "cluster": cluster}
                for cluster in ("2x1", "1x2", "2x2")
                for stages in (1, 2, 3)
            ),
        ),
        mutate=_mutated(*_USUAL, thin=((3, 2),)),
        variants=(
            _bounded({"stages": 2, "peek": True}),
            _bounded({"stages": 2, "producers": 2}, thin=True),
            _bounded({"stages": 1, "cluster": "2x1"}, thin=True),
        ),
    ),
    Row(
        TransactionAsync,
        search=_box((1, 2, 3, 4), (1, 2)),
        record=_ended(_box(_STAGES, (1, 2))),
        mutate=_mutated(*_USUAL, thin=((2, 2), (3, 1), (3, 2))),
    ),
    Row(
        Async,
        search=_box((1, 2, 3, 4), (1, 2)),
        record=_ended(_box(_STAGES, (1, 2))),
        mutate=_mutated(*_USUAL, thin=((3, 2),)),
        variants=(_bounded({"stages": 2, "producers": 2}, thin=True),),
    ),
    Row(
        TmaStore,
        search=_box((1, 2, 3, 4), (1, 2)),
        record=_ended(_box((1, 2, 3, 4), (1, 2)), more=2),
        mutate=_mutated((2, 1), (3, 1)),
        variants=(_bounded({"stages": 2, "strict": True}, thin=True),),
    ),
    Row(
        OrderedSequence,
        search=_box((1, 2, 3, 4), (1, 2)),
        record=_ended(_box((1, 2, 3), (2, 3))),
        mutate=_mutated(*_USUAL, thin=((3, 2),)),
    ),
    Row(LaunchControl, search=tuple({"stages": stages} for stages in (1, 2, 3, 4))),
    Row(
        Mainloop,
        "mainloop",
        record=tuple(_recorded_mainloops()),
        mutate=(
            Mutated({"stages": 2, "k_tiles": 3}),
            Mutated({"stages": 2}, {"k_tiles": 5}, thin=True),
            Mutated({"stages": 3, "form": "rs", "k_tiles": 4}, thin=True),
        ),
    ),
    Row(
        Epilogue,
        "epilogue",
        search=({"subtiles": 4},),
        record=tuple(_recorded_epilogues()),
        mutate=(
            Mutated({"schedule": "ws", "stages_c": 2, "stages_d": 1, "subtiles": 3, "tiles": 1}),
            Mutated({"schedule": "ws", **_SMALL, "tiles": 1, "reuse_smem_c": False}, thin=True),
            Mutated({"schedule": "cooperative", **_SMALL, "tiles": 2, **_DELAYED}, thin=True),
            Mutated({"schedule": "pingpong", **_SMALL, "stages_c": 2, "tiles": 2}, thin=True),
        ),
    ),
    Row(
        GemmWs,
        "gemm",
        search=({"stages": 2, "k_tiles": 2, **_SMALL},),
        record=tuple(_recorded_gemms()),
        mutate=(Mutated({"stages": 2, "k_tiles": 3, **_SMALL, **_LARGE}, thin=True),),
    ),
    Row(
        GemmCooperative,
        "gemm",
        search=({"stages": 1, **_TINY, "tiles": 2},),
        record=tuple(_recorded_gemms(1, 3)),
        mutate=(Mutated({"stages": 1, **_TINY, "tiles": 2}, thin=True, limit=30_000),),
    ),
    Row(
        GemmPingpong,
        "gemm",
        search=({"stages": 1, **_TINY, "tiles": 2},),
        record=tuple(_recorded_gemms(1, 3)),
        mutate=(Mutated({"stages": 1, **_TINY, "tiles": 2}, thin=True, limit=30_000),),
    ),
)
