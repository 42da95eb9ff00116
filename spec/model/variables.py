"""The state variables of a model: what its programs use of each barrier and buffer decides which parts can change."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sized
from typing import Literal

from sm90_verify.spec.model.accesses import Flight
from sm90_verify.spec.model.barrier_plans import BarrierPlan, plans_of
from sm90_verify.spec.model.contents import extents, is_found, left_by
from sm90_verify.spec.model.decisions import Shared, choices_kept, iterations_kept
from sm90_verify.spec.model.flow import blocks_inside, meeting_of, waits_for_a_grid
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.lags import lags_of
from sm90_verify.spec.model.machine import Variable, VariableKind
from sm90_verify.spec.model.pools import registers_of, words_of
from sm90_verify.spec.model.proxies import bare_bits, bare_writes, edit_fields
from sm90_verify.spec.model.triggers import flights_of, triggers_of
from sm90_verify.spec.model.warpgroups import Warpgroups
from sm90_verify.spec.model.weaker import is_needed
from sm90_verify.spec.model.words import labels, unlike
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, any_of
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.thread_barriers import CLUSTER_WIDTH, THREADS_WIDTH, ThreadBarrier


class Variables:
    """All variables, by what they stand for.

    counters: by role. barriers: by name, each part a variable or a constant. unseen, since, fresh, ages: see
    spec.model.lags. tags, content: by buffer. bare: by role and its generic write. edited: by role, its write of a
    tensormap, and who uses that; covered: the role and write of bits, and of what stands for them. ordered: it is
    spec.model.causality that follows the accesses instead. copies: the variable in flight, the one that counts pieces,
    and who issues, by kind of copy. triggers: how many arrivals that follow cp.asyncs are under way, and whence they
    come.
    """

    def __init__(self, kernel: Kernel, kept: int | None = None, *, ordered: bool | None = None) -> None:
        self.kernel, self.programs, self.kept = kernel, kernel.programs, kept
        self.all: list[Variable] = []
        self.names: set[str] = set()
        self.plans = plans_of(kernel)
        self.counters = {p.name: self._counter(p) for p in kernel.programs}
        self.barriers = {name: self._barrier(name, plan) for name, plan in self.plans.items()}
        self.unseen, self.since, self.fresh, self.ages = lags_of(self.plans, self.new)
        self._plan_copies()
        self._plan_bare(ordered)
        self.triggers = triggers_of(kernel, self.new)
        for one in self.triggers:
            self.flights += flights_of(self.programs, self.counters, self.triggers, one, kernel.launch.grid_of)
        self._plan_meetings()
        self._plan_shared()
        self.free = registers_of(self.nodes(), self.new)
        self.words = words_of(self.nodes(), self.new, kernel.layout.words)
        self._plan_turns()
        self.warpgroups = Warpgroups(self.programs, self.new)

    def nodes(self) -> Iterable[tuple[Program, int, Node]]:
        """All nodes of all programs, with their numbers."""
        return ((program, index, node) for program in self.programs for index, node in enumerate(program.nodes))

    def new(
        self,
        name: str,
        width: int,
        initial: int,
        about: str,
        *,
        kind: VariableKind,
        of: str = "",
        role: str = "",
        index: int = 0,
        ghost: bool = False,
        labels: tuple[str, ...] = (),
    ) -> Field:
        """A new variable. Its name is for people, and marked where an earlier variable has it: what a user calls a
        role, a barrier or a loop can make two of them read the same.
        """
        name = unlike(name, self.names)
        self.all.append(Variable(name, width, initial, about, ghost, labels, kind, of, role, index))
        return Field(name, width)

    def _counter(self, program: Program) -> Field:
        inside = sum(1 for node in program.nodes if blocks_inside(node.operation))
        width = max(1, (len(program.nodes) + inside - 1).bit_length())
        about = f"location of {program.name}"
        return self.new(f"at.{program.name}", width, 0, about, kind="location", role=program.name)

    def _barrier(self, name: str, plan: BarrierPlan) -> Mbarrier:
        width = (max(plan.arrivals, plan.most, 1) + plan.triggered).bit_length()
        full = Lit(plan.arrivals, width)
        about = f"pending arrivals of {name}"
        pending = self.new(f"{name}.pending", width, plan.arrivals, about, kind="pending", of=name)
        phase = self.new(f"{name}.phase", 1, 0, f"phase parity of {name}", kind="phase", of=name)
        tx: Expr = Lit(0, mbarrier.TX_WIDTH)
        if plan.transactions:
            tx = self.new(f"{name}.tx", mbarrier.TX_WIDTH, 0, f"tx-count of {name} in bytes", kind="tx", of=name)
        expected: Expr = full
        if plan.drops or plan.inits:
            about = f"arrivals that {name} expects in a phase"
            expected = self.new(f"{name}.expected", width, plan.arrivals, about, kind="expected", of=name)
        alive: Expr = TRUE if plan.initialised else FALSE
        if plan.inits:
            about = f"{name} is initialised"
            alive = self.new(f"{name}.alive", 1, int(plan.initialised), about, kind="alive", of=name)
        observed: Expr = TRUE
        if plan.tokens:
            about = f"somebody has seen the last phase of {name} complete"
            observed = self.new(f"{name}.observed", 1, 1, about, kind="observed", of=name, ghost=True)
        return Mbarrier(alive, phase, expected, pending, tx, observed)

    def _plan_copies(self) -> None:
        self.objects = extents(self.kernel.layout)
        self.tags: dict[str, dict[Hashable, int]] = {}
        for name, tag in self.kernel.layout.holds.items():
            self._tag(name, tag)
        read: dict[str, bool] = {}
        copies: dict[Copies, list[tuple[str, int, Hashable]]] = {}
        for program, index, node in self.nodes():
            effects = effects_of(node.operation)
            for key, tag in effects.lands:
                copies.setdefault(key, []).append((program.name, index, tag))
                self._tag(key.write.object, left_by(key.write, tag, self.objects))
            for access, tag in effects.left:
                self._tag(access.object, left_by(access, tag, self.objects))
            for access, tag in effects.expected:
                read[access.object] = read.get(access.object, False) or tag is not None
            if effects.finds is not None:
                read[effects.finds.access.object] = True
        self.content: dict[str, Field] = {}
        for name, expected in read.items():
            if expected and name in self.tags:
                width = len(self.tags[name]).bit_length()
                start = self.tags[name][self.kernel.layout.holds[name]] if name in self.kernel.layout.holds else 0
                shown = ("nothing", *labels(self.tags[name]))
                about = f"what {name} holds"
                self.content[name] = self.new(f"{name}.holds", width, start, about, kind="holds", of=name, labels=shown)
        self.copies: dict[Copies, tuple[Field, Field | None, tuple[tuple[str, int, int], ...]]] = {}
        numbers: dict[str, int] = {}
        for key, issues in copies.items():
            buffer = key.write.object
            number = numbers[buffer] = numbers.get(buffer, 0) + 1
            name = f"{buffer}.flight" if number == 1 else f"{buffer}.flight{number}"
            tags = self.tags[buffer]
            about, shown = f"the copy in flight into {buffer}", ("none", *labels(tags))
            busy = self.new(
                name, len(tags).bit_length(), 0, about, kind="flight", of=buffer, index=number - 1, labels=shown
            )
            piece = None
            if key.pieces > 1:
                width, about = (key.pieces - 1).bit_length(), f"pieces of {name} that have landed"
                piece = self.new(f"{name}.pieces", width, 0, about, kind="pieces", of=buffer, index=number - 1)
            self.copies[key] = busy, piece, tuple((role, node, self.data(key.write, tag)) for role, node, tag in issues)
        self.flights = [
            Flight(access, busy != 0, access.object, key)
            for key, (busy, _, _) in self.copies.items()
            for access in key.accesses
        ]

    def _plan_bare(self, ordered: bool | None) -> None:
        self.ordered = is_needed(self.kernel) if ordered is None else ordered
        bare = bare_writes(self.kernel)
        self.covered = frozenset(bare)
        self.bare = {} if self.ordered else bare_bits(bare, self.new)
        self.edited = edit_fields(self.kernel, self.new)

    def data(self, access: Access, tag: Hashable) -> int:
        """The value of what a write of data of that tag leaves in its buffer."""
        return self.tags[access.object][left_by(access, tag, self.objects)]

    def found(self, access: Access, tag: Hashable) -> Expr:
        """A read finds data of that tag, wherever it looks."""
        content = self.content.get(access.object)
        values = [value for data, value in self.tags.get(access.object, {}).items() if is_found(data, access, tag)]
        return FALSE if content is None else any_of(content == value for value in values)

    def _tag(self, name: str, tag: Hashable) -> None:
        values = self.tags.setdefault(name, {})
        values.setdefault(tag, len(values) + 1)

    def _plan_meetings(self) -> None:
        members: dict[str, dict[str, None]] = {}
        counts: dict[str, dict[int, None]] = {}
        for program, _, node in self.nodes():
            found = meeting_of(program, node.operation)
            if found is not None:
                waiters = members.setdefault(found, {})
                if isinstance(node.operation, op.ClusterArrive | op.ClusterWait) or blocks_inside(node.operation):
                    waiters[program.name] = None
                if isinstance(node.operation, op.NamedSync):
                    counts.setdefault(found, {})[node.operation.threads] = None
        self.meetings: dict[str, ThreadBarrier] = {}
        for name in dict.fromkeys(f"{program.peers}cluster" for program in self.programs):
            if name in members:
                self.meetings[name] = self._cluster_barrier(name, members.pop(name))
        own = {f"warp.{program.role}": program.role for program in self.programs}
        for name, roles in members.items():
            about, role = f"threads that have arrived at {name}", own.get(name, "")
            arrived = self.new(f"{name}.arrived", THREADS_WIDTH, 0, about, kind="arrived", of=name, role=role)
            count: Expr = Lit(0, THREADS_WIDTH)
            if len(counts.get(name, {})) > 1:
                about = f"threads that {name} waits for"
                count = self.new(f"{name}.count", THREADS_WIDTH, 0, about, kind="count", of=name, role=role)
            about = "{} waits inside {}, which has not completed"
            flags = {
                role: self.new(f"{name}.{role}", 1, 0, about.format(role, name), kind="met", of=name, role=role)
                for role in roles
            }
            self.meetings[name] = ThreadBarrier(arrived, count, flags)

    def _cluster_barrier(self, name: str, roles: Iterable[str]) -> ThreadBarrier:
        about = "threads of the cluster that have arrived at barrier.cluster"
        arrived = self.new(f"{name}.arrived", CLUSTER_WIDTH, 0, about, kind="arrived", of=name)
        shown = ("not arrived", "arrived", "may leave")
        flags = {
            role: self.new(
                f"{name}.{role}", 2, 0, f"{role} at barrier.cluster", kind="met", of=name, role=role, labels=shown
            )
            for role in roles
        }
        return ThreadBarrier(arrived, Lit(0, CLUSTER_WIDTH), flags)

    def _plan_shared(self) -> None:
        loops: dict[str, dict[str, None]] = {}
        choices: dict[str, dict[str, None]] = {}
        options: dict[str, int] = {}
        for program, _, node in self.nodes():
            if node.loop:
                loops.setdefault(node.loop, {})[program.name] = None
            elif isinstance(node.operation, op.Choose):
                choices.setdefault(node.operation.name, {})[program.name] = None
                options[node.operation.name] = max(options.get(node.operation.name, 0), len(node.operation.options))
        self.shared: dict[str, Shared] = {}
        for name, roles in loops.items():
            most = self._most(iterations_kept(self.kernel.depth), roles)
            behind = self._behind(name, roles, most, "iterations behind")
            about = f"the number of iterations of loop {name!r} is decided"
            stopped = self.new(f"loop.{name}.ended", 1, 0, about, kind="ended", of=name)
            self.shared[f"loop {name}"] = Shared(f"iterations of {name!r}", behind, most, (), stopped)
        for name, roles in choices.items():
            most = self._most(choices_kept(self.kernel.depth), roles)
            behind = self._behind(name, roles, most, "choices behind")
            bits = max(1, (options[name] - 1).bit_length())
            about = "choice {!r}, {} before the last"
            history = tuple(
                self.new(
                    f"choice.{name}.{age}",
                    bits,
                    0,
                    about.format(name, age),
                    kind="chosen",
                    of=name,
                    index=age,
                    ghost=True,
                )
                for age in range(most)
            )
            self.shared[f"choice {name}"] = Shared(f"choices of {name!r}", behind, most, history, options=options[name])

    def _most(self, needed: int, roles: Sized) -> int:
        """How many decisions that these roles share are remembered."""
        if len(roles) == 1:
            return 0
        return needed if self.kept is None else min(needed, self.kept)

    def _behind(
        self, name: str, roles: Iterable[str], most: int, kind: Literal["iterations behind", "choices behind"]
    ) -> dict[str, Field]:
        what = "iterations" if kind == "iterations behind" else "choices"
        about = "how many {} of {!r} {} is behind the most advanced role"
        return {
            role: self.new(
                f"behind.{role}.{name}",
                (most + 1).bit_length(),
                0,
                about.format(what, name, role),
                kind=kind,
                of=name,
                role=role,
                ghost=True,
            )
            for role in roles
        }

    def _plan_turns(self) -> None:
        """started: by number of a cluster that others may keep waiting. complete: None if nobody waits for a grid."""
        self.started: dict[int, Field] = {}
        self.put_off: Field | None = None
        self.complete: Field | None = None
        launch = self.kernel.launch
        for program, _, node in self.nodes():
            if isinstance(node.operation, op.CtaStart):
                block = launch.block(program.me.number)
                if self.put_off is None:
                    about = "clusters that are not started wait for others to end"
                    self.put_off = self.new("launch.put_off", 1, 0, about, kind="put off", of="launch")
                if block not in self.started:
                    name = f"{program.peers}started"
                    about = "a CTA of the cluster has begun"
                    self.started[block] = self.new(name, 1, 0, about, kind="started", of=program.peers)
            elif waits_for_a_grid(program, node.operation, launch) and self.complete is None:
                about = "some thread has seen that the first grid is complete"
                self.complete = self.new("grid.complete", 1, 0, about, kind="complete", of="grid", ghost=True)
