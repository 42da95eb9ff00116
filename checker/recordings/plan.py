"""What the executor executes, as data: the instructions of every role, and what of a kernel they were made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.layout import Region
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
    "word",
    "fence",
    "load_global",
    "load_shared",
    "store_to",
    "reduce_to",
    "red",
    "cp_async",
    "cp_commit",
    "cp_wait",
    "cp_arrive",
    "store_async",
    "try_wait",
    "find",
    "choose",
    "launch_dependents",
    "grid_wait",
    "branch",
    "jump",
)
"""The enumerators of `Code` in kernels/executor.cu, in order."""
CONTROL = ("branch", "jump")
"""Codes that only say where to go on: nothing is recorded of them, and nobody waits for a turn at them."""
OWN, GLOBAL, PEERS = 0, 1, 2
"""Places: the CTA's own shared memory, global memory, and from there on that of the CTA of each rank in the cluster."""
POLLS = 1024
"""Instructions of a role that are recorded beyond those of its program, of loops that ask until they are answered."""


@dataclass(frozen=True)
class Instruction:
    """node: of the role's program; several instructions may be one node. object: the buffer of a read or write.

    Of a branch, a is the answer with which it is taken; of it and of a jump, b is the instruction to go on with.
    """

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
    """One role: its CTA, counted through the launch, its first warp in it, its threads, and its instructions."""

    name: str
    cta: int
    warp: int
    threads: int
    instructions: tuple[Instruction, ...]

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    @property
    def most(self) -> int:
        """Instructions that are recorded at most."""
        own = sum(1 for one in self.instructions if one.code not in CONTROL)
        back = any(one.code in CONTROL and one.b <= at for at, one in enumerate(self.instructions))
        return own + POLLS * back


@dataclass(frozen=True)
class ExecutorPlan:
    """A kernel as the executor takes it.

    barriers: (CTA, offset in shared memory, count) of what is initialised before the roles start. words: (CTA, or -1
    for global memory, offset, value) of what does not begin with 0. choices: how many options each has; which is taken
    a run is told. writers: by number, role and node. stores: (role, node, buffers, offset in the output, bytes) of
    each. shared, memory, output: bytes; memory is global.
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
    words: tuple[tuple[int, int, int], ...] = ()
    choices: tuple[int, ...] = ()
    memory: int = 0
    derived: frozenset[str] = frozenset()
    """Buffers whose words may be sums, or come from another buffer."""
    initial: dict[str, int] = field(default_factory=dict)
    """By buffer in global memory, the number that all its words are at first; of shared memory that is 0."""

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    @cached_property
    def regions(self) -> dict[str, Region]:
        """Where its things lie."""
        return {region.object: region for region in self.kernel.layout.regions}

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
            elif isinstance(operation, op.StoreAsync | op.CpAsync):
                found[number] = operation.tag, (operation.write,)
            elif isinstance(operation, op.Touch):
                nth, accesses[key] = accesses[key], accesses[key] + 1
                found[number] = operation.tags[nth], (operation.accesses[nth],)
        return found

    @property
    def cluster(self) -> int:
        return self.kernel.cluster.size

    @property
    def alone(self) -> bool:
        """A run is one CTA: its clock, and the turns of a directed run, are its own."""
        return self.kernel.launch.ctas == 1

    @property
    def meets(self) -> bool:
        """Roles meet at barrier.cluster."""
        return self.has("cluster_arrive", "cluster_wait")

    def has(self, *codes: str) -> bool:
        """Some role has such an instruction."""
        return any(one.code in codes for role in self.roles for one in role.instructions)

    @property
    def warps(self) -> int:
        """Warps of a CTA that roles have."""
        return max(role.warp + role.warps for role in self.roles)
