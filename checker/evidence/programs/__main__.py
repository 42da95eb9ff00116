"""`python -m sm90_verify.evidence.programs --seeds 0 1000`: random programs over the whole language, decided by every
engine that can; exit 1 if two of them contradict each other. Nothing is written, but with -o.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from sm90_verify.evidence.programs.generate import random_program
from sm90_verify.evidence.programs.joint import random_joint
from sm90_verify.evidence.programs.program import written
from sm90_verify.evidence.programs.run import LanguageTally, compare_all

ANSWERS = ("proved", "violated", "undetermined", "refused")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.programs",
        description="Random programs over the whole language, decided by every engine that can.",
    )
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 1000), metavar=("FIRST", "STOP"), help="(0 1000)")
    parser.add_argument("--proof", type=float, default=0.0, metavar="SECONDS", help="Z3 too, for so long each (0: no)")
    parser.add_argument("--show", action="store_true", help="print the program of each seed, and decide nothing")
    parser.add_argument(
        "--joint", action="store_true", help="programs of warpgroups whose warps are programs of their own"
    )
    parser.add_argument("-o", dest="file", metavar="FILE", help="keep the counts as JSON, every 500 programs")
    options = parser.parse_args()
    first, stop = options.seeds
    if options.show:
        for seed in range(first, stop):
            program = random_joint(seed) if options.joint else random_program(seed)
            print(f"# seed {seed}\n{written(program).text}")
        return 0

    def tell(seed: int, so_far: LanguageTally) -> None:
        if (seed + 1 - first) % 500 == 0:
            print(f"{seed + 1 - first} programs, {len(so_far.disagreements)} disagreements", file=sys.stderr)
            keep(so_far, seed + 1)

    def keep(tally: LanguageTally, before: int) -> None:
        if options.file:
            Path(options.file).write_text(json.dumps(tally.values(first, before), indent=1) + "\n", encoding="utf-8")

    tally = compare_all(first, stop, proof=options.proof, joint=options.joint, tell=tell)
    keep(tally, stop)
    for line in lines(tally):
        print(line)
    return int(bool(tally.disagreements))


def lines(tally: LanguageTally) -> Iterator[str]:
    """What is printed: disagreements first, then counts by operation and answer, and the sum."""
    for one in tally.disagreements[:20]:
        yield one + "\n"
    yield f"{'executed in programs that are':<56}" + "".join(f"{answer:>13}" for answer in ANSWERS[:3])
    for name, counts in sorted(tally.operations.items()):
        yield f"{name:<56}" + "".join(f"{counts[answer]:>13}" for answer in ANSWERS[:3])
    yield f"{sum(tally.answers.values())} programs: " + ", ".join(f"{tally.answers[one]} {one}" for one in ANSWERS)
    yield f"order: {', '.join(f'{count} {said}' for said, count in sorted(tally.order.items()))}"
    yield f"{tally.left_out} with schedules left out, {tally.noted} with a note"
    yield f"{len(tally.disagreements)} disagreements"


if __name__ == "__main__":
    sys.exit(main())
