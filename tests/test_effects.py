"""What an operation means is written once: its effects are what the engines go by."""

from __future__ import annotations

from typing import get_args

import pytest

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
from sm90_verify.spec.ptx.effect_parts import Acquired, Begun, Copies, Ends, TriggeredArrivals
from sm90_verify.spec.ptx.effects import NOTHING, Effects, effects_of
from sm90_verify.spec.ptx.fits import fields_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.memory import WIDER, Access, Strong, as_read, as_write

X, Y = Access("x", "shared", 0, 64, False, "generic"), Access("y", "shared", 64, 128, False, "generic")
OVER = as_write(X, "generic")
FAST, INTO = as_read(X, "async"), as_write(Y, "async")
OUT = Access("out", "global", 0, 64, True, "async")
HELD = Access("r", "registers", 0, 64, False, "generic")
ACC = as_write(HELD, "async")
FLAG = Access("flag", "global", 64, 68, False, "generic", strong=Strong("gpu"))
SET, WEAK_FLAG = as_write(FLAG, "generic")._replace(strong=Strong("gpu")), FLAG._replace(strong=None)
STRONG_READ, STRONG_WRITE = (
    Begun(FLAG, "generic read", raw=True, strong=True),
    Begun(SET, "generic write", raw=True, strong=True),
)
WEAK_READ = Begun(WEAK_FLAG, "generic read", raw=True)
ATOMIC, SUM = OVER._replace(strong=Strong("gpu")), OUT._replace(strong=Strong("gpu"))
THERE, FROM, MAP = INTO._replace(cta=1), as_read(OUT, "async"), as_read(OUT, "tensormap")

