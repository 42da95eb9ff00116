"""What an operation means is written once: its effects are what the engines go by."""

from __future__ import annotations

import pytest
from effect_meanings import ACC, FAST, FROM, IDS, INTO, MEANINGS, OPERATIONS, OUT, OVER, THERE, X

from sm90_verify.engines.order.planner import make_plan
from sm90_verify.evidence.mutation.behaviour import shown_of
from sm90_verify.mutation.stream import default_answer, has_answer
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.state import Phase, PipelineState
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.flow import blocks_inside, is_local, kind_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Threads
from sm90_verify.spec.model.layout import Layout, Region, WordValues
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies, TriggeredArrivals
from sm90_verify.spec.ptx.effects import NOTHING, Effects, effects_of
from sm90_verify.spec.ptx.fits import fields_of
from sm90_verify.spec.ptx.groups import IDLE, Held

BLOCKING = (op.NamedSync(1, 64), op.CtaSync(), op.WarpSync())


def itself(operation: op.Operation, effects: Effects) -> Effects:
    """The effects with the operation itself where it belongs."""
    parts = {
        "signal": op.Signal,
        "waits": op.Wait,
        "meets": op.Meeting,
        "parted": op.Parted,
        "chooses": op.Choose,
        "finds": op.Find,
        "word": op.OnWord,
        "registers": op.Setmaxnreg,
    }
    return effects._replace(**{name: operation for name, record in parts.items() if isinstance(operation, record)})


@pytest.mark.parametrize(("operation", "effects", "kind"), MEANINGS, ids=IDS)
def test_what_each_operation_does(operation, effects, kind):
    assert effects_of(operation) == itself(operation, effects)
    assert kind_of(Node(operation, None, IDLE)) == kind
    assert is_local(operation) == (kind == "local")
    assert blocks_inside(operation) == (operation in BLOCKING)


def test_every_record_and_kind_is_among_them():
    assert {type(operation) for operation in OPERATIONS} == set(op.OPERATIONS)
    for record in op.OPERATIONS:
        kinds = [(name, words) for name, _, words in fields_of(record) if words]
        for name, values in kinds:
            told = {getattr(one, name) for one in OPERATIONS if type(one) is record}
            assert told == set(values) or record is op.Setmaxnreg


def test_a_multicast_reads_its_source_once_and_until_it_has_landed_everywhere():
    """9.7.9.25.4.1: one source; each destination has a copy of its own that takes its bytes from there."""
    effects = effects_of(op.Load(INTO, "full", 64, "t", also=((THERE, "there"),), read=FROM))
    begins = [("landed", INTO, ()), ("landed", THERE, ()), ("landed", FROM, ())]
    assert [(one.until, one.access, one.data) for one in effects.begins] == begins
    copies = (Copies(INTO, "full", 64, 1, FROM), "t"), (Copies(THERE, "there", 64, 1, FROM), "t")
    assert effects.lands == copies


def test_the_end_of_a_role_does_nothing():
    assert effects_of(None) == NOTHING == Effects() and not is_local(None)


def test_effects_belong_to_a_record_and_not_to_its_value():
    """A phase is an int: two waits may be equal and mean different laps."""
    start = PipelineState.start(1)
    waits = [op.Wait("full", Phase(lap, start.lineage, False)) for lap in (0, 2)]
    assert waits[0] == waits[1]
    assert [effects_of(one).waits.phase.lap for one in waits] == [0, 2]
    assert effects_of(waits[0]) is effects_of(waits[0])


