"""PTX that no assembler takes, or that a GPU faults at, is refused; what is rounded by a GPU is not known."""

from __future__ import annotations

import pytest
from ptx_text import asked, executed, kernel, launch, verdicts

from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.spec.errors import SpecError

FENCES = (
    "fence.acq_rel.gpu",
    "fence.sc.sys",
    "fence.acquire.cluster",
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.alias",
    "fence.proxy.async",
    "fence.proxy.async.global",
    "fence.proxy.async.shared::cta",
    "fence.proxy.tensormap::generic.release.gpu",
    "membar.gl",
    "membar.proxy.alias",
)
NO_FENCES = (
    "fence.proxy.foo",
    "fence.proxy.async.foo",
    "membar.proxy.async",
    "fence.proxy",
    "fence.foo.gpu",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    "fence.mbarrier_init.foo.cluster",
)


@pytest.mark.parametrize("name", FENCES)
def test_a_fence_is_taken(name):
    executed(kernel(f"\t{name};"), launch())


@pytest.mark.parametrize("name", NO_FENCES)
def test_a_fence_with_other_modifiers_is_refused(name):
    with pytest.raises(SpecError, match="is not known here"):
        executed(kernel(f"\t{name};"), launch())


ACCESSES = (
    ("ld.shared.u64 %d1, [smem+{at}];", 8),
    ("st.shared.v4.u32 [smem+{at}], {{%r0, %r0, %r0, %r0}};", 16),
    ("atom.shared.add.u32 %r10, [smem+{at}], 1;", 4),
    ("red.shared.add.u64 [smem+{at}], 1;", 8),
    ("mov.u32 %r1, smem; cvt.u64.u32 %d2, %r1; cvta.shared.u64 %d2, %d2; st.u32 [%d2+{at}], 1;", 4),
    ("mov.u32 %r0, 0; ld.shared.u16 %h0, [smem+{at}];", 2),
)


@pytest.mark.parametrize(("text", "size"), ACCESSES)
def test_an_access_is_at_a_multiple_of_its_bytes(text, size):
    for at in (0, size):
        executed(kernel("\tmov.u32 %r0, 0;\n" + text.format(at=at)), launch())
    with pytest.raises(SpecError, match=rf"the address is 0x40[1-8] .*it must be a multiple of {size}$"):
        executed(kernel("\tmov.u32 %r0, 0;\n" + text.format(at=size // 2)), launch())


def test_shared_memory_has_a_beginning():
    with pytest.raises(SpecError, match=r"the address is 0x3fc in shared memory, and shared memory begins at 0x400"):
        executed(kernel("\tld.shared.u32 %r1, [smem+-4];"), launch())


def test_a_warp_that_is_not_full_counts_as_one_that_is(tmp_path):
    """PTX counts whole warps: with 48 threads, 64 come."""
    with pytest.raises(Undetermined, match="warp1 has 16 lanes, and counts as 32"):
        executed(kernel("\tbar.sync 0, 64;"), launch(48))
    for count in ("", ", 32"):
        skip = "mov.u32 %r0, %tid.x;\n setp.ge.u32 %p0, %r0, 32;\n@%p0 bra OUT;\n" if count else ""
        result = asked(tmp_path, kernel(f"{skip}\tbar.sync 0{count};\nOUT:"), launch(48))
        assert verdicts(result)["deadlock"] == "proved"


@pytest.mark.parametrize(("given", "known"), [(128, True), (100, False)])
def test_shared_memory_is_allocated_in_multiples(given, known):
    text = kernel("\tmov.u32 %r0, %total_smem_size;\n\tsetp.ne.u32 %p0, %r0, 128;\n\t@%p0 bar.sync 1, 32;")
    if known:
        executed(text, launch(dynamic_shared=given))
    else:
        with pytest.raises(Undetermined, match="%total_smem_size, which a GPU rounds up"):
            executed(text, launch(dynamic_shared=given))
