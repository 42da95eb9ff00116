"""What an operation means is written once: its effects are what the engines go by, and no sentence stands twice."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm90_verify.engines.order.outcome import applicable
from sm90_verify.engines.order.planner import make_plan
from sm90_verify.evidence.mutation.behaviour import shown_of
from sm90_verify.mutation.stream import default_answer, has_answer
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.state import Phase, PipelineState
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.flow import blocks_inside, is_local, kind_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Threads
from sm90_verify.spec.model.layout import Layout, Region
from sm90_verify.spec.ptx import needs
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import NOTHING, Begun, Copies, Effects, Ends, effects_of
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.memory import Access, as_read, as_write

ROOT = Path(__file__).resolve().parent.parent
X, Y = Access("x", "shared", 0, 64, False, "generic"), Access("y", "shared", 64, 128, False, "generic")
OVER = as_write(X, "generic")
FAST, INTO = as_read(X, "async"), as_write(Y, "async")
OUT = Access("out", "global", 0, 64, True, "async")

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
    (op.Touch("read", (X,), ("t",)), Effects((Begun(X, "generic read", data=("t",), raw=True),)), "local"),
    (op.Touch("write", (OVER,), ("t",)), Effects((Begun(OVER, "generic write", data=("t",), raw=True),)), "local"),
    (op.Touch("mma", (FAST,), ("t",)), Effects((Begun(FAST, "async read", "mma_group", ("t",)),)), "local"),
    (
        op.Touch("mma", (FAST,), ("t",), True),
        Effects((Begun(FAST, "async read", "mma_group", ("t",)),), commits="mma"),
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
    (op.Fence("proxy_async"), Effects(shows=("accesses", "inits_to_copies")), "local"),
    (op.Fence("mbarrier_init"), Effects(shows=("inits_to_copies", "inits_to_ctas")), "local"),
    (op.NamedSync(1, 64), Effects(orders="release"), "other"),
    (op.NamedSync(1, 64, blocks=False), Effects(orders="release"), "other"),
    (op.CtaSync(), Effects(orders="release"), "other"),
    (op.WarpSync(), Effects(), "other"),
    (op.ClusterArrive(), Effects(orders="release", shows=("inits_to_ctas",)), "other"),
    (op.ClusterArrive(release=False), Effects(orders="relaxed"), "other"),
    (op.ClusterWait(), Effects(), "other"),
    (op.Choose("which", ("a", "b")), Effects(answers=(0, 1)), "other"),
    (op.Setmaxnreg(40, "dec"), Effects(), "registers"),
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
        kinds = [(name, words) for name, _, words in op._fields(record) if words]
        for name, values in kinds:
            told = {getattr(one, name) for one in OPERATIONS if type(one) is record}
            assert told == set(values) or record is op.Setmaxnreg


def test_the_end_of_a_role_does_nothing():
    assert effects_of(None) == NOTHING == Effects() and not is_local(None)


def test_effects_belong_to_a_record_and_not_to_its_value():
    """A phase is an int: two waits may be equal and mean different laps."""
    start = PipelineState.start(1)
    waits = [op.Wait("full", Phase(lap, start.lineage, False)) for lap in (0, 2)]
    assert waits[0] == waits[1]
    assert [effects_of(one).waits.phase.lap for one in waits] == [0, 2]
    assert effects_of(waits[0]) is effects_of(waits[0])


# ---------------------------------------------------------------- readers

BUSY = Held(
    mma=((FAST,),),
    fresh_mma=(FAST._replace(object="w"),),
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
        "bulk_reads": effects.commits == "bulk" or (ends is not None and ends.groups == "bulk"),
        "bulk_writes": effects.commits == "bulk" or (ends is not None and ends.groups == "bulk" and not ends.reads),
        "fresh_reads": "bulk_group" in begins or effects.commits == "bulk",
        "fresh_writes": any(begun.until == "bulk_group" and begun.access.write for begun in effects.begins)
        or effects.commits == "bulk",
        "unfenced": any(begun.raw for begun in effects.begins) or "accesses" in effects.shows,
        "unfenced_inits": isinstance(operation, op.Init) or "inits_to_copies" in effects.shows,
        "hidden_inits": isinstance(operation, op.Init) or "inits_to_ctas" in effects.shows,
        "registers": effects.registers is not None,
        "recent": effects.orders is not None or "done" in begins,
        "unordered": effects.orders is not None,
    }
    if operation == op.Touch("mma", (FAST,), ("t",), True):
        assert after.fresh_mma == () and FAST in after.mma[-1]
    assert {name: getattr(after, name) != getattr(BUSY, name) for name in says} == says


def test_accesses_are_in_progress_until_what_ends_them():
    for operation in OPERATIONS:
        effects = effects_of(operation)
        held = IDLE.after(operation).after(op.Group("mma_commit")).after(op.Group("bulk_commit"))
        assert held.in_progress() == effects.lasting("mma_group", "bulk_group")
        over = held.after(op.Group("mma_wait")).after(op.Group("bulk_wait"))
        assert over.in_progress() == ()
        assert held.after(op.Fence("proxy_async")).unfenced == ()


def kernel_of(*operations: op.Operation) -> Kernel:
    """One warp that does these in turn."""
    regions = (
        Region("full", "shared", 1024, 1032, frozenset(), "full"),
        Region("x", "shared", 0, 64, frozenset(), "x"),
        Region("y", "shared", 64, 128, frozenset(), "y"),
        Region("out", "global", 0, 64, frozenset(), "out"),
    )
    layout = Layout(regions, {"full": 1}, ("full",), {}, {}, {}, {})
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
    assert move.lasting == bool(effects.lasting("mma_group", "bulk_group"))
    assert [use.lands >= 0 for use in move.uses] == [begun.until == "landed" for begun in effects.begins]
    assert move.shows == effects.shows
    machine = compile_kernel(kernel)
    landings = [action for action in machine.actions if action.location is None]
    assert len(landings) == sum(1 + (copies.pieces > 1) for copies, _ in effects.lands)
    assert {action.object for action in landings} == {copies.write.object for copies, _ in effects.lands}


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
    assert end.held == IDLE._replace(tracks=operation == op.ClusterArrive(release=False)).after(operation)
    assert has_answer(operation) == bool(effects.answers)
    assert isinstance(default_answer(operation), op.Token) == isinstance(operation, op.Arrive)
    shows = effects.registers is not None or (effects.begins and effects.signal is None)
    assert (shown_of("one", operation) is not None) == bool(shows)


# ---------------------------------------------------------------- needs

ALL = {name: need for name, need in vars(needs).items() if isinstance(need, needs.Need)}


def test_properties_are_read_off_needs():
    said = {
        "a read": (op.Touch("read", (X,), ("t",)), {"race", "stale-read"}),
        "any data": (op.Touch("read", (X,), (None,)), {"race"}),
        "a copy": (op.Load(INTO, "full", 64, "t"), {"race", "tx-count", "exit-hazard"}),
        "an arrival": (op.Arrive("full"), {"arrival-count"}),
        "an init": (op.Init("full", 1), {"barrier-init"}),
        "bytes": (op.Transaction("full", 64), {"tx-count"}),
        "a wait": (op.Wait("full", 0), {"phase-lapped"}),
        "bar.sync": (op.NamedSync(1, 32), {"named-barrier"}),
        "registers": (op.Setmaxnreg(40, "dec"), {"register-pool"}),
        "a fence": (op.Fence("proxy_async"), set()),
    }
    for operation, properties in said.values():
        assert set(needs.properties_of(operation)) == properties
        assert set(applicable(kernel_of(operation))) == {"deadlock", *properties}


def test_every_need_is_read():
    text = "\n".join(path.read_text() for package in ("spec", "checker") for path in (ROOT / package).rglob("*.py"))
    for name in ALL:
        assert re.search(rf"\b{name}\.(said|unmet)\(", text) or name in ("LANDED", "TAKEN"), name


SINKS = {"Illegal", "Check", "Need", "Violation", "Failure", "fail", "diverge", "suspect", "said", "unmet", "format"}


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every literal that becomes a `because`: given to what makes violations, or to a name `because` or `said`."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found = [*node.args, *(word.value for word in node.keywords)] if name in SINKS else []
            found += [word.value for word in node.keywords if word.arg == "because"]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("because", "said", "why"):
            found = [node.value]
        for value in found:
            yield from literals(value)


def literals(value: ast.expr) -> Iterator[tuple[int, str]]:
    """Strings and f-strings in an expression, each as a whole."""
    text = literal(value)
    if text:
        yield value.lineno, text
    else:
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield from literals(part)


def literal(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def skeleton(text: str) -> str:
    """The words without what they are about."""
    return " ".join(re.sub(r"\W+", " ", re.sub(r"\{[^}]*\}", " ", text)).split())


def twice(sources: dict[str, str]) -> list[list[str]]:
    """Sentences of at least four words that several places say."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for path, text in sources.items():
        for line, sentence in sentences(ast.parse(text)):
            if len(skeleton(sentence).split()) >= 4:
                said[skeleton(sentence)][f"{path}:{line}"] = None
    return [list(places) for places in said.values() if len(places) > 1]


