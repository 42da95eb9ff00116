"""Who writes a random program: its roles, and what they have in common, while it grows."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from sm90_verify.evidence.programs.program import Handle, RandomProgram, RoleOf, Statement, Text, Value

SIZE = 16
"""Bytes of a buffer, unless it is a tensormap."""


@dataclass(eq=False)
class Actor:
    """A role that is being written. cta: its rank, None for a role of every CTA; copies: how many there are of it."""

    threads: int
    cta: int | None = 0
    cluster: int | None = None
    grid: int = 0
    copies: int = 1
    split: tuple[int, ...] = ()
    steps: list[Statement] = field(default_factory=list)

    @property
    def all_threads(self) -> int:
        return self.threads * self.copies

    def does(self, verb: str, on: Handle | None = None, *places: Value, **keywords: Value) -> None:
        given = (*(("", one) for one in places), *keywords.items())
        self.steps.append(Statement(verb, on, given))

    def repeats(self, until: str, verb: str, on: Handle, *places: Value, **keywords: Value) -> None:
        self.does(verb, on, *places, **keywords)
        self.steps[-1] = self.steps[-1]._replace(until=until)

    def asks(
        self,
        cases: tuple[tuple[str, tuple[Statement, ...]], ...],
        verb: str,
        on: Handle,
        *places: Value,
        **keywords: Value,
    ) -> None:
        self.does(verb, on, *places, **keywords)
        self.steps[-1] = self.steps[-1]._replace(cases=cases)


@dataclass
class Author:
    """A program that is being written. ring: its roles are loops, whose barriers and buffers have a slot for each
    stage. every: each CTA of the cluster has all the roles; peer: what they hand over goes to the other CTA.
    """

    random: Random
    ring: bool = False
    every: bool = False
    peer: bool = False
    cluster: bool = False
    settings: dict[str, int | str | bool] = field(default_factory=dict)
    declared: dict[str, str] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)
    ids: int = 0
    numbers: int = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *options: object) -> object:
        return self.random.choice(options)

    # -- what roles name

    def barrier(self, arrivals: int, *, initialised: bool = True) -> str:
        rest = "" if self.ring else ", slots=1"
        return self._declare("b", f"barrier(arrivals={arrivals}{rest}{'' if initialised else ', initialised=False'})")

    def tile(self, *, size: int = SIZE, holds: int | None = None, shares: str = "") -> str:
        more = "" if holds is None else f", holds={holds}"
        more += f", shares={shares!r}" if shares else ""
        return self._declare("x", f"tile(bytes={size}{'' if self.ring else ', slots=1'}{more})")

    def in_global(self, size: int = SIZE) -> str:
        slots = "slots=2, " if self.every else "" if self.ring else "slots=1, "
        return self._declare("g", f'tile(bytes={size}, {slots}space="global")')

    def registers(self) -> str:
        return self._declare("a", f'tile(bytes={SIZE}, slots=1, space="registers")')

    def word(self, values: int = 2, *, shared: bool = False) -> str:
        slots = ", slots=2" if self.every and not shared else ""
        space = ', space="shared"' if shared else ""
        return self._declare("w", f"word(values={values}{slots}{space})")

    def _declare(self, letter: str, text: str) -> str:
        name = f"{letter}{sum(one[0] == letter for one in self.declared)}"
        self.declared[name] = text
        return name

    def id(self) -> int:
        """Of a named barrier that nobody has used."""
        self.ids += 1
        return self.ids

    def tag(self) -> dict[str, Value]:
        """Of data that is not named by the slot, as an argument."""
        self.numbers += 1
        return {} if self.ring else {"tag": self.numbers}

    @property
    def phase(self) -> Value:
        return Text("at.phase") if self.ring else 0

    # -- as a role sees it

    def far(self, one: Actor, other: Actor) -> bool:
        """They are in different CTAs."""
        if one is other:
            return False
        return self.peer if self.every else (one.cta, one.cluster, one.grid) != (other.cta, other.cluster, other.grid)

    def apart(self, one: Actor, other: Actor) -> bool:
        """They are not of the same cluster."""
        return (one.cluster, one.grid) != (other.cluster, other.grid)

    def see(self, name: str, home: Actor, viewer: Actor) -> Handle:
        """What lies in the CTA of one role, or belongs to it, in the hands of another."""
        if name[0] in "gw" and 'space="shared"' not in self.declared[name]:
            if self.every:
                return Handle(name, "[1 - me.cta]" if self.far(home, viewer) else "[me.cta]")
            return Handle(name, "[at]" if self.ring and name[0] == "g" else "")
        at = "[at]" if self.ring and "slots=" not in self.declared[name] and name[0] in "bx" else ""
        if not self.far(home, viewer):
            return Handle(name, at)
        return Handle(name, at, "1 - me.cta" if self.every else str(home.cta))

    def mine(self, name: str, actor: Actor) -> Handle:
        return self.see(name, actor, actor)

    # -- the whole

    def close_to(self, actor: Actor) -> list[Actor]:
        """All roles of the CTA of one."""
        return [
            one for one in self.actors if (one.cta, one.cluster, one.grid) == (actor.cta, actor.cluster, actor.grid)
        ]

    def in_reach(self, actor: Actor) -> list[Actor]:
        """All roles of its cluster."""
        return [one for one in self.actors if not self.apart(one, actor)]

    def program(self) -> RandomProgram:
        return RandomProgram(
            tuple(self.settings.items()),
            tuple(self.declared.items()),
            tuple(RoleOf(_said(self, one), tuple(one.steps), self.ring) for one in self.actors),
        )


def _said(author: Author, actor: Actor) -> str:
    parts = [f"threads={actor.threads}"]
    if actor.copies > 1:
        parts.append(f"copies={actor.copies}")
    if actor.split:
        parts.append(f"split={actor.split}")
    if author.cluster and actor.cta is not None:
        parts.append(f"ctas=({actor.cta},)")
    if actor.cluster is not None:
        parts.append(f"clusters=({actor.cluster},)")
    if actor.grid:
        parts.append("grid=1")
    return ", ".join(parts)
