"""What the public functions are given and cannot mean anything: refused with a SpecError that says what to give."""

from __future__ import annotations

import pytest

from sm90_verify import (
    Pipeline,
    SpecError,
    barrier,
    check,
    check_log,
    explain,
    render,
    replay,
    replay_trace,
    role,
    trace,
)


class Once(Pipeline):
    late = False
    full = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        if self.late:
            yield self.full.wait(1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": "3"}, "limit='3': give a whole number, 0 for no bound"),
        ({"limit": 2.5}, "limit=2.5: give a whole number, 0 for no bound"),
        ({"memory": 1e9}, "memory=1000000000.0: give a whole number, 0 for no bound"),
        ({"timeout": "3"}, "timeout='3': give a number, 0 for no bound"),
        ({"timeout": float("nan")}, "timeout=nan: give a number, 0 for no bound"),
        ({"timeout": float("inf")}, "timeout=inf: give a number, 0 for no bound"),
        ({"timeout": -0.5}, "timeout=-0.5, a bound below 0: use 0 for none"),
        ({"engine": None}, "no engine None: use search, order, smt, or several joined by +"),
        ({"properties": None}, "properties=None: give a list of ids, () for all"),
        ({"properties": [3]}, "unknown property 3: use one of deadlock, "),
    ],
)
def test_a_question_of_the_wrong_kind(given, said):
    with pytest.raises(SpecError) as error:
        check(Once(), **given)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize("given", [trace(Once()), Once, None, 3])
def test_only_a_pipeline_is_traced(given):
    """In one line: a kernel's repr is thousands of characters."""
    with pytest.raises(SpecError, match=f"^a {type(given).__name__} is no pipeline: give trace an instance") as error:
        trace(given)
    assert len(str(error.value)) < 120


class NoSlot(Pipeline):
    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()


def test_a_declaration_without_slots_has_none_to_name():
    with pytest.raises(SpecError, match=r"full\[0\]: full has no slot with these parameters$"):
        trace(NoSlot(stages=0))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: explain([]), r"no property \[\]: use one of deadlock, "),
        (lambda: explain(None), "no property None: use one of deadlock, "),
        (lambda: explain("race", width=0), "width=0: give a whole number of columns, 1 or more"),
        (lambda: explain("race", width="9"), "width='9': give a whole number of columns, 1 or more"),
        (lambda: render(None), "a NoneType is no result: give render what check, check_log or replay gave"),
        (lambda: render("x"), "a str is no result: give render what check, check_log or replay gave"),
        (lambda: check_log(None), "None is no name of a file: give check_log the path of a synclog"),
        (lambda: check_log(0), "0 is no name of a file: give check_log the path of a synclog"),
        (lambda: check_log("a\0b"), "give a synclog"),
        (lambda: replay(None), "a NoneType is no name of a file: give replay the path of a trace"),
        (lambda: replay_trace(Once(), None), "a NoneType is no trace: give replay_trace that of a finding of a Result"),
        (lambda: replay_trace(trace(Once()), check(Once(late=True)).trace), "a Kernel is no pipeline: give trace an"),
    ],
)
def test_what_is_no_property_result_or_file(ask, said):
    with pytest.raises(SpecError, match=said):
        ask()
