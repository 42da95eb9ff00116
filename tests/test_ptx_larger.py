"""Every value of a parameter from one on: what is claimed by periods of loops, and what is not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from ptx_rings import ring
from ptx_text import asked, launch, verdicts

from sm90_verify.cli.main import main
from sm90_verify.decide.cases import Asked
from sm90_verify.decide.larger import Larger
from sm90_verify.decide.sweep import read_sweep
from sm90_verify.engines.check import check
from sm90_verify.engines.effort import Effort
from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError

GREATEST = 1 << 30


def classes_of(text: str, sweep: str = "n=0.."):
    """What stands for all larger values, and how to execute one of them."""
    module = parse(text, "k.ptx")
    function, given = module.entries[0], launch(64)
    found = Larger(module, function, given, read_sweep(sweep, function), Asked(), Effort(), None)
    classes, why = found._classes()

    def kernel_of(value: int):
        one = given.with_value(0, 4, value)
        code, addresses = code_of(module, function, one)
        run = ClusterRun(code, addresses, one, one.clusters()[0], Effort().tick)
        run.run()
        return lift(run, "k")

    return classes, why, kernel_of


def done_by(program, periods: int) -> list:
    """The operations of a program that goes round its loops so many times, with the distances of waits."""
    found, at, left = [], 0, {}
    while True:
        node = program.nodes[at]
        if node.loop:
            left.setdefault(node.loop, periods)
            left[node.loop] -= 1
            at = node.successors[left[node.loop] >= 0]
        elif node.operation is None:
            return found
        else:
            found.append((str(node.operation), node.source.line, node.distance))
            (at,) = node.successors.values()


# ---------------------------------------------------------------- claimed

PEELED = """
	setp.ne.u32 %p5, %r1, 0;
	@%p5 bra LATER;
	fence.proxy.async;
LATER:
"""
OFTEN = {
    "a ring": {},
    "an iteration that is peeled": {"copied": PEELED},
    "another order from 7 on": {"copying": "setp.lt.u32 %p5, %r10, 7; @%p5 bra FEW; fence.proxy.async; FEW:"},
    "a last iteration that does more": {
        "reading": "sub.u32 %r11, %r10, %r1; setp.ne.u32 %p5, %r11, 1; @%p5 bra MORE; fence.proxy.async; MORE:"
    },
    "an iteration that does more, and is decided": {
        "reading": "setp.ne.u32 %p5, %r1, 3; @%p5 bra OTHERS; fence.proxy.async; OTHERS:"
    },
    "a count of bytes": {
        "reading": "shl.b32 %r11, %r10, 6; shl.b32 %r12, %r1, 6; setp.ge.u32 %p6, %r12, %r11; @%p6 bra DONE;"
    },
}


@pytest.mark.parametrize("what", OFTEN)
def test_loops_that_go_round_for_every_number(tmp_path, what):
    result = asked(tmp_path, ring(**OFTEN[what]), launch(64), sweep="n=0..")
    assert result.verdict == PROVED, result.notes
    first, last = result.scope["sweep"]["n"]
    said = result.scope["periods"]
    assert (first, said["name"], said["period"]) == (0, "n", 4)
    assert last == (1 << 20 if what == "a count of bytes" else GREATEST)
    assert said["one_by_one"] == [0, said["from"] - 1]


@pytest.mark.parametrize("what", OFTEN)
def test_the_kernel_with_loops_does_what_launches_do(what):
    classes, why, kernel_of = classes_of(ring(**OFTEN[what]))
    assert not why and len(classes.cases) == classes.apart == 4
    for number, (case,) in enumerate(classes.cases):
        looped = lift(case.execution, "k")
        assert {node.loop for one in looped.programs for node in one.nodes} == {"", "periods"}
        for periods in (0, 1, 2, 5):
            real = kernel_of(classes.first + number + periods * classes.apart)
            for one, other in zip(looped.programs, real.programs, strict=True):
                assert done_by(one, periods) == done_by(other, 0), (one.name, number, periods)


def test_all_roles_go_round_as_often():
    """Told that each decides for itself, they hang."""
    classes, _, _ = classes_of(ring())
    kernel = lift(classes.cases[0][0].execution, "k")
    assert check(kernel).verdict == PROVED

    def apart(program):
        nodes = tuple(replace(node, loop=f"{program.name}.{node.loop}" if node.loop else "") for node in program.nodes)
        return replace(program, nodes=nodes)

    alone = replace(kernel, programs=tuple(apart(one) for one in kernel.programs))
    assert verdicts(check(alone))["deadlock"] == VIOLATED


def test_loops_in_which_nothing_is_done_are_gone_through_as_well(tmp_path):
    first = "FIRST: add.u32 %r13, %r13, 1; setp.lt.u32 %p5, %r13, %r10; @%p5 bra FIRST;"
    before = "setp.ge.u32 %p1, %r0, 32;"
    text = ring().replace(before, f"mov.u32 %r13, 0;\n{first}\n{before}", 1)
    assert asked(tmp_path, text, launch(64), sweep="n=0..").verdict == PROVED
    odd = (
        first.replace("%r13, 1;", "%r13, %r13;")
        .replace("add", "mad.lo")
        .replace("%r13, %r13, %r13", "%r13, %r13, %r13, 1")
    )
    assert asked(tmp_path, text.replace(first, odd), launch(64), sweep="n=0..").verdict == UNDETERMINED


def test_a_parameter_that_no_loop_depends_on(tmp_path):
    result = asked(tmp_path, ring(limits=("6", "6")), launch(64), sweep="n=3..:2")
    assert (result.verdict, result.scope["sweep"]) == (PROVED, {"n": [3, GREATEST], "step": 2})
    assert "no loop depends on it" in result.notes[0]


# ---------------------------------------------------------------- not claimed

OWN_CELL = """
	mov.u32 %r16, smem;
	shl.b32 %r15, %r0, 2;
	add.u32 %r15, %r15, %r16;
	st.shared.b32 [%r15+8192], %r0;
