"""Mutations of bulk copies and accesses: other bytes, other buffers, other data, another mask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from sm90_verify.mutation.neighbours import Neighbours, ToNeighbour
from sm90_verify.mutation.objects import array_or_stage, other_barriers, other_buffers
from sm90_verify.mutation.stream import Rewrite
from sm90_verify.mutation.variation import Variation, changed, with_fields
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
)


def of_load(load: op.Load, near: Neighbours) -> Iterator[Variation]:
    for bytes in dict.fromkeys((load.bytes // 2, load.bytes - BULK_ALIGNMENT, load.bytes + BULK_ALIGNMENT)):
        if bytes >= BULK_ALIGNMENT and bytes % (BULK_ALIGNMENT * load.pieces) == 0:

            def resized(one: op.Operation, bytes: int = bytes) -> tuple[op.Operation, ...]:
                assert isinstance(one, op.Load)
                (write, barrier), *also = [
                    (access._replace(stop=access.start + bytes), name) for access, name in one.destinations
                ]
                read = None if one.read is None else one.read._replace(stop=one.read.start + bytes)
                return (replace(one, bytes=bytes, write=write, barrier=barrier, also=tuple(also), read=read),)

            yield Variation("bytes", f"{load.bytes} -> {bytes}", resized)
    if load.pieces == 1 and load.bytes % (2 * BULK_ALIGNMENT) == 0:
        yield with_fields("kind", "signalled in two pieces", pieces=2)
    yield Variation("tag", "other data", _with_other_tag, wide=True)
    for text, move in other_buffers(load.write.object, near):
        yield Variation("buffer", text, _reloading(near, None, move), wide=True)
    if load.read is not None:
        for text, move in other_buffers(load.read.object, near):
            yield Variation("buffer", f"{text} for its source", _from_elsewhere(near, move), wide=True)
    for text, move in other_barriers(load.barrier, near):
        yield Variation(array_or_stage(text), text, _reloading(near, move, None), wide=True)
    if load.also:
        yield with_fields("mask", "the first CTA alone", also=())

        def without_first(one: op.Operation) -> tuple[op.Operation, ...]:
            assert isinstance(one, op.Load)
            return (replace(one, write=one.also[0][0], barrier=one.also[0][1], also=one.also[1:]),)

        yield Variation("mask", "without the first CTA", without_first, wide=True)


def _from_elsewhere(near: Neighbours, move: ToNeighbour) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Load) and one.read is not None
        return (replace(one, read=near.moved(one.read, move(one.read.object))),)

    return rewrite


def _with_other_tag(one: op.Operation) -> tuple[op.Operation, ...]:
    assert isinstance(one, op.Load)
    return (replace(one, tag=("other", one.tag)),)


def _reloading(near: Neighbours, barrier: ToNeighbour | None, buffer: ToNeighbour | None) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Load)
        return (near.reloaded(one, barrier, buffer),)

    return rewrite


def of_access(operation: op.Touch | op.Store, near: Neighbours) -> Iterator[Variation]:
    """Other buffers for each of the accesses, other data, and a group that is not closed."""
    accesses = operation.accesses if isinstance(operation, op.Touch) else operation.sources
    for index, access in enumerate(accesses):
        for text, move in other_buffers(access.object, near):

            def elsewhere(
                one: op.Operation, index: int = index, move: Callable[[str], str] = move
            ) -> tuple[op.Operation, ...]:
                return (_with_access(one, index, near, move),)

            which = f" for access {index}" if len(accesses) > 1 else ""
            yield Variation("buffer", f"{text}{which}", elsewhere, wide=True)
    if any(tag is not None for tag in operation.tags):
        verb = "is" if isinstance(operation, op.Touch) and operation.kind == "write" else "expects"
        yield Variation("tag", f"{verb} other data", lambda one: (changed(one, tags=_other_tags(one)),), wide=True)
    if isinstance(operation, op.Touch) and operation.kind == "red":
        yield Variation("kind", "an ordinary write", _ordinary)
    if isinstance(operation, op.Store) and operation.destination is not None and operation.destination.strong:
        yield Variation("kind", "an ordinary store", _ordinary)
    if isinstance(operation, op.Touch) and operation.into is not None:
        for text, move in other_buffers(operation.into.object, near):
            yield Variation("buffer", f"{text} for the accumulator", _into_another(near, move), wide=True)
    if isinstance(operation, op.Touch) and operation.kind == "mma":
        yield with_fields("commit", "closed" if not operation.commit else "left open", commit=not operation.commit)


def _into_another(near: Neighbours, move: ToNeighbour) -> Rewrite:
    """A wgmma that accumulates in other registers of its role."""

    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Touch)
        return (one if one.into is None else replace(one, into=near.moved(one.into, move(one.into.object))),)

    return rewrite


def _ordinary(one: op.Operation) -> tuple[op.Operation, ...]:
    """What reduces, without reducing."""
    if isinstance(one, op.Touch):
        return (replace(one, kind="write", accesses=tuple(access._replace(strong=None) for access in one.accesses)),)
    assert isinstance(one, op.Store) and one.destination is not None
    return (replace(one, destination=one.destination._replace(strong=None)),)


def _other_tags(operation: op.Operation) -> tuple[Hashable, ...]:
    assert isinstance(operation, op.Touch | op.Store)
    return tuple(("other", tag) if tag is not None else None for tag in operation.tags)


def _with_access(operation: op.Operation, index: int, near: Neighbours, move: Callable[[str], str]) -> op.Operation:
    assert isinstance(operation, op.Touch | op.Store)
    accesses = list(operation.accesses if isinstance(operation, op.Touch) else operation.sources)
    accesses[index] = near.moved(accesses[index], move(accesses[index].object))
    if isinstance(operation, op.Touch):
        return replace(operation, accesses=tuple(accesses))
    return replace(operation, sources=tuple(accesses))
