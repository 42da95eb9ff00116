"""Whole kernels as CUTLASS's builder makes them, for every number of k-tiles that its rings can tell apart."""

from __future__ import annotations

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.spec.cutlass.builder import parameters
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.cutlass.mainloop import Mainloop, MainloopCollective
from sm90_verify.spec.language.walk import trace

BUILT = [
    pytest.param(schedule, bits, tiles, id=f"{schedule}-{'C' if bits else 'void'}-{tiles}")
    for schedule in GEMMS
    for bits in (16, 0)
    for tiles in (1, 2, 3)
    if schedule != "ws" or tiles == 1
]


def kernel(schedule, bits=16, tiles=1, **changes):
    """The kernel that the builder makes for tiles of 128 x 128 x 64 in f16."""
    settings = {**parameters(schedule, (128, 128, 64), bits_c=bits), **changes}
    if schedule != "ws":
        settings["tiles"] = tiles
    return GEMMS[schedule](**settings)


def test_the_configuration_is_the_one_that_was_measured():
    for bits, shape in ((16, (6, 4, 2, True, False)), (0, (6, 4, 2, False, True))):
        made = kernel("cooperative", bits)
        found = (made.stages, made.stages_c, made.stages_d, made.reuse_smem_c, made.delay_tma_store)
        assert found == shape


@pytest.mark.parametrize(("schedule", "bits", "tiles"), BUILT)
def test_is_proved_for_every_number_of_k_tiles(schedule, bits, tiles):
    stages = kernel(schedule, bits).stages
    for k_tiles in range(1, 2 * stages + 2):
        outcome = order(trace(kernel(schedule, bits, tiles, k_tiles=k_tiles)))
        assert outcome.verdict == "proved", (k_tiles, outcome.verdicts, outcome.why)


@pytest.mark.parametrize(("stages", "k_tiles"), [(5, 3), (2, 13), (3, 1)])
@pytest.mark.parametrize("schedule", ["cooperative", "pingpong"])
def test_is_proved_for_tiles_without_end(schedule, stages, k_tiles):
    """Also where a warpgroup comes to some stages only after several laps."""
    assert (
        order(trace(kernel(schedule, tiles="forever", stages=stages, k_tiles=k_tiles, subtiles=2))).verdict == "proved"
    )


@pytest.mark.parametrize("k_tiles", [1, 4])
def test_pingpong_without_its_order_barrier_is_violated(k_tiles):
    made = kernel("pingpong", tiles=2, k_tiles=k_tiles, without="mma_order,epilogue_order")
    result = check(made, command="gemm", engine="order")
    assert result.verdict == "violated"
    assert result.trace is not None and result.trace.steps


@pytest.mark.parametrize("schedule", GEMMS)
def test_gemm_is_decided_by_happens_before_unless_told_otherwise(schedule, capsys):
    assert main(["gemm", "--schedule", schedule, "--format", "json"]) == 0
    assert '"engine": "order"' in capsys.readouterr().out


@pytest.mark.parametrize("cluster", ["2x1", "1x2", "2x2"])
@pytest.mark.parametrize("schedule", GEMMS)
def test_whole_kernels_in_clusters(schedule, cluster):
    """Each CTA loads slices of A and B for others; a release goes to all that write the stage."""
    assert order(trace(kernel(schedule, tiles=3, k_tiles=8, cluster=cluster))).verdict == "proved"


@pytest.mark.parametrize("schedule", GEMMS)
def test_clusters_need_wgmma_groups_to_belong_to_the_warpgroup(schedule):
    """One warp releases a stage for all four: with one CTA every thread does, and only the ws union needs it."""
    made = kernel(schedule, tiles=2, k_tiles=8, cluster="2x1", collective_wgmma=False)
    assert order(trace(made)).verdicts["race"] == "violated"
    made = kernel(schedule, tiles=2, k_tiles=8, collective_wgmma=False)
    assert order(trace(made)).verdict == "proved"


def meets_where_it_issues(self, release, me):
    """`_wait_and_release` of warps that meet where they issue, and go on from their waits each by itself."""
    yield from self._together(me)
    yield self.mma_wait(self.wait_group)
    yield from self.mainloop.consumer_release(release, me)


@pytest.mark.parametrize("cluster", ["2x1", "2x2"])
@pytest.mark.parametrize("schedule", GEMMS)
def test_a_warp_that_lingers_before_its_wait_changes_nothing(schedule, cluster, monkeypatch):
    """As on an H100, which has no meeting behind the wait. In such a model the operands are read until each warp has
    seen the end itself, which is not so: what it says of races is no more than that. Everything else is proved.
    """
    monkeypatch.setattr(MainloopCollective, "_wait_and_release", meets_where_it_issues)
    verdicts = order(trace(kernel(schedule, tiles=3, k_tiles=8, cluster=cluster))).verdicts
    of_reads = {"race", "stale-read", "missing-fence"}
    assert verdicts["race"] == "violated"
    assert {name: verdict for name, verdict in verdicts.items() if name not in of_reads} == dict.fromkeys(
        verdicts.keys() - of_reads, "proved"
    )


@pytest.mark.parametrize("without", ["load_tail", "mma_tail"])
def test_the_tails_of_a_mainloop_in_a_cluster(without):
    made = Mainloop(stages=2, k_tiles=3, cluster="2x1")
    assert check(made, command="mainloop", engine="search").verdict == order(trace(made)).verdict == "proved"
    wrong = Mainloop(stages=2, k_tiles=3, cluster="2x1", without=without)
    expected = {"load_tail": "exit-hazard", "mma_tail": "deadlock"}[without]
    found = {f.id for f in check(wrong, command="mainloop", engine="search").findings if f.verdict == "violated"}
    assert expected in found
    assert order(trace(wrong)).verdicts[expected] == "violated"


@pytest.mark.parametrize("consumers", [64, 200])
def test_a_cluster_with_an_odd_number_of_consumers_is_never_released(consumers):
    """Nobody signals unless there are 32 or a multiple of 128 consumers (sm90_pipeline.hpp:360-377)."""

    class Odd(Mainloop):
        @property
        def mma_threads(self):
            return consumers

    assert order(trace(Odd(stages=2, k_tiles=3, cluster="2x1"))).verdicts["deadlock"] == "violated"


@pytest.mark.parametrize("cluster", ["2x2", "4x1", "2x4", "4x4"])
def test_clusters_are_proved_for_every_trip_count(cluster):
    trips = "all" if cluster == "2x2" else 5
    outcome = order(trace(TmaAsync(stages=2, cluster=cluster, trips=trips)))
    assert outcome.verdict == "proved"


def test_two_consumer_warpgroups_in_a_cluster():
    assert order(trace(TmaAsync(stages=2, cluster="2x2", consumers=2, trips=5))).verdict == "proved"
