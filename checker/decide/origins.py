"""The lines of the program that PTX was made from (.loc), beside each line of the PTX that a result names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from sm90_verify.frontends.ptx.instruction import Function
from sm90_verify.made_of import compiled_from
from sm90_verify.result import Blocked, Finding, Result, Trace, TraceStep


class Origins:
    """said: by line of the PTX, `file:line`, the innermost of inlined functions first; path: of the PTX."""

    def __init__(self, function: Function, path: str) -> None:
        places = {one.line: one.place for one in reversed(function.code) if one.place is not None}
        self.said: Mapping[int, tuple[str, ...]] = {
            line: tuple(f"{one.file}:{one.line}" for one in place.chain) for line, place in places.items()
        }
        names = "|".join(re.escape(name) for name in dict.fromkeys((path, os.path.basename(path))))
        self.named = re.compile(rf"(?:(?<![\w/])(?:{names}):|\bline )(\d+)\b(?! \()")

    def result(self, result: Result) -> Result:
        """The result with these lines."""
        noted = tuple(replace(one, origin=self._of(one.line)) for one in result.noted)
        redundant = result.redundant
        if redundant is not None:
            redundant = tuple(replace(one, origin=self._of(one.line)) for one in redundant)
        return replace(
            result,
            findings=tuple(self._finding(one) for one in result.findings),
            notes=tuple(self.sentence(one) for one in result.notes),
            noted=noted,
            redundant=redundant,
        )

    def sentence(self, text: str) -> str:
        """A sentence, with these lines behind each of the PTX that it names."""
        return self.named.sub(lambda found: found[0] + self._behind(int(found[1])), text)

    def _of(self, line: int) -> tuple[str, ...]:
        return self.said.get(line, ())

    def _behind(self, line: int) -> str:
        return compiled_from(self._of(line))

    def _finding(self, finding: Finding) -> Finding:
        trace = finding.trace
        return replace(finding, note=self.sentence(finding.note), trace=None if trace is None else self._trace(trace))

    def _trace(self, trace: Trace) -> Trace:
        def step(one: TraceStep) -> TraceStep:
            return replace(one, origin=self._of(one.line))

        def blocked(one: Blocked) -> Blocked:
            return replace(one, origin=self._of(one.line), missing=self.sentence(one.missing))

        return replace(
            trace,
            steps=tuple(map(step, trace.steps)),
            next=tuple(map(step, trace.next)),
            blocked=tuple(map(blocked, trace.blocked)),
        )
