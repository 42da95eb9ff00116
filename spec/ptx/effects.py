"""What each operation means for memory and for other operations, once and as data; what it does to an mbarrier is its
Step (spec.ptx.signals).

Everybody who asks what an operation does reads it here: the state that a thread holds (spec.ptx.groups), the compiler,
the clocks of order, recordings, mutations. A new record needs its case here, and no reader of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple, assert_never

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Acquired, Begun, Copies, Ends, Groups, Shown, TriggeredArrivals, Until
from sm90_verify.spec.ptx.memory import Access, How, Scope


class Effects(NamedTuple):
    """Everything that one operation does, whoever executes it.

    begins: the accesses that it begins. lands: the copies that it starts, which land at any later time and then give
    their bytes to their barriers, and the tag of what each brings. commits, ends: groups of its thread. shows: what
    became visible; acquires: the tensormap that did, to the thread itself. orders: "release" if whoever goes on because
    of the operation sees the accesses of its thread before it; "relaxed" if others may go on and not see them; None if
    nobody goes on because of it, and for complete_tx, which PTX calls relaxed, and which orders here what the copy that
    it stands for would. triggers: arrivals that follow at any later time.
    signal, waits, meets, chooses, finds, word, registers: the operation itself, if it acts on an mbarrier, waits for
    one, is a barrier of threads, a choice, a read that tells what it finds, acts on a word, or is a request for
    registers. parted: the same, if others should have executed it as well. turns: the same, if it waits for other CTAs
    to end, or for its own to be started. joins: the same, if it is the commit or the wait of wgmmas by a part of a
    warpgroup. answers: between which it leaves the choice.
    """

    begins: tuple[Begun, ...] = ()
    lands: tuple[tuple[Copies, Hashable], ...] = ()
    commits: Groups | None = None
    ends: Ends | None = None
    shows: tuple[Shown, ...] = ()
    acquires: Acquired | None = None
    orders: Literal["release", "relaxed"] | None = None
    triggers: TriggeredArrivals | None = None
    signal: op.Signal | None = None
    waits: op.Wait | None = None
    meets: op.Meeting | None = None
    parted: op.Parted | None = None
    chooses: op.Choose | None = None
    finds: op.Find | None = None
    word: op.OnWord | None = None
    registers: op.Setmaxnreg | None = None
    turns: op.Griddepcontrol | op.CtaStart | None = None
    joins: op.Group | None = None
    answers: tuple[Hashable, ...] = ()

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Those that it begins."""
        return tuple(one.access for one in self.begins)

    @property
    def local(self) -> bool:
        """Accesses, groups and fences: nothing that another role could need to go on."""
        alone = self.signal is None and self.waits is None and self.meets is None
        alone = alone and self.chooses is None and self.finds is None and self.word is None
        alone = alone and self.registers is None and self.turns is None and self.triggers is None and self.joins is None
        return alone and not self.lands

    @property
    def signals(self) -> tuple[op.Signal, ...]:
        """What it does to one mbarrier after the other, all at once."""
        if isinstance(self.signal, op.Arrive):
            return self.signal.parts
        return () if self.signal is None else (self.signal,)

    @property
    def lets_go_on(self) -> bool:
        """Somebody may go on because of it: a signal, a copy that will signal, arrivals that follow, an arrival at a
        barrier of threads, a word.
        """
        arrives = self.meets is not None and not isinstance(self.meets, op.ClusterWait)
        signals = self.signal is not None or self.triggers is not None or bool(self.lands) or self.joins is not None
        return signals or arrives or self.word is not None

    @property
    def expected(self) -> list[tuple[Access, Hashable]]:
        """The reads that must find data of one tag; None is any data."""
        return [(one.access, tag) for one in self.begins if not one.access.write for tag in one.data]

    @property
    def left(self) -> list[tuple[Access, Hashable]]:
        """The writes of data that is there for whoever is ordered after their end, and its tags; but for copies that
        land.
        """
        return [(one.access, tag) for one in self.begins if one.access.write for tag in one.data]

    def lasting(self, *until: Until) -> tuple[Access, ...]:
        """The accesses that go on after the operation until one of these."""
        return tuple(one.access for one in self.begins if one.until in until)


NOTHING = Effects()


def effects_of(operation: op.Operation | None) -> Effects:
    """The effects of an operation; None, the end of a role, has none.

    They are remembered with the record and not by its value: an equal one may mean something else, since a phase is an
    int that knows its lap.
    """
    if operation is None:
        return NOTHING
    known: Effects | None = operation._effects
    if known is None:
        known = _effects(operation)
        object.__setattr__(operation, "_effects", known)
    return known


