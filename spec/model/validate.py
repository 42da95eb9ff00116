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
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.layout import Layout, Region
from sm90_verify.spec.model.word_checks import not_of, wrong_order, wrong_value
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.effects import Begun, Copies, Groups, effects_of
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
    BULK_GROUPS,
    COUNT_LIMIT,
    CTA_THREADS,
    MATRIX_ALIGNMENT,
    MMA_GROUPS,
    REGISTERS_OF_SM,
    REGISTERS_OF_THREAD,
    SHARED_OF_CTA,
    TENSORMAP_ALIGNMENT,
    TENSORMAP_BYTES,
    WARPGROUP,
    misaligned_copy,
    misplaced_mbarrier,
    outside_shared,
)
from sm90_verify.spec.ptx.mbarrier import TX_WIDTH
from sm90_verify.spec.ptx.memory import Access, describe

MOST_GROUPS: dict[Groups, int] = {"mma": MMA_GROUPS, "bulk": BULK_GROUPS}
"""Groups that are told apart: a wait leaves fewer pending."""


def validate(kernel: Kernel, *, annotated: bool = False) -> None:
    """Raises SpecError for a kernel that is wrong in every schedule. annotated:
    its programs have just come from `annotate`, and need not be compared with what that makes of them.
    """
    if not annotated:
        from sm90_verify.spec.model import handmade

        handmade.check_fields(kernel)
    programs = kernel.programs
    _check_names(programs)
    _check_homes(programs, kernel.cluster)
    _check_memory(kernel.layout)
    _check_threads(programs)
    _check_registers(programs, kernel.registers)
    _check_barrier_zero(programs)
    if not annotated:
        handmade.check_layout(kernel.layout, kernel.cluster)
        handmade.check_parts(programs)
    for program, node in _nodes(programs):
        what = _wrong_with(node.operation, program, programs, kernel.cluster)
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


def _check_homes(programs: Sequence[Program], shape: Cluster) -> None:
    """Every program is that of a CTA that is there."""
    for program in programs:
        if not 0 <= program.me.cta < shape.size:
            raise SpecError(f"role {program.name} is that of CTA {program.me.cta}: use 0 to {shape.size - 1}")
        if program.home != shape.home(program.me.cta):
            what = f"role {program.name} of CTA {program.me.cta} has the home {program.home!r}"
            raise SpecError(f"{what}: use {shape.home(program.me.cta)!r}", program.where)


def _check_things(programs: Sequence[Program], layout: Layout) -> None:
    """Whatever an operation names has a place: mbarriers, and buffers in the memory and the CTA that it says."""
    barriers = {region.object: region for region in layout.regions if region.declaration in layout.barriers}
    places = {(region.object, region.space, region.cta): region for region in layout.regions}
    crowded = {region.object for found in layout.under.values() for region in found}
    if len({region.object for region in layout.regions}) < len(layout.regions):
        raise SpecError("two regions of the layout have the same name: give each object one place")
    for program, node in _nodes(programs):
        effects = effects_of(node.operation)
        named = [copies.barrier for copies, _ in effects.lands]
        on = effects.signal if effects.waits is None else effects.waits
        for name in named if on is None else (on.barrier, *named):
            if name not in barriers:
                raise SpecError(f"no barrier is called {name!r}: the layout has {_some(barriers)}", node.source)
        if on is not None and (wrong := _wrong_form(on, barriers[on.barrier], program, crowded)):
            raise SpecError(wrong, node.source)
        if effects.word is not None and (wrong := wrong_value(effects.word, layout.words)):
            raise SpecError(wrong, node.source)
        for access in effects.accesses if effects.begins else ():
            region = places.get((access.object, access.space, access.cta))
            if region is None:
                what = f"no buffer {access.object!r} lies in {access.space} memory of CTA {access.cta}"
                raise SpecError(f"{what}: the layout has {_some(name for name, _, _ in places)}", node.source)
            if not region.start <= access.start < region.stop:
                what = f"{describe(access)} begins at address {access.start}"
                raise SpecError(f"{what}: {access.object} has {region.start} to {region.stop - 1}", node.source)


