"""Accesses: every two that conflict are ordered, the later async one is fenced, and reads find what they expect.

An access lasts from the event that starts it to the event that waits for its group (spec.ptx.groups); a bulk copy,
until the phase that counts its bytes is known to be complete. The events of a run come in an order that agrees with
happens-before, so it is enough to look back: what conflicts with an access and began before it must have ended before
it in happens-before.

Between a generic write and an async access, a proxy fence must be on the way. A clock counts, for each role, not only
the events before now, but also those before a fence that is before now: a fence makes everything before it count, and
who comes to know of the fence learns that with it. What shows a violation is a schedule in which fences that the write
is not before come before it. With `strict`, a generic access that its thread has not fenced lasts until it has, as far
as async accesses are concerned.
"""

from __future__ import annotations

from sm90_verify.engines.order import ctas, handed, landing, maps, signals, triggered, warpgroups
from sm90_verify.engines.order.clocks import NEVER, join
from sm90_verify.engines.order.over import is_open, may_go_on
from sm90_verify.engines.order.plan import Move, Numbers, Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import Spans
from sm90_verify.spec.model.contents import is_found
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access, describe
from sm90_verify.spec.ptx.needs import COPIED, FENCED, FENCED_WHERE_MADE, FOUND, INSIDE, LANDED, ORDERED, TAKEN


def access(run: Progress, role: int, move: Move) -> None:
    """Ordinary reads and writes, wgmma and bulk stores begin; or init or inval writes a barrier's bytes."""
    if not move.uses and not move.own:
        return
    state, event = run.state, run.state.done[role]
    _own(run, role, move)
    for use in move.uses:
        look_back(run, role, use)
        if use.far >= 0:
            ctas.reach(run, role, use.far, use.access.object)
    _must_find(run, role, move)
    for use in move.uses:
        spans = state.regions[use.bytes].setdefault(role, Spans())
        end = NEVER if use.lasting else event
        if use.write:
            spans.write, spans.wrote = max(spans.write, end), event
        else:
            spans.read, spans.began = max(spans.read, end), event
        maps.written(run, role, use)
        if use.raw:
            state.raw[role][use.bytes] = None
            if not run.plan.kernel.rules.strict:
                if use.write:
                    spans.raw_write, spans.raw_wrote = end, event
            elif use.write:
                spans.raw_write = NEVER
            else:
                spans.raw_read = NEVER
    landing.leave(run.state.content, *move.leaves)


def _own(run: Progress, role: int, move: Move) -> None:
    """What the role itself has in flight, or has not fenced, is over."""
    for property, because, object in move.own:
        run.fail(property, because, object, run.now(role), (role, run.state.at[role]))


def _must_find(run: Progress, role: int, move: Move) -> None:
    """Reads find what they expect."""
    state = run.state
    for access, tag in move.wants:
        if not is_found(state.content.get(access.object), access, tag):
            because = FOUND.said(role=run.plan.programs[role].name, object=access.object, tag=tag)
            run.fail(FOUND.property, because, access.object, run.now(role), (role, state.at[role]))


def load(run: Progress, role: int, move: Move) -> None:
    """A bulk copy is issued."""
    _own(run, role, move)
    for use in move.uses:
        look_back(run, role, use)
        signals.may_signal(run, role, use)
        if use.far >= 0:
            ctas.must_have_begun(run, role, use.far, use.access.object)
        _overruns(run, role, use)
    _must_find(run, role, move)


def fence(run: Progress, role: int, move: Move) -> None:
    """A fence, or what is one too: what the thread did before is shown from this event on."""
    if not move.shows and move.acquires[0] < 0:
        return
    state, event = run.state, run.state.done[role]
    for barrier in state.barriers:
        for shown, ends in (("inits_to_copies", barrier.unfenced), ("inits_to_ctas", barrier.hidden)):
            if shown in move.shows and ends.get(role) == NEVER:
                ends[role] = event
    maps.shown(run, role, move)
    if "accesses" in move.shows:
        _fence_accesses(run, role, event, move.unfenced)


def _fence_accesses(run: Progress, role: int, event: int, still: Numbers) -> None:
    """Everything before this event has a fence after it, for whoever is after this event; by `strict`, what the thread
    itself has accessed. still: regions of accesses that are in progress.
    """
    state = run.state
    if not run.plan.kernel.rules.strict:
        here = run.now(role)
        fenced, width = run.plan.fenced, run.width
        for start in range(0, len(here), width):
            middle = start + fenced
            here[middle : start + width] = join(here[middle : start + width], here[start : start + width - fenced])
        here[role] = here[role - width] = state.clock[role][role]
        state.clock[role] = here
        return
    for number in [one for one in state.raw[role] if one not in still]:
        spans = state.regions[number][role]
        spans.raw_write = event if spans.raw_write == NEVER else spans.raw_write
        spans.raw_read = event if spans.raw_read == NEVER else spans.raw_read
        del state.raw[role][number]


