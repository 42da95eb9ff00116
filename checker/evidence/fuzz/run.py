"""Holds the engines to the independent explorer on random programs, and counts the rules of the reduction in use."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sm90_verify.engines.order import order
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.packed import PackedMachine, pack
from sm90_verify.engines.search.searching import Search
from sm90_verify.evidence.fuzz.explorer import Program
from sm90_verify.evidence.fuzz.explorer import explore as explore_independently
from sm90_verify.evidence.fuzz.generate import pipeline_of, random_program, text_of
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

RULES = ("arrive", "expect", "load", "wait", "lazy copy")
"""Kinds of steps that the reduction makes prompt, by location, and copies that it leaves to land later; of those that
programs of mbarrier operations can use."""


@dataclass
class FuzzTally:
    """programs: how many were decided; proved: of them, without any violation. used: by rule, how many programs used
    it. disagreements: what the engines say, and the program.
    """

    programs: int = 0
    proved: int = 0
    used: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def add(self, other: FuzzTally) -> None:
        self.programs += other.programs
        self.proved += other.proved
        self.used += other.used
        self.disagreements += other.disagreements


def fuzz(
    first: int, programs: int, *, processes: int = 1, tell: Callable[[FuzzTally], None] | None = None
) -> FuzzTally:
    """Compares `programs` programs, from the seed `first` on."""
    chunks = [(at, min(500, first + programs - at)) for at in range(first, first + programs, 500)]
    total = FuzzTally()
    if processes == 1:
        for chunk in chunks:
            total.add(_chunk(chunk))
        return total
    with multiprocessing.Pool(processes) as pool:
        for one in pool.imap_unordered(_chunk, chunks):
            total.add(one)
            if tell is not None:
                tell(total)
    return total


def _chunk(chunk: tuple[int, int]) -> FuzzTally:
    tally = FuzzTally()
    for seed in range(chunk[0], chunk[0] + chunk[1]):
        compare(*random_program(seed), tally)
    return tally


def compare(program: Program, counts: tuple[int, ...], tally: FuzzTally) -> None:
    """Adds what the engines say about a program to a tally."""
    truth = explore_independently(program, counts)
    if truth is None:
        return
    pipeline = pipeline_of(program, counts)
    kernel = trace(pipeline)
    machine = compile_kernel(kernel)
    tally.programs += 1
    tally.proved += not truth.violated
    said = []
    packed = pack(machine, exchange=True)
    whole = Search(pack(machine) if packed.groups else packed, SearchBounds(), False).run().violations
    if set(whole) != truth.violated:
        said.append(f"search: {sorted(whole)}")
    reduced, rules = reduced_search(packed)
    tally.used.update(rules)
    if reduced != bool(truth.violated):
        said.append(f"reduced search: {'violated' if reduced else 'proved'}")
    verdict = order(kernel).verdict
    if (verdict == PROVED and truth.violated) or (verdict == VIOLATED and not truth.violated):
        said.append(f"order: {verdict}")
    if said:
        tally.disagreements.append(
            f"# {'; '.join(said)}; independently: {sorted(truth.violated) or 'proved'}\n{text_of(program, counts)}"
        )


def reduced_search(packed: PackedMachine) -> tuple[bool, set[str]]:
    """Whether the reduced search finds anything, and the rules that it used."""
    machine = packed.machine
    search = Search(packed, SearchBounds(), False)
    search.reduced = True
    result = search.run()
    kinds = {role.name: [place.kind for place in role.locations] for role in machine.roles}
    rules = set[str]()
    for index in search.hurried:
        action = machine.actions[index]
        if action.location is not None:
            rules.add(kinds[action.role][action.location])
    if search.left_flying and machine.structure.copies:
        rules.add("lazy copy")
    return bool(result.violations), rules
