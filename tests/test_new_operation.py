"""A new operation takes few changes: cp.reduce.async.bulk is added to a copy, and every engine decides it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


ADDED = {
    "spec/ptx/memory_operations.py": (
        (
            "@dataclass(frozen=True)\nclass Group(Yielded):",
            '''@dataclass(frozen=True)
class Reduce(Yielded):
    """cp.reduce.async.bulk (9.7.9.25.4.2): adds what it reads to its destination. To global memory it is in a bulk
    group; into the shared memory of a CTA of the cluster it gives its bytes to a barrier there.
    """

    source: Access
    destination: Access
    tag: Hashable = None
    barrier: str = ""
    leaves: Hashable = None


@dataclass(frozen=True)
class Group(Yielded):''',
        ),
        ("OnMemory: TypeAlias = Load | Touch", "OnMemory: TypeAlias = Reduce | Load | Touch"),
    ),
    "spec/ptx/effects.py": (
        (
            "        case op.Group():\n            return _group(operation)\n",
            """        case op.Reduce():
            return _reduce(operation)
        case op.Group():
            return _group(operation)
""",
        ),
        (
            "def _touch(",
            """def _reduce(reduce: op.Reduce) -> Effects:
    source, into = reduce.source, reduce.destination
    until: Until = "landed" if reduce.barrier else "bulk_group"
    begins = Begun(source, "async read", until, (reduce.tag,)), Begun(into, "async write", until)
    if not reduce.barrier:
        return Effects(begins)
    return Effects(begins, ((Copies(into, reduce.barrier, into.stop - into.start, 1, source), reduce.leaves),))


def _touch(""",
        ),
    ),
    "spec/model/words.py": (
        (
            "        case op.Group():\n            return _group(node",
            """        case op.Reduce():
            return f"reduce {tag_text(node.operation.tag)}".rstrip(), node.operation.destination.object
        case op.Group():
            return _group(node""",
        ),
    ),
    "spec/language/handles.py": (
        (
            "    def _strong(self, scope: Scope)",
            '''    def add_to(
        self, to: Tile, signals: Barrier | None = None, tag: Hashable = None, leaves: Hashable = None
    ) -> op.Operation:
        """cp.reduce.async.bulk: adds this buffer to `to`."""
        source, destination = as_read(self.access, "async"), as_write(one_tile(to).access, "async")
        barrier = "" if signals is None else signals.name
        return self._owner.created(op.Reduce(source, destination, self._tag(tag), barrier, leaves))

    def _strong(self, scope: Scope)''',
        ),
    ),
}
"""All that cp.reduce.async.bulk takes: by file, what is replaced by what."""
PROGRAMS = """
from sm90_verify.engines.check import check
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class ToGlobal(Pipeline):
    x = tile(bytes=1024)
    out = tile(bytes=1024, space="global")
    waits = True
    fences = True

    @role(warps=1)
    def adder(self):
        for k in range(2):
            yield self.x.write(tag=k)
            if self.fences:
                yield self.fence_proxy_async()
            yield self.x[0].add_to(self.out[0], tag=k)
            yield self.bulk_commit()
            if self.waits:
                yield self.bulk_wait(0)
        yield self.bulk_wait(0)


class ToCluster(Pipeline):
    cluster = "2x1"
    x = tile(bytes=1024)
    acc = tile(bytes=1024)
    full = barrier(arrivals=1)
    back = barrier(arrivals=32)
    answers = True
    waits = True

    @role(warps=1, ctas=(0,))
    def sender(self):
        yield self.x.write(tag="a")
        yield self.fence_proxy_async()
        yield self.x[0].add_to(self.acc[0].on(1), self.full[0].on(1), tag="a", leaves="sum")
        if self.answers:
            yield self.back[0].wait(0)
        yield self.x.write(tag="b")
        if not self.answers:
            yield self.back[0].wait(0)

    @role(warps=1, ctas=(1,))
    def receiver(self):
        yield self.full[0].arrive_expect_tx(1024)
        if self.waits:
            yield self.full[0].wait(0)
        yield self.acc[0].read(tag="sum")
        if not self.waits:
            yield self.full[0].wait(0)
        yield self.back[0].on(0).arrive(32)


for name, pipeline in {
    "global": ToGlobal(),
    "overwrites its source": ToGlobal(waits=False),
    "no fence": ToGlobal(fences=False),
    "cluster": ToCluster(),
    "overwrites what is sent": ToCluster(answers=False),
    "reads too early": ToCluster(waits=False),
}.items():
    for engine in ("search", "order", "smt"):
        result = check(pipeline, engine=engine)
        print(name, engine, result.verdict, result.trace.property if result.trace else "", sep="|")
"""
VERDICTS = {
    "global": "proved|",
    "overwrites its source": "violated|race",
    "no fence": "violated|missing-fence",
    "cluster": "proved|",
    "overwrites what is sent": "violated|race",
    "reads too early": "violated|race",
}


def test_a_new_operation_takes_four_files_and_every_engine_decides_it(tmp_path):
    """cp.reduce.async.bulk, which is like a store here and like a load there, and reads and writes as neither does."""
    assert len(ADDED) <= 4
    for package in ("spec", "checker", "kernels", ".types"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, symlinks=True, ignore=ignored)
    for file, changes in ADDED.items():
        text = (tmp_path / file).read_text()
        for before, after in changes:
            assert text.count(before) == 1, (file, before)
            text = text.replace(before, after)
        (tmp_path / file).write_text(text)
    (tmp_path / "programs.py").write_text(PROGRAMS)
    environment = {"PYTHONPATH": str(tmp_path / ".types"), "PATH": ""}
    command = [sys.executable, "programs.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    said = {tuple(line.split("|")[:2]): line.split("|", 2)[2] for line in done.stdout.splitlines()}
    assert said == {(name, engine): VERDICTS[name] for name in VERDICTS for engine in ("search", "order", "smt")}
