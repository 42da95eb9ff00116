"""Kernels that hang in the run that is made, and that order refuses."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts, wait

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

COPIES = """
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared.b64 [%r1], 32;
READY:
	bar.sync 0;
	shl.b32 %r2, %r0, 2;
	add.u32 %r3, %r1, %r2;
	cp.async.ca.shared.global [%r3+1024], [%d0], 4;
	cp.async.mbarrier.arrive{noinc}.shared.b64 [%r1];
{more}
"""


@pytest.mark.parametrize(("noinc", "verdict"), [("", VIOLATED), (".noinc", PROVED)])
def test_an_arrival_that_is_not_counted_hangs(tmp_path, noinc, verdict):
    result = asked(tmp_path, kernel(COPIES.format(noinc=noinc, more=wait("%r1", 0))), launch(32))
    assert verdicts(result)["deadlock"] == verdict


def test_a_large_kernel_is_not_searched(tmp_path):
    more = "bar.warp.sync -1; st.shared.b32 [%r3+2048], %r0;" * 600 + wait("%r1", 0)
    result = asked(tmp_path, kernel(COPIES.format(noinc="", more=more)), launch(33))
    assert verdicts(result)["deadlock"] == UNDETERMINED
