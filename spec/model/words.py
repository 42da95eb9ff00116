"""Operations in PTX's words, for traces and reports: people read these texts, and no engine does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import assert_never

from sm90_verify.spec.model.contents import Part
from sm90_verify.spec.model.flow import meeting_of
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.needs import LANDED_AT_EXIT


def things_of(node: Node) -> tuple[str, ...]:
    """The barriers, buffers, loop or choice that an operation is on, one by one."""
    operation = node.operation
    if isinstance(operation, op.Touch):
        return operation.objects
    if isinstance(operation, op.Store):
        return tuple(access.object for access in operation.sources)
    if isinstance(operation, op.Arrive):
        return tuple(part.barrier for part in operation.parts)
    thing = words_of(node)[1]
    return (thing,) if thing else ()


def things_at(program: Program, node: Node) -> tuple[str, ...]:
    """The same, for the program: barriers of the threads of two CTAs are two."""
    if isinstance(node.operation, op.NamedSync | op.CtaSync):
        return (meeting_of(program, node.operation) or "",)
    return things_of(node)


def words_of(node: Node) -> tuple[str, str]:
    """An operation and its object, in PTX's words."""
    match node.operation:
        case None:
            return ("next iteration", node.loop) if node.loop else ("end", "")
        case op.Init():
            return f"init {node.operation.count}", node.operation.barrier
        case op.Inval():
            return "inval", node.operation.barrier
        case op.Wait(phase=op.Token()):
            return f"{node.operation.kind} token", node.operation.barrier
        case op.Wait():
            wait = node.operation
            order = _ordered(wait.sem, "acquire", wait.scope)
            return f"{wait.kind}{order} parity {int(wait.phase)}", wait.barrier  # type: ignore[arg-type]
        case op.Arrive() as arrive:
            expect = "" if arrive.expect is None else f".expect_tx {arrive.expect}"
            times = f" x{arrive.count}" if arrive.count != 1 else ""
            names = ",".join(part.barrier for part in arrive.parts)
            return f"{_arrival(arrive)}{_ordered(arrive.sem, 'release', arrive.scope)}{expect}{times}", names
        case op.Transaction():
            verb = "expect_tx" if node.operation.bytes >= 0 else "complete_tx"
            return f"{verb} {abs(node.operation.bytes)}", node.operation.barrier
        case op.Load():
            return f"load {tag_text(node.operation.tag)}", node.operation.write.object
        case op.Touch() as touch:
            tags = ",".join(dict.fromkeys(tag_text(tag) for tag in touch.tags if tag is not None))
            return f"{touch.kind} {tags}".rstrip(), ",".join(touch.objects)
        case op.Find():
            return f"read any of {', '.join(map(repr, node.operation.tags))}", node.operation.access.object
        case op.Store():
            tags = ",".join(dict.fromkeys(tag_text(tag) for tag in node.operation.tags if tag is not None))
            into = node.operation.destination
            verb = "store" if into is None or into.strong is None else "reduce"
            return f"{verb} {tags}".rstrip(), ",".join(access.object for access in node.operation.sources)
        case op.CpAsync():
            return f"cp.async {tag_text(node.operation.tag)}".rstrip(), node.operation.write.object
        case op.TriggeredArrive() as arrive:
            many = f" x{arrive.count}" if arrive.count != 1 else ""
            return f"cp.async.mbarrier.arrive{'.noinc' if arrive.noinc else ''}{many}", arrive.barrier
        case op.StoreAsync():
            verb = "st" if node.operation.write.strong is None else "red"
            return f"{verb}.async {tag_text(node.operation.tag)}".rstrip(), node.operation.write.object
        case op.Group():
            return _group(node.operation), ""
        case op.Fence():
            return _fence(node.operation), ""
        case op.MapFence(kind="release") as fence:
            return f"fence.proxy.tensormap.release.{fence.scope}", ""
        case op.MapFence() as fence:
            return f"fence.proxy.tensormap.acquire.{fence.scope}", "" if fence.map is None else fence.map.object
        case op.CopyMap() as copy:
            return f"tensormap.cp_fenceproxy.{copy.scope}", copy.map.object
        case op.NamedSync():
            return (
                f"bar.{'sync' if node.operation.blocks else 'arrive'} {node.operation.threads}"
                + (f" by {node.operation.by}" if node.operation.by else ""),
                f"bar{node.operation.id:d}",
            )
        case op.ClusterArrive():
            return f"barrier.cluster.arrive{'' if node.operation.release else '.relaxed'}", "cluster"
        case op.ClusterWait():
            return "barrier.cluster.wait", "cluster"
        case op.CtaSync():
            return "__syncthreads", "cta"
        case op.WarpSync():
            return "__syncwarp" if node.operation.orders else "lanes meet", "warp"
        case op.Parted():
            return node.operation.instruction, "warp"
        case op.Choose():
            return "choose", node.operation.name
        case op.WordLoad() | op.WordStore() | op.Atom() | op.Spin() as on:
            return _on_word(on), on.access.object
        case op.ThreadFence():
            return f"fence.{node.operation.kind}.{node.operation.scope}", ""
        case op.Setmaxnreg():
            return f"setmaxnreg.{node.operation.kind} {node.operation.registers}", "registers"
        case op.Griddepcontrol():
            return f"griddepcontrol.{node.operation.kind}", "grid" if node.operation.kind == "wait" else ""
        case op.CtaStart():
            return "start of the CTA", ""
        case _:
            assert_never(node.operation)


