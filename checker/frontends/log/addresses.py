"""Addresses that no kernel can have used, whatever the order of the entries: the log is not one of a real run."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.frontends.log.synclog import FIELDS, Record
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
    MBARRIER_ALIGNMENT,
    SHARED_OF_SM,
    misaligned_copy,
    misplaced_mbarrier,
    outside_shared,
)

BARRIERS = ("cluster_barrier_", "cluster_transaction_barrier_", "cpasync_barrier_")


def check_addresses(records: Sequence[Record], path: str) -> None:
    """Raises SpecError, with file and line, for a barrier or a copy where none can lie; how many bytes a copy has is
    not logged. An entry whose predicate is off uses no address. Asked last: an entry that does not fit the
    others is better told as what it breaks.

    Addresses are those of the window of shared memory, in which the 1 KiB of the system comes first.
    """
    for record in records:
        values = dict(zip(FIELDS[record.kind], record.values, strict=True))
        wrong = ""
        if not values.get("pred", 1):
            continue
        if record.kind.startswith(BARRIERS) and "smem_addr" in values:
            wrong = _wrong_barrier(values["smem_addr"])
        if "smem_int_mbar" in values:
            wrong = _wrong_barrier(values["smem_int_mbar"])
        if "smem_int_ptr" in values:
            at = values["smem_int_ptr"]
            wrong = wrong or misaligned_copy(record.kind, "a stage", at, BULK_ALIGNMENT)
            wrong = wrong or outside_shared(f"a stage at {at}", at, at + BULK_ALIGNMENT, SHARED_OF_SM)
        if wrong:
            raise SpecError(f"{wrong}; use the log as it was printed", Source(path, record.line))


def _wrong_barrier(address: int) -> str:
    name = f"the barrier at {address}"
    return misplaced_mbarrier(name, address) or outside_shared(
        name, address, address + MBARRIER_ALIGNMENT, SHARED_OF_SM
    )
