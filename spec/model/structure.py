"""What proofs and reports need to know about a model besides its transitions."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import assert_never

from sm90_verify.spec.model.barrier_plans import BarrierPlan
from sm90_verify.spec.model.flow import blocks_inside, is_local, meeting_of
from sm90_verify.spec.model.machine import BarrierInfo, ClusterInfo, CopyInfo, ProgressKind, RoleProgress, Structure
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Expr, Field


def structure_of(v: Variables, *, whole: bool = True) -> Structure:
    """The barriers, the copies, and where the Machine is whole, how far each role has got at each of its locations."""
    progress = tuple(_progress(v)) if whole else ()
    return Structure(tuple(_barrier_info(v)), tuple(_copy_info(v)), progress, tuple(_clusters(v)))


def _clusters(v: Variables) -> Iterable[ClusterInfo]:
    """Each of several clusters, with what is its own: global memory is nobody's."""
    launch = v.kernel.launch
    if launch.clusters == 1:
        return
    of = {one.object: launch.block(one.cta) for one in v.kernel.layout.regions if one.space != "global"}
    for program, _, node in v.nodes():
        block = launch.block(program.me.number)
        met = meeting_of(program, node.operation)
        of.update(dict.fromkeys((program.home, program.peers, *([] if met is None else [met])), block))
    roles = {program.name: launch.block(program.me.number) for program in v.programs}
    owner = {one.name: roles.get(one.role, of.get(one.of, -1)) for one in v.all}
    for block in range(launch.blocks):
        mine = tuple(name for name, where in roles.items() if where == block)
        yield ClusterInfo(block // launch.clusters, mine, tuple(name for name in owner if owner[name] == block))


def _barrier_info(v: Variables) -> Iterable[BarrierInfo]:
    unbalanced, busy, announced = _unbalanced(v), _not_plain(v), _announced(v)
    unseen: dict[str, list[tuple[str, str]]] = {}
    for (role, barrier), variable in v.unseen.items():
        unseen.setdefault(barrier, []).append((role, variable.name))
    for name, b in v.barriers.items():
        plan = v.plans[name]
        names = (name_of(b.phase), name_of(b.pending), name_of(b.tx), name_of(b.expected))
        triggered = any(arrivals.barrier == name for arrivals in v.triggers)
        balanced = not triggered and name not in unbalanced
        plain = balanced and name not in busy and _is_plain(v, name, plan)
        waiters = tuple(unseen.get(name, ()))
        yield BarrierInfo(name, plan.arrivals, *names, waiters, plain, name in announced, balanced)


def _announced(v: Variables) -> set[str]:
    """The barriers of which bytes are announced or completed by an operation of their own."""
    return {node.operation.barrier for _, _, node in v.nodes() if isinstance(node.operation, op.Transaction)}


def _unbalanced(v: Variables) -> set[str]:
    """All barriers but those of which every expect_tx is followed at once by an arrival of its thread, and the bytes
    that a role announces are those of the copies that it issues, with nothing in between that could make it wait;
    where copies come from other CTAs, every arrival on a balanced one announces bytes.
    """
    homes: dict[str, int] = {}
    for region in v.kernel.layout.regions:
        homes.setdefault(region.object, region.cta)
    far = {
        copies.barrier
        for program, _, node in v.nodes()
        for copies, _ in effects_of(node.operation).lands
        if program.me.number != homes[copies.barrier]
    }
    found: set[str] = set()
    for program, _, node in v.nodes():
        operation = node.operation
        if isinstance(operation, op.Transaction):
            name = operation.barrier
            following = [program.nodes[to].operation for to in node.successors.values()]
            if operation.bytes < 0 or not all(_arrives_on(one, name) for one in following):
                found.add(name)
        if isinstance(operation, op.Arrive) and not operation.expect:
            found.update(part.barrier for part in operation.parts if part.barrier in far)
        if not _goes_on(operation):
            for ahead in (node.ahead, *(drift[2] for drift in node.drift)):
                found.update(name for name, bytes in ahead.items() if bytes and name not in far)
    return found


def _goes_on(operation: op.Operation | None) -> bool:
    """Nobody can make the role wait there."""
    return isinstance(operation, op.Arrive | op.Transaction) or bool(effects_of(operation).lands) or is_local(operation)


def _arrives_on(operation: op.Operation | None, name: str) -> bool:
    return isinstance(operation, op.Arrive) and _is_on(operation, name) and operation.count > 0


def _is_on(arrive: op.Arrive, name: str) -> bool:
    return any(part.barrier == name for part in arrive.parts)


def _is_plain(v: Variables, name: str, plan: BarrierPlan) -> bool:
    return not (plan.inits or plan.drops or plan.tokens or not plan.distance or name in v.kernel.rules.unobserved)


def _not_plain(v: Variables) -> set[str]:
    """The barriers to which some operation does what a plain one does not know."""
    found: set[str] = set()
    for _, _, node in v.nodes():
        effects = effects_of(node.operation)
        if effects.waits is not None:
            found.update([effects.waits.barrier] if effects.waits.kind == "test_wait" else [])
            continue
        match effects.signal:
            case op.Arrive(kind=kind):
                found.update(part.barrier for part in effects.signal.parts if kind != "arrive")
            case op.Init(barrier=barrier) | op.Inval(barrier=barrier):
                found.add(barrier)
            case None | op.Transaction():
                pass
            case _:
                assert_never(effects.signal)
    return found


def _copy_info(v: Variables) -> Iterable[CopyInfo]:
    for key, (busy, piece, issues) in v.copies.items():
        content = v.content.get(key.write.object)
        names = ("" if content is None else content.name, "" if piece is None else piece.name)
        yield CopyInfo(busy.name, key.write.object, key.barrier, key.bytes, *names, issues)


def _progress(v: Variables) -> Iterable[RoleProgress]:
    for program in v.programs:
        inside = [node for node in program.nodes if blocks_inside(node.operation)]
        nodes = (*program.nodes, *inside)
        kinds: tuple[tuple[ProgressKind, int, int], ...] = (("arrived", 0, 0), ("observed", 1, -1), ("expected", 2, 0))
        for kind, pick, start in kinds:
            names: dict[str, None] = {}
            for node in nodes:
                names.update(dict.fromkeys((node.arrived, node.observed, node.ahead)[pick]))
            for name in names:
                values = tuple((node.arrived, node.observed, node.ahead)[pick].get(name, start) for node in nodes)
                modulus = 0
                for node in nodes:
                    here = (node.arrived, node.observed, node.ahead)[pick].get(name, start)
                    for drift in node.drift:
                        modulus = gcd(modulus, drift[pick].get(name, start) - here)  # type: ignore[union-attr]
                yield RoleProgress(program.name, kind, name, modulus, values)
        if any(node.loop for node in nodes):
            modulus = 0
            for node in nodes:
                for drift in node.drift:
                    modulus = gcd(modulus, drift[3] - node.iteration)
            yield RoleProgress(program.name, "iteration", "trips", modulus, tuple(node.iteration for node in nodes))


def name_of(part: Expr) -> str:
    """The variable that holds it, "" for a constant."""
    return part.name if isinstance(part, Field) else ""
