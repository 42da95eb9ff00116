"""From a pipeline to the instructions of the executor, and from a schedule to gates."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from corpus.named_barriers import CountsTwoWarpsOfFive
from needs import needs_nvcc
from simulated import Overwrites

from checker.hardware.device import sources
from checker.hardware.directed import (
    APART,
    BUSY,
    HELD,
    LANDING,
    LATE,
    LIMIT,
    PATIENCE,
    _copies,
    directions,
    race_directions,
    with_turns_of,
    wrong_data,
)
from checker.hardware.lower import CODES, lower
from checker.hardware.run import BALLAST, Event, RoleRun, Run, shared_bytes
from checker.packed import pack
from checker.search import explore
from spec import operations as op
from spec.compile import compile_programs
from spec.epilogue import Epilogue
from spec.errors import SpecError
from spec.library import TmaAsync
from spec.operations import Access
from spec.pipeline import Pipeline, barrier, role, tile


class Twice(Overwrites):
    """The same, and the producer waits for nothing in between."""

    @role(warps=1)
    def producer(self):
        for k in range(2):
            yield self.full[0].arrive_expect_tx(1024)
            yield self.a[0].load(signals=self.full[0], tag=k)


class TwoMmas(Pipeline):
    a = tile(bytes=1024)
    b = tile(bytes=1024)

    @role(warps=4)
    def consumer(self):
        for _ in range(2):
            yield self.mma(self.a[0], self.b[0], commit=True)
        yield self.mma_wait(0)


class StoresItself(Pipeline):
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=1)
        yield self.a.store(tag=1)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


def test_codes_are_those_of_the_kernel():
    text = (sources() / "executor.cu").read_text()
    body = text[text.index("enum Code") : text.index("};")]
    names = [line.split(",")[0].strip() for line in body.splitlines()[1:] if "," in line]
    assert [name.lower() for name in names] == list(CODES)


def test_a_role_is_lowered_operation_by_operation():
    plan = lower(TmaAsync(stages=1, trips=1))
    producer, consumer = plan.roles
    assert [one.code for one in producer.instructions] == ["wait", "arrive", "load", "wait"]
    assert [one.code for one in consumer.instructions] == ["wait", "read", "nothing", "read", "arrive"]
    assert (producer.warp, producer.warps, consumer.warp, consumer.warps) == (0, 1, 4, 4)
    wait, arrive, load, _ = producer.instructions
    assert (wait.a, wait.b) == (128, 1) and (arrive.a, arrive.b, arrive.c, arrive.d) == (0, 1, 32_768, -1)
    assert (load.a, load.b, load.c, load.d, load.e) == (256, 32_768, 0, 1, 0)
    assert plan.barriers == ((0, 0, 1), (0, 128, 128)) and plan.writers == {1: ("producer", 2)}


def test_a_multicast_copy_has_a_mask():
    plan = lower(TmaAsync(stages=1, trips=1, cluster="2x1", bytes=4096))
    masks = {one.e for one in plan.roles[0].instructions if one.code == "load"}
    assert masks == {0, 3} and plan.cluster == 2


class Odd(Pipeline):
    """Things that the executor cannot do, one at a time."""

    what: str = ""

    full = barrier(arrivals=1)
    x = tile(bytes=64)
    far = tile(bytes=64, space="global")
    wide = tile(bytes=256 * 1024, slots=lambda self: int(self.what == "wide"))

    @role(threads=lambda self: {"warps": 1024, "partial": 65}.get(self.what, 64))
    def one(self):
        if self.what == "partial":
            yield self.named_sync(1, threads=96)
        if self.what == "try":
            yield self.full[0].try_wait(0)
        if self.what == "global":
            yield self.far[0].read()
        if self.what == "cluster":
            yield self.cluster_arrive()
        if self.what == "groups":
            yield self.bulk_wait_read(8)
        if self.what == "loop":
            for _ in self.loop():
                yield self.x[0].read()
        yield self.full[0].arrive()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("try", "no branch"),
        ("global", "no global memory"),
        ("cluster", "cannot do ClusterArrive"),
        ("groups", "7 groups"),
        ("loop", "give a trip count"),
        ("wide", "bytes of shared memory"),
        ("warps", "32 is most"),
        ("partial", "bar.sync counts warps"),
    ],
)
def test_what_the_executor_refuses(what, why):
    with pytest.raises(SpecError, match=why):
        lower(Odd(what=what))


def test_warps_meet_before_what_one_of_them_does():
    """The specification takes a role's step for one step of all its threads."""
    (lowered,) = lower(Odd()).roles
    assert [one.code for one in lowered.instructions] == ["meet", "arrive"]


