"""Which steps the reduced search takes at once, before all others."""

from __future__ import annotations

import networkx
import pytest
from random_programs import soup

from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.reduction import find_reduction
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model import flow
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import FALSE, TRUE


class Ring(Pipeline):
    """A producer that fills one slot by a copy, and a consumer that drains it."""

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(1, producer=True)
        for _ in self.loop(2):
            yield self.empty.wait(at.phase)
            yield self.full.arrive_expect_tx(64)
            yield self.a.load(signals=self.full)
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(1)
        for _ in self.loop(2):
            yield self.full.wait(at.phase)
            yield self.a.read()
            yield self.fence_proxy_async()
            yield self.empty.arrive()
            at += 1


def promptness(pipeline):
    """Per role and location, whether its step is prompt: never, always or sometimes."""
    return [
        "".join("-" if one is FALSE else "+" if one is TRUE else "?" for one in role)
        for role in find_reduction(compile_kernel(trace(pipeline))).prompt
    ]


def test_which_steps_are_prompt():
    """What follows a wait never, other waits and arrivals sometimes, the start of a copy and what follows an access
    always.
    """
    assert promptness(Ring()) == ["?-+?-+-", "?-+??-+?-"]
    assert {one[0] for one in promptness(soup((((("sync", "", 0),),) * 2), trips="all"))} == {"?"}


class Announces(Pipeline):
    """expect_tx before its role's arrival, and before something else; accesses from the start and after a wait."""

    p = barrier(arrivals=1)
    q = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def one(self):
        yield self.p.expect_tx(16)
        yield self.p.arrive()
        yield self.a.load(signals=self.p)
        yield self.p.wait(0)

    @role(warps=1)
    def two(self):
        yield self.q.expect_tx(16)
        yield self.p.wait(0)
        yield self.q.arrive()
        yield self.q.wait(0)

    @role(warps=1)
    def three(self):
        yield self.a.read()
        yield self.a.read()
        yield self.p.wait(1)
        yield self.a.read()
        yield self.a.read()
        yield self.fence_proxy_async()


def test_bytes_are_expected_at_once_only_right_before_the_arrival():
    assert promptness(Announces()) == ["+?+?-", "-?-?-", "-+?-++-"]


def test_an_arrival_at_another_cta_is_prompt_while_somebody_there_must_see_another_phase():
    consumer = promptness(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096))[1]
    machine = compile_kernel(trace(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096)))
    kinds = [place.kind for place in machine.roles[1].locations]
    assert {prompt for kind, prompt in zip(kinds, consumer, strict=True) if kind == "arrive"} == {"?"}


class Spins(Pipeline):
    """A role that does nothing but read, or issue copies, so many in a loop, after a wait or from the start."""

    copies = False
    count = 1
    waits = False
    p = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def spins(self):
        if self.waits:
            yield self.p.wait(1)
        for _ in self.forever():
            for _one in range(self.count):
                yield self.a.load(signals=self.p) if self.copies else self.a.read()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_cycle_consists_of_prompt_steps(count, copies, waits):
    """Else the search would take them for ever."""
    machine = compile_kernel(trace(Spins(count=count, copies=copies, waits=waits)))
    (prompt,) = find_reduction(machine).prompt
    steps = networkx.DiGraph((one.location, one.target) for one in machine.actions if one.location is not None)
    assert not networkx.is_directed_acyclic_graph(steps)
    steps.remove_nodes_from([place for place, one in enumerate(prompt) if one is FALSE])
    assert networkx.is_directed_acyclic_graph(steps)


class Chooses(Pipeline):
    """A role that chooses what another one has chosen, right behind a wait that others may lap, and says so or not."""

    p = barrier(arrivals=1, slots=1)
    late = barrier(arrivals=1, slots=1)

    needs = False

    @role(warps=1)
    def first(self):
        yield self.choose("which", 1, 2)
        yield self.p[0].arrive()
        if self.needs:
            yield self.late[0].wait(0)
        yield self.p[0].arrive()

    @role(warps=1)
    def second(self):
        yield self.p[0].wait(0)
        yield self.choose("which", 1, 2)
        yield self.late[0].arrive()
        yield self.p[0].wait(1)


def test_a_wait_is_lapped_while_its_role_has_only_decided_since(monkeypatch):
    assert promptness(Chooses())[1][:3] == "??-"
    lapped, right = (compile_kernel(trace(Chooses(needs=needs))) for needs in (False, True))
    for reduced in (False, True):
        assert "phase-lapped" in explore(lapped, reduced=reduced).violations
        assert not explore(right, reduced=reduced).violations
    after = flow.waited_after

    def forgets(node, *rest):
        return () if isinstance(node.operation, op.Choose) else after(node, *rest)

    monkeypatch.setattr(flow, "waited_after", forgets)
    assert "phase-lapped" not in explore(compile_kernel(trace(Chooses())), reduced=True).violations
