"""The order engine: one schedule, its happens-before, and the conditions under which it speaks for all.

A role does the same whatever the schedule, as long as nothing asks for the answer of a try_wait, and every trip count
and choice is given. So a schedule is an order of the roles' events and of the copies that land, and one run of them
(engines.order.run) gives a matching: which phase of its barrier counts each contribution, which phase each wait waits
for, which generation each arrival at a meeting. Happens-before is the least order in which the events of a role are in
the order of its program, a copy lands after its issue, a phase or generation completes after all its contributions, and
an event that waits for it comes after that. Clocks (engines.order.state) decide it: they hold, for each role, how many
of its events are before, and for each barrier, how many of its completions.

Why it speaks for all schedules. Claim: the events of any schedule, up to any point, are closed under happens-before,
and every one of them is matched as in the run. By induction over the schedule; let e be its next event, or a wait that
some role stands at.
  - A contribution to phase p: the phase p - 1 has completed, for that is before e (signals, meetings). Phase p has not,
    for it completes only when all contributions of the matching have been made, in whichever order; that is checked for
    the arrivals, the bytes, and for an expect_tx by itself. So e is counted in p.
  - A wait for phase p: it passes only if p has completed, for p - 1 has (else it would be early: checked), and it is
    not blocked by a later phase, for p + 1 completes only after it (checked). So e is after the completion of p.
  - Landing bytes are a contribution that nothing but the issue is before, so they may come at any time after it.
  - init, inval, and what reaches into another CTA are after all that must be before them and before all that must be
    after them (signals, ctas).
So no schedule lets a wait pass early or be lapped, or counts anything in another phase. If the run comes to its end, no
schedule hangs: the first event of the run that has not happened yet can always happen. If the run does not, no schedule
does. Two accesses that happens-before leaves unordered are a race, for the events before both of them can be executed
and neither of the two; those that are ordered are never made at the same time (memory). A read finds the data of the
last write before it, the same in all schedules if there is no race.
Where roles meet and nothing is released, what one of them knows is before what the others do next, but not in causality
order (clocks): an access that relies on it is open (handed), and spec.model.causality tells.
Registers (ctas.registers) are the one thing that roles wait for without any order that could be told from one run.

Trip counts and choices that are left open are decisions that roles share (decisions): the n-th one of a name has the
same answer for every role that asks, and nothing else depends on who asks first. So the schedules of a kernel are those
for one sequence of answers after the other, and the claim holds for each. A role that never asks, or only for some,
makes no difference. The runs for all sequences are a tree (forks): a run goes on until nobody can without a decision,
and forks. What it does from there on is a function of its situation (recur), of which the answers that some role has
yet to read are a part; when a situation comes again, on whichever branch, so does all that follows, and nothing new can
be found. Who does not move in any situation that can follow is stuck.

If a condition fails, the events before the failure are a schedule that leads to it (schedule). It is executed on the
Machine, and only what is violated there is called violated.
"""

from sm90_verify.engines.order.cut import is_beyond_search
from sm90_verify.engines.order.outcome import Outcome, order

__all__ = ["Outcome", "is_beyond_search", "order"]