@needs_nvcc
@pytest.mark.parametrize("macros", [[], ["-DRECORD"], ["-DRECORD", "-DCLUSTER=2"]])
def test_the_executor_compiles(tmp_path, macros):
    command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", *macros]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "x"), str(sources() / "executor.cu")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_nvcc
def test_without_recording_nothing_of_it_is_compiled(tmp_path):
    found = {}
    for macro in ("-DRECORD", "-DPLAIN"):
        command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a", "-ptx", macro]
        subprocess.run(
            [*command, "-o", str(tmp_path / "x"), str(sources() / "executor.cu")], check=True, capture_output=True
        )
        found[macro] = (tmp_path / "x").read_text().count("%clock64")
    assert found["-DRECORD"] == 2 and found["-DPLAIN"] == 0


# ---------------------------------------------------------------- directed runs


def test_the_steps_of_a_schedule_take_turns():
    pipeline = Overwrites()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    race = explore(machine).violations["race"]
    free, *held = directions(plan, machine, race.actions)
    assert free.held == "" and [way.held for way in held][:2] == ["consumer", "producer"]  # who stands before an access
    turns = sorted(one.gate for lowered in free.roles for one in lowered.instructions if 0 <= one.gate < free.steps)
    assert turns == list(range(free.steps))
    consumer = next(way for way in held if way.held == "consumer").roles[1].instructions
    assert [(one.code, one.gate, one.hold > 0) for one in consumer][-1] == ("read", free.steps, True)


def test_the_other_access_of_a_race_may_come_first():
    pipeline = Overwrites()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    actions = explore(machine).violations["race"].actions
    last = machine.actions[actions[-1]].role
    ways = race_directions(plan, machine, actions)
    assert {way.steps for way in ways} == {ways[0].steps, ways[0].steps - 1}
    assert any(way.held == last and way.steps < ways[0].steps for way in ways)


def test_a_copy_in_flight_can_be_made_late():
    """And no other: the first one is there before anything else happens."""
    pipeline = Overwrites()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    stale = explore(machine).violations["stale-read"].actions
    ways = directions(plan, machine, stale[: stale.index(stale[-1])])
    late = [way for way in ways if way.late]
    assert late and len(late) * 2 == len(ways)
    loads = [[one.late > 0 for one in way.roles[0].instructions if one.code == "load"] for way in (ways[0], late[0])]
    assert loads[0] == [False, False] and loads[1][1]
    assert [max(one.hold for role in way.roles for one in role.instructions) for way in (ways[0], late[0])] == [
        LANDING,
        LATE,
    ]
    assert {way.limit for way in late} == {4 * LIMIT} and ways[0].limit == LIMIT
    assert {way.patience for way in late} == {PATIENCE + LATE} and ways[0].patience == PATIENCE
    holds = {
        (way.late, one.hold)
        for way in ways
        for role in way.roles
        for one in role.instructions
        if role.name == way.held and one.gate == way.steps
    }
    assert holds == {(False, HELD), (True, LATE)}
    assert all(not one.late for one in late[0].roles[1].instructions)


def until(machine, last, role, before=()):
    """What a role does alone, up to an operation, after what it has done; and what is possible then."""
    packed = pack(machine)
    state, actions = packed.initial, []
    for index in before:
        state = dict(packed.successors(state))[index]
        actions.append(index)
    while len(actions) == len(before) or last not in machine.actions[actions[-1]].name:
        mine = [one for one in packed.successors(state) if machine.actions[one[0]].role == role]
        index, state = mine[0]
        actions.append(index)
    return actions, packed.successors(state)


def test_a_copy_to_several_ctas_is_in_flight_until_it_has_landed_in_each():
    pipeline = TmaAsync(stages=1, trips=1, cluster="2x1", bytes=4096)
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    actions, after = until(machine, "load k=0 cta0.parts_of_b[0]", "cta0.producer")
    own, *landings = [index for index, _ in after if machine.actions[index].location is None]
    assert len(landings) == 2

    def late(*landed):
        return [
            made_late(way) for way in directions(plan, machine, (*actions, own, *landed)) if way.late and not way.held
        ]

    assert late(landings[0]) == [[BUSY, 0], [BUSY, 0], [0, BUSY]] and late(*landings) == [[BUSY, 0]]
    at = len(actions) + 1
    assert _copies(plan, machine, (*actions, own, *landings))[1].landings == (at, at + 1)


def made_late(way):
    """By copy of the first role, what the copy engine has to do before it."""
    return [one.late for one in way.roles[0].instructions if one.code in ("load", "store")]


