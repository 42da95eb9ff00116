"""`verify` as the tests call it: specifications as texts, and a command with its exit code and what it prints."""

from __future__ import annotations

from pathlib import Path

from sm90_verify.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
LOG = str(ROOT / "tests" / "data" / "synclog")
RACE = """
from sm90_verify import Pipeline, barrier, role, tile


class DoubleBuffer(Pipeline):
    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=16_384)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.empty[at].arrive()
        yield self.mma_wait(0)
"""
HANG = RACE.replace("yield self.empty[at].arrive()", "yield self.mma_wait(0)")
GOOD = RACE.replace(
    "        yield self.empty[at].arrive()\n        yield self.mma_wait(0)",
    "        yield self.mma_wait(0)\n        yield self.empty[at].arrive()",
)


def run(*arguments: str, capsys) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err
