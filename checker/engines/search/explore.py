"""All reachable states of a machine, breadth first; and once more those behind steps beyond what the machine knows."""

from __future__ import annotations

from collections.abc import Collection

from sm90_verify.engines.effort import Effort
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.exploration import Exploration, with_all
from sm90_verify.engines.search.packed import pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.model.tick import unheard


def explore(
    machine: Machine,
    *,
    limit: int = 0,
    timeout: float = 0.0,
    memory: int = 0,
    stop_at_first: bool = False,
    enough: int = 0,
    reduced: bool = False,
    known: bool = False,
    wanted: Collection[str] = (),
    effort: Effort | None = None,
) -> Exploration:
    """Visits all states, or up to `limit` states, `timeout` seconds or `memory` bytes of resident memory (0: no bound),
    or what `effort` bounds. Where steps lead beyond what the machine knows, they are followed once everything else has
    been visited.

    enough: after the first violation, how many more states to visit in search of violations of other properties.
    wanted: the properties of which violations count (default: all); others end nothing, unless what follows them is
    undefined, and if all of these are violated the search ends. reduced: leave out schedules as
    engines.search.reduction and engines.search.symmetry argue; then only whether something is violated means anything,
    so that all count. known: stop where a step leads beyond what the machine knows.
    """

    def search(beyond: bool, seconds: float) -> Exploration:
        tick = unheard if effort is None else effort.tick
        packed = pack(machine, exchange=reduced, beyond=beyond, tick=tick)
        one = Search(packed, SearchBounds(limit, seconds, memory), stop_at_first)
        one.reduced, one.enough, one.beyond, one.stop_beyond = reduced, enough, beyond, known
        one.wanted, one.effort = frozenset(() if reduced else wanted), effort
        return one.run()

    first = search(False, timeout)
    if not first.beyond or not first.complete:
        return first
    return with_all(machine, first, search(True, max(timeout - first.seconds, 1e-9) if timeout else 0.0))
