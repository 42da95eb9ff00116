"""Decisions that several roles share: trip counts and choices, made by the role that comes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of
from sm90_verify.spec.ptx.step import Illegal, Updates, Way, saturating_increment


class Shared(NamedTuple):
    """A sequence of decisions that several roles read, each at its own pace.

    behind: by role, how many decisions of the most advanced role it has not read yet, held at its largest value.
    history: the last decisions, newest first. stopped: for a trip-count loop, that the last decision was to stop.
    """

    behind: dict[str, Field]
    history: tuple[Field, ...] = ()
    stopped: Field | None = None

    def lead(self, role: str) -> Updates:
        """Everybody else falls one behind."""
        return tuple(
            (field.name, saturating_increment(field, TRUE)) for name, field in self.behind.items() if name != role
        )

    def settled(self, role: str) -> Expr:
        """The trip-count decision that the role is about to read has been made."""
        if self.stopped is None or len(self.behind) == 1:
            return FALSE
        return (self.behind[role] != 0) | (self.stopped == 1)

    def too_far(self, role: str) -> Illegal:
        """More decisions are unread than the variable can count: a bound of the model, and no fault of the kernel."""
        top = (1 << self.behind[role].width) - 1
        return Illegal(
            "limit", self.behind[role] == top, f"{role} is {top} or more shared decisions behind another role"
        )


def loop_ways(shared: Shared, role: str) -> list[Way]:
    """The head of a trip-count loop: the most advanced role decides whether there is another iteration, the rest
    follow.
    """
    behind, stopped = shared.behind[role], shared.stopped
    assert stopped is not None
    if len(shared.behind) == 1:
        return [Way(TRUE, (), answer=True, label="goes on"), Way(TRUE, (), answer=False, label="ends here")]
    first = (behind == 0) & (stopped == 0)
    far = (shared.too_far(role),)
    return [
        Way(first, shared.lead(role), far, answer=True, label="goes on"),
        Way(first, ((stopped.name, TRUE),), far, answer=False, label="ends here"),
        Way(behind != 0, ((behind.name, behind - 1),), far, answer=True, label="goes on too"),
        Way((behind == 0) & (stopped == 1), (), far, answer=False, label="ends too"),
    ]


def choice_ways(shared: Shared, role: str, options: Sequence[object]) -> list[Way]:
    """choose(): the most advanced role picks, the others find what was picked."""
    behind = shared.behind[role]
    ways = []
    for number in range(len(options)):
        shift: list[tuple[str, Expr]] = []
        for newer, older in zip((None, *shared.history), shared.history, strict=False):
            shift.append((older.name, newer if newer is not None else Lit(number, older.width)))
        picks = (*shift, *shared.lead(role))
        ways.append(Way(behind == 0, picks, answer=number, label=f"picks {options[number]!r}"))
        if len(shared.behind) > 1:
            found = any_of(
                all_of((behind == distance + 1, entry == number)) for distance, entry in enumerate(shared.history)
            )
            ways.append(Way(found, ((behind.name, behind - 1),), answer=number, label=f"finds {options[number]!r}"))
    return ways
