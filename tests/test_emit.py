"""A kernel that was recovered from PTX, written down as a specification: the same kernel comes back."""

from __future__ import annotations

import re

import pytest
from ptx_text import asked, kernel, launch, lifted, verdicts, wait
from test_ptx import HANDOFF, handoff
from test_ptx_registers import COMMIT, FENCE, INTO, OTHER, WAIT, A
from test_ptx_registers import text as registers_text

from sm90_verify.cli.main import main
from sm90_verify.emit.specification import class_name, specification
from sm90_verify.engines.check import check
from sm90_verify.python_file import load_classes
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Threads
from sm90_verify.spec.ptx import operations as op

RING = f"""
	mov.u32 %r0, %tid.x;
	mov.u32 %r1, smem;
	add.u32 %r2, %r1, 16;
	setp.ne.u32 %p0, %r0, 128;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 1;
	mbarrier.init.shared::cta.b64 [%r1+8], 1;
	mbarrier.init.shared::cta.b64 [%r2], 5;
	mbarrier.init.shared::cta.b64 [%r2+8], 5;
	fence.mbarrier_init.release.cluster;
READY:
	barrier.cluster.arrive.release.aligned;
	barrier.cluster.wait.acquire.aligned;
	mov.u32 %r3, 0;
	mov.u32 %r20, %cluster_ctarank;
	xor.b32 %r21, %r20, 1;
	setp.lt.u32 %p1, %r0, 128;
	@%p1 bra CONSUMER;
	@%p0 bra MET;
PRODUCER:
	and.b32 %r4, %r3, 1;
	shr.u32 %r5, %r3, 1;
	and.b32 %r5, %r5, 1;
	xor.b32 %r6, %r5, 1;
	shl.b32 %r7, %r4, 3;
	add.u32 %r8, %r2, %r7;
	add.u32 %r9, %r1, %r7;
{wait("%r8", "%r6")}
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 2304;
	shl.b32 %r10, %r4, 12;
	add.u32 %r10, %r10, %r1;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10+1024], [%d9], 2304, [%r9];
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p2, %r3, 8;
	@%p2 bra PRODUCER;
	bra MET;
CONSUMER:
	and.b32 %r4, %r3, 1;
	shr.u32 %r5, %r3, 1;
	and.b32 %r5, %r5, 1;
	shl.b32 %r7, %r4, 3;
	add.u32 %r8, %r2, %r7;
	add.u32 %r9, %r1, %r7;
{wait("%r9", "%r5")}
	shl.b32 %r10, %r4, 12;
	add.u32 %r10, %r10, %r1;
	add.u32 %r10, %r10, 1024;
	shr.u32 %r11, %r10, 4;
	cvt.u64.u32 %d0, %r11;
	or.b64 %d1, %d0, {64 << 16 | 8 << 32};
	add.s64 %d2, %d0, 128;
	or.b64 %d2, %d2, {8 << 16 | 8 << 32};
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d1, %d2, 1, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	and.b32 %r12, %r0, 31;
	setp.ne.u32 %p3, %r12, 0;
	@%p3 bra GIVEN;
	mbarrier.arrive.shared::cta.b64 _, [%r8];
GIVEN:
	bar.sync 1, 128;
	setp.ne.u32 %p4, %r0, 0;
	@%p4 bra NEXT;
	mapa.shared::cluster.u32 %r13, %r8, %r21;
	mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];
NEXT:
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p2, %r3, 8;
	@%p2 bra CONSUMER;
	bar.sync 1, 128;
	shl.b32 %r14, %r0, 2;
	add.u32 %r14, %r14, %r1;
	st.shared.b32 [%r14+5120], %r0;
	fence.proxy.async.shared::cta;
	bar.sync 1, 128;
	setp.ne.u32 %p3, %r0, 0;
	@%p3 bra MET;
	cp.async.bulk.global.shared::cta.bulk_group [%d9], [%r10], 512;
	cp.async.bulk.commit_group;
	cp.async.bulk.wait_group.read 0;
MET:
	barrier.cluster.arrive.release;
	barrier.cluster.wait.acquire;
"""
"""Two CTAs, each a warp that loads and a warpgroup that multiplies; a stage is given back to both."""

RING_LAUNCH = {"threads": 160, "grid": [2, 1, 1], "cluster": [2, 1, 1]}

TOKEN = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 64;
READY:
	bar.sync 0;
	mbarrier.arrive.shared::cta.b64 %d0, [%r1];
WAIT:
	mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %d0;
	@!%p1 bra WAIT;
