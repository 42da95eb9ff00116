"""Words: what atomic operations do to their value, and what roles that look at them wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from corpus_table import CASES

from sm90_verify import Pipeline, SpecError, barrier, check, role, tile, word
from sm90_verify.report.blame import guilty_step
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx import words
from sm90_verify.spec.ptx.expr import Field, evaluate
from sm90_verify.spec.ptx.memory import Access, Strong

PLACE = Access("word", "global", 0, 4, True, "generic", strong=Strong("gpu"))
MEANS = {
    "add": lambda old, b, c: old + b,
    "inc": lambda old, b, c: 0 if old >= b else old + 1,
    "dec": lambda old, b, c: b if old == 0 or old > b else old - 1,
    "exch": lambda old, b, c: b,
    "cas": lambda old, b, c: b if old == c else old,
    "min": lambda old, b, c: min(old, b),
    "max": lambda old, b, c: max(old, b),
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
}
"""9.7.13.5 and .6: the value afterwards, from the one before and the operands."""
SIZES = (2, 3, 5, 8)


@pytest.mark.parametrize("kind", MEANS)
@pytest.mark.parametrize("values", SIZES)
def test_an_atom_does_what_ptx_says_wherever_the_word_has_the_value(kind, values):
    field = Field("word", (values - 1).bit_length())
    operands = range(-values - 1, values + 2) if kind == "add" else range(values)
    for operand in operands:
        for compare in range(values) if kind == "cas" else (0,):
            changed = words.atom(
                field, op.Atom(PLACE, op.Ordering(), kind, operand, values, compare), values, wraps=False
            )
            for old in range(values):
                new = MEANS[kind](old, operand, compare)
                beyond = evaluate(changed.beyond, {"word": old})
                assert bool(beyond) == (not 0 <= new < values), (operand, compare, old)
                assert beyond or evaluate(changed.value, {"word": old}) == new, (operand, compare, old)


@pytest.mark.parametrize("values", SIZES)
def test_a_word_that_wraps_counts_modulo_its_values(values):
    field = Field("word", (values - 1).bit_length())
    for operand in range(-values - 1, 2 * values):
        changed = words.atom(field, op.Atom(PLACE, op.Ordering(), "add", operand, values), values, wraps=True)
        for old in range(values):
            assert not evaluate(changed.beyond, {"word": old})
            assert evaluate(changed.value, {"word": old}) == (old + operand) % values


@pytest.mark.parametrize("other", range(12))
def test_comparisons_are_those_of_numbers_of_any_size(other):
    field = Field("word", 3)
    for text, means in {
        "==": int.__eq__,
        "!=": int.__ne__,
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
    }.items():
        for value in range(8):
            assert evaluate(words.compares(field, text, other), {"word": value}) == means(value, other)


class Counts(Pipeline):
    """A role adds to a counter as often as there are iterations."""

    wraps = False
    values = 4
    n = word(values="values", wraps=False)
    round = word(values="values", wraps=True)

    @role(warps=1)
    def counter(self):
        for _ in self.loop():
            yield (self.round if self.wraps else self.n).red("add", 1, sem="release")


@pytest.mark.parametrize("engine", ["search", "smt"])
def test_a_counter_that_leaves_its_values_is_not_decided(engine):
    result = check(Counts(), engine=engine)
    assert result.verdict == "undetermined"
    assert "n would have another value than 0 to 3: give word() more of them" in str(result.findings)
    assert check(Counts(trips=3), engine=engine).verdict == "proved"


def test_a_counter_that_wraps_is_followed_for_every_number_of_iterations():
    result = check(Counts(wraps=True), engine="search")
    assert result.verdict == "proved" and result.scope == {"trips": "all"}


class Says(Pipeline):
    """A role with one operation, which a test writes."""

    says: str = "ld()"
    flag = word(values=3)
    two = word(values=3, slots=2)

    @role(warps=1)
    def only(self):
        yield eval(f"self.{self.says}", {"self": self})


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("flag.ld(sem='release')", "a load of flag with sem='release': use 'weak', 'relaxed', 'acquire'"),
        ("flag.st(1, sem='acquire')", "a store of flag with sem='acquire': use 'weak', 'relaxed', 'release'"),
        ("flag.atom('add', sem='weak')", "an atomic operation of flag with sem='weak': use 'relaxed', 'acquire'"),
        ("flag.ld(sem='strong')", "sem with 'strong': use 'weak', 'relaxed', 'acquire', 'release', 'acq_rel'"),
        ("flag.ld(scope='grid')", "a scope with 'grid': use 'cta', 'cluster', 'gpu', 'sys'"),
        ("flag.st(3)", "flag has the values 0 to 2, not 3: give word\\(\\) more of them"),
        ("flag.atom('exch', 3)", "flag has the values 0 to 2, not 3"),
        ("flag.atom('mul', 1)", "atom with 'mul': use 'add', 'inc'"),
        ("flag.red('cas', 1)", "red has no cas: use atom"),
        ("flag.spin()", "give one of equals, differs"),
        ("flag.spin(equals=1, above=0)", "give one of equals, differs"),
        ("flag.spin(equals='x')", "equals: 'x', use a number from 0"),
        ("two.ld()", "two.ld: index it first"),
        ("flag.load()", "flag has no 'load': it has"),
        ("flag", "a role yielded flag, which is no operation: say what is done, for example flag\\[at\\].ld\\(\\)"),
        (
            "two[0]",
            "a role yielded two\\[0\\], which is no operation: say what is done, for example two\\[0\\].ld\\(\\)",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(says, why):
    with pytest.raises(SpecError, match=why) as caught:
        check(Says(says=says))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "initial", "why"), [(1, 0, "1 values: use 2 to"), (4, 4, "begins with 4: use 0 to 3")]
)
def test_a_word_has_values_and_begins_with_one_of_them(values, initial, why):
    class Wrong(Pipeline):
        flag = word(initial, values)

        @role(warps=1)
        def only(self):
            yield self.flag.ld()

    with pytest.raises(SpecError, match=f"flag has {why}" if values == 1 else f"flag {why}"):
        Wrong()


class Hangs(Pipeline):
    """One waits for a value that nobody stores."""

    flag = word(values=4)
    polls = False

    @role(warps=1)
    def writer(self):
        yield self.flag.st(1, sem="release")

    @role(warps=1)
    def reader(self):
        if not self.polls:
            yield self.flag.spin(equals=2)
        for _ in self.forever() if self.polls else ():
            if (yield self.flag.ld(sem="acquire")) == 2:
                break


@pytest.mark.parametrize("polls", [False, True])
@pytest.mark.parametrize("reduced", [False, True])
def test_who_waits_for_a_value_that_never_comes_is_stuck_there(polls, reduced):
    result = check(Hangs(polls=polls), engine="search", reduced=reduced)
    assert result.verdict == "violated" and result.trace.property == "deadlock"
    (blocked,) = result.trace.blocked
    assert (blocked.role, blocked.waits_for) == ("reader", "flag") and "and flag is 1" in blocked.missing


class Dekker(Pipeline):
    """Each raises its flag and looks at the other's: with stores that are not in one order both could miss it."""

    one = word()
    other = word()

    @role(warps=1)
    def left(self):
        yield self.one.st(1, sem="release")
        yield self.other.ld(sem="acquire")

    @role(warps=1)
    def right(self):
        yield self.other.st(1, sem="release")
        yield self.one.ld(sem="acquire")