class Stores(Pipeline):
    """Two stores of two buffers each, with steps between them, by one CTA or two."""

    between = 0
    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=1)
        yield self.b.write(tag=1)
        for _ in range(2):
            yield self.store(self.a, self.b)
            for _ in range(self.between):
                yield self.a.read()


@pytest.mark.parametrize(("between", "second"), [(0, 0), (APART - 3, 0), (APART - 2, BUSY), (2 * APART, BUSY)])
def test_a_late_copy_makes_those_that_follow_it_late_for_a_while(between, second):
    """What a step copies is late by what comes before the first of it. And each copy can be the only one."""
    pipeline = Stores(between=between)
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    actions, _ = until(machine, "store", "one")
    actions, _ = until(machine, "store", "one", actions)
    ways = [way for way in directions(plan, machine, actions) if not way.held]
    assert [made_late(way) for way in ways] == [[0] * 4, [BUSY, 0, second, 0], [BUSY, 0, 0, 0], [0, 0, BUSY, 0]]
    assert [way.late for way in ways] == [False, True, True, True]


class TwoCtas(Pipeline):
    cluster = "2x1"
    full = barrier()
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        (1, 0, {(0, 0): LANDING, (1, 1): LATE, (1, 0): LANDING, (0, 1): LATE}),
        (0, 1, {(0, 0): LANDING, (1, 0): LANDING}),
    ],
)
def test_a_copy_lands_late_behind_a_late_one_of_its_cta(first, second, holds):
    """Both CTAs start their copies, and that of CTA 1 lands. By which are late, how long the turn after it waits."""
    plan = lower(TwoCtas())
    machine = compile_programs(TwoCtas(), plan.programs)
    actions, _ = until(machine, "load", f"cta{first}.one")
    actions, after = until(machine, "load", f"cta{second}.one", actions)
    (landing,) = [index for index, _ in after if machine.actions[index].name == "copies cta1.a.flight lands"]
    found = {}
    for way in directions(plan, machine, (*actions, landing)):
        if not way.held:
            late = tuple(int(one.late > 0) for role in way.roles for one in role.instructions if one.code == "load")
            ((turn, found[late]),) = {
                (one.gate, one.hold) for role in way.roles for one in role.instructions if one.hold
            }
            assert turn == way.steps == 4
    assert found == holds


def test_a_launch_with_late_copies_has_the_memory_for_what_delays_them():
    plan = lower(StoresItself())
    (role,) = plan.roles
    late = replace(role, instructions=(*role.instructions[:-1], replace(role.instructions[-1], late=1)))
    assert plan.shared == 64 and shared_bytes(plan, (role,)) == 64 and shared_bytes(plan, (role, late)) == BALLAST
    assert shared_bytes(replace(plan, shared=BALLAST + 16), (late,)) == BALLAST + 16


def test_a_store_in_flight_can_be_made_late():
    pipeline = StoresItself()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    actions, _ = until(machine, "store", "one")
    late = [way for way in directions(plan, machine, actions) if way.late]
    assert [(one.code, one.late > 0) for one in late[0].roles[0].instructions][:2] == [
        ("write", False),
        ("store", True),
    ]


def test_the_turn_of_a_barrier_of_threads_is_to_come_to_it():
    pipeline = CountsTwoWarpsOfFive()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    way, *_ = directions(plan, machine, explore(machine).violations["deadlock"].actions)
    (epilogue,) = [role for role in way.roles if role.name == "epilogue"]
    assert [one.gate for one in epilogue.instructions if one.code == "named_sync"] == [8]


def test_the_twin_takes_the_turns_of_what_it_has_too():
    plan, twin = lower(Twice()), lower(Overwrites())
    machine = compile_programs(Twice(), plan.programs)
    roles = directions(plan, machine, explore(machine).violations["stale-read"].actions)[0].roles
    own = with_turns_of(twin, roles)
    assert [role.name for role in own] == [role.name for role in twin.roles]
    assert [one.code for role in own for one in role.instructions] == [
        one.code for role in twin.roles for one in role.instructions
    ]
    (producer, _), (gated, _) = own, roles
    kept = [(one.code, one.gate) for one in producer.instructions]
    assert kept[:2] == [(one.code, one.gate) for one in gated.instructions[:2]] and ("wait", -1) in kept
    assert len([gate for _, gate in kept if gate >= 0]) == 4
    marked = [replace(one, instructions=tuple(replace(i, hold=7, late=3) for i in one.instructions)) for one in roles]
    (producer, _) = with_turns_of(twin, marked)
    assert {(one.hold, one.late) for one in producer.instructions} == {(7, 3), (0, 0)}


