"""What the executor executes, as data: the instructions of every role, and what of a kernel they were made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import WARP
from sm90_verify.spec.ptx.memory import Access

CODES = (
    "wait",
    "arrive",
    "drop",
    "no_complete",
    "transaction",
    "load",
    "read",
    "write",
    "store",
    "bulk_commit",
    "bulk_wait",
    "bulk_wait_read",
    "fence_proxy",
    "fence_init",
    "named_sync",
    "named_arrive",
    "cta_sync",
    "cluster_arrive",
    "cluster_wait",
    "init",
    "inval",
    "wait_token",
    "meet",
    "nothing",
)
"""The enumerators of `Code` in kernels/executor.cu, in order."""


@dataclass(frozen=True)
class Instruction:
    """node: of the role's program; several instructions may be one node. object: the buffer of a read or write."""

    code: str
    node: int
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    object: str = ""
    gate: int = -1
    hold: int = 0
    late: int = 0

    def words(self) -> tuple[int, ...]:
        """As struct Instruction."""
        return CODES.index(self.code), self.a, self.b, self.c, self.d, self.e, self.gate, self.hold, self.late


@dataclass(frozen=True)
class Lowered:
    """One role: its first warp in its CTA, its threads, and its instructions."""

    name: str
    cta: int
    warp: int
    threads: int
    instructions: tuple[Instruction, ...]

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)


@dataclass(frozen=True)
class ExecutorPlan:
    """A kernel as the executor takes it.

    barriers: (CTA, offset in shared memory, count) of what is initialised before the roles start. writers: by number,
    role and node. stores: (role, node, buffers, offset in the output, bytes) of each. shared, output: bytes.
    """

    kernel: Kernel
    roles: tuple[Lowered, ...]
    barriers: tuple[tuple[int, int, int], ...]
    writers: dict[int, tuple[str, int]]
    stores: tuple[tuple[str, int, Access, int], ...]
    shared: int
    output: int
    largest: int
    """Bytes of the largest copy."""

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    @cached_property
    def nodes(self) -> dict[str, tuple[Node, ...]]:
        """The program of each role."""
        return {program.name: program.nodes for program in self.programs}

    @cached_property
    def written(self) -> dict[int, tuple[Hashable, tuple[Access, ...]]]:
        """By number, the tag of what is written, and where."""
        accesses: Counter[tuple[str, int]] = Counter()
        found: dict[int, tuple[Hashable, tuple[Access, ...]]] = {}
        for number, key in self.writers.items():
            operation = self.nodes[key[0]][key[1]].operation
            if isinstance(operation, op.Load):
                found[number] = operation.tag, tuple(access for access, _ in operation.destinations)
            elif isinstance(operation, op.Touch):
                nth, accesses[key] = accesses[key], accesses[key] + 1
                found[number] = operation.tags[nth], (operation.accesses[nth],)
        return found

    @property
    def cluster(self) -> int:
        return self.kernel.cluster.size

    @property
    def warps(self) -> int:
        """Warps of a CTA that roles have."""
        return max(role.warp + role.warps for role in self.roles)
