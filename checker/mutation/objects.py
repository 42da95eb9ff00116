"""Mutations of where an operation goes: another stage, another array, another CTA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.mutation.neighbours import Neighbours, ToNeighbour
from sm90_verify.mutation.stream import Rewrite
from sm90_verify.mutation.variation import Variation, changed
from sm90_verify.spec.ptx import operations as op


def other_barrier(name: str, near: Neighbours) -> Iterator[Variation]:
    """The same operation on the next and the previous stage's barrier, on the other arrays, and in another CTA."""
    for text, move in other_barriers(name, near):
        yield Variation(array_or_stage(text), text, _on_barrier(move), wide=True)


def _on_barrier(move: ToNeighbour) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Wait | op.Arrive | op.Transaction)
        return (changed(one, barrier=move(one.barrier)),)

    return rewrite


def array_or_stage(text: str) -> str:
    """The operator to which a change of the barrier belongs."""
    return "barrier" if "->" in text else "stage"


def other_barriers(name: str, near: Neighbours) -> Iterator[tuple[str, ToNeighbour]]:
    if near.slots(name) > 1:
        yield "the next one's", lambda barrier: near.shifted(barrier, 1)
    if near.slots(name) > 2:
        yield "the previous one's", lambda barrier: near.shifted(barrier, -1)
    for other in near.others(name):
        yield f"{near.home[name].declaration} -> {other}", _to(other, near)


def other_buffers(name: str, near: Neighbours) -> Iterator[tuple[str, ToNeighbour]]:
    if near.slots(name) > 1:
        yield "the next stage's", lambda buffer: near.shifted(buffer, 1)
    for other in near.others(name):
        yield f"{near.home[name].declaration} -> {other}", _to(other, near)


def _to(declaration: str, near: Neighbours) -> ToNeighbour:
    return lambda name: near.same_slot(name, declaration)


def in_next_cta(operation: op.Operation, near: Neighbours) -> Iterator[Variation]:
    """An arrival in the CTA with the next rank, as the .shared::cluster form that it then is."""
    if near.ctas == 1:
        return

    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Arrive | op.Transaction)
        target = near.next_cta(one.barrier)
        return (replace(one, barrier=target, cta=near.home[target].cta),)

    yield Variation("cta", "the next CTA's", rewrite, wide=True)
