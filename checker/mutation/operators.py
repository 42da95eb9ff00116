"""The mutation operators: for one operation of a role, everything that a programmer could have written instead."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

from sm90_verify.mutation.neighbours import Move, Neighbours
from sm90_verify.mutation.stream import POSTPONE, SWAP, Answer, Rewrite, has_answer
from sm90_verify.spec.language.state import Phase
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
    BULK_GROUPS,
    COUNT_LIMIT,
    CTA_THREADS,
    MMA_GROUPS,
    NAMED_BARRIERS,
)

OPERATORS = {
    "drop": "an operation is left out",
    "duplicate": "an operation is done twice",
    "swap": "an operation changes places with the next one",
    "postpone": "an operation is done when its turn comes again, the last one at the end",
    "stage": "the barrier of another stage",
    "barrier": "another barrier array (full for empty)",
    "buffer": "another stage's buffer, or another buffer of that size",
    "parity": "the other phase bit",
    "blocking": "a wait that looks once and goes on; an answer that is taken for the other one",
    "count": "another number of arrivals",
    "kind": "another form of the same instruction",
    "bytes": "other bytes expected or delivered",
    "order": "arrive.expect_tx in two steps",
    "tag": "other data",
    "pending": "another number of groups that may stay pending",
    "commit": "a wgmma group that is left open",
    "fence": "another fence",
    "id": "another named barrier",
    "threads": "another thread count of a named barrier",
    "registers": "other register counts",
    "start": "another start state of the role",
    "mask": "another multicast mask",
    "cta": "the barrier of another CTA of the cluster",
    "trips": "one iteration more or less than the other roles",
    "init": "another count in mbarrier.init",
}


@dataclass(frozen=True)
class Variation:
    """One thing to write instead. wide: worth trying at all sorts of executions, not only at all of them or from the
    second lap on. brief: only at those that leave others as they are."""

    operator: str
    text: str
    rewrite: Rewrite | None = None
    answer: Answer | None = None
    moves: str = ""
    wide: bool = False
    brief: bool = False


def variations(operation: op.Operation, near: Neighbours) -> Iterator[Variation]:
    """Everything that could stand in place of the operation. Each applies to every operation at its place."""
    yield from _general(operation)
    match operation:
        case op.Wait():
            yield from _of_wait(operation, near)
        case op.Arrive():
            yield from _of_arrive(operation)
            yield from _other_barrier(operation.barrier, near)
            yield from _in_next_cta(operation, near)
        case op.Transaction():
            yield from _of_bytes(operation.bytes, "bytes")
            yield from _other_barrier(operation.barrier, near)
            yield from _in_next_cta(operation, near)
        case op.Load():
            yield from _of_load(operation, near)
        case op.Touch() | op.Store():
            yield from _of_access(operation, near)
        case op.Group():
            yield from _of_group(operation)
        case op.Fence():
            other: op.FenceKind = "mbarrier_init" if operation.kind == "proxy_async" else "proxy_async"
            yield Variation("fence", f"fence {other}", lambda one: (op.Fence(other),))
        case op.NamedSync():
            yield from _of_named(operation)
        case op.Setmaxnreg():
            for change in (-8, 8):
                yield _with("registers", f"{change:+}", registers=operation.registers + change)
        case op.ClusterArrive():
            yield _with("kind", "relaxed" if operation.release else "release", release=not operation.release)
        case op.Init() | op.Choose():
            yield from _of_others(operation)
        case op.Inval() | op.CtaSync() | op.WarpSync() | op.ClusterWait():
            pass
        case _:
            assert_never(operation)


def _general(operation: op.Operation) -> Iterator[Variation]:
    if isinstance(operation, op.Choose):
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
        looks = Variation("blocking", "looks once", lambda one: (_changed(one, kind="try_wait"),), lambda one, _: None)
        yield replace(looks, brief=True)
    else:
        yield Variation("blocking", "the answer negated", lambda one: (one,), lambda one, answer: not answer, wide=True)
        yield Variation("blocking", "the answer taken for True", lambda one: (one,), lambda one, answer: True)
        yield Variation("blocking", "the answer taken for False", lambda one: (one,), lambda one, answer: False)
        other = "test_wait" if wait.kind == "try_wait" else "try_wait"
        yield _with("kind", other, kind=other)
    if not isinstance(wait.phase, op.Token):
        yield Variation("parity", "", lambda one: (flipped(one),), wide=True)
        yield from _other_barrier(wait.barrier, near)


def flipped(operation: op.Operation) -> op.Operation:
    """A wait with the other phase bit; anything else as it is."""
    if not isinstance(operation, op.Wait) or isinstance(operation.phase, op.Token):
        return operation
    phase = operation.phase
    return replace(operation, phase=phase ^ 1 if isinstance(phase, Phase) else 1 - phase)


def _of_arrive(arrive: op.Arrive) -> Iterator[Variation]:
    for count in dict.fromkeys((arrive.count - 1, arrive.count + 1, 1, arrive.count // 2, 2 * arrive.count)):
        if 0 < count <= COUNT_LIMIT and count != arrive.count:
            text = f"{arrive.count} -> {count}"
            yield Variation("count", text, _counting(arrive.count, count), wide=abs(count - arrive.count) == 1)
    for kind in ("arrive", "drop", "no_complete"):
        if kind != arrive.kind and not (kind == "no_complete" and arrive.expect is not None):
            yield _with("kind", f"{arrive.kind} -> {kind}", kind=kind)
    if arrive.expect is not None and arrive.kind == "arrive":
        yield Variation("order", "expect_tx, then arrive", in_two_steps)
        yield Variation("order", "arrive, then expect_tx", lambda one: in_two_steps(one)[::-1])
        yield Variation("kind", "arrive without expect_tx", lambda one: (_changed(one, expect=None),), wide=True)
        yield from _of_bytes(arrive.expect, "expect")


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
            yield _with("bytes", f"{bytes} -> {other}", **{name: other})


def _of_load(load: op.Load, near: Neighbours) -> Iterator[Variation]:
    for bytes in dict.fromkeys((load.bytes // 2, load.bytes - BULK_ALIGNMENT, load.bytes + BULK_ALIGNMENT)):
        if bytes >= BULK_ALIGNMENT and bytes % (BULK_ALIGNMENT * load.pieces) == 0:

            def resized(one: op.Operation, bytes: int = bytes) -> tuple[op.Operation, ...]:
                assert isinstance(one, op.Load)
                (write, barrier), *also = [
                    (replace(access, stop=access.start + bytes), name) for access, name in one.destinations
                ]
                return (replace(one, bytes=bytes, write=write, barrier=barrier, also=tuple(also)),)

            yield Variation("bytes", f"{load.bytes} -> {bytes}", resized)
    if load.pieces == 1 and load.bytes % (2 * BULK_ALIGNMENT) == 0:
        yield _with("kind", "signalled in two pieces", pieces=2)
    yield Variation("tag", "other data", _with_other_tag, wide=True)
    for text, move in _other_buffers(load.write.object, near):
        yield Variation("buffer", text, _reloading(near, None, move), wide=True)
    for text, move in _other_barriers(load.barrier, near):
        yield Variation(_array(text), text, _reloading(near, move, None), wide=True)
    if load.also:
        yield _with("mask", "the first CTA alone", also=())

        def without_first(one: op.Operation) -> tuple[op.Operation, ...]:
            assert isinstance(one, op.Load)
            return (replace(one, write=one.also[0][0], barrier=one.also[0][1], also=one.also[1:]),)

        yield Variation("mask", "without the first CTA", without_first, wide=True)


def _with_other_tag(one: op.Operation) -> tuple[op.Operation, ...]:
    assert isinstance(one, op.Load)
    return (replace(one, tag=("other", one.tag)),)


def _reloading(near: Neighbours, barrier: Move | None, buffer: Move | None) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Load)
        return (near.reloaded(one, barrier, buffer),)

    return rewrite


def _of_access(operation: op.Touch | op.Store, near: Neighbours) -> Iterator[Variation]:
    """Other buffers for each of the accesses, other data, and a group that is not closed."""
    accesses = operation.accesses if isinstance(operation, op.Touch) else operation.sources
    for index, access in enumerate(accesses):
        for text, move in _other_buffers(access.object, near):

            def elsewhere(
                one: op.Operation, index: int = index, move: Callable[[str], str] = move
            ) -> tuple[op.Operation, ...]:
                return (_with_access(one, index, near, move),)

            which = f" for access {index}" if len(accesses) > 1 else ""
            yield Variation("buffer", f"{text}{which}", elsewhere, wide=True)
    if any(tag is not None for tag in operation.tags):
        verb = "is" if isinstance(operation, op.Touch) and operation.kind == "write" else "expects"
        yield Variation("tag", f"{verb} other data", lambda one: (_changed(one, tags=_other_tags(one)),), wide=True)
    if isinstance(operation, op.Touch) and operation.kind == "mma":
        yield _with("commit", "closed" if not operation.commit else "left open", commit=not operation.commit)


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


def _of_group(group: op.Group) -> Iterator[Variation]:
    most = MMA_GROUPS if group.kind.startswith("mma") else BULK_GROUPS
    if not group.kind.endswith("commit"):
        for pending in (group.pending - 1, group.pending + 1):
            if 0 <= pending < most:
                text = f"{group.pending} -> {pending}"
                yield replace(_with("pending", text, pending=pending), wide=True)
    other = {"bulk_wait": "bulk_wait_read", "bulk_wait_read": "bulk_wait"}.get(group.kind)
    if other is not None:
        yield _with("kind", other, kind=other)


def _of_named(sync: op.NamedSync) -> Iterator[Variation]:
    other = (sync.id + 1) % NAMED_BARRIERS
    yield replace(_with("id", f"{sync.id} -> {other}", id=other), wide=True)
    for threads in (sync.threads - 32, sync.threads + 32):
        if 0 < threads <= CTA_THREADS:
            yield replace(_with("threads", f"{sync.threads} -> {threads}", threads=threads), wide=True)
    yield replace(_with("blocking", "arrives only" if sync.blocks else "waits", blocks=not sync.blocks), wide=True)


def _of_others(operation: op.Init | op.Choose) -> Iterator[Variation]:
    if isinstance(operation, op.Init):
        for count in other_counts(operation.count):
            yield _with("init", f"{operation.count} -> {count}", count=count)
    else:

        def another(one: op.Operation, answer: Hashable) -> Hashable:
            assert isinstance(one, op.Choose)
            return one.options[(one.options.index(answer) + 1) % len(one.options)]

        yield Variation("blocking", "another answer", lambda one: (one,), another)


def other_counts(count: int) -> list[int]:
    """Counts that a wrong mbarrier.init could have."""
    return [n for n in dict.fromkeys((count - 1, count + 1, 1, count // 2, 2 * count, 0)) if 0 <= n != count]


def _other_barrier(name: str, near: Neighbours) -> Iterator[Variation]:
    """The same operation on the next and the previous stage's barrier, on the other arrays, and in another CTA."""
    for text, move in _other_barriers(name, near):
        yield Variation(_array(text), text, _on_barrier(move), wide=True)