def _ordered(sem: str, usual: str, scope: str) -> str:
    """.sem and .scope, where they are not what the instruction has without them."""
    return f"{'' if (sem, scope) == (usual, '') else f'.{sem}'}{f'.{scope}' if scope else ''}"


def _arrival(arrive: op.Arrive) -> str:
    match arrive.kind:
        case "arrive":
            return "arrive"
        case "drop":
            return "arrive_drop"
        case "no_complete":
            return "arrive.noComplete"
        case _:
            assert_never(arrive.kind)


def _on_word(on: op.OnWord) -> str:
    order = f".{on.order.sem}.{on.order.scope}" if on.order.sem != "weak" else ""
    match on:
        case op.WordLoad():
            return f"ld{order}"
        case op.WordStore():
            return f"st{order} {on.value}"
        case op.Spin():
            return f"ld{order} until {on.comparison} {on.value}"
        case op.Atom():
            operands = f"{on.compare}, {on.operand}" if on.kind == "cas" else f"{on.operand}"
            return f"{'atom' if on.answers else 'red'}{order}.{on.kind} {operands}"
        case _:
            assert_never(on)


def _group(group: op.Group) -> str:
    match group.kind:
        case "mma_commit":
            return "wgmma.commit_group"
        case "mma_wait":
            return f"wgmma.wait_group {group.pending}"
        case "cp_commit":
            return "cp.async.commit_group"
        case "cp_wait":
            return f"cp.async.wait_group {group.pending}"
        case "cp_wait_all":
            return "cp.async.wait_all"
        case "bulk_commit":
            return "cp.async.bulk.commit_group"
        case "bulk_wait":
            return f"cp.async.bulk.wait_group {group.pending}"
        case "bulk_wait_read":
            return f"cp.async.bulk.wait_group.read {group.pending}"
        case _:
            assert_never(group.kind)


def _fence(fence: op.Fence) -> str:
    match fence.kind:
        case "proxy_async":
            return "fence.proxy.async"
        case "mbarrier_init":
            return "fence.mbarrier_init"
        case "wgmma":
            return "wgmma.fence"
        case _:
            assert_never(fence.kind)


def labels(tags: Iterable[Hashable]) -> tuple[str, ...]:
    """What data of each tag is called where nothing else says that it is data."""
    return tuple(tag_text(tag) or "data" for tag in tags)


def tag_text(tag: Hashable) -> str:
    """`k=3` for the data of iteration 3; "" for data of no tag."""
    if isinstance(tag, Part):
        return f"{tag_text(tag.tag)} in a part of it".lstrip()
    return "" if tag is None else f"k={tag}"


def unlike(name: str, names: set[str]) -> str:
    """The name, marked until it is none of `names`, to which it is added."""
    while name in names:
        name += "'"
    names.add(name)
    return name


def listed(names: Sequence[str]) -> str:
    """One or more names as people list them: `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def in_flight_at_exit(access: Access, launch: LaunchShape) -> str:
    """The sentence about a copy into or out of the memory of a CTA whose roles have ended."""
    roles = "all roles" if launch.ctas == 1 else f"all roles of CTA {launch.called(access.cta)}"
    return LANDED_AT_EXIT.said(roles=roles, way="into" if access.write else "from", object=access.object)
