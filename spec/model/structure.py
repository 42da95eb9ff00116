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


def structure_of(v: Variables) -> Structure:
    """The barriers, the copies, and how far each role has got at each of its locations."""
    return Structure(tuple(_barrier_info(v)), tuple(_copy_info(v)), tuple(_progress(v)), tuple(_clusters(v)))


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
    for name, b in v.barriers.items():
        unseen = tuple((role, var.name) for (role, barrier), var in v.unseen.items() if barrier == name)
        plan = v.plans[name]
        names = (name_of(b.phase), name_of(b.pending), name_of(b.tx), name_of(b.expected))
        triggered = any(arrivals.barrier == name for arrivals in v.triggers)
        balanced = not triggered and _is_balanced(v, name)
        plain = balanced and _is_plain(v, name, plan)
        yield BarrierInfo(name, plan.arrivals, *names, unseen, plain, _announces(v, name), balanced)


def _announces(v: Variables, name: str) -> bool:
    return any(
        isinstance(node.operation, op.Transaction) and node.operation.barrier == name for _, _, node in v.nodes()
    )


def _is_balanced(v: Variables, name: str) -> bool:
    """Every expect_tx on the barrier is followed at once by an arrival of its thread. The bytes that a role announces
    there are those of the copies that it issues, with nothing in between that could make it wait; where copies come
    from other CTAs, every arrival announces bytes.
    """
    home = next(region.cta for region in v.kernel.layout.regions if region.object == name)
    far = any(
        copies.barrier == name and program.me.number != home
        for program, _, node in v.nodes()
        for copies, _ in effects_of(node.operation).lands
    )
    for program, _, node in v.nodes():
        operation = node.operation
        if isinstance(operation, op.Transaction) and operation.barrier == name:
            following = [program.nodes[to].operation for to in node.successors.values()]
            if operation.bytes < 0 or not all(_arrives_on(one, name) for one in following):
                return False
        if far and isinstance(operation, op.Arrive) and _is_on(operation, name) and not operation.expect:
            return False
        announced = not far and (node.ahead.get(name, 0) or any(drift[2].get(name, 0) for drift in node.drift))
        if announced and not _goes_on(operation):
            return False
    return True


def _goes_on(operation: op.Operation | None) -> bool:
    """Nobody can make the role wait there."""
    return isinstance(operation, op.Arrive | op.Transaction) or bool(effects_of(operation).lands) or is_local(operation)


def _arrives_on(operation: op.Operation | None, name: str) -> bool:
    return isinstance(operation, op.Arrive) and _is_on(operation, name) and operation.count > 0


def _is_on(arrive: op.Arrive, name: str) -> bool:
    return any(part.barrier == name for part in arrive.parts)


def _is_plain(v: Variables, name: str, plan: BarrierPlan) -> bool:
    if plan.inits or plan.drops or plan.tokens or not plan.distance or name in v.kernel.rules.unobserved:
        return False
    return all(_is_plain_on(node.operation, name) for _, _, node in v.nodes())


def _is_plain_on(operation: op.Operation | None, name: str) -> bool:
    """The operation does nothing to the barrier, or only what a plain one knows."""
    effects = effects_of(operation)
    if effects.waits is not None:
        return effects.waits.barrier != name or effects.waits.kind != "test_wait"
    match effects.signal:
        case op.Arrive(kind=kind):
            return not _is_on(effects.signal, name) or kind == "arrive"
        case op.Init(barrier=barrier) | op.Inval(barrier=barrier):
            return barrier != name
        case None | op.Transaction():
            return True
        case _:
            assert_never(effects.signal)


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
