"""From a pipeline to the instructions of the executor."""

from __future__ import annotations

import re
import subprocess
from typing import get_args

import pytest
from needs import needs_nvcc

from sm90_verify.gpu.device import sources
from sm90_verify.recordings.instructions import COMPARISONS, KINDS, order_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import CODES, CONTROL, GLOBAL, OWN, PEERS
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import WIDER


def test_codes_are_those_of_the_kernel():
    text = (sources() / "executor.cu").read_text()
    body = text[text.index("enum Code") : text.index("};")]
    names = re.findall(r"^  ([A-Z_]+),", body, re.MULTILINE)
    assert [name.lower() for name in names] == list(CODES)


def enumerators(text, name):
    """Of an enum of the sources, in order."""
    (body,) = re.findall(rf"enum {name} : int {{(.*?)}}", text, re.DOTALL)
    return re.findall(r"\w+", body)


def test_what_the_plan_packs_is_what_the_kernel_unpacks():
    """Places, the forms of operations on words, and .sem and .scope of those on mbarriers, by their numbers."""
    executor, words, ptx = ((sources() / name).read_text() for name in ("executor.cu", "words.cuh", "ptx.cuh"))
    places = enumerators(executor, "Place")
    assert [places[number] for number in (OWN, GLOBAL, PEERS)] == ["OWN", "GLOBAL", "PEERS"]
    assert [name.lower() for name in enumerators(words, "Kind")] == list(KINDS)
    assert [name.lower() for name in enumerators(words, "Sem")] == list(get_args(op.Sem))
    assert [name.removeprefix("OF_").lower()[:3] for name in enumerators(words, "Scope")] == [one[:3] for one in WIDER]
    assert len(enumerators(words, "Comparison")) == len(COMPARISONS)
    orders = [("acquire", ""), ("relaxed", "cta"), ("relaxed", "gpu"), ("acquire", "cta"), ("acquire", "cluster")]
    assert [order_of(sem, "acquire", scope) for sem, scope in orders] == list(range(5))
    names = ["USUAL", "RELAXED_CTA", "RELAXED_CLUSTER", "ORDERED_CTA", "ORDERED_CLUSTER"]
    assert enumerators(ptx, "Order") == names


def test_the_kernel_traps_at_a_code_or_a_count_that_it_does_not_know():
    """A trap ends the launch by an error, which gpu.device reports; to do nothing would be an answer."""
    text = (sources() / "executor.cu").read_text()
    switch = text[text.index("switch (i.code) {") :]
    cases = re.findall(r"^        case ([A-Z_]+):", switch, re.MULTILINE)
    assert {name.lower() for name in cases} == set(CODES) - set(CONTROL)
    assert re.search(r"^        default:\n          __trap\(\);", switch, re.MULTILINE)
    groups = switch[switch.index("switch (i.a)") : switch.index("case FENCE_PROXY")]
    assert "default: __trap();" in groups


def test_a_role_is_lowered_operation_by_operation():
    plan = lower(trace(TmaAsync(stages=1, trips=1)))
    producer, consumer = plan.roles
    assert [one.code for one in producer.instructions] == ["wait", "arrive", "load", "wait"]
    assert [one.code for one in consumer.instructions] == ["wait", "read", "nothing", "read", "arrive"]
    assert (producer.warp, producer.warps, consumer.warp, consumer.warps) == (0, 1, 4, 4)
    wait, arrive, load, _ = producer.instructions
    assert (wait.a, wait.b) == (128, 1) and (arrive.a, arrive.b, arrive.c, arrive.d) == (0, 1, 32_768, -1)
    assert (load.a, load.b, load.c, load.d, load.e) == (256, 32_768, 0, 1, 0)
    assert plan.barriers == ((0, 0, 1), (0, 128, 128)) and plan.writers == {1: ("producer", 2)}


def test_a_multicast_copy_has_a_mask():
    plan = lower(trace(TmaAsync(stages=1, trips=1, cluster="2x1", bytes=4096)))
    masks = {one.e for one in plan.roles[0].instructions if one.code == "load"}
    assert masks == {0, 3} and plan.cluster == 2


class Odd(Pipeline):
    """Things that the executor cannot do, one at a time."""

    what: str = ""

    full = barrier(arrivals=1)
    x = tile(bytes=64)
    far = tile(bytes=64, space="global")
    wide = tile(bytes=226 * 1024, slots=lambda self: int(self.what == "wide"))

    @role(threads=lambda self: {"warps": 1024, "partial": 65}.get(self.what, 64))
    def one(self):
        if self.what == "partial":
            yield self.named_sync(1, threads=96)
        if self.what == "map":
            yield self.fence_proxy_tensormap_release()
        if self.what == "token":
            yield self.full[0].try_wait(0, sem="relaxed")
        if self.what == "groups":
            yield self.bulk_wait_read(8)
        if self.what == "loop":
            for _ in self.loop():
                yield self.x[0].read()
        yield self.full[0].arrive()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("map", "cannot do MapFence"),
        ("token", "for a parity alone"),
        ("groups", "7 groups"),
        ("loop", "give a trip count"),
        ("wide", "bytes of shared memory"),
        ("warps", "32 is most"),
        ("partial", "bar.sync counts warps"),
    ],
)
def test_what_the_executor_refuses(what, why):
    with pytest.raises(SpecError, match=why):
        lower(trace(Odd(what=what)))


def test_warps_meet_before_what_one_of_them_does():
    """The specification takes a role's step for one step of all its threads."""
    (lowered,) = lower(trace(Odd())).roles
    assert [one.code for one in lowered.instructions] == ["meet", "arrive"]


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "macros"),
    [
        ("executor.cu", []),
        ("executor.cu", ["-DRECORD"]),
        ("executor.cu", ["-DRECORD", "-DCLUSTER=2"]),
        ("executor.cu", ["-DRECORD", "-DWORDS", "-DCLUSTER=2", "-DCTAS=4", "-DMEETS"]),
        ("executor.cu", ["-DRECORD", "-DWORDS", "-DCTAS=2", "-DGRIDS=2"]),
        ("bulk_groups.cu", []),
        ("proxy_fences.cu", []),
        ("accumulators.cu", []),
    ],
)
def test_the_kernel_compiles(tmp_path, source, macros):
    command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", *macros]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "x"), str(sources() / source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@needs_nvcc
def test_without_recording_nothing_of_it_is_compiled(tmp_path):
    found = {}
    for macro in ("-DRECORD", "-DPLAIN"):
        command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a", "-ptx", macro]
        subprocess.run(
            [*command, "-o", str(tmp_path / "x"), str(sources() / "executor.cu")], check=True, capture_output=True
        )
        found[macro] = (tmp_path / "x").read_text().count("%clock64")
    assert found["-DRECORD"] == 2 and found["-DPLAIN"] == 0
