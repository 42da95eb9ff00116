"""Decisions that several roles share: trip counts and choices, made by the role that comes first.

A role may fall behind the first one by any number of decisions, and a machine is finite: so many are remembered, and a
role that is further behind has lost them. Until it has caught up it may read anything, any number of times. That is
more than can really happen, so that what holds even then holds; what goes wrong only then may be no fault of the
kernel. Such a step bears a check of LIMIT: who asks for real violations does not follow it, who asks for a proof does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.spec.model.machine import LIMIT
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of, where
from sm90_verify.spec.ptx.step import Illegal, Updates, Way

FEWEST_CHOICES, MOST_CHOICES = 6, 30


def choices_kept(depth: int) -> int:
    """How many choices are remembered in a kernel whose longest ring has so many stages: all that a role which fills
    the ring can be ahead of one that empties it, if each chooses once for a stage.
    """
    return min(max(FEWEST_CHOICES, depth + 2), MOST_CHOICES)


def iterations_kept(depth: int) -> int:
    """How many iterations of a trip-count loop are counted in such a kernel."""
    return (1 << (4 * depth + 8).bit_length()) - 2


class Shared(NamedTuple):
    """A sequence of decisions that several roles read, each at its own pace.

    name: for people. behind: by role, how many decisions of the most advanced role it has not read yet, `most` at most;
    one more stands for having lost them. history: the last decisions, newest first, each for as long as a role that has
    not lost it has yet to read it. stopped: for a trip-count loop, that the last decision was to stop. options: of a
    choice, how many it has anywhere at most.
    """

    name: str
    behind: dict[str, Field]
    most: int
    history: tuple[Field, ...] = ()
    stopped: Field | None = None
    options: int = 0

    def lead(self, role: str, number: int = 0) -> Updates:
        """Everybody else falls one behind the role, whose decision this is."""
        others = self._others(role)
        fall = tuple((one.name, where(one <= self.most, one + 1, one)) for one in others)
        kept = [any_of((one >= age) & (one < self.most) for one in others) for age in range(len(self.history))]
        shift = (
            (entry.name, where(unread, Lit(number, entry.width) if new is None else new, Lit(0, entry.width)))
            for entry, new, unread in zip(self.history, (None, *self.history), kept, strict=False)
        )
        return (*shift, *fall)

    def follow(self, role: str) -> Updates:
        """The role reads its next decision; nobody needs it any more if all others have."""
        behind, others = self.behind[role], self._others(role)
        last = [
            all_of((behind == age + 1, *((one <= age) | (one > self.most) for one in others)))
            for age in range(len(self.history))
        ]
        clear = (
            (entry.name, where(gone, Lit(0, entry.width), entry))
            for entry, gone in zip(self.history, last, strict=True)
        )
        return (*clear, (behind.name, behind - 1))

    def found(self, role: str, number: int) -> Expr:
        """The choice that the role is about to read is known, and the option of that number."""
        behind = self.behind[role]
        return any_of(all_of((behind == age + 1, entry == number)) for age, entry in enumerate(self.history))

    def settled(self, role: str, options: int = 0) -> Expr:
        """The decision that the role is about to read has been made, and is known: of a choice, one of that many
        options.
        """
        if len(self.behind) == 1:
            return FALSE
        if self.stopped is None:
            return any_of(self.found(role, number) for number in range(options))
        return self._known(role) | (self.behind[role] == 0) & (self.stopped == 1)

    def lost(self, role: str) -> Expr:
        """The role has lost the decisions that it is about to read."""
        return self.behind[role] == self.most + 1

    def too_far(self, role: str, when: Expr = TRUE) -> Illegal:
        """More decisions are unread than are remembered: a bound of the model, and no fault of the kernel."""
        return Illegal(
            LIMIT,
            when,
            f"{role} can be more than {self.most} shared decisions behind another role ({self.name}), and what follows "
            f"may depend on them: trips={self.most} decides it for so many iterations",
        )

    def held_up(self, role: str, options: int) -> Illegal:
        """At a choice of too few options: a role that has lost what was picked may be unable to go on."""
        return self.too_far(role, self.lost(role) if len(self.behind) > 1 and options < self.options else FALSE)

    def lost_ways(self, role: str, answer: object, label: str) -> list[Way]:
        """The role reads that answer among those that it has lost, and has caught up with it or not."""
        behind, lost, illegal = self.behind[role], self.lost(role), (self.too_far(role),)
        caught_up: Updates = ((behind.name, Lit(0, behind.width)),)
        return [
            Way(lost, (), illegal, answer, f"{label}, among decisions that are lost"),
            Way(lost, caught_up, illegal, answer, f"{label}, last of those that are lost"),
        ]

    def _known(self, role: str) -> Expr:
        return (self.behind[role] != 0) & ~self.lost(role)

    def _others(self, role: str) -> list[Field]:
        return [field for name, field in self.behind.items() if name != role]


def loop_ways(shared: Shared, role: str) -> list[Way]:
    """The head of a trip-count loop: the most advanced role decides whether there is another iteration, the rest
    follow.
    """
    behind, stopped = shared.behind[role], shared.stopped
    assert stopped is not None
    if len(shared.behind) == 1:
        return [Way(TRUE, (), answer=True, label="goes on"), Way(TRUE, (), answer=False, label="ends here")]
    first = (behind == 0) & (stopped == 0)
    return [
        Way(first, shared.lead(role), answer=True, label="goes on"),
        Way(first, ((stopped.name, TRUE),), answer=False, label="ends here"),
        Way((behind != 0) & ~shared.lost(role), shared.follow(role), answer=True, label="goes on too"),
        Way((behind == 0) & (stopped == 1), (), answer=False, label="ends too"),
        *shared.lost_ways(role, True, "goes on too"),
    ]


def choice_ways(shared: Shared, role: str, options: Sequence[object]) -> list[Way]:
    """choose(): the most advanced role picks, the others find what was picked."""
    ways, lost = [], []
    for number, option in enumerate(options):
        picks = shared.lead(role, number)
        ways.append(Way(shared.behind[role] == 0, picks, answer=number, label=f"picks {option!r}"))
        if len(shared.behind) > 1:
            found = shared.found(role, number)
            ways.append(Way(found, shared.follow(role), answer=number, label=f"finds {option!r}"))
            if len(options) == shared.options:
                lost += shared.lost_ways(role, number, f"finds {option!r}")
    return [*ways, *lost]
