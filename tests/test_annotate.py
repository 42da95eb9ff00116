"""What a program's locations hold is found by a pass over its graph, wherever the graph is from."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType

import pytest
from corpus_table import CASES
from graphs import bare, graph, kernel, untrue

from sm90_verify.engines.check import check
from sm90_verify.evidence.claims import models
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec import cutlass
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline, roles_of
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model import annotate as module
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Node, Program, Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE

Pass = Callable[[Program], Program]
BASES = ("PersistentGemm",)
"""Classes with roles that are there to be inherited from."""


def classes(package: ModuleType) -> list[type[Pipeline]]:
    """All pipelines with roles in a package."""
    found: dict[type[Pipeline], None] = {}
    for part in pkgutil.iter_modules(package.__path__):
        for thing in vars(importlib.import_module(f"{package.__name__}.{part.name}")).values():
            if isinstance(thing, type) and issubclass(thing, Pipeline) and roles_of(thing):
                found[thing] = None
    return [kind for kind in found if kind.__name__ not in BASES]


def small(kind: type[Pipeline]) -> Iterator[Pipeline]:
    sizes = [{"stages": stages} for stages in (1, 2)] if "stages" in kind.parameter_names() else [{}]
    for size in sizes:
        for trips in ({}, {"trips": "forever"}, {"trips": 3}):
            with suppress(SpecError):
                yield kind(**size, **trips)


def programs_of(pipeline: Pipeline) -> tuple[Program, ...]:
    try:
        return trace(pipeline).programs
    except SpecError:
        return ()


@pytest.mark.parametrize("kind", [*classes(cutlass), *classes(models)], ids=lambda kind: kind.__name__)
def test_a_traced_program_is_what_the_pass_makes_of_its_graph(kind):
    programs = [program for pipeline in small(kind) for program in programs_of(pipeline)]
    assert programs
    for program in programs:
        assert annotate(bare(program)) == program


class Joins(Pipeline):
    """A loop that is come to with one of two groups in flight, and nothing else that tells them apart."""

    b = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=2)

    @role(warpgroups=1)
    def math(self):
        if (yield self.choose("which", True, False)):
            yield self.a[0].mma()
        else:
            yield self.a[1].mma()
        yield self.choose("nothing", True, False)
        for _ in self.forever():
            yield self.b.arrive()


def test_the_walker_hands_over_bare_graphs_that_are_split_already(monkeypatch):
    """What is in flight is told apart where its loops are closed."""
    handed: list[tuple[Program, Program]] = []

    def noted(program: Program, *, checked: bool) -> Program:
        handed.append((program, annotate(program, checked=checked)))
        return handed[-1][1]

    monkeypatch.setattr(walk, "annotate", noted)
    for kind in (*kernels("pipeline").values(), Slot, Stores, Turns, Joins):
        trace(kind())
    assert all(bare(program) == program for program, _ in handed)
    assert all(len(program.nodes) == len(after.nodes) for program, after in handed)
    assert any(node.held != IDLE for _, after in handed for node in after.nodes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_so_is_the_corpus_and_it_is_true(case):
    for pipeline in (case.broken, *case.fixed):
        for program in trace(pipeline).programs:
            assert annotate(bare(program)) == program
            assert untrue(program, steps=150) == []


# ---------------------------------------------------------------- one slot, filled and read with plain parities


class Slot(Pipeline):
    """`first`: the parity with which the consumer begins; 1 passes at once."""

    first = 0
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=1)

    @role(warps=1)
    def producer(self):
        for _ in self.forever():
            for parity in (1, 0):
                yield self.empty.wait(parity)
                yield self.full.arrive_expect_tx(self.a.bytes)
                yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            for parity in (self.first, 1 - self.first):
                yield self.full.wait(parity)
                yield self.a.read()
                yield self.empty.arrive()


def slot_by_hand(first: int = 0) -> list[Program]:
    p = Slot()
    fill = [(p.full.arrive_expect_tx(1024), {}), (p.a.load(signals=p.full), {})]
    again = [fill[0], (p.a.load(signals=p.full), {None: 0})]
    producer = graph("producer", 32, (p.empty.wait(1), {}), *fill, (p.empty.wait(0), {}), *again)
    drain = [(p.a.read(), {}), (p.empty.arrive(), {})]
    waits = p.full.wait(first), p.full.wait(1 - first)
    consumer = graph("consumer", 32, (waits[0], {}), *drain, (waits[1], {}), drain[0], (drain[1][0], {None: 0}))
    return [producer, consumer]


def test_a_parity_means_another_phase_the_first_time_than_ever_after():
    """The producer's first wait passes on the fresh barrier; from then on the same wait is one phase ahead. The
    consumer's is always one ahead, but from the second round on its reads are there, which no fence has ordered.
    """
    producer, consumer = map(annotate, slot_by_hand())
    waits = [(node.source.line, node.distance) for node in producer.nodes if isinstance(node.operation, op.Wait)]
    assert waits == [(1, 0), (4, 1), (1, 1)]
    assert [node.distance for node in consumer.nodes if isinstance(node.operation, op.Wait)] == [1, 1, 1]
    assert [node.source.line for node in consumer.nodes] == [1, 2, 3, 4, 5, 6, 1, 2]
    assert [len(node.held.unfenced) for node in consumer.nodes] == [0, 0, 1, 1, 1, 1, 1, 1]
    assert len(producer.nodes) == 7


# ---------------------------------------------------------------- wgmma groups that differ by branch


class Diamond(Pipeline):
    """`early`: the buffers are given away before the group is waited for."""

    early = False
    empty = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=1)
    b = tile(bytes=1024, slots=1)

    @role(warpgroups=1)
    def math(self):
        which = yield self.choose("which", "a", "b")
        yield self.a.mma() if which == "a" else self.b.mma()
        if not self.early:
            yield self.mma_wait(0)
        yield self.empty.arrive()
        yield self.mma_wait(0)

    @role(warps=1)
    def writer(self):
        yield self.empty.wait(0)
        yield self.b.write()


def diamond_by_hand(early: bool = False) -> list[Program]:
    p = Diamond()
    # Without a wait before it, the arrival is reached with either group in flight.
    first, then = (p.empty.arrive(), p.mma_wait(0)) if early else (p.mma_wait(0), p.empty.arrive())
    branches = [(p.choose("which", "a", "b"), {0: 1, 1: 2}), (p.a.mma(), {None: 3}), (p.b.mma(), {})]
    math = graph("math", 128, *branches, (first, {}), (then, {}), (None, {}))
    return [math, graph("writer", 32, (p.empty.wait(0), {}), (p.b.write(), {}), (None, {}))]


@pytest.mark.parametrize(("early", "lines"), [(True, [1, 2, 4, 5, 6, 3, 4, 5]), (False, [1, 2, 4, 5, 6, 3, 4])])
def test_where_branches_join_with_different_groups_the_graph_is_split_until_they_agree(early, lines):
    math, _ = map(annotate, diamond_by_hand(early))
    assert [node.source.line for node in math.nodes] == lines
    held = [[access.object for access in node.held.in_progress()] for node in math.nodes if node.source.line == 4]
    assert held == [["a"], ["b"]]
    assert [node.held.mma for node in math.nodes if node.source.line == 6] == [()]


# ---------------------------------------------------------------- a bulk store that one path drains


class Stores(Pipeline):
    always = False
    a = tile(bytes=1024, slots=1)

    @role(threads=1)
    def one(self):
        yield self.a.write()
        yield self.fence_proxy_async()
        yield self.a.store()
        yield self.bulk_commit()
        drain = yield self.choose("drain", False, True)
        if drain or self.always:
            yield self.bulk_wait_read(0)
        yield self.a.write()


def stores_by_hand(always: bool = False) -> list[Program]:
    p = Stores()
    rows = [(one, {}) for one in (p.a.write(), p.fence_proxy_async(), p.a.store(), p.bulk_commit())]
    drain = (p.choose("drain", False, True), {0: 5 if always else 6, 1: 5})
    return [graph("one", 1, *rows, drain, (p.bulk_wait_read(0), {}), (p.a.write(), {}), (None, {}))]


def test_a_store_is_in_flight_on_the_path_that_does_not_drain_it():
    (one,) = map(annotate, stores_by_hand())
    assert [len(node.held.stores()) for node in one.nodes if node.source.line == 7] == [1, 0]
    (one,) = map(annotate, stores_by_hand(always=True))
    assert [len(node.held.stores()) for node in one.nodes if node.source.line == 7] == [0]


# ---------------------------------------------------------------- polls and trip counts


class Polls(Pipeline):
    """`arrivals`: how many the other role makes, of one that the barrier needs for each of two phases."""

    arrivals = 2
    full = barrier(arrivals=1, slots=1)
    back = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def polls(self):
        for parity in (0, 1):
            for _ in self.forever():
                done = yield self.full.try_wait(parity)
                if done:
                    break
            yield self.back.arrive()

    @role(threads=1)
    def arrives(self):
        for number in range(self.arrivals):
            yield self.full.arrive()
            yield self.back.wait(number & 1)


def polls_by_hand(arrivals: int = 2) -> list[Program]:
    p = Polls()
    polls = graph(
        "polls",
        1,
        (p.full.try_wait(0), {True: 1, False: 0}),
        (p.back.arrive(), {}),
        (p.full.try_wait(1), {True: 3, False: 2}),
        (p.back.arrive(), {}),
        (None, {}),
    )
    each = [(one, {}) for number in range(arrivals) for one in (p.full.arrive(), p.back.wait(number & 1))]
    return [polls, graph("arrives", 1, *each, (None, {}))]


def test_a_poll_that_fails_has_seen_nothing():
    polls, _ = map(annotate, polls_by_hand())
    assert [node.distance for node in polls.nodes] == [1, 0, 1, 0, 0]
    assert [dict(node.observed) for node in polls.nodes] == [{}, {"full": 0}, {"full": 0}, {"full": 1}, {"full": 1}]
    assert [len(node.drift) for node in polls.nodes] == [1, 0, 1, 0, 0]


class Trips(Pipeline):
    """A loop over the trip count, of two rounds at a time: `short` leaves out the second arrival."""

    short = False
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def producer(self):
        for _ in self.loop():
            yield self.full.arrive()
            yield self.empty.wait(0)
            if not self.short:
                yield self.full.arrive()
            yield self.empty.wait(1)

    @role(threads=1)
    def consumer(self):
        for _ in self.loop():
            for parity in (0, 1):
                yield self.full.wait(parity)
                yield self.empty.arrive()


def trips_by_hand(short: bool = False) -> list[Program]:
    p = Trips()
    again = [] if short else [(p.full.arrive(), {})]
    one = [(p.full.arrive(), {}), (p.empty.wait(0), {}), *again, (p.empty.wait(1), {None: 0})]
    other = [(p.full.wait(0), {}), (p.empty.arrive(), {}), (p.full.wait(1), {}), (p.empty.arrive(), {None: 0})]
    return [
        graph(name, 1, ("trips", {True: 1, False: len(rows) + 1}), *rows, (None, {}))
        for name, rows in (("producer", one), ("consumer", other))
    ]


def test_what_a_loop_has_counted_when_it_comes_round_is_its_drift():
    producer, _ = map(annotate, trips_by_hand())
    assert producer.nodes[0].drift == [({"full": 2}, {"empty": 1}, {"full": 0}, 1)]
    assert [node.iteration for node in producer.nodes] == [0, 1, 1, 1, 1, 0]


# ---------------------------------------------------------------- the verdicts


@pytest.mark.parametrize("engine", ["search", "order"])
@pytest.mark.parametrize(
    ("written", "programs", "right"),
    [
        (Slot(), slot_by_hand(), True),
        (Slot(first=1), slot_by_hand(first=1), False),
        (Diamond(), diamond_by_hand(), True),
        (Diamond(early=True), diamond_by_hand(early=True), False),
        (Stores(always=True), stores_by_hand(always=True), True),
        (Stores(), stores_by_hand(), False),
        (Polls(), polls_by_hand(), True),
        (Polls(arrivals=1), polls_by_hand(arrivals=1), False),
        (Trips(), trips_by_hand(), True),
        (Trips(short=True), trips_by_hand(short=True), False),
    ],
    ids=lambda value: value.name if isinstance(value, Pipeline) else "",
)
def test_a_kernel_by_hand_gets_the_verdicts_of_the_same_written_in_the_language(written, programs, right, engine):
    """Order follows one course of each role: it leaves those that branch undetermined, in both forms."""
    said = check(written, engine=engine)
    by_hand = check(kernel(written, *map(annotate, programs)), engine=engine)
    verdicts = [{finding.id: finding.verdict for finding in result.findings} for result in (said, by_hand)]
    assert verdicts[0] == verdicts[1]
    branches = isinstance(written, Diamond | Stores | Polls)
    follows = engine == "search" or not branches
    assert by_hand.verdict == ((PROVED if right else VIOLATED) if follows else UNDETERMINED)


@pytest.mark.parametrize("programs", [slot_by_hand(), diamond_by_hand(), trips_by_hand()])
def test_a_graph_that_nobody_annotated_is_refused(programs):
    """Nothing would be in flight in it, and every wait would be for what has been seen."""
    one, other = programs
    for kernel_of in ([one, annotate(other)], [annotate(one), other]):
        with pytest.raises(SpecError, match="put the program through annotate"):
            check(kernel(Slot(), *kernel_of))


# ---------------------------------------------------------------- graphs that have no meaning


def test_a_graph_that_splits_and_splits_is_given_up_on_with_one_line(monkeypatch):
    """Any of eight buffers, in any order, is being read: nobody waits for the groups."""

    class Eight(Pipeline):
        a = tile(bytes=1024, slots=8)

    p = Eight()
    reads = [(p.a[n].mma(), {None: 0}) for n in range(8)]
    chooses = p.choose("which", *range(8)), {n: n + 1 for n in range(8)}
    monkeypatch.setattr(module, "MAX_NODES", 500)
    with pytest.raises(SpecError, match="role math has more than 500 locations") as caught:
        annotate(graph("math", 128, chooses, *reads))
    assert "\n" not in str(caught.value) and caught.value.where is not None
    waited = [(p.a[n].mma(), {None: 9}) for n in range(8)]
    assert len(annotate(graph("math", 128, chooses, *waited, (p.mma_wait(0), {None: 0}))).nodes) == 17


def test_as_many_locations_as_the_bound_are_not_too_many(monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 7)
    assert len(annotate(slot_by_hand()[0]).nodes) == 7
    monkeypatch.setattr(module, "MAX_NODES", 6)
    with pytest.raises(SpecError, match="more than 6 locations"):
        annotate(slot_by_hand()[0])


@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ([(Polls().full.try_wait(0), {True: 1}), (None, {})], "for the answers True: it needs True, False"),
        ([(Polls().full.wait(0), {True: 1, False: 0}), (None, {})], "it needs None"),
        ([(Polls().full.arrive(), {None: 2}), (None, {})], "it leads to location 2: use 0 to 1"),
        ([(Polls().full.arrive(), {None: -1}), (None, {})], "it leads to location -1"),
        ([(None, {None: 0})], "for the answers None: it needs none"),
        ([("trips", {True: 0})], "it needs True, False"),
        ([("trips", {True: 0, False: 1}), (object(), {})], "which no engine knows"),
        ([], "has no location"),
    ],
)
def test_edges_that_do_not_fit_their_operation_are_refused(rows, hint):
    with pytest.raises(SpecError, match=hint):
        annotate(graph("role", 32, *rows))


def test_a_decision_with_an_operation_is_refused():
    node = Node(Polls().full.arrive(), graph("role", 1, (None, {})).nodes[0].source, loop="trips", successors={None: 0})
    with pytest.raises(SpecError, match="give it a location of its own"):
        annotate(Program("role", Threads("role", 1, 0, 0), (node,), "role"))


def test_what_no_way_leads_to_is_left_out_and_does_not_count():
    p = Diamond()
    rows = [(p.empty.arrive(), {None: 3}), (p.a.mma(), {}), (p.empty.arrive(), {None: 3}), (None, {})]
    assert [node.source.line for node in annotate(graph("role", 128, *rows)).nodes] == [1, 4]


# ---------------------------------------------------------------- a pass that is wrong is noticed


class Turns(Pipeline):
    """What the others leave out: states, tokens, relaxed arrivals at the cluster's barrier, several bytes at once."""

    stages = 2
    full = barrier(arrivals=2)
    own = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def one(self):
        state = PipelineState.start(self.stages) + 3
        for _ in self.loop():
            yield self.full[state].wait(state.phase)
            yield self.full[state].arrive_expect_tx(1024, 2)
            yield self.a[state].load(signals=self.full[state])
            yield self.full[state].expect_tx(16)
            state = state + 1
            yield self.choose("next", "a", "b")
        yield self.a[0].read()
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()

    @role(warps=1)
    def other(self):
        for _ in self.forever():
            token = yield self.own.arrive()
            yield self.own.wait(token)
            yield self.own.wait(0)
            yield self.own.try_wait(token)
            yield self.own.wait(1)


