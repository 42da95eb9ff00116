"""What is wrong with one operation wherever a role executes it: addresses, sizes, alignments, orders and values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.launched import out_of_reach
from sm90_verify.spec.model.layout import WordValues
from sm90_verify.spec.model.ordinary_copies import wrong_with_cp_async, wrong_with_store_async
from sm90_verify.spec.model.registers import wrong_space
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Begun, Copies, Groups
from sm90_verify.spec.ptx.effects import Effects, effects_of
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import (
    BULK_ALIGNMENT,
    BULK_GROUPS,
    COUNT_LIMIT,
    CP_GROUPS,
    MATRIX_ALIGNMENT,
    MMA_GROUPS,
    WARP,
    WARPGROUP,
    misaligned_copy,
    misplaced_tensormap,
)
from sm90_verify.spec.ptx.mbarrier import TX_WIDTH
from sm90_verify.spec.ptx.memory import Access, Strong, describe

MOST_GROUPS: dict[Groups, int] = {"mma": MMA_GROUPS, "bulk": BULK_GROUPS, "cp": CP_GROUPS}
"""Groups that are told apart: a wait leaves fewer pending."""
OF_LOADS, OF_STORES = ("weak", "relaxed", "acquire"), ("weak", "relaxed", "release")
OF_ATOMS = ("relaxed", "acquire", "release", "acq_rel")


def wrong_with(operation: op.Operation | None, program: Program, of_wgmma: str, launch: LaunchShape) -> str:
    """What is wrong with one operation of a role, wherever it is executed; "" if nothing is. of_wgmma: what is wrong
    with wgmma by this program, see `part_of_a_warpgroup`.
    """
    effects = effects_of(operation)
    if far := out_of_reach(effects, program, launch):
        return far
    if len({signal.barrier for signal in effects.signals}) < len(effects.signals):
        return f"an arrival at several CTAs that names {effects.signals[0].barrier} twice: name each once"
    if isinstance(effects.signal, op.Arrive) and effects.signal.count * (effects.signal.expect or 0) >= 1 << TX_WIDTH:
        what = f"{effects.signal.count} threads that expect {effects.signal.expect} bytes each"
        return f"{what}: a tx-count has {COUNT_LIMIT} at most"
    if isinstance(operation, op.NamedSync) and (operation.by % WARP or operation.by > program.me.threads):
        return f"a named barrier by {operation.by} threads of {program.me.threads}: use whole warps of the role"
    if not any((effects.begins, effects.lands, effects.commits, effects.ends, effects.shows)):
        return next(_misplaced_tensormaps(operation), "")
    wrong = [_outside(access) for access in effects.accesses]
    wrong += [_unlike(begun, operation) for begun in effects.begins]
    wrong += [_of_another_tag(access, tag) for access, tag in (*effects.expected, *effects.left)]
    wrong += [_not_of(access.strong, program, launch) for access in effects.accesses if access.strong is not None]
    wrong += [_wrong_copies(copies) for copies, _ in effects.lands if copies.write.proxy == "async"]
    sources = [one.access for one in effects.begins if one.until == "bulk_group" and one.data]
    for name, start, stop in _in_one_piece(sources):
        wrong.append(misaligned_copy("a bulk store of", name, start, stop - start))
    wrong += _misplaced_tensormaps(operation)
    if isinstance(operation, op.Store) and operation.destination is not None and operation.tensormap is None:
        to = operation.destination  # that a tensormap describes may begin anywhere in its tensor
        wrong.append(misaligned_copy("a bulk store to", to.object, to.start, BULK_ALIGNMENT))
    if isinstance(operation, op.Load):
        wrong += _wrong_with_load(operation, program.me.number)
    if isinstance(operation, op.CpAsync):
        wrong += wrong_with_cp_async(operation, program)
    if isinstance(operation, op.StoreAsync):
        wrong += wrong_with_store_async(operation, launch.cluster)
    if effects.word is not None:
        wrong.append(_wrong_order(effects.word))
    if effects.ends is not None and effects.ends.pending >= (most := MOST_GROUPS[effects.ends.groups]):
        wrong.append(f"a wait that leaves {effects.ends.pending} groups pending: use 0 to {most - 1}")
    wrong += map(wrong_space, effects.begins)
    if _is_of_wgmma(effects):
        wrong += [of_wgmma, *map(_wrong_operand, effects.lasting("mma_group"))]
    return next(filter(None, wrong), "")


def _outside(access: Access) -> str:
    if access.start < 0:
        return f"{access.object} begins at address {access.start}: use 0 or more"
    size = access.stop - access.start
    return f"{describe(access)} is of {size} bytes: use 1 or more" if size < 1 else ""


def _of_another_tag(access: Access, tag: Hashable) -> str:
    """Writes of one value come in any order: what is in the bytes afterwards must be the same."""
    if access.value is None or tag == access.value:
        return ""
    return f"{describe(access)} of the value {access.value!r} has the tag {tag!r}: give it the value as its tag"


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
    sides = [("a bulk copy to" if one.write else "a bulk copy of", one) for one in copies.data]
    found = [misaligned_copy(what, one.object, one.start, one.stop - one.start) for what, one in sides]
    for what, one in sides:
        if one.stop - one.start != copies.bytes:
            size = f"{what} {one.object} of {one.stop - one.start} bytes"
            found.append(f"{size} that signals {copies.bytes}: use the same number")
    return next(filter(None, found), "")


def _wrong_with_load(load: op.Load, cta: int) -> Iterator[str]:
    """A mask has one bit for each CTA, what TMA writes lies in shared memory, and what it reads in global memory, or
    without a mask in the CTA's own (9.7.9.25.4.1).
    """
    if load.read is not None and load.read.space != "global":
        if load.read.space != "shared" or load.read.cta != cta:
            yield f"a bulk copy of {load.read.object}: it reads global memory, or shared memory of its own CTA"
        if load.also:
            yield f"a multicast of {load.read.object} in shared memory: it reads global memory"
    ctas = [access.cta for access, _ in load.destinations]
    for twice in (one for one in ctas if ctas.count(one) > 1):
        yield f"a multicast to CTA {twice} twice: name each CTA once"
    for access, _ in load.destinations:
        if access.space != "shared":
            yield f"a bulk copy that signals a barrier goes to {access.object} in {access.space} memory: use shared"


def _misplaced_tensormaps(operation: op.Operation | None) -> Iterator[str]:
    """What is wrong with those that the operation names."""
    named: tuple[Access | None, ...] = ()
    if isinstance(operation, op.CopyMap):
        named = operation.source, operation.map
    elif isinstance(operation, op.Load | op.Store | op.MapFence):
        named = (operation.map if isinstance(operation, op.MapFence) else operation.tensormap,)
    for map in named:
        if map is not None and (wrong := misplaced_tensormap(map.object, map.start, map.stop - map.start)):
            yield wrong


def _in_one_piece(sources: Iterable[Access]) -> list[tuple[str, int, int]]:
    """(first buffer, start, stop): buffers that lie one after the other without a gap are one copy."""
    found: list[tuple[str, int, int]] = []
    for access in sorted(sources, key=lambda one: (one.space, one.cta, one.start)):
        if found and found[-1][2] == access.start:
            found[-1] = (found[-1][0], found[-1][1], access.stop)
        else:
            found.append((access.object, access.start, access.stop))
    return found


def _is_of_wgmma(effects: Effects) -> bool:
    """wgmma, its fence, its commit or its wait."""
    groups = effects.commits, effects.ends and effects.ends.groups
    return bool(effects.lasting("mma_group")) or "mma" in groups or "registers" in effects.shows


def part_of_a_warpgroup(program: Program, programs: Sequence[Program]) -> str:
    """A warpgroup executes wgmma, its commits and its waits (9.7.15): a role, with all its parts, is some of them, and
    a part that is none by itself does not do it alone.
    """
    parts = [other for other in programs if other.role == program.role]
    threads = sum(part.me.threads for part in parts)
    if threads % WARPGROUP == 0:
        if any(effects_of(node.operation).joins is not None for node in program.nodes):
            return ""  # who does not come to a wgmma keeps the others waiting
        idle = [part for part in parts if not any(_is_of_wgmma(effects_of(node.operation)) for node in part.nodes)]
        if not idle or program.me.threads % WARPGROUP == 0:
            return ""
        what = f"wgmma by {program.name} and not by {idle[0].name}"
        return f"{what}: all {WARPGROUP} threads of a warpgroup execute it; split it by warpgroups"
    return f"wgmma by {threads} threads of {program.role}: all {WARPGROUP} of a warpgroup execute it; use warpgroups=1"


def by_a_part_alone(operation: op.Operation | None, program: Program) -> str:
    """What is wrong with a commit or a wait of a part of a warpgroup whose parts execute some of them together."""
    effects = effects_of(operation)
    if effects.joins is not None or not (effects.commits == "mma" or (effects.ends and effects.ends.groups == "mma")):
        return ""
    commits = effects.commits == "mma"
    what = f"wgmma.{'commit' if commits else 'wait'}_group by {program.name} alone, where its warpgroup executes others"
    return f"{what} together: use {'commit=False and mma_commit(joint=True)' if commits else 'joint=True'}"


def _wrong_operand(access: Access) -> str:
    if access.space == "shared" and access.start % MATRIX_ALIGNMENT:
        return f"wgmma of {access.object} at address {access.start}: use a multiple of {MATRIX_ALIGNMENT}"
    return ""


def _wrong_order(on: op.OnWord) -> str:
    """.sem that the instruction does not have, or that its access does not say; "" if nothing is wrong."""
    atomic = isinstance(on, op.Atom)
    allowed = OF_ATOMS if atomic else OF_STORES if isinstance(on, op.WordStore) else OF_LOADS
    if on.order.sem not in allowed:
        what = "an atomic operation" if atomic else "a store" if isinstance(on, op.WordStore) else "a load"
        return f"{what} of {on.access.object} with sem={on.order.sem!r}: use {', '.join(map(repr, allowed))}"
    strong = on.access.strong
    if strong is not None and strong.scope != on.order.scope:
        return f"an access of scope {strong.scope} in an operation of scope {on.order.scope}: use one"
    return ""


def wrong_value(on: op.OnWord, words: Mapping[str, WordValues]) -> str:
    """A value that the word does not have."""
    name = on.access.object
    word = words.get(name)
    if word is None:
        return f"{name} is no word: declare it with word()"
    if isinstance(on, op.WordLoad | op.Atom) and on.values != word.values:
        return f"an operation on a word of {on.values} values, and {name} has {word.values}"
    used = []
    if isinstance(on, op.WordStore):
        used = [on.value]
    elif isinstance(on, op.Atom) and on.kind not in ("add", "inc"):
        used = [on.operand, on.compare]
    beyond = [value for value in used if not 0 <= value < word.values]
    return f"{name} has the values 0 to {word.values - 1}, not {beyond[0]}: give word() more of them" if beyond else ""


def _not_of(strong: Strong, program: Program, launch: LaunchShape) -> str:
    """A strong access says of which CTA and of which cluster its thread is."""
    number = program.me.number
    if strong.cta != number:
        return f"a strong access by a thread of CTA {strong.cta} in a role of CTA {number}: use {number}"
    block = launch.block(number)
    what = f"a strong access by a thread of cluster {strong.cluster} in a role of cluster {block}"
    return "" if strong.cluster == block else f"{what}: use {block}"
