"""Operations in PTX's words, for traces and reports."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from spec import operations as op
from spec.graph import Node


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
            return f"{node.operation.kind} parity {int(node.operation.phase)}", node.operation.barrier  # type: ignore[arg-type]
        case op.Arrive() as arrive:
            verb = {"arrive": "arrive", "drop": "arrive_drop", "no_complete": "arrive.noComplete"}[arrive.kind]
            expect = "" if arrive.expect is None else f".expect_tx {arrive.expect}"
            return f"{verb}{expect}" + (f" x{arrive.count}" if arrive.count != 1 else ""), arrive.barrier
        case op.Transaction():
            verb = "expect_tx" if node.operation.bytes >= 0 else "complete_tx"
            return f"{verb} {abs(node.operation.bytes)}", node.operation.barrier
        case op.Load():
            return f"load {tag_text(node.operation.tag)}", node.operation.write.object
        case op.Touch() as touch:
            tags = ",".join(dict.fromkeys(tag_text(tag) for tag in touch.tags if tag is not None))
            return f"{touch.kind} {tags}".rstrip(), ",".join(access.object for access in touch.accesses)
        case op.Store():
            tags = ",".join(dict.fromkeys(tag_text(tag) for tag in node.operation.tags if tag is not None))
            return f"store {tags}".rstrip(), ",".join(access.object for access in node.operation.sources)
        case op.Group():
            text = {"mma": "wgmma", "bulk": "cp.async.bulk"}[node.operation.kind.split("_")[0]]
            rest = node.operation.kind.split("_", 1)[1]
            verb = {"commit": "commit_group", "wait": "wait_group", "wait_read": "wait_group.read"}[rest]
            return f"{text}.{verb}" + (f" {node.operation.pending}" if rest != "commit" else ""), ""
        case op.Fence():
            return "fence." + node.operation.kind.replace("proxy_async", "proxy.async"), ""
        case op.NamedSync():
            return (
                f"bar.{'sync' if node.operation.blocks else 'arrive'} {node.operation.threads}",
                f"bar{node.operation.id}",
            )
        case op.ClusterArrive():
            return f"barrier.cluster.arrive{'' if node.operation.release else '.relaxed'}", "cluster"
        case op.ClusterWait():
            return "barrier.cluster.wait", "cluster"
        case op.CtaSync():
            return "__syncthreads", "cta"
        case op.WarpSync():
            return "__syncwarp", "warp"
        case op.Choose():
            return "choose", node.operation.name
        case op.Setmaxnreg():
            return f"setmaxnreg.{node.operation.kind} {node.operation.registers}", "registers"
    return type(node.operation).__name__, ""


def labels(tags: Iterable[Hashable]) -> tuple[str, ...]:
    return tuple(tag_text(tag) or "data" for tag in tags)


def tag_text(tag: Hashable) -> str:
    return "" if tag is None else f"k={tag}"
