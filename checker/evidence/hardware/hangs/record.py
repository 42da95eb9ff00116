"""Core dumps of hanging kernels, as CUDA makes them when they are asked for.

`python -m sm90_verify.evidence.hardware.hangs.record build --to PROGRAMS [NAME...]` compiles the programs and their PTX
(nvcc; for those of CUTLASS the headers of the PyPI package nvidia-cutlass); `... dump --programs PROGRAMS --to FOLDER`
runs each on a Hopper GPU, asks for a dump while it hangs, kills it, and keeps in FOLDER the dump (NAME.cudacore.xz),
the PTX (NAME.ptx.xz), and in hangs.json what is known of it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sm90_verify.evidence.hardware.cutlass import includes
from sm90_verify.evidence.hardware.hangs.cases import CUTLASS, Hang, hangs
from sm90_verify.evidence.hardware.hangs.known import known
from sm90_verify.evidence.hardware.hangs.strip import stripped
from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError

FLAGS = "skip_global_memory,skip_local_memory,skip_nonrelocated_elf_images,skip_abort"
"""What a dump leaves out. skip_abort: the program is not ended by it."""
NO_CONSTANTS = "skip_constbank_memory"
"""The parameters stay. With driver 580, a dump of a kernel with constants in another bank than 0 (a jump table is one)
ends in a launch failure unless it leaves the banks out.
"""
OPTIONS = ("-std=c++17", "-O3", "-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]", "-w")
FOR_CUTLASS = ("--expt-relaxed-constexpr", "-DNDEBUG", "-Icutlass/include", "-Icutlass/tools/util/include")
SETTLING = 0.3
"""Seconds after which a kernel that has been launched hangs."""
PATIENCE = 30.0
"""Seconds for a program to start its kernel, and for a dump to be complete."""
ELF_HEADER = 64
"""Bytes."""
KNOWN = "hangs.json"


# ---------------------------------------------------------------- programs


def build(hang: Hang, folder: Path, *, scratch: Path | None = None, cutlass: str | None = None) -> Path:
    """Compiles a program to `folder`/NAME, and keeps its PTX as `folder`/NAME.ptx.

    scratch: where the sources are compiled, which line tables name; a folder `kernels` of the system's temporary one.
    cutlass: CUTLASS's top folder. Raises SpecError if there is no nvcc, or it refuses them.
    """
    compiler = nvcc()
    if compiler is None:
        raise SpecError("this needs nvcc, the compiler of the CUDA toolkit, on the PATH")
    scratch = scratch or Path(tempfile.gettempdir()) / "kernels"
    keep = scratch / "kept"
    shutil.rmtree(keep, ignore_errors=True)
    keep.mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sources().glob("*.cu*"):
        shutil.copy(file, scratch)
    options = [*OPTIONS, *(f"-D{name}={value}" for name, value in hang.macros.items()), "--keep", "--keep-dir", "kept"]
    options += ["-lineinfo"] * hang.lines
    if hang.source == CUTLASS:
        link = scratch / "cutlass"
        link.unlink(missing_ok=True)
        link.symlink_to(includes(cutlass)[0].parent)
        options += FOR_CUTLASS
    command = [compiler, *options, hang.source, "-o", str(folder.resolve() / hang.name)]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SpecError(f"nvcc refuses {hang.name}: {done.stderr.strip()[-500:]}")
    shutil.copy(keep / Path(hang.source).with_suffix(".ptx"), folder / f"{hang.name}.ptx")
    return folder / hang.name


# ---------------------------------------------------------------- dumps


def dump(hang: Hang, program: Path, arguments: Sequence[str] | None = None) -> bytes:
    """The core dump of a program that hangs; it is killed.

    arguments: in place of its own. Raises SpecError if the kernel ends, or there is no dump in time.
    """
    flags = FLAGS if hang.constants else f"{FLAGS},{NO_CONSTANTS}"
    with tempfile.TemporaryDirectory() as scratch:
        pipe, file = Path(scratch) / "pipe", Path(scratch) / "file"
        environment = {
            **os.environ,
            "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
            "CUDA_COREDUMP_PIPE": str(pipe),
            "CUDA_COREDUMP_FILE": str(file),
            "CUDA_COREDUMP_GENERATION_FLAGS": flags,
        }
        given = map(str, hang.arguments) if arguments is None else arguments
        command = [str(program.resolve()), *given]
        with (Path(scratch) / "output").open("w+") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=scratch)
            try:
                if hang.source == CUTLASS:
                    _until(pipe.exists, "a pipe")
                    time.sleep(4 * SETTLING)
                else:
                    _until(lambda: "started" in Path(output.name).read_text(), "a launch")
                time.sleep(SETTLING)
                if process.poll() is not None:
                    raise SpecError(f"{hang.name} does not hang: {Path(output.name).read_text().strip()[-300:]}")
                _until(lambda: _ask(pipe) or whole(file), "somebody who reads the pipe, or a dump of an exception")
                _until(lambda: whole(file), "a whole dump")
                return file.read_bytes()
            finally:
                process.kill()
                process.wait()


def whole(file: Path) -> bool:
    """Whether an ELF file has come to its end, as its header says where that is."""
    if not file.exists() or file.stat().st_size < ELF_HEADER:
        return False
    with file.open("rb") as stream:
        header = stream.read(ELF_HEADER)
    at, size, count = (int.from_bytes(header[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
    return header[:4] == b"\x7fELF" and at > 0 and file.stat().st_size >= at + size * max(count, 1)


def _ask(pipe: Path) -> bool:
    try:
        end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.write(end, b"\n")
    os.close(end)
    return True


def _until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            raise SpecError(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(0.02)


# ---------------------------------------------------------------- files


def keep(hang: Hang, core: bytes, programs: Path, folder: Path) -> int:
    """Keeps a dump without what is not about its kernel, its PTX unless that is CUTLASS's, and what is known of it.

    The bytes of what is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = {f"{hang.name}.cudacore.xz": _packed(stripped(core))}
    if hang.source != CUTLASS:
        content[f"{hang.name}.ptx.xz"] = _packed((programs / f"{hang.name}.ptx").read_bytes())
    for name, some in content.items():
        (folder / name).write_bytes(some)
    path = folder / KNOWN
    table = json.loads(path.read_text()) if path.exists() else {}
    table[hang.name] = known(hang)
    lines = [f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return sum(map(len, content.values()))


def _packed(content: bytes) -> bytes:
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)