def tokens_by_hand() -> list[Program]:
    """After a branch something is waited for that says nothing, a token or a state that is not there yet, and then a
    parity of which the branches have seen different phases.
    """
    p = Turns()
    first = p.own.try_wait(0), {True: 1, False: 1}
    token = p.own.wait(op.Token(p.own[0].name)), {}
    state = p.own.try_wait(PipelineState.start(1).phase), {True: 3, False: 2}
    return [graph("one", 32, first, between, (p.own.wait(1), {}), (None, {})) for between in (token, state)]


def faults(wanted: Pass) -> list[str]:
    """What is wrong with a pass, seen on the graphs of this file."""
    found = []
    by_hand = (slot_by_hand(), diamond_by_hand(True), stores_by_hand(), polls_by_hand(), trips_by_hand())
    for programs in (*by_hand, tokens_by_hand()):
        for program in programs:
            found += untrue(wanted(program))
    for pipeline in (Turns(), Slot()):
        for program in trace(pipeline).programs:
            again = wanted(bare(program))
            found += untrue(again)
            if again != program:
                found.append(f"{program.name} is not what was traced")
    return found


MUTATIONS = (
    ("held = self.held.after(operation)", "held = self.held"),
    ("key = past.held, seen", "key = IDLE, seen"),
    ("for name in reads[index]])", "for name in ()])"),
    ("wait is not None and answer is not False and not", "wait is not None and not"),
    ("answer is not False and not isinstance(wait.phase, op.Token):", "answer is not False:"),
    ("IDLE._replace(tracks=True) if relaxed else IDLE", "IDLE"),
    ("not (sees and answer is not False)", "not sees"),
    ("sees = wait is not None and wait.barrier == name and not isinstance(wait.phase, op.Token)", "sees = True"),
    ("wait.barrier == name and not isinstance(wait.phase, op.Token)", "wait.barrier == name"),
    ("past._seen(wait.barrier) + node.distance", "past._seen(wait.barrier) + 1"),
    ("observed.get(barrier, -1)", "observed.get(barrier, 0)"),
    ("nodes[place].drift.append", "len"),
    ("if node.loop and answer", "if node.loop"),
    ("(expect or 0) * count", "(expect or 0)"),
    ("copies.barrier, -copies.bytes", "copies.barrier, copies.bytes"),
    ("ahead=_plus(self.ahead, barrier, bytes)", "ahead=self.ahead"),
    ("_plus(self.arrived, barrier, count)", "_plus(self.arrived, barrier, 1)"),
    ("return node.distance if isinstance(wait.phase, Phase) else ", "return "),
    ("choices=_plus(past.choices, choice.name, 1)", "choices=past.choices"),
)


def test_the_pass_has_no_fault():
    assert faults(annotate) == []


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_a_pass_that_is_wrong_is_noticed(before, after):
    text = inspect.getsource(module)
    assert text.count(before) == 1
    changed = ModuleType("changed")
    changed.__dict__["__name__"] = module.__name__
    exec(compile(text.replace(before, after), module.__file__, "exec"), changed.__dict__)
    assert faults(changed.annotate)
