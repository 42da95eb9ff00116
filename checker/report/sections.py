"""What a report consists of: a list of sections, each one thing to tell, which every format renders.

Nothing here knows columns or tags. Those that tell of a Result keep its data, so that a format for scripts loses
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from sm90_verify.made_of import KernelTable, LeftOut
from sm90_verify.result import Blocked, Definition, Finding, HangState, Note, Recovered, Trace

# ---------------------------------------------------------------- a result


class Headline(NamedTuple):
    """What is violated, in a sentence."""

    property: str
    title: str


class SourceLine(NamedTuple):
    """A line of a user's file. step: the last step that executed it, 0 if none did."""

    number: int
    text: str
    step: int = 0


class Excerpt(NamedTuple):
    """The line to blame and its neighbours; origin: the lines from which it was compiled, as of a TraceStep. beside: it
    is not the one to blame, and this is what it is.
    """

    file: str
    line: int
    lines: tuple[SourceLine, ...]
    origin: tuple[str, ...] = ()
    beside: str = ""


class ScheduleRow(NamedTuple):
    """A step of a schedule that matters. number: 0 if it is what comes next. marked: where the violation is."""

    number: int
    marked: bool
    line: int
    role: str
    does: str
    changes: str


class ScheduleTable(NamedTuple):
    """The steps that matter, and how many do not."""

    rows: tuple[ScheduleRow, ...]
    hidden: int


class Stuck(NamedTuple):
    """The roles that can never run again."""

    roles: tuple[Blocked, ...]


class Because(NamedTuple):
    """Why it is a violation, in a sentence."""

    text: str


class Advice(NamedTuple):
    """What to write instead, in a sentence."""

    text: str


class Execution(NamedTuple):
    """The whole trace. shortest: None if nobody says. again: the command that finds it again, "" if there is none; None
    if the trace is to be written to a file and replayed.
    """

    trace: Trace
    shortest: bool | None
    again: str | None = None


class Findings(NamedTuple):
    """The verdict on each property. led: the trace that the headline is about."""

    findings: tuple[Finding, ...]
    led: Trace | None = None


class Notes(NamedTuple):
    """Sentences beside the verdict."""

    notes: tuple[str, ...]


class Noted(NamedTuple):
    """What PTX rules out, and is no violation. rule: what hardware did, and how it becomes one."""

    note: Note
    rule: str


class Verdict(NamedTuple):
    """The verdict on one model, and the figures that belong to it, as in a Result."""

    command: str
    model: str
    parameters: dict[str, Any]
    verdict: str
    engine: str
    scope: dict[str, Any]
    states: int
    transitions: int
    seconds: float
    shown: tuple[str, ...]
    definition: Definition | None
    reduced: bool | None
    shortest: bool | None
    asked: str = ""
    because: str = ""
    events: int = 0


# ---------------------------------------------------------------- many results


class Paragraph(NamedTuple):
    """Text. hang: how far its second line is indented, in columns."""

    text: str
    hang: int = 0


class Lines(NamedTuple):
    """Lines that stay whole, each to be found by its words."""

    lines: tuple[str, ...]


class Break(NamedTuple):
    """What follows is another part."""


class Column(NamedTuple):
    """A column of a table. width: in characters, 0 for the last one, which takes what is left. gap: to its left."""

    name: str = ""
    width: int = 0
    right: bool = False
    gap: int = 1


class Redundant(NamedTuple):
    """What can be left out of a kernel."""

    operations: tuple[LeftOut, ...]


class Table(NamedTuple):
    """Rows of cells, with the names of the columns above them unless none has a name. indent: of all of it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    indent: int = 0


class Nested(NamedTuple):
    """A report inside another one."""

    sections: tuple[Section, ...]
    indent: int = 0


class Tally(NamedTuple):
    """What came out of many results: a word, what it is about, and figures."""

    word: str
    what: str
    figures: tuple[str, ...]


class JsonValues(NamedTuple):
    """A report about many results as keys and values: for scripts, not for people."""

    command: str
    values: dict[str, Any]


Section: TypeAlias = (
    Headline
    | Excerpt
    | ScheduleTable
    | Stuck
    | Because
    | Advice
    | Execution
    | Findings
    | Notes
    | Noted
    | Verdict
    | Recovered
    | HangState
    | KernelTable
    | Redundant
    | Paragraph
    | Lines
    | Break
    | Table
    | Nested
    | Tally
    | JsonValues
)
Report: TypeAlias = tuple[Section, ...]
