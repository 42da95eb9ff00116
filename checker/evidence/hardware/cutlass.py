"""Kernels of CUTLASS on a Hopper GPU: built from its headers, run, compared with a plain product.

`python -m sm90_verify.evidence.hardware.cutlass log NAME... --to FOLDER` keeps the synclogs of kernels of KERNELS, for
`verify log`;
`python -m sm90_verify.evidence.hardware.cutlass epilogue cooperative 4 4 --reuse --subtiles 2 --tiles 2` says what a
collective epilogue does, whatever CUTLASS's assertions say of it. Both need nvcc and the headers of the PyPI package
nvidia-cutlass 4.2.0.0. A kernel that hangs is killed: each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import lzma
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sm90_verify.evidence.frontier.box import Configuration
from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.gpu.device import sources
from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.errors import SpecError

PACKAGE = "nvidia-cutlass==4.2.0.0"
OPTIONS = (
    "-std=c++17",
    "-O2",
    "-gencode",
    "arch=compute_90a,code=sm_90a",
    "--expt-relaxed-constexpr",
    "-DNDEBUG",
    "-w",
)
LOGGING = ("-rdc=true", "-DCUTLASS_ENABLE_SYNCLOG")
"""The log's buffer is a variable that separately compiled device code must share."""
SECONDS = 20
"""A kernel that takes longer hangs; the others take milliseconds."""
RIGHT, WRONG, HANGS = "ok", "wrong", "hang"
START, END = "synclog start\n", "synclog end\n"

WS: Mapping[str, int | str] = {"SCHEDULE": 0}
COOPERATIVE: Mapping[str, int | str] = {"SCHEDULE": 1}
PINGPONG: Mapping[str, int | str] = {"SCHEDULE": 2}


@dataclass(frozen=True)
class CutlassKernel:
    """What kernels/cutlass_synclog.cu is compiled with, and the GEMM that it runs: M, N, K and CTAs (0: all SMs)."""

    sizes: tuple[int, int, int, int]
    macros: Mapping[str, int | str] = field(default_factory=dict)


KERNELS: Mapping[str, CutlassKernel] = {
    "coop_c22": CutlassKernel((256, 512, 512, 4), {**COOPERATIVE, "CLUSTER_M": 2, "CLUSTER_N": 2}),
    "coop_c12_void": CutlassKernel(
        (256, 1024, 1024, 2), {**COOPERATIVE, "CLUSTER_N": 2, "TILE_N": 256, "SOURCE": 0, "STAGES": 4}
    ),
    "pp_2x1": CutlassKernel((256, 512, 320, 2), {**PINGPONG, "CLUSTER_M": 2, "TILE_M": 64, "STAGES": 5}),
    "ws_fp8_s7": CutlassKernel(
        (128, 128, 2048, 0), {**WS, "INPUT": 2, "TILE_M": 64, "TILE_N": 64, "TILE_K": 128, "STAGES": 7}
    ),
    "pp_fp8_sums_1x2": CutlassKernel(
        (128, 512, 1024, 2), {**PINGPONG, "INPUT": 1, "TILE_M": 64, "TILE_K": 128, "CLUSTER_N": 2}
    ),
    "coop_mixed": CutlassKernel((256, 256, 512, 2), {**COOPERATIVE, "INPUT": 3}),
    "ws_tf32": CutlassKernel((128, 128, 512, 0), {**WS, "INPUT": 4, "TILE_K": 32, "CARVEOUT": 32768}),
    "coop_streamk": CutlassKernel((384, 384, 1024, 4), {**COOPERATIVE, "STREAM_K": 1}),
    "coop_streamk_2x1": CutlassKernel((512, 384, 1024, 4), {**COOPERATIVE, "STREAM_K": 1, "CLUSTER_M": 2}),
    "coop_grouped": CutlassKernel((256, 256, 256, 2), {**COOPERATIVE, "GROUPS": 3}),
    "pp_grouped_void": CutlassKernel((256, 256, 256, 2), {**PINGPONG, "GROUPS": 3, "SOURCE": 0, "TILE_M": 64}),
    "ws_reuse_delay": CutlassKernel(
        (128, 128, 512, 0),
        {**WS, "EPI_M": 64, "EPI_N": 32, "STAGES_C": 4, "STAGES_D": 3, "REUSE": "true", "DELAY": "true", "STAGES": 2},
    ),
    "coop_reuse_delay": CutlassKernel(
        (256, 512, 192, 2),
        {
            **COOPERATIVE,
            "EPI_M": 128,
            "EPI_N": 32,
            "STAGES_C": 3,
            "STAGES_D": 2,
            "REUSE": "true",
            "DELAY": "true",
            "STAGES": 3,
        },
    ),
    "coop_short": CutlassKernel((256, 512, 64, 2), {**COOPERATIVE, "TILE_N": 64}),
    "coop_cpasync": CutlassKernel((256, 256, 512, 2), {**COOPERATIVE, "COPY": 1}),
    "ws_cpasync": CutlassKernel((128, 128, 512, 0), {**WS, "COPY": 1, "STAGES": 3}),
    "pp_cpasync": CutlassKernel((256, 256, 512, 2), {**PINGPONG, "COPY": 1, "TILE_M": 64}),
    "tma_one_role": CutlassKernel((128, 128, 512, 0), {"SCHEDULE": 3, "STAGES": 3}),
    "ws_mixed": CutlassKernel((128, 128, 512, 0), {**WS, "INPUT": 3, "CARVEOUT": 98304}),
    "coop_tf32_2x1": CutlassKernel((256, 256, 512, 4), {**COOPERATIVE, "INPUT": 4, "TILE_K": 32, "CLUSTER_M": 2}),
    "coop_scaled": CutlassKernel((256, 256, 1024, 2), {**COOPERATIVE, "INPUT": 5, "TILE_K": 128}),
    "pp_scaled_1x2": CutlassKernel(
        (256, 256, 640, 2), {**PINGPONG, "INPUT": 5, "TILE_K": 128, "TILE_M": 64, "CLUSTER_N": 2}
    ),
}


