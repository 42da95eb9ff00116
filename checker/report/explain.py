"""What each property means, where the PTX ISA says so, and the usual fix: the text of `verify explain`."""

from __future__ import annotations

from sm90_verify.result import PROPERTIES
from sm90_verify.spec.errors import SpecError

_TEXTS = {
    "deadlock": (
        "Some role can never run again and has not finished.",
        "A wait (mbarrier try_wait, bar.sync, setmaxnreg.inc) blocks until others do something. In the state that "
        "is shown, nobody can do it any more, whatever the schedule.",
        "PTX ISA 9.7.13.15 (mbarrier), 9.7.13.1 (barrier)",
        "Compare the count of mbarrier.init with the arrivals that really happen in a phase; give producer and "
        "consumer the same trip count; start the producer in phase 1; release every stage that is waited for.",
    ),
    "race": (
        "Two accesses to overlapping bytes, one of them a write, that nothing orders.",
        "An asynchronous access (TMA load or store, WGMMA) is in progress from the instruction that starts it "
        "until the instruction that waits for its completion. The other access can start before that.",
        "PTX ISA 8.9.5 (causality order), 9.7.9.25 (bulk copies), 9.7.15 (wgmma)",
        "Release a stage only after the wait_group that covers its reads; wait for the full barrier before "
        "reading; wait for the bulk group in the thread that committed it, then meet at a barrier, before "
        "rewriting its source.",
    ),
    "stale-read": (
        "A role reads other data than that of the iteration that it waited for.",
        "The buffer still holds, or already holds, what another iteration wrote there.",
        "PTX ISA 9.7.13.15.16 (test_wait, try_wait)",
        "Carry index and phase in one PipelineState and advance it once per iteration, on both sides alike.",
    ),
    "phase-lapped": (
        "A wait can be two phases behind its barrier, or pass on an earlier phase than it is meant for.",
        "A wait is defined for the current phase and the one just before it. One bit of parity cannot tell phase "
        "n from phase n + 2, so a barrier that is free to run ahead makes the wait pass, or block, by accident.",
        "PTX ISA 9.7.13.15.16",
        "Let every waiter arrive on something that the barrier's next phase depends on; keep the phase across "
        "tiles; use the same period for the parity as for the slot.",
    ),
    "arrival-count": (
        "More arrivals in a phase than the barrier expects, or fewer than it can ever get.",
        "The pending count must not go below zero. If it cannot reach zero either, the phase never completes.",
        "PTX ISA 9.7.13.15.2, .6, .7, .13",
        "Initialise the barrier with the number of arrivals of one phase: threads that arrive, not threads that "
        "exist; one for an elected thread.",
    ),
    "tx-count": (
        "Bytes expected and bytes delivered differ, or the tx-count leaves its range of +-(2^20-1).",
        "A phase completes when the pending count and the tx-count are both zero. Bytes that were not expected "
        "make it complete too early; bytes that never come leave it incomplete, which shows as a deadlock.",
        "PTX ISA 9.7.13.15.5, .6, .11, .12; 9.7.9.25.4",
        "Expect exactly the bytes of all copies that signal the barrier in the phase: full boxes, also where they "
        "stick out of the tensor; for multicast, the bytes that this CTA receives.",
    ),
    "barrier-init": (
        "A count outside 1 to 2^20-1, a use before the initialisation is visible, a live barrier initialised again, or "
        "data over a live barrier.",
        "init makes the object; until it is visible to the thread (and to the async proxy) nothing may use it, "
        "and until inval it may not be initialised again, nor may anything but mbarrier operations touch its bytes.",
        "PTX ISA 9.7.13.15, .3, .9, .10; 9.7.13.4",
        "One thread: init, fence.mbarrier_init. All threads: __syncthreads (or a cluster barrier) before the "
        "first use. Before its bytes hold data: the last use of all threads, a barrier, mbarrier.inval by one thread, "
        "which executes fence.proxy.async if a bulk copy or a wgmma comes next, and a barrier.",
    ),
    "missing-fence": (
        "Bytes written through the generic proxy reach an access through the async proxy without a proxy fence.",
        "TMA and WGMMA read shared memory through the async proxy. A fence.proxy.async must lie on the way from each "
        "ordinary store to them: after the store and before the access in causality order, by any thread. A fence that "
        "is executed before the wait for the writer is not after the store. With strict, as CUTLASS does it: by the "
        "writer, before the barrier that lets the other one go on. A tensormap that the kernel writes is read through "
        "a proxy of its own: fence.proxy.tensormap, .release by the writer and then .acquire by the user.",
        "PTX ISA 8.6, 9.7.9.25.2 (async proxy), 9.7.13.4 (fence), 8.9.5 (along the path)",
        "Write, fence.proxy.async by every writer, barrier, then the TMA store or WGMMA; or barrier, then fence.",
    ),
    "register-hazard": (
        "Registers of a wgmma are accessed while it may still use them, or before it without a wgmma.fence in between.",
        "A wgmma reads and writes its accumulator, and the matrix A if that is in registers, asynchronously. "
        "Until wgmma.wait_group has waited for its group, nothing else may access them, not even to read or to move "
        "them. wgmma.fence orders ordinary accesses to these registers before it; one has to come before the first "
        "wgmma, too. Only wgmmas of one shape that accumulate in the same registers are ordered by themselves.",
        "PTX ISA 9.7.15.7.1 (wgmma.fence), 9.7.15.7.3 (wgmma.wait_group)",
        "Execute wgmma.fence (warpgroup_arrive in CUTLASS) after the last ordinary access to the registers and before "
        "the wgmma, and wgmma.wait_group (warpgroup_wait) before the next access.",
    ),
    "exit-hazard": (
        "A CTA can finish while something still targets its shared memory; with strict, also while a store of its own "
        "still reads it.",
        "A copy that lands after its CTA has exited writes memory that belongs to somebody else.",
        "PTX ISA 9.7.9.25",
        "Wait for every copy that was issued: the same trip counts on both sides, producer_tail in a cluster.",
    ),
    "smem-overlap": (
        "Two objects share bytes that the layout does not declare as reused.",
        "A buffer lies over another one or over a barrier that lives from the start to the end, or a copy runs over "
        "the end of its buffer into something else.",
        "PTX ISA 9.7.9.25.4, 9.7.13.15.10",
        "Move one of them, or make the copy shorter. If two buffers are meant to share their bytes, say so with "
        "`shares=`; their accesses are then checked for races. Over a live barrier there can be no data, whatever is "
        "declared: execute mbarrier.inval first, and let the data come after it; the accesses are checked for that.",
    ),
    "named-barrier": (
        "The id, thread count or participants of a named barrier do not add up.",
        "Ids are 0 to 15, counts multiples of 32, all instructions of one generation name the same count, and a "
        "warp arrives once in a generation.",
        "PTX ISA 9.7.13.1 (barrier), 9.7.13.3 (barrier.cluster)",
        "Count every warp that executes sync or arrive with this id; use sync on both sides where one can run ahead.",
    ),
    "register-pool": (
        "setmaxnreg requests that cannot all be granted.",
        "setmaxnreg.inc blocks until the CTA's pool has the registers that it asks for.",
        "PTX ISA 9.7.19.5",
        "The sum over all warps of the registers after the changes must not exceed the registers at launch, and "
        "every warp of the warpgroup must execute the instruction.",
    ),
    "unobserved-phase": (
        "An arrival in a phase although nobody has seen the phase before it complete: a note, and a violation with "
        "strict.",
        "Before any thread arrives in a phase, some thread must have seen the phase before complete, by a test_wait or "
        "try_wait that gave true. Without it the barrier can run ahead of those who wait on it; whether a wait can "
        "really be lapped is what phase-lapped says. A role that has passed its wait and has done nothing since that "
        "others could notice counts as one that has not seen it: in another schedule it waits there still. "
        "On an H200, 39.6 million phases with such an arrival (by another warp, by another CTA of the cluster, with "
        "bytes expected, and at a rendezvous of two CTAs) all completed when they should, no other arrival was lost, "
        "and every wait passed in the phase that it was meant for. Kernels rely on it: DeepGEMM in a cluster of 2x1. "
        "So it is told in a note beside the verdict, with its line, and everything else is decided without relying on "
        "it. With strict = True on the pipeline (--set strict=true) it is a violation. Asked alone (--property "
        "unobserved-phase) of a pipeline that is not strict, it is proved if it never happens; else neither proved nor "
        "violated would be true, and the command ends with one line that names the place, and exit code 2.",
        "PTX ISA 9.7.13.15.4",
        "Let the arriving role, or one that it waits for, wait for the phase before.",
    ),
}


