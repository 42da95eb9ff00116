"""Where variables and parameters of a kernel lie, and its code for one launch."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.frontends.ptx.code import Code, compiled
from sm90_verify.frontends.ptx.counted import Counted
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.launch import Launch
from sm90_verify.frontends.ptx.slices import Slice
from sm90_verify.frontends.ptx.spaces import (
    SHARED_BEGINS,
    WINDOWS,
    from_generic,
    is_space,
    mapped,
    mapped_generic,
    to_generic,
)
from sm90_verify.frontends.ptx.values import One, signed
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import SHARED_OF_CTA

GLOBALS_BEGIN = 1 << 32
"""Where variables in global memory lie."""


class Addresses:
    """Where variables and parameters of a kernel lie."""

    def __init__(self, module: PtxModule, function: Function, launch: Launch) -> None:
        self.found: dict[str, int] = {}
        shared = [one for one in (*module.variables, *function.variables) if one.space == "shared"]
        at = SHARED_BEGINS
        for one in shared:
            if one.size:
                at = -(-at // one.align) * one.align
                self.found[one.name] = at
                at += one.size
        dynamic = [one for one in shared if not one.size]
        align = max((one.align for one in dynamic), default=1)
        self.dynamic = -(-at // align) * align
        self.found.update((one.name, self.dynamic) for one in dynamic)
        self.static = at - SHARED_BEGINS
        size = self.dynamic - SHARED_BEGINS + launch.dynamic_shared
        if size > SHARED_OF_CTA:
            raise SpecError(
                f"{launch.path}: dynamic_shared: {launch.dynamic_shared} bytes after {self.static} static ones: "
                f"a CTA has {SHARED_OF_CTA}"
            )
        self.found.update((one.name, one.offset) for one in function.parameters)
        for one in (*module.variables, *function.variables):
            if one.space != "shared":
                self.found[one.name] = GLOBALS_BEGIN + one.address if one.space == "global" else one.address

    def __call__(self, name: str) -> int | None:
        return self.found.get(name)


def code_of(
    module: PtxModule, function: Function, launch: Launch, sliced: Slice | None = None
) -> tuple[Code, Addresses]:
    """The kernel as code for one launch. sliced: what of it matters, if that is known already."""
    addresses = Addresses(module, function, launch)

    def parameter(address: int, size: int, sign: bool, wide: int) -> One:
        offset = address - WINDOWS["param"] if address >= WINDOWS["param"] else address
        found = launch.parameter(offset, size)
        if isinstance(found, int) and sign:
            return signed(found, 8 * size) & ((1 << wide) - 1)
        if isinstance(found, Counted) and sign and found.form.limits[1] >> 8 * size - 1:
            return found.plain()
        return found

    environment: dict[str, Callable[..., object]] = {
        "parameter": parameter,
        "to_generic": to_generic,
        "from_generic": from_generic,
        "is_space": is_space,
        "mapped": mapped,
        "mapped_generic": mapped_generic,
    }
    assume = {one.line: one.values[0] for one in launch.assume if len(one.values) == 1}
    return compiled(function, module.path, addresses, environment, sliced, assume), addresses
