"""What a check of a log raises: the property, the sentence, and the entries to blame, the guilty one first."""

from __future__ import annotations


class Violation(Exception):
    """`record` is the guilty entry (an index into the records), `related` earlier entries that explain it."""

    def __init__(self, property_id: str, because: str, record: int, related: tuple[int, ...]) -> None:
        super().__init__(because)
        self.property = property_id
        self.because = because
        self.record = record
        self.related = related
