"""The gate on sync logs: addresses that no kernel can have are refused, others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from log_edits import FIELDS, records_of, renumbered

from sm90_verify.frontends.log.addresses import check_addresses
from sm90_verify.frontends.log.check import check_records
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.result import ALLOWED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import SHARED_OF_SM

BARRIER_FIELDS = ("smem_addr", "smem_int_mbar")


def shifted(fields, by, keep=lambda record: True):
    """A log of a real kernel whose addresses are all moved by as many bytes."""
    for record in records_of("coop"):
        names = FIELDS[record.kind]
        values = tuple(
            value + by if name in fields and keep(record) else value
            for name, value in zip(names, record.values, strict=True)
        )
        yield replace(record, values=values)


@pytest.mark.parametrize(
    ("fields", "by", "why"),
    [
        (BARRIER_FIELDS, 4, "an mbarrier is 8 bytes at a multiple of 8"),
        (BARRIER_FIELDS, 1 << 18, "of shared memory: a CTA has 232448"),
        (("smem_int_ptr", "desc_a_smem_int_ptr", "desc_b_smem_int_ptr"), 8, "a bulk copy begins at a multiple of 16"),
    ],
)
def test_a_log_whose_addresses_no_kernel_can_have_is_refused(fields, by, why):
    with pytest.raises(SpecError, match=why) as caught:
        check_records(renumbered(list(shifted(fields, by))), "moved.log")
    assert caught.value.where is not None and caught.value.where.file == "moved.log"


def test_a_log_whose_barriers_lie_elsewhere_is_accepted():
    records = renumbered(list(shifted(BARRIER_FIELDS, 8)))
    assert check_records(records, "moved.log").verdict == ALLOWED


@pytest.mark.parametrize(
    ("kind", "name", "legal", "illegal"),
    [
        ("cluster_barrier_init", "smem_addr", 1024, 1028),
        ("cluster_transaction_barrier_expect_transaction", "smem_addr", 1032, 1033),
        ("cpasync_barrier_arrive", "smem_addr", SHARED_OF_SM - 8, SHARED_OF_SM),
        ("tma_load", "smem_int_mbar", 1032, 1036),
        ("tma_load", "smem_int_mbar", SHARED_OF_SM - 8, SHARED_OF_SM),
        ("tma_load", "smem_int_ptr", 1040, 1032),
        ("tma_store", "smem_int_ptr", SHARED_OF_SM - 16, SHARED_OF_SM),
        ("cp_async", "smem_addr", 1028, None),
    ],
)
def test_addresses_of_an_entry(kind, name, legal, illegal):
    def entry(value: int) -> list[Record]:
        fields = dict.fromkeys(FIELDS[kind], 1024) | ({"pred": 1} if "pred" in FIELDS[kind] else {}) | {name: value}
        return [Record(7, 1, kind, 1, 1, 0, tuple(fields.values()))]

    check_addresses(entry(legal), "a.log")
    if illegal is not None:
        with pytest.raises(SpecError, match=r"a\.log:7: .*; use the log as it was printed"):
            check_addresses(entry(illegal), "a.log")


def test_an_arrival_that_is_not_executed_has_no_address():
    records = list(records_of("coop_2x1"))
    index = next(i for i, r in enumerate(records) if r.kind == "cluster_barrier_arrive_cluster" and r.values[-1] == 0)
    moved_there = (records[index].values[0] + 4, *records[index].values[1:])
    records[index] = replace(records[index], values=moved_there)
    assert check_records(renumbered(records), "moved.log").verdict == ALLOWED
