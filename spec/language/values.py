"""What verbs are given, looked at: numbers in their range, and tags; and who the handles belong to."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Parameter
from sm90_verify.spec.language.state import Count, PipelineState
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

T = TypeVar("T")


class Owner(Protocol):
    """The pipeline that the handles belong to."""

    _cta: int
    """The CTA whose role is running, counted through the launch."""
    _program: str
    """The program that is running, "" outside of all."""
    _shape: Cluster
    """The shape of the cluster."""
    _launch: LaunchShape
    """All CTAs."""

    def value(self, parameter: Parameter) -> int: ...

    def created(self, operation: op.Operation) -> op.Operation: ...


def number(value: object, what: str, most: int = COUNT_LIMIT, least: int = 0) -> int:
    """The value, if it is a number in the range."""
    if not isinstance(value, int) or not least <= value <= most:
        raise SpecError(f"{what}: {value!r}, use a number from {least} to {most}")
    return value


def one_of(word: T, words: Sequence[T], what: str) -> T:
    """The word, if it is one of these."""
    if word not in words:
        raise SpecError(f"{what} with {word!r}: use {', '.join(map(repr, words))}")
    return word


def arrivals(count: int) -> int:
    return number(count, "arrivals")


def bytes_of(count: int) -> int:
    return number(count, "bytes")


def plain_tag(tag: Hashable) -> Hashable:
    """A tag in which counts and states stand for their content tags."""
    if isinstance(tag, Count | PipelineState):
        return tag.tag
    if isinstance(tag, tuple):
        return tuple(plain_tag(part) for part in tag)
    if not isinstance(tag, Hashable):
        raise SpecError(f"the tag {tag!r}: a tag is a number, a string, a count, a state or a tuple of them")
    return tag
