"""What a GPU does with arrivals in a phase although nobody has seen the phase before complete (kernels/unobserved.cu).

`python -m sm90_verify.evidence.hardware.unobserved --phases 1000000 --to unobserved.jsonl.gz` counts them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sm90_verify.gpu.device import Module, gpu, sources
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError

KIND = "sm90-unobserved-phases"
THREADS = 96
PHASES = 100_000
"""Of each barrier, unless the command says otherwise."""


@dataclass(frozen=True)
class UnobservedMode:
    """One of the ways in which the kernel does it: its number, what it does, and the CTAs that share a barrier."""

    mode: int
    what: str
    ctas: int


WAYS = (
    UnobservedMode(0, "an arrival by another warp of the CTA", 1),
    UnobservedMode(1, "an arrival by another CTA of the cluster", 2),
    UnobservedMode(2, "an arrive.expect_tx by another warp of the CTA", 1),
    UnobservedMode(3, "a rendezvous of two CTAs, each of which arrives at both barriers", 2),
)


@dataclass(frozen=True)
class UnobservedCount:
    """What one way came to, in the order in which the kernel counts.

    phases: completed, and seen by the waiter. unobserved: arrivals in a phase after one that nobody had looked at.
    not_complete, too_early: looks at which the phase before was not complete, or this one was. wrong_pending: arrivals
    whose token says that another number of arrivals was pending. gave_up: threads whose turn never came.
    """

    phases: int
    unobserved: int
    not_complete: int
    too_early: int
    wrong_pending: int
    gave_up: int

    @property
    def wrong(self) -> int:
        """What is not as if somebody had looked."""
        return self.not_complete + self.too_early + self.wrong_pending + self.gave_up


def count(way: UnobservedMode, phases: int, ctas: int) -> UnobservedCount:
    """Runs one way on so many CTAs, a barrier or a pair of them after the other. Raises device.Fault."""
    module = Module((sources() / "unobserved.cu").read_text())
    cupy = module.cupy
    counted = cupy.zeros(len(UnobservedCount.__dataclass_fields__), dtype=cupy.uint64)
    arguments = (cupy.int32(way.mode), cupy.uint32(phases), counted)
    module.launch("unobserved", ctas - ctas % way.ctas, THREADS, arguments, cluster=way.ctas)
    return UnobservedCount(*map(int, counted.get()))


def record_unobserved(path: str, phases: int = PHASES) -> list[tuple[str, UnobservedCount]]:
    """Runs all ways on as many CTAs as there are multiprocessors, and writes what was counted.

    Raises SpecError without a Hopper GPU, and for a phase that was lost, passed early or never came.
    """
    machine = gpu()
    found = [(way.what, count(way, phases, machine.multiprocessors)) for way in WAYS]
    write_lines(KIND, asdict(machine), [{"what": what, **asdict(counted)} for what, counted in found], path)
    wrong = [what for what, counted in found if counted.wrong]
    if wrong:
        raise SpecError(f"phases that nobody observed are not as others: {'; '.join(wrong)}")
    return found


def read_unobserved(path: str) -> list[tuple[str, UnobservedCount]]:
    """What `record_unobserved` wrote."""
    return [(line.pop("what"), UnobservedCount(**line)) for line in read_lines(path, KIND)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sm90_verify.evidence.hardware.unobserved", description=__doc__)
    parser.add_argument("--phases", type=int, default=PHASES, help="of each barrier")
    parser.add_argument("--to", default="unobserved.jsonl.gz", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        found = record_unobserved(options.to, options.phases)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    for what, counted in found:
        print(f"{counted.unobserved} arrivals in {counted.phases} phases, {counted.wrong} wrong: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
