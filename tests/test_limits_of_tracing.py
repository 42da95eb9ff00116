"""Bounds hold while a model is traced and compiled, and a terminal is told how far it is."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from commands import GOOD, ROOT
from rings import Filled

from sm90_verify.cli import progress
from sm90_verify.cli.main import main
from sm90_verify.engines import check as check_module
from sm90_verify.engines import effort
from sm90_verify.engines.check import check
from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import UNDETERMINED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Ring(Filled):
    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


@pytest.fixture
def clock(monkeypatch):
    """A second goes by whenever somebody looks."""
    now = [0.0]

    def look():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(effort.time, "perf_counter", look)
    return now


def after(calls, monkeypatch, what):
    """Time is up after so many looks at the clock while this is done."""
    seen = [0]

    def tick(self, doing, role, done, where):
        seen[0] += doing == what
        if seen[0] > calls:
            raise RanOut(f"the time, reached while {doing} {role} after {done} operations, {where}")

    monkeypatch.setattr(Effort, "tick", tick)


@pytest.mark.parametrize("engine", ["default", "search", "order", "search+order"])
@pytest.mark.parametrize("calls", [0, 3, 15])
def test_a_model_that_takes_too_long_to_trace_is_undetermined(engine, calls, monkeypatch):
    after(calls, monkeypatch, "tracing")
    result = check(Ring(), engine=engine, properties=("race", "deadlock"))
    assert (result.verdict, result.asked, result.trace) == (UNDETERMINED, engine, None)
    assert [finding.id for finding in result.findings] == ["race", "deadlock"]
    assert all("while tracing producer after" in f.note or "while tracing consumer" in f.note for f in result.findings)
    assert result.model == "Ring" and result.parameters["stages"] == 2


@pytest.mark.parametrize("engine", ["search", "search+order"])
def test_a_model_that_takes_too_long_to_compile_is_undetermined(engine, monkeypatch):
    after(2, monkeypatch, "compiling")
    result = check(Ring(), engine=engine)
    assert {finding.verdict for finding in result.findings} == {UNDETERMINED}
    assert {"race", "deadlock"} <= {finding.id for finding in result.findings}
    assert "while compiling producer after 2 operations" in result.findings[0].note


def test_what_ran_out_and_where(clock):
    spent = Effort(timeout=3.0)
    with pytest.raises(RanOut) as error:
        for done in range(10):
            spent.tick("tracing", "math", done, Source("a.py", 7))
    assert str(error.value) == "the timeout of 3 s (--timeout), reached while tracing math after 3 operations, a.py:7"
    with pytest.raises(RanOut, match="memory bound"):
        Effort(memory=1).tick("tracing", "math", 1, None)
    with pytest.raises(RanOut, match=r"^the limit of 5 states \(--limit\), reached while following math after 6"):
        Effort(limit=5).tick("following", "math", 6, None)
    Effort(limit=5).tick("following", "math", 5, None)


def test_every_engine_is_bounded_by_what_is_left(clock):
    """Also order on a run that ends."""
    kernel = trace(kernels("pipeline")["tma-async"](stages=4, trips=30))
    outcome = order(kernel, effort=Effort(timeout=2.0))
    assert "the timeout of 2 s (--timeout), reached after" in outcome.why and outcome.verdict == UNDETERMINED
    with pytest.raises(RanOut, match=r"^the timeout of 0.5 s \(--timeout\), reached while"):
        explore(compile_kernel(kernel), effort=Effort(timeout=0.5))


def test_a_shorter_trace_may_take_half_of_what_is_left(clock):
    whole = Effort(timeout=9.0)
    part = whole.for_a_trace()
    assert (part.timeout, part.since) == (4.0, 2.0)
    assert Effort().for_a_trace().timeout == effort.TRACE_SECONDS
    for _ in range(9):
        part.ran_out()
    assert part.ran_out() == "the 4 s to look for a shorter trace"


def test_the_command_says_it_and_exits_3(capsys, monkeypatch, tmp_path):
    file = tmp_path / "ring.py"
    file.write_text(GOOD)
    after(5, monkeypatch, "tracing")
    assert main(["spec", str(file), "--timeout", "60"]) == 3
    out, err = capsys.readouterr()
    assert "the time, reached while tracing" in " ".join(out.split()) and err == ""
    assert out.splitlines()[-1].startswith("verify: UNDETERMINED DoubleBuffer")


def test_progress_is_told_of_every_part():
    told = []
    check(Ring(), engine="search+order", progress=told.append)
    for words in ("tracing producer, ", "following consumer, ", "compiling consumer, ", "search, "):
        assert any(line.startswith(words) for line in told), words
    big = kernels("pipeline")["tma-async"](stages=4, trips=30)
    check(big, engine="order", progress=told.append)
    assert any(line.startswith("order, ") and line.endswith(" events") for line in told)


# ---------------------------------------------------------------- the line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_one_line_that_is_gone_at_the_end(monkeypatch):
    now, stream = [0.0], Terminal()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.progress_line() as line:
        line("too early")
        now[0] = 0.6
        line("first" + 100 * "x")
        line("too early")
        now[0] = 1.2
        line("second")
    clear = progress.CLEAR
    assert stream.getvalue() == f"{clear}first{73 * 'x'}{clear}second{clear}"
    with pytest.raises(KeyboardInterrupt), progress.progress_line() as line:
        now[0] = 2.0
        line("third")
        raise KeyboardInterrupt
    assert stream.getvalue().endswith(f"{clear}third{clear}")


def test_what_takes_no_time_shows_nothing_and_a_pipe_never_sees_it(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.progress_line() as line:
        line("soon over")
    assert stream.getvalue() == ""
    for none in (io.StringIO(), None):
        monkeypatch.setattr(progress.sys, "stderr", none)
        with progress.progress_line() as line:
            assert line is None


def test_a_terminal_that_is_gone_is_no_error(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.progress_line() as line:
        stream.close()
        line("nobody sees it")


def test_the_command_hands_the_line_to_the_check(monkeypatch, capsys, tmp_path):
    handed = []
    monkeypatch.setattr(check_module, "kernel_of", lambda pipeline, tick: handed.append(tick) or trace(pipeline))
    file = tmp_path / "ring.py"
    file.write_text(GOOD)
    assert main(["spec", str(file)]) == 0
    assert handed[0].__self__.told is None  # standard error is no terminal here


@pytest.mark.parametrize("what", ["tracing", "following", "compiling"])
def test_an_interrupt_while_a_model_is_traced_or_compiled_is_one_line(what, tmp_path):
    file = tmp_path / "ring.py"
    file.write_text(GOOD)
    text = f"""
import sys
from sm90_verify.engines.effort import Effort
def stop(self, doing, *_):
    if doing == {what!r}: raise KeyboardInterrupt
Effort.tick = stop
from sm90_verify.cli.main import main
sys.exit(main(["spec", {str(file)!r}, "--engine", "search"]))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "verify: error: interrupted\n")
