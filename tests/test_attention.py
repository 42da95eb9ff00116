"""A persistent loop over tiles with a number of K and V blocks that is left open: closed, proved for every trip count,
and each mistake found at its line.
"""

from __future__ import annotations

import linecache

import pytest
from seeded import Seeded

from sm90_verify import check
from sm90_verify.result import PROVED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace


class Attention(Pipeline):
    """Q of one tile, rings of two stages for K and V, two consumer warpgroups, 1 to `most` blocks of K and V a tile."""

    stages = 2
    most = 3
    mistake = ""
    q_full = barrier(arrivals=1, slots=1)
    q_empty = barrier(arrivals=2, slots=1)
    k_full = barrier(arrivals=1)
    k_empty = barrier(arrivals=2)
    v_full = barrier(arrivals=1)
    v_empty = barrier(arrivals=2)
    q = tile(bytes=1024, slots=1)
    k = tile(bytes=1024)
    v = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        q, kv = PipelineState.start(1, producer=True), PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.q_empty[q].wait(q.phase)
            yield self.q_full[q].arrive_expect_tx(self.q.bytes)
            yield self.q.load(signals=self.q_full[q])
            q += 1
            for _ in range((yield self.choose("blocks", *range(1, self.most + 1)))):
                yield self.k_empty[kv].wait(kv.phase)
                yield self.k_full[kv].arrive_expect_tx(self.k.bytes)
                yield self.k[kv].load(signals=self.k_full[kv])
                yield self.v_empty[kv].wait(kv.phase)
                yield self.v_full[kv].arrive_expect_tx(self.v.bytes)
                yield self.v[kv].load(signals=self.v_full[kv])
                kv += 1

    @role(warps=4, copies=2)
    def consumer(self):
        q, kv = PipelineState.start(1), PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            for _ in range((yield self.choose("blocks", *range(1, self.most + 1)))):
                yield self.k_full[kv].wait(kv.phase)
                yield self.mma(self.q[0], self.k[kv])
                yield self.mma_wait(0)
                yield self.k_empty[kv].arrive()
                yield self.v_full[kv].wait(kv.phase)
                yield self.v[kv].mma()
                if self.mistake != "v early":
                    yield self.mma_wait(0)
                yield self.v_empty[kv].arrive()
                if self.mistake == "v early":
                    yield self.mma_wait(0)
                kv += 1
            if self.mistake == "restarted":
                kv = PipelineState.start(self.stages)
            if self.mistake != "q kept":
                yield self.q_empty[q].arrive()
            q += 1


def test_it_is_as_long_as_its_source_in_each_position_of_its_rings():
    """A tile has five operations and six for each block that is still to come, in two positions of Q and eight of K and
    V; and as much again, at most, before everything recurs.
    """
    sizes = [len(program.nodes) for program in trace(Attention()).programs]
    assert sizes == [417, 449, 449]


def test_it_is_proved_for_every_trip_count():
    result = check(Attention(), engine="search", limit=60_000)
    assert (result.verdict, result.scope) == (PROVED, {"trips": "all"})


@pytest.mark.parametrize(
    ("mistake", "property", "line"),
    [
        ("q kept", "deadlock", "self.q_empty[q].wait(q.phase)"),
        ("restarted", "race", "self.mma(self.q[0], self.k[kv])"),
        ("v early", "race", "self.v_empty[kv].arrive()"),
    ],
)
def test_each_mistake_is_found_at_its_line(mistake, property, line):
    trace = check(Attention(mistake=mistake), engine="search", limit=60_000).trace
    assert trace is not None and trace.property == property
    lines = [one.line for one in trace.blocked if one.to_blame] or [step.line for step in trace.steps]
    assert any(line in linecache.getline(__file__, number) for number in lines if number)


def test_a_warpgroup_that_waits_at_some_stages_late_is_traced_in_no_time(tmp_path):
    """FlashAttention-3's second warpgroup waits for the first K and the last V of a tile, so that it comes to a stage
    for the first time after any number of laps; how many is found out for that stage, and the others stay as they are.
    """
    operations = 0

    def tick(*_: object) -> None:
        nonlocal operations
        operations += 1

    kernel = trace(Seeded("as it is", "flash_attention", (), {}).made(tmp_path), tick)
    assert [len(program.nodes) for program in kernel.programs] == [453, 2, 639, 830]
    assert operations < 40_000
