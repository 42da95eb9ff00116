"""Barriers made of ordinary shared variables and atomic instructions, as Machines: what an mbarrier does by itself.

Each thread is a small graph of instructions, each of which is one atomic access of shared memory; rounds go on for
ever. `round` is a ghost: the number, modulo 4, of the round that a thread has entered. Passing a barrier before all
others have entered its round is `phase-lapped`. Memory is taken to be sequentially consistent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, any_of, where

ROUNDS = 2
"""Bits of the ghost of a round: threads of a right barrier are at most one round apart."""


@dataclass(frozen=True)
class SoftwareInstruction:
    """One atomic instruction, with one of its outcomes: what it does, to what, when, and which label is next."""

    op: str
    object: str
    goto: str
    when: Expr = TRUE
    then: Mapping[str, Expr] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    source: Source = field(default_factory=lambda: _caller(3))


Code = Mapping[str, Sequence[SoftwareInstruction]]
"""By label, the outcomes of the instruction there; the first label is the start."""


def _caller(depth: int) -> Source:
    frame = sys._getframe(depth)
    return Source(frame.f_code.co_filename, frame.f_lineno)


@dataclass(frozen=True)
class Software:
    """Shared variables and the code of each thread: everything that a Machine needs."""

    name: str
    parameters: Mapping[str, int | str]
    variables: tuple[Variable, ...]
    threads: Mapping[str, Code]

    def machine(self) -> Machine:
        """The Machine; raises SpecError for a label that does not exist."""
        variables, roles, actions = list(self.variables), [], []
        for name, code in self.threads.items():
            labels = {label: number for number, label in enumerate(code)}
            width = max(1, (len(labels) - 1).bit_length())
            variables.append(Variable(f"at.{name}", width, 0, f"location of {name}", kind="location", role=name))
            locations = []
            for label, outcomes in code.items():
                first = outcomes[0]
                locations.append(Location(first.op, first.object, first.source))
                for number, one in enumerate(outcomes):
                    if one.goto not in labels:
                        raise SpecError(f"{name}: no label {one.goto!r}: it has {', '.join(labels)}")
                    actions.append(
                        Action(
                            f"{name}@{label}.{number} {one.op} {one.object}".rstrip(),
                            name,
                            one.op,
                            one.object,
                            labels[label],
                            labels[one.goto],
                            one.when,
                            tuple(one.then.items()),
                            one.checks,
                            one.source,
                        )
                    )
            roles.append(Role(name, f"at.{name}", tuple(locations), 1))
        found = {"deadlock": None, **{check.property: None for action in actions for check in action.checks}}
        return Machine(
            self.name, dict(self.parameters), tuple(variables), tuple(roles), tuple(actions), (), tuple(found)
        )


# ---------------------------------------------------------------- rounds


def round_of(thread: int) -> Field:
    return Field(f"round{thread}", ROUNDS)


def _rounds(threads: int) -> list[Variable]:
    return [Variable(f"round{i}", ROUNDS, 0, f"round that thread{i} has entered", True) for i in range(threads)]


def _enter(thread: int) -> dict[str, Expr]:
    return {f"round{thread}": round_of(thread) + 1}


def _passes_early(thread: int, threads: int) -> tuple[Check, ...]:
    """Some other thread has not entered the round that this one leaves."""
    behind = any_of(round_of(other) + 1 == round_of(thread) for other in range(threads) if other != thread)
    because = f"thread{thread} passes the barrier although another thread has not come to it in this round"
    return (Check("phase-lapped", behind, because, "barrier"),)


# ---------------------------------------------------------------- central barriers


def sense_reversing(threads: int, *, order: str = "reset-flip", sense: str = "before", split: bool = False) -> Machine:
    """A counter and one parity bit; the last of `threads` arrivals resets the counter and flips the bit.

    order: what the last one does first, "reset-flip" or "flip-reset". sense: a thread reads the bit that it waits to
    see changed "before" it arrives or "after". split: other work lies between arriving and waiting.
    """
    width = threads.bit_length()
    count, phase = Field("count", width), Field("phase", 1)
    variables = [
        Variable("count", width, 0, "arrivals of this round"),
        Variable("phase", 1, 0, "parity of the round"),
        *(Variable(f"sense{i}", 1, 0, f"the parity that thread{i} waits to see changed") for i in range(threads)),
        *_rounds(threads),
    ]
    first = order.split("-", maxsplit=1)[0]
    code: dict[str, Code] = {}
    for i in range(threads):
        mine, waiting = Field(f"sense{i}", 1), "work" if split else "read" if sense == "after" else "spin"
        read = [
            SoftwareInstruction("read", "phase", "arrive" if sense == "before" else "spin", then={f"sense{i}": phase})
        ]
        lines: dict[str, list[SoftwareInstruction]] = {
            "enter": [SoftwareInstruction("enter", "", "read" if sense == "before" else "arrive", then=_enter(i))]
        }
        if sense == "before":
            lines["read"] = read
        lines["arrive"] = [
            SoftwareInstruction("atomicAdd 1: last", "count", first, count == threads - 1, {"count": count + 1}),
            SoftwareInstruction("atomicAdd 1", "count", waiting, count != threads - 1, {"count": count + 1}),
        ]
        after = {"reset": "flip", "flip": "leave"} if order == "reset-flip" else {"flip": "reset", "reset": "leave"}
        lines["reset"] = [SoftwareInstruction("store 0", "count", after["reset"], then={"count": Lit(0, width)})]
        lines["flip"] = [SoftwareInstruction("flip", "phase", after["flip"], then={"phase": ~phase})]
        if split:
            lines["work"] = [SoftwareInstruction("work", "", "read" if sense == "after" else "spin")]
        if sense == "after":
            lines["read"] = read
        lines["spin"] = [SoftwareInstruction("wait until changed", "phase", "leave", phase != mine)]
        lines["leave"] = [SoftwareInstruction("leave", "barrier", "enter", checks=_passes_early(i, threads))]
        code[f"thread{i}"] = lines
    parameters: dict[str, int | str] = {"threads": threads, "order": order, "sense": sense, "split": int(split)}
    return Software("sense-reversing", parameters, tuple(variables), code).machine()


def uncounted_watcher(slack: int, bits: int) -> Machine:
    """A thread that is not counted waits for the next round, while rounds go on for up to `slack` without it.

    The number of the round is kept in `bits` bits, one being parity; the watcher waits until it has changed.
    """
    width = max(1, slack.bit_length())
    number, seen, ahead = Field("number", bits), Field("seen", bits), Field("ahead", width)
    missed = Check(
        "phase-lapped",
        (ahead != 0) & (number == seen),
        f"a round is over and the {bits}-bit number that the watcher waits to see changed is what it was",
        "number",
    )
    variables = (
        Variable("number", bits, 0, "number of the round, as far as it is kept"),
        Variable("seen", bits, 0, "the number that the watcher read"),
        Variable("ahead", width, 0, "rounds completed since", True),
    )
    rounds = {
        "round": [
            SoftwareInstruction(
                "complete", "number", "round", ahead < slack, {"number": number + 1, "ahead": ahead + 1}
            )
        ]
    }
    watcher = {
        "look": [SoftwareInstruction("read", "number", "spin", then={"seen": number, "ahead": Lit(0, width)})],
        "spin": [
            SoftwareInstruction("read again", "number", "look", number != seen),
            SoftwareInstruction("read again: the same", "number", "spin", number == seen, checks=(missed,)),
        ],
    }
    code = {"rounds": rounds, "watcher": watcher}
    return Software("uncounted-watcher", {"slack": slack, "bits": bits}, variables, code).machine()


# ---------------------------------------------------------------- dissemination


def dissemination(threads: int, *, sets: int = 2) -> Machine:
    """Threads signal each other at distances 1, 2, 4, …: one flag per thread and distance, one bit each.

    sets: with two sets of flags they are used in turn, and the value that means "signalled" changes every second round;
    with one set it changes every round.
    """
    steps = max(1, (threads - 1).bit_length())
    variables = [
        Variable(f"flag{s}.{i}.{k}", 1, 0, f"flag of thread{i} at distance {1 << k}")
        for s in range(sets)
        for i in range(threads)
        for k in range(steps)
    ]
    code: dict[str, Code] = {}
    for i in range(threads):
        lines: dict[str, list[SoftwareInstruction]] = {
            "enter": [SoftwareInstruction("enter", "", "signal0", then=_enter(i))]
        }
        even = (round_of(i) & 1) == 0
        signalled = (round_of(i) & 1) == 1 if sets == 1 else (round_of(i) & 2) == 0
        value = signalled if sets == 1 else where(even, ~signalled, signalled)
        for k in range(steps):
            to = (i + (1 << k)) % threads
            flags = [Field(f"flag{s}.{to}.{k}", 1) for s in range(sets)]
            mine = [Field(f"flag{s}.{i}.{k}", 1) for s in range(sets)]
            uses = [TRUE] if sets == 1 else [even, ~even]
            then = {flag.name: where(use, value, flag) for flag, use in zip(flags, uses, strict=True)}
            ready = any_of(use & (flag == value) for flag, use in zip(mine, uses, strict=True))
            lines[f"signal{k}"] = [SoftwareInstruction("store", f"flag of thread{to}", f"wait{k}", then=then)]
            after = f"signal{k + 1}" if k + 1 < steps else "leave"
            lines[f"wait{k}"] = [SoftwareInstruction("wait", f"flag of thread{i}", after, ready)]
        lines["leave"] = [SoftwareInstruction("leave", "barrier", "enter", checks=_passes_early(i, threads))]
        code[f"thread{i}"] = lines
    variables += _rounds(threads)
    return Software("dissemination", {"threads": threads, "sets": sets}, tuple(variables), code).machine()


# ---------------------------------------------------------------- arrivals and bytes


def arrivals_and_bytes(*, words: int = 2) -> Machine:
    """A transaction barrier in software: a producer announces a copy and arrives, the copy takes its bytes back, and
    whoever finds no arrival and no bytes pending flips the phase; the consumer waits for that.

    words: arrivals and bytes are two words, each with its own atomics ("look at the other one afterwards"), or one.
    """
    arrivals, count, phase = Field("arrivals", 1), Field("bytes", 1), Field("phase", 1)
    busy, landed, empty, seen = Field("busy", 1), Field("landed", 1), Field("empty", 1), Field("seen", 1)
    variables = (
        Variable("arrivals", 1, 1, "arrivals pending"),
        Variable("bytes", 1, 0, "copies announced and not landed"),
        Variable("phase", 1, 0, "parity of the phase"),
        Variable("busy", 1, 0, "a copy is in flight"),
        Variable("landed", 1, 0, "the buffer holds new data", True),
        Variable("empty", 1, 1, "the buffer may be overwritten"),
        Variable("seen", 1, 0, "the parity that the consumer waits to see changed"),
    )
    done = {"arrivals": Lit(1, 1), "phase": ~phase}
    lines: dict[str, Code] = {}
    for name, word, other in (("producer", arrivals, count), ("copy", count, arrivals)):
        mine, theirs = word.name, other.name
        back = "announce" if name == "producer" else "start"
        took = {mine: word - 1, **({"landed": TRUE, "busy": Lit(0, 1)} if name == "copy" else {})}
        if words == 2:
            last = [
                SoftwareInstruction("atomicSub 1: 0 left", mine, "look", word == 1, took),
                SoftwareInstruction("atomicSub 1", mine, back, word != 1, took),
            ]
        else:
            last = [
                SoftwareInstruction(
                    "atomicSub 1: nothing left", "word", back, (word == 1) & (other == 0), {**took, **done}
                ),
                SoftwareInstruction("atomicSub 1", "word", back, (word != 1) | (other != 0), took),
            ]
        code: dict[str, Sequence[SoftwareInstruction]] = {}
        if name == "producer":
            code["announce"] = [
                SoftwareInstruction("wait", "empty", "issue", empty == 1, {"bytes": count + 1, "empty": Lit(0, 1)})
            ]
            code["issue"] = [SoftwareInstruction("issue", "copy", "arrive", then={"busy": TRUE})]
            code["arrive"] = last
        else:
            code["start"] = [SoftwareInstruction("wait", "copy", "land", busy == 1)]
            code["land"] = last
        if words == 2:
            code["look"] = [
                SoftwareInstruction("read: 0", theirs, "flip", other == 0),
                SoftwareInstruction("read: not 0", theirs, back, other != 0),
            ]
            code["flip"] = [SoftwareInstruction("reset and flip", "phase", back, then=done)]
        lines[name] = code
    early = Check("stale-read", landed == 0, "the consumer passes and the data has not landed", "buffer")
    lines["consumer"] = {
        "wait": [SoftwareInstruction("wait until changed", "phase", "read", phase != seen, {"seen": phase})],
        "read": [SoftwareInstruction("read", "buffer", "release", then={"landed": Lit(0, 1)}, checks=(early,))],
        "release": [SoftwareInstruction("release", "empty", "wait", then={"empty": TRUE})],
    }
    return Software("arrivals-and-bytes", {"words": words}, variables, lines).machine()
