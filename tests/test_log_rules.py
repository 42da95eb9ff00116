"""One short log for each rule of logs that the random edits do not reach, beside a legal twin."""

from __future__ import annotations

import pytest
from short_logs import MATH, Entry, assert_violated, check, everyone, one_tile

from sm90_verify.report.recovered import tables_of
from sm90_verify.report.text import text


def test_operand_is_overwritten_only_after_wgmma_is_known_to_be_done() -> None:
    assert check(one_tile()).verdict == "allowed"
    assert_violated(check(one_tile(wait=False)), "race", "may still be reading")
    assert_violated(check(one_tile(meet=False)), "race", "may still be reading")


def test_wgmma_must_be_waited_for_before_the_exit() -> None:
    entries = one_tile()
    waits = [n for n, entry in enumerate(entries) if entry[1] == "warpgroup_wait"]
    assert check(entries[: waits[4]]).verdict == "allowed"
    assert_violated(check(entries[: waits[0]]), "exit-hazard", "without having waited for its wgmma")
    assert_violated(check(entries[: waits[0] - 4]), "exit-hazard", "without having waited for its wgmma")


def test_bytes_that_nobody_expects() -> None:
    entries = [*one_tile(), (0, "tma_load", (1, 1032, 65536))]
    entries[1:1] = [(0, "cluster_barrier_init", (1032, 1))]
    assert_violated(check(entries), "tx-count", "expects none of its bytes")


def test_turns_of_named_barriers_may_mix_arrive_and_sync() -> None:
    start: list[Entry] = [(warp, "syncthreads", ()) for warp in range(4)]
    good: list[Entry] = [
        *start,
        (0, "named_barrier_arrive", (128, 2)),
        (1, "named_barrier_arrive", (128, 2)),
        (2, "named_barrier_arrive_and_wait", (128, 2)),
        (3, "named_barrier_arrive_and_wait", (128, 2)),
    ]
    assert check(good).verdict == "allowed"
    assert_violated(check([*good[:5], *good[6:]]), "named-barrier", "can have reached it")
    assert check([*good[:5], good[4], *good[6:]]).verdict == "allowed"
    assert check(good[:6]).verdict == "allowed"
    assert_violated(check([*good, *good[4:6], good[6]]), "named-barrier", "can have reached it")
    assert_violated(
        check([*good[:5], (1, "named_barrier_arrive", (96, 2))]), "named-barrier", "different thread counts"
    )


def test_leaders_and_whole_warps_share_a_phase() -> None:
    """33 arrivals: an elected thread with its bytes, and the 32 lanes of the warp whose cp.async land."""
    entries: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 33)),
        (0, "fence_barrier_init", ()),
        (0, "syncthreads", ()),
        (1, "syncthreads", ()),
    ]
    for phase in (0, 1):
        entries += [
            (0, "cluster_transaction_barrier_arrive_and_expect_tx", (1024, 4096)),
            (0, "tma_load", (1, 1024, 8192)),
            (0, "cp_async", (16384, 1 << 40, 1, 16)),
            (0, "cpasync_barrier_arrive", (1024,)),
            (1, "cluster_barrier_wait", (1024, phase)),
            (0, "cluster_barrier_wait", (1024, phase)),
        ]
    result = check(entries)
    assert result.verdict == "allowed"
    row = result.recovered.barriers[0]
    assert (row.count, row.logged, row.lanes, row.phases) == (33, 2, 32, 2)
    assert_violated(check([e for e in entries if e[1] != "cpasync_barrier_arrive"]), "arrival-count", "adds up")


def test_complete_transaction_and_test_wait() -> None:
    entries: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 1)),
        (0, "fence_barrier_init", ()),
        (0, "syncthreads", ()),
        (1, "syncthreads", ()),
        (1, "cluster_barrier_test_wait", (1024, 0, 0)),
        (0, "cluster_transaction_barrier_arrive_and_expect_tx", (1024, 64)),
        (1, "cluster_barrier_test_wait", (1024, 0, 1)),
        (0, "cluster_transaction_barrier_complete_transaction", (1024, 0, 64, 1)),
        (1, "cluster_barrier_wait", (1024, 0)),
    ]
    assert check(entries).verdict == "allowed"
    assert_violated(check([*entries[:7], entries[8]]), "tx-count", "64 bytes are missing")
    away = (0, "cluster_transaction_barrier_complete_transaction", (1024, 1, 64, 1))
    assert_violated(check([*entries[:7], away, entries[8]]), "tx-count", "64 bytes are missing")


