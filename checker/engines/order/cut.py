"""How much of a large kernel is compiled to execute what a run has found, which seldom comes to its end.

A Machine that is cut has nothing to execute behind some location of each role, and few checks (spec.model.cut). What it
shows to be violated is; where it shows nothing, or a schedule comes to where it is cut, one with more of the kernel is
asked, and the whole one in the end. What follows causality (spec.model.causality) is not compiled for a schedule that
needs none of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.engines.effort import Effort
from sm90_verify.engines.engine import Question
from sm90_verify.engines.order.outcome import Outcome, hands_on
from sm90_verify.engines.order.refusals import orders_less
from sm90_verify.spec.model.cut import Cut
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.model.machine import Machine

LARGE = 3_000
"""Locations; the machine of a kernel with fewer is compiled whole."""
MARGINS = ((1, True), (60, False))
"""Locations of each role that are compiled behind those that a run has come to, and whether only failures are to be
shown that are certain.
"""


SEARCHED = 200
"""Locations; where operations order less than all that came before them, search does not come to the end of a straight
kernel with more: it tells states apart by what is ordered before what.
"""


def is_large(kernel: Kernel) -> bool:
    """Its machine is not compiled for anything but what a run comes to."""
    return _is_straight_and_beyond(kernel, LARGE)


def is_beyond_search(kernel: Kernel, effort: Effort) -> bool:
    """A search of all schedules is not begun without a bound."""
    if not _is_straight_and_beyond(kernel, SEARCHED):
        return False
    return is_large(kernel) or bool(orders_less(kernel)) or hands_on(kernel, effort)


def _is_straight_and_beyond(kernel: Kernel, most: int) -> bool:
    return sum(len(program.nodes) for program in kernel.programs) > most and all(map(_is_straight, kernel.programs))


def _is_straight(program: Program) -> bool:
    """Every location leads to the next one, so that a role is where as many events as it has done lead it."""
    last = len(program.nodes) - 1
    return all(node.successors == ({None: at + 1} if at < last else {}) for at, node in enumerate(program.nodes))


def machines(outcome: Outcome, question: Question) -> Iterator[Machine]:
    """Machines to execute the failures of an outcome on, the smallest first; the last one is that of the subject."""
    if outcome.plan is not None and not question.together and is_large(outcome.kernel):
        from sm90_verify.spec.model.compile import compile_kernel

        done = [0] * len(outcome.programs)
        longest = max(outcome.failures, key=lambda one: one.length)
        for who, *_ in longest.log[: longest.length]:
            if who >= 0:
                done[who] += 1
        for margin, certain in MARGINS:
            steps = [one.step for one in outcome.failures if one.step is not None and one.certain >= certain]
            watched = frozenset((outcome.programs[max(who, ~who)].name, at) for who, at in steps)
            last = {program.name: events + margin for program, events in zip(outcome.programs, done, strict=True)}
            yield compile_kernel(outcome.kernel, question.subject.tick, cut=Cut(last, watched))
    yield question.subject.machine if question.together or outcome.handed else question.subject.plain
