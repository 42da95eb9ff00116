"""PTX and launch files of real kernels, made on a machine without a GPU.

`python build.py FOLDER NAME...` writes NAME.ptx and NAME.json, the launch file, for names of CUTLASS, CUTE and TRITON:

- CUTLASS 4.2 (nvcc, g++, the PyPI package nvidia-cutlass): half a minute and 3 GB of memory each;
- CuTe DSL 4.8 (gcc, nvidia-cutlass-dsl): seconds;
- Triton 3.9 (gcc, Python's headers, triton, which needs none of its dependencies): seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAND_IN = HERE / "stand_in_runtime.c"


class BuildError(RuntimeError):
    """What is missing, or what a compiler or the program said."""


@dataclass(frozen=True)
class Program:
    """A Python program beside this file, and its arguments after the folder."""

    name: str
    arguments: tuple[str, ...] = ()


CUTE: Mapping[str, Program] = {
    "cute_gemm_1x1": Program("cute_gemm.py", ("1",)),
    "cute_gemm_2x1": Program("cute_gemm.py", ("2",)),
    "cute_attention": Program("cute_attention.py"),
}
TRITON: Mapping[str, Program] = {
    name: Program("triton_kernels.py", (name,))
    for name in ("triton_product", "triton_persistent", "triton_specialised", "triton_attention")
}


@dataclass(frozen=True)
class CutlassGemm:
    """The macros of cutlass_gemm.cu, and the GEMM that is launched: M, N, K and how many SMs there are."""

    sizes: tuple[int, int, int, int]
    macros: Mapping[str, int] = field(default_factory=dict)


WS, COOPERATIVE, PINGPONG = ({"SCHEDULE": schedule} for schedule in range(3))
VOID = {"SOURCE": 0}


def _clusters() -> dict[str, CutlassGemm]:
    """Each schedule, cluster and source, launched as one cluster, which computes four tiles if it persists."""
    table = {}
    for name, schedule in (("ws", WS), ("coop", COOPERATIVE), ("pp", PINGPONG)):
        for m, n in ((1, 1), (2, 1), (1, 2), (2, 2)):
            cluster = {"CLUSTER_M": m, "CLUSTER_N": n}
            tiles = 1 if name == "ws" else 2
            sizes = (128 * m * tiles, 128 * n * tiles, 512, m * n)
            table[f"{name}_{m}x{n}"] = CutlassGemm(sizes, {**schedule, **cluster})
            table[f"{name}_{m}x{n}_void"] = CutlassGemm(sizes, {**schedule, **cluster, **VOID})
    return table


CUTLASS: Mapping[str, CutlassGemm] = {
    **_clusters(),
    "ws": CutlassGemm((128, 128, 1024, 1), WS),
    "ws_void": CutlassGemm((128, 128, 512, 1), {**WS, **VOID}),
    "ws_2x1": CutlassGemm((256, 128, 512, 2), {**WS, "CLUSTER_M": 2}),
    "ws_c22": CutlassGemm((128, 128, 512, 1), {**WS, "STAGES_C": 2, "STAGES_D": 2, "REUSE": 1, "DELAY": 0}),
    "ws_long": CutlassGemm((128, 128, 65536, 1), WS),
    "coop": CutlassGemm((256, 256, 1024, 2), COOPERATIVE),
    "coop_2x1": CutlassGemm((512, 256, 512, 4), {**COOPERATIVE, "CLUSTER_M": 2}),
    "coop_void": CutlassGemm((256, 256, 512, 2), {**COOPERATIVE, **VOID}),
    "coop_wide": CutlassGemm((256, 512, 512, 1), {**COOPERATIVE, "TILE_N": 256}),
    "coop_streamk": CutlassGemm((384, 384, 1024, 4), {**COOPERATIVE, "STREAM_K": 1}),
    "coop_streamk_2x1": CutlassGemm((768, 384, 1024, 8), {**COOPERATIVE, "STREAM_K": 1, "CLUSTER_M": 2}),
    "coop_grouped": CutlassGemm((256, 256, 256, 2), {**COOPERATIVE, "GROUPS": 3}),
    "coop_grouped_2x1": CutlassGemm((512, 256, 256, 2), {**COOPERATIVE, "GROUPS": 3, "CLUSTER_M": 2}),
    "pp": CutlassGemm((256, 512, 512, 2), PINGPONG),
    "pp_s2": CutlassGemm((256, 512, 512, 2), {**PINGPONG, "STAGES": 2}),
    "pp_void": CutlassGemm((256, 256, 512, 2), {**PINGPONG, **VOID}),
    "pp_64": CutlassGemm((256, 256, 512, 1), {**PINGPONG, "TILE_M": 64}),
    "pp_grouped_void": CutlassGemm((256, 256, 256, 2), {**PINGPONG, **VOID, "GROUPS": 3, "TILE_M": 64}),
}


def nvcc() -> str:
    """The compiler of the CUDA toolkit: on the PATH, or in CUDA_HOME."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if found is None:
        raise BuildError("this needs nvcc, the compiler of the CUDA toolkit, on the PATH")
    return found


def cutlass_headers() -> tuple[Path, Path]:
    """The header folders of the PyPI package nvidia-cutlass that this interpreter imports."""
    found = importlib.util.find_spec("cutlass_library")
    if found is None or found.origin is None:
        raise BuildError("this needs the headers of CUTLASS: pip install nvidia-cutlass==4.2.0.0")
    source = Path(found.origin).parent / "source"
    return source / "include", source / "tools" / "util" / "include"


