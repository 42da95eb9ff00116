"""The GPU: the only module that imports CuPy. Kernels are compiled for sm_90a and launched, also as clusters."""

from __future__ import annotations

import ctypes
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

from sm90_verify.spec.errors import SpecError

NEEDED = (9, 0)
"""Compute capability of Hopper: sm_90a code runs on nothing else."""


@dataclass(frozen=True)
class Gpu:
    """What a recording says about the machine that it was made on."""

    name: str
    driver: str
    runtime: str
    multiprocessors: int


def gpu() -> Gpu:
    """The GPU of this machine; raises SpecError if it has no Hopper GPU that CuPy can use."""
    cupy = _cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    capability = (properties["major"], properties["minor"])
    if capability != NEEDED:
        raise SpecError(f"the GPU has compute capability {capability[0]}.{capability[1]}: a Hopper GPU (9.0) is needed")
    version = cupy.cuda.runtime.driverGetVersion()
    runtime = cupy.cuda.runtime.runtimeGetVersion()
    return Gpu(properties["name"].decode(), _dotted(version), _dotted(runtime), properties["multiProcessorCount"])


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def sources() -> Path:
    """Where the CUDA sources are."""
    return Path(str(files("sm90_verify.kernels") / "executor.cu")).parent


class Fault(SpecError):
    """A launch that ended by an error: the process has no GPU any more."""


class Module:
    """A CUDA source compiled for sm_90a with macros; its kernels are launched by name."""

    file: IO[str] | None = None

    def __init__(self, source: str, macros: dict[str, int | str] | None = None) -> None:
        """source: the text of the program, which can include what is in `sources()`."""
        self.cupy = _cupy()
        options = ["-std=c++17", "-arch=sm_90a", f"-I{sources()}", f"-DHEADERS={_edition()}"]
        options += [f"-D{name}={value}" for name, value in (macros or {}).items()]
        self.module = self.cupy.RawModule(code=source, options=tuple(options))

    @classmethod
    def of_ptx(cls, text: str) -> Module:
        """The same of PTX, which the driver translates as it stands."""
        found = cls.__new__(cls)
        found.cupy = _cupy()
        found.file = file = tempfile.NamedTemporaryFile("w", suffix=".ptx")  # noqa: SIM115  as long as it may be read
        file.write(text)
        file.flush()
        found.module = found.cupy.RawModule(path=file.name)
        return found

    def launch(
        self, kernel: str, grid: int, block: int, arguments: tuple[Any, ...], *, shared: int = 0, cluster: int = 1
    ) -> None:
        """Starts a kernel and waits for its end; raises Fault if the launch faults. shared: bytes of dynamic
        shared memory. cluster: CTAs of a cluster, along x.
        """
        self.launch_grids(kernel, [(grid, arguments)], block, shared=shared, cluster=cluster)

    def launch_grids(
        self,
        kernel: str,
        grids: Sequence[tuple[int, tuple[Any, ...]]],
        block: int,
        *,
        shared: int = 0,
        cluster: int = 1,
    ) -> None:
        """The same for several grids of a kernel, each with its CTAs and arguments, of which each but the first may
        begin before the one before it has ended (programmatic dependent launch).
        """
        function = self.module.get_function(kernel)
        if shared:
            function.max_dynamic_shared_size_bytes = shared
        try:
            if cluster == len(grids) == 1:
                ((grid, arguments),) = grids
                function((grid,), (block,), arguments, shared_mem=shared)
            else:
                self.cupy.cuda.runtime.deviceSynchronize()  # what the arguments hold comes from another stream
                stream = self.cupy.cuda.Stream(non_blocking=True) if len(grids) > 1 else None
                launches = []
                for number, (grid, arguments) in enumerate(grids):
                    attributes: list[tuple[int, tuple[int, ...]]] = [(DEPENDENT, (1,))] if number else []
                    if cluster > 1:
                        attributes.append((CLUSTER_DIMENSION, (cluster, 1, 1)))
                    at = stream.ptr if stream else None
                    launches.append(_Launch(function.kernel.ptr, (grid, block, shared), arguments, attributes, at))
                for launch in launches:  # as soon after each other as can be
                    launch.start()
            self.cupy.cuda.runtime.deviceSynchronize()
        except (self.cupy.cuda.runtime.CUDARuntimeError, self.cupy.cuda.driver.CUDADriverError) as error:
            raise Fault(f"the launch of {kernel} faults: {error}") from error


def _edition() -> int:
    """Changes with the headers: CuPy keeps compiled kernels by the text of the program and the options alone."""
    return zlib.crc32(b"".join(file.read_bytes() for file in sorted(sources().glob("*.cuh"))))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: an id, padding, and a union of 64 bytes of which cluster dimensions use the first 12."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((f"grid_{axis}", ctypes.c_uint) for axis in "xyz"),
        *((f"block_{axis}", ctypes.c_uint) for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


CLUSTER_DIMENSION, DEPENDENT = 4, 6
"""CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION and CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""


class _Launch:
    """cuLaunchKernelEx, which CuPy has no call for. shape: CTAs, threads of each and bytes of their shared memory."""

    def __init__(
        self,
        function: int,
        shape: tuple[int, int, int],
        arguments: tuple[Any, ...],
        attributes: Sequence[tuple[int, tuple[int, ...]]],
        stream: int | None,
    ) -> None:
        self.cuda, self.function = ctypes.CDLL("libcuda.so.1"), function
        grid, block, shared = shape
        self.named = f"a grid of {grid} CTAs" + "".join(f", attribute {id} of {value}" for id, value in attributes)
        self.given = (_Attribute * len(attributes))(*(_Attribute(id, b"", value) for id, value in attributes))
        first = ctypes.cast(self.given, ctypes.POINTER(_Attribute))
        self.config = _Config(grid, 1, 1, block, 1, 1, shared, stream, first, len(attributes))
        self.values = [_as_c(argument) for argument in arguments]
        self.pointers = (ctypes.c_void_p * len(self.values))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in self.values)
        )

    def start(self) -> None:
        function = ctypes.c_void_p(self.function)
        code = self.cuda.cuLaunchKernelEx(ctypes.byref(self.config), function, self.pointers, None)
        if code:
            raise SpecError(f"{self.named} could not be launched: CUDA error {code}")


def _as_c(argument: Any) -> Any:
    """A kernel argument: a device array, or a number of 32 or 64 bits as numpy has it, or bytes (a tensor map)."""
    if hasattr(argument, "data") and hasattr(argument.data, "ptr"):
        return ctypes.c_uint64(argument.data.ptr)
    if isinstance(argument, bytes):
        return (ctypes.c_char * len(argument)).from_buffer_copy(argument)
    return (ctypes.c_uint64 if argument.dtype.itemsize == 8 else ctypes.c_uint32)(int(argument))


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise SpecError("this needs a Hopper GPU and CuPy: pip install 'sm90-verify[gpu]'") from error
    return cupy
