"""What a hand-written kernel did is held to its model's programs, operation by operation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from taped import CASES, SMALL, changed, taped, told

from sm90_verify.evidence.hardware.pipelines import shapes
from sm90_verify.evidence.hardware.recorder import tapes
from sm90_verify.evidence.hardware.recorder.conform import conform
from sm90_verify.evidence.hardware.recorder.tapes import FOREIGN, Did, Tape
from sm90_verify.spec.errors import SpecError


@pytest.mark.parametrize(("kernel", "parameters"), CASES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_kernel_that_does_what_its_model_does(kernel, parameters):
    plan, names, rows, run, stored = taped(kernel, parameters)
    held = conform(plan, names, rows, stored)
    assert held.differences == ()
    assert held.run.roles == run.roles
    assert held.run.stored == run.stored and not held.run.hangs


def difference(kernel, role, number, **changes):
    """What is told of a kernel that did one operation otherwise."""
    plan, names, rows, _, stored = taped(kernel, SMALL[kernel])
    held = conform(plan, names, changed(rows, role, number, names, **changes), stored)
    (one,) = held.differences
    assert one.role == role and one.number == number
    assert f"operation {number} of {role}" in one.because and one.did in one.because and one.expected in one.because
    (mine,) = (each for each in held.run.roles if each.name == role)
    assert mine.node >= 0 and all(event.node < mine.node for event in mine.events)
    return one.did, one.expected


def test_each_operand_that_differs_is_told():
    full, empty = "pipeline.full[0]", "pipeline.empty[0]"
    assert difference("tma-async", "producer", 0, operand=0) == (f"wait {empty} 0", f"wait {empty} 1")
    assert difference("tma-async", "producer", 0, object=shapes.FULL) == (f"wait {full} 1", f"wait {empty} 1")
    assert difference("tma-async", "producer", 1, operand=2048) == (f"arrive {full} 1 2048", f"arrive {full} 1 4096")
    assert difference("tma-async", "producer", 1, code="expect")[0] == f"expect {full} 4096"
    loads = f"load a[0] 4096 {full} 0"
    assert difference("tma-async", "producer", 2, operand=2048) == (f"load a[0] 2048 {full} 0", loads)
    assert difference("tma-async", "producer", 2, high=3) == (f"load a[0] 4096 {full} 3", loads)
    assert difference("tma-async", "producer", 2, object=shapes.BUFFER + 1) == (f"load a[1] 4096 {full} 0", loads)
    wanted = f"arrive {empty} 128"
    assert difference("tma-async", "consumer1", 5, arrived=24) == (f"arrive {empty} 96", wanted)
    assert difference("tma-store", "store_warp", 2, operand=96) == ("named_sync 1 96", "named_sync 1 128")
    assert difference("tma-store", "store_warp", 6, operand=0)[1] == "bulk_wait_read 1"
    assert difference("tma-async", "producer", 5) == ("nothing more", "load a[1] 4096 pipeline.full[1] 0")


def test_more_than_the_model_does():
    plan, names, rows, _, stored = taped("async", SMALL["async"])
    more = tuple(replace(one, events=(*one.events, one.events[0])) for one in rows[0])
    held = conform(plan, names, (more,), stored)
    assert {one.expected for one in held.differences} == {"its end"}
    assert {one.role for one in held.differences} == {"producer", "consumer"}


def test_warps_of_a_role_that_differ():
    plan, names, rows, _, stored = taped("async", SMALL["async"])
    place = names.places.index("consumer") + 2
    events = list(rows[0][place].events)
    events[1] = replace(events[1], object=shapes.BUFFER + 1)
    row = tuple(replace(one, events=tuple(events)) if number == place else one for number, one in enumerate(rows[0]))
    (one,) = conform(plan, names, (row,), stored).differences
    assert one.role == "consumer" and "in warp 2" in one.did and "first warp" in one.expected


def test_words_of_another_write_stay_wrong():
    kernel = "transaction-async"
    plan, names, rows, run, _ = taped(kernel, SMALL[kernel])
    (role,) = (one for one in run.roles if one.name == "consumer")
    (buffer, low, _), *_ = role.events[1].reads
    for word, number in ((low + 100, low), (0, 0), (5, FOREIGN + 5)):
        held = conform(plan, names, changed(rows, "consumer", 1, names, low=word))
        (role,) = (one for one in held.run.roles if one.name == "consumer")
        assert role.events[1].reads == ((buffer, min(number, low) if number <= low else number, low),)
        assert not held.differences


def test_where_a_role_is_stuck():
    plan, names, rows, _, _ = taped("async", SMALL["async"])

    def cut(stuck):
        return tuple(
            Tape(one.events[:3], stuck) if names.places[place] == "consumer" else one
            for place, one in enumerate(rows[0])
        )

    held = conform(plan, names, (cut(("wait", shapes.FULL, 1)),))
    (role,) = (one for one in held.run.roles if one.name == "consumer")
    assert held.run.hangs and not held.differences and role.node == 3 and len(role.events) == 3
    (one,) = conform(plan, names, (cut(("wait", shapes.FULL, 0)),)).differences
    assert one.did == "give up wait pipeline.full 0" and one.expected == "wait pipeline.full 1"


def test_how_far_a_role_is_when_its_warps_are_not_equally_far():
    """It is where the warp is that got least far, and an operation on two buffers is done when both are."""
    plan, names, rows, _, _ = taped("tma-async", {**SMALL["tma-async"], "consumers": 1, "producers": 2})
    consumers = [place for place, role in enumerate(names.places) if role == "consumer"]

    def at(place, one):
        if place not in consumers:
            return one
        return Tape(one.events[:2], ("wait", 0, 1)) if place == consumers[2] else Tape(one.events, ("wait", 0, 0))

    held = conform(plan, names, (tuple(at(*pair) for pair in enumerate(rows[0])),))
    (role,) = (one for one in held.run.roles if one.name == "consumer")
    assert [event.node for event in role.events] == [0] and role.node == 1
    (one,) = held.differences
    assert one.did == "give up wait pipeline.full[0] 1" and one.expected == "mma a[1] 4096"


def test_the_warps_of_a_role_together():
    """An operation begins with the first of them and ends with the last, and has waited if one has."""
    plan, names, rows, run, _ = taped("async", SMALL["async"])
    first, last = (place for place, role in enumerate(names.places) if role == "consumer" and place in (4, 7))
    early = [replace(one, before=one.before - 3, waited=True) for one in rows[0][first].events]
    late = [replace(one, after=one.after + 5, waited=False) for one in rows[0][last].events]
    row = list(rows[0])
    row[first], row[last] = Tape(tuple(early)), Tape(tuple(late))
    (mine,) = (one for one in conform(plan, names, (row,)).run.roles if one.name == "consumer")
    (right,) = (one for one in run.roles if one.name == "consumer")
    assert mine.events == tuple(
        replace(one, before=one.before - 3, after=one.after + 5, waited=True) for one in right.events
    )
    row[first] = Tape(tuple(replace(one, waited=False) for one in rows[0][first].events))
    row[last] = Tape(tuple(replace(one, waited=True) for one in rows[0][last].events))
    (mine,) = (one for one in conform(plan, names, (row,)).run.roles if one.name == "consumer")
    assert all(one.waited for one in mine.events)


def test_one_word_in_two_buffers():
    """A word is of the write to the buffer that it is found in."""
    plan, names, rows, run, _ = taped("ordered-sequence", SMALL["ordered-sequence"])
    words = {0: 0, told(1): 500, told(2): 500, told(3): 501, told(4): 501}
    assert [plan.writers[number][0] for number in (1, 2, 3, 4)] == ["group0", "group0", "group1", "group1"]

    def same(one):
        return replace(one, low=words[one.low], high=words[one.high]) if one.code in ("read", "write") else one

    row = tuple(Tape(tuple(same(each) for each in one.events)) for one in rows[0])
    assert conform(plan, names, (row,)).run.roles == run.roles


class Words:
    """As much of an array as a recorder asks for."""

    def __init__(self, values):
        self.values = list(values)

    def get(self):
        return self

    def reshape(self, *shape):
        (self.shape,) = shape if isinstance(shape[0], tuple) else (shape,)
        return self

    def __getitem__(self, index):
        *_, capacity, words = self.shape
        cta, place, events = index
        start = (cta * self.shape[1] + place) * capacity
        return Rows([self.values[words * at : words * (at + 1)] for at in range(start, start + events.stop)])

    def tolist(self):
        ctas, places, words = self.shape
        each = [self.values[words * at : words * (at + 1)] for at in range(ctas * places)]
        return [each[places * cta : places * (cta + 1)] for cta in range(ctas)]


class Rows(list):
    def tolist(self):
        return list(self)


def test_a_place_without_an_end_and_a_ring_that_is_too_small():
    recorder = tapes.Recorder.__new__(tapes.Recorder)
    recorder.shape = (1, 1, 2, tapes.EVENT_WORDS)
    event = [7, 1, 9, 1, 1 | 1 << 8 | 3 << 16, 4, 5, 6, 8, 9]
    recorder.events = Words([*event, *event])
    recorder.positions = Words([1, 1, 4, 5])
    ((tape,),) = recorder.tapes()
    assert tape == Tape((Did("wait", 4, 5, 6, True, 3, 7 + (1 << 32), 9 + (1 << 32), 8, 9),), ("wait", 4, 5))
    assert recorder.tapes(recorded=False) == [(Tape((), ("wait", 4, 5)),)]
    for words, why in (([3, 0, 0, 0], "2 can be recorded"), ([0, tapes.ALL, 0, 0], "neither to its end")):
        recorder.positions = Words(words)
        with pytest.raises(SpecError, match=why):
            recorder.tapes()