def _on_barrier(move: Move) -> Rewrite:
    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Wait | op.Arrive | op.Transaction)
        return (_changed(one, barrier=move(one.barrier)),)

    return rewrite


def _array(text: str) -> str:
    """The operator to which a change of the barrier belongs."""
    return "barrier" if "->" in text else "stage"


def _other_barriers(name: str, near: Neighbours) -> Iterator[tuple[str, Move]]:
    if near.slots(name) > 1:
        yield "the next one's", lambda barrier: near.shifted(barrier, 1)
    if near.slots(name) > 2:
        yield "the previous one's", lambda barrier: near.shifted(barrier, -1)
    for other in near.others(name):
        yield f"{near.home[name].declaration} -> {other}", _to(other, near)


def _other_buffers(name: str, near: Neighbours) -> Iterator[tuple[str, Move]]:
    if near.slots(name) > 1:
        yield "the next stage's", lambda buffer: near.shifted(buffer, 1)
    for other in near.others(name):
        yield f"{near.home[name].declaration} -> {other}", _to(other, near)


def _to(declaration: str, near: Neighbours) -> Move:
    return lambda name: near.same_slot(name, declaration)


def _in_next_cta(operation: op.Operation, near: Neighbours) -> Iterator[Variation]:
    """An arrival in the CTA with the next rank, as the .shared::cluster form that it then is."""
    if near.ctas == 1:
        return

    def rewrite(one: op.Operation) -> tuple[op.Operation, ...]:
        assert isinstance(one, op.Arrive | op.Transaction)
        target = near.next_cta(one.barrier)
        return (replace(one, barrier=target, cta=near.home[target].cta),)

    yield Variation("cta", "the next CTA's", rewrite, wide=True)


