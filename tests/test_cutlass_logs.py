"""Logs of CUTLASS kernels on an H100 (checker/evidence/hardware/cutlass.py): accepted, with the tables that they were
built with; edits of them are refused, found violated, or shown legal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from log_edits import FOLDERS, config_of, edits_of, misplaces, path_of, records_of, renumbered, with_value
from log_explained import explains

from sm90_verify.evidence.hardware.cutlass import KERNELS
from sm90_verify.frontends.log.check import CHECKED, check_log, check_records
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.result import BarrierRow, Result
from sm90_verify.spec.errors import SpecError

LOGS = tuple(sorted(path.name.removesuffix(".log.xz") for path in FOLDERS[1].glob("*.log.xz")))
CP_ASYNC = tuple(log for log in LOGS if KERNELS[log].macros.get("COPY"))
EDITS = 10
"""Of each log; tests/test_log.py looks at all of those of the ten logs that it has."""


def test_every_kernel_has_its_log() -> None:
    assert set(LOGS) == set(KERNELS)
    assert len(CP_ASYNC) == 3


# ---------------------------------------------------------------- what was built is what is recovered


@pytest.mark.parametrize("log", LOGS)
def test_log_is_accepted(log: str) -> None:
    result = check_log(path_of(log))
    assert result.verdict == "allowed"
    assert [finding.id for finding in result.findings] == list(CHECKED)
    assert result.states >= 100
    assert explains(records_of(log))


@pytest.mark.parametrize("log", LOGS)
def test_log_is_of_the_kernel_that_it_is_named_after(log: str) -> None:
    macros, config = dict(KERNELS[log].macros), config_of(log)
    given = {
        "kind": macros.get("SCHEDULE", 0),
        "input": macros.get("INPUT", 0),
        "copy": macros.get("COPY", 0),
        "stream_k": macros.get("STREAM_K", 0),
        "groups": macros.get("GROUPS", 0),
        "source": macros.get("SOURCE", 1),
        "cluster": f"{macros.get('CLUSTER_M', 1)}x{macros.get('CLUSTER_N', 1)}",
        "tile": f"{macros.get('TILE_M', 128)}x{macros.get('TILE_N', 128)}x{macros.get('TILE_K', 64)}",
    }
    given |= dict(zip(("M", "N", "K", "SMs"), KERNELS[log].sizes, strict=True))
    chosen = {"STAGES": "MainStages", "STAGES_C": "StagesC", "STAGES_D": "StagesD"}
    given |= {chosen[name]: value for name, value in macros.items() if name in chosen}
    switches = {"REUSE": "ReuseSmemC", "DELAY": "DelayTmaStore"}
    given |= {switches[name]: int(value == "true") for name, value in macros.items() if name in switches}
    assert {name: config[name] for name in given} == {name: str(value) for name, value in given.items()}


class Shape:
    """What the `#` line of a log says about the numbers of its table."""

    def __init__(self, log: str) -> None:
        self.config = config_of(log)
        numbers = {name: int(value) for name, value in self.config.items() if value.isdigit()}
        self.numbers = numbers
        self.cluster = [int(n) for n in self.config["cluster"].split("x")]
        self.tile = [int(n) for n in self.config["tile"].split("x")]
        self.kind = numbers["kind"]
        self.groups = 2 if self.kind in (1, 2) else 1
        self.per_phase = 2 if self.kind == 1 else 1
        self.peers = sum(self.cluster) - 1

    @property
    def tiles(self) -> int:
        """Of one CTA; every CTA has equally many."""
        count = -(-self.numbers["M"] // self.tile[0]) * -(-self.numbers["N"] // self.tile[1])
        return count // self.numbers["SMs"] if self.numbers["SMs"] else 1

    @property
    def k_tiles(self) -> int:
        return self.numbers["K"] // self.tile[2]


def table_of(result: Result) -> dict[tuple[str, str], BarrierRow]:
    return {(row.ring, row.part): row for row in result.recovered.barriers}


@pytest.mark.parametrize("log", LOGS)
def test_mainloop_is_the_configuration(log: str) -> None:
    shape, result = Shape(log), check_log(path_of(log))
    rows, n = table_of(result), shape.numbers
    full, empty = rows["mainloop", "full"], rows["mainloop", "empty"]
    assert full.stages == empty.stages == n["MainStages"]
    assert result.parameters["threads"] == n["threads"]
    assert full.waits == empty.arrives == tuple(f"consumer {group}" for group in range(shape.groups))
    assert full.arrives == empty.waits
    if n["copy"]:
        loaders = 8 if shape.kind == 0 else 4
        assert (full.pipeline, full.count, full.logged, full.lanes) == (
            "PipelineAsync",
            32 * loaders,
            loaders,
            32,
        )
        assert full.bytes == 0
    else:
        copying = 32 if n["input"] == 5 else 0
        assert (full.pipeline, full.count) == ("PipelineTmaAsync", 1 + copying)
        assert full.bytes == shape.tile[2] * (shape.tile[0] * n["bytes_A"] + shape.tile[1] * n["bytes_B"])
    if shape.peers == 1:
        assert (empty.count, empty.logged, empty.lanes) == (128 * shape.per_phase, 4 * shape.per_phase, 32)
    else:
        assert (empty.count, empty.logged, empty.lanes) == (
            shape.peers * shape.per_phase,
            shape.per_phase,
            1,
        )
        assert empty.unseen == (shape.peers - 1) * shape.per_phase
    kept = 1 if shape.kind == 3 else 0
    assert empty.phases == full.phases - kept
    if not n["stream_k"] and not n["groups"]:
        assert full.phases == shape.tiles * shape.k_tiles
    else:
        assert full.phases > n["MainStages"]


@pytest.mark.parametrize("log", [log for log in LOGS if config_of(log)["StagesD"] != "0"])
def test_epilogue_is_the_configuration(log: str) -> None:
    shape, result = Shape(log), check_log(path_of(log))
    rows, n = table_of(result), shape.numbers
    name = "epilogue load" if n["source"] else "async 2" if n["groups"] else "unused"
    full, empty = rows[name, "full"], rows[name, "empty"]
    assert (full.stages, full.count) == (n["StagesC"], 32)
    assert (empty.stages, empty.count) == (n["StagesC"], 128 * shape.per_phase)
    m, columns = (int(side) for side in shape.config["epilogue_tile"].split("x"))
    subtiles = shape.tile[0] * shape.tile[1] // (m * columns)
    size = 4 if n["input"] == 4 else 2
    if n["source"]:
        assert full.pipeline == "PipelineTransactionAsync"
        assert full.bytes == m * columns * size
        assert full.phases == empty.phases and full.phases % subtiles == 0
        if not n["stream_k"] and not n["groups"]:
            assert full.phases == shape.tiles * subtiles
    records = records_of(log)
    assert max(r.values[0] for r in records if r.kind == "tma_store_wait") == n["StagesD"] - 1
    sources = {r.values[1] for r in records if r.kind == "tma_store"}
    addresses = {full.first + 8 * stage for stage in range(n["StagesC"])}
    staged = {r.values[2] for r in records if r.kind == "tma_load" and r.values[1] in addresses}
    assert (sources <= staged) == bool(n["ReuseSmemC"])


@pytest.mark.parametrize("log", LOGS)
def test_orders_and_roles_are_those_of_the_schedule(log: str) -> None:
    shape, result = Shape(log), check_log(path_of(log))
    rows, n = table_of(result), shape.numbers
    assert (("load order", "order") in rows) == (shape.kind in (1, 2) and not n["copy"])
    assert (("math order", "order") in rows) == (shape.kind == 2)
    if shape.kind == 2:
        assert (rows["math order", "order"].stages, rows["math order", "order"].count) == (4, 128)
    roles = {row.role: row.warps for row in result.recovered.roles}
    first = n["threads"] // 32 - 4 * shape.groups
    expected = {f"consumer {g}": tuple(range(first + 4 * g, first + 4 * g + 4)) for g in range(shape.groups)}
    assert {role: warps for role, warps in roles.items() if role.startswith("consumer")} == expected
    if n["copy"]:
        assert roles["mainloop load"] == tuple(range(first))
    if n["groups"]:
        assert rows["async", "full"].pipeline == "PipelineAsync"
        assert rows["async", "full"].arrives == ("async producer",)
        assert roles["async producer"] == (3,)


# ---------------------------------------------------------------- edits


@pytest.mark.parametrize("log", LOGS)
def test_edits_are_caught_or_legal(log: str) -> None:
    seen: Counter[str] = Counter()
    every = list(edits_of(log, 0))
    assert len(every) >= 150
    for edit in every[:: max(1, len(every) // EDITS)]:
        try:
            result = check_records(renumbered(edit.records), "edited.log")
        except SpecError as error:
            assert misplaces(edit) and "a multiple of 8" in str(error), str(error)
            continue
        seen[result.verdict] += 1
        if result.verdict == "violated":
            assert result.trace is not None and result.trace.because
        elif result.verdict == "undetermined":
            assert edit.kind == "cut off"
        else:
            assert edit.argument, f"accepted without an argument: {edit.kind} at entry {edit.index}"
            assert explains(renumbered(edit.records))
    assert seen["violated"] >= EDITS // 2, seen


Edit = Callable[[list[Record]], None]


def found(records: list[Record], kind: str, number: int, warp: int) -> int:
    return [i for i, r in enumerate(records) if r.kind == kind and r.warp == warp][number]


def without(kind: str, number: int, warp: int) -> Edit:
    def edit(records: list[Record]) -> None:
        del records[found(records, kind, number, warp)]

    return edit


def swapped(kind: str, number: int, warp: int, later: str) -> Edit:
    """The entry and the next `later` of its warp trade places."""

    def edit(records: list[Record]) -> None:
        i = found(records, kind, number, warp)
        j = next(j for j in range(i + 1, len(records)) if records[j].warp == warp and records[j].kind == later)
        one, other = records[i], records[j]
        records[i], records[j] = with_time(other, one.time), with_time(one, other.time)

    return edit


def with_time(record: Record, time: int) -> Record:
    return Record(record.line, record.at, record.kind, record.source_line, time, record.warp, record.values)


def changed(kind: str, number: int, warp: int, field: str, value: Callable[[int], int]) -> Edit:
    def edit(records: list[Record]) -> None:
        i = found(records, kind, number, warp)
        records[i] = with_value(records[i], field, value(records[i].values[0]))

    return edit


def late(kind: str, number: int, warp: int) -> Edit:
    """The entry comes once more, at the end of the log."""

    def edit(records: list[Record]) -> None:
        records.append(with_time(records[found(records, kind, number, warp)], records[-1].time))

    return edit


WRONG: tuple[tuple[str, str, str, Edit], ...] = (
    ("ws_tf32", "missing-fence", "comes to bar.sync 2 without", without("fence_view_async_shared", 10, 5)),
    ("pp_grouped_void", "missing-fence", "unlike at the others", without("fence_view_async_shared", 26, 11)),
    ("coop_scaled", "deadlock", "32 of 33 arrivals are missing", without("cpasync_barrier_arrive", 2, 3)),
    ("coop_scaled", "race", "", without("cluster_barrier_wait", 8, 3)),
    ("coop_scaled", "race", "copies to the stage of", swapped("cluster_barrier_wait", 8, 3, "cpasync_barrier_arrive")),
    ("coop_streamk", "named-barrier", "has left bar.sync 1", without("named_barrier_arrive_and_wait", 1, 4)),
    ("coop_streamk_2x1", "deadlock", "3 of 4", without("cluster_barrier_arrive_cluster", 30, 8)),
    ("coop_grouped", "phase-lapped", "async after stage 2", without("cluster_barrier_wait", 3, 3)),
    ("ws_cpasync", "stale-read", "does not wait for its copies", without("cpasync_barrier_arrive", 4, 2)),
    ("ws_cpasync", "stale-read", "", swapped("cpasync_barrier_arrive", 3, 5, "cluster_barrier_arrive")),
    ("ws_cpasync", "race", "copies to the stage of", swapped("cluster_barrier_wait", 4, 1, "cpasync_barrier_arrive")),
    ("ws_cpasync", "phase-lapped", "left out", without("cluster_barrier_wait", 1, 3)),
    ("ws_cpasync", "exit-hazard", "producer_tail is cut short", without("cluster_barrier_wait", -1, 6)),
    ("ws_cpasync", "arrival-count", "the log ends while phase", late("cpasync_barrier_arrive", 0, 7)),
    ("ws_cpasync", "deadlock", "", without("cluster_barrier_arrive", 2, 4)),
    ("coop_cpasync", "race", "", swapped("warpgroup_wait", 3, 8, "cluster_barrier_arrive_cluster")),
    ("pp_cpasync", "arrival-count", "", changed("cluster_barrier_init", 2, 0, "arrive_count", lambda n: 64)),
)
"""Log, property, words of the reason, and the edit."""


@pytest.mark.parametrize(("log", "property_id", "said", "edit"), WRONG)
def test_property_that_an_edit_violates(log: str, property_id: str, said: str, edit: Edit) -> None:
    records = list(records_of(log))
    edit(records)
    result = check_records(renumbered(records), "edited.log")
    assert result.trace is not None
    assert result.trace.property == property_id, result.trace.because
    assert said in result.trace.because


def test_kernel_of_one_role_keeps_its_last_stage() -> None:
    """Who fills the stages is who reads them: nobody waits for the last release. With a producer somebody does."""
    held = {row.part: row.phases for row in check_log(path_of("tma_one_role")).recovered.barriers if row.stages == 3}
    assert held == {"full": 8, "empty": 7}
    cuts = [edit.records for edit in edits_of("ws_mixed", 0) if edit.kind == "cut off"]
    notes = [check_records(cut, "cut.log").findings[0].note for cut in cuts]
    assert any("may lack its end: warp" in note for note in notes)
