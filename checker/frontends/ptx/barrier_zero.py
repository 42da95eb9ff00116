"""Barrier 0 of a CTA: that of __syncthreads(), or one of so many threads, as other named barriers are.

Without a count all threads that have not exited come to it (CUDA); with one, so many whole warps (PTX ISA 9.7.13.1).
Where a kernel does both, it is one barrier, and without a count it is of all threads: as long as none has exited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from sm90_verify.frontends.ptx.events import NamedMet
from sm90_verify.frontends.ptx.fragment import lanes_of
from sm90_verify.frontends.ptx.state import CtaState, Warp
from sm90_verify.spec.ptx.limits import WARP


def counted_ctas(ctas: Iterable[CtaState], threads: int) -> frozenset[int]:
    """The ranks of those in which barrier 0 is one that counts. threads: of a CTA."""
    return frozenset(cta.rank for cta in ctas if _counts(cta, threads))


def _counts(cta: CtaState, threads: int) -> bool:
    """Some execute it with a count for which it matters: that of a part of the CTA, bar.arrive, or all of them although
    some exit without it. Where it stands without a count as well, no thread may have exited without its share: then
    __syncthreads() does not wait for it, and a count does. That is refused, as two barriers with one name.
    """
    done = [(lane, what) for warp in cta.warps for lane, what in _at_zero(warp)]
    whole = Counter(lane for lane, what in done if what.threads in (0, threads))
    some = any(not what.blocks or what.threads not in (0, threads) for _, what in done)
    bare = any(not what.threads for _, what in done)
    most = max(whole.values(), default=0)
    alive = {(warp.number, lane) for warp in cta.warps for lane in lanes_of(warp.alive)}
    every = {(warp.number, lane) for warp in cta.warps for lane in lanes_of(warp.mask)}
    even = threads % WARP == 0 and all(whole[lane] == most for lane in every - alive)
    return (some and (even or not bare)) or (not bare and not even)


def _at_zero(warp: Warp) -> Iterator[tuple[tuple[int, int], NamedMet]]:
    for event in warp.events:
        if isinstance(event.what, NamedMet) and event.what.id == 0:
            for lane in lanes_of(event.mask):
                yield (warp.number, lane), event.what
