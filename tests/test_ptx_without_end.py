"""Loops without end: what one warp does is bounded, unless somebody gives it a timeout."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch

from sm90_verify.engines.effort import WITHOUT_END, Effort, RanOut

LOOPS = {
    "events": "A:\n\tbar.sync 1, 64;\n\tbra A;",
    "no event": "\tmov.u32 %r1, 0;\nA:\n\tadd.u32 %r1, %r1, 1;\n\tsetp.lt.u32 %p1, %r1, 100000000;\n\t@%p1 bra A;",
    "tries": "A:\n\tmbarrier.try_wait.parity.shared.b64 %p1, [smem], 0;\n\tbra A;",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_without_end_is_left(tmp_path, name):
    result = asked(tmp_path, kernel(LOOPS[name]), launch(64))
    assert result.verdict == "undetermined"
    assert "for a loop without end" in result.findings[0].note
    assert "--timeout" in result.findings[0].note


@pytest.mark.parametrize("what", WITHOUT_END)
def test_a_timeout_takes_the_place_of_the_bound(what):
    most = WITHOUT_END[what]
    Effort().tick(what, "warp0", most, None)
    Effort(timeout=1000.0).tick(what, "warp0", most + 1, None)
    Effort(limit=1).tick(what, "warp0", most, None)
    with pytest.raises(RanOut, match=f"the bound of {most} for a loop without end"):
        Effort().tick(what, "warp0", most + 1, None)
