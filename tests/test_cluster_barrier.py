"""barrier.cluster: who arrives, who waits, and in which order."""

from __future__ import annotations

from findings import violated

from sm90_verify.counterexample.trace import initial_state, is_enabled, take
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Meeting(Pipeline):
    """Two CTAs of two warps; what each thread does at barrier.cluster."""

    cluster = "2x1"
    twice = False
    alone = False
    leaves = False
    skips = False
    x = tile(bytes=128, slots=1, space="global")

    @role(warps=1, copies=2)
    def warp(self, me):
        if me.cta == 0 and me.copy == 0:
            if self.leaves:
                yield self.fence_proxy_async()
                return
            if self.alone:
                yield self.cluster_wait()
            yield self.x.write(tag=1)
            yield self.cluster_arrive()
            if self.twice:
                yield self.cluster_arrive()
            yield self.cluster_wait()
        elif self.skips and me.copy == 0:
            while True:
                yield self.fence_proxy_async()
        else:
            yield self.cluster_arrive()
            yield self.cluster_wait()
            if not self.leaves:
                yield self.x.read(tag=1)


def test_barrier_cluster_orders_and_waits_for_all():
    assert violated(Meeting()) == []


def test_threads_that_have_exited_are_not_waited_for():
    assert violated(Meeting(leaves=True)) == []


def test_a_thread_that_arrives_and_exits_is_counted_once():
    class Leaves(Pipeline):
        cluster = "2x1"

        @role(warps=1, copies=2)
        def warp(self, me):
            yield self.cluster_arrive()
            if me.cta == 1:
                yield self.cluster_wait()

    machine = compile_kernel(trace(Leaves()))
    exploration = explore(machine)
    assert exploration.complete and not exploration.violations
    passes = [action.guard for action in machine.actions if "wait" in action.op and "alone" not in action.op]
    assert passes
    for state in _states(machine):
        arrived = sum(32 for role in machine.roles if state[f"cluster.{role.name}"] or state[role.counter] > 0)
        if any(state[f"cluster.{role.name}"] == 2 for role in machine.roles):
            assert arrived == 128


def _states(machine):
    """Every reachable state, by the reference meaning of expressions."""
    first = initial_state(machine)
    found, todo = {tuple(first.values()): first}, [first]
    while todo:
        state = todo.pop()
        for action in machine.actions:
            if is_enabled(machine, action, state):
                after = take(machine, action, state)
                if tuple(after.values()) not in found:
                    found[tuple(after.values())] = after
                    todo.append(after)
    return list(found.values())


def test_two_arrivals_without_a_wait():
    assert "named-barrier" in violated(Meeting(twice=True))


def test_a_wait_without_an_arrival():
    assert "named-barrier" in violated(Meeting(alone=True))