BUSY = Held(
    mma=((FAST,),),
    fresh_mma=(FAST._replace(object="w"),),
    cp=((X,), (OVER,)),
    fresh_cp=(OVER._replace(object="c"),),
    tracked=((TriggeredArrivals("empty", 1, (X,)), (X,)),),
    bulk_reads=((FAST,), (X,)),
    bulk_writes=((OUT,), ()),
    fresh_reads=(FAST._replace(object="z"),),
    fresh_writes=(OUT._replace(object="q"),),
    unfenced=(X._replace(object="u"),),
    unfenced_inits=("old",),
    hidden_inits=("old",),
    registers=168,
    tracks=True,
    recent=(X._replace(object="r"),),
    unordered=(X._replace(object="o"),),
    touched=(ACC._replace(object="m"),),
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_what_a_thread_holds_goes_by_the_effects(operation):
    """Each part of what is held changes exactly if the effects say so."""
    effects, after = effects_of(operation), BUSY.after(operation)
    begins = {begun.until for begun in effects.begins}
    ends = effects.ends
    says = {
        "mma": effects.commits == "mma" or (ends is not None and ends.groups == "mma" and ends.pending < len(BUSY.mma)),
        "fresh_mma": "mma_group" in begins or effects.commits == "mma",
        "cp": effects.commits == "cp" or (ends is not None and ends.groups == "cp"),
        "fresh_cp": "cp_group" in begins or effects.commits == "cp",
        "tracked": effects.triggers is not None or (ends is not None and ends.groups == "cp"),
        "bulk_reads": effects.commits == "bulk" or (ends is not None and ends.groups == "bulk"),
        "bulk_writes": effects.commits == "bulk" or (ends is not None and ends.groups == "bulk" and not ends.reads),
        "fresh_reads": "bulk_group" in begins or effects.commits == "bulk",
        "fresh_writes": any(begun.until == "bulk_group" and begun.access.write for begun in effects.begins)
        or effects.commits == "bulk",
        "unfenced": any(begun.raw for begun in effects.begins) or "accesses" in effects.shows,
        "unfenced_inits": isinstance(operation, op.Init) or "inits_to_copies" in effects.shows,
        "hidden_inits": isinstance(operation, op.Init) or "inits_to_ctas" in effects.shows,
        "registers": effects.registers is not None,
        "recent": effects.orders is not None or "done" in begins or set(BUSY.in_progress()) > set(after.in_progress()),
        "unordered": effects.orders is not None,
        "touched": any(begun.access.space == "registers" for begun in effects.begins) or "registers" in effects.shows,
        "fenced": "registers" in effects.shows,
    }
    if operation == op.Touch("mma", (FAST,), ("t",), True):
        assert after.fresh_mma == () and FAST in after.mma[-1]
    assert {name: getattr(after, name) != getattr(BUSY, name) for name in says} == says


def test_accesses_are_in_progress_until_what_ends_them():
    for operation in OPERATIONS:
        effects = effects_of(operation)
        held = IDLE.after(operation).after(op.Group("mma_commit")).after(op.Group("bulk_commit"))
        assert held.in_progress() == effects.lasting("mma_group", "bulk_group", "cp_group")
        over = held.after(op.Group("mma_wait")).after(op.Group("bulk_wait")).after(op.Group("cp_wait_all"))
        assert over.in_progress() == ()
        assert over.after(op.Fence("proxy_async")).unfenced == ()
        assert held.after(op.Fence("proxy_async")).unfenced == effects.lasting("cp_group")


def kernel_of(*operations: op.Operation) -> Kernel:
    """One warp that does these in turn."""
    regions = (
        Region("full", "shared", 1024, 1032, frozenset(), "full"),
        Region("x", "shared", 0, 64, frozenset(), "x"),
        Region("y", "shared", 64, 128, frozenset(), "y"),
        Region("out", "global", 0, 64, frozenset(), "out"),
        Region("r", "registers", 0, 64, frozenset(), "r"),
        Region("flag", "global", 64, 68, frozenset(), "flag"),
    )
    layout = Layout(regions, {"full": 1}, ("full",), {}, {}, {}, {}, {"flag": WordValues(0, 3)})
    nodes, held = [], IDLE
    for number, operation in enumerate(operations):
        nodes.append(Node(operation, None, held, successors={None: number + 1}))
        held = held.after(operation)
    nodes.append(Node(None, None, held))
    me = Threads("one", 32, 0, 0)
    return Kernel("by hand", {}, layout, (Program("one", me, tuple(nodes), "one"),))


PLAIN = [one for one in OPERATIONS if not effects_of(one).answers and not isinstance(one, op.ClusterWait)]


@pytest.mark.parametrize("operation", PLAIN, ids=repr)
def test_order_and_the_machine_take_the_same_accesses(operation):
    kernel = kernel_of(operation)
    effects, move = effects_of(operation), make_plan(kernel).moves[0][0]
    assert [use.access for use in move.uses] == [*effects.accesses]
    assert move.lasting == bool(effects.lasting("mma_group", "bulk_group", "cp_group"))
    assert [use.lands >= 0 for use in move.uses] == [begun.until == "landed" for begun in effects.begins]
    assert move.shows == effects.shows
    machine = compile_kernel(kernel)
    landings = [action for action in machine.actions if action.location is None]
    triggered = [] if effects.triggers is None else [effects.triggers.barrier]
    assert len(landings) == sum(1 + (copies.pieces > 1) for copies, _ in effects.lands) + len(triggered)
    assert {action.object for action in landings} == {*(copies.write.object for copies, _ in effects.lands), *triggered}


@pytest.mark.parametrize("operation", OPERATIONS, ids=IDS)
def test_mutations_and_annotations_go_by_the_effects(operation):
    effects = effects_of(operation)
    nodes = [
        Node(operation, Source("one.py", 1), IDLE, successors=dict.fromkeys(effects.answers or (None,), 1)),
        Node(None, Source("one.py", 2), IDLE),
    ]
    end = annotate(Program("one", Threads("one", 32, 0, 0), tuple(nodes), "one")).nodes[1]
    assert bool(end.ahead) == bool(effects.lands or isinstance(operation, op.Arrive | op.Transaction))
    assert bool(end.arrived) == isinstance(operation, op.Arrive)
    assert bool(end.observed) == (effects.waits is not None and not isinstance(effects.waits.phase, op.Token))
    assert end.held == IDLE._replace(tracks=effects.orders == "relaxed").after(operation)
    assert has_answer(operation) == bool(effects.answers)
    assert isinstance(default_answer(operation), op.Token) == isinstance(operation, op.Arrive)
    shows = effects.registers is not None or (effects.begins and effects.signal is None)
    assert (shown_of("one", operation) is not None) == bool(shows)
