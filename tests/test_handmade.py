"""Kernels that somebody makes by hand, or edits: what makes no sense is refused with one line, and nothing else goes
wrong whatever a field holds.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from handmade_kernels import (
    JUNK,
    KERNELS,
    Loop,
    Mixed,
    Pair,
    Ring,
    accesses,
    first_node,
    layout,
    others,
    regions,
    threads,
    with_operations,
)

from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.fits import passed_by
from sm90_verify.spec.ptx.limits import COUNT_LIMIT, CTA_THREADS, MMA_GROUPS, WARPGROUP
from sm90_verify.spec.ptx.misfit import misfit
from sm90_verify.spec.ptx.phase import Phase

REFUSED: list[tuple[type[Pipeline], Callable[[Kernel], Kernel], str]] = [
    # what an operation does with its bytes, and what their access says
    (
        Ring,
        others(op.Load, write=accesses(write=False)),
        "the async-proxy read of a in Load, which writes it through the async",
    ),
    (Ring, others(op.Load, write=accesses(proxy="generic")), "generic-proxy write of a in Load, .* use as_write"),
    (Ring, others(op.Load, write=accesses(proxy="tma")), "whose write.proxy no engine knows: use generic, async"),
    (
        Ring,
        others(op.Touch, accesses=accesses(proxy="generic")),
        "in Touch of kind 'mma', which reads it through the async",
    ),
    (Ring, others(op.Touch, accesses=accesses(write=True)), r"use as_read\(access, 'async'\)"),
    (Mixed, others(op.Touch, accesses=accesses(proxy="async")), r"use as_\w+\(access, 'generic'\)"),
    (Mixed, others(op.Store, sources=accesses(write=True)), "in Store, which reads it through the async"),
    (Mixed, others(op.Store, destination=accesses(write=False)), "in Store, which writes it through the async"),
    (Mixed, others(op.Inval, write=accesses(proxy="async")), "in Inval, which writes it through the generic"),
    # operands
    (Ring, others(op.Group, pending=-3), "pending no engine knows: use 0 to 31"),
    (Ring, others(op.Group, pending=8), "a wait that leaves 8 groups pending: use 0 to 7"),
    (Ring, others(op.Touch, tags=()), "whose tags no engine knows: use 1, one for each access"),
    (Mixed, others(op.Store, tags=("a", "b")), "whose tags no engine knows: use 1"),
    (Mixed, others(op.Choose, options=("a",)), "whose options no engine knows: use 2 or more"),
    (Ring, others(op.Arrive, count=-1), "whose count no engine knows: use 0 to 1048575"),
    (Ring, others(op.Arrive, count=1000, expect=1 << 19), "1000 threads that expect 524288 bytes each"),
    (Mixed, others(op.Transaction, bytes=1 << 20), "whose bytes no engine knows: use -1048575 to 1048575"),
    (Mixed, others(op.NamedSync, threads=4096), "whose threads no engine knows: use 0 to 1024"),
    (Mixed, others(op.NamedSync, by=16), "a named barrier by 16 threads of 64: use whole warps of the role"),
    (Mixed, others(op.NamedSync, by=1024), "a named barrier by 1024 threads of 64: use whole warps of the role"),
    (Ring, others(op.Wait, phase=2), "whose phase no engine knows: use 0 to 1"),
    (Mixed, others(op.Wait, phase=op.Token("done")), "a wait on b with the token of an arrive on done"),
    # copies
    (Pair, others(op.Load, also=lambda also: also + also), "a multicast to CTA 1 twice: name each CTA once"),
    (Ring, others(op.Load, bytes=32), "a bulk copy to a of 64 bytes that signals 32: use the same number"),
    (Ring, others(op.Load, bytes=1 << 24), "signals 16777216 bytes: a tx-count has 1048575 at most"),
    # places
    (Ring, others(op.Touch, accesses=accesses(start=0, stop=64)), "of a begins at address 0: a has 256 to 319"),
    (Ring, others(op.Touch, accesses=accesses(stop=256)), "of a is of 0 bytes: use 1 or more"),
    (Pair, others(op.Arrive, cta=-1), "cta0.back lies in CTA 0, and the operation is for cta=-1: use 0"),
    (Pair, others(op.Wait, barrier="cta0.full"), "cta0.full lies in CTA 0, and cta1.one in CTA 1: say remote"),
    (Mixed, others(op.Inval, write=None), "b shares bytes with a buffer: its operation writes "),
    (Mixed, layout(under={}), "under of the layout is wrong about x, in whose bytes b lies"),
    (Ring, layout(arrivals={"full": 1, "a": 1}), "arrivals of the layout: no barrier is called 'a'"),
    (Ring, layout(arrivals={"full": 1 << 20}), "full expects 1048576 arrivals: use 1 to 1048575"),
    (Ring, layout(holds={"full": 1}), "holds of the layout: no buffer is called 'full'"),
    (Ring, layout(slots={"full": -1}), r"layout.slots\['full'\] of kernel: use 0 to"),
    (Ring, regions(lambda one: one._replace(stop=one.stop + 8)), "full has 16 bytes: an mbarrier has 8"),
    (Ring, regions(lambda one: one._replace(space="global")), "full lies in global memory: an mbarrier lies in shared"),
    (Ring, regions(lambda one: one._replace(cta=1)), "full lies in shared memory of CTA 1: use 0 to 0"),
    (Ring, regions(lambda one: one._replace(space="tensor")), "space of kernel: use shared, global, registers"),
    # roles and kernels
    (Ring, threads(threads=0), "me.threads of program producer: use 1 to 1024"),
    (Ring, threads(threads=1.5), "me.threads of program producer: it is not int"),
    (Ring, threads(index=-1), "me.index of program producer: use 0 to"),
    (Ring, lambda kernel: replace(kernel, depth=-3), "depth of kernel: use 0 to"),
    (
        Ring,
        lambda kernel: replace(kernel, rules=kernel.rules._replace(strict="no")),
        "rules.strict of kernel: it is not",
    ),
    (Ring, lambda kernel: replace(kernel, programs=()), "use a tuple of one Program or more"),
    (Ring, lambda kernel: replace(kernel, programs=("producer",)), "a kernel has 'producer' among its programs"),
    (
        Pair,
        lambda kernel: replace(kernel, programs=tuple(replace(one, role="one") for one in kernel.programs)),
        "cta0.one of CTA 0 and cta1.one of CTA 1 are parts of the role one: give each CTA roles of its own",
    ),
    (
        Ring,
        lambda kernel: replace(kernel, programs=tuple(replace(one, role="one", where=None) for one in kernel.programs)),
        "producer and consumer are both part 0 of the role one",
    ),
    # graphs
    (Ring, first_node(source=None), "source of program producer, location 0: it is not Source"),
    (Ring, first_node(distance=-1), "distance of program producer, location 0: use 0 to"),
    (Ring, first_node(successors={0: 1}), "it leads on for the answers 0: it needs None"),
    (Ring, first_node(held="nothing"), "held of program producer, location 0: it is not Held"),
]


@pytest.mark.parametrize(("pipeline", "change", "why"), REFUSED, ids=[why for _, _, why in REFUSED])
def test_what_makes_no_sense_is_refused_with_one_line(pipeline, change, why):
    with pytest.raises(SpecError, match=why) as caught:
        check(change(trace(pipeline())))
    assert "\n" not in str(caught.value)


def test_the_answers_of_a_poll_are_booleans():
    kernel = trace(Mixed())
    (two,) = (program for program in kernel.programs if program.name == "two")
    polls = tuple(
        replace(node, successors={int(answer): to for answer, to in node.successors.items()})
        if isinstance(node.operation, op.Wait)
        else node
        for node in two.nodes
    )
    with pytest.raises(SpecError, match="it leads on for the answers 1, 0: it needs True, False"):
        annotate(replace(two, nodes=polls))


def test_a_phase_has_the_parity_of_the_phase_that_its_distance_says():
    kernel = trace(Loop())

    def flipped(wait: op.Wait) -> op.Operation:
        phase = wait.phase
        assert isinstance(phase, Phase)
        return replace(wait, phase=Phase(phase.lap + 1, phase.lineage, phase.flipped))

    with pytest.raises(
        SpecError, match="consumer waits for parity 1 of full, 1 after a phase of parity 1: use the plain"
    ):
        _, second = with_operations(kernel, op.Wait, flipped).programs
        check(replace(kernel, programs=(kernel.programs[0], second)))


def test_so_it_has_on_every_way_to_its_wait():
    kernel = trace(Ring())
    producer, consumer = kernel.programs
    nodes = list(producer.nodes)
    nodes[4] = nodes[1]  # and from there on it goes round: its wait means another phase each time
    again = annotate(replace(producer, nodes=tuple(nodes)))
    assert again.nodes[4].successors == {None: 2}
    with pytest.raises(SpecError, match="producer waits for parity 0 of empty, 1 after a phase of parity 0"):
        check(replace(kernel, programs=(again, consumer)))


@pytest.mark.parametrize("space", ["tensor", 0])
def test_a_tile_lies_in_a_memory_that_there_is(space):
    class There(Pipeline):
        a = tile(bytes=64, space=space)

    with pytest.raises(SpecError, match=f"a lies in {space!r}: use 'shared', 'global', 'registers'") as caught:
        There()
    assert caught.value.where is not None


@pytest.mark.parametrize(("registers", "verdict"), [(-(10**6), VIOLATED), (40, PROVED), (10**6, VIOLATED)])
def test_a_request_for_more_registers_than_a_pool_has_is_a_finding(registers, verdict):
    result = check(others(op.Setmaxnreg, registers=registers)(trace(Mixed())))
    assert result.verdict == verdict
    found = [one.id for one in result.findings if one.verdict == VIOLATED]
    assert ("register-pool" in found) == (verdict == VIOLATED)


@pytest.mark.parametrize("pipeline", KERNELS)
@pytest.mark.parametrize("again", [copy.deepcopy, lambda kernel: pickle.loads(pickle.dumps(kernel))])
def test_a_kernel_can_be_copied_and_pickled(pipeline, again):
    kernel = trace(pipeline())
    other = again(kernel)
    assert other == kernel and other is not kernel
    one, two = check(kernel, engine="search"), check(other, engine="search")
    assert one.verdict == two.verdict == PROVED and one.states == two.states
    assert again(op.Wait("full", Phase(3, Phase(0, object(), True).lineage, True))).phase.lap == 3


# ---------------------------------------------------------------- fields and their types


@pytest.mark.parametrize("record", op.OPERATIONS)
def test_the_quick_test_of_a_field_and_the_one_that_says_why_agree(record):
    """What is asked of every operation that is yielded is compiled; what is wrong with one is found anew."""
    known = {
        type(node.operation): node.operation
        for kernel in KERNELS
        for program in trace(kernel()).programs
        for node in program.nodes
    }
    operation = known.get(record)
    if operation is None:
        pytest.skip("none of the kernels has one")
    for name in [field.name for field in fields(operation)]:
        for value in (*JUNK, getattr(operation, name)):
            changed = replace(operation, **{name: value})
            (test,) = (test for field, test in passed_by(record) if field == name)
            assert test(value) == (misfit(changed) == ("", "")), (name, value)


def test_nodes_of_another_kind_are_refused_by_the_pass_too():
    (one, *_) = trace(Ring()).programs
    for nodes, why in (
        ((3,), "program producer, location 0: 3 is no Node"),
        ([Node(None, one.nodes[0].source)], "program producer has list nodes: use a tuple"),
        (
            (replace(one.nodes[0], successors={None: "1"}),),
            r"successors\[None\] of program producer, location 0",
        ),
    ):
        with pytest.raises(SpecError, match=why):
            annotate(replace(one, nodes=nodes))


def test_kernels_of_a_front_end_pass():
    for pipeline in (*(one() for one in KERNELS), Ring(stages=2, trips=5), Loop(stages=2)):
        validate(trace(pipeline))


def test_so_do_the_largest_and_the_least_that_a_field_can_hold():
    kernel = trace(Ring())
    for change in (
        layout(arrivals={"full": 1, "empty": COUNT_LIMIT}),
        layout(arrivals={"full": 0, "empty": 128}),
        threads(threads=CTA_THREADS - WARPGROUP),
        threads(threads=1),
        others(op.Group, pending=MMA_GROUPS - 1),
        others(op.Arrive, count=COUNT_LIMIT, expect=None),
        lambda one: replace(one, depth=0),
    ):
        validate(change(kernel))
