"""Random programs from a seed: roles that hand data over as it is right, and up to three changes of that."""

from __future__ import annotations

from random import Random

from sm90_verify.evidence.programs.alone import scene
from sm90_verify.evidence.programs.author import Actor, Author
from sm90_verify.evidence.programs.changes import changed
from sm90_verify.evidence.programs.handoffs import handoff
from sm90_verify.evidence.programs.program import RandomProgram, Statement

WORLDS = ("cta",) * 10 + ("cluster",) * 5 + ("every",) * 2 + ("clusters",) * 2 + ("grids",)


def random_program(seed: int) -> RandomProgram:
    """A program of 2 or 3 roles: in one CTA, in a cluster of two, in two clusters, or in two grids."""
    random = Random(seed)
    world = random.choice(WORLDS)
    author = Author(random, ring=world not in ("clusters", "grids") and random.random() < 0.3)
    _settings(author, world)
    _actors(author, world)
    for _ in range(1 if author.ring else random.choice((1, 1, 2))):
        _act(author)
    if author.cluster and author.chance(0.85):
        for one in author.actors:
            one.does("cluster_arrive")
            one.does("cluster_wait")
    return changed(random, author.program(), random.choice((0, 0, 1, 1, 1, 2, 3)))


def _settings(author: Author, world: str) -> None:
    if author.ring:
        author.settings["stages"] = author.random.choice((1, 1, 2))
        author.settings["trips"] = author.random.choice(("all", "all", 1, 2))
    if world in ("cluster", "every"):
        author.cluster, author.every = True, world == "every"
        author.settings["cluster"] = "2x1"
        author.peer = author.every and author.chance(0.5)
        if author.chance(0.1):
            author.settings["met"] = False
    if world == "clusters":
        author.settings["clusters"] = 2
        if author.chance(0.3):
            author.settings["resident"] = False
    if author.chance(0.1):
        author.settings["strict"] = True


def _actors(author: Author, world: str) -> None:
    for number in range(author.random.choice((2, 2, 2, 3))):
        actor = Actor(author.random.choice((32, 128, 128)))
        match world:
            case "every":
                actor.cta = None
            case "cluster":
                actor.cta = number if number < 2 and author.chance(0.6) else author.random.randrange(2)
            case "clusters":
                actor.cluster = number % 2
            case "grids":
                actor.grid = number % 2
        author.actors.append(actor)
    if author.chance(0.15):
        author.actors[-1].copies = 2
    elif not author.ring and author.chance(0.1):
        author.actors[-1].threads, author.actors[-1].split = 32, (1, 31)


def _act(author: Author) -> None:
    """A scene, or two of which all roles choose one."""
    if not author.chance(0.14):
        _scene(author)
        return
    before = [one.steps for one in author.actors]
    options: list[list[tuple[Statement, ...]]] = []
    for _ in range(2):
        for one in author.actors:
            one.steps = []
        if not options or author.chance(0.7):
            _scene(author)
        options.append([tuple(one.steps) for one in author.actors])
    for one, steps, first, second in zip(author.actors, before, *options, strict=True):
        cases = (("== 0", first), ("== 1", second))
        one.steps = [
            *steps,
            *([Statement("choose", None, (("", "c"), ("", 0), ("", 1)), cases=cases)] if first or second else []),
        ]


def _scene(author: Author) -> None:
    first, then = author.random.sample(author.actors, 2)
    if first.copies > 1 or first.split or first.grid > then.grid:
        first, then = then, first
    if first.split or then.split or author.chance(0.22):
        scene(author, then if then.split else first, first if then.split else then)
    elif first.copies == 1 and first.grid <= then.grid:
        handoff(author, first, then)
