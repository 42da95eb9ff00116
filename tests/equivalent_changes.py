"""Changes that no verdict can tell, and why: by function, what is written before and after, and which of those there
that read the same, from 0, if not all of them.
"""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str] | tuple[str, str, str, int], str] = {
    (
        "Linearise.order",
        "order.accepted",
        "True",
    ): "Steps that were taken before are tried later, and all are tried before a run is refused.",
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
        "contribute",
        "barrier.open_arrivals",
        "True",
    ): "There is nothing to leave out of an empty list.",
    (
        "Meetings._join",
        "index is not None",
        "True",
    ): "Each of the warps that meet has an entry there, so that no index is None.",
    (
        "ReplayState._pass_if_open",
        "key = (warp, barrier.address)",
        "key = (None, barrier.address)",
    ): "Phases that pass never go back, and what a failed try_wait asked for is waited for again: else it is relied "
    "on.",
    (
        "_order_groups",
        "warp not in accesses.stages.seen[other]",
        "(warp in accesses.stages.seen[other])",
    ): "Some warps of the group wait there and some do not, whichever of them are counted: only another warp is named.",
    (
        "Run._is_ahead",
        "visits[other] < visits[role] and not self.ended(other) and self.state.loops[other]",
        "(visits[other] < visits[role] and self.state.loops[other])",
    ): "Whoever waits for a role that has ended goes on in the next turn, which waits for nobody.",
    (
        "Ghost.key",
        "(state.lineage, barrier) in self.rebase or state.lap > last",
        "True",
    ): "Keys that tell more states apart only make a loop's program longer.",
    (
        "Ghost.key",
        "state.lap > last",
        "(state.lap >= last)",
    ): "Keys that tell more states apart only make a loop's program longer.",
    (
        "state_checks",
        "not is_false(ended)",
        "True",
    ): "A check of what never holds is never violated.",
    (
        "Search._record",
        "self.result.depth < len(known.actions)",
        "(self.result.depth <= len(known.actions))",
    ): "Another trace of the same length is shown.",
    (
        "Shared.settled",
        "self.stopped is None or len(self.behind) == 1",
        "(self.stopped is None and len(self.behind) == 1)",
    ): "A single role is never behind another one, and its loop's end is not noted.",
    (
        "_stands_at",
        'place.barrier == barrier and place.kind not in ("arrive", "expect")',
        "(place.kind not in ('arrive', 'expect'))",
    ): "Copies land in more states than they must, which only adds schedules.",
    (
        "meet",
        "run.diverged or because",
        "(because)",
    ): "The last of several reasons is told instead of the first.",
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
        "Variables._counter",
        "blocks_inside(node.operation)",
        "True",
    ): "A wider variable holds the same numbers.",
    (
        "Variables._plan_copies",
        "key.pieces - 1",
        "(key.pieces)",
    ): "A wider variable holds the same numbers.",
    (
        "lay_out",
        "isinstance(declaration, TileDeclaration) and declaration.holds is not None",
        "(isinstance(declaration, TileDeclaration))",
    ): "Data without a tag and no data are the same to every read: it asks for a tag, or for anything.",
    (
        "_has_cycle",
        "not count",
        "False",
    ): "A run that comes to its end is in no situation twice, whether or not that is looked for.",
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
        "Replay._arrive_early",
        "not self._lanes(record) or (warp in barrier.arrived and self._once(barrier))",
        "(warp in barrier.arrived and self._once(barrier))",
    ): "An arrival that goes elsewhere takes no part in the phase, whenever it happens.",
    (
        "Replay._arrive_early",
        "opened is not None and not self._passes(warp)",
        "(not self._passes(warp))",
    ): "Who stands at no wait has none to pass.",
    (
        "land",
        "barrier.open_arrivals",
        "True",
    ): "There is nothing to leave out of an empty list.",
    (
        "_add",
        "moved > 0",
        "(moved >= 0)",
    ): "A contribution without bytes adds none to either sum.",
    (
        "_stay_in_range",
        "barrier.lowest < -COUNT_LIMIT",
        "(barrier.lowest <= -COUNT_LIMIT)",
        0,
    ): "The exact count is worked out, and then asked.",
    (
        "_stay_in_range",
        "barrier.lowest < -COUNT_LIMIT",
        "True",
        0,
    ): "The exact count is worked out, and then asked.",
    (
        "_stay_in_range",
        "barrier.highest > COUNT_LIMIT",
        "(barrier.highest >= COUNT_LIMIT)",
        0,
    ): "The exact count is worked out, and then asked.",
    (
        "_stay_in_range",
        "barrier.highest > COUNT_LIMIT",
        "True",
        0,
    ): "The exact count is worked out, and then asked.",
    (
        "_stay_in_range",
        "barrier.highest = -NEVER",
        "pass",
    ): "What has been found is found again with the next contributions.",
    (
        "_stay_in_range",
        "run.diverged or because",
        "(because)",
    ): "The last of several reasons is told instead of the first.",
    (
        "_stay_in_range",
        "barrier.lowest = NEVER",
        "pass",
    ): "What has been found is found again with the next contributions.",
    (
        "_one_of",
        'isinstance(expr, Apply) and expr.operator == "or" and expr.width == 1',
        "(isinstance(expr, Apply) and expr.operator == 'or')",
    ): "The operands of a wider or are as wide, and no comparison is.",
    (
        "_one_of",
        "one == other and these and those",
        "(one == other and these)",
    ): "A comparison that no number satisfies adds none.",
    (
        "_one_of",
        "one == other and these and those",
        "(one == other and those)",
    ): "A comparison that no number satisfies adds none.",
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
    (
        "_settle",
        "barrier.parts.tx < 0",
        "(barrier.parts.tx <= 0)",
    ): "With no arrival pending and no byte missing the phase completes, which has been asked before.",
}
