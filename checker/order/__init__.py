"""The order engine: happens-before of one schedule, and the conditions under which it speaks for all."""

from checker.order.outcome import Outcome, order

__all__ = ["Outcome", "order"]