def _wrong_form(on: op.Signal | op.Wait, barrier: Region, program: Program, crowded: Container[str]) -> str:
    """What is wrong with how an operation names its barrier: as one of another CTA, or of its own; and, where a buffer
    lies in it too, with the bytes that it writes.
    """
    away = barrier.cta != program.me.cta
    match on:
        case op.Arrive() | op.Transaction():
            if on.cta != barrier.cta and (away or on.cta >= 0):
                what = f"{on.barrier} lies in CTA {barrier.cta}, and the operation is for cta={on.cta}"
                return f"{what}: use {barrier.cta}"
            return ""
        case op.Wait() | op.Init() | op.Inval():
            if away and not on.remote:
                return f"{on.barrier} lies in CTA {barrier.cta}, and {program.name} in CTA {program.me.cta}: say remote"
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
        wrong = _wrong_place(region, region.declaration in layout.barriers)
        if wrong:
            raise SpecError(wrong, layout.places.get(region.declaration))


def _wrong_place(region: Region, barrier: bool) -> str:
    if region.stop <= region.start:
        return f"{region.object} has {region.stop - region.start} bytes: use 1 or more"
    size = SHARED_OF_CTA if region.space == "shared" else region.stop
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


def _wrong_with(operation: op.Operation | None, program: Program, programs: Sequence[Program], shape: Cluster) -> str:
    """What is wrong with one operation of a role, wherever it is executed; "" if nothing is."""
    effects = effects_of(operation)
    if isinstance(effects.signal, op.Arrive | op.Transaction) and not -1 <= effects.signal.cta < shape.size:
        return f"{effects.signal.barrier} of CTA {effects.signal.cta}: use 0 to {shape.size - 1}"
    if isinstance(effects.signal, op.Arrive) and effects.signal.count * (effects.signal.expect or 0) >= 1 << TX_WIDTH:
        what = f"{effects.signal.count} threads that expect {effects.signal.expect} bytes each"
        return f"{what}: a tx-count has {COUNT_LIMIT} at most"
    if not effects.begins and not effects.lands and effects.commits is None and effects.ends is None:
        return ""
    wrong = [_outside(access, shape) for access in effects.accesses]
    wrong += [_unlike(begun, operation) for begun in effects.begins]
    wrong += [not_of(access.strong, program) for access in effects.accesses if access.strong is not None]
    wrong += [_wrong_copies(copies) for copies, _ in effects.lands]
    sources = [one.access for one in effects.begins if one.until == "bulk_group" and one.data]
    for name, start, stop in _in_one_piece(sources):
        wrong.append(misaligned_copy("a bulk store of", name, start, stop - start))
    if isinstance(operation, op.Store):
        wrong += _wrong_with_store(operation)
    if isinstance(operation, op.Load):
        wrong += _wrong_with_load(operation)
    if effects.word is not None:
        wrong.append(wrong_order(effects.word))
    if effects.ends is not None and effects.ends.pending >= (most := MOST_GROUPS[effects.ends.groups]):
        wrong.append(f"a wait that leaves {effects.ends.pending} groups pending: use 0 to {most - 1}")
    operands = effects.lasting("mma_group")
    if operands or "mma" in (effects.commits, effects.ends and effects.ends.groups):
        wrong += [_part_of_a_warpgroup(program, programs), *map(_wrong_operand, operands)]
    return next(filter(None, wrong), "")


def _outside(access: Access, shape: Cluster) -> str:
    if not 0 <= access.cta < shape.size:
        return f"{access.object} of CTA {access.cta}: use 0 to {shape.size - 1}"
    if access.start < 0:
        return f"{access.object} begins at address {access.start}: use 0 or more"
    size = access.stop - access.start
    return f"{describe(access)} is of {size} bytes: use 1 or more" if size < 1 else ""


