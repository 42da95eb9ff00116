"""What the hardware does with ill-formed sequences of operations on an mbarrier, each in a process of its own.

A fault leaves its process without a GPU. So a process does sequences one after the other up to the first that faults,
says what it saw, and another one goes on:

    python -m sm90_verify.evidence.hardware.mbarrier.ill_formed NAME INDEX ...
    python -m sm90_verify.evidence.hardware.mbarrier.ill_formed

The first gives the sequences of a kind (NAME.twin: their twins), the second all of them.

Each writes one line of JSON per sequence. Behind every sequence whose barrier is live both parities are tested and an
arrival that counts 0 is made, which show what became of the barrier.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from sm90_verify.evidence.hardware.mbarrier import specimens_arrivals, specimens_bytes, specimens_places
from sm90_verify.evidence.hardware.mbarrier.driver import Cubin, compiled
from sm90_verify.evidence.hardware.mbarrier.generate import row, vocabulary
from sm90_verify.evidence.hardware.mbarrier.menu import ARRIVALS, operation
from sm90_verify.evidence.hardware.mbarrier.reference import Reference
from sm90_verify.evidence.hardware.mbarrier.specimens import LEGAL, Kind
from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.numbers import Breach

FAULT = 3
"""Exit code of a process that met a fault."""
LONGEST = 64
"""Operations of a sequence, at most."""
UNWRITTEN = -(1 << 31)
EACH = 6
"""Sequences of a kind that are done where all are done: the driver needs a second or so for every fault."""
BATCH = 6
SECONDS = 30
"""After which a process that does a batch is ended."""
TIME_IS_UP = "its time is up"
PROBES = ("test_wait.parity 0", "test_wait.parity 1", "arrive 0")
TWIN = ".twin"


@dataclass(frozen=True)
class IllFormedReaction:
    """spec: the property that the spec says is violated, the rule of PTX that is broken, or "legal". fault: the launch
    ended with the CUDA error `code`; -1: it did not end. answers: of the operations and the probes, as far as it came.
    """

    name: str
    index: int
    spec: str
    fault: bool
    answers: tuple[int, ...]
    code: int = 0


@lru_cache(maxsize=1)
def kinds() -> dict[str, Kind]:
    """All kinds of ill-formed sequences by name, and those that are legal and doubted."""
    groups = (
        specimens_arrivals.lifetime(),
        specimens_arrivals.arrivals(),
        specimens_bytes.transactions(),
        specimens_bytes.waits(),
        specimens_places.other_ctas(),
        specimens_places.addresses(),
        specimens_places.legal(),
    )
    return {kind.name: kind for kind in chain(*groups)}


def operations_of(name: str, index: int) -> tuple[str, ...]:
    """A sequence by kind and number; raises SpecError if there is none."""
    kind = kinds().get(name.removesuffix(TWIN))
    if kind is None or not 0 <= index < len(kind.specimens):
        raise SpecError(f"there is no sequence {index} of a kind {name!r}: the kinds are {', '.join(kinds())}")
    specimen = kind.specimens[index]
    return specimen.twin if name.endswith(TWIN) else specimen.operations


def verdict(name: str, index: int) -> str:
    """What the spec says of a sequence: a property, a rule of PTX, or "legal"."""
    kind = kinds()[name.removesuffix(TWIN)]
    if kind.rule and not name.endswith(TWIN):
        return kind.rule
    answers = Reference().run_sequence(operations_of(name, index))
    last = answers[-1] if answers else None
    return last.property if isinstance(last, Breach) else LEGAL


def probes(operations: Sequence[str]) -> tuple[str, ...]:
    """What is done after a sequence to see what became of its barrier: nothing if it is dead."""
    own = [one for one in map(operation, operations) if one.place in ("", "other")]
    alive = [one.verb == "init" for one in own if one.verb in ("init", "inval")]
    if not alive or not alive[-1]:
        return ()
    first = next(one.verb for one in own if one.verb in ("init", "align"))
    moved = first == "init" and any(one.verb == "align" for one in own)
    return ("align 0", *PROBES) if moved else PROBES


def encoded(operations: Sequence[str]) -> list[int]:
    """The words of struct Operation, one operation after the other. A wait for a token gets its arrival's position."""
    words: list[int] = []
    latest = 0
    for position, one in enumerate(map(operation, operations)):
        fields = list(row(one))
        if one.verb in ("test_wait", "try_wait") and one.operand is None:
            fields[2] = latest
        words += fields
        if one.verb in ARRIVALS:
            latest = position
    return words


def text() -> str:
    """The complete CUDA text of the interpreter."""
    return "\n".join([vocabulary(), *((sources() / name).read_text() for name in ("mbarrier.cuh", "ill_formed.cu"))])


