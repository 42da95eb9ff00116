"""What answers a question that names no engine: order where it decides, search where it does not.

A violation that order has found is searched for once more, for a part of the time: for a shorter schedule, and for what
the violation leaves open. Wherever both have decided a property they must agree.
"""

from __future__ import annotations

from dataclasses import replace

from sm90_verify.engines.combine import settled
from sm90_verify.engines.effort import TRACE_SECONDS, RanOut
from sm90_verify.engines.engine import Answer, Question
from sm90_verify.engines.order.cut import is_beyond_search, is_large
from sm90_verify.engines.order.engine import OrderEngine
from sm90_verify.engines.search.engine import REFINED, SearchEngine
from sm90_verify.engines.shown import leads
from sm90_verify.result import UNDETERMINED, VIOLATED
from sm90_verify.spec.model.words import listed

MOST_ACTIONS = 3_000
"""Of a machine that is searched for a shorter schedule: a larger one is not even generated in that time. What is open
of a larger one, when something is violated that is only noted, is searched no longer than that either.
"""


def by_default(question: Question) -> Answer:
    """The answer, with the engine that gave it and why that one."""
    search = SearchEngine()
    if question.subject.kernel is None:
        return search.answer(question)._replace(because="there is a machine and no program, which order would need")
    if not question.reduced:
        return search.answer(question)._replace(because="every schedule is asked for (--unreduced)")
    ordered = OrderEngine().answer(question._replace(shorter=True))
    if any(one.verdict == VIOLATED and one.id not in question.subject.noted for one in ordered.findings):
        return _looked_closer(question, ordered)
    left = [finding for finding in ordered.findings if finding.verdict == UNDETERMINED]
    if not left:
        return ordered._replace(because="all schedules do what one of them does, which was looked at")
    because = f"order leaves {listed([one.id for one in left])} open: {left[0].note}"
    if question.effort.ran_out():
        return ordered._replace(because="there is no time left for another one")
    if not (question.limit or question.timeout) and is_beyond_search(question.subject.whole, question.effort):
        return ordered._replace(because=f"{because}; more than is searched without a bound (--limit, --timeout)")
    if any(one.verdict == VIOLATED for one in ordered.findings) and _is_large(question):
        brief = replace(question.effort.for_a_trace(), purpose="to search what order leaves open")
        question = question._replace(spent=brief)
    try:
        searched = search.answer(question)
    except RanOut as error:
        return ordered._replace(because=f"{because}; of search, {error}")
    return settled(searched, ordered)._replace(because=because)


def _looked_closer(question: Question, ordered: Answer) -> Answer:
    because = "a schedule that shows the violation was found, and executed"
    if question.effort.trace_seconds < TRACE_SECONDS or question.subject.follows or _is_large(question):
        return ordered._replace(because=because)
    closer = SearchEngine().look_closer(question, {}, question.effort.for_a_trace(), question.limit or REFINED)
    answer = settled(closer, ordered)
    found = [one.id for one in closer.findings if one.verdict == VIOLATED]
    return answer._replace(engine=ordered.engine, because=because, shortest=leads(answer.findings) in found)


def _is_large(question: Question) -> bool:
    return is_large(question.subject.whole) or len(question.subject.machine.actions) > MOST_ACTIONS
