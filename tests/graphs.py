"""Programs as a front end hands them over, and what must be true of one that is annotated, found without the pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from math import gcd

from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.phase import Phase


def graph(name: str, threads: int, *rows: tuple[op.Operation | str | None, Mapping[Hashable, int]]) -> Program:
    """A role whose location n is row n: its operation, the name of its loop or None at the end, and where answers lead;
    to the next row where they do not say.
    """
    nodes = []
    for index, (what, successors) in enumerate(rows):
        operation, loop = (None, what) if isinstance(what, str) else (what, "")
        leads = dict(successors) if successors or what is None else {None: index + 1}
        nodes.append(Node(operation, Source("kernel.ptx", index + 1), loop=loop, successors=leads))
    return Program(name, Threads(name, threads, 0, 0), tuple(nodes), name)


def kernel(pipeline: Pipeline, *programs: Program) -> Kernel:
    """The programs with the barriers and buffers of a pipeline."""
    return Kernel("by hand", {}, pipeline.layout, programs)


def bare(program: Program) -> Program:
    """The program without what the pass finds."""
    nodes = []
    for node in program.nodes:
        laps = isinstance(node.operation, op.Wait) and isinstance(node.operation.phase, Phase)
        distance = node.distance if laps else 0
        told = Node(node.operation, node.source, IDLE, node.loop, distance, successors=dict(node.successors))
        nodes.append(replace(told, skips=node.skips, moves=node.moves))
    return replace(program, nodes=tuple(nodes))


Found = tuple[dict[str, int], dict[str, int], dict[str, int], int]


def untrue(program: Program, steps: int = 400, walks: int = 4) -> list[str]:
    """What an annotated program says that is not so when it is walked through: what is held, which phase a plain wait
    is meant for, and counts, up to what its drift allows.
    """
    relaxed = any(effects_of(node.operation).orders == "relaxed" for node in program.nodes)
    moduli = _moduli(program)
    wrong: list[str] = []
    for seed in range(walks):
        chance = random.Random(seed)
        at, held, made = 0, IDLE._replace(tracks=relaxed), {}
        counts: Found = ({}, {}, {}, 0)
        for _ in range(steps):
            node = program.nodes[at]
            if node.held != held:
                wrong.append(f"{at}: held {node.held}, not {held}")
            wait = node.operation
            if isinstance(wait, op.Wait) and isinstance(wait.phase, op.Token) and node.distance:
                wrong.append(f"{at}: distance {node.distance} of a token")
            if isinstance(wait, op.Wait) and type(wait.phase) is int:
                meant = counts[1].get(wait.barrier, -1) + node.distance
                if meant % 2 != wait.phase or node.distance not in (0, 1):
                    wrong.append(f"{at}: distance {node.distance} from phase {counts[1].get(wait.barrier, -1)}")
            if not made.keys() - {None} and isinstance(wait, op.Choose) and node.choice:
                wrong.append(f"{at}: choice {node.choice} of none")
            wrong += [f"{at}: {name}" for name in _apart(counts, node, moduli)]
            if not node.successors:
                break
            answer = chance.choice(list(node.successors))
            if wait is not None:
                held = held.after(wait)
            if isinstance(wait, op.Choose):
                made[wait.name] = made.get(wait.name, 0) + 1
            counts = _then(node, answer, counts)
            at = node.successors[answer]
    return list(dict.fromkeys(wrong)) + _edges(program)


def _then(node: Node, answer: Hashable, counts: Found) -> Found:
    arrived, observed, ahead = map(dict, counts[:3])
    what = node.operation
    if isinstance(what, op.Wait) and answer is not False and not isinstance(what.phase, op.Token) and not node.skips:
        observed[what.barrier] = observed.get(what.barrier, -1) + node.distance
    if isinstance(what, op.Arrive):
        arrived[what.barrier] = arrived.get(what.barrier, 0) + what.count
        ahead[what.barrier] = ahead.get(what.barrier, 0) + what.count * (what.expect or 0)
    if isinstance(what, op.Transaction):
        ahead[what.barrier] = ahead.get(what.barrier, 0) + what.bytes
    if isinstance(what, op.StoreAsync):
        ahead[what.barrier] = ahead.get(what.barrier, 0) - what.bytes
    if isinstance(what, op.Load):
        for _, name in what.destinations:
            ahead[name] = ahead.get(name, 0) - what.bytes
    return arrived, observed, ahead, counts[3] + (node.loop != "" and answer is True)


def _edges(program: Program) -> list[str]:
    """Every edge but the first into a node is one entry of its drift."""
    into: list[list[Found]] = [[] for _ in program.nodes]
    into[0].append(({}, {}, {}, 0))
    for node in program.nodes:
        counts = dict(node.arrived), dict(node.observed), dict(node.ahead), node.iteration
        for answer, target in node.successors.items():
            into[target].append(_then(node, answer, counts))
    wrong = []
    for index, node in enumerate(program.nodes):
        said = [(node.arrived, node.observed, node.ahead, node.iteration), *node.drift]
        if sorted(map(repr, map(_plain, said))) != sorted(map(repr, map(_plain, into[index]))):
            wrong.append(f"{index}: its edges bring {into[index]}, and it says {said}")
    return wrong


def _plain(counts: tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int], int]) -> object:
    return [sorted(one.items()) for one in counts[:3]], counts[3]


def _moduli(program: Program) -> Callable[[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for node in program.nodes:
        for drift in node.drift:
            for kind, (here, there) in enumerate(zip(_named(node), _named_counts(drift), strict=True)):
                for name in {**here, **there}:
                    start = -1 if kind == 1 else 0
                    apart = there.get(name, start) - here.get(name, start)
                    found[kind, name] = gcd(found.get((kind, name), 0), apart)
    return lambda kind, name: found.get((kind, name), 0)


def _named(node: Node) -> tuple[Mapping[str, int], ...]:
    return node.arrived, node.observed, node.ahead, {"": node.iteration}


def _named_counts(
    counts: tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int], int],
) -> tuple[Mapping[str, int], ...]:
    return (*counts[:3], {"": counts[3]})


def _apart(counts: Found, node: Node, moduli: Callable[[int, str], int]) -> list[str]:
    wrong = []
    for kind, (real, said) in enumerate(zip(_named_counts(counts), _named(node), strict=True)):
        for name in {**real, **said}:
            start = -1 if kind == 1 else 0
            apart, modulus = real.get(name, start) - said.get(name, start), moduli(kind, name)
            if apart % modulus if modulus else apart:
                wrong.append(f"{kind} {name}: {real} and {said}")
    return wrong
