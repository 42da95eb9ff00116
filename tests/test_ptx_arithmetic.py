"""What instructions compute in registers: bit for bit what an H200 has computed, or refused."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from needs import needs_gpu
from ptx_computed import Computing

from sm90_verify.evidence.hardware.arithmetic import record
from sm90_verify.evidence.hardware.arithmetic.operands import WARP_LANES
from sm90_verify.evidence.hardware.arithmetic.record import Computed, computed, kernels_of, read_arithmetic, values_of
from sm90_verify.evidence.hardware.arithmetic.snippets import THREADS, Snippet
from sm90_verify.frontends.ptx.arithmetic import WRITERS
from sm90_verify.frontends.ptx.values import Unknown
from sm90_verify.gpu.device import Gpu
from sm90_verify.spec.errors import SpecError

RECORDED = Path(__file__).parent / "data" / "arithmetic.jsonl.gz"


@lru_cache(maxsize=1)
def recorded() -> list[Computed]:
    return read_arithmetic(str(RECORDED))


def forms() -> list[Computed]:
    return [one for one in recorded() if one.first]


def programs() -> list[Computed]:
    return [one for one in recorded() if not one.first]


def differing(some: list[Computed]) -> list[tuple[str, str]]:
    """The snippets of which our execution leaves something else, with the first result that differs."""
    wrong = []
    by_text = {one.text: one for one in some}
    for snippets, _, _ in kernels_of([Snippet(one.text) for one in some]):
        computing = Computing(snippets, THREADS)
        computing.run(0)
        for number, one in enumerate(snippets):
            seen, results = by_text[one.text], computing.results(number, range(THREADS))
            unknown = next((value for row in results for value in row if isinstance(value, Unknown)), None)
            ours = computed(one, results, whole=bool(seen.first)) if unknown is None else None
            if ours != seen:
                wrong.append((one.text, repr(unknown) if ours is None else first_difference(ours, seen)))
    return wrong


def first_difference(ours: Computed, seen: Computed) -> str:
    for number, (here, there) in enumerate(zip(ours.digests, seen.digests, strict=True)):
        if here != there:
            lanes = zip(*(map(values_of, (one.first[number],)) for one in (ours, seen) if one.first), strict=True)
            return f"result {number}: {[list(zip(*pair, strict=True)) for pair in lanes]}"
    return "nothing"


# ---------------------------------------------------------------- against the recording


def test_forms_compute_what_an_h200_computes():
    assert differing(forms()) == []


def test_random_programs_compute_what_an_h200_computes():
    """With immediates, guards, branches, and collectives between them."""
    assert differing(programs()) == []


def test_one_thread_computes_the_same():
    """Where all registers hold one integer, the arithmetic is straight Python."""
    alone = [one for one in forms() if not Snippet(one.text).meets]
    computing = Computing([Snippet(one.text) for one in alone], 1)
    lanes = range(0, WARP_LANES, 2)
    for lane in lanes:
        computing.run(lane)
    assert len(alone) > 800
    for number, one in enumerate(alone):
        for row, seen in zip(computing.results(number, lanes), one.first, strict=True):
            assert row == values_of(seen)[::2], one.text


def test_everything_that_is_known_was_recorded():
    text = "\n".join(one.text for one in recorded())
    assert len(forms()) > 1000 and sum(one.text.count("\n") for one in programs()) > 3000
    assert {name for name in WRITERS if not re.search(rf"^(@!?\w+ )?{name}\.", text, re.MULTILINE)} == {"ldu"}
    assert {one.text for one in record.recorded_snippets(1)[0]} <= {one.text for one in forms()}
    assert RECORDED.stat().st_size < 150_000


def test_a_wrong_bit_is_noticed():
    one = next(one for one in forms() if "shf.l.wrap" in one.text)
    assert differing([one]) == []
    other = one._replace(digests=("0" * 12,), first=(f"{int(one.first[0], 16) ^ 1:0{len(one.first[0])}x}",))
    ((text, what),) = differing([other])
    assert text == one.text and what.startswith("result 0: [")


def test_what_was_computed_is_read_as_it_was_written(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 4))
    monkeypatch.setattr(
        record, "on_gpu", lambda some: [[[lane % 2 for lane in range(THREADS)]] * len(one.kept) for one in some]
    )
    path = str(tmp_path / "x.jsonl.gz")
    assert record.main(["--to", path]) == 0
    found = read_arithmetic(path)
    assert [one.text for one in found[: -record.PROGRAMS]] == [one.text for one in record.recorded_snippets(1)[0]]
    assert values_of(found[0].first[0]) == [0, 1] * 16


# ---------------------------------------------------------------- what is not known


REFUSED = [
    "add.sat.u32 x, a, b;",
    "setp.lt.f16x2 p|q, a, b;",
    "slct.b32.u32 x, a, b, a;",
    "cvt.pack.sat.u8.u32.b32 x, a, b, a;",
    "vadd.s32.s32.s32 x, a, b;",
    "dp4a.b32.b32 x, a, b, a;",
    "set.lt.u32.tf32 x, a, b;",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_form_that_is_not_known_is_refused_where_it_matters(text):
    snippet = Snippet(
        f"given b32 a\ngiven b32 b\n.reg .pred q;\n.reg .pred p;\n{text}\nselp.b32 x, a, b, p;\nkeep b32 x"
    )
    with pytest.raises(SpecError, match=r"snippets\.ptx:\d+: .* is not known"):
        Computing([snippet], THREADS).run(0)


@pytest.mark.parametrize(
    "text", ["add.f32 x, a, b;", "cvt.rn.f32.s32 x, a;", "fma.rn.f16x2 x, a, b, a;", "ex2.approx.f32 x, a;"]
)
def test_floating_point_numbers_are_unknown(text):
    computing = Computing([Snippet(f"given b32 a\ngiven b32 b\n{text}\nkeep b32 x")], THREADS)
    computing.run(0)
    assert all(isinstance(value, Unknown) for value in computing.results(0, range(THREADS))[0])


@pytest.mark.parametrize("name", ["%warpid", "%nwarpid", "%smid", "%clock"])
def test_what_a_gpu_chooses_is_unknown(name):
    computing = Computing([Snippet(f"mov.u32 x, {name};\nkeep b32 x")], THREADS)
    computing.run(0)
    assert all(isinstance(value, Unknown) for value in computing.results(0, range(THREADS))[0])


# ---------------------------------------------------------------- on a GPU


@needs_gpu
def test_a_gpu_computes_what_was_recorded():
    snippets = [Snippet(one.text) for one in recorded()]
    found = record.on_gpu(snippets)
    again = [
        computed(one, results, whole=bool(seen.first))
        for one, results, seen in zip(snippets, found, recorded(), strict=True)
    ]
    assert [one for one, seen in zip(again, recorded(), strict=True) if one != seen] == []
