"""Arguments that make an edit of a recorded synclog legal: predicates on the log alone, independent of the checker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import recover

WAITS = ("cluster_barrier_wait", "cluster_barrier_try_wait", "cluster_barrier_test_wait")


class Log:
    """The facts about a log that the arguments use."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = tuple(records)
        self.program: dict[int, list[int]] = defaultdict(list)
        for index, record in enumerate(records):
            self.program[record.warp].append(index)
        self.barriers = [r.values[0] for r in records if r.kind == "cluster_barrier_init"]
        self.touched = Counter(
            r.values[1] if r.kind == "tma_load" else r.values[0]
            for r in records
            if (r.kind.startswith("cluster_") and r.kind != "cluster_barrier_init") or r.kind == "tma_load"
        )
        self.waited = Counter(r.values[0] for r in records if r.kind in WAITS)

    def later(self, index: int) -> Iterator[Record]:
        """The warp's entries after this one."""
        own = self.program[self.records[index].warp]
        yield from (self.records[i] for i in own[own.index(index) + 1 :])

    def earlier(self, index: int) -> list[Record]:
        own = self.program[self.records[index].warp]
        return [self.records[i] for i in own[: own.index(index)]]


def why_removal_is_legal(log: Log, index: int) -> str:
    """The argument for removing an entry, or the empty string."""
    record = log.records[index]
    following = next(log.later(index), None)
    if record.kind == "fence_barrier_init":
        inits = any(r.kind == "cluster_barrier_init" for r in log.earlier(index))
        for later in log.later(index):
            if later.kind == "fence_barrier_init":
                return "a later fence of the same thread covers the same inits"
            if later.kind != "cluster_barrier_init":
                break
        return "" if inits else "fence.mbarrier_init orders inits of its own thread, which has none"
    if record.kind == "fence_view_async_shared":
        own = {log.records[i].kind for i in log.program[record.warp]}
        if not own & {"named_barrier_arrive_and_wait", "tma_store", "wgmma_smem_smem", "wgmma_reg_smem"}:
            return "no TMA store and no wgmma reads what the warp writes"
        uses = ("named_barrier_arrive_and_wait", "tma_store", "fence_view_async_shared")
        after = next((r.kind for r in log.later(index) if r.kind in uses), "")
        if after in ("", "fence_view_async_shared"):
            return "a later fence covers the same writes before anything reads them, or nothing does"
    if record.kind == "syncthreads":
        return "" if following else "the warp does nothing afterwards: an exited warp counts as arrived"
    if record.kind == "syncwarp":
        return "lanes of one warp: nothing of it is logged"
    if record.kind in WAITS:
        same = [r for r in log.later(index) if r.values and r.values[0] == record.values[0]][:1]
        before = [r for r in log.earlier(index) if r.values and r.values[0] == record.values[0]][-1:]
        if same and same[0].kind in WAITS and same[0].values == record.values:
            return "the same wait follows: a try_wait decides nothing that the wait does not decide again"
        if before and before[0].kind in WAITS and before[0].values == record.values:
            return "a try_wait for the same phase precedes it, and may have returned true"
        if log.waited[record.values[0]] == 1 and record.values[0] not in recover(log.records).partner:
            return "it is the only wait of an order of loads, which is there for speed"
    if record.kind == "cluster_barrier_arrive_cluster" and not record.values[2]:
        return "pred=0: no arrival is executed"
    if record.kind == "cluster_barrier_init" and not log.touched[record.values[0]]:
        return "the barrier is never used"
    if (
        record.kind == "cluster_barrier_arrive"
        and not log.waited[record.values[0]]
        and log.touched[record.values[0]] == 1
    ):
        return "no warp waits for the barrier and nothing else arrives there"
    if record.kind == "tma_store":
        return "an empty bulk group is complete, and one access fewer cannot race"
    if record.kind == "tma_store_wait":
        return why_wait_is_not_needed(log, index, None)
    return ""


def why_wait_is_not_needed(log: Log, index: int, count: int | None) -> str:
    """tma_store_wait with another count, or none: the same groups are complete whenever it matters."""
    earlier = log.earlier(index)
    committed = sum(r.kind == "tma_store_arrive" for r in earlier)
    done = 0
    commits = 0
    for r in earlier:
        commits += r.kind == "tma_store_arrive"
        if r.kind == "tma_store_wait":
            done = max(done, commits - r.values[0])
    now = max(done, committed - log.records[index].values[0])
    then = done if count is None else max(done, committed - count)
    if then >= now:
        return "no bulk group is pending that the wait would have waited for"
    for r in log.later(index):
        if r.kind == "tma_store_wait":
            if committed - r.values[0] >= now:
                return "a stricter wait follows before the warp does anything that needs it"
        elif not r.kind.startswith("fence"):
            break
    oldest = [r.values[1] for r in log.records if r.kind == "tma_store" and r.warp == log.records[index].warp]
    reused = oldest[then:now]
    rest = oldest[committed:]
    staged = {r.values[2] for r in log.records[index:] if r.kind == "tma_load"}
    later_wait = [r for r in log.later(index) if r.kind in ("tma_store_wait", "tma_store_arrive")]
    if later_wait and not set(reused) & ({*rest} | staged):
        return "the bytes of the pending stores are not written again, and a later wait covers them"
    return ""


