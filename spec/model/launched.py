"""Which CTA a program is that of, and which it reaches: those of its own cluster, and of no other."""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import Effects
from sm90_verify.spec.ptx.launch import LaunchShape


def check_homes(programs: Iterable[Program], launch: LaunchShape) -> None:
    """Raises SpecError for a program that is not that of a CTA which is there."""
    for program in programs:
        me = program.me
        if not (0 <= me.cta < launch.cluster.size and me.number < launch.ctas):
            most = launch.cluster.size if me.number == me.cta else launch.ctas
            raise SpecError(f"role {program.name} is that of CTA {me.number}: use 0 to {most - 1}")
        if me.cta != launch.rank(me.number) or me.cluster != launch.cluster_of(me.number):
            what = f"role {program.name} of CTA {me.cta} of cluster {me.cluster} says that {me.before} CTAs come before"
            raise SpecError(f"{what}: count those of the clusters before its own", program.where)
        if program.home != launch.home(me.number):
            what = f"role {program.name} of CTA {launch.called(me.number)} has the home {program.home!r}"
            raise SpecError(f"{what}: use {launch.home(me.number)!r}", program.where)


def check_starts(kernel: Kernel) -> None:
    """Raises SpecError for a program that does not begin with the start of its CTA although others may keep that
    waiting, or that has one elsewhere.
    """
    launch = kernel.launch
    for program in kernel.programs:
        earlier = launch.earlier(launch.block(program.me.number), resident=kernel.rules.resident)
        found = [at for at, node in enumerate(program.nodes) if isinstance(node.operation, op.CtaStart)]
        if found != ([0] if earlier else []):
            what = f"role {program.name} has a CtaStart at {found}"
            raise SpecError(f"{what}: use one at location 0 where other CTAs come before, and none elsewhere")


def out_of_reach(effects: Effects, program: Program, launch: LaunchShape) -> str:
    """What an operation has to do with a CTA that is not there, or that is one of another cluster."""
    own = [launch.peer(program.me.number, rank) for rank in range(launch.cluster.size)]
    for signal in effects.signals:
        if isinstance(signal, op.Arrive | op.Transaction) and signal.cta not in (-1, *own):
            return f"{signal.barrier} of CTA {signal.cta}: use {_some(own)}"
    for access in effects.accesses:
        if access.cta not in own and (access.space != "global" or access.cta != 0):
            return f"{access.object} of CTA {access.cta}: use {_some(own)}"
    return ""


def _some(own: list[int]) -> str:
    return f"{own[0]} to {own[-1]}"
