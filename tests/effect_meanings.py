"""Operations of every record and kind, and what each of them does: effects, and the kind of its step."""

from __future__ import annotations

from typing import get_args

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Acquired, Begun, Copies, Ends, TriggeredArrivals
from sm90_verify.spec.ptx.effects import Effects
from sm90_verify.spec.ptx.memory import WIDER, Access, Strong, as_read, as_write

X, Y = Access("x", "shared", 0, 64, False, "generic"), Access("y", "shared", 64, 128, False, "generic")
OVER = as_write(X, "generic")
FAST, INTO = as_read(X, "async"), as_write(Y, "async")
OUT = Access("out", "global", 0, 64, True, "async")
HELD = Access("r", "registers", 0, 64, False, "generic")
ACC = as_write(HELD, "async")
FLAG = Access("flag", "global", 64, 68, False, "generic", strong=Strong("gpu"))
SET, WEAK_FLAG = as_write(FLAG, "generic")._replace(strong=Strong("gpu")), FLAG._replace(strong=None)
STRONG_READ, STRONG_WRITE = (
    Begun(FLAG, "generic read", raw=True, strong=True),
    Begun(SET, "generic write", raw=True, strong=True),
)
WEAK_READ = Begun(WEAK_FLAG, "generic read", raw=True)
ATOMIC, SUM = OVER._replace(strong=Strong("gpu")), OUT._replace(strong=Strong("gpu"))
THERE, FROM, MAP = INTO._replace(cta=1), as_read(OUT, "async"), as_read(OUT, "tensormap")

