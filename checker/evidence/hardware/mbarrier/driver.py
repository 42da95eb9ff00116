"""A compiled kernel on the GPU through the CUDA driver alone: for processes that only exist to survive one fault.

Such a process starts in a fraction of the time that one with CuPy needs, and what its kernel writes to memory of the
host is still there after a fault.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError

MAPPED = 3
"""CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP."""


def compiled(text: str) -> bytes:
    """The cubin of a CUDA text for sm_90a; raises SpecError if there is no nvcc or it refuses the text."""
    compiler = nvcc()
    if compiler is None:
        raise SpecError("this needs nvcc, the compiler of the CUDA toolkit, on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        text_path, cubin = Path(folder) / "kernel.cu", Path(folder) / "kernel.cubin"
        text_path.write_text(text)
        options = [
            "-std=c++17",
            "-gencode",
            "arch=compute_90a,code=sm_90a",
            f"-I{sources()}",
            "-cubin",
            "-o",
            str(cubin),
        ]
        done = subprocess.run([compiler, *options, str(text_path)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SpecError(f"nvcc refuses the kernel: {done.stderr.strip()[-2000:]}")
        return cubin.read_bytes()


def nvcc() -> str | None:
    """Where nvcc is, or None."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")


class Cubin:
    """A loaded module on the first GPU, and an array of 32-bit words of the host that its kernels can write."""

    def __init__(self, image: bytes, words: int) -> None:
        """words: of the array `seen`."""
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SpecError(f"there is no CUDA driver: {error}") from error
        device, self.context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self._call("cuCtxSetCurrent", self.context)
        self._call("cuModuleLoadData", ctypes.byref(self.module), ctypes.c_char_p(image))
        host, self.seen_at = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(4 * words), ctypes.c_uint(MAPPED))
        self._call("cuMemHostGetDevicePointer_v2", ctypes.byref(self.seen_at), host, ctypes.c_uint(0))
        self.seen = (ctypes.c_int32 * words).from_address(host.value or 0)

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Bytes of the GPU's memory, all 0; they live as long as the process."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self._call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size))
        return address

    def fill(self, address: ctypes.c_uint64, numbers: Sequence[int]) -> None:
        """Writes 32-bit words, each modulo 2^32, to the GPU's memory."""
        words = (ctypes.c_uint32 * len(numbers))(*(number & 0xFFFFFFFF for number in numbers))
        self._call("cuMemcpyHtoD_v2", address, words, ctypes.c_size_t(4 * len(numbers)))

    def run(self, kernel: str, grid: int, block: int, arguments: Sequence[Any]) -> int:
        """Starts a kernel and waits for its end: 0, or the CUDA error of its fault, after which nothing works any more.

        arguments: ctypes values.
        """
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self.module, ctypes.c_char_p(kernel.encode()))
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(argument), ctypes.c_void_p) for argument in arguments)
        )
        sizes = [ctypes.c_uint(size) for size in (grid, 1, 1, block, 1, 1, 0)]
        self._call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(None), pointers, ctypes.c_void_p(None))
        return int(self.cuda.cuCtxSynchronize())

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise SpecError(f"{name} returns CUDA error {code}")
