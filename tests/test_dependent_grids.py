"""Programmatic dependent launch, sentence by sentence (PTX ISA 9.7.13.13), and grids that are started in waves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm90_verify.counterexample.trace import initial_state, is_enabled, take
from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.bounded import bounded
from sm90_verify.recordings.lower import lower
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op

ENGINES = ("search", "order", "smt")


class Two(Pipeline):
    """A grid that writes, and one that reads. does: what each does, a word for each operation."""

    first: str = "write"
    second: str = "wait read"
    helper: str = ""
    full = barrier(arrivals=1)
    out = tile(bytes=64, slots=2, space="global")
    own = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield from self.do(self.first)

    @role(warps=1, grid=1)
    def two(self):
        yield from self.do(self.second)

    @role(warps=1, grid=1, copies=lambda self: int(bool(self.helper)))
    def helps(self):
        yield from self.do(self.helper)

    def do(self, words):
        for word in words.split():
            match word:
                case "wait":
                    yield self.grid_wait()
                case "launch":
                    yield self.launch_dependents()
                case "write":
                    yield self.out[0].write(tag="new")
                case "other":
                    yield self.out[1].write()
                case "read":
                    yield self.out[0].read()
                case "new":
                    yield self.out[0].read(tag="new")
                case "store":
                    yield self.own[0].store(to=self.out[0])
                    yield self.bulk_commit()
                case "take":
                    yield self.out[0].store()
                    yield self.bulk_commit()
                    yield self.bulk_wait(0)
                case "touch":
                    yield self.own[0].write()
                case "arrive":
                    yield self.full[0].arrive()
                case "await":
                    yield self.full[0].wait(0)


def verdicts(pipeline):
    """Of every engine, and of the search without reduction."""
    answers = [check(pipeline, engine=engine) for engine in ENGINES] + [check(pipeline, reduced=False)]
    return [{one.id for one in answer.findings if one.verdict == VIOLATED} or answer.verdict for answer in answers]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", ["write", "launch write", "write launch", "launch write launch", "launch"])
def test_wait_is_for_the_end_of_the_grid_wherever_it_launches(engine, first):
    assert check(Two(first=first), engine=engine).verdict == PROVED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("launch write", "read"),
        ("write launch", "read"),
        ("write", "read"),
        ("write launch", "read wait"),
        ("read launch", "write wait"),
        ("launch write", "write wait"),
        ("store launch", "read wait"),
    ],
)
def test_a_launch_orders_no_memory(first, second):
    """The dependents may begin before what the grid before has done is visible; with launch_dependents or without."""
    assert verdicts(Two(first=first, second=second)) == [{"race"}] * 4


@pytest.mark.parametrize("engine", ENGINES)
def test_what_touches_nothing_of_the_grid_before_needs_no_wait(engine):
    assert check(Two(first="launch write", second="other touch"), engine=engine).verdict == PROVED
    assert check(Two(first="launch read", second="read"), engine=engine).verdict == PROVED


@pytest.mark.parametrize("engine", ["search", "order"])
def test_one_thread_waits_for_all_that_come_after_it(engine):
    assert check(Two(second="await read", helper="wait arrive"), engine=engine).verdict == PROVED
    assert check(Two(second="await read", helper="arrive wait"), engine=engine).verdict == VIOLATED
    assert check(Two(second="read await", helper="wait arrive"), engine=engine).verdict == VIOLATED


@pytest.mark.parametrize("engine", ENGINES)
def test_wait_makes_everything_visible(engine):
    """Stores that nobody waited for are complete, ordinary writes are there for bulk copies, and the data is new."""
    assert check(Two(first="store", second="wait read"), engine=engine).verdict == PROVED
    assert check(Two(first="write", second="wait take"), engine=engine).verdict == PROVED
    assert check(Two(first="write", second="wait new"), engine=engine).verdict == PROVED


def test_without_the_wait_a_fence_is_missing_too():
    assert check(Two(first="write", second="take"), reduced=False).verdict == VIOLATED
    found = explore(compile_kernel(trace(Two(first="write", second="take")))).violations
    assert set(found) == {"race", "missing-fence"}


def test_nobody_has_to_launch():
    """Dependents that nobody launches begin at the end of the grid before: no role waits for ever."""
    assert check(Two(first="other", second="wait read")).verdict == PROVED


class Alone(Pipeline):
    """Both operations in a kernel that is launched alone."""

    out = tile(bytes=64, slots=1, space="global")

    @role(warps=1)
    def only(self):
        yield self.grid_wait()
        yield self.out.write()
        yield self.launch_dependents()


@pytest.mark.parametrize("engine", ENGINES)
def test_both_do_nothing_in_a_kernel_that_is_launched_alone(engine):
    assert check(Alone(), engine=engine).verdict == PROVED
    assert [role.name for role in compile_kernel(trace(Alone())).roles] == ["only"]


@pytest.mark.parametrize("engine", ENGINES)
def test_both_do_nothing_in_the_first_grid_and_the_last(engine):
    assert check(Two(first="wait write", second="launch wait read launch"), engine=engine).verdict == PROVED


class TripsOfEach(Pipeline):
    """Each grid has a trip count of its own."""

    out = tile(bytes=64, slots=1, space="global")
    mine = tile(bytes=64, slots=1, space="global")

    @role(warps=1)
    def one(self):
        for _ in self.loop():
            yield self.out.write()
        yield self.launch_dependents()

    @role(warps=1, grid=1)
    def two(self):
        yield self.grid_wait()
        for _ in self.loop():
            yield self.out.read()
            yield self.mine.write()


def test_each_grid_has_a_trip_count_of_its_own():
    loops = {node.loop for program in trace(TripsOfEach()).programs for node in program.nodes if node.loop}
    assert loops == {"trips", "grid1.trips"}
    assert check(TripsOfEach()).verdict == PROVED
    assert check(TripsOfEach(trips=3), engine="search+order").verdict == PROVED


@pytest.mark.parametrize("trips", ["all", 0, 2])
def test_a_first_grid_of_any_length(trips):
    class First(Two):
        @role(warps=1)
        def one(self):
            for _ in self.loop():
                yield self.out[0].write(tag="new")

    assert check(First(trips=trips), engine="search+order").verdict == PROVED
    assert check(First(trips=trips or 1, second="read wait"), engine="search+order").verdict == VIOLATED


def test_a_first_grid_that_never_ends_is_waited_for_for_ever():
    class First(Two):
        @role(warps=1)
        def one(self):
            for _ in self.forever():
                yield self.out[0].write(tag="new")

    result = check(First(), engine="search+order")
    assert result.verdict == VIOLATED and result.trace.property == "deadlock"
    assert [one.waits_for for one in result.trace.blocked] == ["grid"]
    assert check(First(second="touch")).trace.property == "deadlock"
    assert check(First(second="touch"), engine="order").verdict == UNDETERMINED


# ---------------------------------------------------------------- what a CTA may not count on


def crossed(pipeline, there, here):
    """The kernel in which `there` arrives on the barrier of `here`, as no operation of the language can."""
    kernel = trace(pipeline)
    home = next(program for program in kernel.programs if program.name == here)

    def moved(node):
        if not isinstance(node.operation, op.Arrive):
            return node
        return replace(node, operation=replace(node.operation, barrier=home.home + "full", cta=home.me.number))

    return replace(
        kernel,
        programs=tuple(
            replace(program, nodes=tuple(map(moved, program.nodes))) if program.name == there else program
            for program in kernel.programs
        ),
    )


class Clusters(Pipeline):
    """One role in each cluster: in cluster `waits` it waits, and in the other it arrives."""

    clusters = 2
    waits = 0
    full = barrier(arrivals=1)

    @role(warps=1)
    def one(self, me):
        if me.cluster == self.waits:
            yield self.full[0].wait(0)
        else:
            yield self.full[0].arrive()


@pytest.mark.parametrize(
    ("kernel", "stuck"),
    [
        (lambda: crossed(Two(first="await", second="arrive"), "grid1.two", "grid0.one"), True),
        (lambda: crossed(Two(first="launch await", second="arrive"), "grid1.two", "grid0.one"), True),
        (lambda: crossed(Two(first="arrive", second="await"), "grid0.one", "grid1.two"), False),
        (lambda: crossed(Clusters(resident=False), "cluster1.one", "cluster0.one"), True),
        (lambda: crossed(Clusters(), "cluster1.one", "cluster0.one"), False),
        (lambda: crossed(Clusters(waits=1, resident=False), "cluster0.one", "cluster1.one"), False),
    ],
)
def test_nobody_may_wait_for_a_cta_that_need_not_be_started_yet(kernel, stuck):
    """Dependents need not be launched before the grid before has ended; a cluster, before those before it have."""
    kernel = kernel()
    machine = compile_kernel(kernel)
    for found in (explore(machine), explore(machine, reduced=True)):
        assert found.complete and set(found.violations) == ({"deadlock"} if stuck else set())
    assert set(bounded(machine, 6).violations) == ({"deadlock"} if stuck else set())
    outcome = order(kernel)
    assert outcome.verdict == (UNDETERMINED if stuck else PROVED)
    assert ("may not be started by then" in outcome.why) == stuck


@pytest.mark.parametrize("clusters", [2, 3])
def test_clusters_in_waves_that_need_each_other_for_nothing(clusters):
    class Waves(Pipeline):
        out = tile(bytes=64, slots=4, space="global")

        @role(warps=1)
        def one(self, me):
            yield self.out[me.cluster].write()

    for engine in ENGINES:
        result = check(Waves(clusters=clusters, resident=False), engine=engine)
        assert result.verdict == PROVED and not [note for note in result.notes if "resident" in note]
    machine = compile_kernel(trace(Waves(clusters=clusters, resident=False)))
    first, *later = [action for action in machine.actions if action.op == "start of the CTA"]
    assert [action.role for action in (first, *later)] == [f"cluster{n}.one" for n in range(1, clusters)]
    before = initial_state(machine)
    assert is_enabled(machine, first, before) and not any(is_enabled(machine, one, before) for one in later)
    after = take(machine, first, before)
    assert all(is_enabled(machine, one, after) for one in later)


def test_what_no_front_end_makes_is_refused():
    kernel = trace(Two())
    first, second = kernel.programs
    late = replace(second, nodes=second.nodes[1:])
    for programs in ((first, late), (replace(first, nodes=second.nodes), second)):
        with pytest.raises(SpecError, match="use one at location 0"):
            validate(replace(kernel, programs=programs), annotated=True)


def test_a_grid_that_nobody_waits_for_does_not_wait_on_the_gpu():
    (only,) = lower(trace(Alone())).roles
    assert [one.code for one in only.instructions] == ["nothing", "write", "launch_dependents"]


# ---------------------------------------------------------------- random programs

WORDS = st.lists(
    st.sampled_from(["wait", "wait", "launch", "write", "read", "store", "take", "other", "arrive", "await"]),
    min_size=1,
    max_size=4,
).map(" ".join)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(WORDS, WORDS, WORDS)
def test_random_grids(first, second, helper):
    """Search with and without reduction, and order, give the same answer."""
    kernel = trace(Two(first=first, second=second, helper=helper))
    machine = compile_kernel(kernel)
    full = explore(machine)
    reduced = explore(machine, reduced=True)
    assert full.complete and bool(full.violations) == bool(reduced.violations)
    outcome = order(kernel)
    if outcome.verdict != UNDETERMINED:
        assert (outcome.verdict == VIOLATED) == bool(full.violations)