def end(run: Progress, role: int, move: Move, event: int) -> None:
    """Groups have been waited for: their accesses end with this event."""
    for number, write in move.over:
        spans = run.state.regions[number][role]
        if write:
            spans.write = event
        else:
            spans.read = event
    if move.awaited:
        triggered.waited(run, role, move, event)
    if not run.plan.kernel.rules.strict:
        for number in move.made:
            run.state.regions[number][role].raw_write = event


def release(run: Progress, role: int, move: Move, event: int) -> None:
    """barrier.cluster.arrive.relaxed leaves accesses without a release, and the next release makes up for it."""
    for pairs, end in ((move.loosens, NEVER), (move.tightens, event)):
        for number, write in pairs:
            spans = run.state.regions[number].setdefault(role, Spans())
            if write:
                spans.loose_write = end
                spans.loosened_write = event if end == NEVER else spans.loosened_write
            else:
                spans.loose_read = end
                spans.loosened_read = event if end == NEVER else spans.loosened_read


def look_back(run: Progress, role: int, use: Use) -> None:
    """Everything that conflicts with an access that begins now, or that it needs a fence after."""
    state, plan = run.state, run.plan
    clock, strict = state.clock[role], plan.kernel.rules.strict
    maps.must_be_acquired(run, role, use)
    for number in plan.near[use.bytes]:
        together = plan.together[role] if number in plan.joint or use.bytes in plan.joint else ()
        for other, spans in state.regions[number].items():
            if other in together:
                continue
            known = state.done[role] if other == role else clock[other]
            if other != role and is_open(run, role, clock, use, other, number, spans):
                _race(run, role, use, other, number, spans, known)
            fenced = known if strict else clock[plan.fenced + other]
            # what another role has in flight is a race already, and counts as if it had been made at once
            made = spans.raw_wrote if spans.raw_write == NEVER and other != role and not strict else spans.raw_write
            if use.asynchronous and (fenced <= made or (strict and use.write and known <= spans.raw_read)):
                _missing_fence(run, role, use, other, number, spans, known)
        if use.write or number not in plan.taken:
            _must_have_landed(run, role, use, number)
        if use.asynchronous and plan.triggers:
            _must_be_fenced(run, role, use, number)
    if len(clock) > run.width:
        handed.must_know(run, role, use)
    for number in plan.unharmed[use.bytes]:
        for other, spans in state.regions[number].items():
            if other != role:
                _may_differ(run, role, use, other, number, spans)


def _may_differ(run: Progress, role: int, use: Use, other: int, number: int, spans: Spans) -> None:
    """Two accesses that do not race may not be ordered either: if they leave different data, or one is a read that must
    find some, then what is found is not the same in all schedules.
    """
    plan, clock = run.plan, run.state.clock[role]
    known = clock[other]
    mine, differs = plan.moves[role][run.state.at[role]], False
    if known <= spans.write:
        theirs = plan.moves[other][run.node_of(other, spans.wrote)]
        differs = mine.leaves != theirs.leaves if use.write else bool(mine.wants) and not mine.settled
    read = use.write and known <= spans.read and (other, number) in plan.unsettled
    if differs or (read and not (spans.group >= 0 and warpgroups.is_over(run, role, clock, number, other, spans))):
        because = f"nothing orders {describe(use.access)} and an access of the same bytes that it does not race with"
        begun = spans.wrote if differs else spans.began
        _consequences(run, role, use, other, begun, because, astray=True)


def _access_at(run: Progress, role: int, event: int, number: int, *, write: bool | None = None) -> Access:
    """What an event of a role, as far as it is of one kind, has accessed in a region."""
    move = run.plan.moves[role][run.node_of(role, event)]
    if move.kind == "trigger":
        triggers = effects_of(move.node.operation).triggers
        assert triggers is not None
        return next(one for one, told in zip(triggers.tracks, move.tracks, strict=True) if told[0] == number)
    found = (use for use in move.uses if use.bytes == number and write in (None, use.write))
    return next(found).access


