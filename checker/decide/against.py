"""The answer to `verify log --against`: whether each warp of a synclog did what a program of a model does, in order.

The barriers of the log and of the model are told by what is done with them: the first operation on one says which it
is, and every later one must agree, in all warps. Compared are waits with their parities, arrivals and expected bytes,
loads with their bytes and barriers, stores, groups, wgmmas, bar.sync with its threads, and fence.proxy.async. What has
no effect is left out: arrivals at a barrier that nobody waits for, and waits for bulk copies of who has none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from sm90_verify.frontends.log.check import checked
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.synclog import Record, read_log
from sm90_verify.frontends.log.usage import WAITS, WGMMA
from sm90_verify.result import ALLOWED, VIOLATED, Finding, Result, Trace, TraceStep
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import WARP

SEQUENCE = "sequence"
"""What is violated where a log and a model differ; it is no property of a model."""

Thing: TypeAlias = int | str | None
"""A barrier: an address or an id in the log, a name or an id in the model."""


class ComparedOperation(NamedTuple):
    """An operation that the log and the model both show. what: the same words on both sides; thing: the barrier that it
    is on; place: its entry, or its node.
    """

    what: tuple[object, ...]
    thing: Thing
    place: int


class Match(NamedTuple):
    """How far a warp did what a program does. bound: by barrier of the log, that of the model."""

    program: Program
    nodes: Sequence[ComparedOperation]
    same: int
    bound: dict[tuple[str, Thing], Thing]


def check_against(path: str, model: Pipeline) -> Result:
    """Holds a synclog to the programs of a model's first CTA.

    Raises SpecError for what is no log, and for a model that is no sequence: one with loops.
    """
    start = time.perf_counter()
    records = read_log(path)
    _, replay = checked(records, path)
    kernel = trace(model)
    programs = [program for program in kernel.programs if program.me.cta == 0 and program.me.first % WARP == 0]
    several = kernel.cluster.size > 1
    operations = [node.operation for program in kernel.programs for node in program.nodes]
    waited = {one.barrier for one in operations if isinstance(one, op.Wait)}
    sequences = [(program, _of_program(program, waited, several=several)) for program in programs]
    found = _compared(replay, [one for one in sequences if one[1]])
    finding = Finding(SEQUENCE, ALLOWED) if found is None else Finding(SEQUENCE, VIOLATED, _told(found, path, records))
    return Result(
        "log",
        f"{path} against {kernel.name}",
        dict(kernel.parameters),
        "log",
        (finding,),
        {"trips": "this run", "block": 0, "lanes": "lane 0 of each warp"},
        seconds=time.perf_counter() - start,
        notes=(f"{sum(len(_of_warp(replay, warp)) for warp in replay.warps)} operations of {len(records)} entries",),
    )


class Difference(NamedTuple):
    """The first operation of a warp that is not the model's. entry, node: -1, None where one side has ended."""

    warp: int
    program: Program
    entry: int
    node: Node | None
    did: str
    expected: str


def _compared(replay: Replay, sequences: Sequence[tuple[Program, list[ComparedOperation]]]) -> Difference | None:
    bound: dict[tuple[str, Thing], Thing] = {}
    used: list[list[tuple[object, ...]]] = []
    for warp in replay.warps:
        mine = _of_warp(replay, warp)
        if not mine:
            continue
        if not sequences:
            raise SpecError("the model has no program with an operation that a log shows: choose another one")
        match = max((_match(mine, program, nodes, bound) for program, nodes in sequences), key=lambda one: one.same)
        if match.same < max(len(mine), len(match.nodes)):
            return _difference(warp, mine, match, bound)
        bound = match.bound
        used.append([one[:2] for one in match.nodes])
    for program, nodes in sequences:
        if [one[:2] for one in nodes] not in used:
            first = nodes[0]
            node, expected = program.nodes[first.place], _words(first, str(first.thing))
            return Difference(-1, program, -1, node, "no warp that does it", expected)
    return None


