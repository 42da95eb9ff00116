"""What a role does with data that another one has handed to it."""

from __future__ import annotations

from sm90_verify.evidence.programs.author import SIZE, Actor, Author
from sm90_verify.evidence.programs.program import Handle, Statement, Value

WARPGROUP = 128


def use(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    """fence: ordinary stores have made the data, and nobody has fenced them yet."""
    ways = [_reads, _reads, _writes]
    if author.ring is False and tag and actor.copies == 1:
        ways.append(_finds)
    if not data.cta and actor.copies == 1:
        ways += [_resends, _overwrites] if data.name[0] == "g" else [_resends, _stores, _stores, _overwrites]
    if not data.cta and data.name[0] == "x" and actor.threads == WARPGROUP:
        ways += [_multiplies] * 3
    author.random.choice(ways)(author, actor, data, tag, fence)


def _reads(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    actor.does("read", data, **tag)


def _writes(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    if actor.copies > 1:
        actor.does("red", data, **tag)
        return
    actor.does("read", data, **tag)
    if author.chance(0.5):
        actor.does("write", data, **author.tag())


def _finds(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    """Goes on by what it reads."""
    private = author.mine(author.tile(), actor)
    then = (Statement("write", private, (("tag", author.numbers),)),)
    actor.asks((("== -1", then), ("!= -1", ())), "read", data, among=(-1, int(str(tag["tag"]))))


def _multiplies(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    if fence:
        actor.does("fence_proxy_async")
    form = author.pick("", "", "into", "open", "A")
    if form == "into":
        acc = author.mine(author.registers(), actor)
        actor.does("wgmma_fence")
        actor.does("mma", data, **tag, into=acc)
    elif form == "A":
        acc, a = author.mine(author.registers(), actor), author.mine(author.registers(), actor)
        actor.does("write", a)
        actor.does("wgmma_fence")
        actor.does("mma", None, a, data, into=acc)
    elif form == "open":
        actor.does("mma", data, **tag, commit=False)
        actor.does("mma_commit")
    else:
        actor.does("mma", data, **tag)
    actor.does("mma_wait", None, 0)
    if form in ("into", "A"):
        actor.does(author.random.choice(("read", "write")), acc)


def _stores(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    """A bulk store or reduction of it, to global memory that nobody else touches."""
    if fence:
        actor.does("fence_proxy_async")
    out = author.mine(author.in_global(), actor)
    form = author.random.random()
    if form < 0.4:
        actor.does("store", data, to=out, **tag)
    elif form < 0.6:
        actor.does("store", data, **tag)
    else:
        actor.does("reduce", data, out, **tag)
    actor.does("bulk_commit")
    if form < 0.2:
        actor.does("bulk_wait", None, 0)
        actor.does("write", out)
    else:
        actor.does(author.random.choice(("bulk_wait", "bulk_wait_read")), None, 0)
    if author.ring and form >= 0.2:
        actor.does("bulk_wait", None, 0)


def _resends(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    """It is the source of a copy into a buffer of its own, by TMA or by cp.async."""
    to = author.mine(author.tile(), actor)
    if data.name[0] == "g" and author.chance(0.4):
        actor.does("cp_async", to, source=data)
        actor.does("cp_wait_all")
        return
    landed = author.barrier(1)
    if fence:
        actor.does("fence_proxy_async")
    actor.does("arrive_expect_tx", author.mine(landed, actor), SIZE)
    known = tag if data.name[0] == "x" else {}
    actor.does("load", to, signals=author.mine(landed, actor), source=data, **known)
    actor.does("wait", author.mine(landed, actor), author.phase)
    if author.chance(0.5):
        actor.does("read", to, **known)


def _overwrites(author: Author, actor: Actor, data: Handle, tag: dict[str, Value], fence: bool) -> None:
    """Something else is put in its place."""
    if data.name[0] == "g" or author.chance(0.5):
        actor.does("write", data, **author.tag())
    elif author.chance(0.5):
        actor.does("cp_async", data, **author.tag())
        actor.does("cp_commit")
        actor.does("cp_wait", None, 0)
    else:
        landed = author.mine(author.barrier(1), actor)
        if fence:
            actor.does("fence_proxy_async")
        actor.does("arrive_expect_tx", landed, SIZE)
        actor.does("load", data, signals=landed, **author.tag())
        actor.does("wait", landed, author.phase)
