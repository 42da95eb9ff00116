"""What an access must not meet of its own thread's work: a function of what that holds, whatever others do."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.spec.ptx.groups import Held
from sm90_verify.spec.ptx.memory import Access, describe
from sm90_verify.spec.ptx.needs import ACCUMULATED, FIRST_FENCED, OVER, REGISTERS_FENCED


def own_faults(role: str, access: Access, held: Held) -> Iterator[tuple[str, str]]:
    """(property, sentence): an access that `role` begins where it holds this must wait for a group of its own, or
    wants a wgmma.fence (PTX ISA 9.7.15.7.1).
    """
    if any(map(access.collides, held.in_progress())):
        need = ACCUMULATED if access.space == "registers" else OVER
        yield need.property, need.said(role=role, access=describe(access))
    if access.space == "registers" and access.proxy == "async":
        if not held.fenced:
            yield FIRST_FENCED.property, FIRST_FENCED.said(role=role, access=describe(access))
        elif earlier := next(filter(access.collides, held.touched), None):
            because = REGISTERS_FENCED.said(role=role, earlier=describe(earlier), access=describe(access))
            yield REGISTERS_FENCED.property, because