MEANINGS: list[tuple[op.Operation, Effects, str]] = [
    (op.Init("full", 1), Effects(), "other"),
    (
        op.Init("full", 1, write=as_write(X, "generic")),
        Effects((Begun(as_write(X, "generic"), "generic write", data=(None,)),)),
        "other",
    ),
    (op.Inval("full"), Effects(), "other"),
    (op.Inval("full", write=OVER), Effects((Begun(OVER, "generic write", data=(None,), raw=True),)), "other"),
    (op.Wait("full", 0), Effects(), "wait"),
    (op.Wait("full", op.Token("full")), Effects(), "wait"),
    (op.Wait("full", 0, "try_wait"), Effects(answers=(True, False)), "peek"),
    (op.Wait("full", 0, "test_wait"), Effects(answers=(True, False)), "peek"),
    (op.Arrive("full"), Effects(orders="release"), "arrive"),
    (op.Arrive("full", expect=64), Effects(orders="release"), "arrive"),
    (op.Arrive("full", kind="drop"), Effects(orders="release"), "other"),
    (op.Arrive("full", kind="no_complete"), Effects(orders="release"), "other"),
    (op.Transaction("full", 64), Effects(), "expect"),
    (op.Transaction("full", -64), Effects(), "other"),
    (
        op.Load(INTO, "full", 64, "t", 2),
        Effects((Begun(INTO, "async write", "landed"),), ((Copies(INTO, "full", 64, 2), "t"),)),
        "load",
    ),
    (
        op.Load(INTO, "full", 64, "t", read=FAST),
        Effects(
            (Begun(INTO, "async write", "landed"), Begun(FAST, "async read", "landed", ("t",))),
            ((Copies(INTO, "full", 64, 1, FAST), "t"),),
        ),
        "load",
    ),
    (
        op.Load(INTO, "full", 64, "t", tensormap=MAP),
        Effects(
            (Begun(INTO, "async write", "landed"), Begun(MAP, "tensormap read", "landed")),
            ((Copies(INTO, "full", 64, 1, None, MAP), "t"),),
        ),
        "load",
    ),
    (
        op.Store((FAST,), ("t",), tensormap=MAP),
        Effects((Begun(FAST, "async read", "bulk_group", ("t",)), Begun(MAP, "tensormap read", "bulk_group"))),
        "local",
    ),
    (op.Touch("read", (X,), ("t",)), Effects((Begun(X, "generic read", data=("t",), raw=True),)), "local"),
    (op.Touch("write", (OVER,), ("t",)), Effects((Begun(OVER, "generic write", data=("t",), raw=True),)), "local"),
    (op.Touch("mma", (FAST,), ("t",)), Effects((Begun(FAST, "async read", "mma_group", ("t",)),)), "local"),
    (
        op.Touch("mma", (FAST,), ("t",), True),
        Effects((Begun(FAST, "async read", "mma_group", ("t",)),), commits="mma"),
        "local",
    ),
    (
        op.Touch("red", (ATOMIC,), ("t",)),
        Effects((Begun(ATOMIC, "generic write", "done", ("t",), True, True),)),
        "local",
    ),
    (op.Find(X, ("t", "u")), Effects((Begun(X, "generic read", raw=True),), answers=(0, 1)), "other"),
    (
        op.Store((FAST,), ("t",), SUM),
        Effects(
            (Begun(FAST, "async read", "bulk_group", ("t",)), Begun(SUM, "async write", "bulk_group", strong=True))
        ),
        "local",
    ),
    (
        op.Store((FAST,), ("t",), OUT),
        Effects((Begun(FAST, "async read", "bulk_group", ("t",)), Begun(OUT, "async write", "bulk_group"))),
        "local",
    ),
    (op.Group("mma_commit"), Effects(commits="mma"), "local"),
    (op.Group("mma_wait", 1), Effects(ends=Ends("mma", 1)), "local"),
    (op.Group("bulk_commit"), Effects(commits="bulk"), "local"),
    (op.Group("bulk_wait", 1), Effects(ends=Ends("bulk", 1)), "local"),
    (op.Group("bulk_wait_read", 1), Effects(ends=Ends("bulk", 1, reads=True)), "local"),
    (
        op.CpAsync(OVER, "t", as_read(OUT, "generic")),
        Effects(
            (
                Begun(OVER, "generic write", "cp_group", ("t",), True),
                Begun(as_read(OUT, "generic"), "generic read", "cp_group", raw=True),
            )
        ),
        "local",
    ),
    (
        op.StoreAsync(OVER, "full", 64, "t", 2),
        Effects((Begun(OVER, "generic write", "landed", raw=True),), ((Copies(OVER, "full", 64, 2), "t"),)),
        "load",
    ),
    (op.TriggeredArrive("full", 32), Effects(orders="relaxed", triggers=TriggeredArrivals("full", 32, ())), "other"),
    (op.Group("cp_commit"), Effects(commits="cp"), "local"),
    (op.Group("cp_wait", 1), Effects(ends=Ends("cp", 1)), "local"),
    (op.Group("cp_wait_all"), Effects(commits="cp", ends=Ends("cp", 0)), "local"),
    (op.Fence("proxy_async"), Effects(shows=("accesses", "inits_to_copies")), "local"),
    (op.MapFence("release", "cta"), Effects(shows=("maps",)), "local"),
    (op.MapFence("release", "cluster"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("release", "gpu"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("release", "sys"), Effects(shows=("maps", "maps_to_ctas")), "local"),
    (op.MapFence("acquire", "cta", MAP), Effects(acquires=Acquired(MAP, False)), "local"),
    (op.MapFence("acquire", "gpu", MAP), Effects(acquires=Acquired(MAP, True)), "local"),
    *(
        (
            op.CopyMap(X, as_write(OUT, "generic"), "t", scope),
            Effects(
                (
                    Begun(X, "generic read", data=("t",), raw=True),
                    Begun(as_write(OUT, "generic"), "generic write", data=("t",), raw=True),
                ),
                shows=("maps",) if scope == "cta" else ("maps", "maps_to_ctas"),
            ),
            "local",
        )
        for scope in ("cta", "cluster", "gpu", "sys")
    ),
    (op.Fence("mbarrier_init"), Effects(shows=("inits_to_copies", "inits_to_ctas")), "local"),
    (op.Fence("wgmma"), Effects(shows=("registers",)), "local"),
    (op.Touch("read", (HELD,), (None,)), Effects((Begun(HELD, "generic read", data=(None,)),)), "local"),
    (
        op.Touch("mma", (FAST,), (None,), into=ACC, leaves="t"),
        Effects((Begun(FAST, "async read", "mma_group", (None,)), Begun(ACC, "async write", "mma_group", ("t",)))),
        "local",
    ),
    (op.NamedSync(1, 64), Effects(orders="release"), "other"),
    (op.NamedSync(1, 64, blocks=False), Effects(orders="release"), "other"),
    (op.CtaSync(), Effects(orders="release"), "other"),
    (op.WarpSync(), Effects(), "other"),
    (op.ClusterArrive(), Effects(orders="release", shows=("inits_to_ctas",)), "other"),
    (op.ClusterArrive(release=False), Effects(orders="relaxed"), "other"),
    (op.ClusterWait(), Effects(), "other"),
    (op.Choose("which", ("a", "b")), Effects(answers=(0, 1)), "choice"),
    (op.Setmaxnreg(40, "dec"), Effects(), "registers"),
    (op.Parted("bar.sync", "others have exited"), Effects(), "local"),
    (op.Arrive("full", sem="relaxed", scope="cta"), Effects(orders="relaxed"), "arrive"),
    *((op.Arrive("full", scope=scope), Effects(orders="release"), "arrive") for scope in WIDER),
    *((op.Wait("full", 0, sem="relaxed", scope=scope), Effects(), "wait") for scope in WIDER),
    (op.WordLoad(FLAG, op.Ordering(), 2), Effects((STRONG_READ,), answers=(0, 1)), "other"),
    (op.WordLoad(WEAK_FLAG, op.Ordering("weak"), 2), Effects((WEAK_READ,), answers=(0, 1)), "other"),
    *(
        (op.Spin(FLAG, op.Ordering("acquire"), how, 1), Effects((STRONG_READ,)), "other")
        for how in get_args(op.Comparison)
    ),
    (op.WordStore(SET, op.Ordering("release"), 1), Effects((STRONG_WRITE,), orders="release"), "other"),
    (op.WordStore(SET, op.Ordering("relaxed"), 1), Effects((STRONG_WRITE,), orders="relaxed"), "other"),
    (
        op.Atom(SET, op.Ordering("acq_rel"), "add", 1, 3),
        Effects((STRONG_WRITE,), orders="release", answers=(0, 1, 2)),
        "other",
    ),
    *(
        (op.Atom(SET, op.Ordering(), kind, 1, 3, answers=False), Effects((STRONG_WRITE,), orders="relaxed"), "other")
        for kind in get_args(op.AtomKind)
    ),
    *((op.ThreadFence(kind, scope), Effects(), "local") for kind in get_args(op.MemoryFence) for scope in WIDER),
    (op.Griddepcontrol("launch_dependents"), Effects(), "local"),
    (op.Griddepcontrol("wait"), Effects(turns=op.Griddepcontrol("wait")), "other"),
    (op.CtaStart(), Effects(turns=op.CtaStart()), "other"),
]
"""Every record in each of its kinds: what it does beside being what it is, and the kind of its location."""
IDS = [repr(operation) for operation, _, _ in MEANINGS]
OPERATIONS = [operation for operation, _, _ in MEANINGS]
