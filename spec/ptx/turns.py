"""CTAs that others may keep waiting: those of a dependent grid, and of a grid that may not have room on the GPU.

What is promised of them is only that they are started when those before them have ended. So the model starts them at
any time, which loses no order of memory, since a launch gives none; until, at any time, those that are not started are
put off, and wait for the end of the others. (PTX ISA 9.7.13.13: no guarantee that dependents are launched before the
grid before completes; and a grid is started in the order of its CTAs, wave by wave.)
"""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.spec.ptx.expr import Expr, Field, Lit
from sm90_verify.spec.ptx.step import Way

ONE = Lit(1, 1)


class Turn(NamedTuple):
    """What the start of a cluster depends on that others may keep waiting: whether it is started; whether all that are
    not are put off; `ended`, that those have ended for which it waits then; `follows`, that the one before is started.
    """

    started: Field
    put_off: Field
    ended: Expr
    follows: Expr


def start_ways(turn: Turn) -> list[Way]:
    """CtaStart: begins, with or after another role of its cluster; or all that is not started is put off."""
    early = (turn.put_off == 0) & turn.follows
    waits = (turn.started == 0) & (turn.put_off == 0) & ~turn.ended
    return [
        Way((turn.started == 1) | early | turn.ended, ((turn.started.name, ONE),)),
        Way(waits, ((turn.put_off.name, ONE),), label="put off until others have ended", kind="stays"),
    ]


def wait_ways(complete: Field, ended: Expr) -> list[Way]:
    """griddepcontrol.wait (9.7.13.13): all CTAs of the grid before have ended, and what they did is visible."""
    return [Way(ended, ((complete.name, ONE),))]
