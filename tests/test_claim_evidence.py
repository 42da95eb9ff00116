"""Each kind of evidence that claims get can fail: arithmetic, steps, statements about states, software barriers,
clusters, launch control.
"""

from __future__ import annotations

import pytest
from test_claims import P, V

from sm90_verify.evidence.claims import arithmetic, clusters, kernels, observe, states, steps
from sm90_verify.evidence.claims.models import designs, rings, software_barriers, state_arithmetic
from sm90_verify.evidence.claims.models.state_arithmetic import NUMBERS, State, advance, increment
from sm90_verify.evidence.claims.runs import enumerated, machine, model, stated
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.cluster import arrivals, block_of, block_of_lane, empty_count
from sm90_verify.spec.cutlass.launch_control import LaunchControl
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.cluster import Cluster, all_shapes
from sm90_verify.spec.ptx.limits import CLUSTER_LIMIT, WARPGROUP

# ---------------------------------------------------------------- arithmetic, steps and statements about states


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


@pytest.mark.parametrize(("stages", "load"), [(1, 0), (1, 1), (2, 0)])
def test_launch_control_counts_its_threads(stages, load):
    kernel = LaunchControl(stages=stages, epilogue_load=load)
    assert model(LaunchControl, stages=stages, epilogue_load=load)().verdict == PROVED
    for count in (kernel.all_consumers - 32, kernel.all_consumers + 32):
        assert model(LaunchControl, stages=stages, epilogue_load=load, count=count)().verdict == VIOLATED
