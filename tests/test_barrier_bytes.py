"""Data in the bytes of a barrier: never over a live one, and ordered with its init and inval (9.7.13.15, .9, .10)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from findings import violated

from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.induction import prove
from sm90_verify.report.explain import explain
from sm90_verify.result import PROVED, UNDETERMINED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class AfterInval(Pipeline):
    """Both at address 0, and never at the same time."""

    bar = barrier(initialised=False, address=0)
    x = tile(bytes=64, address=0)

    @role(warps=1)
    def one(self):
        yield self.bar.init(1)
        yield self.bar.inval()
        yield self.x.write()


class SharesAfterInval(AfterInval):
    bar = barrier(initialised=False)
    x = tile(bytes=64, shares="bar")


class OverALiveOne(Pipeline):
    """Without inval, while somebody waits on the barrier."""

    bar = barrier(initialised=False)
    x = tile(bytes=64, shares="bar")

    @role(warps=1)
    def one(self):
        yield self.bar.init(1)
        yield self.cta_sync()
        yield self.x.write()
        yield self.bar.arrive()

    @role(warps=1)
    def other(self):
        yield self.cta_sync()
        yield self.bar.wait(0)


ENGINES = ("search", "order", "smt", "search+order")


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_are_free_after_inval_and_not_before(engine):
    assert violated(AfterInval(), engine=engine) == []
    assert violated(SharesAfterInval(), engine=engine) == []
    assert violated(OverALiveOne(), engine=engine) == ["barrier-init"]


class Bytes(Pipeline):
    """What two roles do, in words; x lies in the bytes of bar, which is dead at the start."""

    one_does: str = ""
    two_does: str = ""
    bar = barrier(slots=1, initialised=False)
    go = barrier(slots=1)
    full = barrier(slots=1)
    x = tile(bytes=64, slots=1, shares="bar")
    y = tile(bytes=64, slots=1)

    def does(self, words, me):
        there = (me.cta + 1) % self.shape.size
        for word in words.split():
            match word:
                case "init":
                    yield self.bar.init(1)
                case "inval":
                    yield self.bar.inval()
                case "arrive":
                    yield self.bar.arrive()
                case "wait":
                    yield self.bar.wait(0)
                case "write":
                    yield self.x.write()
                case "read":
                    yield self.x.read()
                case "tag":
                    yield self.x.write(tag=1)
                case "find":
                    yield self.x.read(tag=1)
                case "elsewhere":
                    yield self.y.write()
                case "mma":
                    yield self.x.mma()
                case "multiplied":
                    yield self.mma_wait(0)
                case "load":
                    yield self.full.arrive_expect_tx(64)
                    yield self.x.load(signals=self.full)
                case "landed":
                    yield self.full.wait(0)
                case "store":
                    yield self.x.store()
                    yield self.bulk_commit()
                case "stored":
                    yield self.bulk_wait_read(0)
                case "go":
                    yield self.go.arrive()
                case "come":
                    yield self.go.wait(0)
                case "sync":
                    yield self.cta_sync()
                case "fence":
                    yield self.fence_proxy_async()
                case "enter":
                    yield self.cluster_arrive()
                case "slip":
                    yield self.cluster_arrive_relaxed()
                case "leave":
                    yield self.cluster_wait()
                case "far_write":
                    yield self.x.on(there).write()
                case "far_read":
                    yield self.x.on(there).read()
                case _:
                    raise AssertionError(word)

    @role(warpgroups=1)
    def one(self, me):
        yield from self.does(self.one_does, me)

    @role(warpgroups=1)
    def two(self, me):
        yield from self.does(self.two_does, me)


class Live(Bytes):
    """The same with a barrier that is initialised before the roles start."""

    bar = barrier(slots=1)


RIGHT = (
    (Bytes, "init inval write", ""),
    (Bytes, "init inval fence load landed read", ""),
    (Bytes, "init sync arrive wait sync inval write", "sync sync"),
    (Bytes, "write go", "come init arrive wait inval read"),
    (Bytes, "load landed go", "come init inval write"),
    (Bytes, "load landed init inval fence store stored", ""),
    (Bytes, "mma multiplied go", "come init arrive wait inval"),
    (Bytes, "store stored init", ""),
    (Bytes, "init inval go", "come write"),
    (Bytes, "init inval fence go", "come load landed read"),
    (Bytes, "init inval sync", "sync write"),
    (Bytes, "init sync", "sync inval fence load landed"),
    (Bytes, "tag find init inval tag find", ""),
    (Bytes, "init arrive sync wait inval go", "sync come write fence"),
    (Bytes, "write read sync init sync arrive", "sync sync wait"),
    (Bytes, "load sync init inval", "landed sync"),
    (Bytes, "init inval write init inval write", ""),
    (Bytes, "init elsewhere inval", ""),
    (Live, "inval write", ""),
    (Live, "elsewhere", ""),
    (Live, "sync inval sync", "sync sync write"),
    (Live, "inval fence load landed init", ""),
)
WRONG = (
    (Bytes, "init write", "", {"barrier-init"}),
    (Bytes, "init read", "", {"barrier-init"}),
    (Bytes, "init mma", "", {"barrier-init"}),
    (Bytes, "init load landed", "", {"barrier-init"}),
    (Bytes, "init store stored", "", {"barrier-init"}),
    (Bytes, "init elsewhere write", "", {"barrier-init"}),
    (Bytes, "init inval write init write", "", {"barrier-init"}),
    (Bytes, "init sync arrive", "sync wait write", {"barrier-init"}),
    (Bytes, "init inval load landed read", "", {"missing-fence"}),
    (Bytes, "init inval sync", "sync load landed", {"missing-fence"}),
    (Bytes, "tag init inval find", "", {"stale-read"}),
    (Bytes, "mma init multiplied", "", {"race"}),
    (Bytes, "store init stored", "", {"race"}),
    (Bytes, "load init landed", "", {"race"}),
    (Bytes, "load sync init inval", "sync landed", {"race"}),
    (Bytes, "mma go multiplied", "come init inval", {"race"}),
    (Bytes, "init", "write", {"race", "barrier-init"}),
    (Bytes, "init inval", "write", {"race", "barrier-init"}),
    (Bytes, "write", "init inval", {"race", "barrier-init"}),
    (Bytes, "init sync inval", "sync write", {"race", "barrier-init"}),
    (Bytes, "go elsewhere write", "come init", {"race", "barrier-init"}),
    (Live, "write", "", {"barrier-init"}),
    (Live, "read", "", {"barrier-init"}),
    (Live, "sync inval", "sync read", {"race", "barrier-init"}),
)
IN_A_CLUSTER = (
    (Bytes, "init inval enter leave far_write enter leave", "enter leave enter leave", set()),
    (Bytes, "far_read enter leave init", "enter leave", set()),
    (Bytes, "init inval slip leave far_write enter leave", "enter leave enter leave", {"race"}),
    (Bytes, "far_read slip leave init", "slip leave", {"race"}),
    (Bytes, "init enter leave far_write enter leave", "enter leave enter leave", {"barrier-init"}),
    (Bytes, "init inval far_write enter leave", "enter leave", {"race", "barrier-init"}),
)
CASES = [
    *(pytest.param(kernel(one_does=one, two_does=two), set(), id=f"{one} / {two}") for kernel, one, two in RIGHT),
    *(
        pytest.param(kernel(one_does=one, two_does=two), found, id=f"{kernel.__name__} {one} / {two}")
        for kernel, one, two, found in WRONG
    ),
    *(
        pytest.param(kernel(one_does=one, two_does=two, cluster="2x1"), found, id=f"2x1 {one} / {two}")
        for kernel, one, two, found in IN_A_CLUSTER
    ),
]


@pytest.mark.parametrize("pipeline, found", CASES)
def test_search_finds_exactly_this(pipeline, found):
    machine = compile_kernel(trace(pipeline))
    assert set(explore(machine).violations) == found
    assert bool(explore(machine, reduced=True).violations) == bool(found)


@pytest.mark.parametrize("pipeline, found", CASES)
def test_order_says_the_same(pipeline, found):
    outcome = order(trace(pipeline))
    assert outcome.verdict == ("violated" if found else PROVED)
    assert set(confirm(outcome, compile_kernel(trace(pipeline)))) <= found
    proved = {property for property, verdict in outcome.verdicts.items() if verdict == PROVED}
    assert not proved & found and found <= set(outcome.verdicts)


SHOWN = [case for case in CASES if "barrier-init" in case.values[1]]


@pytest.mark.parametrize("pipeline, found", SHOWN)
def test_order_shows_the_access_to_a_live_barrier(pipeline, found):
    """Also where the run of order has the two the other way round."""
    shown = confirm(order(trace(pipeline)), compile_kernel(trace(pipeline)))
    assert "is live" in shown["barrier-init"].because


def test_the_schedule_of_order_has_what_the_access_needs_and_no_more():
    pipeline = Bytes(one_does="init elsewhere elsewhere elsewhere", two_does="write")
    shown = confirm(order(trace(pipeline)), compile_kernel(trace(pipeline)))
    assert len(shown["barrier-init"].actions) == 2


@pytest.mark.parametrize("pipeline, found", [case for case in CASES if case.values[0].cluster == "1x1"])
def test_induction_does_not_contradict(pipeline, found):
    verdicts = prove(compile_kernel(trace(pipeline)), timeout=20).verdicts
    assert {property for property, verdict in verdicts.items() if verdict == "violated"} <= found
    assert {property for property, verdict in verdicts.items() if verdict != PROVED} >= found
    if not found:
        assert set(verdicts.values()) <= {PROVED, UNDETERMINED}


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed):
    """Small changes of right programs: the engines agree on what is violated, with and without reduction."""
    rng = random.Random(seed)
    seen = set()
    for pipeline in random_programs(rng, 60):
        machine = compile_kernel(trace(pipeline))
        searched, outcome = explore(machine), order(trace(pipeline))
        found, what = set(searched.violations), f"{pipeline.one_does} / {pipeline.two_does}"
        assert bool(explore(machine, reduced=True).violations) == bool(found), what
        assert set(confirm(outcome, machine)) <= found, what
        for property, verdict in outcome.verdicts.items():
            assert verdict != PROVED or property not in found, what
            assert verdict != "violated" or property in found or searched.halted, what
        assert found or outcome.verdict == PROVED, what
        seen |= found
    assert {"race", "barrier-init"} <= seen


WORDS = (
    *("init", "inval", "arrive", "wait", "write", "read", "tag", "find", "elsewhere"),
    *("mma", "multiplied", "store", "stored", "go", "sync", "fence"),
)


def random_programs(rng: random.Random, number: int) -> Iterator[Pipeline]:
    while number:
        kernel, one, two = rng.choice(RIGHT)
        roles = [one.split(), two.split()]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            row = rng.choice([row for row in roles if row])
            where = rng.randrange(len(row))
            match rng.randrange(4):
                case 0:
                    row.pop(where)
                case 1:
                    row[where - 1], row[where] = row[where], row[where - 1]
                case 2:
                    row[where] = rng.choice(WORDS)
                case _:
                    row.insert(where, rng.choice(WORDS))
            if not any(roles):
                break
        pipeline = kernel(one_does=" ".join(roles[0]), two_does=" ".join(roles[1]))
        try:
            compile_kernel(trace(pipeline))
        except SpecError:
            continue
        number -= 1
        yield pipeline


def test_operations_on_barriers_without_data_in_their_bytes_are_no_accesses():
    """They say nothing of bytes, so that nothing else changes."""

    class Elsewhere(AfterInval):
        x = tile(bytes=64, address=64)

    pipeline = Elsewhere()
    assert pipeline.bar.init(1).write is None and pipeline.bar.inval().write is None
    write = AfterInval().bar.inval().write
    assert write is not None and (write.start, write.stop, write.write, write.proxy) == (0, 8, True, "generic")


def test_the_explanations_say_it():
    barrier_init, overlap = (" ".join(explain(id).split()) for id in ("barrier-init", "smem-overlap"))
    assert "mbarrier.inval" in barrier_init and "fence.proxy.async" in barrier_init
    assert "shares=" in overlap and "mbarrier.inval" in overlap and "live barrier" in overlap
