"""Global memory that a launch describes, and that the kernel writes."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts

READ = "\n\tld.global.u32 %r10, [%d0];\n\tsetp.eq.u32 %p5, %r10, 1;\n\t@%p5 bar.sync 1, 96;"
STORES = {
    "st": "\tmov.u64 %d0, 4096;\n\tst.global.u32 [%d0], 1;",
    "red": "\tmov.u64 %d0, 4096;\n\tred.global.add.u32 [%d0], 1;",
    "atom": "\tmov.u64 %d0, 4096;\n\tatom.global.add.u32 %r3, [%d0], 1;",
    "generic": "\tmov.u64 %d0, 4096;\n\tmov.u64 %d2, 4098;\n\tst.u16 [%d2], 1;",
}
MEMORY = [{"address": 4096, "bytes": "00" * 16}]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("after", [True, False])
def test_what_the_kernel_writes_is_not_what_the_launch_says(tmp_path, name, after):
    """Be it before or after: other threads, and other CTAs, may see it."""
    first, store = STORES[name].split("\n", 1)
    text = kernel("\n".join((first, store, READ) if after else (first, READ, store)))
    result = asked(tmp_path, text, launch(64, memory=MEMORY))
    assert set(verdicts(result).values()) == {"undetermined"}
    assert "`memory` of the launch file describes is read here" in result.findings[0].note


def test_what_another_cta_writes_is_not_what_the_launch_says(tmp_path):
    """The first CTA reads, and the second writes."""
    parted = "\tmov.u64 %d0, 4096;\n\tmov.u32 %r0, %ctaid.x;\n\tsetp.eq.u32 %p0, %r0, 1;\n\t@%p0 bra WRITES;"
    text = kernel(f"{parted}{READ}\n\tret;\nWRITES:\n\tst.global.u32 [%d0], 1;")
    result = asked(tmp_path, text, launch(64, grid=[2, 1, 1], memory=MEMORY))
    assert verdicts(result)["deadlock"] == "undetermined"


@pytest.mark.parametrize(
    "store", ["\tst.global.u32 [%d0+16], 1;", "\tld.param.u64 %d4, [p];\n\tst.global.u32 [%d4], 1;"]
)
def test_that_other_stores_are_elsewhere_is_assumed(tmp_path, store):
    text = kernel(f"\tmov.u64 %d0, 4096;\n{store}{READ}", ".param .u64 p")
    result = asked(tmp_path, text, launch(64, memory=MEMORY))
    assert verdicts(result)["deadlock"] == "proved"
    assert any("the kernel does not write there" in note for note in result.notes)


def test_nothing_is_assumed_of_a_kernel_that_writes_no_global_memory(tmp_path):
    result = asked(tmp_path, kernel(f"\tmov.u64 %d0, 4096;{READ}"), launch(64, memory=MEMORY))
    assert verdicts(result)["deadlock"] == "proved"
    assert not any("assumed" in note for note in result.notes)
