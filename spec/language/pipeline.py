"""The language in which a kernel's synchronisation is written down: a class with barriers, buffers and roles.

A role is a Python generator, the kernel with the arithmetic left out. Control flow is ordinary Python; `yield` hands
one operation to the hardware, and only there can another role run.

    class DoubleBuffer(Pipeline):
        stages = 2
        full = barrier(arrivals=1)
        empty = barrier(arrivals=1)
        a = tile(bytes=16_384)

        @role(warps=1)
        def producer(self, at):
            yield self.empty[at].wait(at.phase ^ 1)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])

A role that takes `at` is one iteration of the trip-count loop, with the PipelineState of that iteration. A role that
does not is the whole program, and loops with `for _ in self.loop():`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from sm90_verify.spec.errors import Source, SpecError, here
from sm90_verify.spec.language.declarations import (
    ENDLESS,
    Body,
    Parameter,
    check_gone,
    check_names,
    check_parameters,
    of_its_kind,
)
from sm90_verify.spec.language.instances import roles_of
from sm90_verify.spec.language.layout import lay_out
from sm90_verify.spec.language.state import Count, PipelineState, ring_period
from sm90_verify.spec.language.verbs import Verbs
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.launch import LaunchShape


class Tracer(Protocol):
    """What follows a role while it runs; see spec.language.role_walk."""

    def created(self, operation: op.Operation) -> None: ...

    def entry(self) -> Hashable: ...

    def loop_head(self, loop: str, entry: Hashable, bounded: bool, iterator: object) -> bool: ...

    def count_used(self) -> None: ...


# ---------------------------------------------------------------- the pipeline


def label_of(kernel: type[Pipeline]) -> str:
    """What results and the command line call a model: the name that its class gives itself, or the class's."""
    return str(getattr(kernel, "_label", kernel.__name__))


NEEDED = ("layout", "name", "parameters", "parameter_names", "shape", "value", "created", "loop")
"""What tracing asks of every pipeline, beside its parameters."""


SAID = ("clusters", "resident")
"""Parameters that a result only has where they are not what they are by default."""


