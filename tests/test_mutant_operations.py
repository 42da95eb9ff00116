"""Mutation operators of the operations on registers, of copies by ordinary threads, of several CTAs, words and grids:
what each of them makes is found, and none is made where its operation is not.
"""

from __future__ import annotations

import pytest
from corpus.accumulators import ConvertedInPlace
from corpus.atomics import ReduceOfTwoCtas
from corpus.cp_async import ArrivesForItself, CopiedForTheMma
from corpus.dependent import ReadsThePartials
from corpus.store_async import Exchange, OnePlaceForTwo
from corpus.tensormaps import HandsOverATensormap
from corpus.words import RaisesAFlag
from mutant_names import named

from sm90_verify.evidence.mutation.score import KILLED, run
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class TellsBothCtas(Pipeline):
    """One instruction arrives in both CTAs, with its scope said."""

    cluster = "2x1"
    told = barrier(arrivals=1)
    ended = barrier(arrivals=1)
    x = tile(bytes=16, space="global")

    @role(warps=1, ctas=(0,))
    def teller(self):
        yield self.x.write(tag=1)
        yield self.told.arrive(ctas=(0, 1), scope="cluster")

    @role(warps=1, copies=2, ctas=(1,))
    def first(self, me):
        yield self.told.wait(0, scope="cluster")
        yield self.x.read(tag=1)

    @role(warps=1, ctas=(0,))
    def second(self):
        yield self.told.wait(0, scope="cluster")
        yield self.x.read(tag=1)


class TwoAccumulators(Pipeline):
    """Each of two wgmmas has registers of its own, which are read when its group is over."""

    b = tile(bytes=1024)
    one = tile(bytes=64, space="registers")
    other = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        yield self.b.mma(into=self.one)
        yield self.b.mma(into=self.other)
        yield self.mma_wait(1)
        yield self.one.read()
        yield self.mma_wait(0)
        yield self.other.read()


FENCED = Model(CopiedForTheMma, {"fences": True})
ARRIVES = Model(ArrivesForItself, {"stages": 1, "trips": 2})
SENT = Model(Exchange, {"trips": 1})
ADDED = Model(OnePlaceForTwo, {"adds": True})
SCORES = Model(ConvertedInPlace, {"fences": True})
TOLD = Model(TellsBothCtas, {})


@pytest.mark.parametrize(
    ("model", "words", "property"),
    [
        (SCORES, ("drop", "wgmma.fence"), "register-hazard"),
        (SCORES, ("drop", "wait_group"), "register-hazard"),
        (Model(TwoAccumulators, {}), ("buffer", "other -> one for the accumulator"), "register-hazard"),
        (Model(TwoAccumulators, {}), ("pending", "0 -> 1"), "register-hazard"),
        (FENCED, ("drop", "cp.async.wait_group"), "race"),
        (FENCED, ("pending", "0 -> 1"), "race"),
        (FENCED, ("drop", "fence.proxy.async"), "missing-fence"),
        (FENCED, ("drop", "cp.async.commit_group"), "race"),
        (FENCED, ("tag", "cp.async"), "stale-read"),
        (ARRIVES, ("kind", "counted"), "deadlock"),
        (ARRIVES, ("count", "32 -> 31"), "deadlock"),
        (ARRIVES, ("barrier", "cp.async.mbarrier.arrive", "full -> empty"), "deadlock"),
        (SENT, ("bytes", "st.async"), "deadlock"),
        (SENT, ("barrier", "st.async", "full -> empty"), "deadlock"),
        (SENT, ("tag", "st.async"), "stale-read"),
        (ADDED, ("kind", "st.async"), "race"),
        (Model(ReduceOfTwoCtas, {}), ("kind", "an ordinary store"), "race"),
        (TOLD, ("mask", "the first CTA alone"), "deadlock"),
        (TOLD, ("mask", "without the first CTA"), "deadlock"),
        (TOLD, ("sem", "release -> relaxed"), "race"),
        (Model(RaisesAFlag, {"raised": "relaxed", "fence_before": True}), ("drop", "fence.acq_rel"), "race"),
        (Model(HandsOverATensormap, {}), ("drop", "acquire"), "missing-fence"),
        (Model(ReadsThePartials, {}), ("drop", "griddepcontrol.wait"), "race"),
        (Model(ReadsThePartials, {}), ("kind", "launch_dependents", "reduction"), "race"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else None,
)
def test_it_is_found(model, words, property):
    found = [
        one
        for one in mutants_of(model)
        if one.operator == words[0] and all(word in one.text for word in words[1:]) and one.plain
    ]
    fates = [run(model, one) for one in found]
    assert fates and (KILLED, property) in {(one.verdict, one.property) for one in fates}, [
        (one.text, fate.verdict, fate.property) for one, fate in zip(found, fates, strict=True)
    ]


def test_who_waits_in_the_scope_of_its_cta_does_not_see_another():
    fates = {
        one.text: (run(TOLD, one).verdict, run(TOLD, one).property)
        for one in mutants_of(TOLD)
        if one.operator == "sem" and "wait" in one.where and one.plain
    }
    assert {fate for text, fate in fates.items() if "first" in text} == {(KILLED, "race")}
    assert {fate for text, fate in fates.items() if "second" in text and "cta" in text} != {(KILLED, "race")}


def test_a_ring_of_tma_has_none_of_them():
    """No order that nobody has written down, no accumulator, no mask: the scores of other models stay."""
    found = mutants_of(Model(TmaAsync, {"stages": 2, "consumers": 1}))
    assert not {one.operator for one in found} & {"sem", "mask", "value"}
    assert not [one for one in found if "accumulator" in one.text or ".noinc" in one.text]


def test_a_launch_of_dependents_that_is_left_out_shows_nothing():
    """That the second grid begins early is not promised, and orders nothing."""
    model = Model(ReadsThePartials, {})
    assert run(model, named(model, "drop", "launch_dependents")).verdict != KILLED
