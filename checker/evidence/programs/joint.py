"""Random programs of a warpgroup whose warps are programs of their own, in loops: tiles come by TMA, all parts multiply
them together, and one part, or each, gives them back; right, and with mistakes.
"""

from __future__ import annotations

from random import Random

from sm90_verify.evidence.programs.author import SIZE, Actor, Author
from sm90_verify.evidence.programs.changes import changed
from sm90_verify.evidence.programs.program import RandomProgram, Statement, Text
from sm90_verify.evidence.programs.uses import WARPGROUP

LONGER = 8
"""How much longer they are than other random programs: four roles in loops, for every trip count."""
SPLITS = ((64, 64),) * 8 + ((96, 32), (32, 96), (32, 32, 64), (32, 32, 32, 32))


def random_joint(seed: int) -> RandomProgram:
    """A producer and a warpgroup, or two, of two to four parts, in loops over a ring."""
    random = Random(f"joint {seed}")
    author = Author(random, ring=True)
    author.settings["stages"] = random.choice((1, 1, 1, 2))
    author.settings["trips"] = random.choice(("all", "all", "all", 1, 2, 3, 4))
    producer, math = Actor(32), Actor(WARPGROUP)
    math.split = random.choice(SPLITS)
    if math.split == (64, 64) and author.chance(0.1):
        math.copies = 2
    author.actors += [producer, math]
    Joint(author, producer, math).write()
    if author.chance(0.1):
        _sometimes(author)
    return changed(random, author.program(), random.choice((0, 0, 0, 1, 1, 1, 2, 3)))


class Joint:
    """What a producer and the parts of a warpgroup do with the tiles of an iteration. firsts: the first thread of each
    part. waits: those that wait for a group, all but by mistake.
    """

    def __init__(self, author: Author, producer: Actor, math: Actor) -> None:
        self.author, self.producer, self.math = author, producer, math
        self.firsts = [sum(math.split[:number]) for number in range(len(math.split))]
        self.together = author.chance(0.15)
        self.careless = author.chance(0.25)
        self.tiles = author.random.choice((1, 1, 1, 2))

    def write(self) -> None:
        """All tiles of an iteration."""
        full = [self.author.barrier(1) for _ in range(self.tiles)]
        everybody = self.author.chance(0.2)
        count = (len(self.firsts) if everybody else 1) * self.math.copies
        empty = [self.author.barrier(count) for _ in range(self.tiles)]
        tiles = [self.author.tile() for _ in range(self.tiles)]
        for barrier, other, tile in zip(full, empty, tiles, strict=True):
            self._produces(barrier, other, tile)
        for barrier, tile in zip(full, tiles, strict=True):
            self.math.does("wait", self.author.mine(barrier, self.math), self.author.phase)
            self._multiplies(tile)
        for number, (barrier, tile) in enumerate(zip(empty, tiles, strict=True)):
            self._gives_back(self.tiles - 1 - number, barrier, tile, everybody)
        if self.together:
            relaxed = self.author.chance(0.4)
            for actor in (self.producer, self.math):
                actor.does("cluster_arrive_relaxed" if relaxed else "cluster_arrive")
                actor.does("cluster_wait")

    def _produces(self, full: str, empty: str, tile: str) -> None:
        one, author = self.producer, self.author
        if not self.together:
            one.does("wait", author.mine(empty, one), Text("at.phase ^ 1"))
        one.does("arrive_expect_tx", author.mine(full, one), SIZE)
        one.does("load", author.mine(tile, one), signals=author.mine(full, one))

    def _multiplies(self, tile: str) -> None:
        one, author = self.math, self.author
        x = author.mine(tile, one)
        if author.chance(0.2):
            self._by_one(Statement("read", x))
        if author.chance(0.3):
            one.does("wgmma_fence")
            one.does("mma", x, into=author.mine(author.registers(), one), commit=False)
        else:
            one.does("mma", x, commit=False)
        if author.chance(0.15):
            one.does("mma", x, commit=False)
        self._all("mma_commit", joint=True)
        if author.chance(0.1):
            self._by_one(Statement("read", x))

    def _gives_back(self, pending: int, empty: str, tile: str, everybody: bool) -> None:
        one, author = self.math, self.author
        x = author.mine(tile, one)
        wrong = self.careless and author.chance(0.3)
        self._all("mma_wait", pending + wrong, joint=True)
        if author.chance(0.1):
            self._by_one(Statement("read", x))
        if author.chance(0.1):
            self._by_one(Statement("store", x), Statement("bulk_commit"))
            if author.chance(0.7):
                one.does("bulk_wait_read", None, 0)
        if author.chance(0.2):
            one.does("named_sync", None, author.id(), one.all_threads)
        if self.together and author.chance(0.7):
            return
        arrives = Statement("arrive", author.mine(empty, one))
        if everybody:
            one.steps.append(arrives)
        else:
            self._by_one(arrives)

    def _all(self, verb: str, *places: int, joint: bool) -> None:
        """All parts do it, but by mistake only one."""
        step = Statement(verb, None, (*(("", one) for one in places), ("joint", joint)))
        if self.careless and self.author.chance(0.3):
            self._by_one(step)
        else:
            self.math.steps.append(step)

    def _by_one(self, *steps: Statement) -> None:
        """One part does it. An operation that orders nothing gives the condition a place."""
        condition = f"is None and me.first == {self.author.random.choice(self.firsts)}"
        self.math.steps.append(Statement("wgmma_fence", cases=((condition, steps),)))


def _sometimes(author: Author) -> None:
    """All roles choose whether to do anything in an iteration."""
    for one in author.actors:
        cases = (("== 0", tuple(one.steps)), ("== 1", ()))
        one.steps = [Statement("choose", None, (("", "c"), ("", 0), ("", 1)), cases=cases)]