MEANINGS: list[tuple[op.Operation, Effects, str]] = [
    (op.Init("full", 1), Effects(), "other"),
    (
        op.Init("full", 1, write=as_write(X, "generic")),
        Effects((Begun(as_write(X, "generic"), "generic write", data=(None,)),)),
        "other",
    ),
    (op.Inval("full"), Effects(), "other"),
    (op.Inval("full", write=OVER), Effects((Begun(OVER, "generic write", data=(None,), raw=True),)), "other"),
    (op.Wait("full", 0), Effects(), "wait"),
    (op.Wait("full", op.Token("full")), Effects(), "wait"),
    (op.Wait("full", 0, "try_wait"), Effects(answers=(True, False)), "peek"),
    (op.Wait("full", 0, "test_wait"), Effects(answers=(True, False)), "peek"),
    (op.Arrive("full"), Effects(orders="release"), "arrive"),
    (op.Arrive("full", expect=64), Effects(orders="release"), "arrive"),
    (op.Arrive("full", kind="drop"), Effects(orders="release"), "other"),
    (op.Arrive("full", kind="no_complete"), Effects(orders="release"), "other"),
    (op.Transaction("full", 64), Effects(), "expect"),
    (op.Transaction("full", -64), Effects(), "other"),
    (
        op.Load(INTO, "full", 64, "t", 2),
        Effects((Begun(INTO, "async write", "landed"),), ((Copies(INTO, "full", 64, 2), "t"),)),
        "load",
    ),
    (
        op.Load(INTO, "full", 64, "t", read=FAST),
        Effects(
            (Begun(INTO, "async write", "landed"), Begun(FAST, "async read", "landed", ("t",))),
            ((Copies(INTO, "full", 64, 1, FAST), "t"),),
        ),
        "load",
    ),
    (
        op.Load(INTO, "full", 64, "t", tensormap=MAP),
        Effects(
            (Begun(INTO, "async write", "landed"), Begun(MAP, "tensormap read", "landed")),
            ((Copies(INTO, "full", 64, 1, None, MAP), "t"),),
        ),
        "load",
    ),
    (
        op.Store((FAST,), ("t",), tensormap=MAP),
        Effects((Begun(FAST, "async read", "bulk_group", ("t",)), Begun(MAP, "tensormap read", "bulk_group"))),
        "local",
    ),
    (op.Touch("read", (X,), ("t",)), Effects((Begun(X, "generic read", data=("t",), raw=True),)), "local"),
    (op.Touch("write", (OVER,), ("t",)), Effects((Begun(OVER, "generic write", data=("t",), raw=True),)), "local"),
    (op.Touch("mma", (FAST,), ("t",)), Effects((Begun(FAST, "async read", "mma_group", ("t",)),)), "local"),
    (
        op.Touch("mma", (FAST,), ("t",), True),
        Effects((Begun(FAST, "async read", "mma_group", ("t",)),), commits="mma"),
        "local",
    ),
    (
        op.Touch("red", (ATOMIC,), ("t",)),
        Effects((Begun(ATOMIC, "generic write", "done", ("t",), True, True),)),
        "local",
    ),
    (op.Find(X, ("t", "u")), Effects((Begun(X, "generic read", raw=True),), answers=(0, 1)), "other"),
    (
        op.Store((FAST,), ("t",), SUM),
        Effects(
            (Begun(FAST, "async read", "bulk_group", ("t",)), Begun(SUM, "async write", "bulk_group", strong=True))
        ),
        "local",
    ),
    (
        op.Store((FAST,), ("t",), OUT),
        Effects((Begun(FAST, "async read", "bulk_group", ("t",)), Begun(OUT, "async write", "bulk_group"))),
        "local",
    ),
    (op.Group("mma_commit"), Effects(commits="mma"), "local"),
    (op.Group("mma_wait", 1), Effects(ends=Ends("mma", 1)), "local"),
    (op.Group("bulk_commit"), Effects(commits="bulk"), "local"),
    (op.Group("bulk_wait", 1), Effects(ends=Ends("bulk", 1)), "local"),
    (op.Group("bulk_wait_read", 1), Effects(ends=Ends("bulk", 1, reads=True)), "local"),
    (
        op.CpAsync(OVER, "t", as_read(OUT, "generic")),
        Effects(
            (
                Begun(OVER, "generic write", "cp_group", ("t",), True),
                Begun(as_read(OUT, "generic"), "generic read", "cp_group", raw=True),
            )
        ),
        "local",
    ),
    (
        op.StoreAsync(OVER, "full", 64, "t", 2),
        Effects((Begun(OVER, "generic write", "landed", raw=True),), ((Copies(OVER, "full", 64, 2), "t"),)),
        "load",
    ),
    (op.TriggeredArrive("full", 32), Effects(orders="relaxed", triggers=TriggeredArrivals("full", 32, ())), "other"),
    (op.Group("cp_commit"), Effects(commits="cp"), "local"),
    (op.Group("cp_wait", 1), Effects(ends=Ends("cp", 1)), "local"),
    (op.Group("cp_wait_all"), Effects(commits="cp", ends=Ends("cp", 0)), "local"),
    (op.Fence("proxy_async"), Effects(shows=("accesses", "inits_to_copies")), "local"),
    (op.MapFence("release", "cta"), Effects(shows=("maps",)), "local"),
    (op.MapFence("release", "cluster"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("release", "gpu"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("release", "sys"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("acquire", "cta", MAP), Effects(acquires=Acquired(MAP, False)), "local"),
    (op.MapFence("acquire", "gpu", MAP), Effects(acquires=Acquired(MAP, True)), "local"),
    *(
        (
            op.CopyMap(X, as_write(OUT, "generic"), "t", scope),
            Effects(
                (
                    Begun(X, "generic read", data=("t",), raw=True),
                    Begun(as_write(OUT, "generic"), "generic write", data=("t",), raw=True),
                ),
                shows=("maps",) if scope == "cta" else ("maps", "maps_to_ctas"),
            ),
            "local",
        )
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    (op.Fence("mbarrier_init"), Effects(shows=("inits_to_copies", "inits_to_ctas")), "local"),
    (op.Fence("wgmma"), Effects(shows=("registers",)), "local"),
    (op.Touch("read", (HELD,), (None,)), Effects((Begun(HELD, "generic read", data=(None,)),)), "local"),
    (
        op.Touch("mma", (FAST,), (None,), into=ACC, leaves="t"),
        Effects((Begun(FAST, "async read", "mma_group", (None,)), Begun(ACC, "async write", "mma_group", ("t",)))),
        "local",
    ),
    (op.NamedSync(1, 64), Effects(orders="release"), "other"),
    (op.NamedSync(1, 64, blocks=False), Effects(orders="release"), "other"),
    (op.CtaSync(), Effects(orders="release"), "other"),
    (op.WarpSync(), Effects(), "other"),
    (op.ClusterArrive(), Effects(orders="release", shows=("inits_to_ctas",)), "other"),
    (op.ClusterArrive(release=False), Effects(orders="relaxed"), "other"),
    (op.ClusterWait(), Effects(), "other"),
    (op.Choose("which", ("a", "b")), Effects(answers=(0, 1)), "choice"),
    (op.Setmaxnreg(40, "dec"), Effects(), "registers"),
    (op.Arrive("full", sem="relaxed", scope="cta"), Effects(orders="relaxed"), "arrive"),
    *((op.Arrive("full", scope=scope), Effects(orders="release"), "arrive") for scope in WIDER),
    *((op.Wait("full", 0, sem="relaxed", scope=scope), Effects(), "wait") for scope in WIDER),
    (op.WordLoad(FLAG, op.Ordering(), 2), Effects((STRONG_READ,), answers=(0, 1)), "other"),
    (op.WordLoad(WEAK_FLAG, op.Ordering("weak"), 2), Effects((WEAK_READ,), answers=(0, 1)), "other"),
    *(
        (op.Spin(FLAG, op.Ordering("acquire"), how, 1), Effects((STRONG_READ,)), "other")
        for how in get_args(op.Comparison)
    ),
    (op.WordStore(SET, op.Ordering("release"), 1), Effects((STRONG_WRITE,), orders="release"), "other"),
    (op.WordStore(SET, op.Ordering("relaxed"), 1), Effects((STRONG_WRITE,), orders="relaxed"), "other"),
    (
        op.Atom(SET, op.Ordering("acq_rel"), "add", 1, 3),
        Effects((STRONG_WRITE,), orders="release", answers=(0, 1, 2)),
        "other",
    ),
    *(
        (op.Atom(SET, op.Ordering(), kind, 1, 3, answers=False), Effects((STRONG_WRITE,), orders="relaxed"), "other")
        for kind in get_args(op.AtomKind)
    ),
    *((op.ThreadFence(kind, scope), Effects(), "local") for kind in get_args(op.MemoryFence) for scope in WIDER),
    (op.Griddepcontrol("launch_dependents"), Effects(), "local"),
    (op.Griddepcontrol("wait"), Effects(turns=op.Griddepcontrol("wait")), "other"),
    (op.CtaStart(), Effects(turns=op.CtaStart()), "other"),
]
"""Every record in each of its kinds: what it does beside being what it is, and the kind of its location."""
IDS = [repr(operation) for operation, _, _ in MEANINGS]
OPERATIONS = [operation for operation, _, _ in MEANINGS]
BLOCKING = (op.NamedSync(1, 64), op.CtaSync(), op.WarpSync())


def itself(operation: op.Operation, effects: Effects) -> Effects:
    """The effects with the operation itself where it belongs."""
    parts = {
        "signal": op.Signal,
        "waits": op.Wait,
        "meets": op.Meeting,
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
