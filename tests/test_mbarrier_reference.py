"""What the mbarrier fuzzer compares a GPU with: the menu of operations, the reference, and the C that is generated from
the Steps, held to them.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from needs import needs_gcc

from sm90_verify.evidence.hardware.mbarrier.generate import (
    COMPLETES,
    GHOSTS,
    ILLEGAL,
    PASSES,
    STATE,
    generated,
    transition,
    vocabulary,
)
from sm90_verify.evidence.hardware.mbarrier.menu import VERBS, WAITS, Operation, meant, menu, operation
from sm90_verify.evidence.hardware.mbarrier.reference import Reference
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.expr import Lit, evaluate
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import TX_WIDTH
from sm90_verify.spec.ptx.numbers import Breach, KnownBarrier

MENU = menu(cluster=True)


# ---------------------------------------------------------------- names


def test_the_menu_has_every_verb_and_names_can_be_read_back():
    assert 60 <= len(menu()) <= 90
    assert {one.verb for one in menu()} == set(VERBS)
    assert len(set(map(str, MENU))) == len(MENU)
    assert all(operation(str(one)) == one for one in MENU)


@pytest.mark.parametrize("name", ["arive", "arrive three", "remote", "3 lanes", "wait 1", ""])
def test_what_is_no_operation(name):
    with pytest.raises(SpecError, match="no operation"):
        operation(name)


# ---------------------------------------------------------------- the reference, and what an H100 was seen to do

MEASURED = [
    ("init 1048575", [None]),
    ("init 0", ["barrier-init"]),
    ("init 1048576", ["barrier-init"]),
    ("init 3; test_wait.parity 1; test_wait.parity 0", [None, 1, 0]),
    (
        "init 3; arrive; arrive; arrive; test_wait.parity 0; test_wait.parity 1; arrive",
        [None, 3, 2, 1, 1, 0, 3],
    ),
    ("init 4; arrive 4; test_wait.parity 0", [None, 4, 1]),
    ("init 2; arrive 3", [None, "arrival-count"]),
    ("init 3; arrive 0; test_wait.parity 0; arrive", [None, 3, 0, 3]),
    ("init 3; arrive_drop; arrive; arrive; test_wait.parity 0", [None, 3, 2, 1, 1]),
    (
        "init 3; arrive_drop; arrive 2; test_wait.parity 0; arrive; test_wait.parity 1; arrive; test_wait.parity 1",
        [None, 3, 2, 1, 2, 0, 1, 1],
    ),
    ("init 1; arrive_drop", [None, "arrival-count"]),
    (
        "init 1; arrive.expect_tx 4096; complete_tx 2048; test_wait.parity 0; complete_tx 2048; test_wait.parity 0",
        [None, 1, None, 0, None, 1],
    ),
    (
        "init 1; complete_tx 16; test_wait.parity 0; arrive.expect_tx 16; test_wait.parity 0",
        [None, None, 0, 1, 1],
    ),
    ("init 2; complete_tx 16; arrive; expect_tx 16; arrive; test_wait.parity 0", [None, None, 2, None, 1, 1]),
    ("init 1; arrive.expect_tx 0; test_wait.parity 0", [None, 1, 1]),
    ("init 1; expect_tx 1048575; expect_tx 1", [None, None, "tx-count"]),
    ("init 1; complete_tx 1048575; complete_tx 1", [None, None, "tx-count"]),
    ("init 3; arrive.noComplete 3", [None, "arrival-count"]),  # which the H100 completed the phase with
]


def answers(names: tuple[str, ...] | list[str]) -> list[int | str | None]:
    return [one.property if isinstance(one, Breach) else one for one in Reference().run_sequence(names)]


@pytest.mark.parametrize(("sequence", "expected"), MEASURED)
def test_the_reference_gives_the_answers_that_an_h100_gave(sequence, expected):
    assert answers(sequence.split("; ")) == expected


def test_the_reference_follows_tokens_and_who_has_seen_what():
    assert answers(["init 2", "arrive", "test_wait", "arrive", "test_wait 1", "test_wait 3"]) == [None, 2, 0, 1, 1, 1]
    late = ["init 1", "arrive", "other test_wait.parity 0", "arrive", "other test_wait.parity 1"]
    assert answers([*late, "test_wait.parity 0 +1"])[-1] == "phase-lapped"
    assert answers([*late, "test_wait.parity 1 +2"])[-1] == 1
    assert answers(["init 1", "arrive", "arrive"])[-1] == "unobserved-phase"
    assert answers(["init 1", "remote arrive", "test_wait.parity 0"]) == [None, None, 1]
    assert answers(["init 2", "remote arrive.noComplete 1"])[-1] == "barrier-init"


# ---------------------------------------------------------------- the generated C


class State(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in STATE]


def compiled_steps(text: str, folder: Path) -> ctypes.CDLL:
    """The generated text as C99, with `step` by the name of `exported`."""
    tail = "unsigned exported(int number, State *s, uint64_t keep) { return step(number, s, keep); }\n"
    source, library = folder / "steps.c", folder / "steps.so"
    source.write_text(text + tail)
    options = ["-std=c99", "-Wall", "-Werror", "-Wno-unused", "-Wno-bool-operation", "-O1", "-shared", "-fPIC"]
    subprocess.run(["gcc", *options, "-o", str(library), str(source)], check=True)
    return ctypes.CDLL(str(library))


def random_states(seed: int, many: int) -> list[dict[str, int]]:
    """States near the values at which something changes."""
    draw = random.Random(seed)
    counts = (0, 1, 1, 2, 2, 3, 4, 5, 7, 16, 31, 32, 33, 64, 96, 128, 65535, COUNT_LIMIT - 1, COUNT_LIMIT)
    sizes = (0, 0, 0, 1, 8, 16, 17, 32, 2048, 65536, COUNT_LIMIT - 16, COUNT_LIMIT - 1, COUNT_LIMIT)
    return [
        {
            "alive": int(draw.random() < 0.9),
            "phase": draw.randrange(2),
            "expected": draw.choice(counts),
            "pending": draw.choice(counts),
            "tx": draw.choice(sizes) * draw.choice((1, -1)) % (1 << TX_WIDTH),
            "observed": int(draw.random() < 0.8),
            "age": draw.randrange(4),
            "unseen": draw.randrange(4),
        }
        for _ in range(many)
    ]


def by_the_spec(one: Operation, state: dict[str, int], keep: int) -> tuple[int, dict[str, int]]:
    """What `step` should answer, and the next state, by evaluating the Step on the state's numbers."""
    barrier = KnownBarrier.of_words(state)
    unseen = Lit(state["unseen"], GHOSTS["unseen"])
    other = one.verb.endswith(".parity") and not evaluate(meant(one, Lit(barrier.phase, 1), unseen), {})
    reference = Reference(barrier, state["unseen"], {0: state["age"]}, 1)
    taken = reference.take(one)
    if isinstance(taken, Breach) or other:
        return ILLEGAL, state
    completes = reference.unseen > state["unseen"]
    passes = taken if one.verb in WAITS else 1
    age = reference.ages[1] if keep and one.has_token else reference.ages.get(0, 3)
    after = {**reference.state.words(), "age": min(age, 3), "unseen": min(reference.unseen, 3)}
    return COMPLETES * completes | PASSES * bool(passes), after


