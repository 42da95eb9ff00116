"""What no schedule is needed for: kernels that cannot be launched, and operations that are illegal wherever they are.

`validate` is the only gate between what was traced and whatever answers questions about it: it raises a SpecError, one
line that says what is wrong, where, and what to write instead. What depends on the schedule, or is a finding of its
own (counts of mbarriers and of named barriers, the operand of setmaxnreg), is left to the engines.

A role may stand for some of the threads of its warps alone (one elected lane), so the threads of the roles are a lower
bound of those of the CTA: more than a CTA can have is wrong, fewer than a warp is not. wgmma is the exception, since a
warpgroup executes it as a whole.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import assert_never

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model import launched
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.layout import Layout, Region
from sm90_verify.spec.model.operation_checks import by_a_part_alone, part_of_a_warpgroup, wrong_value, wrong_with
from sm90_verify.spec.model.ordinary_copies import not_together
from sm90_verify.spec.model.registers import not_its_own
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import (
    CTA_THREADS,
    REGISTERS_OF_SM,
    REGISTERS_OF_THREAD,
    SHARED_OF_CTA,
    misplaced_mbarrier,
    outside_shared,
)
from sm90_verify.spec.ptx.memory import describe


def validate(kernel: Kernel, *, annotated: bool = False) -> None:
    """Raises SpecError for a kernel that is wrong in every schedule. annotated:
    its programs have just come from `annotate`, and need not be compared with what that makes of them.
    """
    if not annotated:
        from sm90_verify.spec.model import handmade

        handmade.check_fields(kernel)
    programs, together = kernel.programs, warpgroups_of(kernel.programs)
    _check_names(programs)
    launched.check_homes(programs, kernel.launch)
    launched.check_starts(kernel)
    _check_memory(kernel.layout)
    _check_threads(programs)
    _check_registers(programs, kernel.registers)
    _check_barrier_zero(programs)
    if not annotated:
        handmade.check_layout(kernel.layout, kernel.launch)
        handmade.check_parts(programs)
    for program in programs:
        of_wgmma, is_joint = part_of_a_warpgroup(program, programs), program.name in together
        for node in _once(program):
            what = wrong_with(node.operation, program, of_wgmma, kernel.launch)
            if is_joint:
                what = what or by_a_part_alone(node.operation, program)
            if what:
                raise SpecError(what, node.source)
    if not annotated:
        _check_annotations(programs)
        handmade.check_phases(programs)
    _check_things(programs, kernel.layout)


def _check_names(programs: Sequence[Program]) -> None:
    """Copies of a role are numbered: `math1` is the second copy of `math`, or a role of that name, but not both."""
    where: dict[str, Source | None] = {}
    for program in programs:
        if where.setdefault(program.role, program.where) != program.where:
            raise SpecError(f"two roles are called {program.role}: give one of them another name", program.where)
    names = [program.name for program in programs]
    for program in programs:
        if names.count(program.name) > 1:
            raise SpecError(f"two programs are called {program.name}: give one of them another name", program.where)


def _check_things(programs: Sequence[Program], layout: Layout) -> None:
    """Whatever an operation names has a place: mbarriers, and buffers in the memory and the CTA that it says."""
    barriers = {region.object: region for region in layout.regions if region.declaration in layout.barriers}
    places = {(region.object, region.space, region.cta): region for region in layout.regions}
    crowded = {region.object for found in layout.under.values() for region in found}
    if len({region.object for region in layout.regions}) < len(layout.regions):
        raise SpecError("two regions of the layout have the same name: give each object one place")
    for program, node in ((one, node) for one in programs for node in _once(one)):
        effects = effects_of(node.operation)
        named = [copies.barrier for copies, _ in effects.lands] + [one.barrier for one in (effects.triggers,) if one]
        if wrong := not_together(node.operation, barriers, program):
            raise SpecError(wrong, node.source)
        acts: tuple[op.Signal | op.Wait, ...] = effects.signals if effects.waits is None else (effects.waits,)
        for name in (*(on.barrier for on in acts), *named):
            if name not in barriers:
                raise SpecError(f"no barrier is called {name!r}: the layout has {_some(barriers)}", node.source)
        for on in acts:
            if wrong := _wrong_form(on, barriers[on.barrier], program, crowded):
                raise SpecError(wrong, node.source)
        if effects.word is not None and (wrong := wrong_value(effects.word, layout.words)):
            raise SpecError(wrong, node.source)
        for access in effects.accesses if effects.begins else ():
            region = places.get((access.object, access.space, access.cta))
            if region is None:
                what = f"no buffer {access.object!r} lies in {access.space} memory of CTA {access.cta}"
                raise SpecError(f"{what}: the layout has {_some(name for name, _, _ in places)}", node.source)
            if wrong := not_its_own(program, region):
                raise SpecError(wrong, node.source)
            if not region.start <= access.start < region.stop:
                what = f"{describe(access)} begins at address {access.start}"
                raise SpecError(f"{what}: {access.object} has {region.start} to {region.stop - 1}", node.source)


def _wrong_form(on: op.Signal | op.Wait, barrier: Region, program: Program, crowded: Container[str]) -> str:
    """What is wrong with how an operation names its barrier: as one of another CTA, or of its own; and, where a buffer
    lies in it too, with the bytes that it writes.
    """
    away = barrier.cta != program.me.number
    match on:
        case op.Arrive() | op.Transaction():
            if on.cta != barrier.cta and (away or on.cta >= 0):
                what = f"{on.barrier} lies in CTA {barrier.cta}, and the operation is for cta={on.cta}"
                return f"{what}: use {barrier.cta}"
            return ""
        case op.Wait() | op.Init() | op.Inval():
            if away and not on.remote:
                return (
                    f"{on.barrier} lies in CTA {barrier.cta}, and {program.name} in CTA {program.me.number}: say remote"
                )
        case _:
            assert_never(on)
    if isinstance(on, op.Wait):
        if isinstance(on.phase, op.Token) and on.phase.barrier != on.barrier:
            return f"a wait on {on.barrier} with the token of an arrive on {on.phase.barrier}: wait on its own"
        return ""
    written = barrier.access(write=True)
    if on.write != written and (on.write is not None or on.barrier in crowded):
        return f"{on.barrier} shares bytes with a buffer: its operation writes {written}"
    return ""


def _some(names: Iterable[str]) -> str:
    """The first of them, for a line."""
    first = sorted(set(names))
    return ", ".join(first[:4]) + (", …" if len(first) > 4 else "") or "none"


# ---------------------------------------------------------------- addresses


def _check_memory(layout: Layout) -> None:
    """Every declaration lies in memory that is there, and mbarriers at multiples of their size."""
    for region in layout.regions:
        wrong = _wrong_place(region, region.declaration in layout.barriers, layout.begins)
        if wrong:
            raise SpecError(wrong, layout.places.get(region.declaration))


def _wrong_place(region: Region, barrier: bool, begins: int) -> str:
    if region.stop <= region.start:
        return f"{region.object} has {region.stop - region.start} bytes: use 1 or more"
    size = begins + SHARED_OF_CTA if region.space == "shared" else region.stop
    wrong = outside_shared(region.object, region.start, region.stop, size)
    return wrong or (misplaced_mbarrier(region.object, region.start) if barrier else "")


# ---------------------------------------------------------------- threads and registers


def _check_threads(programs: Sequence[Program]) -> None:
    """The roles of a CTA fit into it."""
    total: dict[str, int] = {}
    for program in programs:
        threads = total[program.home] = total.get(program.home, 0) + program.me.threads
        if threads > CTA_THREADS:
            here = f"the roles of a CTA up to {program.name} have {threads} threads"
            raise SpecError(f"{here}: a CTA has {CTA_THREADS} at most; use fewer threads or copies", program.where)


def _check_registers(programs: Sequence[Program], registers: int) -> None:
    """A thread can have them; and where setmaxnreg moves registers, those of the launch are there: without it nothing
    says what a thread has.
    """
    changes = [(program, node) for program, node in _nodes(programs) if isinstance(node.operation, op.Setmaxnreg)]
    if not 1 <= registers <= REGISTERS_OF_THREAD:
        where = changes[0][1].source if changes else programs[0].where
        raise SpecError(f"registers={registers} per thread at launch: use 1 to {REGISTERS_OF_THREAD}", where)
    for change, node in changes:
        threads = sum(program.me.threads for program in programs if program.home == change.home)
        if registers * threads > REGISTERS_OF_SM:
            what = f"{threads} threads of registers={registers} have {registers * threads} at launch"
            raise SpecError(f"{what}: an SM has {REGISTERS_OF_SM}; launch with fewer", node.source)


# ---------------------------------------------------------------- operations


def _check_annotations(programs: Sequence[Program]) -> None:
    """What is said of each location follows from the ways to it: engines would believe that nothing is in flight."""
    for program in programs:
        if program != annotate(program):
            what = f"role {program.name} holds at some location what its operations do not leave there"
            raise SpecError(f"{what}: put the program through annotate", program.where)


def _check_barrier_zero(programs: Sequence[Program]) -> None:
    """__syncthreads() is bar.sync 0 of all threads (9.7.13.1): a barrier of some threads cannot be the same one."""
    syncs: dict[str, Source] = {}
    for program, node in _nodes(programs):
        if isinstance(node.operation, op.CtaSync):
            syncs.setdefault(program.home, node.source)
    for program, node in _nodes(programs):
        if isinstance(node.operation, op.NamedSync) and node.operation.id == 0 and program.home in syncs:
            line = syncs[program.home].line
            what = f"named barrier 0 is that of __syncthreads(), which the CTA executes in line {line}"
            raise SpecError(f"{what}: use another id, 1 to 15", node.source)


def _once(program: Program) -> Iterable[Node]:
    """The first location of every record of an operation: what is wrong with one is so wherever it is executed."""
    found: dict[int, Node] = {}
    for node in program.nodes:
        found.setdefault(id(node.operation), node)
    return found.values()


def _nodes(programs: Sequence[Program]) -> Iterator[tuple[Program, Node]]:
    return ((program, node) for program in programs for node in program.nodes)
