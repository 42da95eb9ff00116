"""Work on the GPU by several processes at a time, where most of it is to compile kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST = 12
"""Processes: the GPU is shared in turns, and a kernel's watch must outlast the turns of the others."""


def in_processes(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function's results in the order of the items, each from one of several new processes; the first error is
    raised. Function, items and results must be picklable. A launch that faults costs its process the GPU: what may
    fault belongs into a process of its own.
    """
    some = list(items)
    processes = max(1, min(MOST, (os.cpu_count() or 2) - 1, len(some)))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return list(pool.map(function, some))
