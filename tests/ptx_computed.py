"""What our execution of PTX leaves in global memory, as a GPU would: every instruction kept, and every store seen."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.evidence.hardware.arithmetic.snippets import ENTRY, PARAMETERS, THREADS, WORD, Snippet, kernel
from sm90_verify.frontends.ptx.addresses import Addresses, code_of
from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Handler
from sm90_verify.frontends.ptx.instruction import PtxModule
from sm90_verify.frontends.ptx.launch import Block, Bytes, Launch
from sm90_verify.frontends.ptx.operands import Indices, OperandReader
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.slices import everything
from sm90_verify.frontends.ptx.spaces import space_of
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.values import One, lane
from sm90_verify.spec.model.tick import unheard

GIVEN, FOUND = 1 << 40, 1 << 41
"""Where operands and results lie."""


def launch_of(module: PtxModule, given: bytes, threads: int) -> Launch:
    """The launch of a kernel of snippets by CTAs of so many threads."""
    pointers = b"".join(one.to_bytes(8, "little") for one in (GIVEN, FOUND, *PARAMETERS))
    return Launch(
        "launch",
        ENTRY,
        (THREADS // threads, 1, 1),
        (threads, 1, 1),
        parameters=Bytes(0, pointers, b"\1" * len(pointers)),
        memory=(Bytes(GIVEN, given, b"\1" * len(given)),),
    )


def stored(code: Code, addresses: Addresses, launch: Launch, block: Block) -> dict[int, One]:
    """By address, what a CTA stores in global memory."""
    run, found = ClusterRun(code, addresses, launch, (block,), unheard), dict[int, One]()
    for number, one in enumerate(code.function.code):
        if one.opcode == "st" and not {"shared", "local"} & set(one.modifiers):
            run.handlers[number] = _watched(OperandReader(code, number, addresses), run._bind(number), found)
    run.run()
    assert not any(warp.fragments for warp in run.cluster.ctas[0].warps), "lanes wait for ever"
    return found


def _watched(reader: OperandReader, otherwise: Handler, found: dict[int, One]) -> Handler:
    where, what = (reader.get(operand, 64) for operand in reader.one.operands)

    def handle(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        places, values = where(fragment), what(fragment)
        if "global" not in reader.one.modifiers and space_of(lane(places, lanes[0])) != "global":
            return otherwise(warp, fragment, lanes)
        for index in lanes:
            place = lane(places, index)
            assert isinstance(place, int)
            found[place] = lane(values, index)
        return True

    return handle


class Computing:
    """Executes a kernel of snippets; found: what was stored, by address."""

    def __init__(self, snippets: Sequence[Snippet], threads: int) -> None:
        text, self.rows = kernel(snippets)
        self.snippets, self.found = snippets, dict[int, One]()
        given = b"".join(
            value.to_bytes(WORD, "little") for one in snippets for operand in one.operands() for value in operand
        )
        module = parse(text, "snippets.ptx")
        self.launch = launch_of(module, given, threads)
        (function,) = module.entries
        self.code, self.addresses = code_of(module, function, self.launch, everything(function))

    def run(self, cta: int) -> None:
        self.found |= stored(self.code, self.addresses, self.launch, (cta, 0, 0))

    def results(self, one: int, threads: Sequence[int]) -> list[list[One]]:
        """By result of a snippet, what each of the threads has left; 0 where it has left nothing."""
        first = self.rows[one].kept
        return [
            [self.found.get(FOUND + (row * THREADS + thread) * WORD, 0) for thread in threads]
            for row in range(first, first + len(self.snippets[one].kept))
        ]
