"""cp.async and st.async, sentence by sentence: PTX ISA 9.7.9.25.2, .3 and 9.7.9.12."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify import Pipeline, SpecError, barrier, check, role, tile
from sm90_verify.result import UNDETERMINED
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.limits import CP_GROUPS
from sm90_verify.spec.ptx.memory import Access


def copied(name: str) -> op.CpAsync:
    start = 1024 * "abc".index(name)
    return op.CpAsync(Access(name, "shared", start, start + 1024, True, "generic"), None)


def test_wait_group_leaves_the_newest_groups() -> None:
    """9.7.9.25.3.3: N or fewer of the most recent cp.async-groups are pending, and older ones complete."""
    held = IDLE
    for name in "abc":
        held = held.after(copied(name)).after(op.Group("cp_commit"))
    for pending, left in enumerate(("", "c", "bc", "abc", "abc")):
        after = held.after(op.Group("cp_wait", pending))
        assert "".join(access.object for access in after.in_progress()) == left


def test_wait_group_does_not_wait_for_what_is_not_committed() -> None:
    """9.7.9.25.3.2, .3: commit_group makes a group of the prior cp.asyncs; wait_all needs none."""
    held = IDLE.after(copied("a")).after(op.Group("cp_wait"))
    assert held.in_progress() == (copied("a").write,)
    assert held.after(op.Group("cp_wait_all")).in_progress() == ()


def test_groups_of_bulk_copies_are_others() -> None:
    held = IDLE.after(copied("a")).after(op.Group("cp_commit")).after(op.Group("bulk_wait"))
    assert held.after(op.Group("mma_wait")).in_progress() == (copied("a").write,)


def test_a_fence_covers_what_is_complete() -> None:
    held = IDLE.after(copied("a")).after(op.Group("cp_commit")).after(op.Fence("proxy_async"))
    assert held.unfenced == (copied("a").write,)
    held = held.after(op.Group("cp_wait"))
    assert held.unfenced == (copied("a").write,)
    assert held.after(op.Fence("proxy_async")).unfenced == ()


def test_a_loop_that_never_waits_comes_back() -> None:
    held = IDLE
    seen = set()
    for _ in range(CP_GROUPS + 2):
        held = held.after(copied("a")).after(op.Group("cp_commit"))
        seen.add(held)
    assert held.after(copied("a")).after(op.Group("cp_commit")) in seen


class Copy(Pipeline):
    at = 0
    bytes = 64
    what = ""
    a = tile(bytes=64)
    g = tile(bytes=64, space="global")

    @role(warps=1)
    def one(self):
        access = self.a[0].access._replace(start=self.at, stop=self.at + self.bytes, write=True)
        if self.what == "into global":
            access = self.g[0].access._replace(write=True)
        source = self.a[0].access if self.what == "of shared" else None
        yield op.CpAsync(access, None, source)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"at": 2}, "use multiples of 4 bytes"),
        ({"bytes": 6}, "use multiples of 4 bytes"),
        ({"what": "into global"}, "cp.async to g: use shared memory of its own CTA"),
        ({"what": "of shared"}, "cp.async of a in shared memory: use global"),
    ],
)
def test_what_a_cp_async_copies(wrong: dict[str, object], why: str) -> None:
    """9.7.9.25.3.1: from global to shared memory, 4, 8 or 16 bytes."""
    trace(Copy())
    with pytest.raises(SpecError, match=why):
        trace(Copy(**wrong))


class Stores(Pipeline):
    cluster = "2x1"
    bytes = 64
    pieces = 1
    there = 1
    how = "read"
    full = barrier(arrivals=1)
    go = barrier(arrivals=128)
    a = tile(bytes=64)

    @role(warpgroups=1)
    def one(self, me):
        if me.cta == 0:
            signals = self.full.on(self.there)
            yield self.a.on(1).store_async(signals=signals, bytes=self.bytes, pieces=self.pieces)
            if self.how == "fence in flight":
                yield self.fence_proxy_async()
            yield self.go.on(1).arrive(me.threads)
        else:
            yield self.full.arrive_expect_tx(self.bytes)
            if self.how == "fence early":
                yield self.fence_proxy_async()
            yield self.full.wait(0)
            yield self.go.wait(0)
            if self.how == "fence":
                yield self.fence_proxy_async()
            yield self.a.read() if self.how == "read" else self.a.mma()
            yield self.mma_wait(0)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"there": 0}, "signals cta0.full of CTA 0: use one of the same CTA"),
        ({"bytes": 30}, "use multiples of 4 bytes"),
        ({"pieces": 32}, "in 32 pieces: use a multiple of 4 for each"),
    ],
)
def test_what_an_st_async_stores(wrong: dict[str, object], why: str) -> None:
    """9.7.9.12: to a CTA of a cluster that has several, with a barrier of the same CTA, 4 to 16 bytes each."""
    trace(Stores())
    with pytest.raises(SpecError, match=why):
        trace(Stores(**wrong))


def test_an_st_async_wants_a_cluster() -> None:
    class Alone(Pipeline):
        full = barrier(arrivals=1)
        a = tile(bytes=64)

        @role(warps=1)
        def one(self):
            yield self.a.store_async(signals=self.full)

    with pytest.raises(SpecError, match="a cluster of more than one CTA"):
        trace(Alone())


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_bytes_are_there_with_the_phase(pieces: int) -> None:
    """9.7.9.12: complete-tx on the barrier, upon completion, with the bytes that were stored."""
    assert violated(Stores(pieces=pieces)) == violated(Stores(pieces=pieces), engine="order") == []


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize("pieces", [1, 4])
def test_a_fence_after_the_bytes_have_landed(pieces: int, reduced: bool) -> None:
    """9.7.9.12: it is performed in the generic proxy, so that a wgmma on the bytes wants a fence after they landed."""
    assert violated(Stores(how="mma", pieces=pieces), reduced=reduced) == ["missing-fence"]
    assert violated(Stores(how="fence early", pieces=pieces), reduced=reduced) == ["missing-fence"]
    assert violated(Stores(how="fence in flight", pieces=pieces), reduced=reduced) == ["missing-fence"]
    assert violated(Stores(how="fence", pieces=pieces), reduced=reduced) == []


def test_order_says_that_it_does_not_know_of_the_fence() -> None:
    result = check(Stores(how="fence"), engine="order")
    assert result.verdict == UNDETERMINED
    assert "fence" in " ".join((*result.notes, *(one.note for one in result.findings)))


class Adds(Pipeline):
    cluster = "2x1"
    senders = 1
    plain = False
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1, copies="senders")
    def sender(self, me):
        if self.plain and me.cta == 1:
            yield self.a.on(0).store_async(signals=self.full.on(0))
        else:
            yield self.a.on(0).reduce_async(signals=self.full.on(0))

    @role(warps=1, ctas=(0,))
    def receiver(self):
        yield self.full.arrive_expect_tx(2 * self.senders * 64)
        yield self.full.wait(0)
        yield self.a.read()


def test_red_async_does_not_race_with_others() -> None:
    """9.7.9.13: .relaxed at .cluster scope; and with a weak store it does race."""
    assert violated(Adds()) == []
    assert "race" in violated(Adds(plain=True))
    assert check(Adds(), engine="order").verdict == UNDETERMINED


def test_reductions_that_are_alike_are_not_told_apart() -> None:
    result = check(Adds(senders=2), engine="search")
    assert result.verdict == UNDETERMINED
    assert "alike" in " ".join((*result.notes, *(one.note for one in result.findings)))
