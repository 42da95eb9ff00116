"""`python -m sm90_verify.evidence.mutation score|twice FILE KERNEL.ptx LAUNCH.json...`: what becomes of edits of PTX.

score: as `verify mutants --ptx` decides them; twice: by order and by search, which holds only launches of a few tiles.
Each edit is a line that is appended to FILE as it is decided. Kernels are called by their launch files. `table FILE`
prints the tables of docs/results.md. `--own FOLDER` instead of files: kernels of ptx.tar.xz in this folder by name.
Exit 1: an edit is a fault that order does not find, or the engines contradict each other; 2: nothing could be done.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sm90_verify.decide.ptx import check_ptx
from sm90_verify.evidence.hardware.from_ptx.cases import right_cases, twin_cases
from sm90_verify.evidence.hardware.from_ptx.compiled import read_archive
from sm90_verify.evidence.hardware.from_ptx.decided import module_of
from sm90_verify.evidence.hardware.from_ptx.record import ARCHIVE
from sm90_verify.evidence.mutation.edit_rows import EditRow, compared, line_of, read_rows, scored, tables
from sm90_verify.evidence.mutation.of_ptx import Edited, chosen_edits, decide, read_edited, to_edit
from sm90_verify.evidence.mutation.two_engines import CONTRADICTED, MISSED, SearchBound, decide_twice
from sm90_verify.frontends.ptx.launch_file import launch_of
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.result import PROVED
from sm90_verify.spec.errors import SpecError


def own_kernel(folder: Path, name: str) -> Edited:
    """A hand-written kernel by its name. Raises SpecError if there is none."""
    case = next((one for one in (*right_cases(), *twin_cases()) if one.name == name), None)
    if case is None:
        known = ", ".join(repr(one.name) for one in right_cases()[:3])
        raise SpecError(f"no kernel {name!r} is kept: use one of evidence/hardware/from_ptx/cases.py, such as {known}")
    text = read_archive(folder / ARCHIVE)[case.compiled]
    return to_edit(module_of(case, text), text, launch_of(dict(case.launch), case.name))


def _kernels(names: Sequence[str], own: Path | None) -> Iterator[tuple[str, Edited]]:
    """Each kernel and what it is called. Raises SpecError unless it is proved as it is."""
    if own is None and len(names) % 2:
        raise SpecError(f"{names[-1]}: give KERNEL.ptx LAUNCH.json for each kernel, or --own FOLDER and names")
    found = (
        ((Path(launch).stem, read_edited(ptx, launch)) for ptx, launch in zip(names[::2], names[1::2], strict=True))
        if own is None
        else ((name, own_kernel(own, name)) for name in names)
    )
    for label, edited in found:
        before = check_ptx(parse(edited.text, edited.path), edited.launch, kernel=edited.name, trace_seconds=0.0)
        if before.verdict != PROVED:
            raise SpecError(f"{label} is {before.verdict} as it is: verify ptx says why")
        yield label, edited


def decided(label: str, edited: Edited, every: int, bound: SearchBound | None) -> Iterator[EditRow]:
    """A row for each of the edits; bound: of the search that is asked as well."""
    for number in chosen_edits(edited.edits, every):
        if bound is None:
            yield scored(label, edited, decide(edited, number))
        else:
            yield compared(label, decide_twice(edited, number, bound))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sm90_verify.evidence.mutation", description=__doc__)
    parser.add_argument("what", choices=("score", "twice", "table"))
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--own", type=Path, metavar="FOLDER", help="of ptx.tar.xz; then kernels are names")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one edit in N of each operator (1)")
    parser.add_argument("--limit", type=int, default=SearchBound().states, metavar="STATES", help="of one search")
    parser.add_argument("--timeout", type=float, default=SearchBound().seconds, metavar="SECONDS", help="of one search")
    given = parser.parse_intermixed_args(arguments)
    bad = 0
    try:
        if given.what == "table":
            print(tables(read_rows(given.file)))
            return 0
        bound = SearchBound(given.limit, given.timeout) if given.what == "twice" else None
        with given.file.open("a") as file:
            for label, edited in _kernels(given.kernels, given.own):
                for row in decided(label, edited, max(given.every, 1), bound):
                    print(line_of(row), file=file, flush=True)
                    bad += row.verdict in (MISSED, CONTRADICTED)
                print(f"{label}: done", file=sys.stderr)
    except (SpecError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
