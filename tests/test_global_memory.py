"""Generic accesses and bulk copies that meet in global memory."""

from __future__ import annotations

import pytest

from sm90_verify import Pipeline, check, role, tile


class Overwrites(Pipeline):
    """A buffer in global memory is written by the thread, and then by a bulk store; or is the store's tensor map."""

    trips = 1
    fence = True
    is_map = False
    x = tile(bytes=1024, slots=1)
    y = tile(bytes=1024, slots=1, space="global")
    map = tile(bytes=128, slots=1, space="global")

    @role(warps=1)
    def warp(self):
        yield self.map.write() if self.is_map else self.y.write()
        if self.fence and self.is_map:
            yield self.fence_proxy_tensormap_release()
            yield self.fence_proxy_tensormap_acquire(self.map)
        elif self.fence:
            yield self.fence_proxy_async()
        yield self.x.store(to=self.y, tensormap=self.map) if self.is_map else self.x.store(to=self.y)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


@pytest.mark.parametrize("engine", ["search", "order"])
@pytest.mark.parametrize("is_map", [True, False])
def test_the_proxies_meet_in_global_memory_too(is_map, engine):
    """8.6 makes no difference between state spaces, and fence.proxy.async without one is for all of them; a tensormap
    is read through a proxy of its own (9.7.13.4).
    """
    assert check(Overwrites(is_map=is_map), engine=engine).verdict == "proved"
    result = check(Overwrites(is_map=is_map, fence=False), engine=engine)
    assert [finding.id for finding in result.findings if finding.verdict == "violated"] == ["missing-fence"]
