"""The order engine: one schedule, its happens-before, and the conditions under which it speaks for all."""

from checker.order.outcome import Outcome, order
from checker.order.schedule import confirm, trace_of

__all__ = ["Outcome", "confirm", "order", "trace_of"]