"""
NEVER = {
    "one far iteration does more": (
        {"reading": "setp.ne.u32 %p5, %r1, 5000; @%p5 bra OTHERS; bar.sync 1, 64; OTHERS:"},
        r"k\.ptx:\d+: bra: whether it is executed depends on",
    ),
    "one far number of tiles does more": (
        {"copying": "setp.ne.u32 %p5, %r10, 5000; @%p5 bra OTHERS; bar.sync 1, 64; OTHERS:"},
        r"k\.ptx:\d+: bra: whether it is executed depends on the value of n",
    ),
    "the consumer stops at 5000": (
        {"reading": "setp.eq.u32 %p5, %r1, 5000; @%p5 bra DONE;"},
        r"k\.ptx:\d+: bra: whether it is executed depends on",
    ),
    "the consumer does at most 5000": (
        {"reading": "min.u32 %r11, %r10, 5000; setp.ge.u32 %p5, %r1, %r11; @%p5 bra DONE;"},
        r"k\.ptx:\d+: bra: whether it is executed depends on",
    ),
    "a bit of the square of the tile decides": (
        {"reading": "mul.lo.u32 %r11, %r1, %r1; shr.u32 %r11, %r11, 20; setp.ne.u32 %p5, %r11, 0; @%p5 bra DONE;"},
        r"k\.ptx:\d+: bra: whether it is executed depends on",
    ),
    "a register that grows with itself": (
        {"reading": "mad.lo.u32 %r14, %r14, %r14, 1; setp.eq.u32 %p5, %r14, 1000; @%p5 bra DONE;"},
        "depends on a register that neither stays the same nor goes on by the same with each period",
    ),
    "a counter in shared memory": (
        {
            "reading": "ld.shared.b32 %r14, [%r15+8192]; add.u32 %r14, %r14, 1; st.shared.b32 [%r15+8192], %r14; "
            "setp.eq.u32 %p5, %r14, 5000; @%p5 bra DONE;"
        },
        "what shared memory holds",
    ),
    "a slot that depends on the bits of the tile": (
        {
            "reading": "popc.b32 %r14, %r1; and.b32 %r14, %r14, 1; setp.eq.u32 %p5, %r14, 1; "
            "@%p5 bra ODD; fence.proxy.async; ODD:"
        },
        "does not come again|whether it is executed depends on",
    ),
}


@pytest.mark.parametrize("what", NEVER)
def test_what_may_be_otherwise_later_is_not_claimed(tmp_path, what):
    changes, words = NEVER[what]
    text = ring(**changes).replace("mov.u32 %r3, 0;", "mov.u32 %r3, 0;\n\tmov.u32 %r14, 0;", 1)
    text = text.replace("setp.ge.u32 %p1,", f"{OWN_CELL}\tsetp.ge.u32 %p1,", 1)
    result = asked(tmp_path, text, launch(64), sweep="n=0..")
    assert result.verdict == UNDETERMINED
    assert "periods" not in result.scope and result.scope["sweep"]["n"][1] < 100
    note = next(note for note in result.notes if "larger values of n are not claimed: " in note)
    assert re.search(words, note), note


def test_what_comes_through_registers_many_iterations_later_is_not_claimed(tmp_path):
    """A 1 that goes from register to register: none of them changes in the periods that are looked at but one."""
    moves = "".join(f"mov.u32 %r{number}, %r{number - 1}; " for number in range(60, 20, -1))
    late = f"{moves} setp.ne.u32 %p5, %r60, 1; @%p5 bra OTHERS; bar.sync 1, 64; OTHERS:"
    zeros = "".join(f"mov.u32 %r{number}, 0; " for number in range(21, 61))
    text = ring(reading=late).replace("mov.u32 %r3, 0;", f"mov.u32 %r3, 0; mov.u32 %r20, 1; {zeros}", 1)
    result = asked(tmp_path, text, launch(64), sweep="n=0..")
    assert (result.verdict, result.scope["sweep"]["n"]) == (UNDETERMINED, [0, 23])
    assert asked(tmp_path, text, launch(64), sweep="n=39..45").parameters["n"] == 40


def test_a_kernel_that_hangs_from_6_on(tmp_path):
    three = "setp.lt.u32 %p5, %r1, 3; @%p5 mbarrier.arrive.shared.b64 _, [%r6+64];"
    result = asked(tmp_path, ring(release=three), launch(64), sweep="n=0..")
    assert (result.verdict, result.parameters["n"]) == (VIOLATED, 6)
    assert verdicts(result)["deadlock"] == VIOLATED
    assert asked(tmp_path, ring(release=three), launch(64), sweep="n=0..5").verdict == PROVED


def test_a_kernel_that_is_always_wrong(tmp_path):
    early = "mbarrier.arrive.shared.b64 _, [%r6+64]; ld.shared.b32 %r9, [%r7+1024];"
    result = asked(tmp_path, ring(release=early), launch(64), sweep="n=0..")
    assert verdicts(result)["race"] == VIOLATED and result.parameters["n"] == 3


@pytest.mark.parametrize(("sweep", "words"), [("n=-1..", "begin with 0 or more"), ("n=5..:0", "no value lies there")])
def test_a_sweep_without_end_that_is_none(tmp_path, sweep, words):
    with pytest.raises(SpecError, match=words):
        asked(tmp_path, ring(), launch(64), sweep=sweep)


def test_the_command_says_what_it_claims(tmp_path, capsys):
    (tmp_path / "k.ptx").write_text(ring())
    (tmp_path / "k.json").write_text('{"launch": 1, "grid": 1, "block": 64, "dynamic_shared": 65536}')
    given = ["ptx", str(tmp_path / "k.ptx"), "--launch", str(tmp_path / "k.json"), "--sweep", "n=0.."]
    assert main(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"scope   every n from 0 to {GREATEST}: 0 to 7 one by one, from 8 on by periods of 4" in lines
    assert lines[-1].startswith("verify: PROVED k.ptx grid=1x1x1 block=64x1x1 cluster=1x1x1 n=0..")
