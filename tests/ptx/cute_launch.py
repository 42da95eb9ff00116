"""Compiling a kernel in CuTe DSL, keeping its PTX, and launching it on operands that need not exist."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cutlass import cute
from cutlass.cute.runtime import make_fake_stream, make_ptr

FIRST_ADDRESS, DISTANCE = 0x400000000000, 2 << 20
"""Where the operands are said to be: nothing reads them where the runtime is a stand-in."""


def compile_and_launch(kernel, kinds: Sequence[type], ptx: Path) -> None:
    """Compile a kernel of pointers to elements of some kinds, and a stream; write its PTX; launch it."""
    operands = [
        make_ptr(kind, FIRST_ADDRESS + DISTANCE * i, cute.AddressSpace.gmem, assumed_align=16)
        for i, kind in enumerate(kinds)
    ]
    compiled = cute.compile(kernel, *operands, make_fake_stream())
    ptx.write_text(compiled.__ptx__)
    os.environ["STAND_IN_PTX"] = str(ptx)
    compiled.num_devices = 1  # else it asks the CUDA that is not there
    compiled(*operands, 0)
