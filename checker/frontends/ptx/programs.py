"""From the parts of roles to the programs of a kernel, whatever the events of the parts were read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sm90_verify.frontends.ptx.events import LaneEvent, PeriodMarked
from sm90_verify.frontends.ptx.memory_map import MemoryMap
from sm90_verify.frontends.ptx.register_file import RegisterFile, settled
from sm90_verify.frontends.ptx.write_part import PartOfRole, PartWriter, Unsure
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.layout import Region
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import WARP


@dataclass(frozen=True)
class PartsWriter:
    """Writes programs. map: of the memory; threads: of a CTA; sources: by the number of an event, its place in the
    file; unsure: the error for what is not known of an event; registers: those of wgmma that a program has, by its name
    and its part, where they are known; counted: the ranks of CTAs whose barrier 0 counts.
    """

    map: MemoryMap
    threads: int
    cluster: Cluster
    sources: Sequence[Source]
    unsure: Unsure
    tick: Tick = unheard
    made: dict[op.Operation, op.Operation] = field(default_factory=dict)
    registers: Callable[[str, PartOfRole], RegisterFile] | None = None
    counted: frozenset[int] = frozenset()

    def kernel(self, name: str, programs: Sequence[Program], registers: int, owned: Iterable[Region] = ()) -> Kernel:
        """The kernel of these programs. owned: registers that are theirs. Raises SpecError for what is wrong in every
        schedule.
        """
        kernel = Kernel(name, {}, self.map.layout(owned), tuple(programs), self.cluster, Rules(met=False), registers)
        validate(kernel, annotated=True)
        return kernel

    def programs(self, rank: int, name: str, parts: Sequence[PartOfRole]) -> Iterator[Program]:
        """The programs of a role of the CTA of this rank, one of each part. name: without what those of a CTA begin
        with.
        """
        home = self.cluster.home(rank)
        role = f"{home}{name}"
        for index, part in enumerate(parts):
            program = f"{role}.{index}" if len(parts) > 1 else role
            first = part.place * WARP + (part.mask & -part.mask).bit_length() - 1
            me = Threads(program, part.mask.bit_count(), index, 0, rank, first)
            bare = Program(program, me, (), role, home)
            if self.registers is None:
                yield self._written(bare, part, None, part.events)
            else:
                file = self.registers(program, part)
                yield settled(file.code, part.events, partial(self._written, bare, part, file))

    def _written(
        self, bare: Program, part: PartOfRole, registers: RegisterFile | None, events: tuple[LaneEvent, ...]
    ) -> Program:
        fresh = None if registers is None else registers.afresh()
        nodes = tuple(self._nodes(part._replace(events=events), fresh))
        return annotate(replace(bare, nodes=nodes), checked=True, tick=self.tick)

    def _nodes(self, part: PartOfRole, registers: RegisterFile | None) -> list[Node]:
        nodes: list[Node] = []
        last = head = loops = 0
        for number, what, distance in PartWriter(
            self.threads, self.map, self.made, part, self.unsure, registers, counted=part.rank in self.counted
        ).operations():
            after, last = len(nodes) + 1, number
            if not isinstance(what, PeriodMarked):
                nodes.append(Node(what, self.sources[number], distance=distance, successors={None: after}))
            elif what.begins:
                head = len(nodes)
                loops += 1
                name = "periods" if loops == 1 else f"periods{loops}"
                nodes.append(Node(None, self.sources[number], loop=name, successors={True: after}))
            elif head == len(nodes) - 1:
                nodes.pop()  # these lanes do nothing in it
                loops -= 1
            else:
                nodes[head].successors[False] = len(nodes)
                nodes[-1].successors = {None: head}
        return [*nodes, Node(None, self.sources[last])]
