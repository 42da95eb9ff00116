"""How one role lets another go on: barriers of memory and of threads, words, and the end of a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sm90_verify.evidence.programs.author import SIZE, Actor, Author
from sm90_verify.evidence.programs.program import Text

Edge: TypeAlias = Callable[[Author, Actor, Actor], None]


def edge(author: Author, first: Actor, then: Actor) -> None:
    """What `then` does from here on comes after what `first` has done up to here."""
    author.random.choice(_possible(author, first, then))(author, first, then)


def _possible(author: Author, first: Actor, then: Actor) -> list[Edge]:
    if first.grid != then.grid:
        return [_by_grid]
    if author.apart(first, then):
        return [_by_flag]
    one_each = not author.ring or (first.copies, then.copies) == (1, 1)
    flag = [_by_flag, _by_flag] if one_each else []
    if author.far(first, then):
        return [_by_mbarrier, _by_mbarrier, _by_cluster, *flag]
    cluster = [_by_cluster] if author.cluster else []
    return [*([_by_mbarrier] * 4), _by_name, _by_name, _by_cta, *cluster, *flag]


def back(author: Author, first: Actor, then: Actor, since: int) -> None:
    """In a ring, what `then` does in the next iteration comes after what `first` has done; since: the place of the
    first step of `then` for which that matters.
    """
    if not author.ring:
        return
    if author.chance(0.7):
        empty = author.barrier(first.copies)
        steps, then.steps = then.steps, []
        wait(author, empty, then, Text("at.phase ^ 1"))
        then.steps = [*steps[:since], *then.steps, *steps[since:]]
        arrive(author, empty, first, then, 1)
    else:
        edge(author, first, then)


def _by_mbarrier(author: Author, first: Actor, then: Actor) -> None:
    form = author.pick(
        "", "", "", "", "no complete", "drop", "bytes", "bytes alone", "relaxed", "relaxed", "rendezvous"
    )
    if form == "drop" and (author.ring or first.copies > 1):
        form = ""
    count = author.random.choice((1, 1, 1, 2, first.threads))
    if form == "rendezvous" and (author.far(first, then) or then.copies > 1):
        form = ""
    if form == "rendezvous":
        full = author.barrier(first.copies * count + 1)
        arrive(author, full, first, then, count)
        then.does("arrive", author.mine(full, then))
        wait(author, full, then)
        return
    more = {"no complete": 1, "drop": 1, "bytes": 0, "bytes alone": 0}.get(str(form), 0)
    full = author.barrier(first.copies * (count + more))
    on = author.see(full, then, first)
    near = not on.cta
    match form:
        case "no complete" if near:
            first.does("arrive_no_complete", on)
        case "no complete":
            first.does("arrive", on)
        case "drop":
            first.does("arrive_drop", on)
        case "bytes":
            first.does("expect_tx", on, SIZE)
            first.does("complete_tx", on, SIZE)
        case "bytes alone":
            if author.chance(0.5):
                first.does("arrive_expect_tx", on, SIZE, *([count] if count > 1 else []))
                first.does("complete_tx", on, SIZE * count)
            else:
                first.does("complete_tx", on, SIZE)
                first.does("expect_tx", on, SIZE)
                arrive(author, full, first, then, count)
            wait(author, full, then)
            return
        case "relaxed":
            first.does("fence_acq_rel", None, author.random.choice(("cluster", "gpu")))
            first.does("arrive", on, count, sem="relaxed", scope="cluster")
            if author.chance(0.5):
                author.random.choice((_wait_relaxed, _try_relaxed))(author, full, then)
            else:
                wait(author, full, then)
            return
    arrive(author, full, first, then, count)
    wait(author, full, then)


def _wait_relaxed(author: Author, full: str, then: Actor) -> None:
    then.does("wait", author.mine(full, then), author.phase, sem="relaxed", scope="cluster")
    then.does("fence_acq_rel", None, "cluster")


def _try_relaxed(author: Author, full: str, then: Actor) -> None:
    then.repeats("== True", "try_wait", author.mine(full, then), author.phase, sem="relaxed", scope="cluster")
    then.does(author.random.choice(("fence_acq_rel", "fence_sc")), None, "cluster")


def arrive(author: Author, full: str, first: Actor, then: Actor, count: int) -> None:
    """By the one role, on a barrier of the other's CTA."""
    on = author.see(full, then, first)
    more = {"scope": author.random.choice(("cluster", "gpu", "sys"))} if author.chance(0.15) else {}
    first.does("arrive", on, *([count] if count > 1 else []), **more)


