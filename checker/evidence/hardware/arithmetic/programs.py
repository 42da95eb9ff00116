"""Random programs of the forms: results become operands, immediates and guards are common, and lanes part and join.

Of 460 that an H200 executed, 456 do what our execution does. The other four, of 18,000 instructions in all, show what
ptxas 13.0 makes of them: an amount of shl.b64 or shr.u64 that comes from mov.f32 or slct.f32 is converted to an integer
(twice); cvt.sat.s8.u32 of the 1 of a cnot gives -128; rem.u32 by what lop3.and has written is not the remainder.
"""

from __future__ import annotations

import re
from random import Random

from sm90_verify.evidence.hardware.arithmetic.collectives import collectives
from sm90_verify.evidence.hardware.arithmetic.forms import all_forms
from sm90_verify.evidence.hardware.arithmetic.operands import REGISTERS
from sm90_verify.evidence.hardware.arithmetic.snippets import Snippet

POOLS = {"b16": ("h", 5), "b32": ("r", 9), "b64": ("d", 6), "pred": ("q", 5)}
"""By type, the letter of its registers in a program, and how many there are."""
IMMEDIATE = re.compile(
    r"(add|sub|mul|mad|min|max|sad|div|rem|and|or|xor|shl|shr|shf|bfe|bfi|prmt|lop3|setp|set|selp)"
    r"\.([a-z]+\.)*[a-z]+(16|32|64) "
)
"""Instructions of which the last operand, or the last but one, may be an immediate."""
ASSUMED = re.compile(r"\b(abs\.|neg\.s16|fns\.)|\.ftz\.")
"""Not in programs, for ptxas takes for granted what they give: that there is no -(-32768), and that 1e-40 is not 0."""
UNGUARDED = re.compile(r"\.sync|16|\b(set|testp|div|rem)\.")
"""Instructions that ptxas 13.0 makes several of, and does not guard all of these."""
OPERAND = re.compile(r"\b[abcepxyz]\b")


class RandomProgram:
    """Writes one program."""

    def __init__(self, random: Random, *, together: bool) -> None:
        """together: lanes take part in collectives."""
        self.random = random
        self.forms: dict[str, list[Snippet]] = {}
        for one in all_forms():
            apart = any(word in one.text for word in ("box", "b128", ".b8", "%")) or ASSUMED.search(one.text)
            if one.given and not apart:
                self.forms.setdefault(_opcode(one), []).append(one)
        self.together = (
            [one for one in collectives() if "OVER" not in one.text and "%" not in one.text] if together else []
        )
        self.lines = [
            f"given {kind} {letter}{number}" for kind, (letter, count) in POOLS.items() for number in range(count)
        ]

    def write(self, length: int) -> Snippet:
        """So many instructions, or chains of some."""
        random, left, label = self.random, 0, ""
        for number in range(length):
            if left == 0 and random.random() < 0.1:
                left, label = random.randrange(2, 6), f"L{number}"
                self.lines.append(f"@{'!' * random.randrange(2)}{self._register('pred')} bra {label};")
            if self.together and label == "" and random.random() < 0.15:
                self._instruction(random.choice(self.together))
            else:
                self._instruction(random.choice(self.forms[random.choice(list(self.forms))]))
            left = max(0, left - 1)
            if label and not left:
                self.lines.append(f"{label}:")
                label = ""
        return Snippet("\n".join([*self.lines, f"{label}:"] if label else self.lines))

    def _register(self, kind: str, other_than: tuple[str, ...] = ()) -> str:
        letter, count = POOLS[kind]
        return self.random.choice(
            [name for name in (f"{letter}{number}" for number in range(count)) if name not in other_than]
        )

    def _instruction(self, form: Snippet) -> None:
        """A form with registers of the program, or an immediate."""
        lines = form.text.splitlines()
        given = {line.split()[2]: line.split()[1] for line in lines if line.startswith("given ")}
        kept = {line.split()[2]: line.split()[1] for line in lines if line.startswith("keep ")}
        body = [line for line in lines if not line.startswith(("given ", "keep "))]
        names = {name: self._register(REGISTERS[kind]) for name, kind in given.items()}
        for name, kind in kept.items():
            names[name] = self._register(kind, tuple(names[one] for one in kept if one in names))
        last = max((name for name in given if name != "p"), default="")
        if len(body) == 1 and IMMEDIATE.match(body[0]) and len(given) > 1 and self.random.random() < 0.3:
            names[last] = self._immediate(given[last], body[0].startswith(("div", "rem"))) or names[last]
        if len(body) == 1 and not UNGUARDED.search(body[0]) and self.random.random() < 0.25:
            body = [f"@{'!' * self.random.randrange(2)}{self._register('pred')} {body[0]}"]
        declares = len(body) > 1 and any(line.startswith(".reg") for line in body)
        said = [OPERAND.sub(lambda found: names.get(found[0], found[0]), line) for line in body]
        self.lines += ["{", *said, "}"] if declares else said
        self.lines += [f"keep {kind} {names[name]}" for name, kind in kept.items()]

    def _immediate(self, kind: str, divides: bool) -> str:
        if kind == "amount":
            return str(self.random.randrange(70))
        if kind not in ("b16", "b32", "b64"):
            return ""
        bits = int(kind[1:])
        value = self.random.getrandbits(self.random.randrange(1, bits)) or int(divides)
        return str(-value if self.random.random() < 0.4 else value)


def _opcode(form: Snippet) -> str:
    return next(line for line in form.text.splitlines() if ";" in line and not line.startswith(".")).split(".")[0]


def programs(seed: int, count: int, length: int) -> list[Snippet]:
    """Programs, every other one with collectives."""
    return [RandomProgram(Random(f"{seed} {number}"), together=number % 2 > 0).write(length) for number in range(count)]
