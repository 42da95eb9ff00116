"""A ring, and the program of a role with its operations: what tests of loops and of other programs look at."""

from __future__ import annotations

from rings import Filled

from sm90_verify.engines.search.exploration import Exploration
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op


class Ring(Filled):
    """One producer and one consumer."""

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


def program(pipeline: Pipeline, number: int = 0) -> Program:
    return trace(pipeline).programs[number]


def operations(program: Program) -> list[op.Operation]:
    return [node.operation for node in program.nodes if node.operation is not None]


def explored(pipeline: Pipeline) -> Exploration:
    return explore(compile_kernel(trace(pipeline)))
