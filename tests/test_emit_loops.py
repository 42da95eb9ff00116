"""Loops and parts of a text that is written: whatever they are, they say the same sentences in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from sm90_verify.emit.merged import PartText, joined, merged
from sm90_verify.emit.numbers import Affine, Hole, step, written
from sm90_verify.emit.rolling import Item, Loop, Sentence, rolled


def value(number: Affine, variables: tuple[int, ...]) -> int:
    found = number.base + sum(factor * one for factor, one in zip(number.factors, variables, strict=True))
    return found % number.modulus if number.modulus else found


def said(items, warp: int = 0, loops: tuple[int, ...] = ()) -> Iterator[tuple[object, tuple[int, ...]]]:
    """The sentences one after the other, as their text and numbers."""
    for item in items:
        if isinstance(item, Loop):
            for turn in range(item.count):
                yield from said(item.body, warp, (turn, *loops))
        else:
            yield item.template, tuple(value(one, (warp, *loops)) for one in item.numbers)


def sentence(word: str, *numbers: tuple[int, int], parts: tuple[int, ...] = ()) -> Sentence:
    return Sentence((word,), tuple(Affine(modulus, base, (0,)) for modulus, base in numbers), 0, parts)


def count(items: tuple[Item, ...]) -> int:
    return sum(1 + (count(one.body) if isinstance(one, Loop) else 0) for one in items)


SENTENCES = st.builds(
    sentence,
    st.sampled_from("ab"),
    st.tuples(st.just(4), st.integers(0, 3)),
    st.tuples(st.just(0), st.integers(0, 2)),
)


@given(st.lists(SENTENCES, max_size=30))
def test_loops_say_what_was_there(sentences):
    assert list(said(rolled(sentences, lambda left: None))) == list(said(sentences))


@given(st.integers(2, 9), st.integers(2, 9), st.integers(1, 5), st.integers(0, 7), st.integers(-3, 3))
def test_a_loop_in_a_loop_is_found(outer, inner, slots, first, apart):
    sentences = []
    for tile in range(outer):
        sentences.append(sentence("tile", (0, apart * tile)))
        for k in range(inner):
            at = first + tile * inner + k
            sentences += [sentence("wait", (2 * slots, at % (2 * slots))), sentence("load", (slots, at % slots))]
            sentences.append(sentence("part", (0, 64 * k)))
    items = rolled(sentences, lambda left: None)
    assert list(said(items)) == list(said(sentences))
    if outer > 2 and inner > 2:
        assert count(items) <= 6, items


def test_a_run_that_goes_on_otherwise_ends_its_loop():
    numbers = [0, 1, 2, 3, 5, 7, 9, 11, 13]
    (first, second) = rolled([sentence("a", (0, one)) for one in numbers], lambda left: None)
    assert (first.count, second.count) == (4, 5)


def test_short_runs_stay_sentences():
    items = rolled([sentence("a", (4, 0)), sentence("a", (4, 1)), sentence("b")], lambda left: None)
    assert all(isinstance(one, Sentence) for one in items)


PARTS = st.lists(st.lists(st.tuples(SENTENCES, st.integers(0, 3)), max_size=12), min_size=1, max_size=4)


@given(PARTS, st.booleans())
def test_every_part_does_what_it_did(lists, side_by_side):
    """The lines are those of instructions: a sentence of several parts is one of one line."""
    parts = [
        PartText(
            index, index if side_by_side else index // 2, tuple(Sentence(s.template, bare(s), line) for s, line in some)
        )
        for index, some in enumerate(lists)
    ]
    found = merged(parts, len(parts))
    for part in parts:
        mine = [one for one in found if not one.parts or part.index in one.parts]
        assert list(said(mine, part.warp)) == [
            (one.template, tuple(n.base for n in one.numbers)) for one in part.sentences
        ]
        assert [one.line for one in mine] == [one.line for one in part.sentences]


def bare(one: Sentence) -> tuple[Affine, ...]:
    return tuple(number._replace(factors=()) for number in one.numbers)


def test_what_parts_have_in_common_stands_once():
    def line(word: str, number: int, *numbers: int) -> Sentence:
        return Sentence((word,), tuple(Affine(0, one) for one in numbers), number)

    first = PartText(0, 0, (line("wait", 1), line("write", 2, 0), line("store", 3), line("sync", 4)))
    second = PartText(1, 1, (line("wait", 1), line("write", 2, 256), line("sync", 4)))
    third = PartText(2, 2, (line("wait", 1), line("write", 2, 512), line("sync", 4)))
    found = merged([first, second, third], 3)
    assert [(one.template[0], one.parts) for one in found] == [
        ("wait", ()),
        ("write", ()),
        ("store", (0,)),
        ("sync", ()),
    ]
    assert found[1].numbers == (Affine(0, 0, (256,)),)


def test_numbers_that_no_step_leads_through():
    assert joined([0, 1, 2], [[Affine(0, one)] for one in (0, 1, 3)]) is None
    assert joined([0, 0], [[Affine(0, 1)], [Affine(0, 2)]]) is None
    assert joined([0, 2], [[Affine(0, 1)], [Affine(0, 2)]]) is None
    assert joined([1, 3], [[Affine(0, 1)], [Affine(0, 5)]]) == (Affine(0, -1, (2,)),)
    assert joined([0, 1, 2], [[Affine(4, one)] for one in (3, 0, 1)]) == (Affine(4, 3, (-3,)),)
    assert step(0, [0, 1, 3]) is None
    assert step(4, [3, 0, 1]) == 1


@given(
    st.integers(1, 6),
    st.integers(0, 11),
    st.tuples(st.integers(-9, 9), st.integers(-9, 9)),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_what_is_written_is_the_number(slots, base, factors, i, j):
    exact = Affine(0, base, factors)
    assert eval(written(exact, Hole(0), ("i", "j")), {"i": i, "j": j}) == value(exact, (i, j))
    number = Affine(2 * slots, base % (2 * slots), factors)
    at = value(number, (i, j))
    assert eval(written(number, Hole(0, "index", slots), ("i", "j")), {"i": i, "j": j}) == at % slots
    assert eval(written(number, Hole(0, "parity", slots), ("i", "j")), {"i": i, "j": j}) == at // slots
