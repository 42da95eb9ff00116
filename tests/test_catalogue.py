"""One row of the catalogue, and a new model is everywhere: help, checks, recordings, mutants, saved traces."""

from __future__ import annotations

import pytest

from sm90_verify.cli.main import main
from sm90_verify.counterexample.replay import pipeline_of
from sm90_verify.evidence.mutation.models import models
from sm90_verify.gpu import record
from sm90_verify.mutation.catalogue import mutants_of
from sm90_verify.recordings import acceptance
from sm90_verify.recordings.recording import Recording
from sm90_verify.spec.cutlass import catalogue
from sm90_verify.spec.cutlass.catalogue import CATALOGUE, Mutated, Row, kernels, recordable, rows, to_record
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class Handshake(Pipeline):
    """One warp hands a buffer to another and gets it back."""

    _label = "handshake"
    _clusters = False
    stages = 1

    full = barrier(arrivals=32)
    empty = barrier(arrivals=32)
    a = tile(bytes=128)

    @role(warps=1)
    def writer(self, at) -> Body:
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].write(tag=at.tag)
        yield self.full[at].arrive(32)

    @role(warps=1)
    def reader(self, at) -> Body:
        yield self.full[at].wait(at.phase)
        yield self.a[at].read(tag=at.tag)
        yield self.empty[at].arrive(32)


ROW = Row(
    Handshake,
    record=({"stages": 1, "trips": 3}, {"stages": 2, "trips": 5}),
    mutate=(Mutated({"stages": 1}, {"trips": 3}),),
)


@pytest.fixture
def with_handshake(monkeypatch):
    monkeypatch.setattr(catalogue, "CATALOGUE", (*CATALOGUE, ROW))


def help_of(command, capsys):
    assert main([command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("with_handshake")
def test_one_row_is_seen_by_help(capsys):
    for command in ("pipeline", "record", "mutants"):
        assert "handshake" in help_of(command, capsys), command
    assert main(["pipeline", "handshak"]) == 2
    assert capsys.readouterr().err.rstrip().endswith("launch-control, handshake")


@pytest.mark.usefixtures("with_handshake")
def test_one_row_is_checked_by_its_name(capsys):
    assert main(["pipeline", "handshake", "--stages", "2"]) == 0
    assert "verify: PROVED handshake stages=2" in capsys.readouterr().out
    assert main(["pipeline", "handshake", "--cluster", "2x1"]) == 2
    assert "handshake stays in its CTA" in capsys.readouterr().err


@pytest.mark.usefixtures("with_handshake")
def test_one_row_is_found_again_by_saved_traces_and_recordings():
    assert type(pipeline_of({"name": "handshake", "parameters": {"stages": 2}}, "pipeline")) is Handshake
    recording = Recording({}, "handshake", {"stages": 2, "trips": 5}, "clock64", 0, ())
    assert type(acceptance.pipeline_of(recording)) is Handshake


@pytest.mark.usefixtures("with_handshake")
def test_one_row_is_recorded_at_its_sizes():
    assert "handshake" in recordable()
    chosen = record._chosen("handshake", {})
    assert [one.parameters()["stages"] for one, _ in chosen] == [1, 2]


@pytest.mark.usefixtures("with_handshake")
def test_one_row_has_its_mutants_counted():
    (mine,) = [model for model in models(dense=True) if model.kernel is Handshake]
    assert mine.label == "handshake stages=1" and mine.bounded == {"trips": 3}
    assert len(mutants_of(mine)) > 10
    assert models()[0].kernel is TmaAsync


def test_without_the_row_nobody_knows_it(capsys):
    assert "handshake" not in help_of("pipeline", capsys)
    with pytest.raises(SpecError, match="no kernel 'handshake' to record: use one of tma-async"):
        to_record("handshake")


# ---------------------------------------------------------------- the rows there are


def test_names_are_those_of_the_results():
    names = [row.name for row in rows()]
    assert len(names) == len(set(names))
    for row in rows():
        assert row.kernel(**row.search[0]).name == row.name and kernels(row.command)[row.name] is row.kernel


@pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.name)
def test_every_row_can_be_built_at_all_its_sizes(row):
    for sizes in (*row.search, *row.record, *(one.sizes for one in (*row.mutate, *row.variants))):
        made = row.kernel(**sizes)
        assert sizes.items() <= made.parameters().items()
        assert made.shape.size == 1 or row.clusters


@pytest.mark.parametrize("row", [row for row in CATALOGUE if row.search], ids=lambda row: row.name)
def test_every_row_is_proved_at_its_smallest_size(row):
    from sm90_verify.engines.check import check

    engine = "search" if row.command == "pipeline" else "order"
    assert check(row.kernel(**row.search[0]), command=row.command, engine=engine).verdict == "proved"


def test_mutants_come_in_the_order_of_classes_then_their_variants_then_kernels():
    found = [(kernel, one.sizes) for kernel, one in catalogue.mutated()]
    alone = [index for index, (kernel, _) in enumerate(found) if kernel in kernels("pipeline").values()]
    assert alone == list(range(len(alone))) and len(alone) < len(found)
    assert [sizes for _, sizes in found[: len(alone)]][-5:] == [
        one.sizes for row in rows("pipeline") for one in row.variants
    ]