def _unlike(begun: Begun, operation: op.Operation | None) -> str:
    """What an access says and its operation does not do."""
    if begun.access.how == begun.how and (begun.access.strong is not None) == begun.strong:
        return ""
    if begun.access.how == begun.how:
        what = f"{describe(begun.access)} in {type(operation).__name__} is {'not ' * begun.strong}strong"
        return f"{what}: {'give it' if begun.strong else 'leave out'} strong=Strong(scope, cta)"
    proxy, verb = begun.how.split()
    kind = f" of kind {operation.kind!r}" if isinstance(operation, op.Touch) else ""
    what = f"{describe(begun.access)} in {type(operation).__name__}{kind}, which {verb}s it through the {proxy} proxy"
    return f"{what}: use as_{verb}(access, {proxy!r})"


def _wrong_copies(copies: Copies) -> str:
    if copies.bytes < BULK_ALIGNMENT or copies.bytes % BULK_ALIGNMENT:
        return f"a bulk copy that signals {copies.bytes} bytes: use a positive multiple of {BULK_ALIGNMENT}"
    if copies.bytes > COUNT_LIMIT:
        return f"a bulk copy that signals {copies.bytes} bytes: a tx-count has {COUNT_LIMIT} at most"
    if copies.pieces < 1 or copies.bytes % copies.pieces:
        return f"a bulk copy of {copies.bytes} bytes in {copies.pieces} pieces: use a number that divides the bytes"
    sides = [("a bulk copy to" if one.write else "a bulk copy of", one) for one in copies.accesses]
    found = [misaligned_copy(what, one.object, one.start, one.stop - one.start) for what, one in sides]
    for what, one in sides:
        if one.stop - one.start != copies.bytes:
            size = f"{what} {one.object} of {one.stop - one.start} bytes"
            found.append(f"{size} that signals {copies.bytes}: use the same number")
    return next(filter(None, found), "")


def _wrong_with_load(load: op.Load) -> Iterator[str]:
    """A mask has one bit for each CTA, and what TMA writes lies in shared memory."""
    ctas = [access.cta for access, _ in load.destinations]
    for cta in ctas:
        if ctas.count(cta) > 1:
            yield f"a multicast to CTA {cta} twice: name each CTA once"
    for access, _ in load.destinations:
        if access.space != "shared":
            yield f"a bulk copy that signals a barrier goes to {access.object} in {access.space} memory: use shared"


def _wrong_with_store(store: op.Store) -> Iterator[str]:
    """A destination that a tensormap describes may begin anywhere in its tensor."""
    if store.destination is not None and store.tensormap is None:
        yield misaligned_copy("a bulk store to", store.destination.object, store.destination.start, BULK_ALIGNMENT)
    if store.tensormap is not None:
        at, size = store.tensormap.start, store.tensormap.stop - store.tensormap.start
        if at % TENSORMAP_ALIGNMENT or size != TENSORMAP_BYTES:
            has = f"a tensormap is {TENSORMAP_BYTES} bytes at a multiple of {TENSORMAP_ALIGNMENT}"
            yield f"the tensormap {store.tensormap.object} has {size} bytes at address {at}: {has}"


def _in_one_piece(sources: Iterable[Access]) -> list[tuple[str, int, int]]:
    """(first buffer, start, stop): buffers that lie one after the other without a gap are one copy."""
    found: list[tuple[str, int, int]] = []
    for access in sorted(sources, key=lambda one: (one.space, one.cta, one.start)):
        if found and found[-1][2] == access.start:
            found[-1] = (found[-1][0], found[-1][1], access.stop)
        else:
            found.append((access.object, access.start, access.stop))
    return found


def _part_of_a_warpgroup(program: Program, programs: Sequence[Program]) -> str:
    """A warpgroup executes wgmma, its commits and its waits (9.7.15): a role, with all its parts, is some of them."""
    threads = sum(other.me.threads for other in programs if other.role == program.role)
    if threads % WARPGROUP == 0:
        return ""
    return f"wgmma by {threads} threads of {program.role}: all {WARPGROUP} of a warpgroup execute it; use warpgroups=1"


def _wrong_operand(access: Access) -> str:
    if access.space == "shared" and access.start % MATRIX_ALIGNMENT:
        return f"wgmma of {access.object} at address {access.start}: use a multiple of {MATRIX_ALIGNMENT}"
    return ""


def _nodes(programs: Sequence[Program]) -> Iterator[tuple[Program, Node]]:
    return ((program, node) for program in programs for node in program.nodes)
