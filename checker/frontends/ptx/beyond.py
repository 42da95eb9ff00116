"""What a kernel that cannot go on would do next: it is executed as if every phase that it waits for came to its end.

Nothing is proved by that. It says what barriers are for that nobody has come to use, and who would bring what is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import (
    Arrived,
    BarrierAt,
    CopiedIn,
    Expected,
    Multiplied,
    StoredAsync,
    Triggered,
    Waited,
    What,
)
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.naming import Doing
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

MOST_PHASES = 10_000
"""That are taken for over, at most."""


class Bringing(NamedTuple):
    """A warp of a CTA brings arrivals or bytes to a barrier. number: of the instruction. verb: what it does there;
    bytes: that it expects or copies, 0 for none. later: only beyond the place where the kernel cannot go on.
    """

    rank: int
    warp: int
    number: int
    verb: str
    bytes: int
    later: bool


class Beyond(NamedTuple):
    """brings: by barrier, in order. whole: in the end all lanes have exited."""

    brings: Mapping[BarrierAt, tuple[Bringing, ...]]
    doings: tuple[Doing, ...]
    whole: bool


def beyond(run: ClusterRun, tick: Tick = unheard) -> Beyond:
    """From a run that has ended, by another one."""
    reached = {(cta.rank, warp.number): len(warp.events) for cta in run.cluster.ctas for warp in cta.warps}
    other = ClusterRun(run.code, run.addresses, run.launch, tuple(cta.block for cta in run.cluster.ctas), tick)
    try:
        other.run(judged=False)
        for _ in range(MOST_PHASES):
            if not _over(other):
                break
            other.run(judged=False)
    except SpecError:  # in a state that it cannot come to: what it has done until then is good enough
        pass
    brings: dict[BarrierAt, dict[Bringing, None]] = {}
    for cta in other.cluster.ctas:
        for warp in cta.warps:
            for index, event in enumerate(warp.events):
                for barrier, verb, bytes in _brought(event.what):
                    later = index >= reached[cta.rank, warp.number]
                    one = Bringing(cta.rank, warp.number, event.number, verb, bytes, later)
                    brings.setdefault(barrier, {})[one] = None
    return Beyond({at: tuple(some) for at, some in brings.items()}, tuple(_doings(other)), other.stuck is None)


def _over(run: ClusterRun) -> bool:
    """Ends the first phase that lanes wait for; False if none waits for one."""
    for cta in run.cluster.ctas:
        for warp in cta.warps:
            for _, event in warp.left:
                if event is not None and isinstance(event.what, Waited):
                    state = run.cluster.barrier(event.what.barrier)
                    known = state.known
                    state.known = known._replace(phase=1 - known.phase, pending=known.expected, tx=0)
                    state.completed += 1
                    return True
    return False


def _brought(what: What) -> Iterator[tuple[BarrierAt, str, int]]:
    match what:
        case Arrived(barrier, _, expect):
            yield barrier, "arrives" if expect is None else "expects", expect or 0
        case Triggered(barrier):
            yield barrier, "arrives after copies", 0
        case Expected(barrier, bytes):
            yield barrier, "expects", bytes
        case StoredAsync():
            yield what.barrier, "stores", what.size
        case CopiedIn():
            for barrier in what.barriers:
                yield barrier, "copies", what.size
        case _:
            return


def _doings(run: ClusterRun) -> Iterator[Doing]:
    """Of each role, which is a warp, or a warpgroup that executes wgmma."""
    for cta in run.cluster.ctas:
        groups = {
            warp.number * WARP // WARPGROUP
            for warp in cta.warps
            if any(isinstance(event.what, Multiplied) for event in warp.events)
        }
        for warp in cta.warps:
            group = warp.number * WARP // WARPGROUP
            role = f"warpgroup{group}" if group in groups else f"warp{warp.number}"
            for event in (*warp.events, *(event for _, event in warp.left if event is not None)):
                yield Doing(role, cta.rank, event.what)
