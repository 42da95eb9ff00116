"""Many values of one parameter: what is said of all of them together."""

from __future__ import annotations

import pytest
from ptx_text import asked, kernel, launch, verdicts

from sm90_verify.decide.sweep import Swept, found_among
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, Trace, worst
from sm90_verify.spec.errors import SpecError

SHORT = {"p": PROVED, "u": UNDETERMINED, "v": VIOLATED}


def result(text: str) -> Result:
    """Of the properties race and deadlock, by the letters of their verdicts."""
    findings = []
    for id, letter in zip(("race", "deadlock"), text, strict=True):
        trace = Trace(id, "", ()) if letter == "v" else None
        findings.append(Finding(id, SHORT[letter], trace))
    return Result("ptx", "k", {}, "order", tuple(findings))


@pytest.mark.parametrize(
    ("values", "found", "decided"),
    [
        (["pp", "pp", "pp"], "pp", "3 values of n decided, 0 to 2"),
        (["pp", "uu", "uu"], "uu", "of 3 values of n, 1 are decided, 0 to 2"),
        (["uu", "pp", "pp"], "uu", "of 3 values of n, 2 are decided, 0 to 2"),
        (["pp", "pp", "uu"], "uu", "of 3 values of n, 2 are decided, 0 to 2"),
        (["pu", "up", "pp"], "uu", "of 3 values of n, 1 are decided, 0 to 2"),
        (["pu", "vp", "pp"], "vu", "of 2 values of n, 1 are decided, 0 to 1"),
    ],
)
def test_a_property_is_proved_if_it_is_for_every_value(values, found, decided):
    one = found_among(enumerate(map(result, values)), Swept("n", 0, 4, range(len(values))))
    assert verdicts(one) == {id: SHORT[letter] for id, letter in zip(("race", "deadlock"), found, strict=True)}
    assert one.verdict == worst(SHORT[letter] for letter in found)
    assert one.notes == (decided,)
    told = [n for n, text in enumerate(values) if one.verdict in {SHORT[letter] for letter in text}]
    assert one.parameters["n"] == told[-1 if one.verdict == PROVED else 0]


LAST = """
	ld.param.u32 %r10, [n];
	setp.ne.u32 %p0, %r10, 3;
	@%p0 bra DONE;
	ld.global.b32 %r9, [%d0];
	setp.ne.u32 %p9, %r9, 0;
	@%p9 bra DONE;
	bar.sync 0;
DONE:
"""


def test_a_last_value_that_is_open_leaves_the_range_open(tmp_path):
    text = kernel(LAST, ".param .u32 n")
    assert asked(tmp_path, text, launch(64), sweep="n=0..2").verdict == PROVED
    open_ = asked(tmp_path, text, launch(64), sweep="n=0..3")
    assert open_.verdict == UNDETERMINED and "of 4 values of n, 3 are decided, 0 to 3" in open_.notes
    assert open_.parameters["n"] == 3
    assert asked(tmp_path, text, launch(64), sweep="n=3..5").verdict == UNDETERMINED


@pytest.mark.parametrize("fraction", ["1.0", "0.5", "0f3F800000", "0F3F000000"])
def test_the_fraction_of_a_policy_is_a_number(tmp_path, fraction):
    text = kernel(f"createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d0, {fraction};")
    assert asked(tmp_path, text, launch(32)).verdict == PROVED


def test_the_values_that_are_proved_one_by_one_are_the_scope(tmp_path):
    said = render(asked(tmp_path, kernel(LAST, ".param .u32 n"), launch(64), sweep="n=0..2"))
    assert "\nscope   every n from 0 to 2, one by one\n" in said
    assert "scope" not in render(asked(tmp_path, kernel(LAST, ".param .u32 n"), launch(64), sweep="n=0..3"))


@pytest.mark.parametrize(
    ("option", "note"),
    [
        ({"redundancy": True}, "what is redundant is not said of a kernel that is undetermined"),
        ({"table": True}, "there is no table: what the kernel does is not known"),
        ({"emit": "{path}"}, "{path} is not written: what the kernel does is not known"),
    ],
)
def test_what_is_asked_of_a_kernel_that_is_not_known_is_said_not_to_be_there(tmp_path, option, note):
    path = str(tmp_path / "out.py")
    given = {name: path if value == "{path}" else value for name, value in option.items()}
    result = asked(tmp_path, kernel(LAST, ".param .u32 n"), launch(64, parameters="03000000"), **given)
    assert result.verdict == UNDETERMINED and note.format(path=path) in result.notes


SWEPT = """
	ld.param.u32 %r0, [n];
	setp.eq.u32 %p0, %r0, 3;
	@!%p0 bra OVER;
	bar.sync 1, 64;
OVER:
	bar.sync 0;
"""


def test_a_sweep_decides_every_value_of_a_parameter(tmp_path):
    text = kernel(SWEPT, ".param .u32 n")
    proved = asked(tmp_path, text, launch(32), sweep="n=4..9")
    assert (proved.verdict, proved.scope["sweep"]) == (PROVED, {"n": [4, 9], "step": 1})
    found = asked(tmp_path, text, launch(32), sweep="+0:u32=0..9")
    assert (found.verdict, found.parameters["+0:u32"]) == (VIOLATED, 3)
    assert "4 values of +0:u32 decided, 0 to 3" in found.notes


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("n", "use NAME=A..B"),
        ("n=5..1", "no value lies there"),
        ("n=0..99999", "10000 at most"),
        ("n=0..99999999999999999999", "10000 at most"),
        ("m=0..1", "no parameter of that name: use one of n"),
        ("+4:u32=0..1", "the parameters have 4 bytes"),
        ("+0:u8=0..300", "has 1 bytes"),
    ],
)
def test_a_sweep_that_is_none_is_refused(tmp_path, sweep, words):
    with pytest.raises(SpecError, match=words):
        asked(tmp_path, kernel(SWEPT, ".param .u32 n"), launch(32), sweep=sweep)
