"""Registers of wgmma in PTX (PTX ISA 9.7.15.7): touched in flight, without wgmma.fence, and where nobody knows."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, lifted, verdicts, wait

from sm90_verify.frontends.ptx.accumulators import wgmma_registers
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.effects import effects_of

START = """
	mov.u32 %r1, smem;
	mov.u32 %r0, %tid.x;
	and.b32 %r2, %r1, 262128;
	shr.u32 %r2, %r2, 4;
	cvt.u64.u32 %d1, %r2;
	or.b64 %d1, %d1, 4611686293305360384;
"""
MMA = "\twgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{into}}}, {a}, %d1, 1, 1, 1{more};\n"
INTO, OTHER = "%f0, %f1, %f2, %f3", "%f4, %f5, %f6, %f7"
FENCE, COMMIT = "\twgmma.fence.sync.aligned;\n", "\twgmma.commit_group.sync.aligned;\n"
WAIT, LEAVE = "\twgmma.wait_group.sync.aligned 0;\n", "\twgmma.wait_group.sync.aligned 1;\n"
ZERO, STORE = "\tmov.f32 %f2, 0f00000000;\n", "\tst.shared.f32 [%r1+32768], %f2;\n"
READ = "\tadd.f32 %f9, %f2, %f2;\n"


def mma(into: str = INTO, a: str = "%d1") -> str:
    """A wgmma; a: its descriptor, or four registers."""
    return MMA.format(into=into, a=a, more=", 0, 0" if a == "%d1" else ", 0")


M, N, A = mma(), mma(OTHER), mma(OTHER, "{%r20, %r21, %r22, %r23}")
PACK = "\tmov.b32 %r22, %r0;\n"


def text(*parts: str) -> str:
    return kernel(START + "".join(parts))


def line_of(source: str, instruction: str, last: bool = False) -> int:
    """The line in which it stands for the first or the last time."""
    found = [number for number, line in enumerate(source.split("\n"), 1) if instruction in line]
    return found[-1] if last else found[0]


RIGHT = [
    pytest.param((ZERO, FENCE, M, COMMIT, WAIT, READ), id="as it should be"),
    pytest.param((FENCE, M, M, COMMIT, M, COMMIT, LEAVE, M, COMMIT, WAIT), id="accumulators of one shape"),
    pytest.param((FENCE, M, COMMIT, N, COMMIT, LEAVE, ZERO, WAIT), id="the other group is in flight"),
    pytest.param((PACK, FENCE, A, A, COMMIT, WAIT, PACK, FENCE, A, COMMIT, WAIT), id="A in registers"),
    pytest.param((FENCE, M, COMMIT, "\tmov.f32 %f9, 0f00000000;\n", WAIT), id="another register"),
    pytest.param(
        (FENCE, M, COMMIT, "\tsetp.gt.u32 %p1, %r0, 999;\n", f"\t@%p1 bar.sync 1;\n\t@%p1 {ZERO.strip()}\n", WAIT),
        id="by nobody",
    ),
]


@pytest.mark.parametrize("parts", RIGHT)
@pytest.mark.parametrize("engine", ["default", "search+order"])
def test_registers_that_are_left_alone_are_proved(tmp_path, parts, engine):
    result = asked(tmp_path, text(*parts), launch(128), engine=engine)
    assert set(verdicts(result).values()) == {PROVED}
    assert engine != "default" or "register-hazard" in verdicts(result)


def test_a_guard_counts_where_the_touch_stands(tmp_path):
    """Its register has another value behind it, in the same stretch of arithmetic."""
    guard = "\tsetp.gt.u32 %p1, %r0, 999;\n\t@%p1 bar.sync 1;\n"
    again = "\tsetp.lt.u32 %p1, %r0, 999;\n\t@!%p1 bar.sync 1;\n"
    touch = f"\t@%p1 {ZERO.strip()}\n"
    assert asked(tmp_path, text(FENCE, M, COMMIT, guard, touch, again, WAIT), launch(128)).verdict == PROVED
    result = asked(tmp_path, text(FENCE, M, COMMIT, guard, again, touch, WAIT), launch(128))
    assert verdicts(result)["register-hazard"] == VIOLATED


def test_who_executes_no_wgmma_may_do_what_he_likes(tmp_path):
    parts = "\tsetp.gt.u32 %p1, %r0, 127;\n\t@%p1 bra OTHERS;\n", FENCE, M, COMMIT, WAIT, "OTHERS:\n", READ
    assert asked(tmp_path, text(*parts, "\tbar.sync 0;\n"), launch(256)).verdict == PROVED


IN_FLIGHT = [
    pytest.param((FENCE, M, COMMIT, ZERO, WAIT), "mov.f32", id="written"),
    pytest.param((FENCE, M, COMMIT, READ, WAIT), "add.f32", id="read"),
    pytest.param((FENCE, M, COMMIT, "\tmov.f32 %f9, %f2;\n", WAIT), "mov.f32", id="moved"),
    pytest.param(
        (FENCE, M, COMMIT, N, COMMIT, LEAVE, "\tadd.f32 %f9, %f6, %f6;\n", WAIT), "add.f32", id="a group later"
    ),
    pytest.param((FENCE, M, COMMIT, "\tmov.u32 %r3, 1;\n", STORE, WAIT), "st.shared", id="stored"),
    pytest.param((FENCE, M, ZERO, COMMIT, WAIT), "mov.f32", id="before the commit"),
    pytest.param((FENCE, M, COMMIT, ZERO), "mov.f32", id="no wait at all"),
    pytest.param((PACK, FENCE, A, COMMIT, "\tadd.u32 %r22, %r0, 1;\n", WAIT), "add.u32 %r22", id="A written"),
    pytest.param((PACK, FENCE, A, COMMIT, "\tadd.u32 %r3, %r22, 1;\n", WAIT), "add.u32 %r3", id="A read"),
    pytest.param(
        (FENCE, M, COMMIT, "\tsetp.eq.u32 %p1, %r0, 99;\n", "\t@!%p1 bra OVER;\n", ZERO, "OVER:\n", WAIT),
        "mov.f32",
        id="by one lane",
    ),
    pytest.param(
        (
            FENCE,
            M,
            COMMIT,
            "\tsetp.eq.u32 %p1, %r0, 99;\n",
            "\t@%p1 st.shared.f32 [%r1+32768], %f2;\n",
            WAIT,
        ),
        "@%p1 st.shared",
        id="stored by one lane",
    ),
]


@pytest.mark.parametrize(("parts", "line"), IN_FLIGHT)
@pytest.mark.parametrize("engine", ["default", "search"])
def test_a_touch_in_flight_is_a_hazard_at_its_line(tmp_path, parts, line, engine):
    source = text(*parts)
    result = asked(tmp_path, source, launch(128), engine=engine, properties=["register-hazard"])
    assert verdicts(result) == {"register-hazard": VIOLATED}
    assert result.trace.steps[-1].line == line_of(source, line)
    assert any(step.line == line_of(source, "mma_async") for step in result.trace.steps)
    assert "no wgmma.wait_group has waited for its group" in result.trace.because


UNFENCED = [
    pytest.param((M, COMMIT, WAIT), id="the first wgmma"),
    pytest.param((FENCE, ZERO, M, COMMIT, WAIT), id="written after the fence"),
    pytest.param((FENCE, M, COMMIT, WAIT, READ, M, COMMIT, WAIT), id="read before the next"),
    pytest.param((FENCE, PACK, A, COMMIT, WAIT), id="A in registers"),
]


@pytest.mark.parametrize("parts", UNFENCED)
@pytest.mark.parametrize("engine", ["default", "search"])
def test_a_wgmma_without_fence_is_a_hazard_at_its_line(tmp_path, parts, engine):
    source = text(*parts)
    result = asked(tmp_path, source, launch(128), engine=engine)
    assert verdicts(result)["register-hazard"] == VIOLATED
    assert result.trace.steps[-1].line == line_of(source, "mma_async", last=True)


def test_wgmmas_of_two_shapes_are_not_ordered_by_themselves(tmp_path):
    """.m64n8k16 and .m64n8k8 have accumulators of one size."""
    narrow = M.replace("k16", "k8").replace("f16.f16", "tf32.tf32").replace(", 0, 0;", ";")
    for between, verdict in (("", VIOLATED), (COMMIT + WAIT, VIOLATED), (COMMIT + WAIT + FENCE, PROVED)):
        result = asked(tmp_path, text(FENCE, M, between, narrow, COMMIT, WAIT), launch(128))
        assert verdicts(result)["register-hazard"] == verdict, between


def test_accumulators_that_overlap_in_part_are_not_followed(tmp_path):
    shifted = mma("%f2, %f3, %f4, %f5")
    result = asked(tmp_path, text(FENCE, M, COMMIT, WAIT, FENCE, shifted, COMMIT, WAIT), launch(128))
    assert result.verdict == UNDETERMINED
    assert "other wgmmas have a part of its registers, and that is not followed" in result.findings[0].note


def test_a_wgmma_that_accumulates_nowhere_is_refused(tmp_path):
    with pytest.raises(SpecError, match=r"k\.ptx:\d+: wgmma.mma_async.* is not known here"):
        asked(tmp_path, text(FENCE, M.replace("{%f0, %f1, %f2, %f3}", "%f0"), COMMIT, WAIT), launch(128))


# ---------------------------------------------------------------- what is not known for certain

FROM_MEMORY = "\tld.param.u64 %d0, [a];\n\tld.global.f32 %f30, [%d0];\n\tsetp.gt.f32 %p1, %f30, 0f00000000;\n"
UNKNOWN = [
    pytest.param(f"\t@%p1 {READ.strip()}\n", id="a guard"),
    pytest.param(f"\t@%p1 bra OVER;\n{READ}OVER:\n", id="a branch"),
]


@pytest.mark.parametrize("touch", UNKNOWN)
def test_a_touch_that_may_not_happen_is_open_in_flight_and_no_matter_behind_the_wait(tmp_path, touch):
    def found(*parts: str):
        return asked(tmp_path, kernel(START + "".join(parts), ".param .u64 a"), launch(128))

    result = found(FROM_MEMORY, FENCE, M, COMMIT, touch, WAIT)
    assert result.verdict == UNDETERMINED
    assert (
        "add.f32: whether it is executed is not known, and it touches registers of a wgmma" in result.findings[0].note
    )
    assert found(FROM_MEMORY, FENCE, M, COMMIT, WAIT, touch).verdict == PROVED
    assert found(FROM_MEMORY, touch, FENCE, M, COMMIT, WAIT).verdict == PROVED
    assert found(FROM_MEMORY, FENCE, touch, M, COMMIT, WAIT).verdict == UNDETERMINED
    certain = found(FROM_MEMORY, FENCE, M, COMMIT, touch, ZERO, WAIT)
    assert verdicts(certain)["register-hazard"] == VIOLATED


def test_what_a_loop_around_a_wait_touches_may_happen(tmp_path):
    init = (
        "\tsetp.ne.u32 %p2, %r0, 0;\n\t@%p2 bra READY;\n\tmbarrier.init.shared::cta.b64 [%r1+40000], 128;\nREADY:\n"
        "\tbar.sync 0;\n\tmbarrier.arrive.shared::cta.b64 _, [%r1+40000];\n\tadd.u32 %r9, %r1, 40000;\n"
    )
    loop = wait("%r9", 0)
    touching = loop.replace("\tbra WAIT;", f"{ZERO}\tbra WAIT;")
    assert asked(tmp_path, text(init, FENCE, M, COMMIT, loop, WAIT), launch(128)).verdict == PROVED
    assert asked(tmp_path, text(init, FENCE, M, COMMIT, touching, WAIT), launch(128)).verdict == UNDETERMINED
    assert asked(tmp_path, text(init, touching, FENCE, M, COMMIT, WAIT), launch(128)).verdict == PROVED


# ---------------------------------------------------------------- what it is made of


def test_registers_are_those_of_each_warp():
    one = lifted(text(PACK, FENCE, A, M, COMMIT, WAIT, STORE), launch(128))
    regions = [
        (region.object, region.stop - region.start) for region in one.layout.regions if region.owner == "warps0_3.1"
    ]
    assert regions == [
        ("warps0_3.1.accumulator[0]", 16),
        ("warps0_3.1.matrix_a[0]", 16),
        ("warps0_3.1.accumulator[1]", 16),
    ]
    accesses = [
        (access.object.removeprefix("warps0_3.1."), access.how)
        for node in one.programs[1].nodes
        for access in effects_of(node.operation).accesses
        if access.space == "registers"
    ]
    assert accesses == [
        ("matrix_a[0]", "generic write"),
        ("matrix_a[0]", "async read"),
        ("accumulator[0]", "async write"),
        ("accumulator[1]", "async write"),
        ("accumulator[1]", "generic read"),
    ]


def test_touches_of_the_same_registers_are_one():
    many = "".join(f"\tadd.f32 %f{40 + number}, %f{number % 4}, %f9;\n\tbar.sync 0;\n" for number in range(8))
    one = lifted(text(FENCE, M, COMMIT, WAIT, many), launch(128))
    touched = [node for node in one.programs[0].nodes if effects_of(node.operation).begins]
    assert len(touched) == 2


def test_registers_of_a_matrix_within_an_accumulator():
    """Scores that become the matrix A of the next product where they are."""
    found = wgmma_registers(parse(text(FENCE, M, mma(OTHER, "{%f0, %f1, %f2, %f3}"), COMMIT, WAIT), "k.ptx").entries[0])
    first, second = (one for one in found.used.values() if one is not None)
    assert first.into == second.of_a and second.into != first.into
    assert [one.name for one in found.sets] == ["accumulator[0]", "accumulator[1]"]


# ---------------------------------------------------------------- what can be left out


def test_fences_and_waits_of_wgmma_are_tried(tmp_path):
    source = text(ZERO, FENCE, M, COMMIT, FENCE, M, COMMIT, LEAVE, WAIT, READ)
    result = asked(tmp_path, source, launch(128), redundancy=True)
    assert result.verdict == PROVED
    second = [number for number, line in enumerate(source.split("\n"), 1) if "wgmma.fence" in line][1]
    assert [(one.line, one.what) for one in result.redundant] == [
        (second, "wgmma.fence"),
        (line_of(source, "wait_group.sync.aligned 1"), "wgmma.wait_group 1: one more group may be pending"),
    ]
