"""The formats by name: each renders reports, whatever they are about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sm90_verify.report.sections import Report


def _text(reports: Sequence[Report]) -> str:
    from sm90_verify.report.text import text

    return text(reports)


def _json(reports: Sequence[Report]) -> str:
    from sm90_verify.report.as_json import text

    return text(reports)


FORMATS: dict[str, Callable[[Sequence[Report]], str]] = {"text": _text, "json": _json}
"""What renders each format, without a line feed at the end; nothing is imported until it is called."""
