"""What the checker finds in a pipeline, for tests to compare."""

from __future__ import annotations

from sm90_verify.engines.check import check


def violated(pipeline, **options):
    """The properties that the pipeline violates; nothing must be undetermined but for what a violation leaves open."""
    result = check(pipeline, command="spec", **{"engine": "search", **options})
    found = [finding.id for finding in result.findings if finding.verdict == "violated"]
    assert found or result.verdict == "proved", [finding.note for finding in result.findings]
    return found
