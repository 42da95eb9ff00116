"""Executes forms and random programs on a GPU, and records what they compute.

`python -m sm90_verify.evidence.hardware.arithmetic.record --to arithmetic.jsonl.gz` takes a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import NamedTuple

from sm90_verify.evidence.hardware.arithmetic.collectives import collectives
from sm90_verify.evidence.hardware.arithmetic.forms import all_forms
from sm90_verify.evidence.hardware.arithmetic.operands import WARP_LANES
from sm90_verify.evidence.hardware.arithmetic.programs import programs
from sm90_verify.evidence.hardware.arithmetic.snippets import (
    BITS,
    ENTRY,
    PARAMETERS,
    THREADS,
    WORD,
    Rows,
    Snippet,
    kernel,
)
from sm90_verify.gpu.device import Module, gpu
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError

ARITHMETIC_KIND = "sm90-arithmetic"
PROGRAMS, LENGTH = 60, 30
"""How many random programs, and the instructions of each."""
OF_A_KERNEL = 3_000
"""Lines of snippets that make one kernel."""
DIGEST = 6
"""Bytes that stand for what all threads have computed."""

Results = Sequence[Sequence[int]]
"""By result of a snippet, what each thread has left, unsigned."""


class Computed(NamedTuple):
    """What a snippet computes. digests: by result, of all threads. first: by result, the bits of the first warp in
    hexadecimal, the last lane's first; of a random program nothing.
    """

    text: str
    digests: tuple[str, ...]
    first: tuple[str, ...] = ()


def computed(one: Snippet, results: Results, *, whole: bool) -> Computed:
    """What is kept of the results. whole: the bits of the first warp too."""
    digests = tuple(
        blake2b(b"".join(value.to_bytes(WORD, "little") for value in row), digest_size=DIGEST).hexdigest()
        for row in results
    )
    first = tuple(_in_a_row(row[:WARP_LANES], BITS[kind]) for row, kind in zip(results, one.kept, strict=True))
    return Computed(one.text, digests, first if whole else ())


def _in_a_row(values: Sequence[int], bits: int) -> str:
    return f"{sum(value << bits * lane for lane, value in enumerate(values)):0{bits * len(values) // 4}x}"


def values_of(row: str) -> list[int]:
    """What the lanes of the first warp have computed."""
    bits, whole = 4 * len(row) // WARP_LANES, int(row, 16)
    return [whole >> bits * lane & ((1 << bits) - 1) for lane in range(WARP_LANES)]


def on_gpu(snippets: Sequence[Snippet]) -> list[Results]:
    """By snippet, its results."""
    return [one for some in kernels_of(snippets) for one in _launched(*some)]


def kernels_of(snippets: Sequence[Snippet]) -> Iterator[tuple[list[Snippet], str, list[Rows]]]:
    """Kernels of some of the snippets each, with where each of these has its rows."""
    some: list[Snippet] = []
    lines = 0
    for one in snippets:
        some.append(one)
        lines += one.text.count("\n")
        if lines > OF_A_KERNEL:
            yield some, *kernel(some)
            some, lines = [], 0
    if some:
        yield some, *kernel(some)


def _launched(snippets: Sequence[Snippet], text: str, rows: Sequence[Rows]) -> list[Results]:
    module = Module.of_ptx(text)
    cupy = module.cupy
    operands = [value for one in snippets for operand in one.operands() for value in operand]
    given = cupy.asarray(operands or [0], dtype=cupy.uint64)
    found = cupy.zeros(sum(len(one.kept) for one in snippets) * THREADS, dtype=cupy.uint64)
    module.launch(ENTRY, 1, THREADS, (given, found, *map(cupy.uint64, PARAMETERS)))
    by_row = found.get().reshape(-1, THREADS).tolist()
    return [by_row[at.kept : at.kept + len(one.kept)] for one, at in zip(snippets, rows, strict=True)]


def recorded_snippets(seed: int) -> tuple[list[Snippet], list[Snippet]]:
    """The forms, and random programs."""
    return [*all_forms(), *collectives()], programs(seed, PROGRAMS, LENGTH)


def record_arithmetic(path: str, seed: int = 1) -> int:
    """Writes what a GPU computes. Raises SpecError without a Hopper GPU."""
    machine = gpu()
    forms, random = recorded_snippets(seed)
    seen = [computed(one, results, whole=True) for one, results in zip(forms, on_gpu(forms), strict=True)]
    seen += [computed(one, results, whole=False) for one, results in zip(random, on_gpu(random), strict=True)]
    write_lines(ARITHMETIC_KIND, asdict(machine), [one._asdict() for one in seen], path)
    return len(seen)


def read_arithmetic(path: str) -> list[Computed]:
    """What `record_arithmetic` wrote."""
    return [
        Computed(line["text"], tuple(line["digests"]), tuple(line["first"]))
        for line in read_lines(path, ARITHMETIC_KIND)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.hardware.arithmetic.record", description=__doc__
    )
    parser.add_argument("--seed", type=int, default=1, help="of the random programs")
    parser.add_argument("--to", default="arithmetic.jsonl.gz", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        print(f"{record_arithmetic(options.to, options.seed)} forms and programs")
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
