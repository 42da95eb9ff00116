"""Tensormaps that a grid writes and the one that depends on it uses (PTX ISA 9.7.13.13)."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class MapOfAnotherGrid(Pipeline):
    """The first grid writes a tensormap and fences nothing. waits: a role of the second one waits for its end. meets:
    the one that uses it meets that one.
    """

    waits = True
    meets = True

    map = tile(bytes=128, slots=1, space="global")
    out = tile(bytes=16, slots=1, space="global")
    data = tile(bytes=16, slots=1)

    @role(warps=1)
    def writes(self):
        yield self.map.tensormap_replace(tag=1)
        yield self.launch_dependents()

    @role(warps=1, grid=1)
    def waiting(self):
        if self.waits:
            yield self.grid_wait()
        yield self.named_sync(1, 64)

    @role(warps=1, grid=1)
    def uses(self):
        if self.meets:
            yield self.named_sync(1, 64)
        yield self.data.store(to=self.out, tensormap=self.map)
        yield self.bulk_commit()
        yield self.bulk_wait(0)
        if not self.meets:
            yield self.named_sync(1, 64)


@pytest.mark.parametrize(("waits", "meets"), [(True, True), (True, False), (False, True)])
def test_a_tensormap_of_the_grid_before_is_shown_by_its_end(waits, meets):
    """To all that comes after a wait for it, and to nothing else."""
    kernel = trace(MapOfAnotherGrid(waits=waits, meets=meets))
    found, outcome = set(explore(compile_kernel(kernel)).violations), order(kernel)
    assert outcome.plan is not None
    said = {failure.property for failure in outcome.failures}
    assert ("missing-fence" in found) == ("missing-fence" in said) == (not waits or not meets)
    assert bool(found) == bool(said)
