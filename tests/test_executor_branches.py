"""What the executor is told of branches, words, global memory, several CTAs and grids; and its runs are allowed."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from emulated_executor import EmulatedExecutor

from sm90_verify.gpu.arrays import merged, node_at
from sm90_verify.gpu.device import Gpu
from sm90_verify.gpu.executor import macros_of, runs_at_once
from sm90_verify.gpu.wrong import partial_sum, wrong_data
from sm90_verify.recordings.acceptance import acceptance_of
from sm90_verify.recordings.linearise import Linearise
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import recorded
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile, word
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

GPU = asdict(Gpu("emulated", "0.0", "0.0", 1))


def codes(plan, name):
    (one,) = [role for role in plan.roles if role.name == name]
    return [instruction.code for instruction in one.instructions]


class Asks(Pipeline):
    """A consumer that peeks, then waits if it must; and one that only polls."""

    full = barrier(arrivals=2)
    a = tile(bytes=64)

    @role(warps=1, copies=2)
    def producer(self):
        yield self.full.arrive()

    @role(warps=2)
    def peeks(self):
        if not (yield self.full.try_wait(0)):
            yield self.full.wait(0)
        yield self.a.read()

    @role(warps=1)
    def polls(self):
        while not (yield self.full.test_wait(0)):
            pass


def test_an_answer_is_a_branch_and_a_poll_is_a_wait():
    """The warps of a role meet before and after what one of its threads asks for all."""
    plan = lower(trace(Asks()))
    assert codes(plan, "polls") == ["try_wait", "branch", "wait", "jump"]
    assert codes(plan, "peeks") == ["meet", "try_wait", "meet", "branch", "wait", "read", "jump", "read"]
    peeks, polls = plan.roles[2:]
    ways = {one.a: one.b for one in peeks.instructions if one.code == "branch"}
    assert ways == {1: 7} and peeks.instructions[6].b == 8 == len(peeks.instructions)
    assert [one.c for role in (peeks, polls) for one in role.instructions if one.code == "branch"] == [1, 0]
    assert (peeks.most, polls.most) == (6, 2) and not plan.has("word")


class Flag(Pipeline):
    """A flag in global memory between CTAs that are no cluster, and one in shared memory."""

    clusters = 2
    flag = word(initial=2, values=4)
    mine = word(space="shared", initial=1)
    data = tile(bytes=64, space="global")

    @role(warps=1, clusters=(0,))
    def writer(self):
        yield self.data.write(tag=1)
        yield self.flag.st(3, sem="release")

    @role(warps=2, clusters=(1,))
    def reader(self):
        yield self.flag.spin(at_least=3)
        yield self.data.read(tag=1)
        value = yield self.mine.ld(scope="cta")
        if value == 1:
            yield self.mine.st(0, scope="cta")


def test_words_and_global_memory_have_places_and_first_values():
    plan = lower(trace(Flag()))
    assert not plan.alone and plan.memory and plan.warps == 2
    assert {value for cta, _, value in plan.words if cta == -1} == {2}
    assert {cta for cta, _, value in plan.words if value == 1} == {0, 1}
    (writer, reader) = plan.roles
    assert [(one.code, one.e) for one in writer.instructions] == [("write", 1), ("word", 0)]
    assert [one.b for one in reader.instructions if one.code == "word"] == [1, 0, 0]
    assert macros_of(plan, record=True) == {"RECORD": 1, "WORDS": 1, "CTAS": 2}
    assert runs_at_once(plan, 200) == 50


@pytest.mark.parametrize("kernel", [Asks, Flag])
def test_what_an_emulated_gpu_does_with_them_is_allowed(kernel):
    plan = lower(trace(kernel()))
    done = EmulatedExecutor(plan).run(1)
    held = acceptance_of(replace(recorded(GPU, plan, done, 0), file=__file__, model=kernel.__name__))
    assert held.accepted == 1 and wrong_data(plan, done[0]) == ""


def test_a_word_that_was_not_there_is_not_allowed():
    plan = lower(trace(Flag()))
    (run,) = EmulatedExecutor(plan).run(1)
    model = Linearise(plan, compile_kernel(plan.kernel))
    assert model.order(run).accepted
    events = [
        replace(
            event, reads=tuple((name, 0, 0) if "mine" in name else (name, low, high) for name, low, high in event.reads)
        )
        for event in run.roles[1].events
    ]
    order = model.order(replace(run, roles=(run.roles[0], replace(run.roles[1], events=tuple(events)))))
    assert not order.accepted and "whose value is 1" in order.because


class Adds(Pipeline):
    """Two warps add to a buffer, one reads the sum."""

    done = barrier(arrivals=64)
    total = tile(bytes=64)

    @role(warps=1, copies=2)
    def adder(self, me):
        yield self.total.red(scope="cta")
        yield self.done.arrive(me.threads)

    @role(warps=1)
    def reader(self):
        yield self.done.wait(0)
        yield self.total.read()


def test_a_sum_of_which_something_is_missing_is_seen():
    plan = lower(trace(Adds()))
    (run,) = EmulatedExecutor(plan).run(1)
    assert plan.derived == {"total"} and run.roles[2].events[-1].reads == (("total", 3, 3),)
    assert Linearise(plan, compile_kernel(plan.kernel)).order(run).accepted and partial_sum(plan, run) == ""
    reader = run.roles[2]
    torn = replace(
        run,
        roles=(
            *run.roles[:2],
            replace(reader, events=(reader.events[0], replace(reader.events[1], reads=(("total", 1, 1),)))),
        ),
    )
    assert "not the sum 3" in partial_sum(plan, torn)
    order = Linearise(plan, compile_kernel(plan.kernel)).order(torn)
    assert not order.accepted and order.property == "stale-read"


class Meets(Pipeline):
    """Roles of a cluster meet while others have ended."""

    cluster = "2x1"
    x = tile(bytes=64)

    @role(warps=1)
    def meets(self, me):
        yield self.x.write(tag=me.cta)
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.x.on(1 - me.cta).read(tag=1 - me.cta)
        yield self.cluster_arrive()
        yield self.cluster_wait()

    @role(warps=1)
    def ends(self):
        yield self.launch_dependents()


def test_a_cluster_meets_without_who_has_ended():
    plan = lower(trace(Meets()))
    assert plan.meets and macros_of(plan, record=False) == {"MEETS": 1, "CLUSTER": 2}
    assert [one.e for one in plan.roles[0].instructions if one.code == "read"] == [3]
    (run,) = EmulatedExecutor(plan).run(1)
    assert not run.hangs and wrong_data(plan, run) == ""
    assert Linearise(plan, compile_kernel(plan.kernel)).order(run).accepted


class Chosen(Pipeline):
    """Both roles do what was chosen, the second choice only after the first."""

    x = tile(bytes=64)

    @role(warps=1)
    def one(self):
        for _ in range(2):
            if (yield self.choose("way", "left", "right")) == "right":
                yield self.x.read()

    @role(warps=1)
    def other(self):
        yield self.choose("way", "left", "right", "back")


def test_choices_are_numbered_and_have_as_many_options_as_all_know():
    plan = lower(trace(Chosen()))
    assert plan.choices == (2, 2)
    one, other = plan.roles
    assert next(one.a for one in one.instructions if one.code == "choose") == 0
    assert [one.a for one in other.instructions if one.code == "choose"] == [0]
    for choices in ((0, 1), (1, 0)):
        (run,) = EmulatedExecutor(plan).run(1, choices=choices)
        assert sum(bool(event.reads) for event in run.roles[0].events) == 1
        assert Linearise(plan, compile_kernel(plan.kernel)).order(run).accepted


def test_what_was_recorded_is_merged_by_node():
    """The instruction stands in the event: of a role that asks again, one node is several events."""
    (peeks,) = [role for role in lower(trace(Asks())).roles if role.name == "peeks"]
    waited = (0, False, False, False)
    ways = [(place, (10 * n, 10 * n + 5), waited[n], (7, 9)) for n, place in enumerate((0, 1, 2, 7))]
    asked, read = merged(peeks.instructions, ways)
    assert asked == Event(0, 0, 25, False) and read == Event(1, 30, 35, False, (("a", 7, 9),))
    again = merged(peeks.instructions, [*ways[:3], *ways[:2]])
    assert [(event.node, event.after) for event in again] == [(0, 25), (0, 15)]
    nodes = [node_at(peeks.instructions, at) for at in range(len(peeks.instructions) + 1)]
    assert nodes == [0, 0, 0, 0, 3, 4, -1, 1, -1]


def test_a_grid_that_gave_up_shows_nothing_of_a_race():
    class Two(Pipeline):
        out = tile(bytes=64, space="global")

        @role(warps=1)
        def first(self):
            yield self.out.write()

        @role(warps=1, grid=1)
        def second(self):
            yield self.out.read()

    plan = lower(trace(Two()))
    assert macros_of(plan, record=True) == {"RECORD": 1, "GRIDS": 2} and runs_at_once(plan, 9) == 1
    number = plan.initial["out"]
    last = len(plan.nodes["grid1.second"]) - 2
    run = GpuRun(False, (RoleRun("grid1.second", -1, (Event(last, 0, 1, False, (("out", number, number),)),)),))
    assert "found nothing in out" in wrong_data(plan, run) and wrong_data(plan, replace(run, hangs=True)) == ""


def test_arrivals_at_several_ctas_are_one_instruction():
    class Several(Pipeline):
        cluster = "2x1"
        sem = "release"
        empty = barrier(arrivals=2)

        @role(warps=1)
        def one(self):
            yield self.empty.arrive(ctas=(0, 1), sem=self.sem)
            yield self.empty.wait(0)

    (arrive, _) = lower(trace(Several())).roles[0].instructions
    assert (arrive.code, arrive.e) == ("arrive", 3)
    (relaxed, _) = lower(trace(Several(sem="relaxed"))).roles[0].instructions
    assert relaxed.e == 3 | 1 << 16


def test_red_does_not_acquire():
    class Acquires(Pipeline):
        count = word()

        @role(warps=1)
        def one(self):
            yield self.count.red("max", 1, sem="acq_rel")

    with pytest.raises(SpecError, match="use atom"):
        lower(trace(Acquires()))


def test_a_peer_is_named_by_its_rank_in_its_own_cluster():
    class Pairs(Pipeline):
        cluster = "2x1"
        clusters = 2
        full = barrier(arrivals=1)

        @role(warps=1)
        def twin(self, me):
            yield self.full.on(1 - me.cta).arrive()
            yield self.full.wait(0)

    plan = lower(trace(Pairs()))
    assert [role.instructions[0].d for role in plan.roles] == [1, 0, 1, 0]
    (run,) = EmulatedExecutor(plan).run(1)
    assert not run.hangs
