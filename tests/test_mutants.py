"""Each mutation operator does what it says, behaviours are compared rightly, and what one engine misses shows."""

from __future__ import annotations

import pytest
from corpus.proxies import FencesBeforeItWaits
from corpus.tensormaps import HandsOverATensormap, ReleasesToItsOwnCta
from corpus.words import RaisesAFlag, SplitK
from mutant_names import named

from sm90_verify.engines.search.explore import explore
from sm90_verify.evidence.mutation.models import models
from sm90_verify.evidence.mutation.score import KILLED, SURVIVED, run
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.mutation.stream import edited
from sm90_verify.mutation.variation import OPERATORS
from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GemmPingpong
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.language.declarations import role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx import operations as op

TWO_TRIPS = {"stages": 2, "consumers": 1, "trips": 2}


def operations(pipeline: Pipeline, name: str) -> list[op.Operation]:
    """What a role without answers does, from its start to its end."""
    program = next(program for program in trace(pipeline).programs if program.name == name)
    node, found = program.nodes[0], []
    while node.operation is not None:
        found.append(node.operation)
        (successor,) = node.successors.values()
        node = program.nodes[successor]
    return found


def changed(kernel: type[Pipeline], role: str, operator: str, *words: str, nth: int = -1):
    """What a role does in the original and in a mutant."""
    model = Model(kernel, TWO_TRIPS)
    mutant = named(model, operator, *words, nth=nth)
    return operations(kernel(**model.parameters), role), operations(mutant.of(model), role)


# ---------------------------------------------------------------- the filter


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        (TmaAsync, {"stages": 2, "consumers": 2}),
        (TmaAsync, {"stages": 1, "cluster": "2x1"}),
        (TransactionAsync, {"stages": 2}),
        (TmaStore, {"stages": 3}),
        (OrderedSequence, {"stages": 2}),
        (Mainloop, {"stages": 2}),
        (Epilogue, {"stages_c": 2, "stages_d": 1, "subtiles": 2, "tiles": 2}),
        (GemmPingpong, {"stages": 1, "k_tiles": 1, "subtiles": 1, "stages_c": 1, "stages_d": 1, "tiles": 2}),
    ],
)
def test_a_filter_without_an_edit_changes_nothing(kernel, parameters):
    before, after = (
        compile_kernel(trace(kernel(**parameters))),
        compile_kernel(trace(edited(kernel, None)(**parameters))),
    )
    assert [role.counter for role in before.roles] == [role.counter for role in after.roles]
    assert [action.name for action in before.actions] == [action.name for action in after.actions]
    parts = [[repr((a.guard, a.updates, a.target)) for a in machine.actions] for machine in (before, after)]
    assert parts[0] == parts[1]


def test_a_filter_closes_loops_at_their_heads_alone_and_finds_the_same():
    """Where a role asks, its own loops close at the answers too; what stands between the two cannot be read there."""
    plain, filtered = (
        explore(compile_kernel(trace(one(stages=1, peek=True)))) for one in (TmaAsync, edited(TmaAsync, None))
    )
    assert plain.complete and filtered.complete and not plain.violations and not filtered.violations


def test_a_role_of_one_iteration_can_be_edited():
    class Ring(Pipeline):
        x = tile(bytes=64)

        @role(warps=1)
        def writer(self, at):
            yield self.x[at].write()
            yield self.fence_proxy_async()

    model = Model(Ring, {"trips": 2})
    assert operations(named(model, "drop", "fence").of(model), "writer") == [
        one for one in operations(Ring(trips=2), "writer") if not isinstance(one, op.Fence)
    ]


# ---------------------------------------------------------------- operators

A_LAP = ("wait", "arrive.expect_tx", "load")
PRODUCER = (*A_LAP, *A_LAP, "tail wait", "tail wait")


def test_drop():
    before, after = changed(TmaAsync, "producer", "drop", "arrive.expect_tx")
    assert after == [one for one in before if not isinstance(one, op.Arrive)]
    assert len(before) == len(PRODUCER)


def test_duplicate():
    before, after = changed(TmaAsync, "consumer", "duplicate", "wait_group")
    assert after == [*before[:3], *before[2:7], *before[6:]]
    assert isinstance(before[2], op.Group)


def test_swap():
    before, after = changed(TmaAsync, "producer", "swap", "arrive.expect_tx")
    assert after == [before[0], before[2], before[1], before[3], before[5], before[4], *before[6:]]


def test_swap_goes_on_into_the_next_iteration_and_to_the_end():
    before, after = changed(TmaAsync, "consumer", "swap", "arrive x128")
    assert after == [*before[:3], before[4], before[3], *before[5:]]


def test_postpone():
    before, after = changed(TmaAsync, "consumer", "postpone", "arrive x128")
    assert after == [*before[:3], *before[4:7], before[3], before[7]]


