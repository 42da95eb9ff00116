"""The reduced search misses nothing: on random programs it finds something wrong exactly if the full search does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checker.search import explore
from checker.trace import execute
from spec.compile import compile_pipeline
from spec.pipeline import Pipeline, Threads, barrier, role, tile

OPERATIONS = st.sampled_from(
    [
        *(("wait", name, parity) for name in "pq" for parity in (0, 1)),
        *(("try", name, parity) for name in "pq" for parity in (0, 1)),
        *(("arrive", name, 0) for name in "pqpq"),
        ("arm", "p", 0),
        ("load", "p", 0),
        ("expect", "q", 0),
        ("load", "q", 1),
        *((verb, "", which) for verb in ("read", "write", "mma", "store") for which in (0, 1)),
        ("mma_wait", "", 0),
        ("bulk_wait", "", 0),
        ("fence", "", 0),
        ("sync", "", 0),
    ]
)


class Soup(Pipeline):
    """Roles that do what `programs` says, once, `trips` times, or for every trip count."""

    p_arrivals = 1
    q_arrivals = 1
    programs: tuple[tuple[tuple[str, str, int], ...], ...] = ()

    p = barrier(arrivals="p_arrivals", slots=1)
    q = barrier(arrivals="q_arrivals", slots=1)
    a = tile(bytes=16, slots=2)

    @role(warps=1, copies=lambda self: len(self.programs))
    def cook(self, me: Threads):
        for _ in self.loop():
            for verb, name, which in self.programs[me.copy]:
                b = getattr(self, name) if name else None
                match verb:
                    case "wait":
                        yield b.wait(which)
                    case "try":
                        yield b.try_wait(which)
                    case "arrive":
                        yield b.arrive()
                    case "arm":
                        yield b.arrive_expect_tx(16)
                    case "expect":
                        yield b.expect_tx(16)
                    case "load":
                        yield self.a[which].load(signals=b[0], tag=1)
                    case "read":
                        yield self.a[which].read(tag=1)
                    case "write":
                        yield self.a[which].write(tag=1)
                    case "mma":
                        yield self.a[which].mma()
                    case "store":
                        yield self.a[which].store()
                        yield self.bulk_commit()
                    case "mma_wait":
                        yield self.mma_wait(0)
                    case "bulk_wait":
                        yield self.bulk_wait_read(0)
                    case "fence":
                        yield self.fence_proxy_async()
                    case "sync":
                        yield self.named_sync(1, 64)


soups = st.tuples(
    st.lists(st.lists(OPERATIONS, min_size=1, max_size=5).map(tuple), min_size=2, max_size=3).map(tuple),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([1, 1, 2]),
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(soups)
def test_reduction_finds_something_wrong_exactly_if_there_is(soup):
    programs, p, q, trips = soup
    pipeline = Soup(p_arrivals=p, q_arrivals=q, trips=trips)
    object.__setattr__(pipeline, "programs", programs)
    machine = compile_pipeline(pipeline)
    full = explore(machine, limit=4_000)
    if not full.complete and not full.violations:
        return
    reduced = explore(machine, reduced=True, limit=8_000)
    assert bool(full.violations) == bool(reduced.violations), (full.violations, reduced.violations)
    assert reduced.states <= full.states or not full.complete
    for violation in reduced.violations.values():
        execute(machine, violation.actions)


PINNED = [
    # A barrier of 64 threads and three warps that use it: who comes first matters.
    (
        (
            (("sync", "", 0),) * 3,
            (("wait", "q", 1), ("arrive", "p", 0), ("sync", "", 0), ("sync", "", 0)),
            (("sync", "", 0),),
        ),
        1,
        1,
        2,
    ),
    # An expect_tx that its thread follows up with no arrival.
    (((("expect", "q", 0), ("wait", "q", 1)), (("write", "", 0), ("arrive", "q", 0))), 1, 1, 1),
]


@pytest.mark.parametrize("soup", PINNED)
def test_what_would_be_missed_if_more_were_prompt(soup):
    programs, p, q, trips = soup
    pipeline = Soup(p_arrivals=p, q_arrivals=q, trips=trips)
    object.__setattr__(pipeline, "programs", programs)
    machine = compile_pipeline(pipeline)
    assert explore(machine).violations
    assert explore(machine, reduced=True).violations
