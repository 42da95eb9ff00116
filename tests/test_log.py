"""`verify log`: ten logs of CUTLASS kernels are accepted, and edits of them are refused, found violated, or shown
legal.

An edit that is accepted needs an argument that says why the edited log is one that Hopper can produce, and the order of
effects that the checker found for it must pass the replay of log_explained.
"""

from __future__ import annotations

import gzip
import lzma
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from log_edits import (
    FIELDS,
    LOGS,
    Edit,
    as_text,
    config_of,
    edits_of,
    misplaces,
    path_of,
    records_of,
    renumbered,
    text_of,
    with_value,
)
from log_explained import explains

from sm90_verify.frontends.log.check import CHECKED, check_log, check_records, judge
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import recover
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.report.recovered import tables_of
from sm90_verify.report.text import text
from sm90_verify.result import PROPERTIES, Result
from sm90_verify.spec.errors import SpecError

# ---------------------------------------------------------------- the ten logs


@pytest.mark.parametrize("log", LOGS)
def test_real_log_is_accepted(log: str) -> None:
    result = check_log(path_of(log))
    assert result.verdict == "allowed"
    assert [finding.id for finding in result.findings] == list(CHECKED)
    assert set(CHECKED) <= set(PROPERTIES)
    assert result.states > 100
    assert explains(records_of(log))


@pytest.mark.parametrize("log", LOGS)
def test_recovered_table_is_the_configuration(log: str) -> None:
    config = config_of(log)
    result = check_log(path_of(log))
    rows = {(row.ring, row.part): row for row in result.recovered.barriers}
    kind, cluster = int(config["kind"]), [int(n) for n in config["cluster"].split("x")]
    groups = 1 if kind == 0 else 2
    per_phase = 2 if kind == 1 else 1
    k_tiles = int(config["K"]) // 64
    tile = [int(n) for n in config["tile"].split("x")]
    full, empty = rows["mainloop", "full"], rows["mainloop", "empty"]
    assert (full.pipeline, full.stages, full.count) == ("PipelineTmaAsync", int(config["MainStages"]), 1)
    assert full.bytes == 2 * (tile[0] + tile[1]) * tile[2]
    assert full.phases == empty.phases and full.phases % k_tiles == 0
    assert full.arrives == empty.waits and full.arrives[0].startswith("mainloop load")
    assert full.waits == empty.arrives == tuple(f"consumer {n}" for n in range(groups))
    peers = cluster[0] + cluster[1] - 1
    if peers == 1:
        assert (empty.count, empty.logged, empty.lanes, empty.unseen) == (
            128 * per_phase,
            4 * per_phase,
            32,
            0,
        )
    else:
        assert empty.count == peers * per_phase
        assert (empty.logged, empty.lanes, empty.unseen) == (per_phase, 1, (peers - 1) * per_phase)
        assert any("CTAs that do not log" in note for note in result.notes)
    assert result.parameters["threads"] == int(config["threads"])
    loads = [row for row in result.recovered.barriers if row.ring == "epilogue load" and row.part == "full"]
    stages_c = (loads or [r for r in result.recovered.barriers if r.ring == "unused" and r.part == "full"])[0]
    assert stages_c.stages == int(config["StagesC"])
    assert stages_c.count == 32
    assert bool(loads) == bool(int(config["source"]))
    if loads:
        assert loads[0].pipeline == "PipelineTransactionAsync"
        assert rows["epilogue load", "empty"].count == 128 * per_phase
        assert loads[0].phases == rows["epilogue load", "empty"].phases > 0
    records = records_of(log)
    waits = max(r.values[0] for r in records if r.kind == "tma_store_wait")
    assert waits + 1 == int(config["StagesD"])
    sources = {r.values[1] for r in records if r.kind == "tma_store"}
    staged = {r.values[2] for r in records if r.kind == "tma_load" and "epilogue" in recover(records).name[r.values[1]]}
    assert (sources == staged) == bool(int(config["ReuseSmemC"]))
    assert (("load order", "order") in rows) == (kind > 0)
    assert (("math order", "order") in rows) == (kind == 2)
    if kind == 2:
        assert (rows["math order", "order"].stages, rows["math order", "order"].count) == (4, 128)
    expected = {f"consumer {n}": tuple(range(4 + 4 * n, 8 + 4 * n)) for n in range(groups)}
    roles = {row.role: row.warps for row in result.recovered.roles}
    assert {name: warps for name, warps in roles.items() if name.startswith("consumer")} == expected
    assert roles["mainloop load + epilogue load" if kind == 0 and loads else "mainloop load"] == (0,)
    table = text([tables_of(result.recovered)])
    assert all(len(line) <= 100 for line in table.split("\n"))
    assert "mainloop" in table and "warp 4-" in table


