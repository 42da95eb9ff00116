"""Changes one condition of a module at a time and runs the tests that are about it: what they let pass is printed.

    python tests/mutate_checkers.py [MODULE ...] [--sample N] [--seed S] [--only FILE:LINE] [--again RESULTS] [--own]

A change is made in a copy of the sources. One that the module's own tests let pass is tried on the wider ones before it
counts as a survivor. tests/equivalent_changes.py says which changes no verdict can tell, and why; without MODULE, what
stands there and is no change any more is printed too.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import hypothesis
import networkx  # noqa: F401  (heavy, and not what is changed: imported once for all runs)
import pytest
import z3  # noqa: F401
from checker_changes import Change, changes_of
from equivalent_changes import EQUIVALENT

ROOT = Path(__file__).resolve().parents[1]
MEMORY = 8 << 30
LANGUAGE = "control_flow loop_mistakes language declarations program loops"
ORDER = "order_conditions order_enough order_answers order_range"
ANNOTATE = "annotate annotate_faults annotate_refusals"
LIVELOCK = "livelock livelock_by_hand landing"
REDUCTION = "reduction prompt_steps"
SEARCH = "search reduced_search traces"
BYTES = "barrier_bytes barrier_layout"
VALIDATE = "validate validate_threads validate_memory validate_copies"
LOG_RULES = "log_rules log_early log_edited"
LOG = f"{LOG_RULES} log_machine"
CONDITIONS = "search_conditions search_answers"
MODELS = (
    f"{REDUCTION} balanced cluster_memory {BYTES} corpus thresholds kernels {VALIDATE} order order_limits {SEARCH} "
    f"{LIVELOCK} symmetry"
)
ORDERS = f"order order_limits {BYTES} cluster corpus {VALIDATE}"
LOGS = "log log_format validate_logs"
TABLE = {
    "spec/model/flow.py": ("control program loops waits", MODELS),
    "spec/model/mbarriers.py": (f"waits balanced {REDUCTION}", MODELS),
    "spec/ptx/thread_barriers.py": (f"program cluster_memory {REDUCTION}", MODELS),
    "spec/model/accesses.py": ("accesses cluster_memory program loops", MODELS),
    "spec/ptx/groups.py": ("asynchronous", MODELS),
    "spec/model/decisions.py": ("program loops control", MODELS),
    "spec/model/compile.py": ("state_checks program loops cluster_memory", MODELS),
    "spec/model/structure.py": ("balanced waits", MODELS),
    "spec/model/annotate.py": (ANNOTATE, MODELS),
    "spec/language/walk.py": (f"{LANGUAGE} state {ANNOTATE}", MODELS),
    "spec/language/ghost.py": ("ghost waits program loops", MODELS),
    "spec/language/places.py": (f"places {LANGUAGE}", MODELS),
    "spec/language/snapshot.py": (f"{LANGUAGE} state", MODELS),
    "spec/model/validate.py": (f"declarations language {VALIDATE} handmade", MODELS),
    "spec/model/handmade.py": ("handmade", f"gate_fuzz {ANNOTATE} {VALIDATE} closed_union"),
    "spec/ptx/misfit.py": ("closed_union handmade", "gate_fuzz"),
    "checker/counterexample/waiting.py": ("waiting", f"{LIVELOCK} cli cli_replay report"),
    "spec/model/barrier_bytes.py": (BYTES, MODELS),
    "spec/model/state_checks.py": ("state_checks cluster_memory", MODELS),
    "spec/ptx/mbarrier.py": (f"{LOG_RULES} hopper", MODELS),
    "spec/ptx/cluster.py": ("cluster_memory claims claim_evidence", MODELS),
    "spec/ptx/registers.py": ("registers", MODELS),
    "spec/language/layout.py": ("asynchronous declarations", MODELS),
    "spec/model/variables.py": ("program loops waits", MODELS),
    "checker/counterexample/advice.py": ("advice", "waiting"),
    "checker/engines/by_default.py": ("by_default", "engines engine_answers cli"),
    "checker/engines/effort.py": ("limits_of_tracing search_conditions", "search_answers"),
    "checker/engines/shorten.py": ("shorten", "by_default"),
    "checker/engines/search/exploration.py": (f"{CONDITIONS} {SEARCH}", MODELS),
    "checker/engines/search/bounds.py": (f"{CONDITIONS} {SEARCH}", MODELS),
    "checker/engines/search/engine.py": (f"search_answers search_conditions {LIVELOCK} engines engine_answers", MODELS),
    "checker/engines/search/searching.py": (f"{CONDITIONS} {LIVELOCK} {SEARCH}", MODELS),
    "checker/engines/search/packed.py": (f"{CONDITIONS} {LIVELOCK} {SEARCH}", MODELS),
    "checker/engines/search/reached.py": (f"{CONDITIONS} {LIVELOCK} {SEARCH} symmetry {REDUCTION}", MODELS),
    "checker/engines/search/read_python.py": (f"readings {CONDITIONS}", MODELS),
    "checker/engines/search/reduction.py": (f"balanced {REDUCTION}", MODELS),
    "checker/engines/search/symmetry.py": ("symmetry", MODELS),
    "checker/engines/search/exchange.py": (f"{CONDITIONS} symmetry {LIVELOCK} {SEARCH}", MODELS),
    "checker/engines/order/__init__.py": (ORDER, ORDERS),
    "checker/engines/order/counts.py": (ORDER, ORDERS),
    "checker/engines/order/ctas.py": (ORDER, ORDERS),
    "checker/engines/order/landing.py": (ORDER, ORDERS),
    "checker/engines/order/lifetime.py": (ORDER, ORDERS),
    "checker/engines/order/meetings.py": (ORDER, ORDERS),
    "checker/engines/order/memory.py": (ORDER, ORDERS),
    "checker/engines/order/outcome.py": (ORDER, ORDERS),
    "checker/engines/order/phases.py": (ORDER, ORDERS),
    "checker/engines/order/plan.py": (ORDER, ORDERS),
    "checker/engines/order/planner.py": (ORDER, ORDERS),
    "checker/engines/order/progress.py": (ORDER, ORDERS),
    "checker/engines/order/recur.py": ("order_recur order_conditions order_enough order_answers", ORDERS),
    "checker/engines/order/run.py": (ORDER, ORDERS),
    "checker/engines/order/schedule.py": (ORDER, ORDERS),
    "checker/engines/order/signals.py": (ORDER, ORDERS),
    "checker/engines/order/state.py": (ORDER, ORDERS),
    "spec/ptx/numbers.py": ("numbers", ORDERS),
    "checker/frontends/log/order.py": (LOG, LOGS),
    "checker/frontends/log/state.py": (LOG, LOGS),
    "checker/frontends/log/meet.py": (LOG, LOGS),
    "checker/frontends/log/exit.py": (LOG, LOGS),
    "checker/frontends/log/access.py": (LOG, LOGS),
    "checker/frontends/log/check.py": (LOG, LOGS),
    "checker/frontends/log/regions.py": (LOG, LOGS),
    "checker/recordings/linearise.py": ("linearise", MODELS),
}
"""By module, the tests that are about it, and wider ones for what those let pass: names of files without `test_`, those
that fail fast first.
"""


class Tree:
    """A copy of the sources, in which one change at a time is made."""

    def __init__(self, at: Path) -> None:
        self.at, self.seconds = at, dict[str, float]()
        for name in ("spec", "checker", "tests", "kernels", ".types"):
            shutil.copytree(ROOT / name, at / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", at)

    def tells(self, name: str, change: Change) -> bool:
        """Whether the tests of a file fail, hang or want too much memory with the change, and not without it."""
        if name not in self.seconds:
            start = time.monotonic()
            if not self._passes(name, 600.0):
                raise SystemExit(f"error: tests/test_{name}.py fails on the unchanged sources")
            self.seconds[name] = time.monotonic() - start
        source = (ROOT / change.path).read_bytes()
        (self.at / change.path).write_bytes(source[: change.start] + change.after.encode() + source[change.stop :])
        passes = self._passes(name, 3 * self.seconds[name] + 10)
        (self.at / change.path).write_bytes(source)
        return not passes

    def _passes(self, name: str, limit: float) -> bool:
        child = os.fork()
        if not child:
            self._run(name)
        until = time.monotonic() + limit
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status == 0
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False

    def _run(self, name: str) -> None:
        """In a process of its own: bytecode could outlive the change that it was made from, so none is written."""
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            sys.dont_write_bytecode = True
            os.chdir(self.at)
            sys.path.insert(0, str(self.at / ".types"))
            phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
            hypothesis.settings.register_profile("quick", derandomize=True, database=None, phases=phases)
            hypothesis.settings.load_profile("quick")
            os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"tests/test_{name}.py"]))
        finally:
            os._exit(1)


def _module(tree: Tree, path: str, options: argparse.Namespace, line: int) -> int:
    """Tries the changes of a module; gives how many survive that are not known to be equivalent."""
    changes = [one for one in changes_of(path, (ROOT / path).read_text()) if not line or one.line == line]
    if options.again:
        survived = {line.split(" ", 2)[2] for line in options.again.read_text().splitlines() if line[:8] == "SURVIVES"}
        changes = [one for one in changes if str(one).split(" ", 1)[1] in survived]
    if options.sample and options.sample < len(changes):
        changes = sorted(random.Random(f"{options.seed} {path}").sample(changes, options.sample))
    left = 0
    for change in changes:
        if options.list:
            print(change)
            continue
        own, wider = TABLE[path]
        names = dict.fromkeys([*own.split(), *("" if options.own else wider).split()])
        fate = "equivalent" if change.equivalent else ""
        fate = fate or next((f"killed by {name}" for name in names if tree.tells(name, change)), "SURVIVES")
        left += fate == "SURVIVES"
        print(fate, change, flush=True)
    return left


def _unmatched() -> int:
    """Prints the equivalent changes that are no changes of these modules any more; gives how many there are."""
    changes = (change for path in TABLE for change in changes_of(path, (ROOT / path).read_text()))
    matched = {key for change in changes for key in change.keys}
    unmatched = [key for key in EQUIVALENT if key not in matched]
    for key in unmatched:
        print("MATCHES NO CHANGE", *key)
    return len(unmatched)


def main() -> int:
    """Prints the fate of each change; fails if one survives that is not known to be equivalent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="paths from the root; none: all of TABLE")
    parser.add_argument("--sample", type=int, default=0, help="changes per module (0: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="FILE:LINE")
    parser.add_argument("--again", type=Path, help="only what survives in this output of an earlier run")
    parser.add_argument("--own", action="store_true", help="run the modules' own tests only")
    parser.add_argument("--list", action="store_true", help="print the changes and run nothing")
    options = parser.parse_args()
    only, _, line = options.only.partition(":")
    paths = [only] if only else options.modules or list(TABLE)
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        left = sum(_module(tree, path, options, int(line or 0)) for path in paths)
    return int(left + (_unmatched() if paths == list(TABLE) else 0) > 0)


if __name__ == "__main__":
    sys.exit(main())