def test_that_several_words_change_in_one_order_is_said():
    assert any("2 words change in one order" in note for note in check(Dekker(), engine="search").notes)
    assert not any("words change" in note for note in check(Hangs(), engine="search").notes)


class AsksABarrier(Pipeline):
    """As Dekker, of a flag and of a barrier that is asked once, or of two barriers."""

    flags = True
    waits = False
    raised = word()
    bar = barrier(arrivals=1)
    other = barrier(arrivals=1)

    @role(warps=1)
    def left(self):
        yield self.raised.st(1, sem="release") if self.flags else self.other.arrive()
        yield self.bar.wait(0) if self.waits else self.bar.test_wait(0)

    @role(warps=1)
    def right(self):
        yield self.bar.arrive()
        yield self.raised.ld(sem="acquire") if self.flags else self.other.test_wait(0)


class SeesABarrierFirst(Pipeline):
    """A flag is read where a barrier was seen: a relaxed arrival does not say that it is raised."""

    sem = "relaxed"
    raised = word()
    bar = barrier(arrivals=1)

    @role(warps=1)
    def left(self):
        yield self.raised.st(1)
        yield self.bar.arrive(sem=self.sem)

    @role(warps=1)
    def right(self):
        yield self.bar.wait(0)
        yield self.raised.ld()


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (AsksABarrier(), "1 word and 1 barrier change in one order"),
        (AsksABarrier(flags=False), "2 barriers change in one order"),
        (AsksABarrier(waits=True), ""),
        (SeesABarrierFirst(), "1 word and 1 barrier change in one order"),
        (SeesABarrierFirst(sem="release"), ""),
    ],
)
def test_that_a_word_and_a_barrier_change_in_one_order_is_said(pipeline, said):
    notes = [note for note in check(pipeline, engine="search").notes if "in one order" in note]
    assert len(notes) == bool(said) and all(said in note for note in notes)


def test_a_race_of_strong_accesses_names_their_scopes():
    (broken,) = (case.broken for case in CASES if case.id == "R21 scope")
    because = check(broken, engine="search").trace.because
    assert "the atomic .cta generic-proxy read of flag by" in because
    assert "the atomic .cta generic-proxy write of flag by" in because


class Raises(Pipeline):
    """Data behind a flag of the grid."""

    clusters = 2
    raises, scope, spins = "release", "gpu", "acquire"
    data = tile(bytes=16, slots=1, space="global")
    flag = word(values=2)

    @role(warps=1, clusters=(0,))
    def writer(self):
        yield self.data.write(tag=1)
        yield self.flag.st(1, sem=self.raises, scope=self.scope)

    @role(warps=1, clusters=(1,))
    def reader(self):
        yield self.flag.spin(equals=1, sem=self.spins)
        yield self.data.read(tag=1)


@pytest.mark.parametrize(
    ("pipeline", "blamed"),
    [
        (Raises(raises="relaxed"), "st.relaxed.gpu 1"),
        (Raises(scope="cta"), "st.release.cta 1"),
        (Raises(spins="relaxed"), "ld.relaxed.gpu until == 1"),
        (Raises(raises="relaxed", spins="relaxed"), "st.relaxed.gpu 1"),
    ],
)
def test_what_is_relaxed_or_too_narrow_is_to_blame(pipeline, blamed):
    trace = check(pipeline, engine="search").trace
    shown = replace(trace, steps=(*trace.steps, *trace.next))
    assert shown.steps[guilty_step(shown)].op == blamed