def _match(
    mine: Sequence[ComparedOperation],
    program: Program,
    nodes: Sequence[ComparedOperation],
    known: dict[tuple[str, Thing], Thing],
) -> Match:
    bound = dict(known)
    taken = {(kind, name): thing for (kind, thing), name in bound.items()}
    same = 0
    for did, does in zip(mine, nodes, strict=False):
        kind = "id" if did.what[0] == "bar.sync" else "mbarrier"
        if did.what != does.what or (did.thing is None) != (does.thing is None):
            break
        if did.thing is not None:
            if bound.get((kind, did.thing), does.thing) != does.thing:
                break
            if taken.get((kind, does.thing), did.thing) != did.thing:
                break
            bound[kind, did.thing], taken[kind, does.thing] = does.thing, did.thing
        same += 1
    return Match(program, nodes, same, bound)


def _difference(
    warp: int, mine: Sequence[ComparedOperation], match: Match, known: dict[tuple[str, Thing], Thing]
) -> Difference:
    at = match.same
    did = mine[at] if at < len(mine) else None
    does = match.nodes[at] if at < len(match.nodes) else None
    node = match.program.nodes[does.place] if does is not None else None
    name = "" if did is None or did.thing is None else str(match.bound.get(_key(did), did.thing))
    return Difference(
        warp,
        match.program,
        -1 if did is None else did.place,
        node,
        "nothing more" if did is None else _words(did, name),
        "nothing more" if does is None else _words(does, str(does.thing)),
    )


def _key(did: ComparedOperation) -> tuple[str, Thing]:
    return ("id" if did.what[0] == "bar.sync" else "mbarrier", did.thing)


def _words(one: ComparedOperation, thing: str) -> str:
    on = "" if one.thing is None else f" {thing}"
    return " ".join(str(part) for part in one.what if part is not None) + on


def _told(one: Difference, path: str, records: Sequence[Record]) -> Trace:
    steps = []
    where = ""
    if one.node is not None and one.node.source is not None:
        source = one.node.source
        where = f" ({os.path.basename(source.file)}:{source.line})"
        steps.append(TraceStep(one.program.name, one.expected, "", source.file, source.line))
    role = f"warp {one.warp}" if one.warp >= 0 else "the log"
    at = ""
    if one.entry >= 0:
        at = f" (line {records[one.entry].line})"
        steps.append(TraceStep(role, one.did, "", path, records[one.entry].line))
    because = f"{role} has {one.did}{at} where {one.program.name} has {one.expected}{where}"
    return Trace(SEQUENCE, because, tuple(steps))


# ---------------------------------------------------------------- the log


def _of_warp(replay: Replay, warp: int) -> list[ComparedOperation]:
    """What lane 0 of a warp did, as far as a model says it."""
    found: list[ComparedOperation] = []
    program = replay.program[warp]
    for place, index in enumerate(program):
        one = _of_record(replay, [replay.records[other] for other in program[place:]], index)
        if one is not None:
            found.append(one)
    waited = {record.values[0] for record in replay.records if record.kind in WAITS}
    return _joined(found, waited)


def _joined(some: Sequence[ComparedOperation], waited: Container[Thing]) -> list[ComparedOperation]:
    """Without what has no effect; neighbouring loads for one barrier as one, with the bytes of all; and so neighbouring
    wgmmas. waited: the barriers that somebody waits for.
    """
    found: list[ComparedOperation] = []
    stores = any(one.what[0] == "bulk_commit" for one in some)
    for one in some:
        if (one.what[0] == "bulk_wait" and not stores) or (one.what[0] == "arrive" and one.thing not in waited):
            continue
        last = found[-1] if found else None
        if last is None or (last.what[0], last.thing) != (one.what[0], one.thing):
            found.append(one)
        elif one.what[0] == "load":
            found[-1] = last._replace(what=("load", int(str(last.what[1])) + int(str(one.what[1]))))
        elif one.what[0] != "wgmma":
            found.append(one)
    return found


