"""Random programs, and whether the search with reduction agrees on them with the one without."""

from __future__ import annotations

from hypothesis import strategies as st
from traced import traced

from sm90_verify.counterexample.trace import execute, make_trace
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Threads

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
    """Roles that do what `programs` says, once, `trips` times, or for every trip count; in a cluster, shared out among
    its CTAs.
    """

    p_arrivals = 1
    q_arrivals = 1
    unseen = False
    programs: tuple[tuple[tuple[str, str, int], ...], ...] = ()

    p = barrier(arrivals="p_arrivals", slots=1)
    q = barrier(arrivals="q_arrivals", slots=1)
    a = tile(bytes=16, slots=2)
    out = tile(bytes=16, slots=2, space="global")

    @role(warpgroups=1, copies=lambda self: len(self.programs) // (2 if self.cluster == "2x1" else 1))
    def cook(self, me: Threads):
        at = {name: PipelineState.start(1) for name in "pq"}
        other = 1 - me.cta
        for _ in self.loop():
            for verb, name, which in self.programs[me.copy * 2 + me.cta if self.cluster == "2x1" else me.copy]:
                b = getattr(self, name) if name else None
                match verb:
                    case "wait":
                        yield b.wait(which)
                    case "late":
                        yield b.wait(at[name].phase)
                        at[name] += which + 1
                    case "far":
                        yield b[0].on(other).arrive()
                    case "peek":
                        yield self.a[which].on(other).read()
                    case "meet":
                        yield self.cluster_arrive()
                        yield self.cluster_wait()
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
                    case "global read":
                        yield self.out[which].read()
                    case "global write":
                        yield self.out[which ^ me.cluster].write()
                    case "mma_wait":
                        yield self.mma_wait(0)
                    case "bulk_wait":
                        yield self.bulk_wait_read(0)
                    case "fence":
                        yield self.fence_proxy_async()
                    case "sync":
                        yield self.named_sync(1, 256)


def soup(programs, **parameters):
    pipeline = Soup(**parameters)
    object.__setattr__(pipeline, "programs", programs)
    return pipeline


def agree(programs, **parameters):
    """Both searches find something wrong, or neither does."""
    try:
        machine = compile_kernel(traced(soup(programs, **parameters)))
    except SpecError:
        return
    full = explore(machine, limit=4_000, stop_at_first=True)
    if not full.complete and not full.violations:
        return
    reduced = explore(machine, reduced=True, limit=8_000, stop_at_first=True)
    assert bool(full.violations) == bool(reduced.violations), (full.violations, reduced.violations)
    assert full.violations or reduced.states <= full.states
    for property, violation in reduced.violations.items():
        make_trace(machine, property, violation.because, violation.actions, violation.stuck)
        shown = {check.because for check in execute(machine, violation.actions).violated}
        assert violation.because in shown or violation.stuck


ALONE = {"p_arrivals": st.integers(1, 2), "q_arrivals": st.integers(1, 2), "trips": st.sampled_from([1, 1, 2])}


def programs_of(operations, roles, longest=5):
    """That many roles, each with some of the operations."""
    bodies = st.lists(operations, min_size=1, max_size=longest).map(tuple)
    return roles.flatmap(lambda n: st.lists(bodies, min_size=n, max_size=n).map(tuple))
