"""Collectives of a warp, executed: elect.sync, shfl.sync, vote.sync, match.sync, redux.sync."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.frontends.ptx.events import (
    LanesMet,
)
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import Negated, Pair, Sink
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.values import One, Unknown, Value, lane


def on_elect(bound: Binding) -> Handler:
    """elect.sync: the first lane is elected; PTX leaves open which."""
    first = bound.one.operands[0]
    leader, predicate = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        elected = fragment.lanes[lanes[0]]
        bound.note(warp, fragment, lanes, LanesMet(False))
        bound.write(fragment, leader, lanes, elected)
        bound.write(fragment, predicate, lanes, tuple(int(index == lanes[0]) for index in lanes))
        return True

    return run


def on_shfl(bound: Binding) -> Handler:
    """shfl.sync (PTX ISA 9.7.9.6)"""
    one = bound.one
    first = one.operands[0]
    into, in_range = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
    source, where, clamp = (bound.reader.get(operand) for operand in one.operands[1:4])
    mode = next(word for word in one.modifiers if word in ("up", "down", "bfly", "idx"))
    wanted = bound.wants(into, in_range)
    outside = Unknown(one.line, "a lane that does not take part in shfl.sync")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(False))
        if not wanted:
            return True
        values = source(fragment)
        steps = bound.reader.known(where(fragment), lanes, "the lane")
        limits = bound.reader.known(clamp(fragment), lanes, "the clamp")
        found: list[One] = []
        inside: list[int] = []
        places = {fragment.lanes[index]: index for index in lanes}
        for order, index in enumerate(lanes):
            step = steps if isinstance(steps, int) else steps[order]
            limit = limits if isinstance(limits, int) else limits[order]
            other, valid = _partner(mode, fragment.lanes[index], step & 31, limit)
            inside.append(int(valid))
            place = places.get(other)
            found.append(outside if place is None else lane(values, place))
        bound.write(fragment, into, lanes, tuple(found))
        bound.write(fragment, in_range, lanes, tuple(inside))
        return True

    return run


def _partner(mode: str, mine: int, step: int, clamp: int) -> tuple[int, bool]:
    """The lane that a lane reads from, and whether that is in range."""
    segment, limit = clamp >> 8 & 31, clamp & 31
    most = mine & segment | limit & ~segment & 31
    least = mine & segment
    match mode:
        case "up":
            other = mine - step
            valid = other >= most
        case "down":
            other = mine + step
            valid = other <= most
        case "bfly":
            other = mine ^ step
            valid = other <= most
        case _:
            other = least | step & ~segment & 31
            valid = other <= most
    return (other if valid else mine), valid


def on_vote(bound: Binding) -> Handler:
    """vote.sync and activemask"""
    one = bound.one
    if one.opcode == "activemask":

        def give(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
            bound.write(fragment, one.operands[0], lanes, fragment.mask)
            return True

        return give
    operand = one.operands[1]
    mode = next(word for word in one.modifiers if word in ("all", "any", "uni", "ballot"))
    negated = isinstance(operand, Negated)
    predicate = bound.reader.get(operand.operand if isinstance(operand, Negated) else operand, 1)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(False))
        if not bound.wants(one.operands[0]):
            return True
        values = predicate(fragment)
        votes: list[tuple[int, int]] = []
        for index in lanes:
            value = lane(values, index)
            if isinstance(value, Unknown):
                bound.write(fragment, one.operands[0], lanes, value.plain())
                return True
            votes.append((fragment.lanes[index], value ^ negated))
        bound.write(fragment, one.operands[0], lanes, _voted(mode, votes))
        return True

    return run


def _voted(mode: str, votes: list[tuple[int, int]]) -> int:
    match mode:
        case "all":
            return int(all(vote for _, vote in votes))
        case "any":
            return int(any(vote for _, vote in votes))
        case "uni":
            return int(len({vote for _, vote in votes}) == 1)
        case _:
            return sum(vote << place for place, vote in votes)


def on_match(bound: Binding) -> Handler:
    """match.sync"""
    one = bound.one
    first = one.operands[0]
    into, agreed = (first.first, first.second) if isinstance(first, Pair) else (first, Sink())
    value = bound.reader.get(one.operands[1], 64 if one.type == "b64" else 32)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(False))
        if not bound.wants(into, agreed):
            return True
        given = value(fragment)
        each = [lane(given, index) for index in lanes]
        unknown = next((one for one in each if isinstance(one, Unknown)), None)
        if unknown is not None:
            bound.write(fragment, into, lanes, unknown.plain())
            bound.write(fragment, agreed, lanes, unknown.plain())
            return True
        everybody = sum(1 << fragment.lanes[index] for index in lanes)
        if "all" in one.modifiers:
            same = len(set(each)) == 1
            bound.write(fragment, into, lanes, everybody if same else 0)
            bound.write(fragment, agreed, lanes, int(same))
            return True
        masks = tuple(
            sum(1 << fragment.lanes[other] for other, theirs in zip(lanes, each, strict=True) if theirs == mine)
            for mine in each
        )
        bound.write(fragment, into, lanes, masks)
        return True

    return run


_REDUCTIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: (a + b) & 0xFFFFFFFF,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
}


def on_redux(bound: Binding) -> Handler:
    """redux.sync"""
    one = bound.one
    combine = _REDUCTIONS[one.modifiers[1]]
    value = bound.reader.get(one.operands[1])
    signs = one.type == "s32" and one.modifiers[1] in ("min", "max")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(False))
        if not bound.wants(one.operands[0]):
            return True
        given = value(fragment)
        total: Value | None = None
        for index in lanes:
            each = lane(given, index)
            if isinstance(each, Unknown):
                total = each.plain()
                break
            each = each ^ 0x80000000 if signs else each
            total = each if total is None else combine(int(total), each)  # type: ignore[arg-type]
        if isinstance(total, int) and signs:
            total ^= 0x80000000
        bound.write(fragment, one.operands[0], lanes, 0 if total is None else total)
        return True

    return run
