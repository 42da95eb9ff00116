"""The methods of a class: a role each, with what its parts do, and one for all CTAs that do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sm90_verify.emit.declared import Declared
from sm90_verify.emit.merged import PartText, joined, merged
from sm90_verify.emit.rolling import Item, OpenLoop, rolled
from sm90_verify.emit.sentences import SentenceWriter, tokens_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx.limits import WARP


@dataclass(frozen=True)
class RoleText:
    """One method. split: the threads of each part; ctas: the ranks that have it. The numbers of its items have a factor
    for the warp, one for each loop, the innermost first, and one for the CTA. tokens: it waits with tokens of arrivals.
    """

    name: str
    threads: int
    split: tuple[tuple[int, ...], ...]
    ctas: tuple[int, ...]
    items: tuple[Item, ...]
    tokens: bool

    @property
    def alike(self) -> object:
        """Equal for roles of two CTAs that can be one method, if their numbers go on from one CTA to the next."""
        return self.name, self.threads, self.split, self.tokens, tuple(item.shape for item in self.items)


def roles_of_kernel(kernel: Kernel, declared: Declared, tick: Callable[[int], None]) -> tuple[RoleText, ...]:
    """All methods, in the order of the kernel's programs. tick: as for rolled."""
    by_cta: dict[tuple[str, int], list[Program]] = {}
    for program in kernel.programs:
        by_cta.setdefault((program.role.removeprefix(program.home), program.me.cta), []).append(program)
    found: dict[object, list[RoleText]] = {}
    for (name, cta), programs in by_cta.items():
        one = _role(name, cta, programs, declared, tick)
        found.setdefault(one.alike, []).append(one)
    roles = [role for some in found.values() for role in _across(some)]
    several = {role.name for role in roles if sum(other.name == role.name for other in roles) > 1}
    return tuple(replace(one, name=f"{one.name}_cta{one.ctas[0]}") if one.name in several else one for one in roles)


def _role(
    name: str, cta: int, programs: Sequence[Program], declared: Declared, tick: Callable[[int], None]
) -> RoleText:
    threads = WARP * (max(program.me.warp for program in programs) + 1)
    tokens = any(tokens_of(program) for program in programs)
    by_loops: dict[tuple[str, ...], list[Program]] = {}
    for program in programs:
        by_loops.setdefault(tuple(name for name, _ in _stretches(program)), []).append(program)
    items = [item for some in by_loops.values() for item in _items(some, programs, declared, tick)]
    return RoleText(name, threads, threads_of(programs), (cta,), tuple(items), tokens)


def _items(
    some: Sequence[Program], programs: Sequence[Program], declared: Declared, tick: Callable[[int], None]
) -> Iterator[Item]:
    """What those parts of a role do that go round the same loops. programs: all its parts."""
    writers = [SentenceWriter(declared, program, alone=len(programs) == 1) for program in some]
    indices = tuple(program.me.index for program in some)
    for stretch in zip(*map(_stretches, some), strict=True):
        parts = [
            PartText(program.me.index, program.me.warp, tuple(map(writer.sentence, nodes)))
            for program, writer, (_, nodes) in zip(some, writers, stretch, strict=True)
        ]
        items, name = rolled(merged(parts, len(programs)), tick), stretch[0][0]
        if name:
            yield OpenLoop(name, items, () if len(some) == len(programs) else indices)
        else:
            yield from items


def _stretches(program: Program) -> list[tuple[str, list[Node]]]:
    """The operations of a program between the loops of which nothing says how often it goes round, with "", and within
    each, with its name.
    """
    found: list[tuple[str, list[Node]]] = [("", [])]
    end = -1
    for at, node in enumerate(program.nodes):
        if at == end:
            found.append(("", []))
        if node.loop:
            found.append((node.loop, []))
            end = node.successors[False]
        elif node.operation is not None:
            found[-1][1].append(node)
    return found


def threads_of(programs: Sequence[Program]) -> tuple[tuple[int, ...], ...]:
    """Which threads of the role each part is: as many as it has, from its first one on, as far as they are free."""
    firsts = {program.me.first for program in programs}
    free = {WARP * program.me.warp + lane for program in programs for lane in range(WARP)} - firsts
    found: dict[str, list[int]] = {}
    for program in sorted(programs, key=lambda one: -one.me.first):
        more = sorted(one for one in free if one > program.me.first)[: program.me.threads - 1]
        free -= set(more)
        found[program.name] = [program.me.first, *more]
    return tuple(tuple(found[program.name]) for program in programs)


def _across(roles: Sequence[RoleText]) -> Sequence[RoleText]:
    """The same role of several CTAs as one, where its numbers go on by one step from each CTA to the next."""
    ctas = [role.ctas[0] for role in roles]
    columns = [[number for item in role.items for number in item.affine] for role in roles]
    together = joined(ctas, columns)
    if together is not None:
        numbers = iter(together)
        items = tuple(item.with_affine(numbers) for item in roles[0].items)
        return [replace(roles[0], ctas=tuple(ctas), items=items)]
    return [
        replace(role, items=tuple(item.with_affine(iter([one.by(0) for one in item.affine])) for item in role.items))
        for role in roles
    ]