def why_duplicate_is_legal(log: Log, index: int) -> str:
    record = log.records[index]
    reasons = {
        "fence_barrier_init": "a fence twice is a fence",
        "fence_view_async_shared": "a fence twice is a fence",
        "tma_store_wait": "waiting twice for the same groups is waiting once",
        "tma_store_arrive": "the second commit makes an empty group, which is complete",
        "syncwarp": "lanes of one warp: nothing of it is logged",
        "cpasync_barrier_arrive": "one more arrival is pending until the same copies are done",
    }
    if record.kind in WAITS:
        return "a phase that is seen complete may be looked at again"
    if record.kind == "cluster_barrier_arrive_cluster" and not record.values[2]:
        return "pred=0: no arrival is executed"
    return reasons.get(record.kind, "")


def why_change_is_legal(log: Log, index: int, field: str, value: int) -> str:
    record = log.records[index]
    if record.kind == "cluster_barrier_arrive_cluster":
        _, cta, pred = record.values
        if not pred and (field != "pred" or cta):
            return "the arrival is not executed, or is for another CTA, before and after"
    if record.kind == "cluster_barrier_init" and not log.touched[record.values[0]]:
        return "the barrier is never used"
    if record.kind == "cluster_barrier_arrive" and not log.waited[record.values[0]] + log.waited[value]:
        return "no warp waits for the one barrier or the other"
    if field == "gmem_int_desc":
        sizes = recover(log.records).box_bytes
        if record.kind == "tma_store" or sizes[value] == sizes[record.values[0]]:
            return "another tensor, the same bytes to the same place"
    if record.kind == "cluster_barrier_wait" and field == "smem_addr" and why_removal_is_legal(log, index):
        return "the wait is not needed, and one for a phase that completes may be there"
    if record.kind == "tma_store_wait":
        if value < record.values[0]:
            return "waiting for more groups than needed is legal, and they do complete"
        return why_wait_is_not_needed(log, index, value)
    return ""


def why_release_may_come_first(log: Log, index: int, empty: int) -> str:
    """Before a wait for wgmma groups: those that read the stage were complete earlier."""
    table = recover(log.records)
    loads = [r.values for r in log.records if r.kind == "tma_load" and r.values[1] == table.partner.get(empty)]
    stage = [range(start, start + table.box_bytes[descriptor]) for descriptor, _, start in loads]
    committed, done, reads = 0, 0, -1
    for r in log.earlier(index):
        if r.kind.startswith("wgmma") and any(address in one for address in r.values for one in stage):
            reads = committed
        elif r.kind == "warpgroup_commit_batch":
            committed += 1
        elif r.kind == "warpgroup_wait":
            done = max(done, committed - r.values[0])
    return "an earlier wait was for the groups that read the stage" if 0 <= reads < done else ""


def why_cut_is_legal(records: Sequence[Record]) -> str:
    """A kernel could end here: every load is waited for, every stage given back, every store waited for."""
    table = recover(records)
    fulls = {a for ring in table.rings if ring.empty for a in ring.full.addresses}
    balance: Counter[tuple[int, int]] = Counter()
    stores: Counter[int] = Counter()
    loaded, waited = Counter[int](), Counter[tuple[int, int, int]]()
    for r in records:
        if r.kind in WAITS and r.values[0] in fulls:
            waited[r.warp, r.values[0], r.values[1]] = 1
            balance[r.warp, r.values[0]] = 1
        elif "_arrive" in r.kind and r.values and table.partner.get(r.values[0]) in fulls:
            balance[r.warp, table.partner[r.values[0]]] = 0
        elif r.kind == "tma_load":
            loaded[r.values[1]] += 1
        elif r.kind == "tma_store":
            stores[r.warp] += 1
        elif r.kind == "tma_store_wait" and not r.values[0]:
            stores[r.warp] = 0
    seen = {full for _, full, _ in waited}
    done = not any(balance.values()) and not any(stores.values()) and all(full in seen for full in loaded)
    return "the kernel may end here: nothing is under way and no stage is held" if done and loaded else ""


