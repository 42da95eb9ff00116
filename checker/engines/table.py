"""The engines by name, and the words that choose them: names joined by "+", each once, or "default"."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.engines.engine import Bound, Engine
from sm90_verify.spec.errors import SpecError


def _search() -> Engine:
    from sm90_verify.engines.search.engine import SearchEngine

    return SearchEngine()


def _order() -> Engine:
    from sm90_verify.engines.order.engine import OrderEngine

    return OrderEngine()


def _smt() -> Engine:
    from sm90_verify.engines.smt.engine import SmtEngine

    return SmtEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"search": _search, "order": _order, "smt": _smt}
"""What makes each engine; nothing is imported until it is called. In this order they are asked."""
DEFAULT = "default"
"""The word for order where it decides, and search where it does not; see engines.by_default."""


def names_of(words: str) -> tuple[str, ...]:
    """The names that are joined by "+", in the order of the table; SpecError for one that is unknown or comes twice."""
    if words == DEFAULT:
        return "search", "order"
    chosen = words.split("+")
    for name in chosen:
        if name not in ENGINES:
            raise SpecError(f"no engine {name!r}: use {', '.join(ENGINES)}, or several joined by +")
        if chosen.count(name) > 1:
            raise SpecError(f"the engine {name!r} is named twice in {words!r}: name each once")
    return tuple(name for name in ENGINES if name in chosen)


def heeding(bound: Bound) -> tuple[str, ...]:
    """The engines to which a bound of a question means anything."""
    return tuple(name for name, make in ENGINES.items() if bound in make().heeds)


def heed(words: str, bound: Bound) -> bool:
    """Whether a bound means anything to one of these engines."""
    return any(bound in ENGINES[name]().heeds for name in names_of(words))


def with_engine(words: str, name: str) -> str:
    """The same engines and one more, if it is not among them; by default it goes with search."""
    words = "search" if words == DEFAULT else words
    return words if name in names_of(words) else f"{words}+{name}"
