"""What an operation does to memory: the accesses that it starts, what its reads expect, what its writes leave."""

from __future__ import annotations

from collections.abc import Hashable
from typing import assert_never

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access


def accesses_of(operation: op.Operation | None) -> tuple[Access, ...]:
    """The accesses that an operation starts."""
    match operation:
        case op.Touch():
            return operation.accesses
        case op.Load():
            return tuple(write for write, _ in operation.destinations)
        case op.Store():
            return operation.reads if operation.destination is None else (*operation.reads, operation.destination)
        case op.Init() | op.Inval():
            return () if operation.write is None else (operation.write,)
        case None | op.Wait() | op.Arrive() | op.Transaction() | op.Group() | op.Fence():
            return ()
        case op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait() | op.WarpSync():
            return ()
        case op.Choose() | op.Setmaxnreg():
            return ()
        case _:
            assert_never(operation)


def outlasts(operation: op.Operation) -> bool:
    """The accesses that the role itself starts go on after it, until it waits for their group."""
    match operation:
        case op.Touch():
            return _outlasts(operation)
        case op.Store():
            return True
        case op.Init() | op.Inval() | op.Wait() | op.Arrive() | op.Transaction() | op.Load() | op.Group():
            return False
        case op.Fence() | op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait() | op.WarpSync():
            return False
        case op.Choose() | op.Setmaxnreg():
            return False
        case _:
            assert_never(operation)


def _outlasts(touch: op.Touch) -> bool:
    match touch.kind:
        case "read" | "write":
            return False
        case "mma":
            return True
        case _:
            assert_never(touch.kind)


def expectations(operation: op.Operation | None) -> list[tuple[Access, Hashable]]:
    """The reads of an operation that must find data of a tag; None is any data."""
    match operation:
        case op.Touch():
            return _expected(operation)
        case op.Store():
            return list(zip(operation.sources, operation.tags, strict=True))
        case None | op.Init() | op.Inval() | op.Wait() | op.Arrive() | op.Transaction() | op.Load() | op.Group():
            return []
        case op.Fence() | op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait() | op.WarpSync():
            return []
        case op.Choose() | op.Setmaxnreg():
            return []
        case _:
            assert_never(operation)


def _expected(touch: op.Touch) -> list[tuple[Access, Hashable]]:
    match touch.kind:
        case "read" | "mma":
            return list(zip(touch.accesses, touch.tags, strict=True))
        case "write":
            return []
        case _:
            assert_never(touch.kind)


def contents(operation: op.Operation | None) -> list[tuple[Access, Hashable]]:
    """The writes of an operation that are over with it, and the tags of what they leave in the buffers."""
    match operation:
        case op.Touch():
            return _left(operation)
        case op.Init() | op.Inval():
            return [] if operation.write is None else [(operation.write, None)]
        case None | op.Wait() | op.Arrive() | op.Transaction() | op.Load() | op.Group():
            return []
        case op.Store() | op.Fence() | op.NamedSync() | op.CtaSync() | op.ClusterArrive() | op.ClusterWait():
            return []
        case op.WarpSync() | op.Choose() | op.Setmaxnreg():
            return []
        case _:
            assert_never(operation)


def _left(touch: op.Touch) -> list[tuple[Access, Hashable]]:
    match touch.kind:
        case "read" | "mma":
            return []
        case "write":
            return list(zip(touch.accesses, touch.tags, strict=True))
        case _:
            assert_never(touch.kind)
