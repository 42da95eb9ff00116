"""A kernel for all values of a parameter from one on, written down with loops of any number of rounds."""

from __future__ import annotations

import re

import pytest
from ptx_rings import ring
from ptx_text import asked, launch
from test_ptx_larger import OFTEN

from sm90_verify.cli.main import main
from sm90_verify.result import PROVED
from sm90_verify.spec.errors import SpecError


def written(tmp_path, text: str, sweep: str = "n=0..") -> str:
    path = tmp_path / "written.py"
    assert asked(tmp_path, text, launch(64), sweep=sweep, emit=str(path)).verdict == PROVED
    return path.read_text()


def decided(tmp_path, text: str, capsys) -> list[str]:
    path = tmp_path / "again.py"
    path.write_text(text)
    main(["spec", str(path)])
    said = capsys.readouterr().out
    assert "every trip count" in said
    return re.findall(r"^verify: (\w+)", said, re.M)


@pytest.mark.parametrize("what", OFTEN)
def test_what_is_written_is_proved_for_every_number_of_rounds(tmp_path, capsys, what):
    text = written(tmp_path, ring(**OFTEN[what]))
    classes = re.findall(r"^class \w+?(\d+)\(Pipeline\)", text, re.M)
    verdicts = decided(tmp_path, text, capsys)
    assert len(classes) >= 4 and verdicts == ["PROVED"] * len(classes)
    assert text.count("in self.loop():") == 2 * len(classes) and 'trips = "all"' in text


@pytest.mark.parametrize("line", ["self.empty[i % 2].wait", "self.empty[i % 2].arrive", "self.full[i % 2].wait"])
def test_a_line_less_within_the_loop_is_found(tmp_path, capsys, line):
    text = written(tmp_path, ring(), "n=2..")
    inside = text.index(line, text.index("self.loop()"))
    start, end = text.rindex("\n", 0, inside), text.index("\n", inside)
    assert "VIOLATED" in decided(tmp_path, text[:start] + text[end:], capsys)


def test_nothing_is_written_where_nothing_is_claimed(tmp_path):
    path = tmp_path / "written.py"
    text = ring(copying="setp.eq.u32 %p5, %r1, 5000; @%p5 bra DONE;")
    result = asked(tmp_path, text, launch(64), sweep="n=0..", emit=str(path))
    assert result.verdict != PROVED and not path.exists()
    assert any("is not written" in one for one in result.notes)


def test_a_range_of_values_is_not_written(tmp_path):
    with pytest.raises(SpecError, match="use --sweep NAME=A"):
        asked(tmp_path, ring(), launch(64), sweep="n=0..4", emit=str(tmp_path / "written.py"))
