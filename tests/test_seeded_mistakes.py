"""DeepGEMM, FlashAttention-3 and split-K with a mistake in them: each is found, at its line; and changes that look like
mistakes and are none are proved.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from seeded import Edit, Seeded, drop, insert, put, swap

from sm90_verify import PROVED, VIOLATED, check, render

EMPTY = "yield self.named_arrive(EMPTY, self.threads + WARP)"
QUERY = "yield self.named_arrive(QUERY_EMPTY, self.threads + WARP)"
READS = "yield self.next_tile[0].read(tag=number % 2)"
FREES_K, FREES_V = "yield self.k_empty[kv + 1].arrive()", "yield self.v_empty[kv].arrive()"
TURN = "self.named_sync(TURNS + me.copy, 256)"
SCALES = "yield self.scales_a[s].read()"
BYTES = "yield self.full[s].arrive_expect_tx(self.a.bytes + self.scales_a.bytes + self.b.bytes)"
RELEASES = "self.empty[s].arrive(WARPS, ctas=range(self.shape.size))"
ACQUIRED = "yield self.empty[s].wait((turn + 1) & 1)"
LOOKS = """equals=before, sem="acquire")
            yield self.named_sync(STREAM_K + me.copy, 128)
            yield sums.read()"""
LAST_LOOK = put(LOOKS, LOOKS.replace("acquire", "relaxed"))
DONE = f"""yield self.mma_wait(0)
            {FREES_V}
            yield self.p[0].write()"""
TOO_EARLY = f"""{FREES_V}
            yield self.mma_wait(0)
            yield self.p[0].write()"""

SMALL: dict[str, Any] = {"cluster": "2x1", "stages": 1, "last_stages": 1, "turns": 1}


def attention(id: str, *edits: Edit, finds: tuple[str, str] = ("", ""), last: bool = False, **sizes: Any) -> Seeded:
    return Seeded(id, "flash_attention", edits, {"least": 3, **sizes}, *finds, last)


def gemm(id: str, *edits: Edit, finds: tuple[str, str] = ("", ""), last: bool = False, **sizes: Any) -> Seeded:
    return Seeded(id, "deep_gemm", edits, sizes, *finds, last)


def split_k(id: str, *edits: Edit, finds: tuple[str, str] = ("", ""), last: bool = False, **sizes: Any) -> Seeded:
    return Seeded(id, "split_k", edits, sizes, *finds, last)


MISTAKES = (
    attention("K is never released", drop(FREES_K), finds=("deadlock", "empty[kv + ahead].wait(")),
    attention(
        "nobody says that Q is free",
        drop(QUERY, after="yield self.named_arrive(EMPTY"),
        finds=("deadlock", "self.named_sync(QUERY_EMPTY, self.threads + WARP)"),
    ),
    attention(
        "nobody has the first turn", put("yield self.named_arrive(TURNS, 256)", "pass"), finds=("deadlock", TURN)
    ),
    attention(
        "a warpgroup gives the turn to itself",
        put("TURNS + (me.copy + 1) % self.groups", "TURNS + me.copy"),
        finds=("deadlock", TURN),
    ),
    attention(
        "the epilogue's barrier has another id where it is synced",
        put("EPILOGUE, self.threads + WARP, by=WARP", "EPILOGUE + 1, self.threads + WARP, by=WARP"),
        finds=("deadlock", "self.named_sync(EPILOGUE + 1"),
    ),
    attention(
        "all warps of a warpgroup sync to store",
        put(", by=WARP)", ")"),
        finds=("named-barrier", "yield self.named_sync(EPILOGUE, self.threads + WARP)"),
    ),
    attention(
        "O is stored before all have written it",
        drop("yield self.named_sync(EPILOGUE, self.threads + WARP, by=WARP)"),
        finds=("race", "self.store("),
        last=True,
    ),
    attention(
        "barrier_o with the other parity",
        put("wait(work.phase ^ 1)  #", "wait(work.phase)  #"),
        finds=("deadlock", "self.barrier_o[0].wait(work.phase)"),
    ),
    attention(
        "V is loaded over O",
        drop("yield self.barrier_o[0].wait", after="yield self.q[0].load"),
        finds=("race", "self.named_sync(EPILOGUE, self.threads)"),
    ),
    attention("V is released in flight", put(DONE, TOO_EARLY), finds=("race", FREES_V)),
    attention(
        "S is read in flight",
        put("yield self.mma_wait(1)", "yield self.mma_wait(2)"),
        finds=("register-hazard", "self.s[0].read()"),
    ),
    attention(
        "P is written in flight",
        insert("yield self.p[0].write()", before="yield self.mma_wait(0)", after="yield self.s[0].read()"),
        finds=("register-hazard", "self.p[0].write()"),
    ),
    attention(
        "no wgmma.fence",
        drop("yield self.wgmma_fence()", after="def gemm_o"),
        finds=("register-hazard", "self.mma(self.p[0]"),
    ),
    attention(
        "O is free before the store has read it",
        swap("yield self.bulk_wait_read(0)", "yield self.barrier_o[0].arrive()"),
        finds=("race", "self.barrier_o[0].arrive()"),
    ),
    attention(
        "no proxy fence before the store",
        drop("yield self.fence_proxy_async()"),
        finds=("missing-fence", "yield self.out[me.copy].write()"),
    ),
    attention(
        "the slot is written without a look at Empty",
        drop("yield self.named_sync(EMPTY"),
        finds=("named-barrier", EMPTY),
    ),
    attention(
        "half of Q is expected",
        put("arrive_expect_tx(self.q.bytes)", "arrive_expect_tx(self.q.bytes // 2)"),
        finds=("tx-count", "self.barrier_q[0].arrive_expect_tx("),
    ),
    gemm(
        "no last round of waits",
        put("(self.stages if self.drains else 0)", "(0)"),
        finds=("exit-hazard", "yield self.bulk_commit()  # wrong with drains=false"),
        **SMALL,
    ),
    gemm("one warp of four releases", put("arrive(WARPS, ctas", "arrive(1, ctas"), finds=("deadlock", ACQUIRED)),
    gemm(
        "a stage is released in its own CTA alone",
        put("arrive(WARPS, ctas=range(self.shape.size))", "arrive(WARPS)"),
        finds=("deadlock", ACQUIRED),
        **SMALL,
    ),
    gemm(
        "the other parity of empty",
        put(f"{ACQUIRED}\n                if", "yield self.empty[s].wait(turn & 1)\n                if"),
        finds=("deadlock", "self.empty[s].wait(turn & 1)"),
    ),
    gemm("B is not expected", put(" + self.b.bytes)", ")"), finds=("race", "arrive_expect_tx(")),
    gemm("a stage is released in flight", drop("yield self.mma_wait(0)"), finds=("race", RELEASES)),
    gemm(
        "scales are read after the release",
        drop(SCALES),
        insert(SCALES, before="turn = (turn + 1) & 1", after=f"yield {RELEASES}"),
        finds=("race", RELEASES),
    ),
    gemm(
        "D is written while it is stored",
        put("yield self.bulk_wait(0)", "pass"),
        finds=("race", "self.d[me.copy].write()"),
    ),
    gemm(
        "D is stored without a fence",
        drop("yield self.fence_proxy_async()"),
        finds=("missing-fence", "yield self.d[me.copy].write()"),
    ),
    gemm(
        "no word of a stage without data",
        put("yield self.full[s].arrive()", "pass"),
        finds=("deadlock", "self.full[s].wait(turn)"),
        last_stages=1,
    ),
    split_k("a relaxed lock", drop("yield self.fence_acq_rel()"), drop("if self.fences"), finds=("race", "red(")),
    split_k(
        "a fence for the CTA",
        put("self.fence_acq_rel()", 'self.fence_acq_rel("cta")'),
        finds=("race", 'fence_acq_rel("cta")'),
    ),
    split_k("a look that acquires nothing", LAST_LOOK, finds=("race", "sums.read()"), last=True),
    split_k("the lock counts twice", put('"add", self', '"add", 2 * self'), finds=("deadlock", "spin(equals=before")),
    split_k(
        "adds before the first one has stored",
        put('yield self.lock[me.copy].spin(at_least=1, sem="acquire")', "pass"),
        finds=("race", "sums.red()"),
        mode="nondeterministic",
    ),
    split_k(
        "the lock is passed on relaxed",
        put('me.cluster + 1, sem="release")', 'me.cluster + 1, sem="relaxed")'),
        finds=("race", 'me.cluster + 1, sem="relaxed")'),
        mode="semaphore",
    ),
    split_k(
        "waits for the turn of the next one",
        put("spin(equals=me.cluster, sem", "spin(equals=me.cluster + 1, sem"),
        finds=("deadlock", "spin(equals=me.cluster + 1"),
        mode="semaphore",
    ),
)

RIGHT = (
    attention("the producer ends at once", put("in (self.k_empty, self.v_empty):", "in ():")),
    attention(
        "the last warpgroup gives the first turn",
        put("if self.pingpong and me.copy == 0", "if self.pingpong and me.copy == 1"),
    ),
    attention(
        "who stores fences for all",
        drop("yield self.fence_proxy_async()"),
        insert("yield self.fence_proxy_async()", before="yield self.store("),
    ),
    attention(
        "O is written behind the scheduler's barrier alone", drop("yield self.named_sync(EPILOGUE, self.threads)")
    ),
    attention("the slot is free before it is read: the next one waits for O", swap(READS, EMPTY)),
    attention("K is released in flight: its stage waits for V", swap("yield self.mma_wait(1)", FREES_K)),
    attention("Q is said to be free later", swap(QUERY, "yield self.v_full[kv].wait(kv.phase)")),
    gemm("no last round of waits in a CTA alone", put("(self.stages if self.drains else 0)", "(0)")),
    gemm("the store has been read, and not written yet", put("self.bulk_wait(0)", "self.bulk_wait_read(0)")),
    gemm("bytes are expected before the copies", drop(BYTES), insert(BYTES, before="yield self.a[s].load(")),
    split_k(
        "a red that releases instead of a fence",
        put("yield self.fence_acq_rel()", "pass"),
        put('self.k_tiles, sem="relaxed")', 'self.k_tiles, sem="release")'),
    ),
    split_k("a relaxed look and a fence", LAST_LOOK, insert("yield self.fence_acq_rel()", before="yield sums.read()")),
    split_k("loads and stores instead of red, in turn", put("yield sums.red()", "yield sums.write()")),
)


@pytest.mark.parametrize("seeded", MISTAKES, ids=lambda one: f"{one.kernel}: {one.id}")
def test_each_mistake_is_found_at_its_line(seeded, tmp_path):
    """By order where it applies, else by search."""
    pipeline = seeded.made(tmp_path)
    engines = ("order", "search") if seeded.kernel == "flash_attention" else ("search",)
    result = next((one for engine in engines if (one := check(pipeline, engine=engine)).verdict == VIOLATED), None)
    assert result is not None and result.trace is not None
    assert result.trace.property == seeded.property
    blamed = re.search(r"^>\s*(\d+)\|", render(result), re.MULTILINE)
    assert blamed is not None
    number = result.trace.steps[-1].line if seeded.last else int(blamed[1])
    assert seeded.line in (tmp_path / f"{seeded.kernel}.py").read_text().splitlines()[number - 1]


@pytest.mark.parametrize("seeded", RIGHT, ids=lambda one: f"{one.kernel}: {one.id}")
def test_what_only_looks_like_a_mistake_is_proved(seeded, tmp_path):
    assert check(seeded.made(tmp_path)).verdict == PROVED