_RULES = {
    "unobserved-phase": "PTX rules it out; an H200 did 39.6 million of them right; with strict=true, a violation",
}
"""Of what is noted: what hardware did, and how it becomes a violation."""


def rule_of(id: str) -> str:
    """What a note about a property of NOTED says besides what happens where."""
    return _RULES[id]


def what_is(id: str) -> str:
    """What a property is violated by, in one sentence without its full stop; SpecError for an unknown one."""
    return _text(id)[0].rstrip(".")


def properties_in_lines() -> str:
    """All properties, each with what it is violated by."""
    longest = max(map(len, PROPERTIES))
    return "\n".join(f"{id:<{longest}}  {what_is(id)}" for id in PROPERTIES)


def _text(id: str) -> tuple[str, str, str, str]:
    if not isinstance(id, str) or id not in _TEXTS:
        raise SpecError(f"no property {id!r}: use one of {', '.join(PROPERTIES)}")
    return _TEXTS[id]


def explain(id: str, width: int = 100) -> str:
    """The explanation of a property in lines of at most `width` columns; SpecError for an unknown property, and for a
    width that no line has.
    """
    import textwrap

    if not isinstance(width, int) or width < 1:
        raise SpecError(f"width={width!r}: give a whole number of columns, 1 or more")
    what, why, section, fix = _text(id)
    parts = [f"{id}: {what}", why, f"Source: {section}.", f"Usual fix: {fix}"]
    return "\n\n".join(textwrap.fill(part, width) for part in parts)
