"""Tapes of hand-written kernels as a GPU would have recorded them, made of random walks through their models."""

from __future__ import annotations

import re
from dataclasses import replace

from simulated import simulated

from sm90_verify.evidence.hardware.pipelines import shapes
from sm90_verify.evidence.hardware.recorder import tapes
from sm90_verify.evidence.hardware.recorder.conform import atoms
from sm90_verify.evidence.hardware.recorder.tapes import Did, Tape
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

SMALL = {
    "tma-async": {"stages": 2, "trips": 3, "bytes": 4096, "consumers": 2},
    "transaction-async": {"stages": 2, "trips": 3, "bytes": 4096},
    "async": {"stages": 1, "trips": 2, "bytes": 4096},
    "tma-store": {"stages": 2, "trips": 3},
    "ordered-sequence": {"stages": 2, "consumers": 2, "trips": 2},
    "epilogue": {
        "schedule": "pingpong",
        "stages_c": 3,
        "stages_d": 2,
        "reuse_smem_c": True,
        "subtiles": 2,
        "tiles": 2,
        "bytes_c": 4096,
        "bytes_d": 4096,
    },
}
CLUSTER = {"stages": 2, "trips": 3, "bytes": 4096, "cluster": "2x1"}
CASES = [*SMALL.items(), ("tma-async", CLUSTER)]


def told(number):
    """The kernel's word for a write of the model."""
    return number and number + 100


def taped(kernel, parameters, seed=1):
    """A simulated run of the model, and the tapes of a kernel that did the same, in words of its own."""
    model = kernels()[kernel](**parameters)
    plan = lower(trace(model))
    run = simulated(plan, compile_kernel(plan.kernel), seed)
    shape = shapes.shape(shapes.NAMES.index(kernel), model)
    numbers = {}
    for number, key in plan.writers.items():
        numbers.setdefault(key, []).append(number)
    by_role = {role.name: role for role in run.roles}
    rows = []
    for cta in range(model.shape.size):
        home, row = model.shape.home(cta), []
        objects = {names[0]: number for number, names in shape.objects.items() if len(names) == 1}
        for place, role in enumerate(shape.places):
            warp = shape.places[:place].count(role)
            events = []
            for event in by_role[home + role].events:
                operation = plan.nodes[home + role][event.node].operation
                written = numbers.get((home + role, event.node), [0])
                reads = {buffer: (low, high) for buffer, low, high in event.reads}
                for atom in atoms(operation):
                    events += _did(atom, event, objects, warp, shape.places.count(role), written, reads, model)
            row.append(Tape(tuple(events)))
        rows.append(tuple(row))
    stored = [(told(low), told(high)) for low, high in run.stored]
    return plan, shape.names, tuple(rows), run, stored


def _did(atom, event, objects, warp, warps, written, reads, model):
    """The event that tells of an atom, or none if the warp has no part in it; reads of a group before its wait."""

    def at(name):
        return objects[re.sub(r"^cta\d+\.", "", name)]

    one = Did(atom[0], 0, 0, 0, event.waited, 0, event.before, event.after, 0, 0)
    words = [(at(buffer), told(low), told(high)) for buffer, (low, high) in reads.items()]
    match atom:
        case ("wait", barrier, parity):
            return [replace(one, object=at(barrier), operand=parity)]
        case ("arrive", barrier, count, None) if model.shape.size > 1:
            cta = int(barrier[3])
            return [replace(one, object=at(barrier), low=1 << cta if warp < count else 0)]
        case ("arrive", barrier, count, expect):
            code, operand = ("arrive", tapes.ALL) if expect is None else ("arrive_expect", expect)
            return [replace(one, code=code, object=at(barrier), operand=operand, arrived=count // warps)]
        case ("load", buffer, size, barrier, mask):
            number = at(buffer) | at(barrier) << 16
            return [replace(one, object=number, operand=size, low=written[0] + 100, high=mask)]
        case ("write", buffer, size):
            return [replace(one, object=at(buffer), operand=size, low=written[0] + 100, high=written[0] + 100)]
        case ("read" | "mma", buffer, size):
            low, high = reads[buffer]
            return [replace(one, object=at(buffer), operand=size, low=told(low), high=told(high))]
        case ("mma_wait", pending):
            sizes = {at(one.object): one.stop - one.start for one in model.layout.regions}
            again = [replace(one, code="mma_again", object=o, operand=sizes[o], low=a, high=b) for o, a, b in words]
            return [*again, replace(one, operand=pending)]
        case ("expect", barrier, size):
            return [replace(one, object=at(barrier), operand=size)]
        case ("store", buffer, size):
            return [replace(one, object=at(buffer), operand=size)]
        case ("named_sync", number, threads):
            return [replace(one, object=number, operand=threads)]
        case ("bulk_wait_read", pending):
            return [replace(one, operand=pending)]
    return [one]


def changed(rows, role, number, names, **changes):
    """The tapes with one event of a role changed in all its places; None: without it and what follows."""

    def tape(place, one):
        if names.places[place] != role:
            return one
        events = list(one.events)
        if changes:
            events[number] = replace(events[number], **changes)
        else:
            events = events[:number]
        return replace(one, events=tuple(events))

    return ((*(tape(place, one) for place, one in enumerate(rows[0])),), *rows[1:])


class Row(list):
    """Words, as an array has them."""

    def __getitem__(self, part):
        return Row(list.__getitem__(self, part))

    def min(self):
        return min(iter(self))

    def max(self):
        return max(iter(self))


def output_of(plan, run):
    """The rows of the output in the kernel's words: a store is that of the row that its data are tagged with."""
    rows = {}
    for (role, node, access, _), (low, high) in zip(plan.stores, run.stored, strict=True):
        row = rows.setdefault(plan.nodes[role][node].operation.tags[0], Row())
        row += [told(low)] * ((access.stop - access.start) // 4 - 1) + [told(high)]
    return [rows[number] for number in sorted(rows)]
