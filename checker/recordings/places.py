"""Where the things of a kernel lie on a GPU, and the numbers that stand for its writes and choices."""

from __future__ import annotations

from collections.abc import Hashable

from sm90_verify.recordings.plan import GLOBAL, OWN, PEERS
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import SHARED_OF_CTA
from sm90_verify.spec.ptx.memory import Access

MOST_SHARED = SHARED_OF_CTA - 1024
"""Bytes of shared memory that a CTA can have, less what the executor needs itself."""
MEETINGS = 64
"""GpuPlaces where the executor's warps can meet."""


class GpuPlaces:
    """Those of one kernel. Every write and copy of the executor's own has a number, which all words that it writes
    hold, so that a read on the GPU says whose words it has found; 0 is none.

    writers: by number, role and node; tags: what it leaves; initial: the numbers of what is in global memory at first.
    choices: by name and how many of it came before, which it is; options: how many
    each has, at each of its places. meetings: of a role's warps, and of one program's.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.launch = kernel, kernel.launch
        self.regions = {region.object: region for region in kernel.layout.regions}
        self.writers: dict[int, tuple[str, int]] = {}
        self.tags: dict[int, Hashable] = {}
        self.numbers: dict[tuple[str, int], tuple[int, ...]] = {}
        self.choices: dict[tuple[str, int], int] = {}
        self.options: list[int] = []
        self.derived: set[str] = set()
        self.parts: dict[str, list[Program]] = {}
        for program in sorted(kernel.programs, key=lambda one: one.role):
            self.parts.setdefault(program.role, []).append(program)
        names = dict.fromkeys((*self.parts, *(f"{program.name}." for program in kernel.programs)))
        self.meetings = {name: number for number, name in enumerate(names)}
        if len(names) > MEETINGS:
            raise SpecError(f"{len(kernel.programs)} roles are too many for the executor")
        for program in kernel.programs:
            for index, node in enumerate(program.nodes):
                self._count((program.name, index), node.operation)
                if isinstance(node.operation, op.Choose):
                    self._choice((node.operation.name, node.choice), len(node.operation.options))
        words = kernel.layout.words
        buffers = [one for one in kernel.layout.regions if one.space == "global" and one.object not in words]
        self.initial = {one.object: len(self.writers) + 1 + number for number, one in enumerate(buffers)}

    def _count(self, key: tuple[str, int], operation: op.Operation | None) -> None:
        """Gives its writes their numbers, if they are of words of its own."""
        tags: tuple[Hashable, ...] = ()
        for one in effects_of(operation).begins:
            if one.access.write and (one.access.strong is not None or self._is_copied(operation)):
                self.derived.add(one.access.object)
        if isinstance(operation, op.Touch) and operation.kind in ("write", "red"):
            tags = operation.tags
        elif isinstance(operation, op.Load | op.CpAsync | op.StoreAsync) and not self._is_copied(operation):
            tags = (operation.tag,)
        else:
            return
        first = len(self.writers) + 1
        self.numbers[key] = tuple(range(first, first + len(tags)))
        self.tags.update(zip(self.numbers[key], tags, strict=True))
        self.writers.update(dict.fromkeys(self.numbers[key], key))

    @staticmethod
    def _is_copied(operation: op.Operation | None) -> bool:
        """Its words come from a buffer."""
        if isinstance(operation, op.Load):
            return operation.read is not None
        if isinstance(operation, op.CpAsync):
            return operation.source is not None
        return isinstance(operation, op.Store) and operation.destination is not None

    def _choice(self, key: tuple[str, int], options: int) -> None:
        if key not in self.choices:
            self.choices[key] = len(self.options)
            self.options.append(options)
        self.options[self.choices[key]] = min(self.options[self.choices[key]], options)

    def at(self, barrier: str) -> int:
        """The offset of an object in its memory."""
        return self.regions[barrier].start

    def place(self, access: Access, program: Program) -> int:
        """In whose memory it is, as seen by a role."""
        if access.space == "global":
            return GLOBAL
        if access.cta == program.me.number:
            return OWN
        return PEERS + self.launch.rank(access.cta)

    def bytes_of(self, access: Access) -> tuple[int, int]:
        """The first one and how many; of registers, which the executor has not, none."""
        if access.space == "registers":
            return 0, 0
        return access.start, access.stop - access.start

    def own(self, access: Access, program: Program) -> tuple[int, int]:
        """The bytes of an access that only the CTA's own shared memory can have."""
        if self.place(access, program) != OWN:
            raise SpecError(f"the executor needs {access.object} in shared memory of {program.name}'s CTA")
        return self.bytes_of(access)

    def words(self) -> tuple[tuple[int, int, int], ...]:
        """(CTA, or -1 for global memory, offset, value) of each word that does not begin with 0."""
        return tuple(
            (-1 if self.regions[name].space == "global" else self.regions[name].cta, self.at(name), word.initial)
            for name, word in self.kernel.layout.words.items()
            if word.initial
        )

    def size(self, space: str) -> int:
        """Bytes up to the end of a memory space; raises SpecError if a CTA has not so many."""
        size = max((region.stop for region in self.regions.values() if region.space == space), default=0)
        if space == "shared" and size > MOST_SHARED:
            raise SpecError(f"{size} bytes of shared memory: a CTA has {MOST_SHARED}; give smaller stages, or fewer")
        return size