def test_log_that_shows_nothing_is_undetermined() -> None:
    start: list[Entry] = [(0, "cluster_barrier_init", (1024, 1)), (0, "fence_barrier_init", ())]
    result = check([*start, (0, "syncthreads", ())])
    assert result.verdict == "undetermined"
    assert "completes a phase" in result.findings[0].note
    assert check([(0, "fence_view_async_shared", ())]).verdict == "undetermined"
    assert check([(0, "syncthreads", ()), (1, "syncthreads", ())]).verdict == "allowed"


@pytest.mark.parametrize(("cta", "happens", "counts"), [(0, 1, True), (1, 1, False), (0, 0, False), (1, 0, False)])
def test_which_remote_arrivals_count_here(cta: int, happens: int, counts: bool) -> None:
    result = check(
        [
            (0, "cluster_barrier_init", (1024, 1)),
            (0, "fence_barrier_init", ()),
            *[(warp, "syncthreads", ()) for warp in (0, 1)],
            (0, "cluster_barrier_arrive_cluster", (1024, 0, 1)),
            (1, "cluster_barrier_wait", (1024, 0)),
            (0, "cluster_barrier_arrive_cluster", (1024, cta, happens)),
            (1, "cluster_barrier_wait", (1024, 1)),
        ]
    )
    assert (result.verdict == "allowed") == counts


@pytest.mark.parametrize(
    ("threads", "number", "words"),
    [
        (0, 1, "multiples of 32"),
        (33, 1, "multiples of 32"),
        (288, 1, "multiples of 32"),
        (256, 16, "multiples of 32"),
        (256, 15, ""),
        (32, 1, ""),
    ],
)
def test_which_named_barriers_there_are(threads: int, number: int, words: str) -> None:
    """Warps 0 to 7 have 256 threads."""
    result = check([*one_tile(), (0, "named_barrier_arrive", (threads, number))])
    if words:
        assert_violated(result, "named-barrier", words)
    else:
        assert result.verdict == "allowed"


def test_a_phase_completes_without_the_bytes_of_its_load() -> None:
    """The arrival after the load expects none, in the first phase or in the second."""
    loads = [index for index, entry in enumerate(one_tile()) if entry[1] == "tma_load"]
    for at in loads:
        entries = one_tile()
        load = entries[at]
        entries[at - 1 : at + 1] = [load, (0, "cluster_transaction_barrier_arrive_and_expect_tx", (1024, 0))]
        assert_violated(check(entries), "tx-count", "completes although a load for it is under way")


def test_what_wgmma_has_read_is_forgotten_with_the_bytes() -> None:
    """The third load is by a warp that knows of the second one, and nothing of the wgmmas that read the first."""
    expect, load = "cluster_transaction_barrier_arrive_and_expect_tx", "tma_load"
    entries: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 1)),
        (0, "fence_barrier_init", ()),
        *[(warp, "syncthreads", ()) for warp in (0, *MATH, 8)],
        (0, expect, (1024, 4096)),
        (0, load, (1, 1024, 8192)),
        *everyone("cluster_barrier_wait", 1024, 0),
        (0, "cluster_barrier_wait", (1024, 0)),
        (0, expect, (1024, 4096)),
        *everyone("warpgroup_arrive"),
        *everyone("wgmma_reg_smem", 8192),
        *everyone("warpgroup_commit_batch"),
        *everyone("warpgroup_wait", 0),
        *[(warp, "named_barrier_arrive_and_wait", (160, 1)) for warp in (0, *MATH)],
        (0, load, (1, 1024, 8192)),
        (8, "cluster_barrier_wait", (1024, 1)),
        (8, expect, (1024, 4096)),
        (8, load, (1, 1024, 8192)),
        *[(warp, "cluster_barrier_wait", (1024, parity)) for parity in (1, 0) for warp in (0, *MATH)],
        (8, "cluster_barrier_wait", (1024, 0)),
    ]
    assert check(entries).verdict == "allowed"


