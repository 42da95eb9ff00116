"""Limits hold while a machine is made ready to be searched: its roles and expressions are compared, and each of its
places becomes a function.
"""

from __future__ import annotations

import pytest

from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.own_steps import SEEN, own_steps
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.symmetry import find_groups
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


@pytest.fixture(scope="module")
def machine():
    return compile_kernel(trace(TmaAsync(stages=2, consumers=2)))


def test_all_of_it_looks_at_the_clock(machine):
    heard = []

    def tick(what, role, done, where):
        heard.append((what, role))

    roles = {role.name for role in machine.roles}
    pack(machine, tick=tick)
    assert heard.count(("packing", "producer")) == len(machine.roles[0].locations)
    assert {("packing", role) for role in roles} <= set(heard)
    heard.clear()
    find_groups(machine, tick)
    assert {("comparing", role) for role in roles} <= set(heard)
    heard.clear()
    own_steps(machine, tick)
    assert len(heard) > len(machine.actions) // SEEN > 1


def test_the_timeout_ends_it(machine):
    with pytest.raises(RanOut, match=r"the timeout of 1e-09 s .*, reached while comparing"):
        explore(machine, reduced=True, effort=Effort(timeout=1e-9))


def test_a_limit_of_states_does_not(machine):
    """Operations are no states here, and steps are none either."""
    assert explore(machine, reduced=True, limit=1, effort=Effort(limit=1)).ran_out == "the limit of 1 states (--limit)"