# ---------------------------------------------------------------- command line


def _chosen(names: Sequence[str]) -> list[Hang]:
    known = {one.name: one for one in hangs()}
    for name in names:
        if name not in known:
            raise SpecError(f"no hang is called {name}: {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done; 1: some could not be dumped; 2: nothing could be done."""
    parser = argparse.ArgumentParser(prog="python -m sm90_verify.evidence.hardware.hangs.record", description=__doc__)
    parser.add_argument("what", choices=("build", "dump"))
    parser.add_argument("name", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=Path, default=Path(), metavar="FOLDER")
    parser.add_argument("--programs", type=Path, default=Path(), metavar="FOLDER", help="that build has filled")
    parser.add_argument("--cutlass", metavar="FOLDER", help="CUTLASS's top folder; without it, the installed package")
    given = parser.parse_intermixed_args(arguments)
    failed = 0
    try:
        given.to.mkdir(parents=True, exist_ok=True)
        for hang in _chosen(given.name):
            start = time.monotonic()
            try:
                if given.what == "build":
                    size = build(hang, given.to, cutlass=given.cutlass).stat().st_size
                else:
                    size = keep(hang, dump(hang, given.programs / hang.name), given.programs, given.to)
                print(f"{hang.name}: {size} bytes, {time.monotonic() - start:.1f} s", flush=True)
            except SpecError as error:
                failed += 1
                print(f"error: {hang.name}: {error}", file=sys.stderr, flush=True)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
