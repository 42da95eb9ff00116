"""Runs of a cluster for every larger value of a parameter: one run, in which the periods of loops are marked.

Launches with a value and with a larger one are executed; where the second does the same and has rounds of loops more,
sm90_verify.frontends.ptx.periods shows whether these stand for any number of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.events import LaneEvent, PeriodMarked, Waited
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.heads import RoundsCounted, Unlike, loops_of, more_rounds
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.launch import Block, Launch
from sm90_verify.frontends.ptx.periods import Learnt, PeriodsShown, memory_between
from sm90_verify.frontends.ptx.slices import Slice
from sm90_verify.spec.model.tick import Tick

MOST_EXECUTIONS = 12
"""Of a launch, until it is known which registers have a form."""


class Counting(NamedTuple):
    """A run of a cluster, how often its lanes have gone round loops, and what each warp did, without the numbers of
    phases.
    """

    run: ClusterRun
    rounds: RoundsCounted
    events: list[list[LaneEvent]]


class Marked(NamedTuple):
    """A run in which periods are marked. lines: of the heads of their loops."""

    run: ClusterRun
    lines: tuple[int, ...]


def counting(
    module: PtxModule, function: Function, launch: Launch, blocks: tuple[Block, ...], tick: Tick, sliced: Slice | None
) -> Counting:
    """Executes a cluster. Raises as `execute` does."""
    code, addresses = code_of(module, function, launch, sliced)
    run = ClusterRun(code, addresses, launch, blocks, tick)
    rounds = RoundsCounted(loops_of(code))
    run.watch = rounds
    run.run()
    return Counting(run, rounds, events_of(run))


def may_go_on(few: Counting, more: Counting, most: Counting) -> bool:
    """It looks as if each warp did the same more in the second run than in the first as in the third than in the
    second, wherever that is.
    """
    return all(_grows_alike(*some) for some in zip(few.events, more.events, most.events, strict=True))


def _grows_alike(few: list[LaneEvent], more: list[LaneEvent], most: list[LaneEvent]) -> bool:
    if len(more) < len(few) or len(most) - len(more) != len(more) - len(few):
        return False
    first, second, third = Counter(few), Counter(more), Counter(most)
    return first <= second and second - first == third - second


def marked(
    module: PtxModule,
    function: Function,
    launch: Launch,
    blocks: tuple[Block, ...],
    tick: Tick,
    few: Counting,
    more: Counting,
) -> Marked:
    """The run of a launch with an open value, in which a period of each loop stands for any number of them, none
    included. few: the run without the period; more: with it, which the launch has one of.

    Raises Unlike, or Undetermined, where that is not so.
    """
    code = few.run.code
    made = next((one for one in function.code if one.opcode == "tensormap"), None)
    if made is not None:
        raise Unlike("the kernel makes tensor maps, which are not followed from period to period", made.line)
    if any(len(one.values) > 1 for one in launch.assume):
        raise Unlike("the launch file assumes several values of an instruction, one after the other")
    assert launch.open is not None
    learnt = Learnt()
    rounds = {one.run: one for one in more_rounds(code, few.rounds, more.rounds)}
    for _ in range(MOST_EXECUTIONS):
        open_code, addresses = code_of(module, function, launch, code.sliced)
        run = ClusterRun(open_code, addresses, launch, blocks, tick)
        shown = PeriodsShown(open_code, few.rounds.loops, run.cluster, launch.open, rounds, learnt)
        run.watch = shown
        run.run()
        shown.finish()
        if learnt.settled:
            break
    else:
        raise Unlike("registers of its loops go on by something else each time")
    if why := memory_between(run.cluster):
        raise Unlike(why)
    more_assumed = next((one for one in run.cluster.assumed if one not in few.run.cluster.assumed), None)
    if more_assumed is not None:
        raise Unlike(f"it would have to be assumed that {more_assumed.what}", more_assumed.line)
    if run.parted or run.stuck is not None:
        raise Unlike("the kernel cannot go on")
    if [_without_periods(one) for one in events_of(run)] != few.events:
        raise Unlike("without the period of a loop, a warp does something else")
    heads = dict.fromkeys(one.loop.head for one in rounds)
    return Marked(run, tuple(code.function.code[code.blocks[head].first].line for head in heads))


def events_of(run: ClusterRun) -> list[list[LaneEvent]]:
    """What each warp does, the numbers of phases left out."""
    return [[_unnumbered(one) for one in warp.events] for cta in run.cluster.ctas for warp in cta.warps]


def _unnumbered(event: LaneEvent) -> LaneEvent:
    return event._replace(what=event.what._replace(phase=0)) if isinstance(event.what, Waited) else event


def _without_periods(events: Sequence[LaneEvent]) -> list[LaneEvent]:
    found: list[LaneEvent] = []
    begun = 0
    for event in events:
        if not isinstance(event.what, PeriodMarked):
            found.append(event)
        elif event.what.begins:
            begun = len(found)
        else:
            del found[begun:]
    return found
