"""What the collectives of CUTLASS's kernels have in common: tensors in stages of shared memory, and parts that can be
left out to see what they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import BarrierDeclaration, Parameter, TileDeclaration
from sm90_verify.spec.language.handles import Array, Owner, Tile
from sm90_verify.spec.language.layout import ALIGNMENT, Component
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT, MBARRIER_BYTES, SHARED_OF_CTA

Names: TypeAlias = Callable[[Any], tuple[str, ...]]
"""Names that depend on the owner."""

SCHEDULES = ("ws", "cooperative", "pingpong")
"""The kernel schedules: KernelTmaWarpSpecialized, and its Cooperative and Pingpong forms."""


FRACTION = 512
"""What most_bytes gives is a multiple of it: A and B, each in up to 16 parts that can be copied."""


def most_bytes(stages: int, buffers: int) -> int:
    """How large each of the buffers can be in the shared memory of a CTA, beside two barriers for every stage."""
    barriers = 2 * (-(-stages * MBARRIER_BYTES // ALIGNMENT) * ALIGNMENT)
    return max(FRACTION, (SHARED_OF_CTA - barriers) // max(1, buffers) // FRACTION * FRACTION)


def defined_in(kernel: type[Pipeline], parameter: str) -> str:
    """The module of the class from which a kernel has the default of a parameter."""
    return next((base.__module__ for base in kernel.__mro__ if parameter in vars(base)), "")


def one_part(owner: Owner) -> tuple[str, ...]:
    """A tensor that nobody divides."""
    return ("stage",)


def alone(owner: Owner) -> tuple[str, ...]:
    """A tensor that shares its bytes with no other."""
    return ()


class Collective(Pipeline):
    """Base of the collectives and of the kernels made of them.

    without: what to leave out of what CUTLASS does, names of `parts` separated by commas.
    """

    without = ""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.check_parameters()

    def check_parameters(self) -> None:
        """Raises SpecError for parameters that mean nothing; what CUTLASS's own assertions refuse may well be tried."""
        for part in self.left_out:
            if part not in self.parts():
                raise SpecError(f"without={part!r}: {self.name} has {', '.join(self.parts())}")

    def parts(self) -> tuple[str, ...]:
        """What `without` may name."""
        return ()

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(self.without.split(",")) if self.without else ()

    def has(self, part: str) -> bool:
        """Whether the model does what CUTLASS does there."""
        return part not in self.left_out


class Tensor(Component):
    """`stages` slots of `bytes` bytes each from `address` on, each slot in as many parts as `parts` names.

    shares: the tensors declared before whose bytes this one is meant to overlay. reverse: the parts lie in a slot in
    the opposite order, as those of a tensor with another layout do. A part is about an equal share of the bytes; how
    large does not matter to anybody but its neighbours.
    """

    owner: Pipeline

    def __init__(
        self,
        stages: Parameter,
        bytes: Parameter,
        address: Parameter,
        *,
        parts: Names = one_part,
        shares: Names = alone,
        reverse: Callable[[Any], bool] | None = None,
    ) -> None:
        self.stages, self.bytes, self.address = stages, bytes, address
        self.parts, self.shares, self.reverse = parts, shares, reverse

    def arrays(self, owner: Owner) -> Mapping[str, BarrierDeclaration | TileDeclaration]:
        names, size, slots = self.parts(owner), owner.value(self.bytes), owner.value(self.stages)
        if slots < 1:
            return {}
        if size % BULK_ALIGNMENT or size < BULK_ALIGNMENT * len(names):
            least = BULK_ALIGNMENT * len(names)
            raise SpecError(f"a stage of {size} bytes: use a multiple of {BULK_ALIGNMENT} that is at least {least}")
        order = names[::-1] if self.reverse is not None and self.reverse(owner) else names
        cuts = [size * index // len(order) // BULK_ALIGNMENT * BULK_ALIGNMENT for index in range(len(order))] + [size]
        start = {name: cuts[index] for index, name in enumerate(order)}
        stop = {name: cuts[index + 1] for index, name in enumerate(order)}
        shared = tuple(
            f"{tensor}.{part}" for tensor in self.shares(owner) for part in getattr(type(owner), tensor).arrays(owner)
        )
        return {
            name: TileDeclaration(
                bytes=stop[name] - start[name],
                slots=slots,
                shares=shared,
                address=owner.value(self.address) + start[name],
                stride=size,
            )
            for name in names
        }

    def part(self, name: str, at: PipelineState) -> Tile:
        """The bytes of a stage that one group of threads works on."""
        array: Array = getattr(self, name)
        tile: Tile = array[at]
        return tile

    def all_parts(self, at: PipelineState) -> tuple[Tile, ...]:
        """A whole stage."""
        return tuple(self.part(name, at) for name in self.parts(self.owner))
