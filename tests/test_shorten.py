"""A schedule is made shorter by what the violation does without, and still shows it."""

from __future__ import annotations

from rings import Filled

from sm90_verify.counterexample.trace import execute
from sm90_verify.engines.effort import Effort
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.shorten import shortened
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

NO_END = Effort()


class Released(Filled):
    """The slot is given away before the wgmma that reads it is over. Another role goes its own way."""

    steps = 6
    own = tile(bytes=64)
    mine = barrier(arrivals=1, slots=1)

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.empty[at].arrive()
        yield self.mma_wait(0)

    @role(warps=1)
    def other(self):
        for _ in range(self.steps):
            yield self.own[0].write()


class Hangs(Pipeline):
    full = barrier(arrivals=2, slots=1)

    @role(warps=1)
    def waiter(self):
        yield self.full.wait(0)

    @role(warps=1)
    def other(self):
        yield self.full.arrive()


def delayed(machine, violation, name):
    """The same violation after all that a role could do before it."""
    role = next(one for one in machine.roles if one.name == name)
    before, place = [], 0
    while not role.locations[place].final:
        index = next(i for i, a in enumerate(machine.actions) if (a.role, a.location) == (name, place))
        before.append(index)
        place = machine.actions[index].target
    rest = [index for index in violation.actions if machine.actions[index].role != name]
    return violation._replace(actions=(*before, *rest))


def test_what_others_did_meanwhile_is_left_out():
    machine = compile_kernel(trace(Released()))
    found = explore(machine, wanted=("race",)).violations["race"]
    long = delayed(machine, found, "other")
    assert len(long.actions) == len(found.actions) + 6
    short = shortened(machine, long, NO_END)
    assert len(short.actions) == len(found.actions)
    assert short._replace(actions=()) == found._replace(actions=())
    violated = execute(machine, short.actions).violated
    assert (found.property, found.because) in [(check.property, check.because) for check in violated]
    assert shortened(machine, short, NO_END) == short


def test_with_no_time_left_it_stays_as_it_is():
    machine = compile_kernel(trace(Released()))
    long = delayed(machine, explore(machine, wanted=("race",)).violations["race"], "other")
    assert shortened(machine, long, Effort(timeout=1e-9)) == long


def test_a_deadlock_stays_as_it_is():
    """Who was stopped would seem to be stuck, too."""
    machine = compile_kernel(trace(Hangs()))
    found = explore(machine).violations["deadlock"]
    assert shortened(machine, found, NO_END) is found


def test_only_the_reason_that_is_meant_counts():
    machine = compile_kernel(trace(Released()))
    found = explore(machine, wanted=("race",)).violations["race"]
    long = delayed(machine, found, "other")
    other = Violation("race", "another reason", "", long.actions, long.by_step)
    assert shortened(machine, other, NO_END) == other
