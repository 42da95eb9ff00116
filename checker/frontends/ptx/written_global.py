"""Global memory that a launch describes, and that the kernel writes: what it then holds is not followed."""

from __future__ import annotations

from sm90_verify.frontends.ptx.handlers import Binding
from sm90_verify.frontends.ptx.instruction import Function, PtxInstruction
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.state import ClusterState
from sm90_verify.spec.errors import Source

NOT_WRITTEN = "here and elsewhere is read what `memory` of the launch file says, and the kernel does not write there"
ELSEWHERE = ("shared", "local", "param")


def may_write(one: PtxInstruction) -> bool:
    """The instruction may write global memory."""
    spaces = [word.split("::")[0] for word in one.modifiers]
    match one.opcode:
        case "st" | "red" | "atom":
            return "async" not in spaces and not any(space in ELSEWHERE for space in spaces)
        case "cp":
            return "bulk" in spaces and "prefetch" not in spaces and "mbarrier" not in spaces
        case "tensormap" | "multimem":
            return True
        case _:
            return False


def took(bound: Binding, at: int, size: int) -> None:
    """Bytes are what the launch says. Raises Undetermined where a store to them has been seen."""
    if bound.cluster.writes_global is None:
        bound.cluster.writes_global = any(may_write(one) for one in bound.code.function.code)
    if not bound.cluster.writes_global:
        return
    if not bound.cluster.taken:
        bound.assume(NOT_WRITTEN)
    for byte in range(at, at + size):
        bound.cluster.taken.setdefault(byte, bound.one.line)
        if byte in bound.cluster.written:
            raise _changed(bound.reader.source, bound.cluster.written[byte])


def wrote(bound: Binding, at: int, size: int) -> None:
    """Bytes are written. Raises Undetermined where what the launch says of them was used."""
    if not any(one.start < at + size and at < one.start + len(one.data) for one in bound.cluster.launch.memory):
        return
    for byte in range(at, at + size):
        bound.cluster.written.setdefault(byte, bound.one.line)
        if byte in bound.cluster.taken:
            raise _changed(bound.code.source(bound.number)._replace(line=bound.cluster.taken[byte]), bound.one.line)


def by_other_clusters(function: Function, path: str, clusters: list[ClusterState]) -> None:
    """Raises Undetermined where one cluster takes what another one has been seen to write."""
    written: dict[int, int] = {}
    for one in clusters:
        written |= one.written
    for one in clusters if written else ():
        for byte, line in one.taken.items():
            if byte in written:
                raise _changed(Source(path, line), written[byte])


def _changed(where: Source, line: int) -> Undetermined:
    what = f"global memory that `memory` of the launch file describes is read here, and line {line} writes it"
    advice = f'say what is read with {{"line": {where.line}, "value": …}} in `assume` of the launch file'
    return Undetermined(f"{what}: {advice}", where)
