"""Loops of a kernel and how often lanes go round them: which depend on the launch, and by how many rounds.

A loop has one head, the block that all its backward branches lead to. Lanes that come to a head from outside of its
loop begin a run of it; each time that they come back is a round more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.code import Block, Code
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.state import Warp


class LoopOf(NamedTuple):
    """Lanes that go round a loop. warp: its name, with that of its CTA; head: the number of a block; mask: the lanes
    as they come to it.
    """

    warp: str
    head: int
    mask: int


class LoopRun(NamedTuple):
    """One time that lanes come to a loop from outside. number: how many times before."""

    loop: LoopOf
    number: int


def loops_of(code: Code) -> Mapping[int, frozenset[int]]:
    """By head, the blocks of its loop."""
    following = [_after(code, block) for block in code.blocks]
    before: list[list[int]] = [[] for _ in code.blocks]
    for index, some in enumerate(following):
        for target in some:
            before[target].append(index)
    found: dict[int, frozenset[int]] = {}
    for head in range(len(code.blocks)):
        back = [index for index in before[head] if index >= head]
        if back:
            inside, todo = {head}, list(back)
            while todo:
                index = todo.pop()
                if index not in inside:
                    inside.add(index)
                    todo += before[index]
            found[head] = frozenset(inside)
    return found


def _after(code: Code, block: Block) -> list[int]:
    """The blocks that follow, the end left out."""
    if block.last < 0:
        return [block.next] if block.next >= 0 else []
    one = code.function.code[block.last]
    targets = (one.target, *one.targets) if one.opcode in ("bra", "brx") else ()
    found = [code.block_at[target] for target in targets if target in code.block_at]
    return [*found, block.next] if one.guard is not None and block.next >= 0 else found


@dataclass
class RoundsCounted:
    """Watches an execution. runs: by lanes and loop, how often they come to the head in each run of it."""

    loops: Mapping[int, frozenset[int]]
    runs: dict[LoopOf, list[int]] = field(default_factory=dict)

    def comes(self, warp: Warp, fragment: Fragment, block: int) -> None:
        """Lanes are about to leave their block for another one."""
        inside = self.loops.get(block)
        if inside is None:
            return
        runs = self.runs.setdefault(LoopOf(warp.name, block, fragment.mask), [])
        if fragment.block in inside and runs:
            runs[-1] += 1
        else:
            runs.append(1)


class Rounds(NamedTuple):
    """A run of a loop in which a launch with more to do has `more` rounds; visits: to the head, in that launch. after:
    rounds of it that come after the period which is looked at, as the last ones may be of another kind; the first ones
    may be as well, and it comes after as many as it has itself.
    """

    run: LoopRun
    visits: int
    more: int

    @property
    def after(self) -> int:
        return max(0, (self.visits - 1 - 2 * self.more) // 2)


class Unlike(Exception):
    """Two launches differ by something else than rounds of loops. line: an instruction of the loop, 0 if unknown."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


def more_rounds(code: Code, fewer: RoundsCounted, more: RoundsCounted) -> tuple[Rounds, ...]:
    """The runs of loops that have more rounds in the second of two launches, those of loops within others left out.

    Raises Unlike where a loop has fewer, or is come to another number of times.
    """
    found: list[Rounds] = []
    grown = [one for one, runs in more.runs.items() if sum(runs) != sum(fewer.runs.get(one, ()))]
    for one in grown:
        if any(
            other.warp == one.warp and other.head != one.head and one.head in more.loops[other.head] for other in grown
        ):
            continue
        line = code.function.code[code.blocks[one.head].first].line
        before, runs = fewer.runs.get(one, []), more.runs[one]
        if len(before) != len(runs):
            raise Unlike(f"{one.warp} comes to the loop {len(before)} times, and {len(runs)} times with more", line)
        for number, (few, many) in enumerate(zip(before, runs, strict=True)):
            if many < few:
                raise Unlike(f"{one.warp} goes round the loop fewer times where there is more to do", line)
            if many > few:
                found.append(Rounds(LoopRun(one, number), many, many - few))
    return tuple(found)
