"""cp.async.mbarrier.arrive (PTX ISA 9.7.13.15.15): arrivals that follow cp.asyncs, as agents without a program.

What the cp.asyncs access is in progress until the arrival that tracks them, or a later one of the same thread, has been
made, or the thread has waited for their group. Which of these a thread has waited for, and which it has issued in which
order, is a function of where it is (Held.tracked); how many have not been made is a variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.accesses import Flight, in_locations
from sm90_verify.spec.model.barrier_plans import MOST_TRIGGERED
from sm90_verify.spec.model.flow import blocks_inside
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Field, all_of, any_of, is_false
from sm90_verify.spec.ptx.memory import Access


def triggers_of(kernel: Kernel, new: Callable[..., Field]) -> dict[TriggeredArrivals, tuple[Field, Source]]:
    """What the operations of a kernel trigger: how many of each have not been made, and where it is written first. new:
    makes a variable.
    """
    found: dict[TriggeredArrivals, tuple[Field, Source]] = {}
    for node in (node for program in kernel.programs for node in program.nodes):
        if (arrivals := effects_of(node.operation).triggers) is not None and arrivals not in found:
            name, about = arrivals.barrier, f"arrivals at {arrivals.barrier} that follow cp.asyncs"
            number = sum(1 for one in found if one.barrier == name)
            text, width = f"{name}.triggered{number + 1 if number else ''}", MOST_TRIGGERED.bit_length()
            counter = new(text, width, 0, about, kind="triggered", of=name, index=number)
            found[arrivals] = counter, node.source
    return found


def flights_of(
    programs: Iterable[Program],
    counters: Mapping[str, Field],
    triggers: Mapping[TriggeredArrivals, tuple[Field, Source]],
    arrivals: TriggeredArrivals,
    grid_of: Callable[[int], int],
) -> Iterator[Flight]:
    """What is in progress until the arrivals have been made. counters: of the roles, where they are; triggers: how many
    arrivals have not been made. grid_of: by CTA.
    """
    by_grid: dict[int, list[Program]] = {}
    for program in programs:
        by_grid.setdefault(grid_of(program.me.number), []).append(program)
    for access, (grid, mine) in product(arrivals.tracks, by_grid.items()):
        places = [(counters[program.name], _copying(program, arrivals, access)) for program in mine]
        busy = any_of(
            all_of((in_locations(counter, where), *(triggers[one][0] != 0 for one in later)))
            for counter, found in places
            for later, where in found.items()
        )
        if not is_false(busy):
            yield Flight(access, busy, access.object, arrivals, grid)


def _copying(
    program: Program, arrivals: TriggeredArrivals, access: Access
) -> dict[tuple[TriggeredArrivals, ...], list[int]]:
    """Where the role has the access in progress unless these arrivals, or later ones, have been made: by which."""
    places: dict[tuple[TriggeredArrivals, ...], list[int]] = {}
    nodes = (*program.nodes, *(node for node in program.nodes if blocks_inside(node.operation)))
    for index, node in enumerate(nodes):
        order = [one for one, _ in node.held.tracked]
        if any(one == arrivals and access in some for one, some in node.held.tracked):
            places.setdefault(tuple(order[order.index(arrivals) :]), []).append(index)
    return places
