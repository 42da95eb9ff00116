"""Where a role comes back to where it has been: what its future depends on, as a key, and the place that has it.

At the head of an endless loop everything that the rest of the role can depend on is in the local variables of the
frames on the stack, in the ghosts, and in which loop it is and after which answers it was entered, for what was chosen
need not be in a variable. Where the role has yielded, its stack shows all of it, what was chosen included; so a loop is
closed there too, at every operation that gives an answer and at the first one after a head.

How closely the numbers of states and of iterations are looked at is found out: as little as nobody asks for. When
somebody does after a loop was closed without them, the role is traced again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.ghost import FAR, NO_LAP, Ghost, Unfollowed, laps_at, unfollowed
from sm90_verify.spec.language.places import Watcher
from sm90_verify.spec.language.snapshot import Frames, Snapshot, Unreadable, stages_of
from sm90_verify.spec.language.standing import Asked
from sm90_verify.spec.language.state import LAPS, PipelineState
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.phase import EXACT, Lineage, Phase

Moved: TypeAlias = Mapping[str, int]
"""By barrier, a number of phases."""


FOLLOWED = 2
"""For how many laps a state is followed at a barrier where it has not waited, if answers are told apart besides; at one
where it has, it is for so many that a count recurs.
"""


class StartAgain(BaseException):
    """More must be remembered than was: numbers, accesses that nothing has released, a state's laps."""


