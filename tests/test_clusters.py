"""Several clusters of one grid: own barriers and shared memory, one global memory, one barrier.cluster for each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import programs_of, soup

from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile, word
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.launch import LaunchShape


class Pairs(Pipeline):
    """In every cluster each CTA tells its peer, then writes a place of its own in global memory."""

    cluster = "2x1"
    clusters = 2
    full = barrier(arrivals=1)
    a = tile(bytes=1024)
    out = tile(bytes=16, slots=4, space="global")

    @role(warps=1)
    def twin(self, me):
        yield self.full[0].on(1 - me.cta).arrive()
        yield self.full[0].wait(0)
        yield self.out[2 * me.cluster + me.cta].write()
        yield self.cluster_arrive()
        yield self.cluster_wait()


def test_ctas_are_counted_through_all_clusters():
    launch = LaunchShape(Cluster(2, 1), clusters=3, grids=2)
    assert (launch.ctas, launch.blocks) == (12, 6)
    assert [launch.rank(cta) for cta in range(12)] == [0, 1] * 6
    assert [launch.cluster_of(cta) for cta in range(12)] == [0, 0, 1, 1, 2, 2] * 2
    assert [launch.grid_of(cta) for cta in range(12)] == [0] * 6 + [1] * 6
    assert [launch.peer(9, rank) for rank in (0, 1)] == [8, 9]
    assert launch.home(9) == "grid1.cluster1.cta1." and launch.called(9) == "1 of cluster 1 of grid 1"
    assert LaunchShape(Cluster(2, 1)).home(1) == "cta1." and LaunchShape(Cluster(), 2).home(1) == "cluster1."
    assert LaunchShape(Cluster()).home(0) == "" and LaunchShape(Cluster(2, 1)).called(1) == "1"


def test_every_cluster_has_its_own_roles_barriers_and_shared_memory():
    kernel = trace(Pairs())
    assert [program.name for program in kernel.programs] == [
        f"cluster{cluster}.cta{cta}.twin" for cluster in (0, 1) for cta in (0, 1)
    ]
    assert [(program.me.cta, program.me.cluster, program.me.number) for program in kernel.programs] == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 2),
        (1, 1, 3),
    ]
    placed = [(region.object, region.cta) for region in kernel.layout.regions if region.declaration == "a"]
    assert placed == [(f"cluster{cta // 2}.cta{cta % 2}.a", cta) for cta in range(4)]
    assert [one.object for one in kernel.layout.regions if one.declaration == "out"] == [f"out[{n}]" for n in range(4)]


def test_on_reaches_the_peers_of_the_own_cluster():
    kernel = trace(Pairs())
    targets = [(program.nodes[0].operation.barrier, program.nodes[0].operation.cta) for program in kernel.programs]
    assert targets == [
        ("cluster0.cta1.full", 1),
        ("cluster0.cta0.full", 0),
        ("cluster1.cta1.full", 3),
        ("cluster1.cta0.full", 2),
    ]


def test_a_kernel_of_one_cluster_is_as_it_was():
    kernel = trace(TmaAsync(stages=1, cluster="2x1"))
    assert {program.home for program in kernel.programs} == {"cta0.", "cta1."}
    assert not {"clusters", "resident"} & set(kernel.parameters)
    assert trace(Pairs()).parameters["clusters"] == 2


class Marching(Pipeline):
    """The CTAs of each cluster meet; in one of several, or in all."""

    cluster = "2x1"
    clusters = 2
    meeting: tuple[int, ...] = (0, 1)

    @role(warps=1)
    def one(self, me):
        if me.cluster in self.meeting:
            yield self.cluster_arrive()
            yield self.cluster_wait()
        else:
            yield self.named_sync(1, 32)


@pytest.mark.parametrize("engine", ["search", "order", "smt"])
@pytest.mark.parametrize("meeting", [(0, 1), (1,)])
def test_barrier_cluster_waits_for_its_own_cluster(engine, meeting):
    pipeline = Marching()
    object.__setattr__(pipeline, "meeting", meeting)
    assert check(pipeline, engine=engine).verdict == "proved"


class OneCtaOfTwo(Pipeline):
    """A CTA of cluster 1 does not come to the barrier of its cluster; those of cluster 0 cannot stand in for it."""

    cluster = "2x1"
    clusters = 2
    never = barrier(arrivals=1)

    @role(warps=1, ctas=(0,))
    def comes(self):
        yield self.cluster_arrive()
        yield self.cluster_wait()

    @role(warps=1, ctas=(1,), clusters=(0,))
    def comes_too(self):
        yield self.cluster_arrive()
        yield self.cluster_wait()

    @role(warps=1, ctas=(1,), clusters=(1,))
    def stays_away(self):
        yield self.never.wait(0)


@pytest.mark.parametrize("engine", ["search", "order", "smt"])
def test_nobody_of_another_cluster_stands_in_at_barrier_cluster(engine):
    result = check(OneCtaOfTwo(), engine=engine)
    assert result.verdict == VIOLATED
    assert [one.role for one in result.trace.blocked] == ["cluster1.cta0.comes", "cluster1.cta1.stays_away"]


def test_roles_of_some_clusters():
    names = [program.name for program in trace(OneCtaOfTwo()).programs]
    assert names == [
        "cluster0.cta0.comes",
        "cluster0.cta1.comes_too",
        "cluster1.cta0.comes",
        "cluster1.cta1.stays_away",
    ]


class GoesAway(Pipeline):
    """A CTA reaches into its peer, which may have exited."""

    cluster = "2x1"
    clusters = 2
    full = barrier(arrivals=1)

    @role(warps=1, ctas=(0,), clusters=(1,))
    def late(self):
        yield self.full[0].on(1).arrive()

    @role(warps=1, ctas=(1,))
    def gone(self):
        yield self.named_sync(1, 32)


@pytest.mark.parametrize("engine", ["search", "order"])
def test_a_cta_of_several_clusters_is_called_by_rank_and_cluster(engine):
    result = check(GoesAway(), engine=engine)
    assert result.verdict == VIOLATED and "reaches into CTA 1 of cluster 1" in result.trace.because


def test_all_run_at_once_is_said():
    (note,) = [note for note in check(Pairs()).notes if "resident" in note]
    assert note == "assumed: all 2 clusters of the grid run at once (resident = False: in waves)"
    assert not [note for note in check(Pairs(clusters=1)).notes if "resident" in note]


class Looping(Pipeline):
    """Clusters that meet in every iteration, as often as each other, or as each likes."""

    clusters = 2
    own = False
    count = word(values=2, wraps=True, slots=1)
    turn = word(values=2, wraps=True, slots=1)

    @role(warps=1)
    def one(self, me):
        for _ in self.loop(name=f"of {me.cluster}" if self.own else "trips"):
            if me.cluster == 0:
                yield self.turn[0].red("add", 1, sem="release")
                yield self.count[0].spin(equals=1)
                yield self.count[0].red("add", 1, sem="release")
            else:
                yield self.turn[0].spin(equals=1)
                yield self.turn[0].red("add", 1, sem="release")
                yield self.count[0].red("add", 1, sem="release")
                yield self.count[0].spin(equals=0)


def test_clusters_have_one_trip_count_unless_the_loop_says_otherwise():
    shared = check(Looping())
    assert shared.verdict == "proved"
    assert "assumed: loops of one name have as many iterations in all 2 clusters" in shared.notes
    assert check(Looping(own=True)).trace.property == "deadlock"


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: Pairs(clusters=0), "clusters=0: use 1 or more"),
        (lambda: trace(OneCtaOfTwo(clusters=1)), "is that of cluster 1, and there are 1 clusters"),
        (lambda: role(warps=1, clusters=1), "use a tuple of numbers"),
        (lambda: role(warps=1, grid=2), "use 0, or 1 for the dependent grid"),
    ],
)
def test_what_cannot_be_meant(kernel, words):
    with pytest.raises(SpecError, match=words):
        kernel()


def test_a_hand_made_kernel_reaches_no_other_cluster():
    kernel = trace(Pairs())
    first, *others = kernel.programs
    arrive = replace(first.nodes[0].operation, barrier="cluster1.cta0.full", cta=2)
    wrong = replace(first, nodes=(replace(first.nodes[0], operation=arrive), *first.nodes[1:]))
    with pytest.raises(SpecError, match="of CTA 2: use 0 to 1"):
        validate(replace(kernel, programs=(wrong, *others)), annotated=True)
    with pytest.raises(SpecError, match="come before"):
        validate(replace(kernel, programs=(replace(first, me=replace(first.me, before=2)), *others)), annotated=True)


class ElectsInTheSecondCluster(Pipeline):
    """A warp of one cluster has an elected thread, and __syncwarp() of its own."""

    clusters = 2
    meets = True
    x = tile(bytes=16, slots=1)

    @role(threads=32, clusters=(0,))
    def first(self):
        yield self.x.write()

    @role(threads=32, split=(1, 31), clusters=(1,))
    def second(self, me):
        if me.leader:
            yield self.x.write(tag=1)
        if self.meets:
            yield self.warp_sync()
        yield self.x.read(tag=1)


@pytest.mark.parametrize("meets", [True, False])
def test_a_barrier_of_a_split_warp_belongs_to_the_cluster_of_its_role(meets):
    assert check(ElectsInTheSecondCluster(meets=meets), engine="search").verdict == (PROVED if meets else VIOLATED)


OPERATIONS = st.sampled_from(
    [
        *(("wait", "p", parity) for parity in (0, 1)),
        ("arrive", "p", 0),
        ("arrive", "p", 0),
        ("try", "p", 0),
        ("far", "p", 0),
        ("meet", "", 0),
        *(("global read", "", which) for which in (0, 1)),
        *(("global write", "", which) for which in (0, 1)),
        ("arm", "p", 0),
        ("load", "p", 0),
        ("read", "", 0),
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_of(OPERATIONS, st.just(2), 4), st.sampled_from(["1x1", "2x1"]), st.integers(1, 2))
def test_random_programs_of_two_clusters(programs, cluster, arrivals):
    """Search with and without reduction, and order where it applies, give the same answer."""
    try:
        kernel = trace(soup(programs, cluster=cluster, clusters=2, trips=1, p_arrivals=arrivals))
    except SpecError:
        return
    machine = compile_kernel(kernel)
    full = explore(machine, limit=6_000, stop_at_first=True)
    if not full.complete and not full.violations:
        return
    reduced = explore(machine, reduced=True, limit=6_000, stop_at_first=True)
    assert bool(full.violations) == bool(reduced.violations)
    outcome = order(kernel)
    if outcome.verdict != UNDETERMINED:
        assert (outcome.verdict == VIOLATED) == bool(full.violations)


class Waves(Pipeline):
    """Not resident unless it is said."""

    resident = False

    @role(warps=1)
    def one(self):
        yield self.cta_sync()


def test_parameters_make_the_same_pipeline_again():
    """Those of a launch of several clusters are left out only where they say nothing."""
    assert "resident" not in Pairs().parameters()
    for resident in (True, False):
        assert Waves(resident=resident).parameters()["resident"] is resident
        assert Waves(**Waves(resident=resident).parameters()).resident is resident