def run_one(name: str, index: int, cubin: Cubin | None = None) -> bool:
    """Does one sequence in this process and writes a line of JSON; True if it faults, and the GPU is lost to it."""
    import ctypes

    cubin = cubin or Cubin(compiled(text()), LONGEST)
    operations = operations_of(name, index)
    operations = (*operations, *probes(operations))
    words = encoded(operations)
    cubin.seen[:] = [UNWRITTEN] * LONGEST
    numbers = cubin.allocate(4 * len(words))
    cubin.fill(numbers, words)
    source = cubin.allocate(1 << 16)
    pair = any(operation(one).place in ("remote", "peer", "peer's") for one in operations)
    arguments = (numbers, ctypes.c_int(len(operations)), cubin.seen_at, source)
    code = cubin.run("interpret_pair" if pair else "interpret", 2 if pair else 1, 32, arguments)
    answers = list(cubin.seen[: len(operations)])
    answers = answers[: answers.index(UNWRITTEN)] if UNWRITTEN in answers else answers
    line = {"class": name, "index": index, "fault": bool(code), "code": code, "answers": answers}
    print(json.dumps(line), flush=True)
    return bool(code)


def run_all(processes: int = 4, *, each: int = EACH, twins: bool = True) -> Iterator[IllFormedReaction]:
    """The first `each` sequences of every kind, and their twins, as they are done.

    Raises SpecError where there is no GPU or no nvcc.
    """
    chosen = {name: min(each, len(kind.specimens)) for name, kind in kinds().items()}
    jobs = [(name, list(range(size))) for name, size in chosen.items()]
    if twins:
        jobs += [
            (f"{name}{TWIN}", [n for n in range(size) if kinds()[name].specimens[n].twin])
            for name, size in chosen.items()
        ]
    batches = [(name, numbers[at : at + BATCH]) for name, numbers in jobs for at in range(0, len(numbers), BATCH)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        path = Path(folder) / "ill_formed.cubin"
        path.write_bytes(compiled(text()))
        waiting = [pool.submit(lambda batch: list(_batch(str(path), *batch)), batch) for batch in batches]
        for done in as_completed(waiting):
            yield from done.result()


def _batch(cubin: str, name: str, indices: list[int]) -> Iterator[IllFormedReaction]:
    """As many processes as there are faults, and one more."""
    left = list(indices)
    failures = 0
    while left:
        lines, error = _process(cubin, name, left)
        for line in lines:
            left.remove(line["index"])
            yield _reaction(name, line)
        if lines:
            continue
        if error == TIME_IS_UP:
            yield _reaction(name, {"index": left.pop(0), "fault": True, "code": -1, "answers": []})
            continue
        failures += 1
        if failures > 2:
            raise SpecError(f"a process that should do {name} {left[0]} fails: {error}")
        time.sleep(1)


def _process(cubin: str, name: str, indices: list[int]) -> tuple[list[dict[str, Any]], str]:
    """The lines of one process, and what went wrong with it if it wrote none."""
    command = [
        sys.executable,
        "-m",
        "sm90_verify.evidence.hardware.mbarrier.ill_formed",
        "--cubin",
        cubin,
        name,
        *map(str, indices),
    ]
    root = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=root
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
        error = err.strip()[-500:] or f"exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        error = TIME_IS_UP
    return [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")], error


def _reaction(name: str, line: dict[str, Any]) -> IllFormedReaction:
    index = line["index"]
    return IllFormedReaction(name, index, verdict(name, index), line["fault"], tuple(line["answers"]), line["code"])


def disagreements(reactions: Sequence[IllFormedReaction]) -> list[str]:
    """Legal sequences that fault, or whose answers are not the spec's. A try_wait may be false for no reason."""
    found: list[str] = []
    for one in reactions:
        if one.spec != LEGAL:
            continue
        operations = operations_of(one.name, one.index)
        operations = (*operations, *probes(operations))
        said = Reference().run_sequence(operations)
        wrong = [
            f"{name} is {got}, the spec says {want}"
            for name, got, want in zip(operations, one.answers, said)
            if isinstance(want, int) and got != want and not (name.startswith("try") and not got)
        ]
        if one.fault:
            wrong.append(f"a fault at {operations[min(len(one.answers), len(operations) - 1)]}")
        if wrong:
            found.append(f"{one.name} {one.index} ({'; '.join(operations)}): {', '.join(wrong)}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all is done; FAULT: up to the first sequence that faults; 2: it could not be done."""
    parser = argparse.ArgumentParser(description="Runs ill-formed sequences of mbarrier operations on the GPU.")
    parser.add_argument("--cubin", help="the compiled interpreter; without it, nvcc compiles it")
    parser.add_argument(
        "name", nargs="?", help="a kind of sequences; without it, all are run in processes of their own"
    )
    parser.add_argument("index", nargs="*", type=int)
    given = parser.parse_args(arguments)
    try:
        if given.name is None:
            for reaction in run_all():
                print(json.dumps(asdict(reaction)), flush=True)
            return 0
        image = Path(given.cubin).read_bytes() if given.cubin else compiled(text())
        cubin = Cubin(image, LONGEST)
        for index in given.index or range(len(kinds()[given.name.removesuffix(TWIN)].specimens)):
            if run_one(given.name, index, cubin):
                return FAULT
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
