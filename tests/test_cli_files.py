"""Where verify writes: files appear whole or not at all, links and devices stay, and the exit code holds anyway."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from commands import RACE, ROOT

from sm90_verify.cli.main import main
from sm90_verify.files import write_whole
from sm90_verify.spec.errors import SpecError


def test_output_files_are_whole_or_absent(tmp_path, monkeypatch, capsys):
    target = tmp_path / "out.json"
    assert main(["pipeline", "--stages", "1", "--format", "json", "-o", str(target)]) == 0
    assert json.loads(target.read_text())["verdict"] == "proved"
    assert capsys.readouterr().out == ""
    before = target.read_text()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert main(["pipeline", "--stages", "2", "--format", "json", "-o", str(target)]) == 2
    assert target.read_text() == before and [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_link_is_written_through(tmp_path):
    target, link, chain = tmp_path / "there" / "out.txt", tmp_path / "link", tmp_path / "chain"
    target.parent.mkdir()
    link.symlink_to("there/out.txt")
    chain.symlink_to(link)
    for name in (link, chain):
        assert main(["pipeline", "--stages", "1", "-o", str(name)]) == 0
        assert name.is_symlink() and not target.is_symlink()
        assert target.read_text().splitlines()[-1].startswith("verify: PROVED")
        assert [path.name for path in target.parent.iterdir()] == ["out.txt"]
        target.unlink()


def test_a_file_keeps_its_mode(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    target.chmod(0o600)
    write_whole(str(target), b"new")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o600)
    write_whole(str(tmp_path / "fresh"), b"new")
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o644


def test_a_device_or_pipe_is_never_replaced(tmp_path):
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    before = os.stat("/dev/null")
    for name in ("/dev/null", str(device)):
        assert main(["pipeline", "--stages", "1", "-o", name]) == 0
    assert os.path.samestat(before, os.stat("/dev/null")) and device.is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(str(pipe), b"through")
        assert os.read(end, 100) == b"through" and not pipe.is_file()
    finally:
        os.close(end)
    with pytest.raises(SpecError, match="Is a directory"):
        write_whole(str(tmp_path), b"")


@pytest.mark.parametrize("output", ["-o /dev/stdout", "-o /proc/self/fd/1", "-o /dev/fd/1", ""])
def test_standard_output_by_name_is_what_it_is(tmp_path, output):
    target = tmp_path / "out.txt"
    target.write_text("before\n")
    command = f"{sys.executable} -m sm90_verify pipeline --stages 1 {output}"
    for redirection in (f">> {target}", f"| cat >> {target}"):
        subprocess.run(f"{command} {redirection}", shell=True, check=True, cwd=ROOT)
    lines = target.read_text().splitlines()
    assert lines[0] == "before" and sum(line.startswith("verify: PROVED") for line in lines) == 2


def test_an_exit_code_tells_the_verdict_also_where_nobody_reads_it(tmp_path):
    path = tmp_path / "race.py"
    path.write_text(RACE)
    for output, code in (("| true", 1), (">&-", 1), ("> /dev/full", 2)):
        text = f"{sys.executable} -m sm90_verify spec {path} {output}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == code, (output, done.stderr)
        assert done.stderr == ("verify: error: standard output: No space left on device\n" if code == 2 else "")


def test_what_standard_output_cannot_show_is_said_in_one_line(tmp_path):
    file = tmp_path / "great.py"
    file.write_text(
        "from sm90_verify import Pipeline, barrier, role\n"
        "class Gr\u00f6\u00dfe(Pipeline):\n"
        "    full = barrier(arrivals=1, slots=1)\n"
        "    @role(warps=1)\n"
        "    def one(self):\n"
        "        yield self.full.arrive()\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "sm90_verify", "spec", str(file)]
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, env=narrow, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "set PYTHONIOENCODING=utf-8, or give -o FILE" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
