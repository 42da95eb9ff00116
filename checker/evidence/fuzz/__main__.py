"""`python -m sm90_verify.evidence.fuzz`: as many random programs as there is time for; exit 1 if any is decided
differently, or if a rule of the reduction was never used.
"""

from __future__ import annotations

import argparse
import os
import sys

from sm90_verify.evidence.fuzz.run import RULES, FuzzTally, fuzz


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.fuzz", description="Random programs, decided twice."
    )
    parser.add_argument("--programs", type=int, default=1_000_000, metavar="N", help="how many (1000000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first one (0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one per core")
    options = parser.parse_args()

    def tell(so_far: FuzzTally) -> None:
        print(f"{so_far.programs} programs, {len(so_far.disagreements)} decided differently", file=sys.stderr)

    tally = fuzz(options.seed, options.programs, processes=options.processes, tell=tell)
    for one in tally.disagreements[:20]:
        print(one, end="\n\n")
    print(f"{tally.programs} programs, {tally.proved} proved, {len(tally.disagreements)} decided differently")
    for rule in RULES:
        print(f"  {rule:<10} used by {tally.used[rule]}")
    return int(bool(tally.disagreements) or any(not tally.used[rule] for rule in RULES))


if __name__ == "__main__":
    sys.exit(main())
