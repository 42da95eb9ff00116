"""The word of shared memory that an mbarrier is, after random operations (kernels/hang_words.cu).

PTX calls the object opaque. What its bits mean is read off here: every sequence is one that the specification allows,
so that the state behind each word is known. The words are those of a core dump.

`python -m sm90_verify.evidence.hardware.hangs.words --to words.jsonl.gz` compiles the program, and records them.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from sm90_verify.evidence.hardware.hangs.cases import WORDS, Hang
from sm90_verify.evidence.hardware.hangs.known import SHARED
from sm90_verify.evidence.hardware.hangs.record import build, dump
from sm90_verify.evidence.hardware.mbarrier.menu import PLAIN, operation
from sm90_verify.evidence.hardware.mbarrier.reference import Reference
from sm90_verify.frontends.cudacore.container import container_of
from sm90_verify.frontends.cudacore.dump import CudaCore
from sm90_verify.frontends.cudacore.read import core_of
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.numbers import Breach, KnownBarrier

KIND = "sm90-mbarrier-words"
PROGRAM = "words"
ORDER = (
    "init",
    "expect_tx",
    "complete_tx",
    "arrive",
    "arrive.expect_tx",
    "arrive.noComplete",
    "arrive_drop",
    "arrive_drop.expect_tx",
    "test_wait.parity",
)
"""By number, enum Verb of the kernel."""
CTAS, BARRIERS, LENGTH = 3, 256, 40
"""Of a launch, of a CTA, and operations of a barrier, at most. The threads of a CTA are as many as its barriers."""
TRIES = 50
"""Operations that are drawn before a sequence ends for want of a legal one."""
COUNTS = (1, 2, 3, 5, 7, 32, 128, 255, 256, 1023, 65535, 65536, 1 << 19, COUNT_LIMIT - 1, COUNT_LIMIT)
BYTES = (0, 1, 2, 15, 16, 255, 2048, 4095, 65535, 65536, 1 << 19, COUNT_LIMIT - 1, COUNT_LIMIT)


@dataclass(frozen=True)
class WordAfter:
    """Operations on one barrier by name, and its word after them. watched: a thread waited for the current phase."""

    operations: tuple[str, ...]
    word: int
    watched: bool

    @property
    def state(self) -> KnownBarrier:
        """As the specification has it."""
        return after(self.operations)


def after(names: Sequence[str]) -> KnownBarrier:
    """The barrier after these operations; raises SpecError for one that is illegal."""
    reference = Reference()
    for name in names:
        answer = reference.take(operation(name))
        if isinstance(answer, Breach):
            raise SpecError(f"{name}: {answer.because}")
    return reference.state


def sequences(seed: int, count: int = CTAS * BARRIERS) -> list[tuple[str, ...]]:
    """Random operations that the specification allows, 1 to LENGTH each; equal arguments give the same."""
    return [tuple(_sequence(random.Random(f"{seed} {number}"))) for number in range(count)]


def _sequence(draw: random.Random) -> Iterator[str]:
    reference = Reference()
    for _ in range(draw.randint(1, draw.choice((4, 12, LENGTH)))):
        for _ in range(TRIES):
            name = _drawn(draw, reference)
            following = deepcopy(reference)
            if not isinstance(following.take(operation(name)), Breach):
                reference = following
                yield name
                break
        else:
            return


def _drawn(draw: random.Random, reference: Reference) -> str:
    """An operation with a leaning towards what brings a phase to its end."""
    state = reference.state
    if not state.alive:
        return f"init {draw.choice(COUNTS) if draw.random() < 0.7 else draw.randint(1, COUNT_LIMIT)}"
    if not state.observed and draw.random() < 0.8:
        return f"test_wait.parity {state.phase ^ 1}"
    if state.tx > 0 and draw.random() < 0.4:
        return f"complete_tx {draw.choice((state.tx, draw.randint(0, state.tx)))}"
    if state.tx < 0 and draw.random() < 0.4:
        return f"expect_tx {draw.choice((-state.tx, draw.randint(0, -state.tx)))}"
    verb = draw.choice(("arrive", *ORDER[1:8]))
    if verb.endswith("_tx"):
        return f"{verb} {draw.choice(BYTES) if draw.random() < 0.7 else draw.randint(0, COUNT_LIMIT)}"
    if draw.random() < 0.2 and verb in PLAIN:
        return verb
    most = max(state.pending, 1)
    return f"{verb} {draw.choice((1, most, draw.randint(1, most), draw.choice(COUNTS)))}"


def packed(given: Sequence[tuple[str, ...]]) -> bytes:
    """As the program reads them; of each CTA's barriers, every other one is waited for."""
    rows, parities = [], []
    for number, names in enumerate(given):
        for name in names:
            one = operation(name)
            rows.append(struct.pack("<iI", ORDER.index(one.verb), 1 if one.operand is None else one.operand))
        rows += [struct.pack("<iI", -1, 0)] * (LENGTH - len(names))
        parities.append(struct.pack("<i", after(names).phase if watched(number) else -1))
    return b"".join(rows + parities)


def watched(number: int) -> bool:
    return number % 2 == 1


def record_words(programs: Path, seed: int) -> tuple[CudaCore, list[WordAfter]]:
    """Runs the program, which is compiled if it is not there, and reads a core dump of it. Raises SpecError."""
    hang = Hang(PROGRAM, WORDS, {}, (), "", 1)
    program = programs / PROGRAM
    if not program.exists():
        build(hang, programs)
    given = sequences(seed)
    with tempfile.NamedTemporaryFile() as file:
        file.write(packed(given))
        file.flush()
        data = dump(hang, program, [file.name, *map(str, (CTAS, BARRIERS, LENGTH))])
    core = core_of(container_of(PROGRAM, data))
    return core, words_of(core, given)


def words_of(core: CudaCore, given: Sequence[tuple[str, ...]]) -> list[WordAfter]:
    """The words of a dump. Raises SpecError if it does not have them all."""
    found = []
    for number, names in enumerate(given):
        cta, barrier = divmod(number, BARRIERS)
        word = core.ctas[cta].word(SHARED + 8 * barrier) if cta < len(core.ctas) else None
        if word is None:
            raise SpecError(f"{core.path}: there is no barrier {barrier} of CTA {cta}")
        found.append(WordAfter(names, word, watched(number)))
    return found


def write_words(machine: dict[str, object], found: Sequence[WordAfter], path: str) -> None:
    """What was read, behind what it was seen on."""
    lines = [
        {"operations": "; ".join(one.operations), "word": f"{one.word:016x}", "watched": one.watched} for one in found
    ]
    write_lines(KIND, machine, lines, path)


def read_words(path: str) -> list[WordAfter]:
    """What `write_words` wrote."""
    return [
        WordAfter(tuple(line["operations"].split("; ")), int(line["word"], 16), line["watched"])
        for line in read_lines(path, KIND)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done; 2: it could not be done."""
    parser = argparse.ArgumentParser(prog="python -m sm90_verify.evidence.hardware.hangs.words", description=__doc__)
    parser.add_argument("--to", required=True, metavar="FILE.jsonl.gz")
    parser.add_argument("--programs", type=Path, default=Path(), metavar="FOLDER", help="where the program is, or goes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    try:
        core, found = record_words(given.programs, given.seed)
        write_words({"name": core.devices[0].name, "driver": core.driver}, found, given.to)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
