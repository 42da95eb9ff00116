"""What a role, or all of them, do without handing data over: registers, groups, words, barriers of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sm90_verify.evidence.programs.author import SIZE, Actor, Author
from sm90_verify.evidence.programs.program import Statement, Text
from sm90_verify.evidence.programs.uses import WARPGROUP

Scene: TypeAlias = Callable[[Author, Actor, Actor], None]


def scene(author: Author, one: Actor, other: Actor) -> None:
    """One of them; some are of the first role alone."""
    author.random.choice(_possible(author, one, other))(author, one, other)


def _possible(author: Author, one: Actor, other: Actor) -> list[Scene]:
    found: list[Scene] = [_groups_of_stores, _groups_of_copies, _token, _idles]
    if one.threads == WARPGROUP:
        found += [_accumulates, _accumulates, _as_a, _registers]
    if one.copies == 1:
        found.append(_turns)
    if author.ring:
        return found
    if one.split:
        return [_parts]
    if one.copies == 1:
        found += [_initialises, _initialises, _overlays]
    if other is not one and (one.copies, other.copies) == (1, 1) and not author.every and one.grid == other.grid:
        found += [_ticket, _ticket, _lock, _lock]
        if not author.apart(one, other):
            found += [_arrives_everywhere]
    return found


def _accumulates(author: Author, one: Actor, other: Actor) -> None:
    b, acc = author.mine(author.tile(), one), author.mine(author.registers(), one)
    if author.chance(0.3):
        one.does("write", acc)
    one.does("wgmma_fence")
    one.does("mma", b, into=acc)
    if author.chance(0.5):
        one.does("mma", author.mine(author.tile(), one), into=acc, commit=author.chance(0.7))
        if not one.steps[-1].argument("commit"):
            one.does("mma_commit")
    one.does("mma_wait", None, 0)
    one.does(author.random.choice(("read", "write")), acc)
    if author.chance(0.3):
        one.does("wgmma_fence")
        one.does("mma", acc)
        one.does("mma_wait", None, 0)


def _as_a(author: Author, one: Actor, other: Actor) -> None:
    """The matrix A from registers, loaded again between two wgmmas."""
    b, acc, a = (
        author.mine(author.tile(), one),
        author.mine(author.registers(), one),
        author.mine(author.registers(), one),
    )
    for _ in range(author.random.choice((1, 2))):
        one.does("write", a, tag=1)
        one.does("wgmma_fence")
        one.does("mma", None, a, b, into=acc)
        one.does("mma_wait", None, 0)
    one.does("read", acc)


def _groups_of_stores(author: Author, one: Actor, other: Actor) -> None:
    """A staging buffer is used again behind bulk_wait_read."""
    if one.copies > 1:
        return
    x, out = author.mine(author.tile(), one), author.mine(author.in_global(), one)
    for number in range(1 if author.ring else author.random.choice((1, 2))):
        one.does("write", x, **author.tag())
        one.does("fence_proxy_async")
        one.does("store", x, to=out)
        one.does("bulk_commit")
        one.does("bulk_wait" if number or author.ring else "bulk_wait_read", None, 0)
    if author.chance(0.5):
        one.does("bulk_wait", None, 0)


def _groups_of_copies(author: Author, one: Actor, other: Actor) -> None:
    if one.copies > 1:
        return
    x, y = author.mine(author.tile(), one), author.mine(author.tile(), one)
    one.does("cp_async", x, tag=1)
    one.does("cp_commit")
    one.does("cp_async", y, tag=2)
    one.does("cp_commit")
    one.does("cp_wait", None, 1)
    one.does("read", x, tag=1)
    one.does("cp_wait", None, 0)
    one.does("read", y, tag=2)


def _token(author: Author, one: Actor, other: Actor) -> None:
    """A barrier that all copies of a role meet at, and wait for by the token of their arrival."""
    b = author.mine(author.barrier(one.copies), one)
    if author.ring and one.copies > 1:
        one.does("warp_sync")
        return
    one.asks((("is not None", (Statement("wait", b, (("", Text(_GOT)),)),)),), "arrive", b)


_GOT = "got"


def _idles(author: Author, one: Actor, other: Actor) -> None:
    one.does(author.random.choice(("warp_sync", "fence_sc", "fence_proxy_async", "mma_commit", "fence_acq_rel")))


def _turns(author: Author, one: Actor, other: Actor) -> None:
    """A role arrives at a named barrier and then comes to it again, as FlashAttention-3 takes its first turn."""
    id, threads = author.id(), one.threads * 2
    one.does("named_arrive", None, id, threads)
    one.does("named_sync", None, id, threads)


def _registers(author: Author, one: Actor, other: Actor) -> None:
    if author.ring or "registers" in author.settings:
        return
    one.does("setmaxnreg_dec", None, 40)
    others = [actor for actor in author.close_to(one) if actor is not one and actor.threads == WARPGROUP]
    if others and not others[0].split:
        others[0].does("setmaxnreg_inc", None, 232)
    author.settings["registers"] = 168


def _parts(author: Author, one: Actor, other: Actor) -> None:
    """The elected thread of a split role writes, and the others read."""
    x = author.mine(author.tile(), one)
    elected = (Statement("write", x, (("tag", 1),)),)
    one.does("warp_sync")
    one.steps[-1] = one.steps[-1]._replace(cases=(("is None and me.leader", elected),))
    one.does("warp_sync")
    one.does("read", x, tag=1)


def _initialises(author: Author, one: Actor, other: Actor) -> None:
    """A barrier that a role initialises, uses, and may invalidate."""
    b = author.mine(author.barrier(1, initialised=False), one)
    one.does("init", b, 1)
    if author.chance(0.5):
        one.does("fence_mbarrier_init")
        x = author.mine(author.tile(), one)
        one.does("arrive_expect_tx", b, SIZE)
        one.does("load", x, signals=b)
    else:
        one.does("arrive", b)
    one.does("wait", b, 0)
    if author.chance(0.4):
        one.does("inval", b)
        if author.chance(0.5):
            one.does("init", b, 2)
            one.does("arrive", b, 2)
            one.does("wait", b, 0)


def _overlays(author: Author, one: Actor, other: Actor) -> None:
    """Two buffers that share their bytes, one after the other."""
    x = author.tile()
    y = author.tile(shares=x)
    one.does("write", author.mine(x, one), tag=1)
    one.does("read", author.mine(x, one), tag=1)
    one.does("write", author.mine(y, one), tag=2)
    one.does("read", author.mine(y, one), tag=2)


def _ticket(author: Author, one: Actor, other: Actor) -> None:
    """Who comes second to a counter reads what the first has written."""
    count, mine = author.word(4), (author.in_global(), author.in_global())
    scope = "gpu" if author.apart(one, other) or author.chance(0.5) else "cluster"
    for number, actor in enumerate((one, other)):
        then = (Statement("read", author.see(mine[1 - number], actor, actor), (("tag", 1 - number),)),)
        actor.does("write", author.see(mine[number], actor, actor), tag=number)
        kind = author.random.choice(("add", "add", "inc"))
        actor.asks(
            (("== 1", then), ("!= 1", ())),
            "atom",
            author.mine(count, actor),
            kind,
            *([3] if kind == "inc" else []),
            sem="acq_rel",
            scope=scope,
        )


def _lock(author: Author, one: Actor, other: Actor) -> None:
    lock, data = author.word(), author.in_global()
    for actor in (one, other):
        on = author.mine(lock, actor)
        if author.chance(0.7):
            actor.repeats("== 0", "atom", on, "cas", 1, 0, sem="acquire")
        else:
            actor.repeats("== 0", "atom", on, "exch", 1, sem="acquire")
        actor.does("read", author.mine(data, actor))
        if author.chance(0.6):
            actor.does("write", author.mine(data, actor))
        if author.chance(0.6):
            actor.does("st", on, 0, sem="release")
        else:
            actor.does("red", on, "add", -1, sem="release")


def _arrives_everywhere(author: Author, one: Actor, other: Actor) -> None:
    """One instruction arrives in every CTA, where somebody waits."""
    if not author.cluster:
        return
    b = author.barrier(1)
    one.does("arrive", author.mine(b, one), ctas=(0, 1))
    for actor in {actor.cta: actor for actor in (*author.in_reach(one), other, one)}.values():
        actor.does("wait", author.mine(b, actor), 0)
