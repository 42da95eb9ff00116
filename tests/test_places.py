"""What is shown of a role is where it is in its own file, not in the language that it is written in."""

from __future__ import annotations

from pathlib import Path

import pytest

from sm90_verify.spec import errors, language
from sm90_verify.spec.cutlass import classes, mainloop, pipelines
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language import handles
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.places import innermost_user_place, is_plumbing
from sm90_verify.spec.language.state import Count
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model import kernel
from sm90_verify.spec.ptx import operations


def test_the_language_and_what_lies_below_it_are_no_places():
    """The modules of the rooms are found, so that one that is new is no place either."""
    below = [Path(module.__file__).parent for module in (handles, kernel, operations)]
    files = [str(path) for room in below for path in room.glob("*.py")]
    assert len(files) > 25
    assert all(map(is_plumbing, (*files, errors.__file__, pipelines.__file__, language.__file__)))


def test_kernels_are():
    files = (mainloop.__file__, classes.__file__, __file__, "<string>", str(Path(errors.__file__).parent) + "ial.py")
    assert not any(map(is_plumbing, files))


@pytest.mark.parametrize("file", [mainloop.__file__, __file__], ids=["library", "user"])
def test_an_error_that_the_language_raises_is_placed_in_the_role(file):
    scope = {"Count": Count}
    exec(compile("\n\ndef role():\n    Count(0, 4) % 3\n", file, "exec"), scope)
    with pytest.raises(SpecError) as caught:
        scope["role"]()
    assert innermost_user_place(caught.value, Source(file, 1)) == Source(file, 4)


def test_verbs_of_the_pipeline_classes_are_places_of_those_who_call_them():
    pipeline: Pipeline = classes.TmaAsync(stages=1)
    sources = {node.source.file for program in trace(pipeline).programs for node in program.nodes}
    assert sources == {classes.__file__}
