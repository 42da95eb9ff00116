"""The GEMM kernels and their wrong variants: what can be said of them without a GPU, what one did, and what it does."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import cache

import pytest
from needs import needs_gpu, needs_nvcc

from sm90_verify.evidence.hardware.gemm import variants as gemm_variants
from sm90_verify.evidence.hardware.gemm.config import KINDS, POINTS, WRONG, Config, names
from sm90_verify.evidence.hardware.gemm.kernel import GemmKernel, bytes_of_parts
from sm90_verify.evidence.hardware.gemm.models import MODELS, model_class
from sm90_verify.evidence.hardware.gemm.record import SOURCE, record_kernel, sizes
from sm90_verify.evidence.hardware.recorder.conform import conform
from sm90_verify.evidence.hardware.recorder.tapes import Did, Tape
from sm90_verify.gpu.device import sources
from sm90_verify.recordings.acceptance import acceptance_of
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op

predict = cache(gemm_variants.predict)
TILES = {"ws": (128, 128), "cooperative": (128, 128), "pingpong": (64, 128)}
FLAVOURS = ({}, {"source": True}, {"source": True, "reuse": True}, {"delay": True})


def enumerators(file, name):
    text = (sources() / file).read_text()
    body = re.sub(r"//.*", "", text[text.index(f"enum {name}") :].partition("};")[0].partition("{")[2])
    return [one.strip() for one in body.replace("\n", " ").split(",") if one.strip()]


def test_numbers_are_those_of_the_kernel():
    assert [one.lower() for one in enumerators("gemm_shape.cuh", "Wrong")] == ["right", *WRONG[1:]]
    assert [one.lower() for one in enumerators("gemm_shape.cuh", "Schedule")] == list(GEMMS)
    assert [one.lower() for one in enumerators("gemm_actor.cuh", "Point")] == [f"before_{point}" for point in POINTS]
    kinds = enumerators("gemm_actor.cuh", "Kind")
    assert kinds.pop() == "PART_D = PART_C + 3" and kinds.pop() == "PART_C"
    assert [one.lower() for one in kinds] == list(KINDS[: len(kinds)])
    assert [KINDS.index(f"part_{tensor}0") - len(kinds) for tensor in "cd"] == [0, 3]


@pytest.mark.parametrize("schedule", GEMMS)
@pytest.mark.parametrize(
    "more", (*FLAVOURS, {"cluster": True}, {"source": True, "stages_c": 1, "stages_d": 1}), ids=str
)
def test_every_role_and_object_of_the_model_has_a_name(schedule, more):
    config = Config(schedule, 3, TILES[schedule], **more)
    plan, known = lower(trace(config.model(4, 1))), names(config)
    for program in plan.programs:
        assert known.places.count(program.name.removeprefix(program.home)) == -(-program.me.threads // 32)
    assert {program.name.removeprefix(program.home) for program in plan.programs} == set(known.places)
    named = {name for found in known.objects.values() for name in found}
    assert set(bytes_of_parts(plan)) <= named


@pytest.mark.parametrize("schedule", GEMMS)
@pytest.mark.parametrize("more", FLAVOURS, ids=str)
def test_tensors_take_what_they_take_in_the_model(schedule, more):
    config = Config(schedule, 2, TILES[schedule], **more)
    regions = lower(trace(config.model(2, 1))).kernel.layout.regions
    assert config.bytes == max(region.stop for region in regions if region.object[0] in "abcd")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"schedule": "stream_k"}, "use one of ws, cooperative, pingpong"),
        ({"wrong": "nothing"}, "use one of release_before_mma"),
        ({"tile": (96, 128)}, "64, 128 or 256 rows"),
        ({"schedule": "cooperative", "tile": (64, 128)}, "64 for each warpgroup"),
        ({"tile": (256, 128)}, "more accumulators"),
        ({"stages": 1}, "use 2 to 8"),
        ({"stages": 8}, "a CTA has"),
        ({"reuse": True}, "no C whose memory"),
    ],
)
def test_what_cannot_be_compiled_is_refused(arguments, why):
    with pytest.raises(SpecError, match=re.escape(why)):
        Config(**{"schedule": "ws", **arguments})


def test_a_ws_kernel_has_one_tile():
    with pytest.raises(SpecError, match="one tile"):
        Config("ws").model(4, 2)


# ---------------------------------------------------------------- tapes


def tapes_of(config, plan):
    """What a CTA would record that does what the programs of a plan do, with the clock standing still."""
    known = names(config)
    numbers = {found: number for number, found in known.objects.items()}
    threads = {program.name: program.me.threads for program in plan.programs}

    def did(code, objects=(), operand=0, arrived=0):
        low = int(code in ("read", "mma"))  # no words
        return Did(code, numbers[objects] if objects else 0, operand, 0, False, arrived, 0, 0, low, 0)

    rows = []
    for role in known.places:
        count = known.places.count(role)
        events, loads = [], {}
        for node in plan.nodes[role]:
            match node.operation:
                case op.Wait():
                    events.append(did("wait", (node.operation.barrier,), int(node.operation.phase) & 1))
                case op.Arrive(expect=None):
                    assert node.operation.count == threads[role]
                    events.append(did("arrive", (node.operation.barrier,), 0xFFFFFFFF, threads[role] // count))
                case op.Arrive():
                    events.append(did("arrive_expect", (node.operation.barrier,), node.operation.expect, 1))
                case op.Transaction():
                    events.append(did("expect", (node.operation.barrier,), node.operation.bytes))
                case op.Load() as load:
                    stage = load.write.object.partition("[")[2]
                    loads.setdefault((load.write.object[0], stage), []).append(load)
                    mine = loads[load.write.object[0], stage]
                    whole = {"a": config.bytes_a, "b": config.bytes_b, "c": config.bytes_d}
                    if sum(one.bytes for one in mine) == whole[load.write.object[0]]:
                        barrier = numbers[(load.barrier,)]
                        one = did("load", tuple(each.write.object for each in mine), sum(each.bytes for each in mine))
                        events.append(replace(one, object=one.object | barrier << 16))
                        mine.clear()
                case op.Touch(kind="mma") as mma:
                    events.append(
                        did("mma", tuple(one.object for one in mma.accesses), config.bytes_a + config.bytes_b)
                    )
                    events.append(did("mma_commit"))
                case op.Touch() as touch:
                    (access,) = touch.accesses
                    share = {"store_warp": 1, "other_warps": 3, "second_warpgroup": 4}
                    part = share[access.object.partition(".")[2].partition("[")[0]]
                    whole = 8 if config.schedule == "cooperative" else 4
                    events.append(did(touch.kind, (access.object,), config.bytes_d * part // whole))
                case op.Store() as store:
                    events.append(did("store", tuple(one.object for one in store.sources), config.bytes_d))
                case op.Group() as group:
                    events.append(did(group.kind, (), group.pending))
                case op.Fence():
                    events.append(did("fence_proxy"))
                case op.NamedSync() as sync:
                    events.append(replace(did("named_sync", (), sync.threads), object=sync.id))
                case op.WarpSync():
                    events.append(did("warp_sync"))
                case op.Setmaxnreg() as registers:
                    events.append(did(f"registers_{registers.kind}", (), registers.registers))
                case None:
                    pass
        rows.append(Tape(tuple(events)))
    return [rows]


class Recorded(GemmKernel):
    """A kernel whose tapes come from elsewhere."""

    def __init__(self, config, k_tiles):
        self.config, self.k = config, 64 * k_tiles


def held(config, tapes, plan):
    """What `conform` says of one CTA's tapes."""
    kernel, collective = Recorded(config, 1), plan.kernel.parameters["collective_wgmma"]
    known, sizes = names(config), bytes_of_parts(plan)
    return conform(plan, known, [[kernel.tape(tape, known, sizes, collective) for tape in row] for row in tapes])