def fenced_turns(turns: str, store: bool) -> list[Entry]:
    """Four warps come to a bar.sync again and again, and one of them stores then. turns: what warp 5 does before, in
    each: f(ence), o(ther entries after it), or nothing (-); the other warps always fence.
    """
    entries: list[Entry] = [(warp, "syncthreads", ()) for warp in MATH]
    for turn in turns:
        for warp in MATH:
            if warp != 5 or turn in "fo":
                entries.append((warp, "fence_view_async_shared", ()))
            if warp == 5 and turn == "o":
                entries.append((warp, "syncwarp", ()))
        entries += everyone("named_barrier_arrive_and_wait", 128, 1)
        if store:
            entries += [(4, "tma_store", (1, 32768)), (4, "tma_store_arrive", ()), (4, "tma_store_wait", (0,))]
            entries += everyone("named_barrier_arrive_and_wait", 128, 2)
    return entries


@pytest.mark.parametrize(
    ("turns", "store", "words"),
    [
        ("ffff", True, ""),
        ("f-ff", True, "without fence.proxy.async, with which it comes to the others"),
        ("--ff", True, "without fence.proxy.async, with which it comes to the others"),
        ("----", True, ""),
        ("oooo", True, ""),
        ("ooff", True, ""),
        ("offf", True, "with other entries after its last fence"),
        ("fffo", True, "with other entries after its last fence"),
        ("ffff", False, ""),
        ("fff-", False, "bar.sync 1 without fence.proxy.async"),
        ("ff-", False, ""),
        ("ff--", False, ""),
        ("----", False, ""),
    ],
)
def test_who_fences_before_some_turns_must_before_all(turns: str, store: bool, words: str) -> None:
    result = check(fenced_turns(turns, store))
    if words:
        assert_violated(result, "missing-fence", words)
    else:
        assert result.verdict == "allowed"


@pytest.mark.parametrize(("fence", "verdict"), [("", "allowed"), ("before", "violated"), ("after", "allowed")])
def test_a_stage_that_is_stored_again(fence: str, verdict: str) -> None:
    """Who fences writes there, and must wait for the stage first; who does not has written nothing."""
    fences = everyone("fence_view_async_shared")
    entries: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 1)),
        (0, "cluster_barrier_init", (1032, 4)),
        (0, "fence_barrier_init", ()),
        *[(warp, "syncthreads", ()) for warp in (0, *MATH)],
    ]
    for phase in (0, 1):
        entries += [
            (0, "cluster_barrier_wait", (1032, 1 - phase)),
            (0, "cluster_transaction_barrier_arrive_and_expect_tx", (1024, 4096)),
            (0, "tma_load", (1, 1024, 8192)),
            *(fences if fence == "before" else []),
            *everyone("cluster_barrier_wait", 1024, phase),
            *(fences if fence == "after" else []),
            *everyone("named_barrier_arrive_and_wait", 128, 1),
            (4, "tma_store", (2, 8192)),
            (4, "tma_store_arrive", ()),
            (4, "tma_store_wait", (0,)),
            *everyone("named_barrier_arrive_and_wait", 128, 2),
            *everyone("cluster_barrier_arrive_cluster", 1032, 0, 1),
        ]
    result = check([*entries, (0, "cluster_barrier_wait", (1032, 1))])
    assert result.verdict == verdict
    assert result.trace is None or "before it waits for the stage" in result.trace.because


def test_what_is_told_of_a_log() -> None:
    good = check(one_tile())
    told = text([tables_of(good.recovered)])
    assert "warp 0: barrier load" in told and "warp 4-7: consumer 0" in told
    assert [note.split(":")[0] for note in good.notes] == [
        "logged",
        "barrier order",
        "bytes of a TMA load, by tensor map, inferred from what the phases expect and the stages' spacing",
    ]
    assert check([(0, "cluster_barrier_init", (2048, 1)), *one_tile()]).notes == good.notes
    bad = check(one_tile(wait=False)).trace
    assert bad is not None and bad.steps[-1].object == "barrier[0]"


def test_init_after_the_syncthreads_is_not_visible() -> None:
    init: list[Entry] = [(0, "cluster_barrier_init", (1024, 32)), (0, "fence_barrier_init", ())]
    meet: list[Entry] = [(0, "syncthreads", ()), (1, "syncthreads", ())]
    use: list[Entry] = [(0, "cluster_barrier_arrive", (1024,)), (1, "cluster_barrier_wait", (1024, 0))]
    assert check([*init, *meet, *use]).verdict == "allowed"
    assert_violated(check([*meet, *init, *use]), "barrier-init", "no __syncthreads lies between")
    assert_violated(check([*meet, use[0], *init, use[1]]), "barrier-init", "used before it is initialised")
    assert_violated(check([init[0], *meet, init[1], *use]), "barrier-init", "without fence.mbarrier_init")