@pytest.mark.parametrize(("word", "wrong"), [(1, ""), (2, "found b of 'y', not of 'x'")])
def test_what_is_in_registers_is_not_among_what_was_read(word, wrong):
    """The words that were found belong to the operands in shared memory."""
    registers, shared = (Access(*names, 0, 16, False, "async") for names in (("a", "registers"), ("b", "shared")))
    mma = op.Touch("mma", (registers, shared), (0, "x"))
    layout = SimpleNamespace(holds={})
    plan = SimpleNamespace(
        nodes={"math": [SimpleNamespace(operation=mma)]},
        stores=(),
        written={1: ("x", (shared,)), 2: ("y", (shared,))},
        pipeline=SimpleNamespace(layout=layout),
    )
    found = wrong_data(plan, Run(False, (RoleRun("math", -1, (Event(0, 0, 1, False, (("b", word, word),)),)),)))
    assert wrong in found and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("second", "wrong"),
    [((("a", 2, 2), ("b", 3, 3)), "b changed"), ((("a", 2, 2), ("b", 2, 2)), "")],
)
def test_an_mma_reads_its_operands_until_it_is_waited_for(second, wrong):
    """Two MMAs of the same buffers are in flight: each reading belongs to its own."""
    plan = lower(TwoMmas())
    first, again = (("a", 1, 1), ("b", 1, 1)), (("a", 2, 2), ("b", 2, 2))
    events = [Event(0, 0, 1, False, first), Event(1, 1, 2, False, again), Event(2, 2, 3, False, (*first, *second))]
    found = wrong_data(plan, Run(False, (RoleRun("consumer", -1, tuple(events)),)))
    assert wrong in found and bool(found) == bool(wrong)


@pytest.mark.parametrize(
    ("reads", "wrong"),
    [
        ((("a", 1, 1),), ""),
        ((("a", 2, 2),), "of 1, not of 0"),
        ((("a", 99, 99),), "of None, not of 0"),
        ((("a", 1, 2),), "writes 1 and 2"),
        ((("a", 0, 0),), "nothing in a"),
    ],
)
def test_wrong_words_are_recognised(reads, wrong):
    plan = lower(Overwrites())
    run = Run(False, (RoleRun("consumer", -1, (Event(0, 0, 1, False), Event(1, 1, 2, False, reads))),))
    found = wrong_data(plan, run)
    assert wrong in found and bool(found) == bool(wrong)


class OverEachOther(Pipeline):
    """Two buffers in the same bytes, both of tag 0."""

    a = tile(bytes=64, address=0)
    b = tile(bytes=64, address=0, shares="a")

    @role(warps=1)
    def one(self):
        yield self.a.write(tag=0)
        yield self.b.write(tag=0)
        yield self.b.read(tag=0)
        yield self.b.store(tag=0)
        yield self.b.read()


def test_what_was_written_to_another_buffer_in_the_same_bytes_is_wrong():
    plan = lower(OverEachOther())

    def wrong(read, stored, last):
        events = (Event(2, 0, 1, False, (("b", read, read),)), Event(4, 1, 2, False, (("b", last, last),)))
        return wrong_data(plan, Run(False, (RoleRun("one", -1, events),), ((stored, stored),)))

    assert wrong(2, 2, 2) == "" and wrong(2, 2, 1) == ""  # the last one expects nothing
    assert wrong(1, 2, 2) == "one found b as it was written to a"
    assert wrong(2, 1, 2) == "the store of one took b as it was written to a"


def test_wrong_words_in_the_output_are_recognised():
    plan = lower(Epilogue(schedule="ws", stages_c=2, stages_d=1, subtiles=2, tiles=1))
    nodes = {program.name: program.nodes for program in plan.programs}
    written = {}
    for number, (name, node) in plan.writers.items():
        operation = nodes[name][node].operation
        if isinstance(operation, op.Touch):
            written[operation.accesses[0].start, operation.tags[0]] = number
    right = []
    for name, node, access, _ in plan.stores:
        (tag, _) = nodes[name][node].operation.tags
        right.append(written[access.start, tag])
    assert len(set(right)) == 4

    def wrong(*stored):
        return wrong_data(plan, Run(False, (), tuple((low, high) for low, high in stored)))

    good = [(number, number) for number in right]
    assert wrong(*good) == ""
    assert f"writes {right[0]} and {right[1]} from d.store_warp[0]" in wrong((right[0], right[1]), *good[1:])
    assert "of 1, not of 0" in wrong((right[2], right[2]), *good[1:])