def includes(folder: str | None = None) -> tuple[Path, Path]:
    """CUTLASS's include folders: below `folder`, or of the installed package. SpecError if they are not there."""
    if folder is None:
        found = importlib.util.find_spec("cutlass_library")
        places = list(found.submodule_search_locations or ()) if found else []
        if not places:
            raise SpecError(f"CUTLASS's headers are missing: pip install --no-deps {PACKAGE}, or give --cutlass FOLDER")
        folder = str(Path(places[0]) / "source")
    both = Path(folder) / "include", Path(folder) / "tools" / "util" / "include"
    if not (both[0] / "cutlass" / "arch" / "synclog.hpp").is_file() or not both[1].is_dir():
        raise SpecError(f"{folder} has no include/cutlass/arch/synclog.hpp: CUTLASS 4.2 has it; give its top folder")
    return both


def build(
    source: str,
    macros: Mapping[str, int | str],
    program: Path,
    *,
    options: Sequence[str] = (),
    cutlass: str | None = None,
) -> Path:
    """Compiles kernels/`source` with macros to `program`, in about half a minute.

    cutlass: CUTLASS's top folder. Raises SpecError if there is no nvcc, there are no headers, or nvcc refuses them.
    """
    folders = includes(cutlass)
    compiler = nvcc()
    if compiler is None:
        raise SpecError("this needs nvcc, the compiler of the CUDA toolkit, on the PATH")
    command = [compiler, *OPTIONS, *options, *(f"-I{folder}" for folder in folders)]
    command += [f"-D{name}={value}" for name, value in macros.items()]
    done = subprocess.run(
        [*command, str(sources() / source), "-o", str(program)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or [f"exit code {done.returncode}"]
        raise SpecError(f"nvcc refuses {source}: {errors[0].strip()[:300]}")
    return program


def run(program: Path, arguments: Sequence[int], *, seconds: float = SECONDS) -> tuple[str, str]:
    """What a program does, RIGHT, WRONG or HANGS, and its output. SpecError if it could not run its kernel."""
    try:
        done = subprocess.run(
            [str(program.resolve()), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return HANGS, ""
    except OSError as error:
        raise SpecError(f"cannot run {program}: {error}") from None
    if done.returncode not in (0, 1):
        lines = (done.stdout + done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise SpecError(f"the kernel was not run: {lines[-1][:300]}; it needs a Hopper GPU and its driver")
    return (WRONG if done.returncode else RIGHT), done.stdout


def log_of(output: str) -> str:
    """The log that a program of cutlass_synclog.cu printed, with its `#` line; SpecError if there is none.

    The kernel itself prints a log when its first thread ends; only the one that is printed after it is whole.
    """
    config = next((line for line in output.splitlines() if line.startswith("#")), None)
    start = output.rfind(START)
    end = output.find(END, start)
    if config is None or start < 0 or end < 0:
        raise SpecError("the program printed no whole synclog: is it built with CUTLASS_ENABLE_SYNCLOG?")
    return f"{config}\n{output[start : end + len(END)]}"


def record(name: str, folder: Path, *, cutlass: str | None = None, program: Path | None = None) -> Path:
    """Runs a kernel of KERNELS and keeps its log as `folder`/`name`.log.xz.

    program: the built one, if there is one already. Raises SpecError where it cannot be built or run, if it hangs, and
    if its numbers are wrong.
    """
    if name not in KERNELS:
        raise SpecError(f"no kernel is called {name}: {', '.join(KERNELS)}")
    kernel = KERNELS[name]
    with tempfile.TemporaryDirectory() as scratch:
        if program is None:
            built = Path(scratch) / name
            program = build("cutlass_synclog.cu", kernel.macros, built, options=LOGGING, cutlass=cutlass)
        outcome, output = run(program, kernel.sizes)
    if outcome != RIGHT:
        raise SpecError(f"{name}: " + ("it hangs" if outcome == HANGS else output.strip().splitlines()[-1]))
    packed = lzma.compress(log_of(output).encode("ascii"), preset=9)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.log.xz"
    path.write_bytes(packed)
    return path


# ---------------------------------------------------------------- epilogues

TILE = 128
ELEMENTS = {16: "cutlass::half_t", 32: "float"}
EDGE = 8
"""Tiles along M and N: each of 64 / tiles CTAs works on `tiles` of them."""
RUNS = 10


def epilogue_tile(schedule: str, subtiles: int) -> tuple[int, int]:
    """M and N of an epilogue tile, of which `subtiles` make an output tile of 128 x 128.

    It has all rows of a cooperative tile, and 64 of the others: those of one warpgroup.
    """
    m = TILE if schedule == "cooperative" else TILE // 2
    n = TILE * TILE // (subtiles * m) if subtiles > 0 else 0
    if n % 16 or not 0 < n <= TILE or m * n * subtiles != TILE * TILE:
        least = TILE // m
        raise SpecError(f"{subtiles} epilogue tiles do not make a tile of {TILE} x {TILE}: give {least} to 8, doubling")
    return m, n


def epilogue_macros(point: Configuration) -> dict[str, int | str]:
    """What kernels/cutlass_epilogue.cu is compiled with for a configuration; its stages have f16 or f32 elements."""
    m, n = epilogue_tile(point.schedule, point.subtiles)
    bits = [8 * size // (m * n) for size in (point.bytes_c, point.bytes_d)]
    if any(one not in ELEMENTS for one in bits):
        raise SpecError(f"stages of {point.bytes_c} and {point.bytes_d} bytes are not {m} x {n} elements of f16 or f32")
    return {
        "KIND": SCHEDULES.index(point.schedule),
        "EPI_M": m,
        "EPI_N": n,
        "STAGES_C": point.stages_c,
        "STAGES_D": point.stages_d,
        "REUSE": str(point.reuse_smem_c).lower(),
        "DELAY": str(point.delay_tma_store).lower(),
        "ELEMENT_C": ELEMENTS[bits[0]],
        "ELEMENT_D": ELEMENTS[bits[1]],
    }


def epilogue_sizes(point: Configuration) -> tuple[int, int, int, int, int]:
    """M, N, K, CTAs and runs, so that each CTA works on as many tiles as the configuration says."""
    tiles = EDGE * EDGE
    if not isinstance(point.tiles, int) or point.tiles < 1 or tiles % point.tiles:
        raise SpecError(f"tiles={point.tiles}: give a divisor of {tiles}")
    if point.schedule == "ws" and point.tiles != 1:
        raise SpecError("a CTA of the ws schedule works on one tile")
    return TILE * EDGE, TILE * EDGE, 256, tiles // point.tiles, RUNS


def run_epilogue(point: Configuration, *, cutlass: str | None = None) -> str:
    """What a GEMM with this epilogue does on the GPU: RIGHT, WRONG (in some of ten runs) or HANGS."""
    macros, sizes = epilogue_macros(point), epilogue_sizes(point)
    with tempfile.TemporaryDirectory() as scratch:
        program = build("cutlass_epilogue.cu", macros, Path(scratch) / "epilogue", cutlass=cutlass)
        return run(program, sizes)[0]


# ---------------------------------------------------------------- command line


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.hardware.cutlass",
        description="Builds and runs kernels of CUTLASS on a Hopper GPU.",
    )
    parser.add_argument("--cutlass", metavar="FOLDER", help="CUTLASS's top folder; without it, the installed package")
    commands = parser.add_subparsers(dest="command", required=True)
    log = commands.add_parser("log", help="keeps the synclogs of kernels")
    log.add_argument("name", nargs="*", metavar="NAME", help=f"{', '.join(KERNELS)}; all if none is given")
    log.add_argument("--to", default=".", metavar="FOLDER", help="where NAME.log.xz goes")
    one = commands.add_parser("epilogue", help="says what an epilogue does: ok, wrong or hang")
    one.add_argument("schedule", choices=SCHEDULES)
    one.add_argument("stages_c", type=int)
    one.add_argument("stages_d", type=int)
    one.add_argument("--reuse", action="store_true")
    one.add_argument("--delay", action="store_true")
    one.add_argument("--subtiles", type=int, default=4)
    one.add_argument("--tiles", type=int, default=1)
    one.add_argument("--bits", type=int, nargs=2, default=(16, 16), metavar=("C", "D"))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done; 2: it could not be done."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "log":
            for name in given.name or KERNELS:
                print(record(name, Path(given.to), cutlass=given.cutlass), flush=True)
        else:
            m, n = epilogue_tile(given.schedule, given.subtiles)
            size_c, size_d = (bits * m * n // 8 for bits in given.bits)
            point = Configuration(
                given.schedule,
                given.stages_c,
                given.stages_d,
                given.delay,
                given.reuse,
                given.subtiles,
                given.tiles,
                size_c,
                size_d,
            )
            print(run_epilogue(point, cutlass=given.cutlass))
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
