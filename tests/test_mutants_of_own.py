"""The mutation score of a user's own kernel: a class in a file, or PTX whose text is edited."""

from __future__ import annotations

import json

import pytest
from ptx_text import kernel, wait
from test_ptx import handoff

from sm90_verify.cli.main import main
from sm90_verify.evidence.mutation.of_ptx import PtxQuestion, decide, read_edited, score_ptx
from sm90_verify.evidence.mutation.run import Options, run_all
from sm90_verify.evidence.mutation.score import EQUIVALENT, KILLED, SURVIVED
from sm90_verify.frontends.ptx.edits import edits_of
from sm90_verify.spec.errors import SpecError

OWN = """
from sm90_verify import Pipeline, barrier, role, tile

class Own(Pipeline):
    trips = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].write()
        yield self.full[at].arrive()

    @role(warps=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()
"""
LAUNCH = {"launch": 1, "grid": [1, 1, 1], "block": [64, 1, 1], "dynamic_shared": 4096}


def files(tmp_path, text: str) -> tuple[str, str]:
    (tmp_path / "k.ptx").write_text(text)
    (tmp_path / "launch.json").write_text(json.dumps(LAUNCH))
    return str(tmp_path / "k.ptx"), str(tmp_path / "launch.json")


def test_the_mutants_of_a_file(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (score,) = run_all(Options((f"{tmp_path}/own.py:Own",), processes=1, settings={"stages": 1}))
    assert score.label == "Own stages=1"
    killed = {(fate.mutant.operator, fate.outcome.property) for fate in score.of(KILLED)}
    assert {("drop", "deadlock"), ("drop", "race"), ("init", "deadlock")} <= killed
    assert score.count(KILLED) > 20 and not score.count("disagreed")
    assert all("own.py:" in fate.mutant.where for fate in score.fates if fate.mutant.operator == "drop")
    assert not any("pipeline.py" in fate.mutant.where for fate in score.fates)


def test_parameters_are_those_of_files(tmp_path):
    with pytest.raises(SpecError, match=r"name FILE\.py, and no other model"):
        run_all(Options(("tma-async",), settings={"stages": 1}))
    with pytest.raises(SpecError, match="no such file"):
        run_all(Options((f"{tmp_path}/none.py",)))
    with pytest.raises(SpecError, match=r"or FILE\.py"):
        run_all(Options(("none",)))


def test_every_edit_of_a_handoff_is_noticed_or_has_a_reason(tmp_path):
    question = PtxQuestion(*files(tmp_path, handoff()))
    found = score_ptx(question, 1, lambda done, of: None)
    fates = {(one.mutant.operator, one.mutant.where.split()[1].split(".")[1]): one.outcome for one in found.fates}
    assert {key: (one.verdict, one.property) for key, one in fates.items()} == {
        ("drop", "init"): (KILLED, "barrier-init"),
        ("init", "init"): (KILLED, "deadlock"),
        ("stage", "init"): (KILLED, "barrier-init"),
        ("drop", "sync"): (KILLED, "barrier-init"),
        ("drop", "arrive"): (KILLED, "deadlock"),
        ("stage", "arrive"): (KILLED, "barrier-init"),
        ("drop", "try_wait"): (KILLED, "race"),
        ("parity", "try_wait"): (KILLED, "race"),
        ("stage", "try_wait"): (KILLED, "barrier-init"),
    }


TWICE = handoff(waits=wait("%r1", 0) + wait("%r1", 0))


def test_survivors_have_reasons_that_are_computed(tmp_path):
    """Of two waits for one phase each can be left out; a second bar.sync orders nothing more."""
    edited = read_edited(*files(tmp_path, TWICE.replace("bar.sync 0;", "bar.sync 0;\n\tbar.sync 0;")))
    outcomes = [(edit.operator, edit.was.split()[0], decide(edited, n)) for n, edit in enumerate(edited.edits)]
    survivors = [(operator, was, one.reason) for operator, was, one in outcomes if one.verdict == SURVIVED]
    assert survivors == [
        ("drop", "bar.sync", "same"),
        ("drop", "bar.sync", "same"),
        ("drop", "mbarrier.try_wait.parity.shared::cta.b64", "same"),
        ("drop", "mbarrier.try_wait.parity.shared::cta.b64", "same"),
    ]
    assert [(operator, was) for operator, was, one in outcomes if one.verdict == EQUIVALENT] == [("swap", "bar.sync")]


def test_edits_are_of_the_text():
    text = kernel(
        """
	mov.u32 %r1, smem;
	@%p0 mbarrier.init.shared::cta.b64 [%r1+8], 3;
L: mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2;
	cp.async.bulk.wait_group.read 1;
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r3, 1000;
	bar.sync 1, 128;
	fence.proxy.async;
	bar.sync 0;
"""
    )
    lines = text.split("\n")
    found = list(edits_of(text, range(1, len(lines) + 1)))

    def line_of(operator: str, word: str) -> list[str]:
        return [
            "\n".join(text for _, text in sorted(one.lines.items())).strip()
            for one in found
            if one.operator == operator and word in one.was
        ]

    assert line_of("init", "init") == ["@%p0 mbarrier.init.shared::cta.b64 [%r1+8], 4;"]
    assert line_of("stage", "init") == ["@%p0 mbarrier.init.shared::cta.b64 [%r1+16], 3;"]
    assert line_of("bytes", "expect_tx") == [
        "L: { .reg .b32 edited; add.u32 edited, %r2, 16; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], edited; }"
    ]
    assert line_of("drop", "expect_tx") == ["L:"]
    assert line_of("pending", "wait_group") == ["cp.async.bulk.wait_group.read 2;"]
    assert line_of("drop", "try_wait") == ["setp.eq.u32 %p1, 0, 0;"]
    assert line_of("parity", "try_wait") == [
        "{ .reg .b32 edited; xor.b32 edited, %r3, 1; "
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], edited, 1000; }"
    ]
    assert line_of("threads", "bar.sync 1") == ["bar.sync 1, 160;"]
    assert line_of("swap", "fence.proxy.async") == ["bar.sync 0; fence.proxy.async ;"]


def test_a_kernel_that_is_wrong_has_no_score(tmp_path, capsys):
    ptx, launch = files(tmp_path, handoff(count=33))
    assert main(["mutants", "--ptx", ptx, "--launch", launch]) == 2
    error = capsys.readouterr().err
    assert "is violated as it is" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--ptx", "k.ptx"], "give both"),
        (["--launch", "l.json"], "give both"),
        (["--kernel", "k"], "means nothing without --ptx"),
        (["--every", "2"], "means nothing without --ptx"),
        (["tma-async", "--ptx", "k.ptx", "--launch", "l"], "not with --ptx"),
        (["--dense", "--ptx", "k.ptx", "--launch", "l"], "not with --ptx"),
    ],
)
def test_options_that_do_not_go_together(given, words, capsys):
    assert main(["mutants", *given]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_the_command(tmp_path, capsys):
    ptx, launch = files(tmp_path, handoff())
    assert main(["mutants", "--ptx", ptx, "--launch", launch, "--every", "3", "--list", "--processes", "2"]) == 0
    text = capsys.readouterr().out
    assert "killed: k.ptx #0 drop: k.ptx:" in text
    assert "verify: MUTANTS 5 not equivalent, 5 killed" in text
