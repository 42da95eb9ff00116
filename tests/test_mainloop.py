"""CUTLASS's mainloops are proved for every number of k-tiles, and each of their parts is needed, or known not to be."""

from __future__ import annotations

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError


def checked(**parameters):
    return check(Mainloop(**parameters), command="mainloop", engine="search")


def violated(**parameters) -> set[str]:
    return {finding.id for finding in checked(**parameters).findings if finding.verdict == VIOLATED}


def trace_of(result, property):
    return next(finding.trace for finding in result.findings if finding.id == property)


@pytest.mark.parametrize("consumers", [1, 2])
@pytest.mark.parametrize("form", ["ss", "rs"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_is_proved_for_every_number_of_k_tiles(stages, form, consumers):
    result = checked(stages=stages, form=form, consumers=consumers)
    assert result.verdict == PROVED
    assert result.scope == {"trips": "all"}


@pytest.mark.parametrize("form", ["ss", "rs"])
@pytest.mark.parametrize("k_tiles", [1, 2, 3, 7])
def test_is_proved_for_few_k_tiles(k_tiles, form):
    result = checked(stages=3, form=form, k_tiles=k_tiles)
    assert result.verdict == PROVED
    assert result.scope == {"trips": k_tiles}


@pytest.mark.parametrize("form", ["ss", "rs"])
def test_no_k_tiles_hang(form):
    """The first k-tile is issued without asking how many there are; an assertion says that there is one."""
    result = checked(stages=2, form=form, k_tiles=0)
    assert trace_of(result, "deadlock").blocked[0].waits_for == "mainloop.full[0]"


# ---------------------------------------------------------------- WGMMAs in flight


@pytest.mark.parametrize(("stages", "in_flight"), [(2, 1), (3, 1), (3, 2), (4, 3)])
def test_the_wait_may_leave_as_many_groups_as_there_are_lagging_k_tiles(stages, in_flight):
    for pending in range(in_flight + 1):
        assert checked(stages=stages, mmas_in_flight=in_flight, pending=pending).verdict == PROVED
    assert violated(stages=stages, mmas_in_flight=in_flight, pending=in_flight + 1) == {"race"}


@pytest.mark.parametrize("stages", [2, 3])
def test_as_many_mmas_in_flight_as_stages_hang(stages):
    assert "deadlock" in violated(stages=stages, mmas_in_flight=stages)


@pytest.mark.parametrize("k_tiles", [1, 4, "all"])
def test_no_mmas_in_flight_wait_for_one_k_tile_too_many(k_tiles):
    """K_PIPE_MMAS = 0 passes the static assertion, but the prologue takes a k-tile that no loop leaves out."""
    assert "deadlock" in violated(stages=4, mmas_in_flight=0, k_tiles=k_tiles)


def test_releases_before_the_wait():
    result = checked(stages=3, release="before")
    assert result.verdict == VIOLATED
    assert result.trace.property == "race"
    assert result.trace.steps[-1].role == "load_warp"
    assert result.trace.steps[-1].object.startswith("a.stage")


# ---------------------------------------------------------------- A through registers


def test_the_rs_form_needs_more_than_two_k_blocks():
    """With two, the release of a k-tile comes after the wait for the next one, and is left out of the last."""
    assert "deadlock" in violated(stages=2, form="rs", k_blocks=2)
    assert "deadlock" in violated(stages=3, form="rs", k_blocks=2)
    assert checked(stages=2, form="rs", k_blocks=3).verdict == PROVED


def test_the_rs_form_releases_at_the_earliest_block_that_is_safe():
    assert violated(stages=3, form="rs", release_block=0) == {"race"}
    assert checked(stages=3, form="rs", release_block=2).verdict == PROVED


def test_the_rs_form_may_leave_two_groups():
    assert checked(stages=2, form="rs", pending=1).verdict == PROVED
    assert violated(stages=2, form="rs", pending=3) == {"race"}
    assert violated(stages=2, form="rs", release="before") == {"race"}


def test_reads_of_a_are_not_fenced_from_the_next_copy():
    """ldmatrix reads through the generic proxy and TMA overwrites through the async one, with no fence in between."""
    assert violated(stages=2, form="rs", strict=True) == {"missing-fence"}
    assert checked(stages=2, form="ss", strict=True).verdict == PROVED


# ---------------------------------------------------------------- without its parts


@pytest.mark.parametrize("form", ["ss", "rs"])
def test_without_mma_tail_the_load_warp_hangs(form):
    result = checked(stages=2, form=form, without="mma_tail")
    assert trace_of(result, "deadlock").blocked[0].role == "load_warp"


def test_load_tail_is_for_clusters():
    assert checked(stages=3, without="load_tail").verdict == PROVED


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"without": "tail"}, "without='tail': mainloop has load_tail, mma_tail"),
        ({"form": "sr"}, "form='sr': use ss"),
        ({"release": "later"}, "release='later': use after or before"),
        ({"pending": 8}, r"wgmma.wait_group 8: use 0 to 7"),
        ({"k_tiles": -1}, "k_tiles=-1: use 0 or more"),
        ({"bytes_a": 24}, "a stage of 24 bytes: use a multiple of 16"),
        ({"cluster": "4x5"}, "a cluster of 4x5 CTAs: use XxY with 1 to 16 CTAs"),
    ],
)
def test_parameters_without_meaning(parameters, message):
    with pytest.raises(SpecError, match=message):
        Mainloop(**parameters)


# ---------------------------------------------------------------- the command


def test_command(capsys):
    assert main(["mainloop", "--stages", "2", "--k-tiles", "3"]) == 0
    assert "verify: PROVED mainloop stages=2 form=ss mmas_in_flight=1 k_tiles=3" in capsys.readouterr().out
    assert main(["mainloop", "--stages", "2", "--k-tiles", "5", "--pending", "2"]) == 1
    assert "error[race]" in capsys.readouterr().out
    assert main(["mainloop", "--stages", "2", "--without", "nothing"]) == 2
    assert "without='nothing'" in capsys.readouterr().err


def test_minimal_wait(capsys):
    assert main(["mainloop", "--stages", "3", "--minimal-wait", "--k-tiles", "8"]) == 0
    out = capsys.readouterr().out
    assert "stages=2 K_PIPE_MMAS=1 wait_group<1> is safe, 2 is violated" in out
    assert "minimal wait, K_PIPE_MMAS=1: wait_group<1>, for every number of stages up to 3" in out
    assert "minimal wait, K_PIPE_MMAS=2: wait_group<2>, for every number of stages up to 3" in out
    assert main(["mainloop", "--stages", "3", "--minimal-wait", "--k-tiles", "8", "--mmas-in-flight", "5"]) == 2
    assert "--mmas-in-flight 5: needs more stages than 3" in capsys.readouterr().err


def test_minimal_wait_of_a_broken_mainloop(capsys):
    assert main(["mainloop", "--stages", "2", "--minimal-wait", "--k-tiles", "8", "--without", "mma_tail"]) == 1
    assert "wait_group<-1>" not in capsys.readouterr().out
