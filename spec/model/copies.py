"""Bulk copies as agents without a program, and what buffers hold: what a write or a copy leaves in them."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.causality import Causality
from sm90_verify.spec.model.machine import COPIES, Action, ActionKind
from sm90_verify.spec.model.mbarriers import Signals
from sm90_verify.spec.model.state_checks import check_of
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.model.words import unlike
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies, TriggeredArrivals
from sm90_verify.spec.ptx.effects import Effects
from sm90_verify.spec.ptx.expr import TRUE, Expr, Lit, all_of, any_of, is_false, where
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.needs import FOUND
from sm90_verify.spec.ptx.step import Updates, Way


def starts(v: Variables, effects: Effects) -> Iterator[tuple[str, Expr]]:
    """The copies that an operation starts are in flight."""
    for key, tag in effects.lands:
        busy, _, _ = v.copies[key]
        yield busy.name, Lit(v.data(key.write, tag), busy.width)


def triggers(v: Variables, effects: Effects) -> Iterator[tuple[str, Expr]]:
    """The arrivals that an operation triggers are under way."""
    if effects.triggers is not None:
        counter, _ = v.triggers[effects.triggers]
        yield counter.name, counter + 1


def triggered(v: Variables, signals: Signals, names: set[str]) -> Iterator[Action]:
    """The actions of arrivals that follow cp.asyncs, each of which may come at any time."""
    for arrivals, (counter, source) in v.triggers.items():
        way = signals.triggered(arrivals)
        checks = tuple(check_of(part, arrivals.barrier) for part in way.illegal if not is_false(part.when))
        text = "arrive" + (f" x{arrivals.threads}" if arrivals.threads != 1 else "")
        updates = (*way.updates, (counter.name, counter - 1), *_over(v))
        name = unlike(f"{COPIES} {counter.name} {text}", names)
        yield Action(name, "", text, arrivals.barrier, None, None, counter != 0, updates, checks, source, kind="lands")


def _over(v: Variables) -> Iterator[tuple[str, Expr]]:
    """Of the writes of cp.asyncs that are in progress some may be over now, and no proxy fence is after them; of those
    that are not, more than that goes wrong.
    """
    for (_, write), bit in v.bare.items():
        flights = (one for one in v.flights if one.access == write and isinstance(one.kind, TriggeredArrivals))
        if not is_false(busy := any_of(one.busy for one in flights)):
            yield bit.name, where(busy, Lit(1, 1), bit)


def writes(v: Variables, effects: Effects) -> Iterator[tuple[str, Expr]]:
    """What the writes that are over with an operation leave."""
    for access, tag in effects.left:
        yield from _content(v, access, Lit(v.data(access, tag), 32))


def finds(v: Variables, role: str, find: op.Find) -> list[Way]:
    """A read that tells what it finds: a way for each tag, and a wrong one where the buffer holds none of them."""
    name, there = find.access.object, [v.found(find.access, tag) for tag in find.tags]
    ways = [Way(here, (), answer=number, label=f"finds {find.tags[number]!r}") for number, here in enumerate(there)]
    wrong = FOUND.unmet(TRUE, role=role, object=name, tag=find.tags[0] if len(find.tags) == 1 else find.tags)
    return [*ways, Way(~any_of(there), (), (wrong,), answer=0, label="finds other data")]


def _content(v: Variables, access: Access, value: Expr) -> Iterator[tuple[str, Expr]]:
    """The buffer holds the value; every other buffer that shares bytes with it holds nothing any more."""
    for region in v.kernel.layout.regions:
        content = v.content.get(region.object)
        if content is None:
            continue
        if region.object == access.object:
            yield content.name, Lit(value.value, content.width) if isinstance(value, Lit) else value
        elif access.overlaps(region.access()):
            yield content.name, Lit(0, content.width)


def landings(v: Variables, signals: Signals, names: set[str], causality: Causality | None) -> Iterator[Action]:
    """The actions of all copies: pieces of them, and the last one, with which a copy has landed. names: those that
    actions have already.
    """
    for number, key in enumerate(v.copies):
        yield from _landing(v, signals, names, number, key, causality)


def _landing(
    v: Variables, signals: Signals, names: set[str], number: int, key: Copies, causality: Causality | None
) -> Iterator[Action]:
    busy, piece, issues = v.copies[key]
    source = _source(v, issues)
    step = mbarrier.complete_tx(v.barriers[key.barrier], key.bytes // key.pieces)
    thing = key.write.object
    checks = tuple(check_of(part, key.barrier) for part in step.illegal if not is_false(part.when))
    signal = signals.on("", key.barrier, step).updates
    order = [() if causality is None else causality.lands(key, step.completes, whole=whole) for whole in (False, True)]
    issuers = {role for role, _, _ in issues}
    bare = (bit.name for (role, write), bit in v.bare.items() if role in issuers and write == key.write)
    shown = ((name, Lit(1, 1)) for name in bare)
    landed = (*signal, *order[1], *_content(v, key.write, busy), (busy.name, Lit(0, busy.width)), *shown)
    last: Expr = TRUE

    def action(kind: ActionKind, end: str, text: str, guard: Expr, updates: Updates) -> Action:
        name = unlike(f"{COPIES} {busy.name} {end}", names)
        return Action(name, "", text, thing, None, None, guard, updates, checks, source, kind=kind, lands=number)

    if piece is not None:
        last = piece == key.pieces - 1
        text = f"{key.bytes // key.pieces} bytes of"
        yield action("piece", "piece", text, all_of((busy != 0, ~last)), (*signal, *order[0], (piece.name, piece + 1)))
        landed = (*landed, (piece.name, Lit(0, piece.width)))
    yield action("lands", "lands", "land", all_of((busy != 0, last)), landed)


def _source(v: Variables, issues: tuple[tuple[str, int, int], ...]) -> Source:
    role, node, _ = issues[0]
    return next(program.nodes[node].source for program in v.programs if program.name == role)
