"""Claims are settled by runs alone: the rule that draws conclusions, the evidence it gets, and what people read."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.evidence.claims import arithmetic, clusters, kernels, observe, states, steps
from sm90_verify.evidence.claims.claim import DEPENDS, HOLDS, OPEN, REFUTED, Claim, Condition, Point, settle
from sm90_verify.evidence.claims.models import designs, rings, software_barriers, state_arithmetic
from sm90_verify.evidence.claims.models.state_arithmetic import NUMBERS, State, advance, increment
from sm90_verify.evidence.claims.report import exit_code
from sm90_verify.evidence.claims.runs import enumerated, machine, model, stated
from sm90_verify.evidence.claims.table import chosen, table
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result
from sm90_verify.spec.cutlass.cluster import arrivals, block_of, block_of_lane, empty_count
from sm90_verify.spec.cutlass.launch_control import LaunchControl
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.cluster import Cluster, all_shapes
from sm90_verify.spec.ptx.limits import CLUSTER_LIMIT, WARPGROUP

# ---------------------------------------------------------------- the rule


def result(verdict: str) -> Result:
    return Result("claims", "m", {}, "search", (Finding("race", verdict, note="so it is"),))


def claim(*verdicts: tuple[str, str], conditions=(), beyond=()) -> Claim:
    """A claim whose n-th point predicts one verdict and gets another."""
    points = [
        Point({"n": n}, lambda got=got: result(got), predicted, n in beyond)
        for n, (predicted, got) in enumerate(verdicts)
    ]
    return Claim(1, "text", "statement", lambda: points, tuple(conditions))


P, V, U = PROVED, VIOLATED, UNDETERMINED
FIRST = Condition("n is 0", lambda p: p["n"] == 0)
ANY = Condition("always", lambda p: True)


@pytest.mark.parametrize(
    ("verdicts", "options", "expected"),
    [
        ([(P, P), (V, V)], {}, HOLDS),
        ([(P, V), (V, P)], {}, REFUTED),
        ([(P, P), (P, V)], {}, REFUTED),
        ([(P, P), (P, V)], {"conditions": [FIRST]}, DEPENDS),
        ([(P, P), (P, V)], {"conditions": [ANY, FIRST]}, DEPENDS),
        ([(P, V), (P, P)], {"conditions": [FIRST]}, OPEN),
        ([(P, P), (P, V), (P, P)], {"conditions": [FIRST]}, OPEN),
        ([(P, V), (P, V)], {"conditions": [FIRST]}, REFUTED),
        ([(P, P), (P, P)], {"conditions": [FIRST]}, HOLDS),
        ([(P, P), (P, U)], {}, OPEN),
        ([(P, P), (P, V)], {"beyond": [1]}, HOLDS),
        ([(P, P), (P, U)], {"beyond": [1]}, HOLDS),
    ],
)
def test_verdicts_follow_from_the_points(verdicts, options, expected):
    settled = settle(claim(*verdicts, **options))
    assert settled.verdict == expected
    assert (settled.condition == "n is 0") == (expected == DEPENDS)
    assert exit_code([settled]) == (3 if expected == OPEN else 0)


def test_a_claim_that_asks_nothing_is_an_error():
    with pytest.raises(ValueError, match="asks nothing"):
        settle(claim((P, P), beyond=[0]))
    with pytest.raises(ValueError, match="enumeration of nothing"):
        enumerated("nothing", {}, list)()


# ---------------------------------------------------------------- what the runs say

SETTLED = {
    6: HOLDS,
    8: DEPENDS,
    9: DEPENDS,
    11: DEPENDS,
    12: HOLDS,
    13: HOLDS,
    17: DEPENDS,
    19: HOLDS,
    20: DEPENDS,
    21: HOLDS,
    25: HOLDS,
    27: REFUTED,
    34: REFUTED,
    39: HOLDS,
    43: HOLDS,
    46: REFUTED,
    49: HOLDS,
    50: HOLDS,
    51: REFUTED,
    55: REFUTED,
    56: DEPENDS,
    57: HOLDS,
    58: REFUTED,
    59: HOLDS,
    61: DEPENDS,
    62: DEPENDS,
    63: REFUTED,
    67: REFUTED,
    72: HOLDS,
    73: DEPENDS,
    76: HOLDS,
    93: DEPENDS,
    94: DEPENDS,
    95: DEPENDS,
    97: DEPENDS,
    98: REFUTED,
    99: REFUTED,
    110: HOLDS,
}
"""The quick ones; `verify claims` settles all."""


@pytest.mark.parametrize("id", SETTLED)
def test_settled(id):
    (one,) = chosen([id])
    settled = settle(one)
    assert settled.verdict == SETTLED[id], settled.because
    assert bool(settled.condition) == (settled.verdict == DEPENDS)
    assert all(evidence.agrees for evidence in settled.evidence if evidence.point.beyond)
    wrong = [evidence for evidence in settled.evidence if not evidence.agrees]
    if settled.verdict in (REFUTED, DEPENDS):
        assert (wrong and settled.shown is not None) or all(one.result.verdict == PROVED for one in wrong)


def test_the_table_has_every_claim_once():
    ids = [one.id for one in table()]
    assert len(ids) == 61 == len(set(ids)) and ids == sorted(ids)


# ---------------------------------------------------------------- each kind of evidence can fail


def test_an_advance_that_forgets_a_flip_is_no_advance(monkeypatch):
    def wrong(a, state, n, stages):
        right = advance(a, state, n, stages)
        return State(right.index, a.where(n < stages, state.phase, right.phase), right.count)

    monkeypatch.setattr(arithmetic, "advance", wrong)
    assert arithmetic.for_all("advance", arithmetic.advance_one_more)().verdict == VIOLATED
    monkeypatch.setattr(states, "advance", wrong)
    assert enumerated("advance", {}, lambda: states._small(states._advance_in_numbers))().verdict == VIOLATED


def test_an_increment_that_wraps_one_too_late_is_no_increment(monkeypatch):
    def wrong(a, state, stages):
        return State(state.index + 1, a.where(state.index == stages, 1 - state.phase, state.phase), state.count + 1)

    monkeypatch.setattr(arithmetic, "increment", wrong)
    for statement in (arithmetic.phase_is_laps, arithmetic.advance_one_more, arithmetic.same_by_count):
        assert arithmetic.for_all("wrong", statement)().verdict == VIOLATED


def test_division_is_not_taken_for_granted():
    def two_quotients(lemmas):
        lemmas.known.append(lemmas.stages <= 0)
        return arithmetic.unique_division(lemmas)

    result = arithmetic.for_all("no stages", two_quotients)()
    assert result.verdict == UNDETERMINED and "may never be so" in result.findings[0].note


def test_32_bits_wrap():
    assert advance(NUMBERS, State(1, 0, 0), (1 << 32) - 1, 3) != advance(
        state_arithmetic.UNBOUNDED, State(1, 0, 0), (1 << 32) - 1, 3
    )
    state = State(0, 0, 0)
    for _ in range(7):
        state = increment(NUMBERS, state, 3)
    assert state == State(1, 0, 7) == advance(NUMBERS, State(0, 0, 0), 7, 3)


def test_a_phase_that_does_not_reset_its_count_is_seen():
    step = mbarrier.arrive(steps.BARRIER)
    broken = step._replace(then={**step.then, "pending": steps.BARRIER.pending - 1})
    statement = broken.then["pending"] == broken.then["expected"]
    run = steps.for_every_state("arrive", broken, steps.implies(broken.completes, statement))
    assert run().verdict == VIOLATED
    assert (
        steps.for_every_state(
            "arrive", step, steps.implies(step.completes, step.then["pending"] == step.then["expected"])
        )().verdict
        == PROVED
    )


def test_a_premise_that_no_state_satisfies_proves_nothing():
    never = (steps.BARRIER.pending == 0) & (steps.BARRIER.tx == 0)
    run = steps.for_every_state("arrive", mbarrier.arrive(steps.BARRIER), never, premise=never)
    assert run().verdict == UNDETERMINED


def test_pieces_are_seen_where_bytes_are_missing():
    def differ(expects: int, pieces: int) -> str:
        whole = designs.Watched(stages=1, expects=expects)
        return observe.same_observations(
            whole, designs.Watched(stages=1, expects=expects, pieces=pieces), "w"
        )().verdict

    assert differ(1024, 2) == PROVED and differ(512, 2) == VIOLATED


def test_a_statement_about_states_is_violated_where_it_should_be():
    from sm90_verify.evidence.claims.rings import _overtakes, _unreleased_at_the_end

    assert stated(rings.Tail, _unreleased_at_the_end, stages=2, trips=3)().verdict == PROVED
    result = stated(rings.Tail, _unreleased_at_the_end, stages=2, trips=3, tail=0)()
    assert result.verdict == VIOLATED and result.trace is not None and len(result.trace.steps) >= 3
    assert stated(rings.Tail, _overtakes, stages=2, trips=4)().verdict == PROVED
    assert stated(rings.Tail, _overtakes, stages=2, trips=1)().verdict == VIOLATED


def test_the_frontier_formula_is_needed_in_every_part():
    base = {"reuse_smem_c": True, "delay_tma_store": True, "stages_c": 2, "stages_d": 2, "subtiles": 3, "tiles": 1}
    assert kernels.hangs(base) and not kernels.hangs({**base, "reuse_smem_c": False})
    assert not kernels.hangs({**base, "subtiles": 2}) and not kernels.hangs({**base, "delay_tma_store": False})
    late = {**base, "delay_tma_store": False, "stages_c": 4, "stages_d": 3, "subtiles": 1}
    assert not kernels.hangs(late) and kernels.hangs({**late, "tiles": 2})
    assert not kernels.hangs({**late, "tiles": 2, "schedule": "ws"})


# ---------------------------------------------------------------- software barriers


def verdict(make, *properties, **parameters) -> str:
    return machine(make, *properties, **parameters)().verdict


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_sense_reversing_barrier(threads):
    make = software_barriers.sense_reversing
    assert verdict(make, threads=threads) == PROVED == verdict(make, threads=threads, split=True)
    assert verdict(make, threads=threads, sense="after") == VIOLATED
    assert verdict(make, threads=threads, order="flip-reset") == VIOLATED


@pytest.mark.parametrize(
    ("threads", "sets", "expected"), [(2, 1, V), (3, 1, P), (4, 1, V), (2, 2, P), (3, 2, P), (4, 2, P)]
)
def test_dissemination_barrier(threads, sets, expected):
    assert verdict(software_barriers.dissemination, threads=threads, sets=sets) == expected


def test_a_number_of_b_bits_is_fooled_by_2_to_the_b_rounds():
    for bits in (1, 2, 3):
        for slack in range(1, 10):
            found = verdict(software_barriers.uncounted_watcher, "phase-lapped", slack=slack, bits=bits)
            assert (found == VIOLATED) == (slack >= 1 << bits)


def test_one_word_for_arrivals_and_bytes():
    assert verdict(software_barriers.arrivals_and_bytes, words=1) == PROVED
    assert verdict(software_barriers.arrivals_and_bytes, words=2) == VIOLATED


def test_a_label_that_does_not_exist():
    code = {"t": {"start": [software_barriers.SoftwareInstruction("jump", "", "nowhere")]}}
    with pytest.raises(SpecError, match="no label 'nowhere'"):
        software_barriers.Software("bad", {}, (), code).machine()


# ---------------------------------------------------------------- clusters


def test_a_warpgroup_divides_all_blocks_among_its_warps():
    blocks = [block_of(thread) for thread in range(WARPGROUP)]
    assert sorted(block for block in blocks if block is not None) == list(range(CLUSTER_LIMIT))
    by_warp = [[block for block in blocks[32 * w : 32 * w + 32] if block is not None] for w in range(4)]
    assert by_warp == [[0, 5, 10, 15], [4, 1, 14, 11], [8, 13, 2, 7], [12, 9, 6, 3]]
    assert [block_of_lane(lane) for lane in range(0, 32, 2)] == list(range(CLUSTER_LIMIT))
    assert all(block_of_lane(lane) is None for lane in range(1, 32, 2))


@pytest.mark.parametrize("consumers", [32, 128, 256, 384])
def test_every_empty_barrier_gets_what_it_counts(consumers):
    assert len(all_shapes()) == 50
    for shape in all_shapes():
        for cta, sources in enumerate(arrivals(shape, consumers)):
            assert sum(sources) == empty_count(shape, consumers)
            assert tuple(source for source, sent in enumerate(sources) if sent) == shape.writers(cta)


@pytest.mark.parametrize("consumers", [1, 64, 96, 200])
def test_nobody_signals_for_other_numbers_of_consumers(consumers):
    for shape in all_shapes():
        sent = sum(sum(sources) for sources in arrivals(shape, consumers))
        assert sent == (consumers if shape.size == 1 else 0)


def test_a_cluster_of_17_is_refused():
    with pytest.raises(SpecError, match="use XxY with 1 to 16 CTAs"):
        Cluster(17, 1)


def test_an_enumeration_finds_one_arrival_too_many():
    (point,) = [
        p
        for p in clusters._every_shape("x", clusters._arrivals_are(lambda s, n: s.x + s.y))
        if p.at == {"cluster": "2x2", "consumers": 128}
    ]
    found = point.run()
    assert found.verdict == VIOLATED and "3 threads arrive on the empty barrier of CTA 0" in found.trace.because


# ---------------------------------------------------------------- launch control


@pytest.mark.parametrize("load", [0, 1])
@pytest.mark.parametrize("stages", [1, 2])
def test_launch_control_counts_its_threads(stages, load):
    kernel = LaunchControl(stages=stages, epilogue_load=load)
    assert model(LaunchControl, stages=stages, epilogue_load=load)().verdict == PROVED
    for count in (kernel.all_consumers - 32, kernel.all_consumers + 32):
        assert model(LaunchControl, stages=stages, epilogue_load=load, count=count)().verdict == VIOLATED


# ---------------------------------------------------------------- the command


def test_a_refuted_claim_comes_with_its_trace(capsys):
    assert main(["claims", "58"]) == 0
    out = capsys.readouterr().out
    assert "  58  refuted " in out and "error[race]" in out and "arrive full" in out
    assert (
        "again: verify spec checker/evidence/claims/models/rings.py:Expectation --set stages=1" in out
        and "verify replay" not in out
    )
    assert out.splitlines()[-1].startswith("verify: SETTLED 1 claims: 0 hold, 1 refuted, 0 depend")


def test_the_command_that_finds_it_again(capsys):
    assert main(["spec", f"{rings.__file__}:Expectation", "--set", "stages=1", "--set", "how=arrive-expect"]) == 1
    assert "error[race]" in capsys.readouterr().out


def test_a_claim_that_depends_names_its_condition(capsys):
    assert main(["claims", "9", "43"]) == 0
    out = capsys.readouterr().out
    assert "   9  depends " in out and "if no arrival is pending any more" in out and "  43  holds " in out


def test_json(capsys, tmp_path):
    assert main(["claims", "8", "51", "--format", "json", "-o", str(tmp_path / "claims.json")]) == 0
    assert capsys.readouterr().out == ""
    found = json.loads((tmp_path / "claims.json").read_text())
    assert (found["schema"], found["command"], found["settled"]) == (1, "claims", True)
    eight, fifty_one = found["claims"]
    assert eight["verdict"] == DEPENDS and "no arrival is pending" in eight["condition"]
    assert {one["agrees"] for one in eight["evidence"]} == {True, False}
    assert fifty_one["verdict"] == REFUTED and fifty_one["condition"] is None
    assert fifty_one["trace"]["steps"][0]["op"] == "complete_tx"
    assert fifty_one["evidence"][0]["engine"] == "smt"


def test_an_undetermined_claim_exits_3(monkeypatch, capsys):
    monkeypatch.setattr("sm90_verify.evidence.claims.table.table", lambda: (claim((P, U)),))
    assert main(["claims"]) == 3
    assert "verify: UNDETERMINED 1 claims" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["2"], ["0"], ["x"], ["58", "--engine", "smt"]])
def test_what_cannot_be_asked(arguments, capsys):
    assert main(["claims", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
