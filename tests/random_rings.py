"""Random rings whose use is chosen anew in every iteration of a loop, with up to two mistakes."""

from __future__ import annotations

import random
from typing import NamedTuple

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads

MISTAKES = (
    "consumer waits not",
    "consumer frees early",
    "consumer frees not",
    "consumer takes the other way",
    "consumer asks again",
    "consumer begins anew",
    "consumer wants the first tag",
    "producer waits not",
    "producer loads not",
    "producer loads once more",
    "producer begins anew",
    "producer takes the other way",
    "the others write",
    "the others wait",
    "the others end",
)


class Mistake(NamedTuple):
    """What goes wrong where this option is chosen, only at the `place`-th use of a ring then."""

    what: str
    option: int
    place: int


class Chosen(Pipeline):
    """ways: by choice and option, the rings that are used, "a" or "b". first: the number of the choices of an iteration
    that are made before anything is used.
    """

    ways: tuple[tuple[str, ...], ...] = ()
    times = 1
    consumers = 1
    others = 0
    tagged = False
    mistakes: tuple[Mistake, ...] = ()
    a_full = barrier(arrivals=1)
    a_empty = barrier(arrivals="consumers")
    b_full = barrier(arrivals=1)
    b_empty = barrier(arrivals="consumers")
    a = tile(bytes=64)
    b = tile(bytes=64)
    done = barrier(arrivals="consumers", slots=1)

    def wrong(self, what: str, option: int, place: int = 0) -> bool:
        return (what, option, place) in self.mistakes

    def choice(self, who: str):
        """The option, and what the role takes for it."""
        option = yield self.choose("way", *range(len(self.ways)))
        other = self.wrong(f"{who} takes the other way", option)
        return option, self.ways[(option + other) % len(self.ways)]

    @role(warps=1)
    def producer(self):
        at = {name: PipelineState.start(self.stages, producer=True) for name in "ab"}
        for _ in self.loop():
            for _ in range(self.times):
                option, way = yield from self.choice("producer")
                for place, name in enumerate(way):
                    for _ in range(1 + self.wrong("producer loads once more", option, place)):
                        yield from self.load(name, at[name], option, place)
                    at[name] += 1
                    if self.wrong("producer begins anew", option, place):
                        at[name] = PipelineState.start(self.stages, producer=True)

    def load(self, name: str, at: PipelineState, option: int, place: int):
        full, empty, data = (getattr(self, f"{name}{part}") for part in ("_full", "_empty", ""))
        if not self.wrong("producer waits not", option, place):
            yield empty[at].wait(at.phase)
        yield full[at].arrive_expect_tx(64)
        if not self.wrong("producer loads not", option, place):
            yield data[at].load(signals=full[at], tag=option if self.tagged else 0)

    @role(warps=4, copies="consumers")
    def consumer(self, me: Threads):
        at = {name: PipelineState.start(self.stages) for name in "ab"}
        for _ in self.loop():
            for _ in range(self.times):
                option, way = yield from self.choice("consumer")
                if me.copy == 0 and self.wrong("consumer asks again", option):
                    option, way = yield from self.choice("consumer")
                for place, name in enumerate(way):
                    yield from self.use(name, at[name], option, place)
                    at[name] += 1
                    if me.copy == 0 and self.wrong("consumer begins anew", option, place):
                        at[name] = PipelineState.start(self.stages)
        yield self.done.arrive()

    def use(self, name: str, at: PipelineState, option: int, place: int):
        full, empty, data = (getattr(self, f"{name}{part}") for part in ("_full", "_empty", ""))
        if not self.wrong("consumer waits not", option, place):
            yield full[at].wait(at.phase)
        first = not self.tagged or self.wrong("consumer wants the first tag", option, place)
        early = self.wrong("consumer frees early", option, place)
        if early:
            yield empty[at].arrive()
        yield data[at].read(tag=0 if first else option)
        if not early and not self.wrong("consumer frees not", option, place):
            yield empty[at].arrive()

    @role(warps=1, copies=lambda self: 1 if self.others else 0)
    def other(self):
        """It asks for some of the choices or for none, and comes after all others."""
        if self.others > 1:
            for _ in self.loop():
                option = yield self.choose("way", *range(len(self.ways)))
                if self.wrong("the others write", option):
                    yield self.a[0].write(tag=0)
                if self.wrong("the others wait", option):
                    yield self.done.wait(0)
                if self.wrong("the others end", option):
                    return
        yield self.done.wait(0)
        yield self.a[0].write(tag=0)


def chosen(seed: int) -> Chosen:
    """The pipeline of that number."""
    rng = random.Random(seed)
    ways = tuple(
        tuple(rng.choice("aab") for _ in range(rng.choice((0, 1, 1, 2)))) for _ in range(rng.choice((2, 2, 3)))
    )
    mistakes = tuple(
        Mistake(rng.choice(MISTAKES), rng.randrange(len(ways)), rng.choice((0, 0, 1)))
        for _ in range(rng.choice((0, 1, 1, 1, 2)))
    )
    times = rng.choice((1, 1, 1, 2))
    pipeline = Chosen(
        trips=rng.choice(("all", "all", "forever", 2)),
        stages=rng.choice((1, 1, 2)),
        times=times,
        consumers=1 if times == 2 else rng.choice((1, 1, 2)),
        others=rng.choice((0, 0, 1, 2)),
        tagged=rng.random() < 0.6,
    )
    object.__setattr__(pipeline, "ways", ways)
    object.__setattr__(pipeline, "mistakes", mistakes)
    return pipeline
