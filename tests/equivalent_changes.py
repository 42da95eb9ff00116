"""Changes that no verdict can tell, and why: by function, what is written before and after, and which of those there
that read the same, from 0, if not all of them.
"""

from __future__ import annotations

from equivalent_search_changes import OF_THE_SEARCH

EQUIVALENT: dict[tuple[str, str, str] | tuple[str, str, str, int], str] = {
    **OF_THE_SEARCH,
    (
        "Linearise.order",
        "order.accepted",
        "True",
    ): "Steps that were taken before are tried later, and all are tried before a run is refused.",
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
        "state_checks",
        "not is_false(ended)",
        "True",
    ): "A check of what never holds is never violated.",
    (
        "Shared.settled",
        "self.stopped is None or len(self.behind) == 1",
        "(self.stopped is None and len(self.behind) == 1)",
    ): "A single role is never behind another one, and its loop's end is not noted.",
    (
        "meet",
        "run.diverged or because",
        "(because)",
    ): "The last of several reasons is told instead of the first.",
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
        "_settle",
        "barrier.parts.tx < 0",
        "(barrier.parts.tx <= 0)",
    ): "With no arrival pending and no byte missing the phase completes, which has been asked before.",
}
