"""What the PTX says about a hang: the run that ends like it, who would bring what is missing, and what keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sm90_verify.engines.effort import Effort
from sm90_verify.frontends.core_launch import CoreLaunch
from sm90_verify.frontends.cudacore.dump import CoreCta, CoreGrid, CudaCore, Three
from sm90_verify.frontends.cudacore.mbarrier_word import MbarrierWord
from sm90_verify.frontends.cudacore.standing import said_word, stands_of, warps_said, word_of
from sm90_verify.frontends.cudacore.waits import MbarrierWait
from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.beyond import Beyond, Bringing, beyond
from sm90_verify.frontends.ptx.events import Arrived, BarrierAt, Waited
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.instruction import PtxModule
from sm90_verify.frontends.ptx.naming import Names, names_of

SHOWN = 4
"""Differences that are told."""
SEVERAL = {
    "arrives": "arrive",
    "arrives after copies": "arrive after copies",
    "expects": "expect",
    "stores": "store",
    "copies": "copy",
}
"""What several do, by what one does."""


class HungCluster(NamedTuple):
    """A cluster of which the dump has CTAs. ctas: by rank, those that are in it. run: of the PTX, to its end."""

    ctas: Mapping[int, CoreCta]
    run: ClusterRun
    beyond: Beyond
    names: Names


def clusters_of(core: CudaCore, told: CoreLaunch, module: PtxModule, effort: Effort) -> Iterator[HungCluster]:
    """Each cluster of the grid that is in the dump, executed."""
    code, addresses = code_of(module, told.function, told.launch)
    there = {cta.block: cta for cta in core.of_grid(told.grid)}
    known: dict[object, tuple[Beyond, Names]] = {}
    for blocks in told.launch.clusters():
        run = ClusterRun(code, addresses, told.launch, blocks, effort.tick)
        run.run()
        key = tuple(tuple(warp.events) for cta in run.cluster.ctas for warp in cta.warps)
        if key not in known:
            far = beyond(run, effort.tick)
            known[key] = far, names_of(far.doings, addresses.dynamic)
        ctas = {rank: there[block] for rank, block in enumerate(blocks) if block in there}
        yield HungCluster(ctas, run, *known[key])


# ---------------------------------------------------------------- is it the same state?


def differences(core: CudaCore, grid: CoreGrid, one: HungCluster) -> list[str]:
    """Where the end of the run is not the state in the dump: barriers, waits, and warps that have ended."""
    found = []
    for cta in one.run.cluster.ctas:
        home = one.ctas.get(cta.rank)
        alive = {warp.number for warp in cta.warps if warp.fragments}
        if home is None:
            if alive:
                found.append(f"CTA {said_block(cta.block)} has ended, and does not in this run")
            continue
        theirs = {warp.warp for warp in home.warps}
        for only, where in ((theirs - alive, "the dump"), (alive - theirs, "this run")):
            if only:
                who = f"{warps_said(sorted(only))} of CTA {said_block(cta.block)}"
                found.append(f"{who}: not ended in {where}, and ended in the other")
        told = {
            (warp, wait.rank, wait.address, wait.parity)
            for (wait, _), masks in stands_of(core, home).items()
            if isinstance(wait, MbarrierWait)
            for warp in masks
        }
        ours = {
            (warp.number, event.what.barrier.rank, event.what.barrier.address, event.what.parity)
            for warp in cta.warps
            for _, event in warp.left
            if event is not None and isinstance(event.what, Waited)
        }
        if told != ours:
            warps = sorted({one[0] for one in told ^ ours})
            found.append(f"{warps_said(warps)} of CTA {said_block(cta.block)} wait for something else in this run")
        for address, state in sorted(cta.barriers.items()):
            word, known = word_of(home, address), state.known
            mine = MbarrierWord(known.phase, known.pending, known.expected, known.tx)
            if known.alive and word != mine:
                name = one.names.barrier(address)
                said = "no mbarrier" if word is None else _said_state(word)
                found.append(
                    f"{name} of CTA {said_block(cta.block)}: {said} in the dump, {_said_state(mine)} in this run"
                )
    return found


def _said_state(word: MbarrierWord) -> str:
    return f"phase parity {word.phase}, {said_word(word)}"


def said_block(block: Three) -> str:
    return f"({', '.join(map(str, block))})"


# ---------------------------------------------------------------- who would bring it?


def came_of(run: ClusterRun, at: BarrierAt) -> tuple[tuple[int, int], ...]:
    """The warps that have arrived in the phase of a barrier that is current at the end of a run, with their CTAs: those
    that have arrived more often than phases have completed. None where these do not bring what has come in this phase:
    then some arrive several times in one, and who has is not known.
    """
    state, found, brought = run.cluster.barrier(at), list[tuple[int, int]](), 0
    for cta in run.cluster.ctas:
        for warp in cta.warps:
            mine = [
                event.what.arrivals * event.mask.bit_count()
                for event in warp.events
                if isinstance(event.what, Arrived) and event.what.barrier == at
            ]
            if len(mine) > state.completed:
                found.append((cta.rank, warp.number))
                brought += mine[-1]
    return tuple(found) if brought == state.known.expected - state.known.pending else ()


class Explainer:
    """Says for a cluster who brings what to its barriers, and follows waits to what they wait for.

    same: the run ends in the state of the dump. Else it does not say who is still to come to an instruction.
    """

    def __init__(self, core: CudaCore, told: CoreLaunch, one: HungCluster, *, same: bool) -> None:
        self.core, self.function, self.one, self.same = core, told.function, one, same
        self.alone = len(one.run.cluster.ctas) == 1
        self.waits: dict[tuple[int, int], list[MbarrierWait]] = {}
        self.alive: dict[tuple[int, int], None] = {}
        for rank, cta in one.ctas.items():
            for (wait, _), masks in stands_of(core, cta).items():
                for warp in masks:
                    self.alive[rank, warp] = None
                    if isinstance(wait, MbarrierWait) and wait.address is not None:
                        self.waits.setdefault((rank, warp), []).append(wait)

    def brings(self, at: BarrierAt) -> tuple[str, ...]:
        """Who brings something to a barrier, an instruction a sentence, and where these stand now."""
        found: dict[tuple[int, str, int], dict[tuple[int, int], bool]] = {}
        for one in self.one.beyond.brings.get(at, ()):
            warps = found.setdefault((one.number, one.verb, one.bytes), {})
            warps[one.rank, one.warp] = warps.get((one.rank, one.warp), False) or one.later
        said = []
        for (number, verb, bytes), warps in found.items():
            does = verb if len(warps) == 1 else SEVERAL[verb]
            what = f"{does} {bytes} bytes" if bytes else does
            said.append(f"{self._who(list(warps))} {what} in {self._line(number)}: {self._stand(warps)}")
        if not said and self.one.beyond.whole:
            return ("nobody arrives or copies there, in any phase",)
        return tuple(said)

    def _who(self, warps: Sequence[tuple[int, int]]) -> str:
        if self.alone:
            return warps_said(sorted(warp for _, warp in warps))
        ranks = dict.fromkeys(rank for rank, _ in sorted(warps))
        return " and ".join(
            f"{warps_said(sorted(warp for other, warp in warps if other == rank))} of rank {rank}" for rank in ranks
        )

    def _line(self, number: int) -> str:
        one = self.function.code[number]
        places = one.place.chain if one.place else ()
        files = " < ".join(f"{place.file.rpartition('/')[2]}:{place.line}" for place in places[:3])
        return f"PTX line {one.line}" + (f" ({files})" if files else "")

    def _stand(self, warps: Mapping[tuple[int, int], bool]) -> str:
        """Where warps stand now, in a few words."""
        ended = [one for one in warps if one not in self.alive]
        coming = [one for one in warps if one in self.alive and warps[one]]
        gone = [one for one in warps if one in self.alive and not warps[one]]
        parts = []
        if ended:
            parts.append("ended" if len(ended) == len(warps) else f"{self._who(ended)} ended")
        for_what = dict.fromkeys(
            self._name(wait)
            for one in (*coming, *gone)
            if self.same <= (one in coming)
            for wait in self.waits.get(one, ())
        )
        if not self.same:
            if coming or gone:
                parts.append(f"now at the wait for {' and '.join(for_what)}" if for_what else "now elsewhere")
            return ", ".join(parts)
        if coming:
            parts.append(f"to come behind the wait for {' and '.join(for_what)}" if for_what else "still to come")
        if gone:
            parts.append("done there, and not to come again")
        return ", ".join(parts)

    def _name(self, wait: MbarrierWait) -> str:
        assert wait.address is not None
        rank = "" if self.alone else f" of rank {wait.rank}"
        return self.one.names.barrier(wait.address) + rank if self._known(wait.address) else f"{wait.address:#x}{rank}"

    def _known(self, address: int) -> bool:
        return any(address in ring.addresses for ring in self.one.names.rings)

    # -- from one wait to the next

    def chain(self) -> tuple[str, ...]:
        """A circle of waits, or where a chain of them begins: one sentence for each wait."""
        starts = [one for one in self.alive if one in self.waits]
        best: tuple[str, ...] = ()
        for start in starts:
            said = self._follow(start)
            if said[-1].startswith("so they wait"):
                continue
            return said
        for start in starts[:1]:
            best = self._follow(start)
        return best

    def _follow(self, start: tuple[int, int]) -> tuple[str, ...]:
        said: list[str] = []
        seen: list[tuple[int | None, int | None]] = []
        here = start
        while True:
            wait = self.waits[here][0]
            at = BarrierAt(here[0] if wait.rank is None else wait.rank, wait.address or 0)
            who = self._waiting_like(here)
            key = (at.rank, at.address)
            if key in seen:
                said.append(f"so they wait for each other, and nobody can go on: {self._name(wait)} again")
                return tuple(said)
            seen.append(key)
            word = word_of(self.one.ctas[at.rank], at.address) if at.rank in self.one.ctas else None
            missing = "" if word is None else f", {said_word(word)}"
            if word is not None and wait.parity not in (None, word.phase):
                said.append(f"{self._who(who)} can go on: the phase of {self._name(wait)} that they wait for is over")
                return tuple(said)
            line = f"{self._who(who)} wait{'s' * (len(who) == 1)} for {self._name(wait)}{missing}"
            if word is not None and not word.pending and word.tx_count > 0:
                said.append(f"{line}: {self._bytes(at)}")
                return tuple(said)
            brings = self.one.beyond.brings.get(at, ())
            came = came_of(self.one.run, at) if self.same else ()
            coming = [one for one in brings if (one.later or not self.same) and (one.rank, one.warp) not in came]
            later = next((one for one in coming if (one.rank, one.warp) in self.waits), None)
            if later is None:
                said.append(f"{line}: {self._nobody(brings, came)}")
                return tuple(said)
            who = self._alike(coming, later)
            does = "would come" if self.same else "arrives there" if len(who) == 1 else "arrive there"
            said.append(f"{line}: {self._who(who)} {does}, in {self._line(later.number)}")
            here = (later.rank, later.warp)

    def _waiting_like(self, here: tuple[int, int]) -> list[tuple[int, int]]:
        mine = self.waits[here][0]
        return [
            other
            for other, waits in self.waits.items()
            if any((wait.rank, wait.address, wait.parity) == (mine.rank, mine.address, mine.parity) for wait in waits)
        ]

    def _alike(self, brings: Sequence[Bringing], first: Bringing) -> list[tuple[int, int]]:
        return list(dict.fromkeys((one.rank, one.warp) for one in brings if one.number == first.number))

    def _nobody(self, brings: Sequence[Bringing], came: Sequence[tuple[int, int]]) -> str:
        if came and {(one.rank, one.warp) for one in brings if one.later} <= {*came}:
            return (
                f"{self._who(came)} ha{'s' if len(came) == 1 else 've'} come in this phase, and nobody else would come"
            )
        if not brings:
            return "nobody arrives there" if self.one.beyond.whole else "nobody has arrived there"
        who = list(dict.fromkeys((one.rank, one.warp) for one in brings))
        ended = [one for one in who if one not in self.alive]
        if len(ended) == len(who):
            return f"{self._who(who)}, who arrive there, have ended"
        return f"{self._who(who)}, who arrive there, do not come there any more"

    def _bytes(self, at: BarrierAt) -> str:
        """What is expected there and what copies bring, each time."""
        expected: dict[tuple[int, int], None] = {}
        copied: dict[tuple[int, int], None] = {}
        for one in self.one.beyond.brings.get(at, ()):
            (expected if one.verb == "expects" else copied if one.bytes else {})[one.number, one.bytes] = None
        said = [f"{bytes} bytes are expected in {self._line(number)}" for number, bytes in expected]
        said += [f"{bytes} are brought in {self._line(number)}" for number, bytes in copied]
        return ", ".join(said) if said else "nobody expects or copies bytes there"