"""
OTHERS = (
    """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	setp.ne.u32 %p0, %r0, 0;
	@%p0 bra READY;
	mbarrier.init.shared::cta.b64 [%r1], 64;
	mbarrier.init.shared::cta.b64 [%r1+8], 1;
	fence.mbarrier_init.release.cluster;
READY:
	bar.sync 0;
	setmaxnreg.dec.sync.aligned.u32 40;
	shl.b32 %r2, %r0, 4;
	add.u32 %r2, %r2, %r1;
	cp.async.cg.shared.global [%r2+1024], [%d0], 16;
	cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];
	cp.async.wait_all;
	red.relaxed.cta.shared::cta.add.u32 [%r1+64], 1;
	mov.u32 %r4, 7;
	st.shared.b32 [%r1+128], %r4;
	bar.warp.sync -1;
	@%p0 bra LATER;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8], 4;
	mov.u32 %r6, %cluster_ctarank;
	mapa.shared::cluster.u32 %r5, %r1, %r6;
	st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5+256], %r4, [%r5+8];
LATER:
"""
    + wait("%r1", 0)
    + wait("%r1+8", 0)
)

TEXTS = {
    "handoff": (handoff(), {"threads": 64}),
    "ring": (kernel(RING), RING_LAUNCH),
    "token": (kernel(TOKEN), {"threads": 64}),
    "others": (kernel(OTHERS), {"threads": 64, "grid": [2, 1, 1], "cluster": [2, 1, 1]}),
}


OWN = re.compile(r"(?<=space='registers'), start=\d+, stop=\d+")
"""Registers of each program lie apart, at places that differ."""


def again(tmp_path, given: Kernel) -> Kernel:
    """What is traced of the file that the kernel is written to."""
    path = tmp_path / "written.py"
    path.write_text(specification([given], "k.ptx", ["A test."]))
    (found,) = load_classes(str(path))
    return trace(found())


def told(given: Kernel):
    """By CTA, role and part: the threads, and what is done, with the distance of each wait."""
    return {
        (one.me.cta, one.role.removeprefix(one.home).removesuffix(f"_cta{one.me.cta}"), one.me.index): (
            one.me.threads,
            one.me.first,
            [(OWN.sub("", repr(node.operation)).replace("[0]'", "'"), node.distance) for node in one.nodes],
        )
        for one in given.programs
    }


def places(given: Kernel):
    shared = (region for region in given.layout.regions if region.space == "shared")
    return {region.object: (region.start, region.stop, region.cta) for region in shared}


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_kernel_comes_back(tmp_path, name):
    text, shape = TEXTS[name]
    given = lifted(text, launch(**shape))
    written = again(tmp_path, given)
    assert told(written) == told(given)
    assert places(written) == places(given)
    assert (written.rules, written.registers, written.cluster) == (given.rules, given.registers, given.cluster)
    first, second = check(given, engine="order"), check(written, engine="order")
    assert verdicts(first) == verdicts(second)


@pytest.mark.parametrize(
    ("text", "shape", "property"),
    [
        (kernel(RING.replace("fence.proxy.async.shared::cta;", "")), RING_LAUNCH, "missing-fence"),
        (handoff(waits=""), {"threads": 64}, "race"),
        (handoff(count=31), {"threads": 64}, "arrival-count"),
    ],
    ids=["no proxy fence", "no wait", "a count too low"],
)
def test_a_wrong_kernel_stays_wrong(tmp_path, text, shape, property):
    given = lifted(text, launch(**shape))
    first, second = check(given, engine="order"), check(again(tmp_path, given), engine="order")
    assert verdicts(first)[property] == VIOLATED
    assert verdicts(first) == verdicts(second)


def test_loops_and_ctas_are_written_once():
    given = lifted(TEXTS["ring"][0], launch(**RING_LAUNCH))
    text = specification([given], "k.ptx", [])
    assert sum(len(one.nodes) for one in given.programs) > 500 > 10 * text.count("\n") / 2
    assert text.count("for i in range(8):") == 2
    assert "yield self.empty[i % 2].on(1 - me.cta).arrive" in text
    assert "me.warp" in text
    assert "ctas=" not in text and "_cta1" not in text


def test_a_wait_that_skips_phases(tmp_path):
    """It is for phase 3, and the one before was for phase 0: a parity alone would mean phase 1."""
    from sm90_verify.spec.ptx.phase import Lineage, Phase

    given = lifted(handoff(), launch(64))
    arrives = [op.Arrive("bar", 64)] * 4
    waits = [
        Node(op.Wait("bar", Phase(phase, Lineage(), False)), given.programs[0].nodes[0].source, distance=distance)
        for phase, distance in ((0, 1), (3, 3))
    ]
    source = given.programs[0].nodes[0].source
    steps = [[Node(op.Init("bar", 64), source), *(Node(one, source) for one in arrives), *waits, Node(None, source)]]
    programs = []
    for number, nodes in enumerate(steps):
        for at, node in enumerate(nodes[:-1]):
            node.successors = {None: at + 1}
        programs.append(
            annotate(Program(f"warp{number}", Threads(f"warp{number}", 32, 0, 0), tuple(nodes), f"warp{number}"))
        )
    skipping = Kernel("k", {}, given.layout, tuple(programs), rules=given.rules)
    assert told(again(tmp_path, skipping)) == told(skipping)


def test_the_command_writes_a_file_that_verify_spec_takes(tmp_path, capsys):
    ptx, out = tmp_path / "k.ptx", tmp_path / "out.py"
    ptx.write_text(handoff())
    told_launch = tmp_path / "launch.json"
    told_launch.write_text('{"launch": 1, "grid": [1, 1, 1], "block": [64, 1, 1], "dynamic_shared": 2048}')
    assert main(["ptx", str(ptx), "--launch", str(told_launch), "--emit", str(out)]) == 0
    capsys.readouterr()
    assert main(["spec", str(out)]) == 0
    assert "PROVED K " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--emit", "{folder}/none/out.py"], "there is no folder"),
        (["--emit", "{folder}"], "is a folder"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(tmp_path, capsys, more, words):
    ptx, told_launch = tmp_path / "k.ptx", tmp_path / "launch.json"
    ptx.write_text(handoff())
    told_launch.write_text('{"launch": 1, "grid": [1, 1, 1], "block": [64, 1, 1], "dynamic_shared": 2048}')
    given = [one.format(folder=tmp_path) for one in more]
    assert main(["ptx", str(ptx), "--launch", str(told_launch), *given]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
    assert not (tmp_path / "out.py").exists()


def test_a_kernel_that_cannot_go_on_is_not_written(tmp_path):
    text = kernel(HANDOFF.format(count=32, arrives="", waits=wait("%r1", 0)))
    with pytest.raises(SpecError, match=r"k.ptx:\d+: the kernel cannot go on here"):
        asked(tmp_path, text, launch(64), emit=str(tmp_path / "out.py"))
    assert not (tmp_path / "out.py").exists()


def test_names_of_classes():
    assert [class_name(one) for one in ("my_gemm.ptx", "a/b/x-y.ptx", "3d.ptx", ".ptx")] == [
        "MyGemm",
        "XY",
        "Kernel3d",
        "Kernel",
    ]


def test_proved_is_said_of_the_launch_alone(tmp_path, capsys):
    out = tmp_path / "out.py"
    result = asked(tmp_path, handoff(), launch(64), emit=str(out))
    assert result.verdict == PROVED
    main(["spec", str(out)])
    assert "every trip count" not in capsys.readouterr().out


def test_a_kernel_whose_threads_part_is_not_written(tmp_path):
    parts = "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; @%p0 bra ONE; bar.sync 0; bra DONE; ONE: bar.sync 1; DONE:"
    with pytest.raises(SpecError, match=r"threads do not execute together what they must"):
        asked(tmp_path, kernel(parts), launch(32), emit=str(tmp_path / "out.py"))
    assert not (tmp_path / "out.py").exists()


def test_registers_of_several_sets_keep_their_places(tmp_path):
    """Accumulators and matrices A of two wgmmas lie in turns: each set's slots are not side by side."""
    other = A.replace("{%r20, %r21, %r22, %r23}", "{%r24, %r25, %r26, %r27}").replace(OTHER, INTO)
    given = lifted(registers_text(FENCE, A, other, COMMIT, WAIT), launch(128))
    written = again(tmp_path, given)
    assert told(written) == told(given)
    assert check(written, engine="order").verdict == PROVED


class Tagged(Pipeline):
    trips = 1
    a = tile(bytes=64, slots=1)

    @role(warps=1)
    def one(self):
        yield self.a.write("data")


def test_what_sentences_would_lose_is_refused():
    """Data are named in specifications, and in nothing that a front end makes."""
    with pytest.raises(SpecError, match="no front end makes it so"):
        specification([trace(Tagged())], "k.py", [])
