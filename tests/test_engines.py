"""The engines: their names, what each heeds, when it is loaded, and what is refused before one is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check, check_machine
from sm90_verify.engines.engine import Answer
from sm90_verify.engines.table import ENGINES, names_of, with_engine
from sm90_verify.result import PROVED, UNDETERMINED, Finding
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

ROOT = Path(__file__).resolve().parent.parent
WORDS = ("search", "order", "smt", "search+order", "search+smt", "order+smt", "search+order+smt")


class HandsOver(Pipeline):
    """A copy that is waited for, or one that is read while it may still be in flight."""

    waits = True
    full = barrier(arrivals=1)
    a = tile(bytes=128)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(128)
        yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        if self.waits:
            yield self.full.wait(0)
        yield self.a.read()


class Claims:
    """An engine that gives the same verdict on everything."""

    needs = "machine"
    heeds = ()

    def __init__(self, name, verdict):
        self.name, self.verdict = name, verdict

    def answer(self, question):
        return Answer(self.name, tuple(Finding(one, self.verdict, note="no time") for one in question.asked()))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("gpu", "no engine 'gpu': use search, order, smt"),
        ("smth", "no engine 'smth'"),
        ("", "no engine ''"),
        ("search+", "no engine ''"),
        ("search smt", "no engine 'search smt'"),
        ("research", "no engine 'research'"),
        ("search,order", "no engine 'search,order'"),
        ("search+gpu", "no engine 'gpu'"),
        ("search+search", "the engine 'search' is named twice in 'search+search': name each once"),
    ],
)
def test_wrong_words_are_refused_with_one_line_by_python_and_command_line(words, text, capsys):
    with pytest.raises(SpecError) as error:
        check(HandsOver(), engine=words)
    assert text in str(error.value)
    with pytest.raises(SpecError):
        check_machine(compile_kernel(trace(HandsOver())), engine=words)
    for command in (["pipeline", "tma-async"], ["mainloop", "--minimal-wait"], ["epilogue"], ["spec", "x.py"]):
        assert main([*command, "--engine", words]) == 2
        err = capsys.readouterr().err
        assert text in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("words", WORDS)
def test_names_come_in_the_order_of_the_table_however_they_are_given(words):
    for given in permutations(words.split("+")):
        assert "+".join(names_of("+".join(given))) == words


def test_one_more_engine():
    assert with_engine("order", "smt") == "order+smt"
    assert with_engine("smt", "smt") == "smt"
    assert with_engine("order+smt", "search") == "order+smt+search"


def test_an_engine_that_reads_programs_refuses_a_machine():
    machine = compile_kernel(trace(HandsOver()))
    for words in ("order", "search+order"):
        with pytest.raises(SpecError, match="'order' reads programs, and HandsOver is a Machine alone"):
            check_machine(machine, engine=words)
    assert check_machine(machine).verdict == PROVED


def test_the_frontier_is_decided_by_order_alone(capsys):
    assert main(["epilogue", "--frontier", "--engine", "search"]) == 2
    assert "--engine search: --frontier is decided by order alone" in capsys.readouterr().err


def test_what_is_neither_a_pipeline_nor_a_kernel_is_refused():
    for thing, named in ((HandsOver, "HandsOver"), (None, "None"), ("HandsOver", "'HandsOver'")):
        with pytest.raises(SpecError, match=f"{named} is neither a pipeline nor a kernel"):
            check(thing)


def test_one_property_may_be_a_word_and_no_bound_is_negative():
    assert [finding.id for finding in check(HandsOver(), properties="race").findings] == ["race"]
    for bound in ({"limit": -1}, {"timeout": -1.0}, {"memory": -1}):
        with pytest.raises(SpecError, match="a bound below 0"):
            check(HandsOver(), **bound)


def test_unknown_properties_are_refused():
    for words in ("search", "order"):
        with pytest.raises(SpecError, match="unknown property 'nonsense'"):
            check(HandsOver(), engine=words, properties=("race", "nonsense"))
        with pytest.raises(SpecError, match="nothing to check: named-barrier cannot be violated by HandsOver"):
            check(HandsOver(), engine=words, properties=("named-barrier",))


@pytest.mark.parametrize(
    ("given", "option"),
    [({"limit": 5}, "--limit"), ({"memory": 1 << 30}, "--memory"), ({"reduced": False}, "--unreduced")],
)
def test_a_bound_that_no_engine_heeds_is_refused(given, option):
    for words, named in (("order", "order"), ("smt", "smt"), ("order+smt", "order and smt")):
        with pytest.raises(SpecError) as error:
            check(HandsOver(), engine=words, **given)
        text = str(error.value)
        assert f"({option}) means nothing to {named}: leave it out, or choose search" in text
    assert check(HandsOver(), engine="search+order", **given).findings
    assert all(bound in ENGINES["search"]().heeds for bound in given)


def test_the_command_refuses_it_with_one_line(capsys):
    file = f"{__file__}:HandsOver"
    for option in (["--limit", "5"], ["--memory", "1"], ["--unreduced"]):
        assert main(["spec", file, "--engine", "order", *option]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"({option[0]}) means nothing to order" in err
        assert main(["spec", file, "--engine", "order", "--prove", *option]) == 2
        assert main(["spec", file, "--engine", "order+search", *option]) in (0, 3)
        capsys.readouterr()
    assert main(["spec", file, "--engine", "order", "--timeout", "9"]) == 0


def test_every_command_takes_a_limit_that_order_keeps_by_visiting_no_states(capsys):
    sizes = ["epilogue", "--schedule", "ws", "--stages-c", "1", "--stages-d", "1", "--subtiles", "1", "--tiles", "1"]
    assert main([*sizes, "--limit", "100"]) == 0
    assert main([*sizes, "--limit", "1", "--engine", "search"]) == 3
    assert main([*sizes, "--limit", "1"]) == 3  # a role has more locations
    assert main([*sizes, "--limit", "1", "--engine", "order"]) == 2
    assert main([*sizes, "--unreduced"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [["--limit", "5"], ["--timeout", "5"], ["--memory", "1"], ["--unreduced"], ["--property", "race"], ["--all"]],
)
def test_the_frontier_refuses_what_it_does_not_heed(arguments, capsys):
    assert main(["epilogue", "--frontier", "--schedule", "ws", *arguments]) == 2
    assert f"{arguments[0]} means nothing to --frontier" in capsys.readouterr().err


# ---------------------------------------------------------------- --prove


@pytest.mark.parametrize(
    ("given", "words"),
    [([], "search+smt"), (["--engine", "order"], "order+smt"), (["--engine", "order+search"], "order+search+smt")],
)
def test_prove_adds_z3_to_whatever_is_chosen(given, words, capsys):
    assert main(["spec", f"{__file__}:HandsOver", *given, "--prove", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == words


def test_prove_beside_order_asks_z3(monkeypatch, capsys):
    monkeypatch.setitem(ENGINES, "smt", lambda: Claims("smt", UNDETERMINED))
    assert main(["spec", f"{__file__}:HandsOver", "--engine", "order", "--prove"]) == 3
    assert "smt: no time" in capsys.readouterr().out


# ---------------------------------------------------------------- what is loaded


@pytest.mark.parametrize(
    ("code", "loaded", "absent"),
    [
        (
            "import sm90_verify",
            (),
            (
                "z3",
                "networkx",
                "sm90_verify.engines.search.explore",
                "sm90_verify.engines.order",
                "sm90_verify.engines.smt",
            ),
        ),
        (
            "import sm90_verify.engines.check",
            ("sm90_verify.engines.table",),
            (
                "z3",
                "networkx",
                "sm90_verify.engines.search.explore",
                "sm90_verify.engines.order",
                "sm90_verify.engines.smt",
            ),
        ),
        (
            "from sm90_verify.engines.table import ENGINES; ENGINES['search']()",
            ("sm90_verify.engines.search.explore",),
            ("z3", "networkx", "sm90_verify.engines.order", "sm90_verify.engines.smt"),
        ),
        (
            "from sm90_verify.engines.table import ENGINES; ENGINES['order']()",
            ("sm90_verify.engines.order",),
            ("z3", "sm90_verify.engines.smt"),
        ),
    ],
)
def test_an_engine_is_loaded_when_it_is_asked_for(code, loaded, absent):
    out = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(sorted(sys.modules))"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    for name in loaded:
        assert f"'{name}'" in out
    for name in absent:
        assert f"'{name}'" not in out
