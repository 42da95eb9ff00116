"""A user's file with a ring, into which tests put what its consumer does besides."""

from __future__ import annotations

from sm90_verify.python_file import load_classes

FILE = """
from sm90_verify import Component, Pipeline, PipelineState, barrier, role
{top}
class Ring(Pipeline):
    full = barrier()
    empty = barrier()
    {attributes}
    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.forever():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        {before}
        for _ in self.forever():
            yield self.full[at].wait(at.phase)
            {body}
            if not ({stopped}):
                yield self.empty[at].arrive()
            at += 1
"""


def ring(folder, top="", attributes="", before="", body="", stopped="False"):
    lines = {"attributes": (attributes, 4), "before": (before, 8), "body": (body, 12)}
    indented = {name: text.replace("\n", "\n" + " " * by) for name, (text, by) in lines.items()}
    path = folder / "ring.py"
    path.write_text(FILE.format(top=top, stopped=stopped, **indented))
    return path, load_classes(str(path))[0]
