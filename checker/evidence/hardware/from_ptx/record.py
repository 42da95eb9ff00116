"""The hand-written kernels by their PTX, all of them.

`python -m sm90_verify.evidence.hardware.from_ptx.record files FOLDER [NAME...]` compiles those whose names begin so
(nvcc) and writes NAME.ptx and NAME.json, the launch, for `verify ptx`; `... keep FOLDER` writes the PTX of all to
ptx.tar.xz and what is said of the 85 mistakes to mistakes.json; `... check FOLDER` asks about every right kernel in
ptx.tar.xz, and says in what PTX and models differ.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sm90_verify.evidence.hardware.from_ptx.cases import PtxCase, other_cases, right_cases, twin_cases, wrong_cases
from sm90_verify.evidence.hardware.from_ptx.compiled import compile_all, ptx_of, read_archive, write_archive
from sm90_verify.evidence.hardware.from_ptx.decided import PtxRow, row
from sm90_verify.evidence.hardware.table import workers
from sm90_verify.spec.errors import SpecError

ARCHIVE, MISTAKES_FILE = "ptx.tar.xz", "mistakes.json"


def everything() -> tuple[PtxCase, ...]:
    return (*wrong_cases(), *twin_cases(), *right_cases(), *other_cases())


def rows(cases: Sequence[tuple[PtxCase, int]], texts: dict[str, str]) -> Iterator[PtxRow]:
    """Of the cases with their numbers in `everything`, in processes of their own."""
    with ProcessPoolExecutor(max_workers=workers()) as pool:
        jobs = [pool.submit(_numbered, number, texts[case.compiled]) for case, number in cases]
        for job in jobs:
            yield job.result()


def _numbered(number: int, text: str) -> PtxRow:
    return row(everything()[number], text)


def read_rows(path: Path) -> tuple[PtxRow, ...]:
    """What `keep` has written."""
    return tuple(_row(one) for one in json.loads(path.read_text()))


def _row(told: dict[str, Any]) -> PtxRow:
    blamed = {property: tuple(lines) for property, lines in told["blamed"].items()}
    return PtxRow(told["name"], tuple(told["model"]), tuple(told["found"]), tuple(told["open"]), blamed)


def file_name(case: PtxCase) -> str:
    return case.name.replace(", ", "_").replace(" ", "_").replace("=", "")


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done, and PTX and models agree; 1: they do not; 2: nothing could be done."""
    parser = argparse.ArgumentParser(
        prog="python -m sm90_verify.evidence.hardware.from_ptx.record", description=__doc__
    )
    parser.add_argument("what", choices=("files", "keep", "check"))
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("name", nargs="*", metavar="NAME")
    given = parser.parse_args(arguments)
    numbered = [(case, number) for number, case in enumerate(everything())]
    try:
        given.folder.mkdir(parents=True, exist_ok=True)
        if given.what == "files":
            for case, _ in numbered:
                if not given.name or case.name.startswith(tuple(given.name)):
                    path = given.folder / file_name(case)
                    path.with_name(f"{path.name}.ptx").write_text(ptx_of(case))
                    path.with_name(f"{path.name}.json").write_text(json.dumps(case.launch, indent=1) + "\n")
            return 0
        if given.what == "keep":
            write_archive(given.folder / ARCHIVE, compile_all(case for case, _ in numbered))
        texts = read_archive(given.folder / ARCHIVE)
    except (SpecError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    wrong = {case.name for case in wrong_cases()}
    asked = [one for one in numbered if (one[0].name in wrong) == (given.what == "keep")]
    kept, failed = [], 0
    for one in rows(asked, texts):
        kept.append(one)
        failed += bool(one.contradicts)
        print(f"{one.name}: {', '.join(one.found) or 'proved'} {one.contradicts}", flush=True)
    if given.what == "keep":
        lines = ",\n".join(json.dumps(asdict(one)) for one in kept)
        (given.folder / MISTAKES_FILE).write_text(f"[\n{lines}\n]\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