def test_comments_and_compression_change_nothing(tmp_path: Path) -> None:
    text = text_of("ws_void")
    bare = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    plain, packed, squeezed = tmp_path / "a.log", tmp_path / "a.log.gz", tmp_path / "a.log.xz"
    plain.write_text(bare)
    packed.write_bytes(gzip.compress(bare.encode()))
    squeezed.write_bytes(lzma.compress(bare.encode()))
    want = check_log(path_of("ws_void"))
    for path in (plain, packed, squeezed):
        got = check_log(str(path))
        assert (got.verdict, got.recovered, got.states) == (want.verdict, want.recovered, want.states)
    assert as_text(records_of("ws_void")).replace(" \n", "\n") == bare.replace(" \n", "\n")


# ---------------------------------------------------------------- edits


def verdict_of(edit: Edit) -> Result:
    return check_records(renumbered(edit.records), "edited.log")


SENTENCES = {
    "coop": (
        "the load overwrites the stage of",
        "the TMA store reads bytes that a load for",
        "passes the turn of load order",
        "but the last release of the stage that it has waited for",
        "already waited for and used",
    ),
    "coop_2x1": ("bytes that an earlier load may still be writing", "executes fence.proxy.async before it waits"),
    "coop_void": ("is stored again although nothing has waited", "but the phase that it waited for is"),
    "pp": (
        "do not wait for the same phases",
        "takes part in bar.sync",
        "arrives twice in phase",
        "no number of lanes",
        "the other stages of the ring",
    ),
    "pp_s2": ("as the other warps of its group do",),
    "ws": (
        "overwrites bytes that a TMA store may still be reading",
        "times and releases it",
        "ids are 0 to 15",
        "a pipeline state moves by one stage",
        "leaves its __syncthreads",
    ),
    "ws_void": ("that no load has written yet", "again by this bar.sync"),
    "ws_c22": ("issued without producer_acquire", "the producer_tail is cut short"),
}
"""What the edits of each log must be told, so that every rule is the one that finds some edit."""


@pytest.mark.parametrize("log", LOGS)
def test_every_edit_is_caught_or_legal(log: str) -> None:
    caught: Counter[str] = Counter()
    allowed: Counter[str] = Counter()
    reasons: list[str] = []
    for edit in edits_of(log, 0):
        name = " ".join(edit.kind.split(" ")[:1])
        try:
            result = verdict_of(edit)
        except SpecError as error:
            assert misplaces(edit) and "a multiple of 8" in str(error), str(error)
            caught[name] += 1
            continue
        if result.verdict == "violated":
            caught[name] += 1
            trace = result.trace
            assert trace is not None and trace.steps and trace.because
            reasons.append(trace.because)
            guilty = trace.steps[-1]
            assert guilty.file == "edited.log" and 2 <= guilty.line <= len(edit.records) + 1
            continue
        if result.verdict == "undetermined":
            assert edit.kind == "cut off"
            caught[name] += 1
            continue
        assert edit.argument, f"accepted without an argument: {edit.kind} at entry {edit.index}: {edit_text(log, edit)}"
        assert explains(renumbered(edit.records))
        allowed[name] += 1
    for sentence in SENTENCES.get(log, ()):
        assert any(sentence in said for said in reasons), sentence
    assert sum(caught.values()) + sum(allowed.values()) >= 200
    assert sum(caught.values()) >= 130, (caught, allowed)
    for name in ("remove", "duplicate", "change", "swap", "cut", "other"):
        assert caught[name] >= 5, (name, caught, allowed)


def edit_text(log: str, edit: Edit) -> str:
    return str(records_of(log)[edit.index])


# ---------------------------------------------------------------- where the blame goes


BLAMED = (
    "duplicate cluster_barrier_arrive_cluster",
    "duplicate cluster_transaction_barrier_arrive_and_expect_tx",
    "duplicate named_barrier_arrive_and_wait",
    "duplicate tma_load",
    "duplicate tma_store",
    "duplicate cluster_barrier_init",
    "change cluster_barrier_wait phase",
    "change cluster_transaction_barrier_expect_transaction transaction_bytes",
    "change cluster_transaction_barrier_arrive_and_expect_tx transaction_bytes",
    "change named_barrier_arrive_and_wait num_threads",
    "change wgmma_smem_smem desc_a_smem_int_ptr",
    "change warpgroup_wait n",
)


