"""What a core dump says: the grids that ran, their CTAs and warps, and the code that they were in.

`read_core` reads all of it but the line tables, which are read when a line is asked for. Addresses of shared memory are
those that instructions use (the window shared::cta): the bytes of a CTA begin at address 0, and on Hopper the first
0x400 are CUDA's own. Lanes that have ended are not in a dump, and neither are warps and CTAs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from sm90_verify.frontends.cudacore.lines import CodePlace
from sm90_verify.frontends.cudacore.modules import CodeFunction, CodeModule, module_with

Three = tuple[int, int, int]

EXCEPTIONS = (
    "none",
    "lane: illegal address",
    "lane: stack overflow",
    "device: hardware stack overflow",
    "warp: illegal instruction",
    "warp: out-of-range address",
    "warp: misaligned address",
    "warp: invalid address space",
    "warp: invalid PC",
    "warp: hardware stack overflow",
    "device: illegal address",
    "lane: misaligned address",
    "warp: assert",
    "lane: syscall error",
    "warp: illegal address",
    "lane: atomic that cannot migrate",
    "lane: invalid system atomic",
    "cluster: out-of-range address",
    "cluster: the target block is not present",
    "warp: stack canary",
    "warp: tensor memory access",
    "warp: tensor memory leak",
    "warp: a call that needs a newer driver",
)
"""By number, CUDBGException_t of cudadebugger.h."""
PENDING, ACTIVE = 1, 2
"""CUDBGGridStatus: launched and not running yet, and running."""


@dataclass(frozen=True)
class CoreDevice:
    """sm: as sm_90. multiprocessors: how many it has. warps: that fit on each."""

    number: int
    name: str
    sm: str
    multiprocessors: int
    warps: int


@dataclass(frozen=True)
class CoreGrid:
    """A launch. kernel: its mangled name, empty where the dump has no code of it. entry: the address of its first
    instruction. registers: of a thread at the launch. cluster: (1, 1, 1) without clusters; None where the driver does
    not say. parameters: the bytes of each; None where the dump has none, or no code that says which they are.
    parameter_block: all of them as constants, where they are aligned otherwise than in PTX. static_shared,
    dynamic_shared: bytes, static with those that CUDA reserves; None where the dump does not say. dynamic_is_exact: or
    else dynamic_shared is up to 127 bytes more than the launch has asked for, as CTAs get multiples of 128 bytes.
    """

    id: int
    device: int
    kernel: str
    grid: Three
    block: Three
    cluster: Three | None
    registers: int
    parameters: tuple[bytes, ...] | None
    parameter_block: bytes | None
    static_shared: int | None
    dynamic_shared: int | None
    dynamic_is_exact: bool
    entry: int
    status: int
    module: CodeModule | None = field(repr=False)

    @property
    def active(self) -> bool:
        return self.status == ACTIVE

    @property
    def threads(self) -> int:
        """Of a CTA."""
        x, y, z = self.block
        return x * y * z


@dataclass(frozen=True)
class CoreLane:
    """A thread that has not ended. thread: threadIdx. pc: absolute; offset: from the start of the kernel's code.
    exception: one of EXCEPTIONS. callers: where it returns to from functions that were not inlined, the innermost
    first. registers, predicates: raw, 4 bytes each; of the registers of a thread the system keeps two.
    """

    lane: int
    thread: Three
    pc: int
    offset: int
    active: bool
    exception: str
    callers: tuple[int, ...]
    registers: bytes = field(repr=False)
    predicates: bytes = field(repr=False)

    def register(self, number: int) -> int | None:
        """R0 and so on; None for one that the dump does not have."""
        return _word(self.registers, number)


@dataclass(frozen=True)
class CoreWarp:
    """warp: its number in the CTA, from its threads; slot: on the multiprocessor. Masks have a bit a lane.

    valid: lanes that have not ended. active: those that execute next, together; the other valid ones have diverged.
    exited: those that have ended; None where the driver does not say. error_pc: of an exception of the warp, or None.
    registers: of each lane at present, None where the driver does not say. uniform_registers: raw, 4 bytes each.
    """

    warp: int
    slot: int
    valid: int
    active: int
    exited: int | None
    lanes: tuple[CoreLane, ...]
    error_pc: int | None
    registers: int | None
    uniform_registers: bytes = field(repr=False)

    @property
    def diverged(self) -> int:
        return self.valid & ~self.active

    @property
    def pc(self) -> int | None:
        """Of the active lanes; None if there is none."""
        return next((one.pc for one in self.lanes if one.active), None)

    def uniform_register(self, number: int) -> int | None:
        """UR0 and so on; None for one that the dump does not have."""
        return _word(self.uniform_registers, number)

    @cached_property
    def pcs(self) -> dict[int, int]:
        """By PC, the mask of the lanes that are there; the active ones first, then by lane."""
        found: dict[int, int] = {}
        for one in sorted(self.lanes, key=lambda lane: (not lane.active, lane.lane)):
            found[one.pc] = found.get(one.pc, 0) | 1 << one.lane
        return found


@dataclass(frozen=True)
class CoreCta:
    """grid: its place among those of the dump. block, cluster: blockIdx, and the index of its cluster (None where the
    driver does not say). shared: its bytes from address 0 on, empty where the dump has none. shared_size: bytes that it
    has; None where the driver does not say.
    """

    grid: int
    block: Three
    cluster: Three | None
    multiprocessor: int
    shared: bytes = field(repr=False)
    shared_size: int | None
    warps: tuple[CoreWarp, ...] = field(repr=False)

    def word(self, address: int) -> int | None:
        """The 64-bit word at an address of shared memory, of any window of the CTA; None where there is none."""
        at = address & 0xFFFFFF
        word = self.shared[at : at + 8]
        return int.from_bytes(word, "little") if len(word) == 8 else None


@dataclass(frozen=True)
class CoreException:
    """where: the multiprocessor, the warp or the lane. what: one of EXCEPTIONS. pc: of the error, or None."""

    where: str
    what: str
    pc: int | None


@dataclass(frozen=True)
class CudaCore:
    """A dump. driver: its version, empty where it is not said. grids: with those that have not begun. ctas: by grid and
    block index. exceptions: none in a dump that was asked for.
    """

    path: str
    driver: str
    devices: tuple[CoreDevice, ...]
    grids: tuple[CoreGrid, ...]
    ctas: tuple[CoreCta, ...]
    modules: tuple[CodeModule, ...] = field(repr=False)
    exceptions: tuple[CoreException, ...] = ()

    def of_grid(self, grid: CoreGrid) -> Iterator[CoreCta]:
        return (one for one in self.ctas if self.grids[one.grid] is grid)

    def places(self, pc: int) -> tuple[CodePlace, ...]:
        """The CUDA lines of an instruction: the innermost first, then calls that were inlined; none where unknown."""
        module = module_with(self.modules, pc)
        return module.places(pc) if module else ()

    def line_of(self, pc: int) -> tuple[str, int] | None:
        """File and line of CUDA source that an instruction comes from, the innermost."""
        found = self.places(pc)
        return (found[0].file, found[0].line) if found else None

    def ptx_line_of(self, pc: int) -> int | None:
        """The line of the module's PTX."""
        module = module_with(self.modules, pc)
        return module.ptx_line(pc) if module else None

    def function_at(self, pc: int) -> CodeFunction | None:
        module = module_with(self.modules, pc)
        return module.function_at(pc) if module else None


def _word(registers: bytes, number: int) -> int | None:
    word = registers[4 * number : 4 * number + 4] if number >= 0 else b""
    return int.from_bytes(word, "little") if len(word) == 4 else None
