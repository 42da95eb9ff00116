"""What a role can yield: one frozen record per operation, in PTX's terms, without any meaning yet.

`Operation` is the union of all of them, and it is closed: whoever reads operations has a case for each and ends in
`assert_never`, so that mypy lists every place that a new record must reach; and `unknown` says of what a role has
yielded why it is none of them, before anybody reads it.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast, get_args

from sm90_verify.spec.ptx.fits import passed_by
from sm90_verify.spec.ptx.mbarrier_operations import *  # noqa: F403
from sm90_verify.spec.ptx.mbarrier_operations import OnMbarriers
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.memory_operations import *  # noqa: F403
from sm90_verify.spec.ptx.memory_operations import OnMemory, Store, Touch
from sm90_verify.spec.ptx.thread_operations import *  # noqa: F403
from sm90_verify.spec.ptx.thread_operations import OnThreads
from sm90_verify.spec.ptx.word_operations import *  # noqa: F403
from sm90_verify.spec.ptx.word_operations import OnWords
from sm90_verify.spec.ptx.yielded import *  # noqa: F403

Operation: TypeAlias = OnMbarriers | OnMemory | OnThreads | OnWords
"""All that a role can yield."""

OPERATIONS: tuple[type[Any], ...] = get_args(Operation)


def unknown(thing: object) -> str:
    """What is wrong with something that a role has yielded: no engine knows what it does; "" if they all do.

    Its class must be one of the union itself: a subclass, or an object with the same fields, may mean anything.
    """
    if type(thing) not in OPERATIONS:
        bases = [base.__name__ for base in type(thing).__mro__[1:] if base in OPERATIONS]
        why = f"{type(thing).__name__} is a subclass of {bases[0]}" if bases else repr(thing)
        return f"a role yielded {why}, which no engine knows: yield an operation of spec.ptx.operations"
    for name, test in passed_by(cast(Any, type(thing))):
        if not test(getattr(thing, name)):
            from sm90_verify.spec.ptx.misfit import misfit

            where, why = misfit(thing)
            return f"a role yielded {thing!r}, whose {where} no engine knows: {why}"
    if isinstance(thing, Touch | Store) and len(thing.tags) != len(_tagged(thing)):
        of_each = f"use {len(_tagged(thing))}, one for each access"
        return f"a role yielded {thing!r}, whose tags no engine knows: {of_each}"
    return ""


def _tagged(operation: Touch | Store) -> tuple[Access, ...]:
    return operation.accesses if isinstance(operation, Touch) else operation.sources
