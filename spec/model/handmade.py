"""What only somebody who makes a kernel by hand can get wrong: fields of other types, objects that no layout has, parts
of one role that are none. What a front end hands over is right in all this by the way in which it is made.

The types say what a field can be, ranges included (`Annotated` with a range); this module only compares.
"""

from __future__ import annotations

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.layout import Layout, Region, barriers_over
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import COUNT_LIMIT, MBARRIER_BYTES
from sm90_verify.spec.ptx.misfit import misfit
from sm90_verify.spec.ptx.phase import Phase


def check_fields(kernel: Kernel) -> None:
    """Raises SpecError for a kernel of which a field has another type than it says."""
    _fields(kernel, "kernel", ("programs",))
    if not isinstance(kernel.programs, tuple) or not kernel.programs:
        raise SpecError(f"the kernel has the programs {kernel.programs!r}: use a tuple of one Program or more")
    for program in kernel.programs:
        check_program(program)


def check_program(program: Program) -> None:
    """Raises SpecError for a program of which a field has another type than it says."""
    if not isinstance(program, Program):
        raise SpecError(f"a kernel has {program!r} among its programs: use a Program for each role")
    _fields(program, f"program {program.name}", ("nodes",), program.where)
    if not isinstance(program.nodes, tuple):
        raise SpecError(f"program {program.name} has {type(program.nodes).__name__} nodes: use a tuple", program.where)
    for index, node in enumerate(program.nodes):
        here = f"program {program.name}, location {index}"
        if not isinstance(node, Node):
            raise SpecError(f"{here}: {node!r} is no Node", program.where)
        _fields(node, here, ("operation",), node.source)
        if node.operation is not None and (wrong := op.unknown(node.operation)):
            raise SpecError(wrong, node.source)


def _fields(record: object, name: str, without: tuple[str, ...], place: object = None) -> None:
    where, why = misfit(record, without)
    if why:
        raise SpecError(f"{where} of {name}: {why}", place if isinstance(place, Source) else None)


# ---------------------------------------------------------------- objects


def check_layout(layout: Layout, launch: LaunchShape) -> None:
    """Raises SpecError where something is said of objects that have no place, or that does not follow from places."""
    barriers = [one.object for one in layout.regions if one.declaration in layout.barriers]
    buffers = [one.object for one in layout.regions if one.declaration not in layout.barriers]
    for region in layout.regions:
        if wrong := _misplaced(region, region.object in barriers, launch):
            raise SpecError(wrong, layout.places.get(region.declaration))
    for name, count in layout.arrivals.items():
        if name not in barriers:
            raise SpecError(f"arrivals of the layout: no barrier is called {name!r}")
        if not 0 <= count <= COUNT_LIMIT:
            raise SpecError(f"{name} expects {count} arrivals: use 1 to {COUNT_LIMIT}")
    for name in layout.holds:
        if name not in buffers:
            raise SpecError(f"holds of the layout: no buffer is called {name!r}")
    under = barriers_over(layout.regions, layout.barriers)
    if layout.under != under:
        wrong = next(name for name in (*under, *layout.under) if under.get(name) != layout.under.get(name))
        there = ", ".join(one.object for one in under.get(wrong, ())) or "no barrier"
        what = f"under of the layout is wrong about {wrong}, in whose bytes {there} lies"
        raise SpecError(f"{what}: use barriers_over(regions, barriers)")


def _misplaced(region: Region, barrier: bool, launch: LaunchShape) -> str:
    ctas = 1 if region.space == "global" else launch.ctas
    if not 0 <= region.cta < ctas:
        return f"{region.object} lies in {region.space} memory of CTA {region.cta}: use 0 to {ctas - 1}"
    if barrier and region.space != "shared":
        return f"{region.object} lies in {region.space} memory: an mbarrier lies in shared memory"
    if barrier and region.stop - region.start != MBARRIER_BYTES:
        return f"{region.object} has {region.stop - region.start} bytes: an mbarrier has {MBARRIER_BYTES}"
    return ""


# ---------------------------------------------------------------- roles


def check_parts(programs: tuple[Program, ...]) -> None:
    """Raises SpecError for programs of one role that are not parts of it, each another one, in one CTA."""
    parts: dict[str, list[Program]] = {}
    for program in programs:
        known = parts.setdefault(program.role, [])
        for other in known:
            if other.me.number != program.me.number:
                what = (
                    f"{other.name} of CTA {other.me.number} and {program.name} of CTA {program.me.number} are parts of"
                )
                raise SpecError(f"{what} the role {program.role}: give each CTA roles of its own", program.where)
            if other.me.index == program.me.index:
                what = f"{other.name} and {program.name} are both part {program.me.index} of the role {program.role}"
                raise SpecError(f"{what}: give one of them another role, or another index", program.where)
        known.append(program)


def check_phases(programs: tuple[Program, ...]) -> None:
    """Raises SpecError for a wait with a Phase whose parity is not that of the phase which its distance says, on some
    way to it: annotate leaves the distance as it is.
    """
    for program in programs:
        _check_skipped(program)
        waits = [node.operation for node in program.nodes if isinstance(node.operation, op.Wait)]
        for barrier in dict.fromkeys(wait.barrier for wait in waits if isinstance(wait.phase, Phase)):
            _check_phases_of(program, barrier)


def _check_skipped(program: Program) -> None:
    """All of a role's waits on a barrier skip phases, with a Phase, or none does; it moves on where it skips some."""
    how: dict[str, set[bool]] = {}
    for node in program.nodes:
        wait = node.operation if isinstance(node.operation, op.Wait) else None
        if node.skips and not (wait is not None and isinstance(wait.phase, Phase)):
            raise SpecError(
                f"{program.name} skips phases where it has no Phase to wait for: use skips=False", node.source
            )
        if wait is not None and not isinstance(wait.phase, op.Token):
            how.setdefault(wait.barrier, set()).add(node.skips)
            if len(how[wait.barrier]) > 1:
                what = f"{program.name} skips phases of {wait.barrier} at some waits only"
                raise SpecError(f"{what}: use skips for all of them or none", node.source)
    for node in program.nodes:
        for answer, moves in node.moves.items():
            wrong = [barrier for barrier, _ in moves if how.get(barrier) != {True}]
            if wrong or answer not in node.successors:
                what = f"{program.name} moves on at {wrong[0]}" if wrong else f"{program.name} moves on for {answer!r}"
                why = "none of its waits there skips phases" if wrong else "the location leads nowhere for that"
                raise SpecError(f"{what}: {why}", node.source)


def _check_phases_of(program: Program, barrier: str) -> None:
    """Follows the parity of the phase that the role has seen last; before all, that of the one before the first. Where
    waits skip phases, the parity of the one before that which the role has moved on to.
    """
    known = {(0, 1)}
    todo = list(known)
    while todo:
        index, seen = todo.pop()
        node = program.nodes[index]
        wait = node.operation if isinstance(node.operation, op.Wait) else None
        phase = None if wait is None or wait.barrier != barrier or isinstance(wait.phase, op.Token) else wait.phase
        if isinstance(phase, Phase) and (seen + node.distance - phase) & 1:
            what = f"{program.name} waits for parity {phase:d} of {barrier}, {node.distance} after a phase"
            raise SpecError(f"{what} of parity {seen}: use the plain parity, and annotate", node.source)
        for answer, target in node.successors.items():
            if phase is not None and answer is not False and not node.skips:
                after = target, int(phase)
            else:
                after = target, (seen + dict(node.moves.get(answer, ())).get(barrier, 0)) & 1
            if after not in known:
                known.add(after)
                todo.append(after)
