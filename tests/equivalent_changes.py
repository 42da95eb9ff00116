"""Changes that no verdict can tell, and why: by function, what is written before and after, and which of those that read
the same in the function, from 0, if not all of them.
"""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str] | tuple[str, str, str, int], str] = {
    (
        "Linearise.order",
        "order.accepted",
        "True",
    ): "Steps that were taken before are tried later, and all are tried before a run is refused.",
    (
        "Linearise._landing",
        "action.location is None",
        "True",
    ): "Only the steps of copies are looked up there, and roles' steps that touch the same variables never are.",
    (
        "_expects_at",
        'place.kind == "expect" and place.object == barrier',
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
        'place.object == barrier and place.kind not in ("arrive", "load", "local", "expect")',
        "(place.kind not in ('arrive', 'load', 'local', 'expect'))",
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
}