def differences_of(library: ctypes.CDLL, number: int, one: Operation, states: list[dict[str, int]]) -> list[str]:
    """Where a compiled step and the spec differ; the operation must have been legal somewhere."""
    found, legal = [], 0
    for index, state in enumerate(states):
        keep = index % 2
        expected = by_the_spec(one, state, keep)
        legal += expected[0] != ILLEGAL
        words = State(**state)
        answer = library.exported(number, ctypes.byref(words), ctypes.c_uint64(keep))
        got = (answer, {name: getattr(words, name) for name in STATE})
        if got != expected:
            found.append(f"{one} in {state}: {got}, not {expected}")
    assert legal, f"{one} was never legal"
    return found


@lru_cache(maxsize=1)
def host_text() -> str:
    return vocabulary() + generated(MENU)


@needs_gcc
def test_the_generated_c_agrees_with_the_steps_of_the_spec(tmp_path):
    library = compiled_steps(host_text(), tmp_path)
    states = random_states(1, 120)
    for number, one in enumerate(MENU):
        assert differences_of(library, number, one, states) == []


@needs_gcc
@pytest.mark.parametrize(
    ("entry", "right", "wrong"),
    [
        ("complete_tx 16", "(uint64_t)s->tx - UINT64_C(16)", "(uint64_t)s->tx + UINT64_C(16)"),
        ("arrive 3", "(uint64_t)s->pending < UINT64_C(3)", "(uint64_t)s->pending < UINT64_C(4)"),
        ("arrive_drop 2", "s->expected = expected;", ""),
        ("test_wait", "s->unseen = unseen;", ""),
        ("arrive", "s->observed = observed;", ""),
    ],
)
def test_a_mistake_in_the_generated_c_is_noticed(tmp_path, entry, right, wrong):
    one = operation(entry)
    number = MENU.index(one)
    head, mark, tail = host_text().partition(f"unsigned step_{number}(State")
    assert right in tail
    library = compiled_steps(head + mark + tail.replace(right, wrong, tail.split("\n}", 1)[0].count(right)), tmp_path)
    assert differences_of(library, number, one, random_states(2, 300))


def test_a_cautious_fuzzer_does_not_let_the_last_arrival_come_too_early():
    state = {
        **dict.fromkeys(STATE, 0),
        "alive": 1,
        "expected": 1,
        "pending": 1,
        "tx": (1 << TX_WIDTH) - 16,
        "observed": 1,
    }
    bold, cautious = (transition(operation("arrive"), cautious=flag) for flag in (False, True))
    assert not evaluate(bold.illegal, state)
    assert evaluate(cautious.illegal, state)
    assert not evaluate(cautious.illegal, {**state, "tx": 16})
