"""The mbarrier fuzzer and the table of ill-formed sequences, without a GPU.

The generated C is held to the Steps that it was generated from, the kernel runs on a host against an emulated mbarrier,
sound and broken, and every ill-formed sequence must be illegal by the spec, at its last operation and not before.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from needs import needs_gcc, needs_gxx, needs_nvcc

from sm90_verify.evidence.hardware.mbarrier import fuzz as mbarriers
from sm90_verify.evidence.hardware.mbarrier import ill_formed
from sm90_verify.evidence.hardware.mbarrier.driver import compiled
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
from sm90_verify.gpu.device import sources
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


# ---------------------------------------------------------------- the kernel, on a host with an emulated mbarrier

BROKEN = (
    "DROP_IS_AN_ARRIVAL",
    "PHASE_SHRINKS",
    "BYTES_ARE_LOST",
    "TOKEN_IS_INVERTED",
    "FRESH_PHASE_IS_ODD",
    "REMOTE_IS_LOST",
)
HOST = """
struct Call { int cta; unsigned long long seed; unsigned group; int steps; const unsigned* without;
              unsigned long long* counts; Record* records; };
static void* run(void* one) {
  const Call& call = *(Call*)one;
  cta = call.cta;
  address_count = 0;
  blockIdx.x = call.cta;
  fuzz(call.seed, call.group, call.steps, ~0ull, call.without, call.counts, call.records, nullptr);
  return nullptr;
}
extern "C" int emulate(unsigned long long seed, int groups, int steps, const unsigned* without,
                       unsigned long long* counts, int* records) {
  pthread_barrier_init(&meeting, nullptr, CLUSTER);
  for (int group = 0; group < groups; ++group) {
    object_ = Object{};
    Call calls[2];
    for (int k = 0; k < 2; ++k) {
      calls[k] = Call{k, seed, (unsigned)group, steps, without, counts, (Record*)records + group};
    }
    pthread_t peer;
    if (CLUSTER > 1) pthread_create(&peer, nullptr, run, calls + 1);
    run(calls);
    if (CLUSTER > 1) pthread_join(peer, nullptr);
  }
  return faults;
}
"""


def emulated(folder: Path, groups: int, steps: int, *, cluster: bool = False, broken: str = "SOUND"):
    """The report of a fuzz run in which real mbarriers are replaced by emulated ones, and the faults of these."""
    entries = menu(cluster=cluster)
    text = mbarriers.source(cluster)
    real = (sources() / "mbarrier.cuh").read_text()
    assert real in text
    emulation = (Path(__file__).parent / "emulated_mbarrier.h").read_text()
    source, library = folder / "fuzz.cpp", folder / f"fuzz_{broken}_{cluster}.so"
    source.write_text(text.replace(real, emulation) + HOST)
    options = ["-std=c++17", "-w", "-O1", f"-DBROKEN={broken}", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *options, "-o", str(library), str(source)], check=True)
    counts = (ctypes.c_uint64 * (2 * len(entries) + len(mbarriers.EXTRAS)))()
    records = (ctypes.c_int * (groups * mbarriers.RECORD))()
    without = (ctypes.c_uint32 * 8)()
    faults = ctypes.CDLL(str(library)).emulate(ctypes.c_uint64(7), groups, steps, without, counts, records)
    rows = [list(records[at : at + mbarriers.RECORD]) for at in range(0, len(records), mbarriers.RECORD)]
    return mbarriers._report(entries, list(counts), rows, 0.0, 0), faults


@needs_gxx
def test_the_kernel_finds_nothing_in_a_sound_mbarrier_and_does_everything(tmp_path):
    report, faults = emulated(tmp_path, 100, 60_000)
    assert (report.mismatches, faults) == ((), 0)
    assert report.operations > 0.97 * 100 * 60_000
    assert report.skipped + report.operations == 100 * 60_000
    assert report.spurious > 0
    assert all(done for done, _ in report.by_operation.values())
    rarely = {"arrive 65535", "arrive_drop 32", "32 lanes arrive.expect_tx 1", "31 lanes arrive_drop"}
    completing = {name for name, (_, completes) in report.by_operation.items() if completes}
    for name in report.by_operation:
        one = operation(name)
        never = one.verb in ("init", "inval", "expect_tx", "arrive.noComplete", "cp.async.mbarrier.arrive", *WAITS)
        never = never or (one.operand == 0 and one.verb in ("arrive", "complete_tx"))
        if never:
            assert name not in completing
        elif name not in rarely and not name.startswith("arrive_drop.expect_tx"):
            assert name in completing, name


@needs_gxx
def test_the_kernel_in_a_cluster(tmp_path):
    report, faults = emulated(tmp_path, 8, 10_000, cluster=True)
    assert (report.mismatches, faults) == ((), 0)
    assert report.operations > 0.97 * 8 * 10_000
    remote = [done for name, (done, _) in report.by_operation.items() if name.startswith("remote")]
    assert len(remote) > 20 and all(remote)


@needs_gxx
@pytest.mark.parametrize("broken", BROKEN)
def test_the_kernel_notices_a_broken_mbarrier(tmp_path, broken):
    report, _ = emulated(tmp_path, 10, 20_000, cluster=broken == "REMOTE_IS_LOST", broken=broken)
    assert len(report.mismatches) == 10
    assert all(": block" not in text and "the spec says" in text for text in report.mismatches)


@needs_gxx
def test_equal_seeds_do_the_same(tmp_path):
    (tmp_path / "again").mkdir()
    one, two = emulated(tmp_path, 5, 3000)[0], emulated(tmp_path / "again", 5, 3000)[0]
    assert one.by_operation == two.by_operation


def test_a_mismatch_is_told_with_the_state_and_what_led_to_it():
    entries = menu()
    number = entries.index(operation("arrive 2"))
    state = [1, 0, 4, 3, (1 << TX_WIDTH) - 16, 1, 3, 0]
    recent = [entries.index(operation("complete_tx 16")), entries.index(operation("init 4"))] + [-1] * 14
    counts = [0] * (2 * len(entries) + len(mbarriers.EXTRAS))
    counts[2 * number : 2 * number + 2] = [5, 2]
    report = mbarriers._report(entries, counts, [[2, 8, number, 3, 1, *state, *recent]], 0.5, 10)
    assert report.operations == 5 and report.by_operation["arrive 2"] == (5, 2)
    assert report.mismatches == (
        "block 10 step 8: arrive 2: the pending count of its token is 1, the spec says 3; before it alive 1, phase 0, "
        "expected 4, pending 3, tx -16, observed 1, age 3, unseen 0; after init 4; complete_tx 16",
    )


def test_entries_can_be_left_out_by_name():
    entries = menu()
    words = mbarriers._mask(entries, ["init 1", "inval", str(entries[70])])
    assert words == [1 | 1 << 8, 0, 1 << 6]
    with pytest.raises(SpecError, match="not in the menu"):
        mbarriers._mask(entries, ["arrive 77"])


@needs_nvcc
@pytest.mark.parametrize(
    "text",
    [mbarriers.source(False), mbarriers.source(True), mbarriers.source(False, cautious=True), ill_formed.text()],
    ids=["fuzz", "cluster", "cautious", "ill-formed"],
)
def test_the_sources_compile_for_sm_90a(text):
    assert compiled(text).startswith(b"\x7fELF")
