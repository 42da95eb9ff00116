"""What a pipeline could do without, for every trip count: lines that are left out of a role, which is traced again."""

from __future__ import annotations

import json
import os

import pytest

from sm90_verify.cli.main import main
from sm90_verify.decide.redundant_lines import redundant_lines
from sm90_verify.engines.check import check
from sm90_verify.result import PROVED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class Careful(Pipeline):
    """Waits twice for what it has, fences what nobody reads through another proxy, and meets without need."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.empty[at].wait(at.phase ^ 1)  # again
        yield self.a[at].write()
        yield self.fence_proxy_async()  # for nobody
        yield self.full[at].arrive()

    @role(warps=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.named_sync(1, 32)  # alone
        yield self.empty[at].arrive()


def line_of(comment: str, file: str = __file__) -> int:
    with open(file, encoding="utf-8") as text:
        return next(number for number, line in enumerate(text, 1) if line.rstrip().endswith(f"# {comment}"))


def left_out(kernel: type[Pipeline], **parameters):
    return redundant_lines(kernel, parameters, lambda one: check(one).verdict == PROVED, lambda done, of: None)


@pytest.mark.parametrize("stages", [1, 2])
def test_what_is_there_twice_or_for_nobody(stages):
    found = left_out(Careful, stages=stages)
    again = line_of("again")
    assert [(one.line, one.together) for one in found] == [
        (again - 1, True),
        (again, False),
        (line_of("for nobody"), True),
        (line_of("alone"), True),
    ]
    assert {os.path.basename(one.file) for one in found} == {"test_redundant_lines.py"}


def test_nothing_of_what_is_needed():
    class Needed(Careful):
        @role(warps=1)
        def producer(self, at):
            yield self.empty[at].wait(at.phase ^ 1)
            yield self.a[at].write()
            yield self.full[at].arrive()

        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()

    assert left_out(Needed) == ()


def test_a_barrier_of_threads_is_left_out_by_all_who_meet_there():
    class Meets(Pipeline):
        trips = 1
        a = tile(bytes=64, slots=1)
        needed = True

        @role(warps=1)
        def one(self):
            yield self.a.write()
            yield self.named_sync(1, 64)

        @role(warps=1)
        def other(self):
            yield self.named_sync(1, 64)
            if self.needed:
                yield self.a.read()

    assert left_out(Meets) == ()
    (found,) = left_out(Meets, needed=False)
    assert found.what.startswith("bar.sync") and found.together


def test_groups_may_be_pending():
    class Groups(Pipeline):
        trips = 1
        a = tile(bytes=64, slots=2)

        @role(warps=4)
        def math(self):
            yield self.mma(self.a[0], commit=False)
            yield self.mma_commit()
            yield self.mma(self.a[1], commit=False)
            yield self.mma_commit()
            yield self.mma_wait(0)
            yield self.a[0].write()

    (found,) = left_out(Groups)
    assert "one more group may be pending" in found.what


def test_the_command(tmp_path, capsys):
    path = tmp_path / "careful.py"
    with open(__file__, encoding="utf-8") as text:
        whole = text.read()
    start = whole.index("class Careful")
    path.write_text(
        "from sm90_verify import Pipeline, barrier, role, tile\n\n\n" + whole[start : whole.index("def line_of")]
    )
    assert main(["spec", str(path), "--redundant", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["redundant"]
    assert [(one["line"], one["what"]) for one in found][2:] == [
        (line_of("for nobody", str(path)), "fence.proxy.async"),
        (line_of("alone", str(path)), "bar.sync 32"),
    ]
    assert main(["spec", str(path), "--redundant", "--timeout", "0.3"]) in (0, 3)
