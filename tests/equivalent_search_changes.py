"""Changes of the search (checker/engines/search) that no verdict can tell, and why: as in equivalent_changes.py."""

from __future__ import annotations

OF_THE_SEARCH: dict[tuple[str, str, str] | tuple[str, str, str, int], str] = {
    (
        "_expects_at",
        'place.kind == "expect" and place.barrier == barrier',
        "(place.kind == 'expect')",
    ): "Copies land in more states than they must, which only adds schedules.",
    (
        "_may_find_it_gone",
        'check.property == "exit-hazard"',
        "(check.property != 'exit-hazard')",
    ): "An arrival that reaches into another CTA has other checks too; of the others more is asked, and they are "
    "taken at once less often.",
    (
        "Search._record",
        "self.result.depth < len(known.actions)",
        "(self.result.depth <= len(known.actions))",
    ): "Another trace of the same length is shown.",
    (
        "_stands_at",
        'place.barrier == barrier and place.kind not in ("arrive", "expect")',
        "(place.kind not in ('arrive', 'expect'))",
    ): "Copies land in more states than they must, which only adds schedules.",
    (
        "_prompt_locations",
        "action.role == role.name and action.location is not None and action.target is not None",
        "(action.role == role.name and action.target is not None)",
    ): "The steps of copies, which have no location, have no role either.",
    (
        "_awaited_in_its_cta",
        "role.name in waiters",
        "(role.name not in waiters)",
    ): "Who never waits need not see a phase: nothing that reaches into another CTA is taken at once, which only adds "
    "schedules.",
    (
        "Exchange.in_order",
        "role != place",
        "True",
    ): "A role that keeps its place adds nothing to the state and takes itself.",
    (
        "Search.__init__",
        "action.target or 0",
        "(action.target)",
    ): "A test that fails leads somewhere: only the landing of a copy has no target.",
    (
        "Search.run",
        'result.complete and (self.polls or "deadlock" not in result.violations)',
        "(result.complete)",
    ): "Where nobody polls, the state that is found then is the one at rest that has been found before.",
    (
        "Search._visit",
        "len(order) > cap",
        "(len(order) >= cap)",
    ): "Bounds are looked at once more.",
    (
        "Search._visit",
        "self.reduced and (awaited or expected)",
        "(self.reduced)",
    ): "Where no copy is awaited none is asked to land.",
    (
        "Search._visit",
        "self.polls and all(self.fails[action] for action, _ in out)",
        "(all((self.fails[action] for action, _ in out)))",
    ): "Where nobody polls no step fails, and that there is no step has been asked before.",
    (
        "Search._visit",
        "offsets.append(len(edges))",
        "pass",
        0,
    ): "Who can still run is not asked where something was not followed.",
    (
        "Search._visit",
        "packed.groups",
        "True",
    ): "Where nobody is interchangeable nobody is exchanged.",
    (
        "Search._hurry",
        "bad",
        "False",
    ): "The state that is left there is looked at again when its turn comes.",
    (
        "Search._hurry",
        "bad",
        "True",
    ): "Of no violations none is kept.",
    (
        "Search._hurry",
        "self._record(bad, position, (first, *path))",
        "pass",
    ): "The state that is left there is looked at again when its turn comes.",
    (
        "Search._run_prompt",
        "turn and moved",
        "(moved)",
    ): "Where nobody is left to ask nobody moves.",
    (
        "Search._run_prompt",
        "out.clear()",
        "pass",
    ): "Only the last entry is read, which is the step that has just been taken.",
    (
        "Search._record",
        "check.halts and action >= 0",
        "(action >= 0)",
    ): "A step that is followed leaves a way on, and it is asked only where there is none.",
    (
        "Search._record",
        "check.halts and action >= 0",
        "(check.halts or action >= 0)",
    ): "A step that is followed leaves a way on, and behind a state that halts it is not asked.",
    (
        "Search._record",
        "check.halts and action >= 0",
        "(check.halts)",
    ): "Behind a state that halts it is not asked.",
    (
        "Search._record",
        "known is not None and action < 0 and not beyond and self.result.depth < len(known.actions)",
        "(known is not None and action < 0 and (self.result.depth < len(known.actions)))",
    ): "Another trace of the reduced search is kept, which promises no shortest one.",
    (
        "Search._record",
        "action < 0",
        "(action <= 0)",
        1,
    ): "Another trace of the same length is kept.",
    (
        "Search._find_stuck_roles",
        "can == everyone",
        "False",
    ): "Of roles that can all run none is stuck.",
    (
        "Search._find_stuck_roles",
        "continue",
        "pass",
        0,
    ): "Of roles that can all run none is stuck.",
    (
        "Exchange.really_of",
        "not self.packed.groups",
        "False",
    ): "Where nobody is interchangeable the schedule violates the same check again.",
    (
        "movers_later",
        "can == everyone",
        "False",
    ): "Nobody else can run where all can.",
    (
        "movers_later",
        "continue",
        "pass",
    ): "Nobody else can run where all can.",
    (
        "_Writer.__init__",
        "self.machine = machine",
        "pass",
    ): "Who has the writer has the machine for as long.",
    (
        "_Writer.__init__",
        "name not in grouped",
        "True",
    ): "Bits that nobody reads are left between the variables.",
    (
        "_Writer.function",
        "check.when is not FALSE",
        "True",
    ): "A check of what never holds is never violated.",
    (
        "_Writer.function",
        "not _is_true(action.guard)",
        "True",
    ): "What is always true is asked.",
    (
        "_Writer.function",
        "check.halts",
        "True",
        0,
    ): "A step that nothing halts goes on.",
    (
        "_Writer.function",
        "halting",
        "True",
        0,
    ): "A step that nothing halts goes on.",
    (
        "_Writer._next",
        "counter and action.target is not None and action.location is not None",
        "(action.target is not None and action.location is not None)",
    ): "A role's step has a target and a location, and the landing of a copy has neither, nor a counter.",
    (
        "_Writer._next",
        "counter and action.target is not None and action.location is not None",
        "(counter and action.location is not None)",
    ): "A role's step has a target and a location, and the landing of a copy has neither, nor a counter.",
    (
        "_Writer._next",
        "counter and action.target is not None and action.location is not None",
        "(counter and action.target is not None)",
    ): "A role's step has a target and a location, and the landing of a copy has neither, nor a counter.",
    (
        "_Writer._next",
        "counter and action.target is not None and action.location is not None",
        "(counter or action.target is not None or action.location is not None)",
    ): "A role's step has a target and a location, and the landing of a copy has neither, nor a counter.",
    (
        "_Writer._next",
        "constant",
        "True",
    ): "A sum may end in + 0.",
    (
        "_Writer._number",
        "number is None",
        "True",
    ): "A check that has two numbers is the same one under both.",
    (
        "pack",
        "condition is FALSE",
        "False",
    ): "A step that is never prompt is asked whether it is.",
    (
        "_is_true",
        "isinstance(expr, Lit) and expr.value == 1",
        "False",
    ): "What is always true is asked.",
    (
        "_operation",
        "node.width == 1",
        "False",
    ): "For one bit both texts give the same number.",
    (
        "_operation",
        "bit",
        "False",
    ): "For one bit both texts give the same number.",
}
