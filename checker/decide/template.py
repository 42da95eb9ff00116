"""A launch file to fill in, from what the PTX says: `verify ptx --dump-launch`."""

from __future__ import annotations

import json
from typing import Any

from sm90_verify.frontends.ptx.instruction import Function, PtxModule

UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def launch_template(module: PtxModule, function: Function) -> str:
    """The text of a launch file. What only the program knows is null, so that the file is refused until it is said."""
    block = function.shape(".reqntid") or function.shape(".maxntid")
    cluster = function.shape(".reqnctapercluster")
    dynamic = any(one.space == "shared" and not one.size for one in (*module.variables, *function.variables))
    told: dict[str, Any] = {
        "launch": 1,
        "kernel": function.name,
        "grid": None,
        "block": list(block) if block is not None else None,
        **({"cluster": list(cluster)} if cluster is not None else {}),
        "dynamic_shared": None if dynamic else 0,
        "parameters": [
            {"offset": one.offset, "name": one.name, "type": UNSIGNED[one.size], "value": None}
            if one.size in UNSIGNED
            else {"offset": one.offset, "name": one.name, "bytes": None, "size": one.size}
            for one in function.parameters
        ],
    }
    return json.dumps(told, indent=1) + "\n"
