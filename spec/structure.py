"""What proofs and reports need to know about a model besides its transitions."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from spec import operations as op
from spec.control import blocks_inside
from spec.expr import Expr, Field
from spec.machine import BarrierInfo, CopyInfo, Progress, Structure
from spec.variables import BarrierPlan, Variables


def structure_of(v: Variables) -> Structure:
    """The barriers, the copies, and how far each role has got at each of its locations."""
    return Structure(tuple(_barrier_info(v)), tuple(_copy_info(v)), tuple(_progress(v)))


def _barrier_info(v: Variables) -> Iterable[BarrierInfo]:
    for name, b in v.barriers.items():
        unseen = tuple((role, var.name) for (role, barrier), var in v.unseen.items() if barrier == name)
        plan = v.plans[name]
        names = (name_of(b.phase), name_of(b.pending), name_of(b.tx))
        yield BarrierInfo(name, plan.arrivals, *names, unseen, _is_plain(v, name, plan), _announces(v, name))


def _announces(v: Variables, name: str) -> bool:
    return any(
        isinstance(node.operation, op.Transaction) and node.operation.barrier == name for _, _, node in v.nodes()
    )


def _is_plain(v: Variables, name: str, plan: BarrierPlan) -> bool:
    if plan.inits or plan.drops or plan.tokens or not plan.distance or not v.pipeline.observation:
        return False
    for _, _, node in v.nodes():
        match node.operation:
            case op.Wait(barrier=barrier, kind="test_wait"):
                if barrier == name:
                    return False
            case op.Arrive(barrier=barrier, kind=kind):
                if barrier == name and kind != "arrive":
                    return False
    return True


def _copy_info(v: Variables) -> Iterable[CopyInfo]:
    for key, (busy, piece, issues) in v.copies.items():
        content = v.content.get(key.write.object)
        names = ("" if content is None else content.name, "" if piece is None else piece.name)
        yield CopyInfo(busy.name, key.write.object, key.barrier, key.bytes, *names, issues)


def _progress(v: Variables) -> Iterable[Progress]:
    for program in v.programs:
        inside = [node for node in program.nodes if blocks_inside(node.operation)]
        nodes = (*program.nodes, *inside)
        for kind, pick, start in (("arrived", 0, 0), ("observed", 1, -1), ("expected", 2, 0)):
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
                yield Progress(program.name, kind, name, modulus, values)
        if any(node.loop for node in nodes):
            modulus = 0
            for node in nodes:
                for drift in node.drift:
                    modulus = gcd(modulus, drift[3] - node.iteration)
            yield Progress(program.name, "iteration", "trips", modulus, tuple(node.iteration for node in nodes))


def name_of(part: Expr) -> str:
    return part.name if isinstance(part, Field) else ""
