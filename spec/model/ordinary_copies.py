"""What is wrong with a cp.async or an st.async, wherever it is executed (PTX ISA 9.7.9.25.3.1, 9.7.9.12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.layout import Region
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import COUNT_LIMIT, CP_ALIGNMENT
from sm90_verify.spec.ptx.memory import Access


def wrong_with_cp_async(copy: op.CpAsync, program: Program) -> Iterator[str]:
    """It copies from global memory into the shared memory of its own CTA, in units of 4, 8 or 16 bytes."""
    if copy.write.space != "shared" or copy.write.cta != program.me.number:
        yield f"cp.async to {copy.write.object}: use shared memory of its own CTA"
    if copy.source is not None and copy.source.space != "global":
        yield f"cp.async of {copy.source.object} in {copy.source.space} memory: use global"
    sides: tuple[tuple[str, Access | None], ...] = (("to", copy.write), ("of", copy.source))
    for what, one in sides:
        if one is not None and (one.start % CP_ALIGNMENT or (one.stop - one.start) % CP_ALIGNMENT):
            size = f"{one.stop - one.start} bytes at address {one.start}"
            yield f"cp.async {what} {one.object}, {size}: use multiples of {CP_ALIGNMENT} bytes"


def wrong_with_store_async(store: op.StoreAsync, shape: Cluster) -> Iterator[str]:
    """It stores 4, 8 or 16 bytes in each thread, all of which it signals, in a cluster of several CTAs."""
    if shape.size == 1:
        yield f"st.async to {store.write.object}: PTX wants a cluster of more than one CTA; use cluster='2x1'"
    size = store.write.stop - store.write.start
    if store.write.space != "shared":
        yield f"st.async to {store.write.object} in {store.write.space} memory: use shared"
    if store.write.start % CP_ALIGNMENT or size % CP_ALIGNMENT:
        what = f"st.async to {store.write.object}, {size} bytes at address {store.write.start}"
        yield f"{what}: use multiples of {CP_ALIGNMENT} bytes"
    if size != store.bytes or size > COUNT_LIMIT:
        yield f"st.async of {size} bytes to {store.write.object} that signals {store.bytes}: use the same number"
    if store.pieces < 1 or store.bytes % (store.pieces * CP_ALIGNMENT):
        yield f"st.async of {store.bytes} bytes in {store.pieces} pieces: use a multiple of {CP_ALIGNMENT} for each"


def not_together(operation: op.Operation | None, barriers: Mapping[str, Region], program: Program) -> str:
    """The barrier of st.async lies in the CTA to which it stores, and that of cp.async.mbarrier.arrive in its own."""
    if not isinstance(operation, op.StoreAsync | op.TriggeredArrive) or operation.barrier not in barriers:
        return ""
    there = barriers[operation.barrier].cta
    if isinstance(operation, op.TriggeredArrive):
        what = f"cp.async.mbarrier.arrive on {operation.barrier}: use a barrier of its own CTA"
        return what if there != program.me.number else ""
    what = f"st.async to {operation.write.object} that signals {operation.barrier} of CTA {there}"
    return f"{what}: use one of the same CTA" if there != operation.write.cta else ""
