"""Kernels of CUTLASS, built from its package: what their PTX does is what their sync logs show, and it is proved.

Needs nvcc and nvidia-cutlass; a kernel takes half a minute and 3 GB to compile. Two of the ten that were logged are
built, and all ten with VERIFY_ALL_CUTLASS=1.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from log_edits import LOGS
from needs import needs_cutlass, needs_nvcc
from packages import built_by

from sm90_verify.decide.ptx import check_ptx
from sm90_verify.engines.effort import Effort
from sm90_verify.frontends.log.synclog import FIELDS, Record, read_log
from sm90_verify.frontends.ptx import events as did
from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.launch_file import read_launch
from sm90_verify.frontends.ptx.read import entry_of, read_module
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.result import PROVED

HERE = Path(__file__).resolve().parent
BUILT = LOGS if os.environ.get("VERIFY_ALL_CUTLASS") else ("ws", "pp_s2")


@pytest.fixture(scope="module", params=BUILT)
def built(request, tmp_path_factory):
    """The name, the PTX and the launch of a kernel."""
    return request.param, *built_by("cutlass_library", request.param, tmp_path_factory.mktemp("cutlass"))


def logged(records: tuple[Record, ...]) -> dict[int, list[tuple[object, ...]]]:
    """By warp, what its lane 0 did, with a wait behind each try_wait that said yes."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for one in records:
        said = _said(one.kind, dict(zip(FIELDS[one.kind], one.values, strict=True)))
        if said:
            found.setdefault(one.warp, []).append(said)
    for warp, some in found.items():
        whole: list[tuple[object, ...]] = []
        for index, one in enumerate(some):
            whole.append(one)
            waited = ("wait", *one[1:])
            if one[0] == "try" and some[index + 1 : index + 2] != [waited]:
                whole.append(waited)
        found[warp] = whole
    return found


def _said(kind: str, of: dict[str, int]) -> tuple[object, ...]:
    match kind:
        case "cluster_barrier_init":
            return "init", of["smem_addr"], of["arrive_count"]
        case "cluster_barrier_wait":
            return "wait", of["smem_addr"], of["phase"]
        case "cluster_barrier_try_wait":
            return "try", of["smem_addr"], of["phase"]
        case "cluster_transaction_barrier_arrive_and_expect_tx":
            return "arrive", of["smem_addr"], of["transaction_bytes"]
        case "cluster_transaction_barrier_expect_transaction":
            return "expect", of["smem_addr"], of["transaction_bytes"]
        case "cluster_barrier_arrive_cluster":
            return ("arrive", of["smem_addr"], None) if of["pred"] else ()
        case "cluster_barrier_arrive":
            return "arrive", of["smem_addr"], None
        case "tma_load":
            return "load", of["smem_int_mbar"], of["smem_int_ptr"]
        case "tma_store":
            return "store", of["smem_int_ptr"]
        case "tma_store_arrive":
            return ("bulk_commit", 0)
        case "tma_store_wait":
            return "bulk_wait_read", of["count"]
        case "syncthreads":
            return "bar", 0, 0
        case "named_barrier_arrive_and_wait":
            return "bar", of["barrier_id"], of["num_threads"]
        case "wgmma_smem_smem":
            return ("mma",)
        case "warpgroup_arrive":
            return ("wgmma",)
        case "warpgroup_commit_batch":
            return ("mma_commit", 0)
        case "warpgroup_wait":
            return "mma_wait", of["n"]
        case "fence_barrier_init":
            return ("mbarrier_init",)
        case "fence_view_async_shared":
            return ("proxy_async",)
        case "syncwarp":
            return ("syncwarp",)
        case _:
            raise AssertionError(kind)


def executed(warp: Warp) -> list[tuple[object, ...]]:
    """What lane 0 of a warp does in the PTX, in the same words."""
    found: list[tuple[object, ...]] = []
    for event in warp.events:
        if not event.mask & 1:
            continue
        match event.what:
            case did.Initialised(at, arrivals):
                found.append(("init", at.address, arrivals))
            case did.Waited(at, parity):
                found.append(("wait", at.address, parity))
            case did.Peeked(at, parity):
                found.append(("try", at.address, parity))
            case did.Arrived(at, _, expect):
                found.append(("arrive", at.address, expect))
            case did.Expected(at, bytes):
                found.append(("expect", at.address, bytes))
            case did.CopiedIn() as copied:
                found.append(("load", copied.barriers[0].address, copied.address))
            case did.CopiedOut() as copied:
                found.append(("store", copied.address))
            case did.Grouped(kind, pending):
                found.append((kind, pending))
            case did.NamedMet(id, threads, _):
                found.append(("bar", id, threads))
            case did.Multiplied():
                found.append(("mma",))
            case did.Fenced(kind):
                found.append((kind,))
            case did.LanesMet(True):
                found.append(("syncwarp",))
            case _:
                pass
    return found


@needs_nvcc
@needs_cutlass
def test_the_ptx_does_what_the_log_shows(built):
    name, ptx, launch = built
    module, given = read_module(str(ptx)), read_launch(str(launch))
    code, addresses = code_of(module, entry_of(module, given.kernel, given), given)
    run = ClusterRun(code, addresses, given, given.clusters()[0], Effort().tick)
    run.run()
    shown = logged(read_log(str(HERE / "data" / "synclog" / f"{name}.log.xz")))
    warps = {warp.number: executed(warp) for warp in run.cluster.ctas[0].warps}
    assert warps == {number: shown.get(number, []) for number in warps}
    assert sum(map(len, shown.values())) > 500


@needs_nvcc
@needs_cutlass
def test_every_schedule_is_proved(built):
    _, ptx, launch = built
    result = check_ptx(str(ptx), str(launch), table=True)
    assert result.verdict == PROVED
    assert result.table is not None
    assert {ring.ring.removeprefix("cta0.") for ring in result.table.rings} >= {"full", "empty"}
