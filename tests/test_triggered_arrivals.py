"""cp.async.mbarrier.arrive, sentence by sentence: PTX ISA 9.7.13.15.15."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify import Pipeline, SpecError, barrier, check, role, tile
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.ptx import operations as op


class Does(Pipeline):
    """What the producer does, a letter each. a, b: cp.async into a, b; n, N: arrive.noinc on full, other; i: arrive
    without .noinc; r: an ordinary arrival; c: cp.async.commit_group; 0: wait_group 0; A: reads a; w: writes o.
    reader: w, v: the consumer waits for full, other; a, b, o: reads these; f: fences; m: wgmma of a.
    """

    does = ""
    reader = ""
    count = 32
    full = barrier(arrivals="count")
    other = barrier(arrivals=32)
    a = tile(bytes=64)
    b = tile(bytes=64)
    o = tile(bytes=64)

    @role(warps=1)
    def producer(self, me):
        for letter in self.does:
            match letter:
                case "a":
                    yield self.a.cp_async(tag=1)
                case "b":
                    yield self.b.cp_async(tag=1)
                case "n":
                    yield self.full.cp_async_arrive(me.threads, noinc=True)
                case "N":
                    yield self.other.cp_async_arrive(me.threads, noinc=True)
                case "i":
                    yield self.full.cp_async_arrive(me.threads)
                case "r":
                    yield self.full.arrive(me.threads)
                case "c":
                    yield self.cp_commit()
                case "A":
                    yield self.a.read(tag=1)
                case "w":
                    yield self.o.write()
                case "F":
                    yield self.fence_proxy_async()
                case _:
                    yield self.cp_wait(int(letter))

    @role(warpgroups=1)
    def consumer(self):
        for letter in self.reader:
            match letter:
                case "w":
                    yield self.full.wait(0)
                case "v":
                    yield self.other.wait(0)
                case "a":
                    yield self.a.read(tag=1)
                case "b":
                    yield self.b.read(tag=1)
                case "o":
                    yield self.o.read()
                case "f":
                    yield self.fence_proxy_async()
                case _:
                    yield self.a.mma()
                    yield self.mma_wait(0)


def found(pipeline: Pipeline) -> set[str]:
    """What is violated, the same by reduced search and by unreduced; and order does not say otherwise."""
    by_search = violated(pipeline)
    assert set(violated(pipeline, reduced=False)) == set(by_search)
    for one in check(pipeline, engine="order").findings:
        assert one.verdict == UNDETERMINED or (one.verdict == VIOLATED) == (one.id in by_search), one
    return set(by_search)


@pytest.mark.parametrize(
    ("does", "reader", "count", "properties"),
    [
        # the arrival is triggered when all prior cp.asyncs of the thread are done
        ("an", "wa", 32, set()),
        ("abn", "wab", 32, set()),
        ("anbN", "wavb", 32, set()),
        ("anbN", "vab", 32, set()),
        ("anbN", "wab", 32, {"race", "stale-read"}),
        ("an", "aw", 32, {"race", "stale-read"}),
        ("na", "wa", 32, {"race", "stale-read"}),
        ("n", "w", 32, set()),
        # without .noinc the pending count is incremented first: a zero-net change
        ("air", "wa", 32, set()),
        ("ari", "wa", 32, {"race"}),
        ("ai", "w", 32, {"deadlock", "arrival-count"}),
        # with it, the count of the barrier has to have the arrival
        ("anr", "wa", 64, set()),
        ("anr", "w", 32, {"deadlock", "phase-lapped"}),
        ("an", "w", 64, {"deadlock", "arrival-count"}),
        ("anbnanr", "wab", 128, {"race"}),
        ("annbnr", "wab", 128, set()),
        # it tells of cp.asyncs, and of nothing else that the thread has done
        ("awn", "wo", 32, {"race"}),
        ("awnr", "wo", 64, set()),
        # the thread itself has to wait too
        ("anA", "w", 32, {"race"}),
        ("acn0A", "w", 32, set()),
        ("acn0A", "wa", 32, set()),
        ("ana", "w", 32, {"race"}),
        ("acn0aN", "wa", 32, {"race"}),  # of the second copy the other barrier tells
        ("acn0aN", "va", 32, set()),
        ("acn0aNr", "wa", 64, {"race"}),
        # it goes through the generic proxy
        ("an", "wm", 32, {"missing-fence"}),
        ("an", "wfm", 32, set()),
        ("an", "fwm", 32, {"missing-fence"}),
        ("anF", "wm", 32, {"missing-fence"}),
        ("anF", "wfm", 32, set()),
        ("anFr", "wm", 64, {"missing-fence"}),  # the fence is before what the consumer does, but not after the copies
        ("ac0Fnr", "wm", 64, set()),
        ("anbN", "vfwm", 32, set()),  # the later arrival tells of both
        ("an", "fm", 32, {"race", "missing-fence"}),
        # an arrival with no cp.async of its own comes after all that are before it too
        ("aNn", "wa", 32, set()),
        ("anN", "va", 32, set()),
        ("aNnn", "wa", 64, set()),
        ("anbnN", "vab", 64, set()),
        ("aNnb", "wa", 32, set()),
        ("anaN", "w", 32, {"race"}),
        ("bNna", "wa", 32, {"race", "stale-read"}),
        ("acNn0", "wfm", 32, set()),
        ("aNn", "wfm", 32, set()),
        ("aNn", "fwm", 32, {"missing-fence"}),
        # made by its arrival, or by the wait of the thread, whichever comes first
        ("acn0", "wfm", 32, set()),
        ("acn0", "wm", 32, {"missing-fence"}),
        ("acn0", "fwm", 32, {"missing-fence"}),
        ("acnF0N", "vfm", 32, set()),
    ],
)
def test_cp_async_arrive(does: str, reader: str, count: int, properties: set[str]) -> None:
    pipeline = Does(does=does, reader=reader, count=count)
    assert found(pipeline) == properties
    if not properties and "i" not in does:
        assert check(pipeline, engine="order").verdict == PROVED


@pytest.mark.parametrize(("does", "count"), [("ari", 32), ("anr", 32)])
def test_a_phase_that_nobody_has_seen(does: str, count: int) -> None:
    result = check(Does(does=does, reader="w", count=count), engine="search")
    assert [one.property for one in result.noted] == ["unobserved-phase"]


class Ended(Pipeline):
    full = barrier(arrivals=32)

    @role(warps=1)
    def one(self, me):
        yield self.full.cp_async_arrive(me.threads, noinc=True)
        yield self.full.wait(0)
        yield self.full.inval()


@pytest.mark.parametrize(
    ("pipeline", "engine", "why"),
    [
        (Does(does="air", reader="wa"), "order", "cp.async.mbarrier.arrive without .noinc raises"),
        (Does(does="an", reader="wfm", strict=True), "order", "with strict, fences after the cp.asyncs to a are not"),
        (Ended(), "order", "may come after the inval of its barrier"),
        (Does(does="nnnn", reader="", count=128), "search", "3 or more arrivals"),
    ],
)
def test_what_is_not_decided_is_said(pipeline: Pipeline, engine: str, why: str) -> None:
    result = check(pipeline, engine=engine)
    assert result.verdict == UNDETERMINED
    assert why in " ".join((*result.notes, *(one.note for one in result.findings)))


class Ring(Pipeline):
    """reads: the consumer; else it multiplies, behind a fence, or before it. stages of a are freed at once, or late."""

    stages = 2
    waits = True
    reads = True
    fence = "after"
    settles = True
    full = barrier(arrivals=32)
    empty = barrier(arrivals=128)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at, me):
        if self.waits:
            yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].cp_async()
        yield self.full[at].cp_async_arrive(me.threads, noinc=True)

    @role(warpgroups=1)
    def consumer(self, at, me):
        if self.fence == "before":
            yield self.fence_proxy_async()
        yield self.full[at].wait(at.phase)
        if self.fence == "after":
            yield self.fence_proxy_async()
        if self.reads:
            yield self.a[at].read()
        else:
            yield self.a[at].mma()
            yield self.mma_wait(0 if self.settles else 1)
        yield self.empty[at].arrive(me.threads)


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_ring_of_cp_asyncs_is_proved_for_every_trip_count(stages: int, reads: bool) -> None:
    ring = Ring(stages=stages, reads=reads)
    assert found(ring) == set()
    assert check(ring, engine="order").verdict == PROVED
    assert check(ring, engine="order").scope["trips"] == "all"


@pytest.mark.parametrize(
    ("wrong", "property"),
    [
        ({"waits": False}, "race"),
        ({"reads": False, "fence": "before"}, "missing-fence"),
        ({"reads": False, "fence": ""}, "missing-fence"),
        ({"reads": False, "settles": False}, "race"),
    ],
)
def test_a_wrong_ring_is_violated_by_both_engines(wrong: dict[str, object], property: str) -> None:
    for engine in ("search", "order"):
        verdicts = {one.id: one.verdict for one in check(Ring(trips=4, **wrong), engine=engine).findings}
        assert verdicts[property] == VIOLATED, engine
    everywhere = {one.id: one.verdict for one in check(Ring(**wrong), engine="order").findings}
    assert everywhere[property] == VIOLATED


def test_a_schedule_has_a_copy_late_of_which_two_arrivals_tell() -> None:
    late = Does(does="anbN", reader="fwm")
    assert found(late) == {"missing-fence"}
    assert check(late, engine="order").verdict == VIOLATED


class TwoCopy(Pipeline):
    """Two producers copy into b at the same time; the first goes on telling of what the second has replaced."""

    trips = 3
    stages = 1
    full = barrier(arrivals=96)
    empty = barrier(arrivals=128)
    a = tile(bytes=1024)
    b = tile(bytes=1024)

    @role(warps=1)
    def first(self, at, me):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].cp_async()
        yield self.full[at].cp_async_arrive(me.threads, noinc=True)
        yield self.b[at].cp_async()
        yield self.full[at].cp_async_arrive(me.threads, noinc=True)

    @role(warps=1)
    def second(self, at, me):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.b[at].cp_async()
        yield self.full[at].cp_async_arrive(me.threads, noinc=True)

    @role(warpgroups=1)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(me.threads)


class Overtaken(Pipeline):
    """The second copies once the first has; then the first arrives on the same barrier, which counts both."""

    full = barrier(arrivals=96)
    other = barrier(arrivals=32)
    last = barrier(arrivals=32)
    go = barrier(arrivals=32)
    b = tile(bytes=64)

    @role(warps=1)
    def first(self, me):
        yield self.b.cp_async()
        yield self.other.cp_async_arrive(me.threads, noinc=True)
        yield self.last.wait(0)
        yield self.full.cp_async_arrive(me.threads, noinc=True)
        yield self.go.arrive(me.threads)

    @role(warps=1)
    def second(self, me):
        yield self.other.wait(0)
        yield self.b.cp_async()
        yield self.full.cp_async_arrive(me.threads, noinc=True)
        yield self.full.arrive(me.threads)
        yield self.last.arrive(me.threads)

    @role(warps=1)
    def consumer(self):
        yield self.go.wait(0)
        yield self.b.read()


@pytest.mark.parametrize("pipeline", [TwoCopy(), Overtaken()])
@pytest.mark.parametrize("engine", ["order", "search"])
def test_two_roles_that_copy_into_the_same_bytes_race(pipeline: Pipeline, engine: str) -> None:
    verdicts = {one.id: one.verdict for one in check(pipeline, engine=engine).findings}
    assert verdicts["race"] == VIOLATED


def test_a_thread_that_waits_itself_tells_others_too() -> None:
    assert check(Does(does="acn0r", reader="wa", count=64), engine="order").verdict == PROVED
    assert check(Does(does="acnN0r", reader="va"), engine="order").verdict != PROVED  # r is one too many


def test_what_it_tracks_follows_from_the_program() -> None:
    kernel = trace(Does(does="abnanN"))
    program = kernel.programs[0]
    tracks = [
        "".join(access.object for access in node.operation.tracks)
        for node in program.nodes
        if isinstance(node.operation, op.TriggeredArrive)
    ]
    assert tracks == ["ab", "a", ""]
    assert annotate(program) == program


def test_it_has_a_barrier_of_its_own_cta() -> None:
    class Far(Pipeline):
        cluster = "2x1"
        full = barrier(arrivals=32)

        @role(warps=1)
        def one(self, me):
            yield self.full.on(1 - me.cta).cp_async_arrive(me.threads)

    with pytest.raises(SpecError, match="use a barrier of its own CTA"):
        trace(Far())
