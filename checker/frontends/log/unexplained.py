"""What a check of a log raises: that no order explains an entry, by which property, and the entries to blame; or that
the log leaves open what is asked.
"""

from __future__ import annotations


class Unexplained(Exception):
    """No order explains the log. `record` is the guilty entry (an index into the records), `related` earlier entries
    that explain it.
    """

    def __init__(self, property_id: str, because: str, record: int, related: tuple[int, ...]) -> None:
        super().__init__(because)
        self.property = property_id
        self.because = because
        self.record = record
        self.related = related


class NotShown(Exception):
    """What a log does not show, and does not let infer either: a sentence's end, behind "the log does not show"."""
