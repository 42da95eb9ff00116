"""Mutations of copies by ordinary threads, cp.async and st.async, and of the arrivals that follow cp.asyncs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.mutation.neighbours import Neighbours, ToNeighbour
from sm90_verify.mutation.objects import array_or_stage, other_barriers, other_buffers
from sm90_verify.mutation.stream import Rewrite
from sm90_verify.mutation.variation import Variation, with_fields
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import COUNT_LIMIT


def of_copying(copying: op.Copying, near: Neighbours) -> Iterator[Variation]:
    """Everything that could stand in place of one of them."""
    if isinstance(copying, op.TriggeredArrive):
        yield with_fields("kind", "counted" if copying.noinc else ".noinc", noinc=not copying.noinc)
        for count in (copying.count - 1, copying.count + 1):
            if 0 < count <= COUNT_LIMIT:
                yield with_fields("count", f"{copying.count} -> {count}", count=count)
        yield from _on_others(copying.barrier, near)
        return
    yield Variation("tag", "other data", _with_other_tag, wide=True)
    for text, move in other_buffers(copying.write.object, near):
        yield Variation("buffer", text, _elsewhere(near, move), wide=True)
    if isinstance(copying, op.CpAsync):
        if copying.source is not None:
            for text, move in other_buffers(copying.source.object, near):
                yield Variation("buffer", f"{text} for its source", _from_elsewhere(near, move), wide=True)
        return
    yield from _on_others(copying.barrier, near)
    if copying.bytes % 2 == 0 and copying.pieces == 1:
        yield with_fields("kind", "signalled in two pieces", pieces=2)
        yield Variation("bytes", f"{copying.bytes} -> {copying.bytes // 2}", _halved)
    if copying.write.strong is not None:
        yield Variation("kind", "st.async", _stored)


def _on_others(name: str, near: Neighbours) -> Iterator[Variation]:
    for text, move in other_barriers(name, near):

        def elsewhere(one: op.Operation, move: ToNeighbour = move) -> tuple[op.Operation, ...]:
            assert isinstance(one, op.TriggeredArrive | op.StoreAsync)
            return (replace(one, barrier=move(one.barrier)),)

        yield Variation(array_or_stage(text), text, elsewhere, wide=True)


def _elsewhere(near: Neighbours, move: ToNeighbour) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.CpAsync | op.StoreAsync)
        return (replace(one, write=near.moved(one.write, move(one.write.object))),)

    return rewrite


def _from_elsewhere(near: Neighbours, move: ToNeighbour) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.CpAsync) and one.source is not None
        return (replace(one, source=near.moved(one.source, move(one.source.object))),)

    return rewrite


def _with_other_tag(one: op.Operation) -> tuple[op.Operation, ...]:
    assert isinstance(one, op.CpAsync | op.StoreAsync)
    return (replace(one, tag=("other", one.tag)),)


def _halved(one: op.Operation) -> tuple[op.Operation, ...]:
    """The first half of the bytes."""
    assert isinstance(one, op.StoreAsync)
    bytes = one.bytes // 2
    return (replace(one, bytes=bytes, write=one.write._replace(stop=one.write.start + bytes)),)


def _stored(one: op.Operation) -> tuple[op.Operation, ...]:
    """red.async without reducing."""
    assert isinstance(one, op.StoreAsync)
    return (replace(one, write=one.write._replace(strong=None)),)