def test_another_stage():
    before, after = changed(TmaAsync, "consumer", "stage", "arrive x128")
    assert [one.barrier for one in after if isinstance(one, op.Arrive)] == ["pipeline.empty[1]", "pipeline.empty[0]"]
    assert [one.barrier for one in before if isinstance(one, op.Arrive)] == ["pipeline.empty[0]", "pipeline.empty[1]"]


def test_another_barrier_and_another_buffer_for_a_copy():
    before, after = changed(TmaAsync, "producer", "barrier", "load")
    assert (before[2].barrier, after[2].barrier) == ("pipeline.full[0]", "pipeline.empty[0]")
    _, after = changed(TmaAsync, "producer", "buffer", "load")
    assert after[2].write.object == "a[1]"
    assert (after[2].write.start, after[5].write.start) == (before[5].write.start, before[2].write.start)


def test_the_other_phase():
    before, after = changed(TmaAsync, "consumer", "parity", "consumer")
    assert [int(one.phase) for one in before if isinstance(one, op.Wait)] == [0, 0]
    assert [int(one.phase) for one in after if isinstance(one, op.Wait)] == [1, 1]


@pytest.mark.parametrize(
    ("kernel", "role", "operator", "words", "kind", "field", "values"),
    [
        (TmaAsync, "consumer", "count", ("128 -> 127",), op.Arrive, "count", [127, 127]),
        (TmaAsync, "producer", "bytes", ("expect_tx", "32768 -> 16384"), op.Arrive, "expect", [16384, 16384]),
        (TmaAsync, "producer", "bytes", ("load", "-> 16384"), op.Load, "bytes", [16384, 16384]),
        (TmaAsync, "consumer", "pending", (), op.Group, "pending", [1, 1]),
        (TmaAsync, "consumer", "commit", (), op.Touch, "commit", [False, False]),
        (TmaAsync, "consumer", "tag", ("consumer",), op.Touch, "tags", [(("other", 0),), (("other", 1),)]),
        (TmaAsync, "producer", "kind", ("without expect_tx",), op.Arrive, "expect", [None, None]),
        (TmaStore, "other_warps", "fence", ("other_warps",), op.Fence, "kind", ["mbarrier_init"] * 2),
        (TmaStore, "other_warps", "id", ("other_warps",), op.NamedSync, "id", [2, 1, 2, 1]),
        (TmaStore, "other_warps", "threads", ("other_warps", "-> 96"), op.NamedSync, "threads", [96, 128, 96, 128]),
        (TmaStore, "other_warps", "blocking", ("other_warps",), op.NamedSync, "blocks", [False, True, False, True]),
        (
            TmaStore,
            "store_warp",
            "kind",
            ("wait_group.read 1",),
            op.Group,
            "kind",
            ["bulk_commit", "bulk_wait"] * 2 + ["bulk_wait_read"],
        ),
    ],
)
def test_another_value_in_a_field(kernel, role, operator, words, kind, field, values):
    _, after = changed(kernel, role, operator, *words, nth=0)
    assert [getattr(one, field) for one in after if isinstance(one, kind)] == values


def test_expect_tx_and_arrive_in_two_steps():
    before, after = changed(TmaAsync, "producer", "order", "arrive, then")
    assert after[1:3] == [op.Arrive(before[1].barrier), op.Transaction(before[1].barrier, 32768)]


def test_a_wait_that_looks_once():
    model = Model(TmaAsync, TWO_TRIPS)
    looks = [m for m in mutants_of(model) if m.operator == "blocking" and "consumer" in m.where and "first" in m.text]
    program = next(p for p in trace(looks[0].of(model)).programs if p.name == "consumer")
    assert program.nodes[0].operation.kind == "try_wait"
    assert program.nodes[program.nodes[0].successors[False]].operation.kind == "mma"


def test_start_a_stage_further_on():
    _, after = changed(TmaAsync, "consumer", "start", "consumer", "a stage")
    assert [one.barrier for one in after if isinstance(one, op.Wait)] == ["pipeline.full[1]", "pipeline.full[0]"]
    assert [int(one.phase) for one in after if isinstance(one, op.Wait)] == [0, 1]
    assert [one.accesses[0].object for one in after if isinstance(one, op.Touch)] == ["a[1]", "a[0]"]
    _, after = changed(TmaAsync, "producer", "start", "producer", "other phase")
    assert [int(one.phase) for one in after if isinstance(one, op.Wait)] == [0, 0, 1, 1]


@pytest.mark.parametrize(("text", "rounds"), [("less", 1), ("more", 3)])
def test_another_number_of_iterations(text, rounds):
    _, after = changed(TmaAsync, "consumer", "trips", "consumer", text)
    assert sum(isinstance(one, op.Touch) for one in after) == rounds


def test_another_iteration_of_a_loop_without_end():
    model = Model(TmaAsync, {"stages": 2, "consumers": 1})
    assert run(model, named(model, "trips", "consumer", "more")).property == "deadlock"
    assert run(model, named(model, "trips", "consumer", "less")).verdict == KILLED


