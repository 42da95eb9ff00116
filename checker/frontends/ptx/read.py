"""Files with PTX: which kernel of them is meant, and what to do about files that hold none."""

from __future__ import annotations

import os

from sm90_verify.frontends.ptx.inline import inlined
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.launch import Launch
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.spec.errors import Source, SpecError

BINARY = {b"\x7fELF": "a cubin or an executable", b"\x50\xed\x55\xba": "a fatbin"}
MOST_BYTES = 1 << 28


def read_module(path: str) -> PtxModule:
    """The module in a file. Raises SpecError for a file without PTX, and says how to get it."""
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise SpecError(f"{path}: more than {MOST_BYTES >> 20} MiB: give the PTX of one kernel")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror or error}: give the PTX of a kernel") from None
    for start, what in BINARY.items():
        if data.startswith(start):
            raise SpecError(
                f"{path}: {what}, not PTX: get the PTX that is in it with `cuobjdump -ptx {path}`, or compile with "
                "`nvcc -ptx`"
            )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise SpecError(f"{path}: no text: give the PTX of a kernel, as `nvcc -ptx` writes it") from None
    return parse(text, path)


def entry_of(module: PtxModule, name: str, launch: Launch) -> Function:
    """The kernel that a launch is of, calls inlined. Raises SpecError where it is not there, or not the only one."""
    function = kernel_named(module, name)
    _must_fit(module, function, launch)
    return inlined(module, function)


def kernel_named(module: PtxModule, name: str = "") -> Function:
    """The kernel of that name, or the only one."""
    entries = module.entries
    if not entries:
        raise SpecError(f"{module.path}: no .entry: this PTX has no kernel")
    if name:
        found = [one for one in entries if one.name == name]
        if not found:
            raise SpecError(f"{module.path}: no kernel {name!r}: it has {_listed(entries)}")
        return found[0]
    if len(entries) > 1:
        raise SpecError(f"{module.path}: {len(entries)} kernels: name one in the launch file: {_listed(entries)}")
    return entries[0]


def _listed(entries: tuple[Function, ...]) -> str:
    names = [one.name if len(one.name) <= 60 else f"{one.name[:59]}…" for one in entries]
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


def _must_fit(module: PtxModule, function: Function, launch: Launch) -> None:
    """The launch has a shape that the kernel's directives allow."""
    where = Source(module.path, function.line)
    required = function.shape(".reqntid")
    if required is not None and required != launch.block:
        raise SpecError(f"{launch.path}: block: {list(launch.block)}: .reqntid asks for {list(required)}", where)
    most = function.shape(".maxntid")
    if most is not None and launch.threads > most[0] * most[1] * most[2]:
        raise SpecError(
            f"{launch.path}: block: {launch.threads} threads: .maxntid allows {most[0] * most[1] * most[2]}"
        )
    cluster = function.shape(".reqnctapercluster")
    if cluster is not None and cluster != launch.cluster:
        raise SpecError(f"{launch.path}: cluster: {list(launch.cluster)}: .reqnctapercluster asks for {list(cluster)}")
    if len(launch.parameters.data) > -(-function.size // 16) * 16:
        size = len(launch.parameters.data)
        raise SpecError(f"{launch.path}: parameters: {size} bytes: the kernel has {function.size}")
