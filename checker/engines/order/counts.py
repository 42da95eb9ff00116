"""The tx-count of a phase over all orders of its contributions that happens-before allows.

Whatever the order, what has been contributed at some moment is closed under happens-before: with a contribution comes
everything that is before it. So the least and the greatest tx-count are those of a closed set of extreme weight, which
a minimum cut finds: the contributions that move the count the right way lead from the source, the others to the sink,
each with its bytes as its capacity, and from each there is an edge that cannot be cut to all that is before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.engines.order.state import Contribution


def extreme(contributions: Sequence[Contribution], sign: int) -> list[Contribution]:
    """A closed set of contributions, in an order in which they can be made, whose bytes add up to the most (sign 1) or
    to the least (sign -1) that any closed set has. The contributions stand in an order in which they can be made.
    """
    import networkx

    source, sink = "source", "sink"
    graph = networkx.DiGraph()
    graph.add_nodes_from((source, sink))
    by_role: dict[int, list[int]] = {}
    for number, one in enumerate(contributions):
        weight = sign * one.moved
        if weight > 0:
            graph.add_edge(source, number, capacity=weight)
        else:
            graph.add_edge(number, sink, capacity=-weight)
        for role, earlier in by_role.items():
            last = next((index for index in reversed(earlier) if contributions[index].event < one.clock[role]), None)
            if last is not None:
                graph.add_edge(number, last)
        if one.role >= 0:
            by_role.setdefault(one.role, []).append(number)
    _, (closed, _) = networkx.minimum_cut(graph, source, sink)
    return [one for number, one in enumerate(contributions) if number in closed]