def test_no_sentence_stands_twice():
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for package in ("spec", "checker")
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    assert twice(sources) == []


def test_a_sentence_that_stands_twice_is_found():
    one = 'Illegal("race", when, f"nothing orders {mine} by {role} after that")'
    other = 'because = f"{x}: nothing orders {y} by {z} after that"'
    assert twice({"a.py": one, "b.py": other}) == [["a.py:1", "b.py:1"]]
    assert twice({"a.py": one, "b.py": "because = NEED.said(role=role)"}) == []


# ---------------------------------------------------------------- the exercise

ADDED = {
    "spec/ptx/operations.py": (
        (
            "@dataclass(frozen=True)\nclass Group(Yielded):",
            '''@dataclass(frozen=True)
class Reduce(Yielded):
    """cp.reduce.async.bulk (9.7.9.25.4.2): adds what it reads to its destination. To global memory it is in a bulk
    group; into the shared memory of a CTA of the cluster it gives its bytes to a barrier there.
    """

    source: Access
    destination: Access
    tag: Hashable = None
    barrier: str = ""
    leaves: Hashable = None


@dataclass(frozen=True)
class Group(Yielded):''',
        ),
        ("    | Setmaxnreg\n)", "    | Setmaxnreg\n    | Reduce\n)"),
    ),
    "spec/ptx/effects.py": (
        (
            "        case op.Group():\n            return _group(operation)\n",
            """        case op.Reduce():
            return _reduce(operation)
        case op.Group():
            return _group(operation)
""",
        ),
        (
            "def _touch(",
            """def _reduce(reduce: op.Reduce) -> Effects:
    source, into = reduce.source, reduce.destination
    until: Until = "landed" if reduce.barrier else "bulk_group"
    begins = Begun(source, "async read", until, (reduce.tag,)), Begun(into, "async write", until)
    if not reduce.barrier:
        return Effects(begins)
    return Effects(begins, ((Copies(into, reduce.barrier, into.stop - into.start, 1, source), reduce.leaves),))


def _touch(""",
        ),
    ),
    "spec/model/words.py": (
        (
            "        case op.Group():\n            return _group(node",
            """        case op.Reduce():
            return f"reduce {tag_text(node.operation.tag)}".rstrip(), node.operation.destination.object
        case op.Group():
            return _group(node""",
        ),
    ),
    "spec/language/handles.py": (
        (
            "    def _tag(self, tag: Hashable) -> Hashable:\n        return plain_tag(self",
            '''    def reduce(
        self, to: Tile, signals: Barrier | None = None, tag: Hashable = None, leaves: Hashable = None
    ) -> op.Operation:
        """cp.reduce.async.bulk: adds this buffer to `to`."""
        source, destination = as_read(self.access, "async"), as_write(one_tile(to).access, "async")
        barrier = "" if signals is None else signals.name
        return self._owner.created(op.Reduce(source, destination, self._tag(tag), barrier, leaves))

    def _tag(self, tag: Hashable) -> Hashable:
        return plain_tag(self''',
        ),
    ),
}
"""All that cp.reduce.async.bulk takes: by file, what is replaced by what."""
PROGRAMS = """
from sm90_verify.engines.check import check
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class ToGlobal(Pipeline):
    x = tile(bytes=1024)
    out = tile(bytes=1024, space="global")
    waits = True
    fences = True

    @role(warps=1)
    def adder(self):
        for k in range(2):
            yield self.x.write(tag=k)
            if self.fences:
                yield self.fence_proxy_async()
            yield self.x[0].reduce(self.out[0], tag=k)
            yield self.bulk_commit()
            if self.waits:
                yield self.bulk_wait(0)
        yield self.bulk_wait(0)


class ToCluster(Pipeline):
    cluster = "2x1"
    x = tile(bytes=1024)
    acc = tile(bytes=1024)
    full = barrier(arrivals=1)
    back = barrier(arrivals=32)
    answers = True
    waits = True

    @role(warps=1, ctas=(0,))
    def sender(self):
        yield self.x.write(tag="a")
        yield self.fence_proxy_async()
        yield self.x[0].reduce(self.acc[0].on(1), self.full[0].on(1), tag="a", leaves="sum")
        if self.answers:
            yield self.back[0].wait(0)
        yield self.x.write(tag="b")
        if not self.answers:
            yield self.back[0].wait(0)

    @role(warps=1, ctas=(1,))
    def receiver(self):
        yield self.full[0].arrive_expect_tx(1024)
        if self.waits:
            yield self.full[0].wait(0)
        yield self.acc[0].read(tag="sum")
        if not self.waits:
            yield self.full[0].wait(0)
        yield self.back[0].on(0).arrive(32)


for name, pipeline in {
    "global": ToGlobal(),
    "overwrites its source": ToGlobal(waits=False),
    "no fence": ToGlobal(fences=False),
    "cluster": ToCluster(),
    "overwrites what is sent": ToCluster(answers=False),
    "reads too early": ToCluster(waits=False),
}.items():
    for engine in ("search", "order", "smt"):
        result = check(pipeline, engine=engine)
        print(name, engine, result.verdict, result.trace.property if result.trace else "", sep="|")
"""
VERDICTS = {
    "global": "proved|",
    "overwrites its source": "violated|race",
    "no fence": "violated|missing-fence",
    "cluster": "proved|",
    "overwrites what is sent": "violated|race",
    "reads too early": "violated|race",
}


def test_a_new_operation_takes_four_files_and_every_engine_decides_it(tmp_path):
    """cp.reduce.async.bulk, which is like a store here and like a load there, and reads and writes as neither does."""
    assert len(ADDED) <= 4
    for package in ("spec", "checker", "kernels", ".types"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=ignored)
    for file, changes in ADDED.items():
        text = (tmp_path / file).read_text()
        for before, after in changes:
            assert text.count(before) == 1, (file, before)
            text = text.replace(before, after)
        (tmp_path / file).write_text(text)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    environment = {"PYTHONPATH": str(tmp_path / ".types"), "PATH": ""}
    command = [sys.executable, "programs.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    said = {tuple(line.split("|")[:2]): line.split("|", 2)[2] for line in done.stdout.splitlines()}
    assert said == {(name, engine): VERDICTS[name] for name in VERDICTS for engine in ("search", "order", "smt")}
