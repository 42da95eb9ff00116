"""Launch files (docs/ptx_launch.md) of the hand-written kernels, as their programs launch them; no GPU is asked.

The kernels are compiled with UNWATCHED (kernels/recorder.cuh): then they take their parameters by value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from sm90_verify.evidence.hardware.gemm.config import K_TILE, SUBTILE, Config
from sm90_verify.evidence.hardware.pipelines.shapes import FIRST, LINE, Shape
from sm90_verify.evidence.hardware.recorder.tensor_map import BYTES
from sm90_verify.spec.ptx.limits import WARPGROUP

GLOBAL_MEMORY = 1 << 44
"""Where arrays are said to lie, each as far from the next."""
ARGUMENTS = struct.Struct("<QQQIxxxxQQIxxxxQQIIIxxxx")
"""struct Arguments of kernels/pipelines.cu: the orders, source and output (words, map, stride), scratch, errors, trips,
rows, flood.
"""


def launch_file(
    kernel: str, ctas: int, threads: int, parameters: Any, *, cluster: int = 1, shared: int = 0, maps: Any = ()
) -> dict[str, Any]:
    """parameters, maps: as the file has them."""
    return {
        "launch": 1,
        "kernel": kernel,
        "grid": [ctas, 1, 1],
        "block": [threads, 1, 1],
        "cluster": [cluster, 1, 1],
        "dynamic_shared": shared,
        "parameters": parameters,
        **({"tensor_maps": list(maps)} if maps else {}),
    }


def pipeline_launch(known: Shape, ctas: int, *, tensor: bool = False) -> dict[str, Any]:
    """Of one cluster of a kernel of kernels/pipelines.cu. tensor: it copies by tensor maps, in global memory."""
    source, output, errors, maps = (GLOBAL_MEMORY * place for place in (1, 2, 3, 4))
    of_source, of_output = (maps, maps + 2 * BYTES) if tensor else (0, 0)
    given = (0, source, of_source, known.source_bytes, output, of_output, known.stage, 0, errors)
    parameters = ARGUMENTS.pack(*given, known.trips, known.rows, 0).hex()
    boxes = (*known.boxes, known.stage)
    described = [
        {"address": hex(maps + BYTES * number), "element": "u32", "box": [LINE // 4, bytes // LINE]}
        for number, bytes in enumerate(boxes)
        if bytes >= LINE
    ]
    shared = FIRST + known.shared
    used = described if tensor else ()
    return launch_file("pipeline", ctas, known.threads, parameters, cluster=ctas, shared=shared, maps=used)


def gemm_launch(config: Config, k_tiles: int, tiles: int) -> dict[str, Any]:
    """Of one cluster of the kernel of kernels/gemm.cu, which has so many tiles of D for each CTA."""
    (rows, columns), element = config.tile, "bf16" if config.bfloat16 else "f16"
    boxes: Sequence[tuple[str, list[int], int]] = (
        (element, [K_TILE, rows], 128),
        (element, [K_TILE, columns // config.ctas], 128),
        ("f16", [SUBTILE, rows], 64),
        ("f16", [SUBTILE, rows], 64),
    )
    described = [
        {"offset": BYTES * number, "element": kind, "box": box, "swizzle": swizzle}
        for number, (kind, box, swizzle) in enumerate(boxes)
    ]
    sizes = (config.ctas * tiles, config.ctas, k_tiles)
    after = BYTES * len(boxes)
    parameters = [{"offset": after + 4 * n, "type": "u32", "value": value} for n, value in enumerate(sizes)]
    threads = WARPGROUP * (2 if config.schedule == "ws" else 3)
    shared = config.bytes + 1024
    return launch_file("gemm", config.ctas, threads, parameters, cluster=config.ctas, shared=shared, maps=described)


def proxy_fences_launch(reader: int, fence: int, rounds: int = 4) -> dict[str, Any]:
    """Of kernels/proxy_fences.cu."""
    parameters = struct.pack("<QQiii", GLOBAL_MEMORY, 2 * GLOBAL_MEMORY, reader, fence, rounds).hex()
    return launch_file("proxy_fences", 1, 2 * WARPGROUP, parameters)


def bulk_groups_launch(other: int) -> dict[str, Any]:
    """Of kernels/bulk_groups.cu."""
    parameters = struct.pack("<QQi", GLOBAL_MEMORY, 2 * GLOBAL_MEMORY, other).hex()
    return launch_file("bulk_groups", 1, 64, parameters, shared=1 << 16)