COMMUTES: dict[tuple[str, str], str] = {
    ("cluster_barrier_init", "cluster_barrier_init"): "two barriers",
    ("tma_load", "cluster_barrier_wait"): "the next stage has nothing to do with this load",
    ("cluster_barrier_arrive_cluster", "tma_store_wait"): "a release may come later",
    ("tma_load", "tma_load"): "bytes of one phase land in any order",
    ("tma_load", "cluster_transaction_barrier_expect_transaction"): "tx may be negative while an arrival is pending",
    ("cluster_transaction_barrier_expect_transaction", "tma_load"): "tx may be negative while an arrival is pending",
    ("cluster_transaction_barrier_arrive_and_expect_tx", "tma_load"): "the load cannot complete the phase alone",
    ("cluster_barrier_wait", "cluster_transaction_barrier_arrive_and_expect_tx"): "only the load needs the empty stage",
    ("cluster_barrier_arrive_cluster", "cluster_barrier_wait"): "the release needs nothing of the next wait",
    ("cluster_barrier_arrive_cluster", "cluster_barrier_try_wait"): "the release needs nothing of the next wait",
    ("cluster_barrier_arrive_cluster", "cluster_barrier_arrive"): "two barriers",
    ("cluster_barrier_arrive", "cluster_barrier_wait"): "two barriers",
    ("cluster_barrier_arrive", "tma_load"): "two barriers",
    ("tma_load", "cluster_barrier_arrive"): "two barriers",
    ("named_barrier_arrive_and_wait", "cluster_barrier_wait"): "the wait needs nothing of bar.sync",
    ("cluster_barrier_arrive_cluster", "warpgroup_arrive"): "the fence orders registers, the wait precedes the release",
    ("warpgroup_commit_batch", "cluster_barrier_try_wait"): "the commit is about the stage before",
    ("warpgroup_commit_batch", "cluster_barrier_wait"): "the commit is about the stage before",
    ("cluster_barrier_arrive", "warpgroup_wait"): "an arrival may come later",
    ("cluster_barrier_arrive_cluster", "warpgroup_wait"): "the group of the released stage was waited for before",
    ("cluster_barrier_arrive_cluster", "cluster_barrier_arrive_cluster"): "two barriers",
    ("cluster_barrier_try_wait", "warpgroup_arrive"): "the fence orders registers, the wait precedes wgmma",
    ("cluster_barrier_wait", "warpgroup_arrive"): "the fence orders registers, the wait precedes wgmma",
    (
        "named_barrier_arrive_and_wait",
        "cluster_barrier_arrive_cluster",
    ): "the phase needs the storing warp's arrival too",
    ("tma_store_arrive", "tma_store_wait"): "the wait leaves the newest group pending in either order",
    ("tma_store_wait", "named_barrier_arrive_and_wait"): "no bulk group is pending",
    ("named_barrier_arrive_and_wait", "tma_store_wait"): "no bulk group is pending",
    ("tma_store_wait", "cluster_barrier_arrive_cluster"): "the warp has no bulk group",
    ("tma_store_wait", "cluster_barrier_arrive"): "the warp has no bulk group",
    ("tma_store_wait", "cluster_barrier_wait"): "the wait does not look at bulk groups",
    ("cluster_barrier_wait", "tma_store_wait"): "bulk groups may be waited for earlier",
    ("cluster_barrier_wait", "cluster_barrier_wait"): "two barriers",
    ("cluster_barrier_wait", "cluster_barrier_try_wait"): "two barriers",
    ("fence_barrier_init", "syncthreads"): "fence.mbarrier_init orders inits of its own thread, which has none",
    ("fence_barrier_init", "cluster_barrier_init"): "a later fence of the same thread covers the init",
    ("cluster_barrier_init", "fence_barrier_init"): "a later fence of the same thread covers the init",
    ("cluster_barrier_arrive_cluster", "fence_view_async_shared"): "the released stage was read before",
    ("fence_view_async_shared", "cluster_barrier_arrive_cluster"): "the released stage was read before",
    ("tma_store", "tma_store_arrive"): "the store joins the next group, which is waited for as well",
    ("warpgroup_wait", "syncwarp"): "lanes of one warp: nothing of it is logged",
    ("warpgroup_wait", "cluster_barrier_try_wait"): "the wait for the next stage needs nothing of wgmma",
    ("cluster_barrier_try_wait", "fence_view_async_shared"): "the fence is about writes to the stage before",
    ("cpasync_barrier_arrive", "cluster_barrier_wait"): "an arrival may come later",
    ("syncwarp", "cluster_barrier_wait"): "lanes of one warp: nothing of it is logged",
}
"""Kinds of neighbours in one warp that may trade places where nothing between them is ordered, and why."""
