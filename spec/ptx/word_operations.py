"""The operations on words (flags and counters whose value matters) and fences of memory, as records: what is yielded,
and nothing about what it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypeAlias

from sm90_verify.spec.ptx.limits import WORD_VALUES
from sm90_verify.spec.ptx.memory import Access, Scope
from sm90_verify.spec.ptx.yielded import Yielded

Sem: TypeAlias = Literal["weak", "relaxed", "acquire", "release", "acq_rel"]
AtomKind: TypeAlias = Literal["add", "inc", "dec", "exch", "cas", "min", "max", "and", "or", "xor"]
Comparison: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
MemoryFence: TypeAlias = Literal["acq_rel", "sc"]
Value: TypeAlias = Annotated[int, range(WORD_VALUES)]
"""Of a word."""


class Ordering(NamedTuple):
    """.sem and .scope of an instruction; ld.volatile and st.volatile are relaxed for the system (8.4). scope: "" where
    the instruction says none: then it is what its form has, see spec.model.causality.
    """

    sem: Sem = "relaxed"
    scope: Scope = "gpu"


@dataclass(frozen=True)
class WordLoad(Yielded):
    """ld of a word: answers its value, 0 to `values` - 1."""

    access: Access
    order: Ordering
    values: Annotated[int, range(2, WORD_VALUES + 1)]


@dataclass(frozen=True)
class WordStore(Yielded):
    """st to a word."""

    access: Access
    order: Ordering
    value: Value


@dataclass(frozen=True)
class Atom(Yielded):
    """atom (answers the value before) or red on a word. compare: of cas, what is replaced by the operand."""

    access: Access
    order: Ordering
    kind: AtomKind
    operand: Annotated[int, range(-WORD_VALUES, WORD_VALUES)]
    values: Annotated[int, range(2, WORD_VALUES + 1)]
    compare: Value = 0
    answers: bool = True


@dataclass(frozen=True)
class Spin(Yielded):
    """A loop of ld that ends when the value compares so."""

    access: Access
    order: Ordering
    comparison: Comparison
    value: Value


@dataclass(frozen=True)
class ThreadFence(Yielded):
    """fence.acq_rel or fence.sc of a scope (9.7.13.4): with relaxed accesses of words before or after it, it acquires
    or releases.
    """

    kind: MemoryFence
    scope: Scope


OnWord: TypeAlias = WordLoad | WordStore | Atom | Spin
"""What acts on a word."""

OnWords: TypeAlias = OnWord | ThreadFence
"""All of them."""