class Pipeline(Verbs):
    """Base class of every model. Class attributes that are plain values are its parameters; keyword arguments set them,
    to values of the same kind. A number that may be "all" or "forever" instead is annotated `int | str`.

    stages: slots of barriers and tiles that do not say otherwise. trips: a number of iterations; "all" (every trip
    count from 0 on, and no end); or "forever" (no end). registers: registers per thread at launch, for setmaxnreg.
    cluster: "XxY" CTAs, each with its own roles, barriers and shared memory. clusters: how many such clusters run; they
    have nothing in common but global memory.
    """

    stages: int = 1
    trips: int | str = "all"
    registers: int = 168
    cluster: str = "1x1"
    clusters: int = 1
    resident: bool = True
    """All clusters run at once, as after a cooperative launch; otherwise they begin in the order of their numbers, and
    one that waits may keep those after it from ever beginning.
    """
    met: bool = True
    """All CTAs of a cluster have started, and met, before the roles begin; otherwise a role must not reach into another
    CTA before a barrier.cluster has shown that it runs.
    """
    strict: bool = False
    """Demand that who makes generic accesses executes the proxy fence, after reads that a bulk copy overwrites too; no
    store in flight at exit; and that before an arrival in a phase somebody has seen the phase before complete, as the
    ISA does (9.7.13.15.4). Without it, such an arrival is noted.
    """

    default_period: ClassVar[int] = 0
    _clusters: ClassVar[bool] = True
    """Whether the kernel has a meaning in a cluster of several CTAs."""

    def __init__(self, **parameters: Any) -> None:
        self._tracer: Tracer | None = None
        check_names(type(self), (*Pipeline.parameter_names(), *NEEDED))
        check_gone(type(self), parameters)
        check_parameters(type(self))
        names = self.parameter_names()
        for name, value in parameters.items():
            if name not in names:
                raise SpecError(f"{type(self).__name__} has no parameter {name!r}: it has {', '.join(names)}", here())
            object.__setattr__(self, name, of_its_kind(type(self), name, value, getattr(type(self), name), here()))
        self._cta, self._program = 0, ""
        self._shape = Cluster.parse(self.cluster)
        if self._shape.size > 1 and not self._clusters:
            raise SpecError(f"cluster {self.cluster}: {self.name} stays in its CTA: use 1x1, or tma-async", here())
        if self.clusters < 1:
            raise SpecError(f"clusters={self.clusters}: use 1 or more", here())
        grids = 1 + max((one.grid for one in roles_of(type(self)).values()), default=0)
        self._launch = LaunchShape(self._shape, self.clusters, grids)
        self.layout = lay_out(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_tracer") is not None:
            raise SpecError(f"a role sets self.{name}, which all roles would share: keep it in a local variable")
        object.__setattr__(self, name, value)

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """The class attributes that can be set, in declaration order, base classes first."""
        found: dict[str, None] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if not name.startswith("_") and isinstance(value, int | str) and name != "default_period":
                    found[name] = None
        return tuple(found)

    @property
    def shape(self) -> Cluster:
        """The shape of the cluster."""
        return self._shape

    @property
    def name(self) -> str:
        """What results call the model."""
        return label_of(type(self))

    def parameters(self) -> dict[str, Any]:
        """By name, in declaration order; those of a launch of several clusters only where they say something."""
        values = {name: getattr(self, name) for name in self.parameter_names()}
        usual = {name: {getattr(Pipeline, name), getattr(type(self), name)} for name in SAID}
        return {name: value for name, value in values.items() if name not in SAID or usual[name] != {value}}

    def value(self, parameter: Parameter) -> int:
        """A declaration's parameter as a number."""
        found: object = getattr(self, parameter) if isinstance(parameter, str) else parameter
        found = found(self) if callable(found) else found
        if not isinstance(found, int):
            ways = "a number, the name of a parameter that is one, or a function of the pipeline that gives one"
            raise SpecError(f"a count of {found!r}: use {ways}")
        return int(found)

    def created(self, operation: op.Operation) -> op.Operation:
        """Tells the tracer of an operation, so that one that is never yielded is noticed."""
        if self._tracer is not None:
            self._tracer.created(operation)
        return operation

    # -- loops

    def loop(self, trips: int | str | None = None, *, period: int = 0, name: str = "trips") -> Iterator[Any]:
        """The trip-count loop: `trips` iterations, or with "all" every number of them, shared by all roles that loop.

        Gives the number of the iteration. period: the number after which counts recur, if a multiple of the default
        (4 * stages) is not it.
        """
        trips = self.trips if trips is None else trips
        if isinstance(trips, int) and not isinstance(trips, bool):
            if trips < 0:
                raise SpecError(f"a loop of {trips} trips: use 0 or more, 'all' or 'forever'")
            return iter(range(trips))
        if trips not in ENDLESS:
            raise SpecError(f"a loop of {trips!r} trips: use a number, 'all' or 'forever'")
        if not isinstance(name, str) or not name:
            raise SpecError("a trip-count loop without a name: leave `name` out, or give it one")
        return self._endless(period or self.default_period or ring_period(self.stages), trips == "all", name)

    def forever(self, *, period: int = 0) -> Iterator[Any]:
        """A loop that never ends."""
        return self.loop("forever", period=period, name="forever")

    def _endless(self, period: int, bounded: bool, name: str) -> Iterator[Any]:
        if self._tracer is None:
            raise SpecError("loop() outside a role")
        if name == "trips" and (grid := self._launch.grid_of(self._cta)):
            name = f"grid{grid}.trips"  # another kernel has a trip count of its own
        return EndlessLoop(self._tracer, period, bounded, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [key for base in reversed(type(self).__mro__[:-3]) for key in vars(base) if not key.startswith("_")]
        raise SpecError(f"{type(self).__name__} has no barrier, tile or parameter {name!r}: it has {', '.join(known)}")


def one_iteration_each(pipeline: Pipeline, body: Callable[..., Body], extra: dict[str, Any]) -> Body:
    """A role that takes `at`, once for each iteration of the trip-count loop."""
    at = PipelineState.start(pipeline.stages)
    for _ in pipeline.loop():
        yield from body(pipeline, at=at, **extra)
        at = at + 1


def started(pipeline: Pipeline, body: Callable[..., Body], takes: Sequence[str], me: Threads, where: Source) -> Body:
    """The generator of a role that takes these arguments."""
    unknown = [name for name in takes[1:] if name not in ("at", "me")]
    if not takes or takes[0] in ("at", "me"):
        raise SpecError("a role takes `self` first, the pipeline that it is of", where)
    if unknown:
        raise SpecError(f"a role takes `at` and `me`, not {', '.join(unknown)}", where)
    extra = {"me": me} if "me" in takes else {}
    return one_iteration_each(pipeline, body, extra) if "at" in takes else body(pipeline, **extra)


class EndlessLoop:
    """Iterator that shows the tracer each loop head, and stops when the tracer says that the trip count is reached."""

    def __init__(self, tracer: Tracer, period: int, bounded: bool, name: str) -> None:
        self._tracer, self._period, self._bounded, self._name = tracer, period, bounded, name
        self._next, self._entry = 0, tracer.entry()

    def key(self, counted: bool) -> Hashable:
        """What it gives from now on; counted: whether anybody asks for the number of the iteration."""
        number = Count(self._next, self._period).key if counted else None
        return self._name, self._bounded, self._period, number

    def __iter__(self) -> EndlessLoop:
        self._entry = self._tracer.entry()
        return self

    def __next__(self) -> Count:
        if not self._tracer.loop_head(self._name, self._entry, self._bounded, self):
            raise StopIteration
        self._next += 1
        return Count(self._next - 1, self._period, self._tracer.count_used)