def _must_have_landed(run: Progress, role: int, use: Use, number: int) -> None:
    """Copies into these bytes are known to have landed."""
    state, plan, clock = run.state, run.plan, run.state.clock[role]
    flights = state.flights[number]
    for barrier, (stage, other, event, copied, _) in flights.items():
        if clock[run.roles + barrier] > stage or (copied and triggered.is_over(run, role, clock, flights, other)):
            continue
        reached = run.now(role)
        if reached[other] <= event:
            reached = join(reached, run.clock_at(other, event + 1))
        need = COPIED if copied else TAKEN if number in plan.taken else LANDED
        flying = _access_at(run, other, event, number).object
        because = need.said(role=plan.programs[role].name, access=describe(use.access), object=flying)
        step = (role, state.at[role])
        run.fail(need.property, because, use.access.object, reached, step, late=(other, event, barrier))
        run.suspect("stale-read", because, use.access.object, reached, step)
        run.raced = True


def _must_be_fenced(run: Progress, role: int, use: Use, number: int) -> None:
    """A proxy fence comes after cp.asyncs that are over, and that an arrival told of."""
    flights, clock = run.state.flights[number], run.state.clock[role]
    for other in dict.fromkeys(one.role for one in flights.values() if one.copied):
        over = triggered.is_over(run, role, clock, flights, other)
        if over and not triggered.is_fenced(run, clock, flights, other):
            event = next(one.event for _, one in triggered.of_role(flights, other))
            earlier, names = _access_at(run, other, event, number), run.plan.programs
            if earlier.write:
                about = {"role": names[role].name, "other": names[other].name}
                because = FENCED.said(access=describe(use.access), earlier=earlier.object, **about)
                step, put_off = (role, run.state.at[role]), triggered.not_before(run, flights, other)
                run.fail(FENCED.property, because, use.access.object, run.now(role), step, put_off=put_off)


def _race(run: Progress, role: int, use: Use, other: int, number: int, spans: Spans, known: int) -> None:
    wrote = may_go_on(known, spans.write, spans.loosened_write, spans.loose_write)
    begun = spans.wrote if wrote else spans.began
    names, earlier = run.plan.programs, _access_at(run, other, begun, number, write=wrote)
    because = ORDERED.said(
        access=describe(use.access), role=names[role].name, earlier=describe(earlier), other=names[other].name
    )
    here = run.now(role)
    reached = here if known > begun else join(here, run.clock_at(other, begun))
    step = (role, run.state.at[role])
    run.fail(ORDERED.property, because, use.access.object, reached, step)
    _consequences(run, role, use, other, begun, because)


def _consequences(
    run: Progress, role: int, use: Use, other: int, begun: int, because: str, *, astray: bool = False
) -> None:
    """Where two accesses come the other way round, a read may find other data, and a fence may come too late. astray:
    a read that comes after both.
    """
    run.raced = True
    object, move = use.access.object, run.plan.moves[role][run.state.at[role]]
    after = join(run.publish(role), run.clock_at(other, begun))
    for thing in move.things:
        after[run.roles + thing] += 1
    step = (other, run.node_of(other, begun))
    run.suspect("stale-read", because, object, after, step, astray=astray)
    run.suspect("missing-fence", because, object, after, step)
    run.suspect("stale-read", because, object, run.now(role), (role, run.state.at[role]))


def _missing_fence(run: Progress, role: int, use: Use, other: int, number: int, spans: Spans, known: int) -> None:
    strict = run.plan.kernel.rules.strict
    wrote = known <= spans.raw_write or not strict
    started = (spans.wrote if wrote else spans.began) if strict else spans.raw_wrote
    begun = started if strict or spans.raw_write == NEVER else spans.raw_write
    names, earlier = run.plan.programs, _access_at(run, other, started, number, write=wrote)
    about = {"other": names[other].name, "earlier": earlier.object, "role": names[role].name}
    mine = describe(use.access)
    because = FENCED_WHERE_MADE.said(access=mine, **about) if strict else FENCED.said(access=mine, **about)
    here = run.now(role)
    reached = here if known > begun or other == role else join(here, run.clock_at(other, begun + 1))
    put_off = () if strict else run.not_before(other, begun)
    run.fail(FENCED.property, because, use.access.object, reached, (role, run.state.at[role]), put_off=put_off)


def _overruns(run: Progress, role: int, use: Use) -> None:
    """The copy is longer than its buffer and reaches into another one."""
    write = use.access
    regions = run.plan.kernel.layout.regions
    home = next((region for region in regions if region.object == write.object), None)
    if home is None or write.stop <= home.stop:
        return
    for region in regions:
        if (
            region.object != home.object
            and (region.space, region.cta) == (home.space, home.cta)
            and region.start < write.stop
            and home.stop < region.stop
        ):
            because = INSIDE.said(bytes=write.stop - write.start, object=home.object, other=region.object)
            run.fail(INSIDE.property, because, write.object, run.now(role), (role, run.state.at[role]))
