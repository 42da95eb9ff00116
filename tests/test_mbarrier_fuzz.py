"""The kernel of the mbarrier fuzzer without a GPU: on a host, against an emulated mbarrier, sound and broken."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from needs import needs_gxx, needs_nvcc

from sm90_verify.evidence.hardware.mbarrier import fuzz as mbarriers
from sm90_verify.evidence.hardware.mbarrier import ill_formed
from sm90_verify.evidence.hardware.mbarrier.driver import compiled
from sm90_verify.evidence.hardware.mbarrier.menu import WAITS, menu, operation
from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.mbarrier import TX_WIDTH

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