def build_cutlass(name: str, into: Path) -> tuple[Path, Path]:
    """Make NAME.ptx and NAME.json of a kernel of CUTLASS in a folder; returns both paths.

    Raises BuildError if a tool is missing or refuses.
    """
    gemm = CUTLASS[name]
    into.mkdir(parents=True, exist_ok=True)
    ptx = into / f"{name}.ptx"
    with tempfile.TemporaryDirectory() as folder:
        program = compile_cutlass(gemm, Path(folder), stand_in=True)
        shutil.copyfile(Path(folder) / "cutlass_gemm.ptx", ptx)
        return ptx, launched([str(program), *map(str, gemm.sizes)], ptx, {"LAUNCH": "1"})


def build_cute(name: str, into: Path, python: str = sys.executable) -> tuple[Path, Path]:
    """Make NAME.ptx and NAME.json of a kernel in CuTe DSL, which an interpreter imports; returns both paths."""
    program = CUTE[name]
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "CUTE_DSL_ARCH": "sm_90a",
            "CUTE_DSL_DUMP_DIR": folder,
            "CUTE_DSL_KEEP": "ptx",
            "CUTE_DSL_LIBS": str(compile_stand_in(Path(folder) / "libstand_in.so")),
            "CUTE_DSL_LINEINFO": "1",
            "CUTE_DSL_NO_CACHE": "1",
        }
        ptx = into / f"{name}.ptx"
        return ptx, launched([python, str(HERE / program.name), str(into), *program.arguments], ptx, variables)


def build_triton(name: str, into: Path, python: str = sys.executable) -> tuple[Path, Path]:
    """Make NAME.ptx and NAME.json of a kernel in Triton, which an interpreter imports; returns both paths."""
    program = TRITON[name]
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compile_stand_in(Path(folder) / "libcuda.so.1")
        variables = {
            "LD_LIBRARY_PATH": folder,
            "TRITON_CACHE_DIR": str(Path(folder) / "cache"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            "TRITON_LIBCUDA_PATH": folder,
        }
        ptx = into / f"{name}.ptx"
        return ptx, launched([python, str(HERE / program.name), str(into), *program.arguments], ptx, variables)


def compile_stand_in(library: Path) -> Path:
    """The stand-in for CUDA as a shared library of a name."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BuildError("this needs gcc")
    run([compiler, "-O1", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", str(library), str(STAND_IN)])
    return library


def launched(command: Sequence[str], ptx: Path, variables: Mapping[str, str]) -> Path:
    """The launch file, beside the PTX, of the one kernel that a program launches on the stand-in for CUDA."""
    launch = ptx.with_suffix(".json")
    launch.unlink(missing_ok=True)
    run(command, {**variables, "STAND_IN_PTX": str(ptx), "STAND_IN_LAUNCHES": str(launch)})
    lines = launch.read_text().splitlines() if launch.exists() else []
    if len(lines) != 1:
        raise BuildError(f"{Path(command[0]).name} launches {len(lines)} kernels, not one")
    fields = (f' "{key}": {json.dumps(value)}' for key, value in json.loads(lines[0]).items())
    launch.write_text("{\n" + ",\n".join(fields) + "\n}\n")
    return launch


def compile_cutlass(gemm: CutlassGemm, folder: Path, stand_in: bool) -> Path:
    """The program of cutlass_gemm.cu in a folder, with cutlass_gemm.ptx beside it.

    stand_in: it runs without a GPU, on stand_in_runtime.c; else it is for one, and linked with CUDA's runtime.
    """
    compiler, program, thing = nvcc(), folder / "gemm", folder / "gemm.o"
    macros = [f"-D{macro}={value}" for macro, value in gemm.macros.items()]
    headers = [f"-I{headers}" for headers in cutlass_headers()]
    code = "compute_90a" if stand_in else "[compute_90a,sm_90a]"
    # CUTLASS leaves the padding of its parameters as it was on the stack: zero makes launch files comparable.
    zero = "-ftrivial-auto-var-init=zero"
    options = ["-std=c++17", "-DNDEBUG", "--expt-relaxed-constexpr", "-w", "-lineinfo", "-Xcompiler", zero]
    target = ["-gencode", f"arch=compute_90a,code={code}"]
    keep = ["--keep", "--keep-dir", str(folder)]
    source = str(HERE / "cutlass_gemm.cu")
    run([compiler, *options, *target, *headers, *macros, *keep, "-c", "-o", str(thing), source])
    runtime = ["-cudart", "none", str(STAND_IN)] if stand_in else ["-cudart", "static"]
    run([compiler, "-o", str(program), str(thing), *runtime])
    return program


def run(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What a command prints; raises BuildError with what it says if it fails."""
    done = subprocess.run(command, env={**os.environ, **(variables or {})}, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip()[-2000:]
        raise BuildError(f"{Path(command[0]).name} fails with exit code {done.returncode}: {said}")
    return done.stdout


def build(name: str, into: Path) -> tuple[Path, Path]:
    """Make NAME.ptx and NAME.json of any kernel here, with the packages that this interpreter imports."""
    for table, builder in ((CUTLASS, build_cutlass), (CUTE, build_cute), (TRITON, build_triton)):
        if name in table:
            return builder(name, into)
    raise BuildError(f"there is no kernel {name}; there are {', '.join((*CUTLASS, *CUTE, *TRITON))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    for name in arguments.names:
        print(*build(name, arguments.folder))


if __name__ == "__main__":
    main()