def _effects(operation: op.Operation) -> Effects:
    match operation:
        case op.Init() | op.Inval():
            return _lifetime(operation)
        case op.Arrive():
            return Effects(orders=operation.sem, signal=operation)
        case op.Transaction():
            return Effects(signal=operation)
        case op.Wait():
            return Effects(waits=operation, answers=() if operation.kind == "wait" else (True, False))
        case op.Load():
            return _load(operation)
        case op.Touch():
            return _touch(operation)
        case op.Find():
            answers = tuple(range(len(operation.tags)))
            return Effects((Begun(operation.access, "generic read", raw=True),), finds=operation, answers=answers)
        case op.Store():
            return _store(operation)
        case op.CpAsync():
            return _cp_async(operation)
        case op.TriggeredArrive():
            triggers = TriggeredArrivals(operation.barrier, operation.count, operation.tracks)
            return Effects(orders="relaxed", triggers=triggers)
        case op.StoreAsync():
            return _store_async(operation)
        case op.Group():
            return _group(operation)
        case op.Fence():
            return _fence(operation)
        case op.MapFence(kind="release"):
            return Effects(shows=_released(operation.scope))
        case op.MapFence():
            wide = operation.scope != "cta"
            return Effects(acquires=None if operation.map is None else Acquired(operation.map, wide))
        case op.CopyMap():
            begins = Begun(operation.source, "generic read", data=(operation.tag,), raw=True), _written(operation)
            return Effects(begins, shows=_released(operation.scope))
        case op.ClusterArrive(release=True):
            return Effects(meets=operation, orders="release", shows=("inits_to_ctas",))
        case op.ClusterArrive():
            return Effects(meets=operation, orders="relaxed")
        case op.NamedSync() | op.CtaSync():
            return Effects(meets=operation, orders="release")
        case op.WarpSync(orders=False):
            return Effects(meets=operation, orders="relaxed")
        case op.WarpSync() | op.ClusterWait():
            return Effects(meets=operation)
        case op.Parted():
            return Effects(parted=operation)
        case op.Choose():
            return Effects(chooses=operation, answers=tuple(range(len(operation.options))))
        case op.Setmaxnreg():
            return Effects(registers=operation)
        case op.WordLoad() | op.WordStore() | op.Atom() | op.Spin():
            return _word(operation)
        case op.ThreadFence():
            return NOTHING
        case op.Griddepcontrol(kind="launch_dependents"):
            return NOTHING  # the launch orders no memory, and that it comes at once is not promised
        case op.Griddepcontrol() | op.CtaStart():
            return Effects(turns=operation)
        case _:
            assert_never(operation)


def _lifetime(operation: op.Init | op.Inval) -> Effects:
    """Both write the bytes of the barrier; after init they are those of a live object, which no data may touch."""
    if operation.write is None:
        return Effects(signal=operation)
    begun = Begun(operation.write, "generic write", data=(None,), raw=isinstance(operation, op.Inval))
    return Effects((begun,), signal=operation)


def _load(load: op.Load) -> Effects:
    """What a copy brings from shared memory is what must be there; of global memory it is not known."""
    of = load.bytes, load.pieces, load.read, load.tensormap
    copies = [Copies(write, barrier, *of) for write, barrier in load.destinations]
    begins = [Begun(one.write, "async write", "landed") for one in copies]
    if load.read is not None:
        found = (load.tag,) if load.read.space == "shared" else ()
        begins.append(Begun(load.read, "async read", "landed", found))
    if load.tensormap is not None:
        begins.append(Begun(load.tensormap, "tensormap read", "landed"))
    return Effects(tuple(begins), tuple((one, load.tag) for one in copies))


def _word(operation: op.OnWord) -> Effects:
    """A load is of the word alone; a store, and an atomic operation, let go on whoever waits for its value."""
    strong = operation.order.sem != "weak"
    match operation:
        case op.WordLoad(access=access, values=values):
            begun = Begun(access, "generic read", raw=True, strong=strong)
            return Effects((begun,), word=operation, answers=tuple(range(values)))
        case op.Spin(access=access):
            return Effects((Begun(access, "generic read", raw=True, strong=strong),), word=operation)
        case op.WordStore(access=access) | op.Atom(access=access):
            answers = tuple(range(operation.values)) if isinstance(operation, op.Atom) and operation.answers else ()
            orders: Literal["release", "relaxed"] = "release" if releases(operation.order) else "relaxed"
            begun = Begun(access, "generic write", raw=True, strong=strong)
            return Effects((begun,), orders=orders, word=operation, answers=answers)
        case _:
            assert_never(operation)


