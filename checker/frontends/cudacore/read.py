"""Reads a core dump of CUDA: from its tables to what they say."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from sm90_verify.frontends.cudacore import tables
from sm90_verify.frontends.cudacore.container import HOW, Container, SectionKind, read_container, text_at
from sm90_verify.frontends.cudacore.dump import (
    EXCEPTIONS,
    CoreCta,
    CoreDevice,
    CoreException,
    CoreGrid,
    CoreLane,
    CoreWarp,
    CudaCore,
    Three,
)
from sm90_verify.frontends.cudacore.modules import CodeFunction, CodeModule
from sm90_verify.frontends.cudacore.tables import Row, TableEntry, number, rows, rows_of, triple
from sm90_verify.spec.ptx.limits import WARP

SHT_STRTAB = 3
DYNAMIC_AT = 0x2C
GRID, BLOCK = ("grid_x", "grid_y", "grid_z"), ("block_x", "block_y", "block_z")
CLUSTER, INDEX = ("cluster_x", "cluster_y", "cluster_z"), ("cluster_index_x", "cluster_index_y", "cluster_index_z")

Launched = tuple[int, int]
"""A device, and the id of a grid on it."""


def read_core(path: str) -> CudaCore:
    """A dump, plain or compressed by gzip or xz. Raises SpecError for what is no dump, is cut off or damaged, and for
    one in which nothing ran.
    """
    return core_of(read_container(path))


def core_of(container: Container) -> CudaCore:
    """The same of a file that has been read."""
    table = next(container.of_kind(SectionKind.DEVICES), None)
    if table is None:
        raise container.refuse(f"has no table of devices, and so is no core dump of CUDA: {HOW}")
    strings = _strings(container)
    devices = [_device(row, strings) for row in rows(container, table, tables.DEVICES)]
    modules = _modules(container)
    launched = {
        (device, number(one.row, "id")): one
        for device in range(len(devices))
        for one in rows_of(container, SectionKind.GRIDS, tables.GRIDS, table, device)
    }
    numbers = {key: at for at, key in enumerate(launched)}
    ctas: list[CoreCta] = []
    exceptions: list[CoreException] = []
    for device in range(len(devices)):
        for one in rows_of(container, SectionKind.MULTIPROCESSORS, tables.MULTIPROCESSORS, table, device):
            ctas += _ctas(container, one, device, launched, numbers)
            if number(one.row, "exception"):
                pc = one.row["error_pc"] if one.row["error_pc_valid"] else None
                where = f"multiprocessor {number(one.row, 'id')}"
                exceptions.append(CoreException(where, _exception(one.row), pc))
    if not ctas:
        raise container.refuse(
            "no CTA was running when the dump was made: ask for it while the kernel hangs, and before anybody ends it"
        )
    grids = [
        _grid(container, one, device, modules, [cta for cta in ctas if cta.grid == numbers[device, id_]])
        for (device, id_), one in launched.items()
    ]
    ctas.sort(key=lambda one: (one.grid, one.block[::-1]))
    return CudaCore(
        container.path,
        _driver(container),
        tuple(devices),
        tuple(grids),
        tuple(ctas),
        tuple(modules.values()),
        (*exceptions, *_of_warps(ctas)),
    )


# ---------------------------------------------------------------- devices, modules and grids


def _strings(container: Container) -> memoryview:
    """The table of texts that rows name."""
    found = (one for one in container.sections if one.kind == SHT_STRTAB and container.name_of(one) == ".strtab")
    section = next(found, None)
    return container.bytes_of(section) if section else memoryview(b"")


def _device(row: Row, strings: memoryview) -> CoreDevice:
    return CoreDevice(
        number(row, "id"),
        text_at(strings, number(row, "name")),
        text_at(strings, number(row, "sm")),
        number(row, "multiprocessors"),
        number(row, "warps"),
    )


def _driver(container: Container) -> str:
    """Its version."""
    for section in container.of_kind(SectionKind.METADATA):
        for row in rows(container, section, tables.METADATA):
            return f"{row['driver_major']}.{row['driver_minor']}"
    return ""


def _modules(container: Container) -> dict[int, CodeModule]:
    """By handle. Images that are not relocated have no addresses, and are left alone."""
    found: dict[int, CodeModule] = {}
    for section in container.of_kind(SectionKind.MODULES):
        for at, row in enumerate(rows(container, section, tables.MODULES)):
            image = container.one_below(SectionKind.RELOCATED_IMAGE, section, at)
            handle = number(row, "handle")
            found[handle] = CodeModule(handle, bytes(image or b""), container.path)
    return found


def _grid(
    container: Container, launched: TableEntry, device: int, modules: Mapping[int, CodeModule], ctas: Sequence[CoreCta]
) -> CoreGrid:
    row = launched.row
    grid, block = triple(row, *GRID), triple(row, *BLOCK)
    cluster = None if row[CLUSTER[0]] is None else triple(row, *CLUSTER)
    module, entry = modules.get(number(row, "module")), number(row, "entry")
    kernel = module.kernel_at(entry) if module else None
    static = kernel.shared if kernel else None
    total = next((one.shared_size for one in ctas if one.shared_size), None)
    dynamic = None if total is None or static is None else max(0, total - static)
    exact = _dynamic_shared(_constants(container, launched), grid, block)
    given = container.one_below(SectionKind.PARAMETERS, launched.table, launched.number)
    return CoreGrid(
        id=number(row, "id"),
        device=device,
        kernel=kernel.name if kernel else "",
        grid=grid,
        block=block,
        cluster=(1, 1, 1) if cluster == (0, 0, 0) else cluster,
        registers=number(row, "registers"),
        parameters=_parameters(kernel, given),
        parameter_block=None if given is None else bytes(given),
        static_shared=static,
        dynamic_shared=dynamic if exact is None else exact,
        dynamic_is_exact=exact is not None,
        entry=entry,
        status=number(row, "status"),
        module=module,
    )


def _parameters(kernel: CodeFunction | None, given: memoryview | None) -> tuple[bytes, ...] | None:
    """One by one; None if it is not known where they are."""
    if given is None or kernel is None or any(at + size > len(given) for at, size in kernel.parameters):
        return None
    if given.nbytes and not kernel.parameters:
        return None
    return tuple(bytes(given[at : at + size]) for at, size in kernel.parameters)


def _constants(container: Container, launched: TableEntry) -> memoryview:
    """The constant bank 0 of a grid, if the memory of constants is in the dump."""
    for bank in rows_of(container, SectionKind.CONSTANT_BANKS, tables.CONSTANT_BANKS, launched.table, launched.number):
        address, size = number(bank.row, "address"), number(bank.row, "size")
        for section in container.of_kind(SectionKind.GLOBAL) if bank.row["bank"] == 0 else ():
            start = address - section.address
            if start >= 0 and start + size <= section.size:
                return container.bytes_of(section)[start : start + size]
    return memoryview(b"")


def _dynamic_shared(constants: memoryview, grid: Three, block: Three) -> int | None:
    """Bytes that the launch has asked for: code for sm_90 reads %dynamic_smem_size in bank 0, which begins with the
    dimensions of the block and the grid.
    """
    if len(constants) < DYNAMIC_AT + 4 or struct.unpack_from("<6I", constants) != (*block, *grid):
        return None
    return int.from_bytes(constants[DYNAMIC_AT : DYNAMIC_AT + 4], "little")


# ---------------------------------------------------------------- CTAs, warps and lanes


def _ctas(
    container: Container,
    multiprocessor: TableEntry,
    device: int,
    launched: Mapping[Launched, TableEntry],
    numbers: Mapping[Launched, int],
) -> Iterator[CoreCta]:
    for one in rows_of(container, SectionKind.CTAS, tables.CTAS, multiprocessor.table, multiprocessor.number):
        key = device, number(one.row, "grid")
        if key not in launched:
            raise container.refuse(f"is damaged: a CTA of grid {key[1]}, which it has not: make the dump again")
        block = triple(launched[key].row, *BLOCK)
        warps = rows_of(container, SectionKind.WARPS, tables.WARPS, one.table, one.number)
        yield CoreCta(
            numbers[key],
            triple(one.row, "x", "y", "z"),
            None if one.row[INDEX[0]] is None else triple(one.row, *INDEX),
            number(multiprocessor.row, "id"),
            bytes(container.one_below(SectionKind.SHARED, one.table, one.number) or b""),
            next((warp.row["shared"] for warp in warps), None),
            tuple(sorted((_warp(container, warp, block) for warp in warps), key=lambda warp: (warp.warp, warp.slot))),
        )


def _warp(container: Container, one: TableEntry, block: Three) -> CoreWarp:
    row = one.row
    active = number(row, "active")
    entries = rows_of(container, SectionKind.LANES, tables.LANES, one.table, one.number)
    lanes = tuple(_lane(container, lane, active) for lane in entries)
    return CoreWarp(
        next((_linear(lane.thread, block) // WARP for lane in lanes), -1),
        number(row, "slot"),
        number(row, "valid"),
        active,
        row["exited"],
        lanes,
        row["error_pc"] if row["error_pc_valid"] else None,
        row["registers"],
        bytes(container.one_below(SectionKind.UNIFORM_REGISTERS, one.table, one.number) or b""),
    )


def _lane(container: Container, one: TableEntry, active: int) -> CoreLane:
    row = one.row
    lane = number(row, "lane")
    return CoreLane(
        lane,
        triple(row, "x", "y", "z"),
        number(row, "pc"),
        number(row, "offset"),
        bool(active >> lane & 1),
        _exception(row),
        _callers(container, one) if row["calls"] else (),
        bytes(container.one_below(SectionKind.REGISTERS, one.table, one.number) or b""),
        bytes(container.one_below(SectionKind.PREDICATES, one.table, one.number) or b""),
    )


def _callers(container: Container, one: TableEntry) -> tuple[int, ...]:
    """The addresses at which the callers of a lane's function go on."""
    found = rows_of(container, SectionKind.CALLS, tables.CALLS, one.table, one.number)
    return tuple(number(call.row, "address") for call in sorted(found, key=lambda call: number(call.row, "level")))


def _linear(thread: Three, block: Three) -> int:
    """%tid as one number."""
    x, y, z = thread
    return x + block[0] * (y + block[1] * z)


# ---------------------------------------------------------------- exceptions


def _exception(row: Row) -> str:
    code = number(row, "exception")
    return EXCEPTIONS[code] if code < len(EXCEPTIONS) else f"exception {code}"


def _of_warps(ctas: Sequence[CoreCta]) -> Iterator[CoreException]:
    """Of lanes, told once a warp; and of warps none of whose lanes has one."""
    for cta in ctas:
        for warp in cta.warps:
            where = f"CTA {cta.block} warp {warp.warp}"
            kinds = list(dict.fromkeys(lane.exception for lane in warp.lanes if lane.exception != EXCEPTIONS[0]))
            for kind in kinds:
                lane = next(one for one in warp.lanes if one.exception == kind)
                pc = lane.pc if warp.error_pc is None else warp.error_pc
                yield CoreException(f"{where} lane {lane.lane}", kind, pc)
            if not kinds and warp.error_pc is not None:
                yield CoreException(where, "an exception that the dump does not name", warp.error_pc)
