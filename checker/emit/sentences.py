"""Each operation as a sentence of the language."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

from sm90_verify.emit.declared import Declared, Slot
from sm90_verify.emit.numbers import Affine, Hole
from sm90_verify.emit.rolling import Sentence, Template
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.phase import phases_ahead


class SentenceWriter:
    """Writes the operations of one program. alone: its role has no other part."""

    def __init__(self, declared: Declared, program: Program, *, alone: bool) -> None:
        self.declared, self.program, self.alone = declared, program, alone
        self.tokens = tokens_of(program)
        self.template: list[str | Hole] = []
        self.numbers: list[Affine] = []

    def sentence(self, node: Node) -> Sentence:
        """What the node does. Raises SpecError for what the front ends never make."""
        self.template, self.numbers = [], []
        assert node.operation is not None
        self._say(node, node.operation)
        return Sentence(_joined(self.template), tuple(self.numbers), node.source.line)

    # -- pieces

    def _number(self, value: int) -> None:
        self._hole(0, value, Hole(len(self.numbers)))

    def _hole(self, modulus: int, value: int, hole: Hole) -> None:
        self.template.append(hole)
        self.numbers.append(Affine(modulus, value))

    def _text(self, text: str) -> None:
        self.template.append(text)

    def _barrier(self, name: str, parity: int | None = None) -> Hole | None:
        """`self.full[2].on(1)`. parity: of a wait on it; gives the hole for it."""
        slot = self.declared.slots[name]
        slots, found = slot.ring.slots, None
        self._text(f"self.{slot.ring.name}")
        which = len(self.numbers)
        if parity is not None:
            found = Hole(which, "parity", slots)
            self.numbers.append(Affine(2 * slots, slot.slot + slots * parity))
        elif slots > 1:
            self.numbers.append(Affine(slots, slot.slot))
        if slots > 1:
            self._text("[")
            self.template.append(Hole(which, "index", slots))
            self._text("]")
        self._on(slot.rank, always=slot.ring.name in self.declared.far)
        return found

    def _slot(self, name: str) -> Slot:
        """`self.a[2]`, of the CTA in which it is written."""
        slot = self.declared.slots[name]
        self._text(f"self.{slot.ring.name}")
        if slot.ring.slots > 1:
            self._text("[")
            self._hole(slot.ring.slots, slot.slot, Hole(len(self.numbers), "index", slot.ring.slots))
            self._text("]")
        return slot

    def _on(self, rank: int, *, always: bool = False) -> None:
        if always or rank != self.program.me.cta:
            self._text(".on(")
            self._number(rank)
            self._text(")")

    def _tile(self, access: Access, *, here: bool = False) -> None:
        """`self.a[2].part(0, bytes=4096)`. here: without the CTA, as a multicast names its destinations."""
        slot = self._slot(access.object)
        start, size = access.start - slot.start, access.stop - access.start
        if (start, size) != (0, slot.ring.bytes):
            self._text(".part(")
            self._number(start)
            self._text(f", {size})")
        if not here:
            self._on(slot.rank)

    def _tiles(self, accesses: Sequence[Access]) -> None:
        for number, access in enumerate(accesses):
            self._text(", " if number else "")
            self._tile(access)

    def _plain(self, text: str) -> None:
        self._text(f"yield {text}")

    # -- operations

    def _say(self, node: Node, operation: op.Operation) -> None:
        match operation:
            case op.Wait():
                self._wait(node, operation)
            case op.Arrive():
                self._arrive(operation)
            case op.Init(barrier, count):
                self._verb(barrier, f".init({count})")
            case op.Inval(barrier):
                self._verb(barrier, ".inval()")
            case op.Transaction(barrier, bytes):
                self._verb(barrier, f".expect_tx({bytes})" if bytes >= 0 else f".complete_tx({-bytes})")
            case op.TriggeredArrive(barrier, count, noinc):
                self._verb(barrier, f".cp_async_arrive({count}, noinc={noinc})")
            case op.Load(tag=None, pieces=1, tensormap=None):
                self._load(operation)
            case op.Store(sources, tags, None, None) if not any(tags):
                self._text("yield self.store(")
                self._tiles(sources)
                self._text(")")
            case op.Touch(accesses=accesses, tags=tags) if tags == tuple(one.value for one in accesses):
                self._touch(operation)
            case op.CpAsync(write, None, None):
                self._text("yield ")
                self._tile(write)
                self._text(".cp_async()")
            case op.StoreAsync(tag=None):
                self._store_async(operation)
            case op.Group(kind, pending, joint):
                waits = kind in ("mma_wait", "bulk_wait", "bulk_wait_read", "cp_wait")
                said = [str(pending)] if waits else []
                self._plain(f"self.{kind}({', '.join([*said, *(['joint=True'] if joint else [])])})")
            case op.Fence(kind):
                self._plain("self.wgmma_fence()" if kind == "wgmma" else f"self.fence_{kind}()")
            case op.ThreadFence(kind, scope):
                self._plain(f"self.fence_{kind}({scope!r})")
            case op.NamedSync(id, threads, blocks, by):
                self._text(f"yield self.named_{'sync' if blocks else 'arrive'}(")
                self._number(id)
                self._text(f", {threads}, by={by})" if by else f", {threads})")
            case op.CtaSync():
                self._plain("self.cta_sync()")
            case op.ClusterArrive(release):
                self._plain("self.cluster_arrive()" if release else "self.cluster_arrive_relaxed()")
            case op.ClusterWait():
                self._plain("self.cluster_wait()")
            case op.WarpSync(warp, lanes, orders):
                said = [*(["warp=me.warp"] if warp >= 0 else []), *([f"lanes={lanes:#x}"] if lanes else [])]
                self._plain(f"self.warp_sync({', '.join([*said, *([] if orders else ['orders=False'])])})")
                if warp not in (-1, self.program.me.warp):
                    raise self._unsaid(operation, node)
            case op.Setmaxnreg(registers, kind):
                self._plain(f"self.setmaxnreg_{kind}({registers})")
            case op.Griddepcontrol(kind):
                self._plain("self.grid_wait()" if kind == "wait" else "self.launch_dependents()")
            case op.Find() | op.MapFence() | op.CopyMap() | op.Choose() | op.CtaStart() | op.Store() | op.CpAsync():
                raise self._unsaid(operation, node)
            case op.Load() | op.Touch() | op.StoreAsync():
                raise self._unsaid(operation, node)
            case op.Parted() | op.WordLoad() | op.WordStore() | op.Atom() | op.Spin():
                raise self._unsaid(operation, node)
            case _:
                assert_never(operation)

    def _unsaid(self, operation: op.Operation, node: Node) -> SpecError:
        return SpecError(f"{type(operation).__name__} of {self.program.name}: no front end makes it so", node.source)

    def _verb(self, barrier: str, verb: str) -> None:
        self._text("yield ")
        self._barrier(barrier)
        self._text(verb)

    def _wait(self, node: Node, wait: op.Wait) -> None:
        words = _ordering(wait.sem, "acquire", wait.scope)
        self._text("yield ")
        if isinstance(wait.phase, op.Token):
            self._barrier(wait.barrier)
            self._text(".wait(")
            self._token(wait.barrier)
        elif self._by_parity(node, wait):
            parity = self._barrier(wait.barrier, int(wait.phase))
            assert parity is not None
            self._text(".wait(")
            self.template.append(parity)
        else:
            slot = self.declared.slots[wait.barrier]
            self._barrier(wait.barrier)
            self._text(f".wait(PipelineState.start({slot.ring.slots}).advance(")
            seen = node.observed.get(wait.barrier, -1)
            self._number(slot.slot + slot.ring.slots * (seen + node.distance))
            self._text(").phase")
        self._text(f"{words})")

    def _by_parity(self, node: Node, wait: op.Wait) -> bool:
        """A plain parity says which phase is meant; of a barrier that is initialised again it always does."""
        assert not isinstance(wait.phase, op.Token)
        ahead = phases_ahead(node.observed.get(wait.barrier, -1), wait.phase)
        return node.distance == ahead or wait.barrier in self.declared.anew

    def _token(self, barrier: str) -> None:
        slot = self.declared.slots[barrier]
        self._text(f'token["{slot.ring.name}", ')
        self._hole(slot.ring.slots, slot.slot, Hole(len(self.numbers), "index", slot.ring.slots))
        self._text("]")

    def _arrive(self, arrive: op.Arrive) -> None:
        if arrive.barrier in self.tokens:
            self._token(arrive.barrier)
            self._text(" = ")
        self._text("yield ")
        self._barrier(arrive.barrier)
        words = _ordering(arrive.sem, "release", arrive.scope)
        threads = "me.threads" if arrive.count == self.program.me.threads and not self.alone else str(arrive.count)
        count = f", {threads}" if arrive.count != 1 else ""
        match arrive.kind, arrive.expect:
            case "arrive", None:
                also = [self.declared.slots[name].rank for name, _ in arrive.also]
                ctas = f", ctas={[self.declared.slots[arrive.barrier].rank, *also]}" if also else ""
                self._text(f".arrive({threads}{ctas}{words})")
            case "arrive", expect:
                self._text(f".arrive_expect_tx({expect}{count}{words})")
            case "drop", expect:
                self._text(f".arrive_drop({arrive.count}, {expect})")
            case "no_complete", _:
                self._text(f".arrive_no_complete({arrive.count})")

    def _load(self, load: op.Load) -> None:
        ranks = [self.declared.slots[barrier].rank for _, barrier in load.destinations]
        spread = bool(load.also) or ranks[0] != self.program.me.cta
        self._text("yield ")
        self._tile(load.write, here=spread)
        self._text(".load(signals=")
        self._slot(load.barrier)
        if load.bytes != load.write.stop - load.write.start:
            self._text(f", bytes={load.bytes}")
        if spread:
            self._text(", multicast=(")
            for rank in ranks:
                self._number(rank)
                self._text(",")
            self._text(")")
        if load.read is not None:
            self._text(", source=")
            self._tile(load.read)
        self._text(")")

    def _store_async(self, store: op.StoreAsync) -> None:
        self._text("yield ")
        self._tile(store.write)
        self._text(f".{'store' if store.write.strong is None else 'reduce'}_async(signals=")
        self._barrier(store.barrier)
        self._text(f", bytes={store.bytes}, pieces={store.pieces})")

    def _touch(self, touch: op.Touch) -> None:
        self._text(f"yield self.{touch.kind}(")
        self._tiles(touch.accesses)
        first = touch.accesses[0]
        if touch.kind == "mma":
            if touch.into is not None:
                self._text(", into=")
                self._tile(touch.into)
            self._text("" if touch.commit else ", commit=False")
        elif first.strong is not None:
            self._text(f", scope={first.strong.scope!r}")
        elif first.value is not None:
            self._text(f", value={first.value!r}")
        self._text(")")


def tokens_of(program: Program) -> Collection[str]:
    """The barriers on which a program waits with a token."""
    waits = (node.operation for node in program.nodes if isinstance(node.operation, op.Wait))
    return frozenset(one.barrier for one in waits if isinstance(one.phase, op.Token))


def _ordering(sem: str, usual: str, scope: str) -> str:
    said = ([f"sem={sem!r}"] if sem != usual else []) + ([f"scope={scope!r}"] if scope else [])
    return "".join(f", {one}" for one in said)


def _joined(pieces: Sequence[str | Hole]) -> Template:
    found: list[str | Hole] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(found[-1], str):
            found[-1] += piece
        elif piece != "":
            found.append(piece)
    return tuple(found)
