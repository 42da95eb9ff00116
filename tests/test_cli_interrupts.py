"""What cannot be written, and Ctrl-C at any time: exit code 2, and at most one line."""

from __future__ import annotations

import subprocess
import sys

import pytest
from commands import GOOD, ROOT


def ended(words: str) -> subprocess.CompletedProcess[str]:
    """What a shell makes of `verify` and these words; the exit code is that of verify."""
    text = f"{sys.executable} -m sm90_verify {words}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize("output", ["2> /dev/full", "2>&1 | true", "2>&-", "> /dev/full 2>&1"])
def test_a_mistake_exits_2_also_where_it_cannot_be_told(output):
    done = ended(f"pipeline --stages 0 {output}")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("words", ["--help", "pipeline --help", "explain race"])
def test_what_is_only_a_text_must_be_written(words):
    """No exit code stands for it; that nobody reads to the end is no error."""
    for output, said in ((">&-", "standard output is closed"), ("> /dev/full", "No space left on device")):
        done = ended(f"{words} {output}")
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert (ended(f"{words} | true").returncode, ended(words).returncode) == (0, 0)


INTERRUPTS = {
    "imports": """
class Stop:
    def find_spec(self, name, *_):
        if name == "sm90_verify.cli.usage":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
""",
    "options": """
from sm90_verify.cli import usage
def stop(self, *_): raise KeyboardInterrupt
usage.Parser.parse_args = stop
""",
    "an engine": """
from sm90_verify.engines import check
def stop(*_, **__): raise KeyboardInterrupt
check.check = stop
""",
    "ctypes": """
import ctypes
from sm90_verify.engines import check
class Stops:
    @property
    def _as_parameter_(self): raise KeyboardInterrupt
def stop(*_, **__): ctypes.pythonapi.PyLong_FromLong(Stops())
check.check = stop
""",
    "ctypes, placed": """
from ctypes import ArgumentError
from sm90_verify.engines import check
from sm90_verify.spec.errors import placed
def stop(*_, **__):
    with placed(None):
        raise ArgumentError("argument 2: <class 'KeyboardInterrupt'>: ")
check.check = stop
""",
}


@pytest.mark.parametrize("where", INTERRUPTS)
@pytest.mark.parametrize("command", ["pipeline", "spec"])
def test_an_interrupt_is_one_line_wherever_it_comes(where, command, spec_file):
    """Also while several questions are asked: the others are not asked any more."""
    words = [command, *([spec_file(GOOD, "a.py"), spec_file(GOOD, "b.py")] if command == "spec" else [])]
    text = f"import sys\n{INTERRUPTS[where]}\nfrom sm90_verify.cli.main import main\nsys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "verify: error: interrupted\n")
