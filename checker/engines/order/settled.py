"""Which reads find the same data however those come that nothing orders and that they do not race with."""

from __future__ import annotations

from sm90_verify.engines.order.plan import Move
from sm90_verify.spec.model.kernel import Program


def settle(programs: tuple[Program, ...], moves: tuple[tuple[Move, ...], ...]) -> None:
    """Notes the reads before which, however the role came there, it has written the same bytes as its last operation.
    In between it has learnt of nobody else, so that a write of something else comes before its own.
    """
    for program, role in zip(programs, moves, strict=True):
        before: list[list[Move]] = [[] for _ in role]
        for move, node in zip(role, program.nodes, strict=True):
            for to in node.successors.values():
                before[to].append(move)
        for index, move in enumerate(role):
            if move.wants and index and before[index]:
                written = [{use.bytes for use in one.uses if use.write and not use.lasting} for one in before[index]]
                move.settled = all(use.bytes in them for use in move.uses for them in written)


def unsettled(moves: tuple[tuple[Move, ...], ...]) -> frozenset[tuple[int, int]]:
    """(role, region) of all other reads that must find data."""
    return frozenset(
        (number, use.bytes)
        for number, role in enumerate(moves)
        for move in role
        if move.wants and not move.settled
        for use in move.uses
    )
