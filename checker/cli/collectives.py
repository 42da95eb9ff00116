"""The commands pipeline, epilogue, mainloop and gemm: from their options to a model and its parameters."""

from __future__ import annotations

import argparse
from typing import Any

from sm90_verify.cli.values import UsageError
from sm90_verify.spec.cutlass.builder import parameters
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.language.pipeline import Pipeline

ALWAYS_SHOWN = {
    "epilogue": ("schedule", "stages_c", "stages_d", "reuse_smem_c", "delay_tma_store", "subtiles"),
    "mainloop": ("stages", "form", "mmas_in_flight"),
    "gemm": ("stages", "k_tiles", "stages_c", "stages_d", "reuse_smem_c", "subtiles"),
}


def choose(options: argparse.Namespace) -> tuple[type[Pipeline], dict[str, Any], tuple[str, ...]]:
    """The model that the options ask for, its parameters, and those of them that the summary shows."""
    given = _given(options)
    if options.command == "gemm":
        kernel: type[Pipeline] = GEMMS[options.schedule]
        settings = {**_built(options), **given}
        if options.schedule == "ws" and given.get("tiles", 1) != 1:
            raise UsageError("--tiles: the ws kernel has one output tile")
        settings.pop("tiles" if options.schedule == "ws" else "", None)
    elif options.command == "epilogue":
        kernel = Epilogue
        reuse = given.get("reuse_smem_c", False)
        settings = {"subtiles": 4, **given, "reuse_smem_c": reuse}
        settings.setdefault("bytes_d", settings.get("bytes_c", Epilogue.bytes_d))
        settings.setdefault("bytes_c", settings["bytes_d"])
    else:
        kernel, settings = Mainloop, given
    shown = (*ALWAYS_SHOWN[options.command], *(name for name in given if name != "tiles"))
    return kernel, settings, tuple(dict.fromkeys((*shown, *(("tiles",) if "tiles" in settings else ()))))


def choose_pipeline(options: argparse.Namespace) -> tuple[type[Pipeline], dict[str, Any], tuple[str, ...]]:
    """As choose, for a pipeline class."""
    classes = kernels("pipeline")
    if options.model not in classes:
        raise UsageError(f"no pipeline class {options.model!r}: use one of {', '.join(classes)}")
    kernel = classes[options.model]
    known = kernel.parameter_names()
    settings = {
        name: getattr(options, name)
        for name in ("stages", "consumers", "producers", "cluster", "trips", "bytes")
        if getattr(options, name) is not None
    }
    for name in settings:
        if name not in known:
            raise UsageError(f"--{name}: {options.model} has no {name}")
    shown = ["stages", *(name for name in ("consumers",) if name in known), *(s for s in settings if s != "stages")]
    return kernel, settings, tuple(dict.fromkeys(shown))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are parameters of a model and were given."""
    names = {name for kernel in kernels(*ALWAYS_SHOWN).values() for name in kernel.parameter_names()}
    values = {
        name: value
        for name, value in vars(options).items()
        if name in names and value is not None and name != "without" and not (name == "schedule" and "tile" in options)
    }
    return {**values, **({"without": ",".join(options.without)} if options.without else {})}


def _built(options: argparse.Namespace) -> dict[str, Any]:
    """What the builder chooses; without reuse or with it, if the options say so, for the same types."""
    found = parameters(options.schedule, options.tile, bits_c=0 if options.void_c else 16)
    found.setdefault("tiles", 1)
    return found


def asked_of_waits(options: argparse.Namespace) -> dict[str, Any]:
    """What --minimal-wait asks: how far to go, for which mainloops, and under which bounds."""
    from sm90_verify.engines.minimal_wait import RANGE

    given = _given(options)
    if "pending" in given:
        raise UsageError("--minimal-wait tries every wait_group<N>: leave --pending out")
    if options.properties:
        raise UsageError("--minimal-wait asks about all properties: leave --property out")
    bounds = {name: getattr(options, name) for name in ("limit", "timeout", "engine")}
    bounds |= {"memory": options.memory << 30, "reduced": not options.unreduced}
    return {
        "most": given.pop("stages", RANGE),
        "in_flight": given.pop("mmas_in_flight", None),
        "sizes": given,
        **bounds,
    }
