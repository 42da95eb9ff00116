"""The sources of the hand-written kernels: numbers and names are those of the models, recording leaves nothing behind
where it is not compiled, and every mistake is another kernel.
"""

from __future__ import annotations

import re
import struct
import subprocess

import pytest
from needs import needs_nvcc
from taped import CASES

from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.evidence.hardware.pipelines import kernel as pipelines
from sm90_verify.evidence.hardware.pipelines import mistakes as table
from sm90_verify.evidence.hardware.pipelines import shapes
from sm90_verify.evidence.hardware.recorder import tapes
from sm90_verify.evidence.hardware.recorder.conform import atoms
from sm90_verify.gpu.device import sources
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace

# ---------------------------------------------------------------- numbers and names


def _enumerators(file, name):
    text = re.sub(r"//[^\n]*", "", (sources() / file).read_text())
    body = re.search(rf"enum {name}[^{{]*{{([^}}]*)}}", text)
    return [one.split("=")[0].strip().lower() for one in body.group(1).split(",") if one.strip()]


def test_numbers_mean_the_same_on_both_sides():
    assert tuple(_enumerators("recorder.cuh", "Code")) == tapes.CODES
    assert tuple(one.replace("_", "-") for one in _enumerators("pipelines.cuh", "Mistake")) == table.MISTAKES
    points = [one.removeprefix("before_") for one in _enumerators("pipelines.cuh", "Point")]
    assert {name: number for number, name in enumerate(points, 1)} == table.POINTS


@pytest.mark.parametrize("kernel", shapes.NAMES)
def test_every_object_of_the_models_has_a_number(kernel):
    """At all sizes: each role has places, each barrier and buffer of its program is known, and nothing else."""
    for parameters in pipelines.sizes(kernel):
        model = kernels()[kernel](**parameters)
        plan, shape = lower(trace(model)), shapes.shape(shapes.NAMES.index(kernel), model)
        homes = {program.home for program in plan.programs}
        assert {home + role for home in homes for role in shape.places} == {one.name for one in plan.programs}
        known = {home + name for home in homes for names in shape.objects.values() for name in names}
        used = set()
        for program in plan.programs:
            for node in program.nodes:
                used |= (
                    {part for atom in atoms(node.operation) for part in atom[1:]}
                    if node.operation is not None
                    else set()
                )
        assert {one for one in used if isinstance(one, str)} <= known
        assert all(len(set(names)) == len(names) for names in shape.objects.values())


def test_unknown_kernels_are_refused():
    with pytest.raises(SpecError, match="use one of tma-async"):
        pipelines.sizes("gemm")
    with pytest.raises(SpecError, match="of one size"):
        shapes.shape(5, kernels()["epilogue"](tiles=1, bytes_d=2048))


# ---------------------------------------------------------------- the compiled kernels


def code(text_of, *macros, folder):
    """The machine code of kernels/pipelines.cu, with its text and that of its headers changed."""
    for name in ("pipelines.cu", "pipelines.cuh", "recorder.cuh", "ptx.cuh"):
        (folder / name).write_text(text_of(name, (sources() / name).read_text()))
    cubin = folder / "kernel.cubin"
    command = [nvcc(), "-std=c++17", "-arch=sm_90a", "-cubin", "-o", str(cubin), *macros, str(folder / "pipelines.cu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return section(cubin.read_bytes(), ".text.pipeline")


def section(elf, name):
    """The bytes of a section of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<3H", elf, 0x3A)
    rows = [struct.unpack_from("<IIQQQQ", elf, table + size * number) for number in range(count)]
    for title, _, _, _, start, length in rows:
        at = rows[names][4] + title
        if elf[at : elf.index(b"\0", at)] == name.encode():
            return elf[start : start + length]
    raise AssertionError(f"no section {name}")


def macros_of(kernel, parameters):
    model = kernels()[kernel](**parameters)
    kind = shapes.NAMES.index(kernel)
    macros = {"KERNEL": kind, "FLOOD": pipelines.FLOOD, **shapes.shape(kind, model).macros}
    if model.shape.size > 1:
        macros |= {"CLUSTER": model.shape.size, "CLUSTER_X": model.shape.x, "CLUSTER_Y": model.shape.y}
    return [f"-D{name}={value}" for name, value in macros.items()]


def as_it_is(name, text):
    return text


def without_recording(name, text):
    """Without any line that records or delays, not even an empty one; what defines the macros stays."""
    if name in ("recorder.cuh", "ptx.cuh"):
        return text
    lines = text.splitlines()
    kept = [line for line in lines if not re.match(r"\s*(RECORD_\w+|HOLD)\(", line)]
    assert len(lines) - len(kept) > 20
    joined = "\n".join(kept) + "\n"
    assert "RECORD_" not in joined and "HOLD(" not in joined
    return joined


@needs_nvcc
@pytest.mark.parametrize(("kernel", "parameters"), CASES, ids=lambda one: one if isinstance(one, str) else "")
def test_recording_leaves_nothing_behind(kernel, parameters, tmp_path):
    macros = macros_of(kernel, parameters)
    plain = code(without_recording, *macros, folder=tmp_path)
    assert code(as_it_is, *macros, folder=tmp_path) == plain
    assert code(as_it_is, *macros, "-DRECORD", folder=tmp_path) != plain
    assert code(as_it_is, *macros, "-DDIRECTED", folder=tmp_path) != plain


@needs_nvcc
@pytest.mark.parametrize("kernel", shapes.NAMES)
def test_every_mistake_is_another_kernel(kernel, tmp_path):
    """Every other one is compiled; a GPU has shown something else for nearly all of them."""
    seen = {}
    ours = [one for one in table.mistakes() if one.kernel == kernel]
    for number, one in enumerate(ours):
        if number % 2 == 0 or one.name == "none":
            macros = tuple(macros_of(kernel, one.parameters))
            mine = code(as_it_is, *macros, f"-DWRONG={one.number}", folder=tmp_path)
            if macros not in seen:
                seen[macros] = code(as_it_is, *macros, folder=tmp_path)
            right = seen[macros]
            assert (mine == right) == (one.name == "none"), one.label
