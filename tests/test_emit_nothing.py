"""Kernels of which `--emit` has nothing to write, or less than there is."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch

from sm90_verify.engines.check import check
from sm90_verify.python_file import load_classes
from sm90_verify.result import PROVED
from sm90_verify.spec.errors import SpecError


@pytest.mark.parametrize("body", ["", "mov.u64 %d0, 0x400000000000;\n\tst.global.b32 [%d0], %r1;"])
def test_a_kernel_without_roles_is_not_written(tmp_path, body):
    with pytest.raises(SpecError, match="neither synchronises nor accesses shared memory"):
        asked(tmp_path, kernel(body), launch(32), emit=str(tmp_path / "k.py"))
    assert not (tmp_path / "k.py").exists()


def test_a_cluster_without_roles_is_left_out(tmp_path):
    body = "mov.u32 %r0, %ctaid.x;\n\tsetp.eq.u32 %p0, %r0, 0;\n\t@%p0 bra DONE;\n\tbar.sync 0;\nDONE:\n"
    assert asked(tmp_path, kernel(body), launch(64, grid=[2, 1, 1]), emit=str(tmp_path / "k.py")).verdict == PROVED
    (only,) = load_classes(str(tmp_path / "k.py"))
    assert check(only()).verdict == PROVED