@pytest.mark.parametrize("log", ["pp", "ws_2x1"])
def test_guilty_line_is_the_edited_one(log: str) -> None:
    seen = Counter[str]()
    for edit in edits_of(log, 0):
        if edit.kind in BLAMED and seen[edit.kind] < 2:
            result = verdict_of(edit)
            if result.verdict == "violated":
                assert result.trace is not None
                seen[edit.kind] += 1
                lines = (edit.index + 2, edit.index + 3)
                assert result.trace.steps[-1].line in lines, (edit.kind, edit.index, result.trace)
                assert f"(line {result.trace.steps[-1].line})" in result.trace.because
    assert len(seen) >= 10, seen


@dataclass(frozen=True)
class Expected:
    """An edit of one log and the property that it must be found to violate."""

    property: str
    log: str
    edit: Callable[[list[Record]], None]


def drop(kind: str, number: int, warp: int | None = None) -> Callable[[list[Record]], None]:
    def edit(records: list[Record]) -> None:
        found = [i for i, r in enumerate(records) if r.kind == kind and warp in (None, r.warp)]
        del records[found[number]]

    return edit


def alter(kind: str, number: int, name: str, change: Callable[[int], int]) -> Callable[[list[Record]], None]:
    def edit(records: list[Record]) -> None:
        i = [i for i, r in enumerate(records) if r.kind == kind][number]
        old = records[i].values[FIELDS[kind].index(name)]
        records[i] = with_value(records[i], name, change(old))

    return edit


def drop_all_waits_but_first_lap(records: list[Record]) -> None:
    """The producer loads without acquiring after the first lap."""
    loader = next(r.warp for r in records if r.kind == "tma_load")
    records[:] = [
        r for r in records if not (r.kind == "cluster_barrier_wait" and r.warp == loader and r.values[1] == 0)
    ]


EXPECTED = (
    Expected("deadlock", "ws", drop("cluster_transaction_barrier_arrive_and_expect_tx", 3)),
    Expected("deadlock", "coop", drop("wgmma_smem_smem", 40)),
    Expected("deadlock", "pp", drop("cluster_barrier_arrive", 9)),
    Expected("race", "ws_c22", drop_all_waits_but_first_lap),
    Expected("race", "coop_void", drop("tma_store_wait", 1)),
    Expected("race", "pp", drop("tma_store_arrive", 2)),
    Expected("stale-read", "coop_2x1", drop("cluster_barrier_try_wait", 20)),
    Expected("phase-lapped", "pp_void", drop("cluster_barrier_wait", 2, 0)),
    Expected("arrival-count", "pp_s2", alter("cluster_barrier_init", 1, "arrive_count", lambda n: n - 32)),
    Expected("tx-count", "ws", drop("tma_load", 7)),
    Expected("tx-count", "ws_2x1", drop("cluster_transaction_barrier_expect_transaction", 1)),
    Expected("barrier-init", "ws_void", drop("cluster_barrier_init", 4)),
    Expected("barrier-init", "coop", alter("cluster_barrier_init", 2, "arrive_count", lambda n: 0)),
    Expected("missing-fence", "coop_void", drop("fence_view_async_shared", 11)),
    Expected("exit-hazard", "pp_void", drop("cluster_barrier_wait", -1, 0)),
    Expected("smem-overlap", "ws", alter("tma_load", 2, "smem_int_ptr", lambda n: n - 8192)),
    Expected("named-barrier", "pp", drop("named_barrier_arrive_and_wait", 5)),
)


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: f"{case.property}-{case.log}")
def test_property_that_an_edit_violates(case: Expected) -> None:
    records = list(records_of(case.log))
    case.edit(records)
    result = check_records(renumbered(records), "edited.log")
    assert result.trace is not None
    assert result.trace.property == case.property, result.trace.because
    verdicts = {finding.id: finding.verdict for finding in result.findings}
    assert verdicts.pop(case.property) == "violated"
    assert set(verdicts.values()) == {"undetermined"}


def test_every_checked_property_can_be_violated() -> None:
    assert {case.property for case in EXPECTED} == set(CHECKED) - {"unobserved-phase"}  # the waits tell it first


def test_edited_file_is_found_violated_with_file_and_line(tmp_path: Path) -> None:
    records = list(records_of("ws"))
    alter("cluster_barrier_wait", 30, "phase", lambda n: 1 - n)(records)
    path = tmp_path / "edited.log"
    path.write_text("# a comment\n" + as_text(renumbered(records)))
    result = check_log(str(path))
    assert result.trace is not None
    guilty = result.trace.steps[-1]
    assert guilty.file == str(path)
    assert path.read_text().split("\n")[guilty.line - 1].split(": ")[1].startswith("cluster_barrier_wait")


def test_violation_carries_its_place() -> None:
    records = renumbered(records_of("ws")[1:])
    replay = Replay(records, recover(records))
    with pytest.raises(Unexplained) as caught:
        judge(replay)
    assert caught.value.property == "barrier-init"
    assert 0 <= caught.value.record < len(records)
