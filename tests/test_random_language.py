"""Random programs over the whole language: the engines agree on them, every operation is in some, and a wrong engine is
told.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from sm90_verify.engines.order import memory, warpgroups
from sm90_verify.evidence.programs import __main__ as command
from sm90_verify.evidence.programs import compare as comparing
from sm90_verify.evidence.programs.compare import compare
from sm90_verify.evidence.programs.generate import random_program
from sm90_verify.evidence.programs.program import Handle, RandomProgram, RoleOf, Statement, Text, pipeline_of, written
from sm90_verify.evidence.programs.run import compare_all, forms
from sm90_verify.python_file import load_classes
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op

X, B = Handle("x"), Handle("b")
EARLY = RandomProgram(
    (),
    (("x", "tile(bytes=16)"), ("b", "barrier(arrivals=1)")),
    (
        RoleOf("warps=1", (Statement("write", X, (("value", 7),)), Statement("arrive", B))),
        RoleOf("warps=1", (Statement("read", X, (("value", 7),)), Statement("wait", B, (("", 0),)))),
    ),
)
"""A read that does not race with the write of its value, and may come before it."""


def test_the_engines_agree():
    tally = compare_all(0, 120)
    assert tally.disagreements == []
    assert tally.answers["proved"] >= 30 and tally.answers["violated"] >= 30, tally.answers
    assert tally.order["proved"] >= 15 and tally.order["violated"] >= 15 and tally.left_out >= 40


def test_the_engines_agree_on_warpgroups_in_parts():
    tally = compare_all(0, 30, joint=True)
    assert tally.disagreements == []
    assert tally.order["proved"] >= 7 and tally.order["violated"] >= 7, tally.order


def test_an_engine_that_takes_a_group_for_over_is_told(monkeypatch):
    monkeypatch.setattr(warpgroups, "is_over", lambda *arguments: True)
    tally = compare_all(70, 90, joint=True)
    assert any("order: race is proved" in one for one in tally.disagreements), tally.disagreements


def test_every_operation_is_in_some_program():
    """All records of the closed union, but for those that nobody writes down."""
    found: set[type] = set()
    wanted = {one for one in _members(op.Operation) if one not in (op.CtaStart, op.Parted)}
    for seed in range(700):
        if wanted <= found:
            break
        try:
            kernel = trace(pipeline_of(written(random_program(seed)).text), comparing._tick)
        except (SpecError, comparing.TooLong):
            continue
        found |= {type(node.operation) for program in kernel.programs for node in program.nodes}
    assert wanted <= found


def _members(union: object) -> set[type]:
    return {union} if isinstance(union, type) else {one for part in get_args(union) for one in _members(part)}


def test_a_seed_gives_the_same_program_again_and_its_text_is_a_file_for_verify_spec(tmp_path):
    program = random_program(7)
    assert random_program(7) == program != random_program(8)
    path = tmp_path / "found.py"
    path.write_text(written(program).text, encoding="utf-8")
    (found,) = load_classes(str(path))
    assert [len(one.nodes) for one in trace(found()).programs] == [
        len(one.nodes) for one in trace(pipeline_of(written(program).text)).programs
    ]


def test_the_text_says_loops_around_tests_and_what_follows_an_answer():
    inner = Statement(
        "atom", Handle("w", "[0]"), (("", "add"),), cases=(("== 1", (Statement("mma_wait", None, (("", 0),)),)),)
    )
    steps = (
        Statement("try_wait", Handle("b", "[at]", "1"), (("", Text("at.phase")),), until="== True"),
        Statement("choose", None, (("", "c"), ("", 0), ("", 1)), cases=(("== 0", (inner,)), ("== 1", ()))),
    )
    text, lines = written(RandomProgram((("stages", 2),), (), (RoleOf("warps=1", steps, True),)))
    assert text.splitlines()[-8:] == [
        "    def r0(self, at):",
        "        while not ((yield self.b[at].on(1).try_wait(at.phase)) == True):",
        "            pass",
        "        got = yield self.choose('c', 0, 1)",
        "        if got == 0:",
        "            got1 = yield self.w[0].atom('add')",
        "            if got1 == 1:",
        "                yield self.mma_wait(0)",
    ]
    assert [step.verb for step in lines.values()] == ["try_wait", "choose", "atom", "mma_wait"]


def test_a_wrong_engine_is_told(monkeypatch):
    assert compare(EARLY).contradictions == ()
    assert (compare(EARLY).answer, compare(EARLY).order) == ("violated", "undetermined")
    monkeypatch.setattr(memory, "_may_differ", lambda *arguments: None)
    assert compare(EARLY).contradictions == ("order: stale-read is proved",)


def test_a_reduced_search_that_misses_something_is_told(monkeypatch):
    search = comparing._search

    def blind(packed, reduced, times):
        found = search(packed, reduced, times)
        return replace(found, violations={}) if reduced else found

    monkeypatch.setattr(comparing, "_search", blind)
    assert compare(EARLY).contradictions == ("reduced search: proved, and not ['stale-read']",)


def test_z3_is_held_to_the_same():
    assert compare(EARLY, proof=10.0).contradictions == ()


@pytest.mark.parametrize("name", ["refused", "undetermined"])
def test_what_has_no_answer_is_counted(name):
    texts = {
        "refused": (RoleOf("warps=1", (Statement("mma", X),)),),
        "undetermined": (RoleOf("warps=1", (Statement("read", X),) * (comparing.MOST_OPERATIONS + 2)),),
    }
    assert compare(EARLY._replace(roles=texts[name])).answer == name


def test_operations_count_where_they_are_executed():
    """The read behind a wait that never passes is not in the count."""
    stuck = EARLY._replace(roles=(RoleOf("warps=1", (Statement("wait", B, (("", 0),)), Statement("read", X))),))
    found = compare(stuck)
    taken = [step for line, step in written(stuck).steps.items() if line in found.taken]
    assert (found.answer, [one.verb for one in taken]) == ("violated", [])


def test_forms_name_what_is_particular():
    step = Statement("arrive", Handle("b", "", "1"), (("", 2), ("sem", "relaxed"), ("ctas", (0, 1))))
    assert list(forms(EARLY, step)) == [
        "barrier.arrive",
        "barrier.arrive, of another CTA",
        "barrier.arrive(sem='relaxed')",
        "barrier.arrive(ctas=)",
    ]


def test_command(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["programs", "--seeds", "0", "12"])
    assert command.main() == 0
    out = capsys.readouterr().out
    assert out.endswith("0 disagreements\n") and "12 programs: " in out and not list(tmp_path.iterdir())
    monkeypatch.setattr("sys.argv", ["programs", "--seeds", "0", "12", "-o", "counts.json"])
    assert command.main() == 0
    kept = json.loads((tmp_path / "counts.json").read_text())
    assert kept["seeds"] == [0, 12] and sum(kept["answers"].values()) == 12 and kept["disagreements"] == 0
    monkeypatch.setattr("sys.argv", ["programs", "--seeds", "3", "4", "--show"])
    assert command.main() == 0
    assert capsys.readouterr().out.endswith(written(random_program(3)).text + "\n")


RECORDED = Path(__file__).parent / "data" / "random_programs.json"


def test_what_is_recorded():
    """What was executed often was so in programs that are proved, and in ones that are violated."""
    kept = json.loads(RECORDED.read_text())
    assert kept["disagreements"] == 0 and kept["seeds"][1] - kept["seeds"][0] == sum(kept["answers"].values())
    verbs = {name: counts for name, counts in kept["operations"].items() if re.fullmatch(r"[a-z_.]+", name)}
    often = {name: counts for name, counts in verbs.items() if sum(counts.values()) >= 15}
    assert len(verbs) >= 55 and len(often) >= 40
    for name, counts in often.items():
        assert counts.get("proved") and counts.get("violated"), name