def _with(operator: str, text: str, **changes: object) -> Variation:
    """The same operation with some of its fields changed."""
    return Variation(operator, text, lambda one: (_changed(one, **changes),))


def _changed(operation: op.Operation, **changes: Any) -> op.Operation:
    """The operation with other values in fields that it has."""
    record: Any = operation
    changed: op.Operation = replace(record, **changes)
    return changed


# ---------------------------------------------------------------- a whole role at once


def starts(near: Neighbours) -> Iterator[Variation]:
    """Start states of a role: the other phase, and a stage further on."""
    yield Variation("start", "in the other phase", lambda one: (flipped(one),))
    yield Variation("start", "a stage further on", lambda one: (_a_stage_on(one, near),))
    yield Variation("start", "a lap further on", lambda one: (_a_lap_on(one),))


def _a_stage_on(operation: op.Operation, near: Neighbours) -> op.Operation:
    if isinstance(operation, op.Wait) and isinstance(operation.phase, Phase) and near.wraps(operation.barrier):
        operation = _a_lap_on(operation)
    match operation:
        case op.Wait() | op.Arrive() | op.Transaction():
            return _changed(operation, barrier=near.shifted(operation.barrier, 1))
        case op.Load():
            return near.reloaded(operation, lambda name: near.shifted(name, 1), lambda name: near.shifted(name, 1))
        case op.Touch():
            accesses = tuple(near.moved(one, near.shifted(one.object, 1)) for one in operation.accesses)
            return replace(operation, accesses=accesses)
        case op.Store():
            sources = tuple(near.moved(one, near.shifted(one.object, 1)) for one in operation.sources)
            return replace(operation, sources=sources)
        case op.Init() | op.Inval() | op.Group() | op.Fence() | op.NamedSync() | op.CtaSync() | op.WarpSync():
            return operation
        case op.ClusterArrive() | op.ClusterWait() | op.Choose() | op.Setmaxnreg():
            return operation
        case _:
            assert_never(operation)


def _a_lap_on(operation: op.Operation) -> op.Operation:
    if not isinstance(operation, op.Wait) or not isinstance(operation.phase, Phase):
        return operation
    phase = operation.phase
    return replace(operation, phase=Phase(phase.lap + 1, phase.lineage, phase.flipped))
