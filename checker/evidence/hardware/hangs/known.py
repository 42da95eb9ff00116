"""What is known of a hang beside its dump: where each barrier lies, and what the specification says of it in the end.

The model that makes the same mistake is run until no role can take a step that changes anything. In these models every
order of steps comes to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sm90_verify.counterexample.trace import initial_state, is_enabled, take
from sm90_verify.evidence.hardware.hangs.cases import CUTLASS, GEMM, PIPELINES, Hang
from sm90_verify.evidence.hardware.pipelines.shapes import NAMES
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx.numbers import signed_tx

SHARED = 0x400
"""Where a kernel's own shared memory begins on Hopper."""
ENDED = "end"
BYTES = 8
"""Of an mbarrier."""
PLACES = {"counted": 0x400, "counting": 0x408, "bytes": 0x410, "early": 0x418, "second": 0x420}
"""Of kernels/hang_places.cu."""


def known(hang: Hang) -> dict[str, Any]:
    """As JSON: how the program was made, and for one with a model its barriers and what its roles wait for."""
    found: dict[str, Any] = {
        "source": hang.source,
        "macros": dict(hang.macros),
        "arguments": list(hang.arguments),
        "mistake": hang.mistake,
        "cluster": hang.cluster,
        "lines": hang.lines,
        "addresses": addresses(hang),
    }
    if hang.model is not None:
        found |= settled(compile_kernel(trace(hang.model)))
    return found


def settled(machine: Machine) -> dict[str, Any]:
    """By barrier that can change, its parts in the end; and by role that has not ended, what it waits for."""
    state = initial_state(machine)
    while True:
        following = (take(machine, one, state) for one in machine.actions if is_enabled(machine, one, state))
        after = next((one for one in following if one != state), None)
        if after is None:
            break
        state = after
    barriers: dict[str, dict[str, int]] = {}
    for variable in machine.variables:
        name, _, part = variable.name.rpartition(".")
        if part in ("phase", "pending", "tx"):
            value = state[variable.name]
            barriers.setdefault(name, {})[part] = signed_tx(value) if part == "tx" else value
    waits = {}
    for role in machine.roles:
        place = role.locations[state[role.counter]]
        if place.op != ENDED:
            waits[role.name] = {"op": place.op, "object": place.object}
    return {"barriers": barriers, "waits": waits}


def addresses(hang: Hang) -> dict[str, int]:
    """By barrier as the model calls it, its address in the shared memory of a CTA."""
    if hang.source == PIPELINES:
        return dict(_pipelines(hang.macros))
    if hang.source == GEMM:
        return dict(_gemm(hang.macros))
    return dict(_cutlass(hang.macros)) if hang.source == CUTLASS else dict(PLACES)


def _numbered(name: str, count: int, first: int) -> Iterator[tuple[str, int]]:
    for number in range(count):
        yield f"{name}[{number}]" if count > 1 else name, first + BYTES * number


def _pipelines(macros: Mapping[str, int | str]) -> Iterator[tuple[str, int]]:
    """enum Place of kernels/pipelines.cu."""
    kernel = NAMES[int(macros["KERNEL"])]
    if kernel == "ordered-sequence":
        yield from _numbered("order.barrier", int(macros["STAGES"]) * int(macros["CONSUMERS"]), SHARED + 256)
        return
    name, stages = ("epi_load", "STAGES_C") if kernel == "epilogue" else ("pipeline", "STAGES")
    yield from _numbered(f"{name}.full", int(macros[stages]), SHARED)
    yield from _numbered(f"{name}.empty", int(macros[stages]), SHARED + 128)


def _gemm(macros: Mapping[str, int | str]) -> Iterator[tuple[str, int]]:
    """struct Barriers of kernels/gemm_shape.cuh."""
    stages, stages_c = int(macros["STAGES"]), int(macros["STAGES_C"])
    yield from _in_turn(
        ("mainloop.full", stages),
        ("mainloop.empty", stages),
        ("epi_load.full", stages_c),
        ("epi_load.empty", stages_c),
        ("load_order.barrier", 2),
        ("math_order.barrier", 4),
    )


def _cutlass(macros: Mapping[str, int | str]) -> Iterator[tuple[str, int]]:
    """SharedStorage of sm90_gemm_tma_warpspecialized_cooperative.hpp: two stages of the mainloop, then C's."""
    stages_c = int(macros["STAGES_C"])
    found = _in_turn(("", 2), ("", 2), ("epi_load.full", stages_c), ("epi_load.empty", stages_c))
    yield from (one for one in found if one[0].startswith("epi_load"))


def _in_turn(*arrays: tuple[str, int]) -> Iterator[tuple[str, int]]:
    at = SHARED
    for name, count in arrays:
        yield from _numbered(name, count, at)
        at += BYTES * count
