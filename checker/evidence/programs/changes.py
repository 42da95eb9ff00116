"""Small changes of a program, as somebody makes them by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

from sm90_verify.evidence.programs.program import Handle, RandomProgram, Statement, Text, Value

Path: TypeAlias = tuple[int, ...]
"""To a step: its role, its place there, and by turns the case and the place in it."""
Steps: TypeAlias = tuple[Statement, ...]

WORDS: dict[str, tuple[str, ...]] = {
    "sem": ("relaxed", "acquire", "release", "acq_rel", "weak"),
    "scope": ("cta", "cluster", "gpu"),
}
BY_PLACE = {"fence_acq_rel": "scope", "fence_sc": "scope", "fence_proxy_tensormap_release": "scope"}
"""What the first argument of a verb is."""
OTHERS: dict[str, tuple[str, ...]] = {
    "wait": ("try_wait", "test_wait"),
    "try_wait": ("test_wait",),
    "arrive": ("arrive_no_complete", "arrive_drop"),
    "arrive_no_complete": ("arrive",),
    "read": ("write", "red"),
    "write": ("read", "red"),
    "red": ("write", "read"),
    "store_async": ("reduce_async",),
    "reduce_async": ("store_async",),
    "bulk_wait": ("bulk_wait_read", "bulk_commit", "cp_wait", "mma_wait"),
    "bulk_wait_read": ("bulk_wait",),
    "cp_commit": ("bulk_commit", "cp_wait_all"),
    "cp_wait_all": ("cp_commit",),
    "cp_wait": ("bulk_wait",),
    "bulk_commit": ("cp_commit", "mma_commit"),
    "mma_commit": ("bulk_commit",),
    "mma_wait": ("bulk_wait",),
    "named_sync": ("named_arrive",),
    "named_arrive": ("named_sync",),
    "cluster_arrive": ("cluster_arrive_relaxed",),
    "cluster_arrive_relaxed": ("cluster_arrive",),
    "fence_proxy_async": ("fence_mbarrier_init", "wgmma_fence", "fence_acq_rel"),
    "wgmma_fence": ("fence_proxy_async",),
    "fence_mbarrier_init": ("fence_proxy_async",),
    "fence_acq_rel": ("fence_sc", "fence_proxy_async"),
    "fence_sc": ("fence_acq_rel",),
    "setmaxnreg_dec": ("setmaxnreg_inc",),
    "launch_dependents": ("grid_wait",),
    "grid_wait": ("launch_dependents",),
    "expect_tx": ("complete_tx",),
    "complete_tx": ("expect_tx",),
    "init": ("arrive",),
    "cta_sync": ("warp_sync",),
}


def changed(random: Random, program: RandomProgram, changes: int) -> RandomProgram:
    for _ in range(changes):
        program = _changed(random, program)
    return program


def _changed(random: Random, program: RandomProgram) -> RandomProgram:
    paths = [(number, *path) for number, role in enumerate(program.roles) for path in _paths(role.steps)]
    if not paths:
        return program
    path = random.choice(paths)
    step = _at(program, path)
    how = random.choice(("drop", "twice", "swap", "far", "argument", "argument", "argument", "other", "other", "stray"))
    match how:
        case "drop":
            return _put(program, path, ())
        case "twice":
            return _put(program, path, (step, step))
        case "swap" | "far":
            others = [one for one in paths if one[:-1] == path[:-1] and one != path]
            others = others if how == "far" else [one for one in others if one[-1] == path[-1] + 1]
            if not others:
                return _put(program, path, ())
            to = random.choice(others)
            return _put(_put(program, path, (_at(program, to),)), to, (step,))
        case "argument":
            return _put(program, path, (_with_argument(random, program, step),))
        case "other":
            if step.until and random.random() < 0.5:
                return _put(program, path, (step._replace(until=""),))
            verbs = OTHERS.get(step.verb, ())
            return _put(program, path, (_with_verb(step, random.choice(verbs)),) if verbs else ())
        case _:
            stray = _at(program, random.choice(paths))._replace(cases=())
            return _put(program, path, (stray, step))


def _with_verb(step: Statement, verb: str) -> Statement:
    """The same arguments, as far as the other verb takes them."""
    given = [(name, value) for name, value in step.given if name not in ("value", "among")]
    if verb in (
        "cp_wait_all",
        "cp_commit",
        "bulk_commit",
        "mma_commit",
        "wgmma_fence",
        "warp_sync",
        "fence_mbarrier_init",
        "fence_proxy_async",
        "grid_wait",
        "launch_dependents",
    ):
        given = []
    elif step.on is None and verb in ("bulk_wait", "cp_wait", "mma_wait") and not given:
        given = [("", 0)]
    if step.on is not None and step.on.name[0] == "w":
        return step  # words have verbs of their own
    if verb.startswith("arrive_"):
        given = [(name, value) for name, value in given if not name]
    return step._replace(verb=verb, given=tuple(given), cases=step.cases if verb in ("try_wait", "read") else ())


def _with_argument(random: Random, program: RandomProgram, step: Statement) -> Statement:
    """One of its arguments is another one, or is left out; or it is done to another object, or in another CTA."""
    choices: list[Statement] = []
    if step.on is not None:
        choices += [step._replace(on=one) for one in _other_handles(random, program, step.on)]
    for index, (name, value) in enumerate(step.given):
        for other in _others(random, program, step, name, value):
            given = list(step.given)
            given[index : index + 1] = [] if other is None else [(name, other)]
            choices.append(step._replace(given=tuple(given)))
    if step.verb in ("arrive", "wait") and step.on is not None and step.on.name[0] == "b":
        for scope in ("cta", "cluster"):
            choices.append(step._replace(given=(*step.given, *_missing(step, sem="relaxed", scope=scope))))
    if step.verb == "cp_async_arrive":
        choices.append(step._replace(given=tuple(one for one in step.given if one[0] != "noinc")))
        choices.append(step._replace(given=(*step.given, *_missing(step, noinc=True))))
    if step.verb == "arrive" and step.on is not None and step.on.name[0] == "b" and not step.given:
        choices.append(step._replace(given=(("", 2),)))
    return random.choice(choices) if choices else step


def _missing(step: Statement, **more: Value) -> Iterator[tuple[str, Value]]:
    known = {name for name, _ in step.given}
    return ((name, value) for name, value in more.items() if name not in known)


def _other_handles(random: Random, program: RandomProgram, handle: Handle) -> list[Handle]:
    found = []
    like = [name for name, text in program.declared if name != handle.name and name[0] == handle.name[0]]
    like = [name for name in like if _slots(program, name) == _slots(program, handle.name)]
    if like:
        found.append(handle._replace(name=random.choice(like)))
    if handle.cta:
        found.append(handle._replace(cta=""))
    if handle.at == "[me.cta]":
        found.append(handle._replace(at="[1 - me.cta]"))
    return found


def _slots(program: RandomProgram, name: str) -> str:
    """What its declaration says besides its numbers, which decides how it is named in a role."""
    text = dict(program.declared)[name]
    return text.partition("slots=")[2] + text[:5]


def _others(random: Random, program: RandomProgram, step: Statement, name: str, value: Value) -> list[Value | None]:
    role = name or (BY_PLACE.get(step.verb, "") if isinstance(value, str) else "")
    if role in WORDS:
        return [random.choice([one for one in WORDS[role] if one != value])]
    if isinstance(value, Handle):
        others: list[Value | None] = list(_other_handles(random, program, value))
        return others if name in ("signals", "", "into", "to") else [*others, None]
    if isinstance(value, Text):
        if value == "at.phase":
            return [Text("at.phase ^ 1")]
        return [Text("at.phase")] if value == "at.phase ^ 1" else []
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        if step.verb.endswith("wait") and step.on is not None:
            return [1 - value]
        near = (value - 16, value + 16) if value and value % 16 == 0 else (value - 1, value + 1, value + 1)
        return [one for one in near if one >= 0]
    if isinstance(value, tuple) and not isinstance(value, Handle) and len(value) > 1:
        first: Value = value[:1]
        rest: Value = value[1:]
        return [first, rest]
    return []


def _paths(steps: Steps) -> Iterator[Path]:
    for index, step in enumerate(steps):
        yield (index,)
        for number, (_, then) in enumerate(step.cases):
            for path in _paths(then):
                yield (index, number, *path)


def _at(program: RandomProgram, path: Path) -> Statement:
    steps = program.roles[path[0]].steps
    step = steps[path[1]]
    for number, index in zip(path[2::2], path[3::2], strict=True):
        step = step.cases[number][1][index]
    return step


def _put(program: RandomProgram, path: Path, instead: Steps) -> RandomProgram:
    roles = list(program.roles)
    roles[path[0]] = roles[path[0]]._replace(steps=_put_into(roles[path[0]].steps, path[1:], instead))
    return program._replace(roles=tuple(roles))


def _put_into(steps: Steps, path: Path, instead: Steps) -> Steps:
    index, *rest = path
    if not rest:
        return (*steps[:index], *instead, *steps[index + 1 :])
    number, *further = rest
    cases = list(steps[index].cases)
    condition, then = cases[number]
    cases[number] = condition, _put_into(then, tuple(further), instead)
    return (*steps[:index], steps[index]._replace(cases=tuple(cases)), *steps[index + 1 :])