def releases(order: op.Ordering) -> bool:
    """Whoever acquires what was written sees what its thread did before."""
    return order.sem in ("release", "acq_rel")


def acquires(order: op.Ordering) -> bool:
    """Its thread sees what those did before who released what it reads."""
    return order.sem in ("acquire", "acq_rel")


def _store(store: op.Store) -> Effects:
    told = zip(store.sources, store.tags, strict=True)
    begins = [Begun(access, "async read", "bulk_group", (tag,)) for access, tag in told]
    if store.tensormap is not None:
        begins.append(Begun(store.tensormap, "tensormap read", "bulk_group"))
    if store.destination is not None:
        reduces = store.destination.strong is not None
        begins.append(Begun(store.destination, "async write", "bulk_group", strong=reduces))
    return Effects(tuple(begins))


def _touch(touch: op.Touch) -> Effects:
    told = [(access, (tag,)) for access, tag in zip(touch.accesses, touch.tags, strict=True)]
    match touch.kind:
        case "read":
            return Effects(tuple(_at_once(access, "generic read", tag) for access, tag in told))
        case "write":
            return Effects(tuple(_at_once(access, "generic write", tag) for access, tag in told))
        case "red":
            return Effects(tuple(Begun(access, "generic write", "done", tag, True, True) for access, tag in told))
        case "mma":
            begins = [Begun(access, "async read", "mma_group", tag) for access, tag in told]
            if touch.into is not None:
                begins.append(Begun(touch.into, "async write", "mma_group", (touch.leaves,)))
            return Effects(tuple(begins), commits="mma" if touch.commit else None)
        case _:
            assert_never(touch.kind)


def _at_once(access: Access, how: How, data: tuple[Hashable, ...]) -> Begun:
    return Begun(access, how, data=data, raw=access.space != "registers")


def _cp_async(copy: op.CpAsync) -> Effects:
    """cp.async is no operation of the async proxy (9.7.9.25.2 names those)."""
    begins = [Begun(copy.write, "generic write", "cp_group", (copy.tag,), raw=True)]
    if copy.source is not None:
        begins.append(Begun(copy.source, "generic read", "cp_group", raw=True))
    return Effects(tuple(begins))


def _store_async(store: op.StoreAsync) -> Effects:
    """st.async and red.async are performed in the generic proxy (9.7.9.12, .13)."""
    copies = Copies(store.write, store.barrier, store.bytes, store.pieces)
    reduces = store.write.strong is not None
    return Effects((Begun(store.write, "generic write", "landed", (), True, reduces),), ((copies, store.tag),))


def _group(group: op.Group) -> Effects:
    match group.kind:
        case "mma_commit":
            return Effects(
                commits="mma", orders="release" if group.joint else None, joins=group if group.joint else None
            )
        case "bulk_commit":
            return Effects(commits="bulk")
        case "cp_commit":
            return Effects(commits="cp")
        case "cp_wait":
            return Effects(ends=Ends("cp", group.pending))
        case "cp_wait_all":
            return Effects(commits="cp", ends=Ends("cp", 0))
        case "mma_wait":
            return Effects(ends=Ends("mma", group.pending), joins=group if group.joint else None)
        case "bulk_wait":
            return Effects(ends=Ends("bulk", group.pending))
        case "bulk_wait_read":
            return Effects(ends=Ends("bulk", group.pending, reads=True))
        case _:
            assert_never(group.kind)


def _fence(fence: op.Fence) -> Effects:
    match fence.kind:
        case "proxy_async":
            return Effects(shows=("accesses", "inits_to_copies"))
        case "mbarrier_init":
            return Effects(shows=("inits_to_copies", "inits_to_ctas"))
        case "wgmma":
            return Effects(shows=("registers",))
        case _:
            assert_never(fence.kind)


def _written(copy: op.CopyMap) -> Begun:
    return Begun(copy.map, "generic write", data=(copy.tag,), raw=True)


def _released(scope: Scope) -> tuple[Shown, ...]:
    """All roles of a model are in one cluster."""
    return ("maps",) if scope == "cta" else ("maps", "maps_to_ctas")
