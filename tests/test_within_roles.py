"""What threads of one role hand to each other without meeting is said beside the verdict: the model has them as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sm90_verify import Pipeline, PipelineState, Threads, barrier, check, role, tile, word


class Stores(Pipeline):
    """A warpgroup writes a tile, and one of its threads stores it. meets: by what all threads meet in between."""

    meets = ""
    size = 128

    done = barrier(arrivals=1, slots=1)
    d = tile(bytes=4096, slots=1)

    @role(threads="size")
    def epilogue(self, me: Threads):
        yield self.d[0].write()
        yield self.fence_proxy_async()
        if self.meets == "named":
            yield self.named_sync(1, self.size)
        elif self.meets == "cta":
            yield self.cta_sync()
        elif self.meets == "part":
            yield self.named_arrive(1, self.size + 32)
            yield self.named_sync(1, self.size + 32, by=32)
        elif self.meets == "only part":
            yield self.named_sync(1, 32, by=32)
        elif self.meets == "mbarrier":
            yield self.done[0].arrive()
            yield self.done[0].wait(0)
        elif self.meets == "arrival":
            yield self.done[0].arrive()
        elif self.meets == "peek":
            yield self.done[0].arrive()
            yield self.done[0].try_wait(0)
        yield self.store(self.d[0])
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)


def assumed(pipeline):
    return [str(note) for note in check(pipeline).notes if "meet between" in str(note)]


@pytest.mark.parametrize("meets", ["", "only part", "arrival", "peek"])
def test_threads_that_have_not_met_are_noted(meets):
    (note,) = assumed(Stores(meets=meets))
    assert "the 128 threads of epilogue meet between the generic-proxy write of d " in note
    lines = [part.split(")")[0] for part in note.split(f"{__file__}:")[1:]]
    source = Path(__file__).read_text().splitlines()
    assert [source[int(line) - 1].strip() for line in lines] == [
        "yield self.d[0].write()",
        "yield self.store(self.d[0])",
    ]


@pytest.mark.parametrize("meets", ["named", "cta", "part", "mbarrier"])
def test_threads_that_have_met_are_not(meets):
    assert assumed(Stores(meets=meets)) == []


def test_one_warp_is_not():
    assert assumed(Stores(size=32)) == []


class Refills(Pipeline):
    """One role reads what it has loaded, and loads again."""

    meets = False
    full = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=1)

    @role(warpgroups=1)
    def math(self, me: Threads):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.full[0].arrive_expect_tx(1024)
            yield self.a[0].load(signals=self.full[0])
            yield self.full[0].wait(at.phase)
            yield self.a[0].read()
            if self.meets:
                yield self.named_sync(1, 128)
            at += 1


def test_what_all_have_read_and_one_loads_again_is_noted():
    (note,) = assumed(Refills())
    assert "between the generic-proxy read of a " in note
    assert assumed(Refills(meets=True)) == []


class StoresAgain(Pipeline):
    """One thread waits until its store has read the tile, and all write it again."""

    meets = False
    d = tile(bytes=4096, slots=1)

    @role(warpgroups=1)
    def epilogue(self, me: Threads):
        for _ in self.loop():
            yield self.d[0].write()
            yield self.fence_proxy_async()
            yield self.named_sync(1, 128)
            yield self.store(self.d[0])
            yield self.bulk_commit()
            yield self.bulk_wait_read(0)
            if self.meets:
                yield self.named_sync(2, 128)


def test_what_one_has_seen_to_be_read_all_write_again():
    (note,) = assumed(StoresAgain())
    assert "between the async-proxy read of d " in note and "and the generic-proxy write of d " in note
    assert assumed(StoresAgain(meets=True)) == []


class Keeps(Pipeline):
    """A role hands something to itself: in memory, in its registers, by reductions, or by a word."""

    how = "memory"
    m = tile(bytes=4096, slots=1)
    r = tile(bytes=4096, slots=1, space="registers")
    w = word(space="shared")

    @role(warpgroups=1)
    def math(self, me: Threads):
        m, r, w = self.m[0], self.r[0], self.w
        for step in {
            "memory": (m.write, m.read),
            "registers": (r.write, r.read),
            "reduced": (m.red, m.read),
            "reduces": (m.write, m.red),
            "word": (lambda: w.st(1), w.ld),
        }[self.how]:
            yield step()


@pytest.mark.parametrize(
    ("how", "notes"), [("memory", 1), ("registers", 0), ("reduced", 0), ("reduces", 0), ("word", 0)]
)
def test_what_is_handed_over_in_memory_by_ordinary_accesses(how, notes):
    assert len(assumed(Keeps(how=how))) == notes