def test_another_count_at_initialisation():
    model = Model(TmaAsync, TWO_TRIPS)
    pipeline = named(model, "init", "pipeline.empty", "128 -> 129").of(model)
    assert pipeline.layout.arrivals == {
        "pipeline.full[0]": 1,
        "pipeline.full[1]": 1,
        "pipeline.empty[0]": 129,
        "pipeline.empty[1]": 129,
    }


def test_masks_and_other_ctas():
    model = Model(TmaAsync, {"stages": 1, "cluster": "2x1", "trips": 1})
    loads = operations(named(model, "mask", "parts_of_b", "first CTA alone").of(model), "cta0.producer")
    assert [len(one.destinations) for one in loads if isinstance(one, op.Load)] == [1, 1]
    arrives = operations(named(model, "cta", "consumer", "arrive").of(model), "cta0.consumer")
    before = operations(TmaAsync(**model.parameters), "cta0.consumer")
    homes = [one.barrier[:4] for one in before if isinstance(one, op.Arrive)]
    assert [one.barrier[:4] for one in arrives if isinstance(one, op.Arrive)] == homes[::-1] == ["cta1", "cta0"]


def test_every_operator_has_mutants_but_those_that_no_model_has_operations_for():
    more = (Model(SplitK, {}), Model(RaisesAFlag, {"raised": "relaxed", "fence_before": True}))
    missing = set(OPERATORS) - {mutant.operator for model in (*models(), *more) for mutant in mutants_of(model)}
    assert missing == set()


@pytest.mark.parametrize(
    "model", [Model(SplitK, {"cluster": "2x1"}), Model(RaisesAFlag, {})], ids=["turnstile", "flag"]
)
def test_mutants_of_words_are_killed_or_only_order_more_than_is_needed(model):
    fates = {
        one.text.rpartition(": ")[2]: run(model, one).verdict for one in mutants_of(model) if one.operator == "sem"
    }
    assert fates["release -> relaxed"] == fates["acquire -> relaxed"] == fates["scope gpu -> cta"] == KILLED
    assert fates["scope gpu -> cluster"] == SURVIVED


def test_a_fence_that_is_left_out_or_made_before_the_wait_is_noticed():
    """By the reader of what was written, and by who uses a tensormap; in another CTA, too narrow a scope is as well."""
    dropped = {"drop", "swap", "postpone"}
    for model in (Model(FencesBeforeItWaits, {"fence": "after"}), Model(HandsOverATensormap, {})):
        fences = [one for one in mutants_of(model) if "fence.proxy" in one.where and one.operator in dropped]
        fates = {one.operator: run(model, one).verdict for one in fences if "only" not in one.text}
        assert fates["drop"] == KILLED, fates
    model = Model(ReleasesToItsOwnCta, {})
    fates = {
        one.text.rpartition(": ")[2]: run(model, one).verdict for one in mutants_of(model) if one.operator == "sem"
    }
    assert (fates["scope gpu -> cta"], fates["scope gpu -> cluster"]) == (KILLED, "equivalent")


@pytest.mark.parametrize(
    ("when", "waits"),
    [
        ("only the first time", [1, 2, 3]),
        ("from execution 2", [0, 1]),
        ("execution 2", [0, 1, 3]),
        ("of every 2", [0, 2]),
    ],
)
def test_at_some_executions_alone(when, waits):
    model = Model(TmaAsync, {**TWO_TRIPS, "trips": 4})
    texts = [m for m in mutants_of(model) if m.operator == "drop" and "wait parity 0" in m.where and when in m.text]
    mutant = texts[-1] if when == "execution 2" else texts[0]
    before = [one for one in operations(TmaAsync(**model.parameters), "consumer") if isinstance(one, op.Wait)]
    after = [one for one in operations(mutant.of(model), "consumer") if isinstance(one, op.Wait)]
    assert [(one.barrier, int(one.phase)) for one in after] == [
        (before[i].barrier, int(before[i].phase)) for i in waits
    ]


def test_one_instance_alone():
    model = Model(Async, {"stages": 2, "consumers": 2, "trips": 2})
    alone = [m for m in mutants_of(model) if m.text.endswith("arrive x128 pipeline.empty[0]: consumer1 alone")]
    pipeline = next(m for m in alone if m.operator == "drop").of(model)
    assert [sum(isinstance(one, op.Arrive) for one in operations(pipeline, f"consumer{i}")) for i in (0, 1)] == [2, 0]


def test_counts_change_by_as_much_for_every_part_of_a_role():
    _, elected = changed(TransactionAsync, "producer.0", "count", "pipeline.full", "1 -> 2")
    _, others = changed(TransactionAsync, "producer.1", "count", "pipeline.full", "1 -> 2")
    assert [one.count for one in (*elected, *others) if isinstance(one, op.Arrive)] == [2, 2, 32, 32]
