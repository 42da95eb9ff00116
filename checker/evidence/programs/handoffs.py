"""Data that one role makes and another one uses, as it is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sm90_verify.evidence.programs.author import SIZE, Actor, Author
from sm90_verify.evidence.programs.edges import arrive, back, edge, wait
from sm90_verify.evidence.programs.program import Handle, Text, Value
from sm90_verify.evidence.programs.uses import use

Handoff: TypeAlias = Callable[[Author, Actor, Actor], None]


def handoff(author: Author, first: Actor, then: Actor) -> None:
    """One of them, between two roles; in a ring, with its way back."""
    since = len(first.steps)
    author.random.choice(_possible(author, first, then))(author, first, then)
    back(author, then, first, since)


def _possible(author: Author, first: Actor, then: Actor) -> list[Handoff]:
    if author.apart(first, then):
        return [_written, _written, _stored, _stored, _same_value, _tensormap]
    shared: list[Handoff] = [_written, _written, _same_value, _added]
    if author.cluster and then.copies == 1:
        shared += [_sent, _sent, _sent_by_copy]
    if author.far(first, then):
        return [*shared, _stored]
    shared += [_loaded, _loaded, _copied, _copied, _triggered, _stored, _tensormap]
    return [*shared, _multicast, _multicast] if author.cluster and not author.every else shared


def _place(author: Author, first: Actor, then: Actor) -> tuple[Handle, Handle]:
    """A buffer, for who writes it and for who reads it: in the memory of one of them, or of all."""
    if author.apart(first, then) or author.chance(0.15):
        name = author.in_global()
        return author.mine(name, first), author.see(name, first, then)
    home = author.random.choice((first, then, then))
    name = author.tile()
    return author.see(name, home, first), author.see(name, home, then)


def _hand_over(author: Author, first: Actor, then: Actor, data: Handle, tag: dict[str, Value], ordinary: bool) -> None:
    """The edge, with the proxy fence on one side of it where the use may want one; `ordinary`: generic stores."""
    early = ordinary and author.chance(0.5)
    if early:
        first.does("fence_proxy_async")
    edge(author, first, then)
    use(author, then, data, tag, ordinary and not early)


def _tagged(author: Author, on: Handle) -> dict[str, Value]:
    """Of its data: a number, or in a ring what its slot is called, or the number of the iteration."""
    if not author.ring:
        return author.tag()
    return {} if on.at == "[at]" else {"tag": Text("at.tag")}


def _written(author: Author, first: Actor, then: Actor) -> None:
    to, data = _place(author, first, then)
    tag = _tagged(author, to)
    first.does("write", to, **tag)
    _hand_over(author, first, then, data, tag, True)


def _same_value(author: Author, first: Actor, then: Actor) -> None:
    to, data = _place(author, first, then)
    others = [one for one in author.close_to(first) if one is not first and not author.every]
    first.does("write", to, value=7)
    if others and others[0] is not then and not author.ring:
        others[0].does("write", author.see(to.name, first, others[0])._replace(cta=to.cta), value=7)
        edge(author, others[0], then)
    edge(author, first, then)
    then.does("read", data, value=7)


def _added(author: Author, first: Actor, then: Actor) -> None:
    """Reductions of both roles to one place, and then one of them looks."""
    to, data = _place(author, first, then)
    scope = "cluster" if author.chance(0.3) else "gpu"
    first.does("red", to, scope=scope)
    then.does("red", data, scope=scope)
    edge(author, first, then)
    if then.copies == 1:
        then.does("read", data)


def _loaded(author: Author, first: Actor, then: Actor) -> None:
    pieces = author.random.choice((1, 1, 1, 2))
    x, full = author.tile(size=SIZE * pieces), author.barrier(1)
    on, tag = author.mine(full, first), author.tag()
    more: dict[str, Value] = {"pieces": pieces} if pieces > 1 else {}
    if author.chance(0.25):
        more["source"] = author.mine(author.in_global(SIZE * pieces), first)
    order = author.random.random()
    if order < 0.7:
        first.does("arrive_expect_tx", on, SIZE * pieces)
        first.does("load", author.mine(x, first), signals=on, **more, **tag)
    elif order < 0.85:
        first.does("expect_tx", on, SIZE * pieces)
        first.does("load", author.mine(x, first), signals=on, **more, **tag)
        first.does("arrive", on)
    else:
        first.does("load", author.mine(x, first), signals=on, **more, **tag)
        first.does("arrive_expect_tx", on, SIZE * pieces)
    wait(author, full, then)
    use(author, then, author.mine(x, then), tag, False)


def _multicast(author: Author, first: Actor, then: Actor) -> None:
    """Both CTAs expect a copy, and only one of them issues it."""
    x, full, tag = author.tile(), author.barrier(1), author.tag()
    ctas = {one.cta: one for one in (*author.in_reach(first), first, then)}
    for one in ctas.values():
        one.does("arrive_expect_tx", author.mine(full, one), SIZE)
    first.does("load", author.mine(x, first), signals=author.mine(full, first), multicast=(0, 1), **tag)
    for one in ctas.values():
        wait(author, full, one)
    if then not in ctas.values():
        wait(author, full, then)
    use(author, then, author.mine(x, then), tag, False)
    if author.ring:
        for one in author.in_reach(first):
            one.does("cluster_arrive")
            one.does("cluster_wait")


def _copied(author: Author, first: Actor, then: Actor) -> None:
    """By cp.async, which the thread waits for."""
    x, tag = author.tile(), author.tag()
    more = {"source": author.mine(author.in_global(), first)} if author.chance(0.4) else {}
    first.does("cp_async", author.mine(x, first), **more, **tag)
    if author.chance(0.5):
        first.does("cp_wait_all")
    else:
        first.does("cp_commit")
        if author.chance(0.3):
            first.does("cp_async", author.mine(author.tile(), first))
            first.does("cp_commit")
            first.does("cp_wait", None, 1)
        else:
            first.does("cp_wait", None, 0)
    _hand_over(author, first, then, author.mine(x, then), tag, True)
    if author.ring:
        first.does("cp_wait_all")


def _triggered(author: Author, first: Actor, then: Actor) -> None:
    """By cp.async, and an arrival follows by itself."""
    x, tag, noinc = author.tile(), author.tag(), author.chance(0.5)
    count = author.random.choice((1, 1, first.threads))
    full = author.barrier(count if noinc else 1)
    first.does("cp_async", author.mine(x, first), **tag)
    more = {"noinc": True} if noinc else {}
    first.does("cp_async_arrive", author.mine(full, first), *([count] if count > 1 else []), **more)
    if not noinc:
        arrive(author, full, first, first, 1)
    wait(author, full, then)
    use(author, then, author.mine(x, then), tag, True)


def _sent(author: Author, first: Actor, then: Actor) -> None:
    """By st.async or red.async, into the CTA of who reads it."""
    size = SIZE * author.random.choice((1, 1, 2))
    x, full, tag = author.tile(size=size), author.barrier(1), author.tag()
    more = {"pieces": 2} if size > SIZE and author.chance(0.5) else {}
    verb = author.random.choice(("store_async", "store_async", "reduce_async"))
    both = verb == "reduce_async" and not author.ring and author.chance(0.4)
    then.does("arrive_expect_tx", author.mine(full, then), 2 * size if both else size)
    for one in (first, then) if both else (first,):
        on = author.see(x, then, one)
        one.does(verb, on, signals=author.see(full, then, one), **more, **tag)
    wait(author, full, then)
    if author.chance(0.7):
        then.does("read", author.mine(x, then), **({} if both else tag))
    else:
        use(author, then, author.mine(x, then), tag, True)


def _sent_by_copy(author: Author, first: Actor, then: Actor) -> None:
    """From the shared memory of one CTA, by a bulk copy."""
    x, source, full, tag = author.tile(), author.tile(), author.barrier(1), author.tag()
    first.does("write", author.mine(source, first), **tag)
    first.does("fence_proxy_async")
    then.does("arrive_expect_tx", author.mine(full, then), SIZE)
    first.does(
        "load",
        author.see(x, then, first),
        signals=author.see(full, then, first),
        source=author.mine(source, first),
        **tag,
    )
    wait(author, full, then)
    use(author, then, author.mine(x, then), tag, False)


def _stored(author: Author, first: Actor, then: Actor) -> None:
    """By a bulk store or reduction to global memory."""
    source, out = author.tile(), author.in_global()
    tag = author.tag()
    if author.chance(0.6):
        first.does("write", author.mine(source, first), **tag)
        first.does("fence_proxy_async")
    else:
        tag = {}
    if author.chance(0.6):
        first.does("store", author.mine(source, first), to=author.mine(out, first), **tag)
    else:
        first.does("reduce", author.mine(source, first), author.mine(out, first), **tag)
        if not author.ring and author.chance(0.3) and then.grid == first.grid and then.copies == 1:
            then.does("reduce", author.mine(author.tile(), then), author.see(out, first, then))
            then.does("bulk_commit")
            then.does("bulk_wait", None, 0)
    first.does("bulk_commit")
    first.does("bulk_wait", None, 0)
    edge(author, first, then)
    if author.chance(0.5):
        then.does("read", author.see(out, first, then))
    else:
        use(author, then, author.see(out, first, then), {}, False)


def _tensormap(author: Author, first: Actor, then: Actor) -> None:
    """A tensormap is written by one, released, and acquired by who uses it."""
    name = author.in_global(128)
    to, data = author.mine(name, first), author.see(name, first, then)
    tag = _tagged(author, to)
    if author.chance(0.6):
        first.does("tensormap_replace", to, **tag)
        first.does("fence_proxy_tensormap_release", None, "gpu")
    else:
        edited = author.mine(author.tile(size=128), first)
        first.does("write", edited, **_tagged(author, edited))
        first.does("tensormap_cp_fenceproxy", to, edited, **_tagged(author, edited))
    edge(author, first, then)
    then.does("fence_proxy_tensormap_acquire", None, data, "gpu")
    x = author.mine(author.tile(), then)
    if author.chance(0.5):
        then.does("store", x, to=author.mine(author.in_global(), then), tensormap=data)
        then.does("bulk_commit")
        then.does("bulk_wait", None, 0)
    else:
        full = author.mine(author.barrier(1), then)
        then.does("arrive_expect_tx", full, SIZE)
        then.does("load", x, signals=full, tensormap=data)
        then.does("wait", full, author.phase)
