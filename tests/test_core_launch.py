"""The launch of a kernel, read from a core dump of it."""

from __future__ import annotations

import pytest
from commands import run
from dumps import SOURCES_OF_OUR_OWN, path_of, ptx_of

from sm90_verify.frontends.core_launch import launch_from_core
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.spec.errors import SpecError


@pytest.mark.parametrize("name", SOURCES_OF_OUR_OWN)
def test_the_launch_in_a_dump(name):
    module = parse("\n".join(ptx_of(name)), f"{name}.ptx")
    found = launch_from_core(path_of(name), module)
    grid, launch = found.grid, found.launch
    assert (launch.kernel, launch.grid, launch.block) == (grid.kernel, grid.grid, grid.block)
    assert (launch.cluster, launch.dynamic_shared) == (grid.cluster, grid.dynamic_shared)
    assert launch.registers == grid.registers and launch.blocks is None
    for told, value in zip(found.function.parameters, grid.parameters, strict=True):
        at = launch.parameters.data[told.offset : told.offset + told.size]
        assert at == value and all(launch.parameters.known[told.offset : told.offset + told.size])
    assert sum(launch.parameters.known) == sum(len(one) for one in grid.parameters)
    inexact = [note for note in found.notes if note.startswith("dynamic shared memory is taken for")]
    assert len(inexact) == (not grid.dynamic_is_exact)


def test_verify_ptx_takes_the_launch_from_a_dump(tmp_path, capsys):
    name = "tma_async_expect_more"
    path = tmp_path / f"{name}.ptx"
    path.write_text("\n".join(ptx_of(name)))
    code, said = run("ptx", str(path), "--launch", path_of(name), "--property", "deadlock", capsys=capsys)[:2]
    assert code == 1 and "grid=3x1x1 block=256x1x1 cluster=1x1x1" in said


def test_of_several_launches_the_first_is_taken_and_said():
    module = parse("\n".join(ptx_of("two_grids")), "two_grids.ptx")
    found = launch_from_core(path_of("two_grids"), module)
    assert found.notes[0] == f"the dump has 2 launches of places, and this is grid {found.grid.id}"


def test_parameters_that_are_not_those_of_the_ptx(tmp_path):
    name = "tma_async_producer_phase"
    text = "\n".join(ptx_of(name)).replace("pipeline_param_0[88]", "pipeline_param_0[96]")
    with pytest.raises(
        SpecError, match=r"parameters of \[96\] bytes, and what ran in .* of \[88\]: give the PTX that ran"
    ):
        launch_from_core(path_of(name), parse(text, "other.ptx"))
