"""The mutation operators: for one operation of a role, everything that a programmer could have written instead."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TypeAlias, assert_never

from sm90_verify.mutation.copies import of_access, of_load
from sm90_verify.mutation.neighbours import Neighbours
from sm90_verify.mutation.objects import in_next_cta, other_barrier
from sm90_verify.mutation.ordinary import of_copying
from sm90_verify.mutation.starts import flipped
from sm90_verify.mutation.stream import POSTPONE, SWAP, Rewrite, default_answer, has_answer
from sm90_verify.mutation.variation import Variation, changed, with_fields
from sm90_verify.mutation.words import of_fence, of_word, weaker
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
    BULK_GROUPS,
    COUNT_LIMIT,
    CTA_THREADS,
    MMA_GROUPS,
    NAMED_BARRIERS,
    WARP,
)

Varied: TypeAlias = (
    op.Wait
    | op.Arrive
    | op.Transaction
    | op.Load
    | op.Touch
    | op.Store
    | op.Group
    | op.Fence
    | op.NamedSync
    | op.Setmaxnreg
    | op.ClusterArrive
    | op.Copying
    | op.Griddepcontrol
    | op.Init
    | op.Choose
    | op.MapFence
    | op.CopyMap
    | op.OnWords
)
"""What has forms and operands to be mistaken for others; all else can be left out, repeated and moved."""


def variations(operation: op.Operation, near: Neighbours) -> Iterator[Variation]:
    """Everything that could stand in place of the operation. Each applies to every operation at its place."""
    yield from _general(operation)
    if isinstance(operation, Varied):
        yield from _of_its_own(operation, near)


def _of_its_own(operation: Varied, near: Neighbours) -> Iterator[Variation]:
    match operation:
        case op.Wait():
            yield from _of_wait(operation, near)
        case op.Arrive():
            yield from _of_arrive(operation)
            yield from other_barrier(operation.barrier, near)
            yield from in_next_cta(operation, near)
        case op.Transaction():
            yield from _of_bytes(operation.bytes, "bytes")
            yield from other_barrier(operation.barrier, near)
            yield from in_next_cta(operation, near)
        case op.Load():
            yield from of_load(operation, near)
        case op.Touch() | op.Store():
            yield from of_access(operation, near)
        case op.Group():
            yield from _of_group(operation)
        case op.Fence():
            other: op.FenceKind = "mbarrier_init" if operation.kind == "proxy_async" else "proxy_async"
            yield Variation("fence", f"fence {other}", lambda one: (op.Fence(other),))
        case op.NamedSync():
            yield from _of_named(operation)
        case op.Setmaxnreg():
            for change in (-8, 8):
                yield with_fields("registers", f"{change:+}", registers=operation.registers + change)
        case op.ClusterArrive():
            yield with_fields("kind", "relaxed" if operation.release else "release", release=not operation.release)
        case op.TriggeredArrive() | op.CpAsync() | op.StoreAsync():
            yield from of_copying(operation, near)
        case op.Griddepcontrol():
            other_kind = "wait" if operation.kind == "launch_dependents" else "launch_dependents"
            yield with_fields("kind", other_kind, kind=other_kind)
        case op.Init() | op.Choose():
            yield from _of_others(operation)
        case op.WordLoad() | op.WordStore() | op.Atom() | op.Spin():
            yield from of_word(operation)
        case op.ThreadFence() | op.MapFence() | op.CopyMap():
            yield from of_fence(operation)
        case _:
            assert_never(operation)


def _general(operation: op.Operation) -> Iterator[Variation]:
    if isinstance(operation, op.Choose):
        return
    if has_answer(operation) and not isinstance(operation, op.Wait):
        yield Variation("drop", "not done", lambda one: (), lambda one, answer: default_answer(one), wide=True)
        return
    if has_answer(operation):
        yield Variation("drop", "taken for done", lambda one: (), lambda one, answer: True, wide=True)
        yield Variation("drop", "taken for not done", lambda one: (), lambda one, answer: False, wide=True)
        return
    yield Variation("drop", "", lambda one: (), wide=True)
    yield Variation("duplicate", "", lambda one: (one, one), wide=True)
    yield Variation("swap", "", moves=SWAP, wide=True)
    yield Variation("postpone", "", moves=POSTPONE, wide=True)


def _of_wait(wait: op.Wait, near: Neighbours) -> Iterator[Variation]:
    if wait.kind == "wait":
        looks = Variation("blocking", "looks once", lambda one: (changed(one, kind="try_wait"),), lambda one, _: None)
        yield replace(looks, brief=True)
    else:
        yield Variation("blocking", "the answer negated", lambda one: (one,), lambda one, answer: not answer, wide=True)
        yield Variation("blocking", "the answer taken for True", lambda one: (one,), lambda one, answer: True)
        yield Variation("blocking", "the answer taken for False", lambda one: (one,), lambda one, answer: False)
        other = "test_wait" if wait.kind == "try_wait" else "try_wait"
        yield with_fields("kind", other, kind=other)
    yield from weaker(wait)
    if not isinstance(wait.phase, op.Token):
        yield Variation("parity", "", lambda one: (flipped(one),), wide=True)
        yield from other_barrier(wait.barrier, near)


def _of_arrive(arrive: op.Arrive) -> Iterator[Variation]:
    for count in dict.fromkeys((arrive.count - 1, arrive.count + 1, 1, arrive.count // 2, 2 * arrive.count)):
        if 0 < count <= COUNT_LIMIT and count != arrive.count:
            text = f"{arrive.count} -> {count}"
            yield Variation("count", text, _counting(arrive.count, count), wide=abs(count - arrive.count) == 1)
    for kind in ("arrive", "drop", "no_complete"):
        if kind != arrive.kind and not (kind == "no_complete" and arrive.expect is not None):
            yield with_fields("kind", f"{arrive.kind} -> {kind}", kind=kind)
    yield from weaker(arrive)
    if arrive.also:
        yield with_fields("mask", "the first CTA alone", also=())
        yield Variation("mask", "without the first CTA", _without_first, wide=True)
    if arrive.expect is not None and arrive.kind == "arrive":
        yield Variation("order", "expect_tx, then arrive", in_two_steps)
        yield Variation("order", "arrive, then expect_tx", lambda one: in_two_steps(one)[::-1])
        yield Variation("kind", "arrive without expect_tx", lambda one: (changed(one, expect=None),), wide=True)
        yield from _of_bytes(arrive.expect, "expect")


def _without_first(one: op.Operation) -> tuple[op.Operation, ...]:
    """An arrival at the other ones of several CTAs."""
    assert isinstance(one, op.Arrive) and one.also
    (barrier, cta), *also = one.also
    return (replace(one, barrier=barrier, cta=cta, also=tuple(also)),)


def _counting(before: int, after: int) -> Rewrite:
    """Another count, changed in the same way where the place is executed by other numbers of threads as well."""

    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Arrive)
        if after == 1:
            return (replace(one, count=1),)
        change = after - before
        count = one.count + change if abs(change) == 1 else one.count * after // before
        return (replace(one, count=min(count, COUNT_LIMIT)),)

    return rewrite


def in_two_steps(arrive: op.Operation) -> tuple[op.Operation, ...]:
    """arrive.expect_tx as expect_tx and arrive."""
    if not isinstance(arrive, op.Arrive) or arrive.expect is None:
        return (arrive,)
    return op.Transaction(arrive.barrier, arrive.expect * arrive.count), replace(arrive, expect=None)


def _of_bytes(bytes: int, name: str) -> Iterator[Variation]:
    """name: the field of the operation that holds the bytes."""
    others = (bytes // 2, 2 * bytes, bytes - BULK_ALIGNMENT, bytes + BULK_ALIGNMENT)
    for other in dict.fromkeys(others):
        if 0 < abs(other) <= COUNT_LIMIT and other != bytes:
            yield with_fields("bytes", f"{bytes} -> {other}", **{name: other})


def _of_group(group: op.Group) -> Iterator[Variation]:
    most = MMA_GROUPS if group.kind.startswith("mma") else BULK_GROUPS
    if not group.kind.endswith(("commit", "all")):
        for pending in (group.pending - 1, group.pending + 1):
            if 0 <= pending < most:
                text = f"{group.pending} -> {pending}"
                yield replace(with_fields("pending", text, pending=pending), wide=True)
    other = {"bulk_wait": "bulk_wait_read", "bulk_wait_read": "bulk_wait"}.get(group.kind)
    if other is not None:
        yield with_fields("kind", other, kind=other)


def _of_named(sync: op.NamedSync) -> Iterator[Variation]:
    other = (sync.id + 1) % NAMED_BARRIERS
    yield replace(with_fields("id", f"{sync.id} -> {other}", id=other), wide=True)
    for threads in (sync.threads - WARP, sync.threads + WARP):
        if 0 < threads <= CTA_THREADS:
            yield replace(with_fields("threads", f"{sync.threads} -> {threads}", threads=threads), wide=True)
    if sync.by:
        yield replace(with_fields("by", f"by {sync.by} -> by all threads", by=0), wide=True)
    yield replace(
        with_fields("blocking", "arrives only" if sync.blocks else "waits", blocks=not sync.blocks), wide=True
    )


def _of_others(operation: op.Init | op.Choose) -> Iterator[Variation]:
    if isinstance(operation, op.Init):
        for count in other_counts(operation.count):
            yield with_fields("init", f"{operation.count} -> {count}", count=count)
    else:

        def another(one: op.Operation, answer: Hashable) -> Hashable:
            assert isinstance(one, op.Choose)
            return one.options[(one.options.index(answer) + 1) % len(one.options)]

        yield Variation("blocking", "another answer", lambda one: (one,), another)


def other_counts(count: int) -> list[int]:
    """Counts that a wrong mbarrier.init could have."""
    return [n for n in dict.fromkeys((count - 1, count + 1, 1, count // 2, 2 * count, 0)) if 0 <= n != count]
