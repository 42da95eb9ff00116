"""The PTX of the hand-written kernels: made by nvcc, and kept in one archive, since most of it is alike."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from sm90_verify.evidence.hardware.from_ptx.cases import PtxCase
from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError

PTX_OPTIONS = ("-std=c++17", "-arch=sm_90a", "-lineinfo", "-w", "-DUNWATCHED", "-ptx")
"""UNWATCHED: without the watch that ends a kernel which hangs, as kernels elsewhere are."""


def ptx_of(case: PtxCase) -> str:
    """The PTX that nvcc makes today, with the names of files and no folders. Raises SpecError without nvcc, or if it
    refuses the source.
    """
    compiler = nvcc()
    if compiler is None:
        raise SpecError("this needs nvcc, the compiler of the CUDA toolkit, on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.ptx"
        macros = [f"-D{name}={value}" for name, value in case.macros.items()]
        command = [compiler, *PTX_OPTIONS, *macros, "-o", str(made), str(sources() / case.source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SpecError(f"nvcc refuses {case.compiled}: {done.stderr.strip()[-500:]}")
        return re.sub(r'(\.file\s+\d+ )"[^"]*/', r'\1"', made.read_text())


def made_by(text: str) -> tuple[str, ...]:
    """What PTX says of the compiler that has made it."""
    return tuple(line for line in text.split("\n")[:12] if line.startswith("//"))


def write_archive(path: Path, texts: Mapping[str, str]) -> None:
    """By name, in this order."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for name, text in texts.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def read_archive(path: Path) -> dict[str, str]:
    """By name."""
    found = {}
    with tarfile.open(path, "r:xz") as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name] = file.read().decode()
    return found


def compile_all(cases: Iterable[PtxCase]) -> dict[str, str]:
    """By what is compiled, its PTX; each once."""
    found: dict[str, str] = {}
    for case in cases:
        if case.compiled not in found:
            found[case.compiled] = ptx_of(case)
    return found
