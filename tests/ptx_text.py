"""Small kernels in PTX for tests, and what is asked about them."""

from __future__ import annotations

from sm90_verify.decide.ptx import check_ptx
from sm90_verify.engines.effort import Effort
from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.launch_file import launch_of
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.parser import parse

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
"""
REGISTERS = """
\t.reg .pred %p<16>;
\t.reg .b16 %h<8>;
\t.reg .b32 %r<64>;
\t.reg .b64 %d<32>;
\t.reg .f32 %f<128>;
"""


def kernel(body: str, parameters: str = "", before: str = "") -> str:
    """A kernel `k` with these instructions; registers are %p0…, %h0…, %r0…, %d0…, %f0…."""
    return f"{HEAD}{before}.visible .entry k({parameters})\n{{{REGISTERS}{body}\n\tret;\n}}\n"


def launch(threads: int = 32, **fields):
    """A launch of one CTA, unless the fields say otherwise."""
    told = {"launch": 1, "grid": [1, 1, 1], "block": [threads, 1, 1], "dynamic_shared": 65_536, **fields}
    return launch_of(told, "launch.json")


def executed(text: str, given) -> ClusterRun:
    """The first cluster of a launch, executed."""
    module = parse(text, "k.ptx")
    code, addresses = code_of(module, module.entries[0], given)
    run = ClusterRun(code, addresses, given, given.clusters()[0], Effort().tick)
    run.run()
    return run


def lifted(text: str, given):
    """The kernel of the first cluster of a launch."""
    return lift(executed(text, given), "k")


def asked(tmp_path, text: str, given, **options):
    """The result of `verify ptx`."""
    path = tmp_path / "k.ptx"
    path.write_text(text)
    return check_ptx(str(path), given, **options)


def verdicts(result) -> dict[str, str]:
    """By property."""
    return {finding.id: finding.verdict for finding in result.findings}


SPIN = """
{{
\t.reg .pred done;
WAIT:
\tmbarrier.try_wait.parity.shared::cta.b64 done, [{barrier}], {parity};
\t@done bra GO;
\tbra WAIT;
GO:
}}
"""


def wait(barrier: str, parity: int | str) -> str:
    """A loop of try_wait, as inline assembly has it."""
    return SPIN.format(barrier=barrier, parity=parity)