class Closing:
    """The places of one role.

    counted: whether the number of an iteration is asked for. numbered: by stages, how closely those of states are.
    laps: by barrier, how far states are followed that have not waited there, see Ghost.key. skipping: where the machine
    follows them, see Ghost; exact: where it would not know. phases: see Ghost.counted. places: by key, the place, and
    by how many phases the role moves on before it. unread: what could not be read where the role had yielded. states:
    those that were on its stack when it was looked at last where it had yielded. readable: it could be in all of this
    run.
    """

    def __init__(self, watch: Watcher | None) -> None:
        self.held = watch.held if watch is not None else None
        self.counted = False
        self.laps = {"": 1}
        self.numbered: dict[int, int] = {}
        self.skipping: dict[str, int] = {}
        self.exact: set[str] = set()
        self.phases: dict[str, int] = {}
        self.places: dict[Hashable, tuple[int, Moved]] = {}
        self.unread: Unreadable | None = None
        self.states: tuple[PipelineState | Phase, ...] = ()
        self.readable = True
        self._asked: dict[tuple[Lineage, int], None] = {}

    def begin(self) -> None:
        """Called before each run of the role."""
        self._asked, self.readable = {}, True

    @property
    def why_open(self) -> str:
        """What kept loops that are not the language's own from being closed, to be added to what is wrong."""
        return f"; {self.unread.what}" if self.unread is not None else ""

    @property
    def asked(self) -> Asked:
        """How closely somebody has looked at the states, since they were looked at here."""
        return {(lineage, stages): lineage.asked for lineage, stages in self._asked}

    def asked_again(self, asked: Asked, lineages: Mapping[Lineage, Lineage]) -> None:
        """As it was in another run, where these lineages have others in their place."""
        for (lineage, stages), closely in asked.items():
            now = lineages.get(lineage, lineage)
            now.asked = closely
            self._asked[now, stages] = None

    def of_head(self, frame: FrameType, tokens: dict[str, op.Token], ghost: Ghost) -> tuple[Frames, Hashable]:
        """What the future depends on where a role is in an iterator of its own, which `frame` has asked for more."""
        snapshot = Snapshot(self.numbered, self.counted, tokens, self.held)
        return snapshot.of(frame), self._states(snapshot, ghost)

    def of_suspended(
        self, generator: Any, operation: op.Operation, place: Source, tokens: dict[str, op.Token], ghost: Ghost
    ) -> Hashable:
        """The same where a role has yielded an operation; None if something on its stack cannot be read."""
        snapshot, stack = self._suspended(generator, operation, place, tokens)
        return None if stack is None else (*stack, self._states(snapshot, ghost))

    def states_of(
        self, generator: Any, operation: op.Operation, place: Source, tokens: dict[str, op.Token]
    ) -> Sequence[PipelineState | Phase]:
        """Those on the stack of a role that has yielded, in order."""
        return self._suspended(generator, operation, place, tokens)[0].states

    def _suspended(
        self, generator: Any, operation: op.Operation, place: Source, tokens: dict[str, op.Token]
    ) -> tuple[Snapshot, tuple[Hashable, Hashable] | None]:
        snapshot = Snapshot(self.numbered, self.counted, tokens, self.held, suspended=True)
        try:
            stack = snapshot.of_suspended(generator), snapshot.of_value(operation, place)
        except Unreadable as error:
            self.unread, self.readable = error, False
            return snapshot, None
        self.states = tuple(snapshot.states)
        return snapshot, stack

    def _states(self, snapshot: Snapshot, ghost: Ghost) -> Hashable:
        self.look_again()
        for state in snapshot.states:
            state.lineage.asked = 0
            self._asked[state.lineage, stages_of(state)] = None
        if EXACT in self.numbered.values():  # every number is told apart, so that none is too far
            return ghost.key(snapshot.states, {"": NO_LAP}, NO_LAP)
        try:
            return ghost.key(snapshot.states, self.laps, FAR if self.exact or not ghost.chosen else LAPS)
        except Unfollowed:
            self._follow_exactly(self.skipping)

    def look_again(self) -> None:
        """Starts again if somebody has asked for more of a state since it was last looked at."""
        more = False
        for lineage, stages in self._asked:
            if lineage.asked > self.numbered.get(stages, 0):
                self.numbered[stages], more = lineage.asked, True
        if more:
            raise StartAgain

    def look_as_closely_as(self, other: Closing) -> bool:
        """Whether that is more closely than before."""
        more = {stages: asked for stages, asked in other.numbered.items() if asked > self.numbered.get(stages, 0)}
        self.numbered.update(more)
        return bool(more)

    def count_used(self) -> None:
        """Somebody asks for the number of an iteration; until then loops close as if it did not exist."""
        if not self.counted:
            self.counted = True
            raise StartAgain

    def skips(self, wait: op.Wait, ghost: Ghost) -> bool:
        """Whether the machine knows how far the wait is from the barrier; starts again if it should and does not."""
        try:
            return ghost.skips(wait)
        except Unfollowed:
            self._follow_exactly([wait.barrier])

    def _follow_exactly(self, barriers: Iterable[str]) -> NoReturn:
        for barrier in [*barriers]:
            del self.skipping[barrier]
            self.exact.add(barrier)
        raise StartAgain

    def follow(self, wait: op.Wait, ghost: Ghost) -> None:
        """Starts again where states must be followed further for a wait, or by the machine; raises Unfollowed where
        that is no way out.
        """
        phases = ghost.counts_up_to(wait)
        if phases >= FAR:
            raise unfollowed(wait.barrier)
        if phases > self.phases.get(wait.barrier, 0):
            self.phases[wait.barrier] = phases
            raise StartAgain
        if not ghost.is_loose(wait) and not ghost.is_far(wait):
            return
        laps, phase = laps_at(self.laps, wait.barrier), wait.phase
        skipping = isinstance(phase, Phase) and ghost.waits_alone(wait) and wait.barrier not in self.exact
        close = skipping and (ghost.skips_elsewhere(wait) or (ghost.chosen and laps >= FOLLOWED))
        if laps < FAR and not ghost.is_followed(wait) and not close:
            self.laps[wait.barrier] = 2 * laps
        elif isinstance(phase, Phase) and skipping:
            self.laps.pop(wait.barrier, None)
            self.skipping[wait.barrier] = ghost.number(phase.lineage)
        else:
            raise unfollowed(wait.barrier)
        raise StartAgain


def further(before: Moved, after: Moved, more: Moved) -> Moved:
    """By how many phases a role has moved on; of other barriers by none."""
    apart = {barrier: after[barrier] - before[barrier] + more.get(barrier, 0) for barrier in after}
    return {barrier: phases for barrier, phases in apart.items() if phases}