@pytest.mark.parametrize("schedule", GEMMS)
@pytest.mark.parametrize("more", FLAVOURS, ids=str)
def test_what_the_model_does_is_what_the_model_does(schedule, more):
    config = Config(schedule, 2, TILES[schedule], **more)
    plan = lower(trace(config.model(3, 1 if schedule == "ws" else 2)))
    alone = lower(trace(config.model(3, 1 if schedule == "ws" else 2, collective=False)))
    assert held(config, tapes_of(config, plan), alone).differences == ()
    found = held(config, tapes_of(config, plan), plan)
    assert found.differences == ()
    for role in found.run.roles:
        nodes = plan.nodes[role.name]
        assert role.node == -1 and [event.node for event in role.events] == list(range(len(nodes) - 1))


def test_a_place_has_room_for_what_it_does():
    for size in sizes():
        if not size.config.cluster:
            kernel = Recorded(size.config, size.k_tiles)
            kernel.tiles = kernel.ctas = 1
            kernel.tiles *= size.tiles
            plan = lower(trace(size.config.model(size.k_tiles, size.tiles)))
            assert max(len(tape.events) for tape in tapes_of(size.config, plan)[0]) <= kernel._capacity


@pytest.mark.parametrize("cluster", [False, True])
def test_tiles_belong_to_whom_the_kernel_gives_them(cluster):
    """As `row`, `column`, `first` and `step` of kernels/gemm_shape.cuh have it."""
    kernel = Recorded(Config("pingpong", 2, cluster=cluster), 1)
    kernel.rows, kernel.tiles, kernel.ctas = 4, 20, 6
    pair = kernel.config.ctas
    found = {}
    for cta in range(kernel.ctas):
        mine = range(cta // pair, kernel.tiles // pair, kernel.ctas // pair)
        assert len(mine) == kernel.tiles_of(cta)
        for tile in mine:
            row, column = tile % (kernel.rows // pair) * pair + cta % pair, tile // (kernel.rows // pair)
            found[row, column] = cta
    assert len(found) == 20 and all(kernel.cta_of(*place) == cta for place, cta in found.items())


def test_the_end_of_a_group_may_be_before_a_warp_looks():
    config = Config("ws", 2)
    kernel, known = Recorded(config, 1), names(config)
    events = (
        Did("mma", 0, 0, 0, False, 0, 10, 20, 1, 0),
        Did("mma_commit", 0, 0, 0, False, 0, 210, 220, 1, 0),
        Did("mma_wait", 0, 0, 0, False, 0, 300, 310, 0, 0),
        Did("warp_sync", 0, 0, 0, False, 0, 320, 330, 0, 0),
        Did("fence_proxy", 0, 0, 0, False, 0, 340, 350, 0, 0),
    )
    found = kernel.tape(Tape(events), known, {}, True).events
    assert [one.code for one in kernel.tape(Tape(events), known, {}, False).events] == [
        one.code for one in events if one.code != "warp_sync"
    ]
    assert [(one.before, one.after) for one in found] == [(10, 20), (20, 20), (20, 310), (20, 330), (340, 350)]


def test_a_share_of_a_stage_that_is_not_the_threads_is_refused():
    config = Config("cooperative", 2)
    number = KINDS.index("part_d1") << 8
    events = (Did("write", number, config.bytes_d // 2, 0, False, 0, 0, 1, 0, 0),)
    with pytest.raises(SpecError, match="other_warps"):
        Recorded(config, 1).tape(Tape(events), names(config), {"d.other_warps[0]": 2736}, True)


WRONG_AT = {"source_released": {"source": True}, "no_load_tail": {"source": True}}


PINGPONG = ("order_swapped", "no_mma_order", "no_epilogue_order")
PARTLY = ("no_release", "release_own")
"""Some threads of a role do other than the rest, which made-up tapes do not know."""


@pytest.mark.parametrize(
    ("wrong", "schedule"),
    [
        (wrong, schedule)
        for wrong in MODELS
        for schedule in GEMMS
        if wrong not in PARTLY and (schedule == "pingpong" or wrong not in PINGPONG)
    ],
)
def test_a_wrong_kernel_is_told_from_the_right_one(wrong, schedule):
    """The right model finds the operation in which each wrong one differs; its own finds none."""
    config = Config(schedule, 2, TILES[schedule], wrong=wrong, **WRONG_AT.get(wrong, {}))
    tiles = 1 if schedule == "ws" else 2
    own, right = lower(trace(config.model(3, tiles, model_class(config)))), lower(trace(config.model(3, tiles)))
    tapes = tapes_of(config, own)
    assert held(config, tapes, own).differences == ()
    assert held(config, tapes, right).differences


def test_sizes_fit_and_are_of_the_library():
    for size in sizes():
        plan = lower(trace(size.config.model(size.k_tiles, size.tiles)))
        assert plan.kernel.name == f"gemm-{size.config.schedule}"
    found = list(sizes())
    assert {one.config.schedule for one in found} == set(GEMMS)
    assert {one.config.stages for one in found} >= {2, 4, 8} and SOURCE.endswith("gemm.cu")


# ---------------------------------------------------------------- compiled, and run


@needs_nvcc
@pytest.mark.parametrize("schedule", GEMMS)
def test_the_kernels_compile_as_meant(schedule, tmp_path):
    """MMAs stay asynchronous, nothing is spilled, and setmaxnreg has its effect: 168 registers a thread at launch."""
    config = Config(schedule, 3, TILES[schedule], source=True, reuse=True)
    cluster = replace(config, cluster=True)
    for one, record_, directed in ((config, False, False), (config, True, True), (cluster, False, False)):
        macros = one.macros(record=record_, directed=directed).items()
        command = ["nvcc", "-std=c++17", "-arch=sm_90a", "-cubin", "-Xptxas", "-v", f"-I{sources()}"]
        command += [f"-D{name}={value}" for name, value in macros]
        done = subprocess.run(
            [*command, str(sources() / "gemm.cu"), "-o", str(tmp_path / "x.cubin")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Potential Performance Loss" not in done.stderr and " 0 bytes spill stores" in done.stderr
        if schedule != "ws":
            assert "Used 168 registers" in done.stderr


@needs_gpu
@pytest.mark.parametrize("schedule", GEMMS)
@pytest.mark.parametrize("more", (*FLAVOURS, {"bfloat16": True}, {"cluster": True}), ids=str)
def test_the_numbers_are_those_of_a_plain_product(schedule, more):
    config = Config(schedule, 3, TILES[schedule], **more)
    outcome = GemmKernel(config, 512, 768, 320, ctas=0 if schedule == "ws" else 6, record=False).run()
    assert outcome.error == 0 and not any(outcome.hangs) and not any(outcome.wrong)


@needs_gpu
def test_recordings_are_held_to_the_specification():
    for schedule in GEMMS:
        for one in record_kernel(schedule, each=2):
            assert acceptance_of(one).accepted == 2