def wait(author: Author, full: str, then: Actor, phase: Text | None = None) -> None:
    on, at = author.mine(full, then), author.phase if phase is None else phase
    how = author.random.random()
    if how < 0.8:
        then.does("wait", on, at)
    else:
        then.repeats("== True", "try_wait" if how < 0.9 else "test_wait", on, at)


def _by_name(author: Author, first: Actor, then: Actor) -> None:
    id, threads = author.id(), first.all_threads + then.all_threads
    first.does("named_arrive" if author.chance(0.6) else "named_sync", None, id, threads)
    then.does("named_sync", None, id, threads)


def _by_cta(author: Author, first: Actor, then: Actor) -> None:
    for one in author.close_to(first):
        one.does("cta_sync")


def _by_cluster(author: Author, first: Actor, then: Actor) -> None:
    nothing_before = [one for one in author.in_reach(first) if one is not first and not one.steps]
    for one in author.in_reach(first):
        one.does("cluster_arrive_relaxed" if one in nothing_before and author.chance(0.5) else "cluster_arrive")
        one.does("cluster_wait")


def _by_flag(author: Author, first: Actor, then: Actor) -> None:
    """A word that is raised; in a ring, also lowered again by who has seen it."""
    near = not author.far(first, then) and not author.apart(first, then)
    flag = author.word(shared=near and author.chance(0.5), values=2 if author.ring else 1 + max(2, first.copies))
    mine, seen = author.see(flag, first, first), author.see(flag, first, then)
    fenced = author.chance(0.4)
    scope = author.random.choice(("gpu", "gpu", "sys", *(("cluster",) if not author.apart(first, then) else ())))
    if author.ring:
        _spin(author, first, flag, first, "0", fenced, scope)
    if fenced:
        first.does(author.random.choice(("fence_acq_rel", "fence_sc")), None, scope)
    sem = "relaxed" if fenced else "release"
    how = author.random.random()
    if first.copies > 1:
        first.does("red", mine, "add", sem=sem, scope=scope)
        then.does("spin", seen, at_least=first.copies, sem="acquire", scope=scope)
        return
    if how < 0.5:
        first.does("st", mine, 1, sem=sem, scope=scope)
    elif how < 0.75:
        first.does("red", mine, author.random.choice(("add", "or", "max", "xor", "inc")), sem=sem, scope=scope)
    else:
        first.does("atom", mine, author.random.choice(("exch", "add", "or", "max")), sem=sem, scope=scope)
    _spin(author, then, flag, first, "1", fenced and author.chance(0.5), scope)
    if author.ring:
        if fenced:
            then.does("fence_acq_rel", None, scope)
        then.does("st", seen, 0, sem=sem, scope=scope)


def _spin(author: Author, actor: Actor, flag: str, home: Actor, value: str, fenced: bool, scope: str) -> None:
    on, sem = author.see(flag, home, actor), "relaxed" if fenced else "acquire"
    if author.chance(0.6):
        how = author.random.choice(("equals", "at_least", "above") if value == "1" else ("equals", "below"))
        number = int(value) - (how == "above") + (how == "below")
        actor.does("spin", on, **{how: number}, sem=sem, scope=scope)
    else:
        actor.repeats(f"== {value}", "ld", on, sem=sem, scope=scope)
    if fenced:
        actor.does("fence_acq_rel", None, scope)


def _by_grid(author: Author, first: Actor, then: Actor) -> None:
    if author.chance(0.7):
        first.does("launch_dependents")
    then.does("grid_wait")
