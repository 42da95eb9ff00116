"""What changes while kernels/executor.cu is emulated: barriers, threads that meet, and where each role is."""

from __future__ import annotations

from dataclasses import dataclass, field

from sm90_verify.gpu.device import Fault


@dataclass
class Barrier:
    """An mbarrier, as PTX describes it, with the number of its phase."""

    expected: int
    pending: int = 0
    tx: int = 0
    phase: int = 0

    def __post_init__(self):
        self.pending = self.expected

    def arrive(self, count=1, expect=0, drop=False):
        """Returns the token."""
        token = self.phase
        self.tx += expect
        self.expected -= count * drop
        self.pending -= count
        self.settle()
        return token

    def settle(self):
        if self.pending < 0:
            raise Fault("an arrival that nobody expects")
        if self.pending == 0 and self.tx == 0:
            self.phase += 1
            self.pending = self.expected


@dataclass
class Generation:
    """Threads that have come to a barrier of threads, of how many."""

    came: int = 0
    of: int = 0

    @property
    def complete(self):
        return self.came >= self.of


@dataclass
class Role:
    lowered: object
    at: int = 0
    stage: str = "gate"
    ready: int = 0
    began: int = 0
    token: int = -1
    ticket: object = 0
    events: list = field(default_factory=list)
    stores: list = field(default_factory=list)
    groups: list = field(default_factory=list)
    copies: list = field(default_factory=list)
    copied: list = field(default_factory=list)
    answer: int = 0
    latest: int = -1

    @property
    def instruction(self):
        return self.lowered.instructions[self.at] if self.at < len(self.lowered.instructions) else None
