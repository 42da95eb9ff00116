"""Values of registers that depend on how many periods of a loop there are: base + rest * m + done * j.

j is how many periods have been done and m how many are left besides the one that is executed; both are any numbers from
0 on whose sum is `most` at most. What Python computes of such a value is right for all of them, or it is not known: an
operation whose result is no such form, a comparison that has another outcome for other numbers, and a word that would
overflow for some raise NoForm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sm90_verify.frontends.ptx.values import OfPeriods, One, Unknown

Number: TypeAlias = "int | Form"


class NoForm(ArithmeticError):
    """What is asked of a form differs from one number of periods to another."""


class Counted(OfPeriods):
    """A form that a register holds. For everything but arithmetic it is a value that is not known."""

    __slots__ = ("form",)

    def __init__(self, form: Form, line: int, why: str) -> None:
        super().__init__(line, why)
        self.form = form

    def result_of(self, function: Callable[..., One], some: tuple[One, ...]) -> One:
        """What the function gives of values of which this is one, and the others are known or forms as well."""
        given = tuple([one.form if isinstance(one, Counted) else one for one in some])
        try:
            return self.holding(function(*given))
        except (NoForm, TypeError, AttributeError):
            return self.plain()

    def holding(self, found: object) -> One:
        """A result as a register holds it."""
        if isinstance(found, int):
            return int(found)
        return Counted(found, self.line, self.why) if isinstance(found, Form) else self.plain()

    def plain(self) -> Unknown:
        """A value of which no more is known than that it depends on the same."""
        return OfPeriods(self.line, self.why)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and self.form.is_same(other.form)

    def __hash__(self) -> int:
        return hash((self.form.base, self.form.rest, self.form.done))


def form_of(base: int, rest: int, done: int, most: int) -> Number:
    """The form, or a number where it is one."""
    return Form(base, rest, done, most) if rest or done else base


@dataclass(frozen=True, eq=False)
class Form:
    """See the module. It has the operators of an int that expressions use (sm90_verify.frontends.ptx.expressions)."""

    base: int
    rest: int
    done: int
    most: int

    __hash__ = None  # type: ignore[assignment]

    def is_same(self, other: Form) -> bool:
        """Equal for all numbers of periods, and for the same ones."""
        mine, theirs = (self.base, self.rest, self.done, self.most), (other.base, other.rest, other.done, other.most)
        return mine == theirs

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest value: at corners, as the numbers fill a triangle."""
        corners = (self.base, self.base + self.rest * self.most, self.base + self.done * self.most)
        return min(corners), max(corners)

    def _goes_by(self, unit: int) -> bool:
        """However many periods there are, a multiple of the unit comes to the base."""
        return self.rest % unit == 0 and self.done % unit == 0

    def _by(self, factor: int) -> Number:
        return form_of(self.base * factor, self.rest * factor, self.done * factor, self.most)

    def _plus(self, other: object, sign: int) -> Number:
        if isinstance(other, Form):
            rest, done = self.rest + sign * other.rest, self.done + sign * other.done
            return form_of(self.base + sign * other.base, rest, done, min(self.most, other.most))
        if isinstance(other, int):
            return Form(self.base + sign * other, self.rest, self.done, self.most)
        raise NoForm

    def __add__(self, other: object) -> Number:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: object) -> Number:
        return self._plus(other, -1)

    def __rsub__(self, other: object) -> Number:
        return self._by(-1) + other  # type: ignore[operator]

    def __neg__(self) -> Number:
        return self._by(-1)

    def __invert__(self) -> Number:
        return self._by(-1) - 1

    def __abs__(self) -> Number:
        return self if self >= 0 else self._by(-1)

    def __mul__(self, other: object) -> Number:
        if not isinstance(other, int):
            raise NoForm
        return self._by(other)

    __rmul__ = __mul__

    def __lshift__(self, other: object) -> Number:
        if not isinstance(other, int):
            raise NoForm
        return self._by(1 << other)

    def __floordiv__(self, other: object) -> Number:
        """Known where what is left over from all periods together does not come to one more: so a division that is
        written as a product with the reciprocal is known, too.
        """
        if not isinstance(other, int) or other <= 0:
            raise NoForm
        rest, done = _nearest(self.rest, other), _nearest(self.done, other)
        left = form_of(self.base, self.rest - rest * other, self.done - done * other, self.most)
        least, greatest = left.limits if isinstance(left, Form) else (left, left)
        if least // other != greatest // other:
            raise NoForm
        return form_of(least // other, rest, done, self.most)

    def __mod__(self, other: object) -> Number:
        if not isinstance(other, int) or other <= 0:
            raise NoForm
        return self.base % other if self._goes_by(other) else self - (self // other) * other

    def __rshift__(self, other: object) -> Number:
        if not isinstance(other, int):
            raise NoForm
        return self // (1 << other)

    def __and__(self, other: object) -> Number:
        """Masks of adjacent ones, such as those of a word, of its low bits, and of an alignment."""
        if not isinstance(other, int) or other < 0:
            raise NoForm
        low = (other & -other).bit_length() - 1 if other else 0
        if other & other + (1 << low):
            raise NoForm
        return self % (1 << other.bit_length()) - self % (1 << low)

    __rand__ = __and__

    def __or__(self, other: object) -> Number:
        """Bits that are put beside each other."""
        if not isinstance(other, int | Form):
            raise NoForm
        for low, high in ((self, other), (other, self)):
            least, greatest = low.limits if isinstance(low, Form) else (low, low)
            unit = 1 << max(0, greatest).bit_length()
            fits = high._goes_by(unit) and high.base % unit == 0 if isinstance(high, Form) else high % unit == 0
            if least >= 0 and fits:
                return low + high
        raise NoForm

    __ror__ = __or__

    def __xor__(self, other: object) -> Number:
        """One bit, or all bits of a word."""
        if not isinstance(other, int) or other <= 0:
            raise NoForm
        if other & (other - 1) == 0:
            return self + other if (self // other) % 2 == 0 else self - other
        least, greatest = self.limits
        if other & (other + 1) or least < 0 or greatest > other:
            raise NoForm
        return self._by(-1) + other

    __rxor__ = __xor__

    def _sign(self, other: object) -> tuple[int, int]:
        """The least and the greatest difference."""
        apart = self - other
        return apart.limits if isinstance(apart, Form) else (apart, apart)

    def __eq__(self, other: object) -> bool:
        least, greatest = self._sign(other)
        return _sure(least == greatest == 0, least > 0 or greatest < 0)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:
        least, greatest = self._sign(other)
        return _sure(greatest < 0, least >= 0)

    def __le__(self, other: object) -> bool:
        least, greatest = self._sign(other)
        return _sure(greatest <= 0, least > 0)

    def __gt__(self, other: object) -> bool:
        return not self <= other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0


def _nearest(number: int, unit: int) -> int:
    """How many units the number is, rounded."""
    return (2 * number + unit) // (2 * unit)


def _sure(yes: bool, no: bool) -> bool:
    if not yes and not no:
        raise NoForm
    return yes