def _of_record(replay: Replay, rest: Sequence[Record], index: int) -> ComparedOperation | None:
    record, values = rest[0], rest[0].values
    match record.kind:
        case "cluster_barrier_wait":
            return ComparedOperation(("wait", values[1]), values[0], index)
        case "cluster_barrier_try_wait":
            after = next((one for one in rest[1:] if one.kind in WAITS and one.values[0] == values[0]), None)
            follows = after is not None and after is rest[1] and after.values[1] == values[1]
            return None if follows else ComparedOperation(("wait", values[1]), values[0], index)
        case "cluster_barrier_arrive":
            return ComparedOperation(("arrive", None), values[0], index)
        case "cluster_barrier_arrive_cluster":
            return ComparedOperation(("arrive", None), values[0], index) if values[2] else None
        case "cluster_transaction_barrier_arrive_and_expect_tx":
            return ComparedOperation(("arrive", values[1]), values[0], index)
        case "cluster_transaction_barrier_expect_transaction":
            return ComparedOperation(("expect", values[1]), values[0], index)
        case "tma_load":
            bytes = 0 if replay.table.cluster else replay.table.box_bytes.get(values[0], 0)
            return ComparedOperation(("load", bytes), values[1], index)
        case "named_barrier_arrive_and_wait":
            return ComparedOperation(("bar.sync", values[0]), values[1], index)
        case _:
            return _alone(record, index)


def _alone(record: Record, index: int) -> ComparedOperation | None:
    """Entries on no barrier."""
    words: dict[str, str] = {
        "tma_store": "store",
        "tma_store_arrive": "bulk_commit",
        "fence_view_async_shared": "fence.proxy.async",
        **dict.fromkeys(WGMMA, "wgmma"),
    }
    if record.kind in words:
        return ComparedOperation((words[record.kind],), None, index)
    if record.kind in ("tma_store_wait", "warpgroup_wait"):
        kind = "bulk_wait" if record.kind == "tma_store_wait" else "mma_wait"
        return ComparedOperation((kind, record.values[0]), None, index)
    return None


# ---------------------------------------------------------------- the model


def _of_program(program: Program, waited: Container[Thing], *, several: bool) -> list[ComparedOperation]:
    """What a program does, as far as a log shows it. waited: the barriers that somebody waits for;
    several: there are other CTAs, whose loads no log shows. Raises
    SpecError if it is no sequence.
    """
    found: list[ComparedOperation] = []
    index, seen = 0, set[int]()
    while program.nodes[index].successors:
        node = program.nodes[index]
        if len(set(node.successors.values())) != 1 or index in seen:
            raise SpecError(
                f"{program.name} has no single sequence that a log could be held against: give every number of trips "
                "(--tiles, --k-tiles, --trips)",
                node.source,
            )
        seen.add(index)
        found += _of_node(node, index, several=several)
        (index,) = set(node.successors.values())
    return _joined(found, waited)


LoggedOperation: TypeAlias = (
    op.Wait | op.Arrive | op.Transaction | op.Load | op.Store | op.Touch | op.NamedSync | op.Fence | op.Group
)
"""Of these logs have events; a log shows nothing of the others."""


def _of_node(node: Node, index: int, *, several: bool) -> Iterator[ComparedOperation]:
    operation = node.operation
    if not isinstance(operation, LoggedOperation):
        return
    on: Thing = None
    compared: tuple[object, ...] | None
    match operation:
        case op.Wait(on, phase):
            compared = None if isinstance(phase, op.Token) else ("wait", int(phase) & 1)
        case op.Arrive(on, _, expect, _, cta):
            compared = ("arrive", expect) if cta in (-1, 0) else None
        case op.Transaction(on, bytes):
            compared = ("expect", bytes)
        case op.Load(_, on, bytes):
            compared = ("load", 0 if several else bytes)
        case op.Store():
            compared = ("store",)
        case op.Touch(kind):
            compared = ("wgmma",) if kind == "mma" else None
        case op.NamedSync(on, threads):
            compared = ("bar.sync", threads)
        case op.Fence(kind):
            compared = ("fence.proxy.async",) if kind == "proxy_async" else None
        case op.Group(kind, pending):
            compared = _of_group(kind, pending)
        case _:
            assert_never(operation)
    if compared is not None:
        yield ComparedOperation(compared, on, index)


def _of_group(kind: op.GroupKind, pending: int) -> tuple[object, ...] | None:
    if kind == "bulk_commit":
        return ("bulk_commit",)
    if kind in ("bulk_wait", "bulk_wait_read"):
        return ("bulk_wait", pending)
    return ("mma_wait", pending) if kind == "mma_wait" else None
