"""Curves in pieces."""

from __future__ import annotations

import operator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple, Union

from .. import _giusto
from .._errors import DoesNotFit, InputError
from .._words import Time
from ._pieces import Piece, convolved, joined, lowest

if TYPE_CHECKING:
    import numpy

Value = Union[int, str, Fraction]


def ns(time: Union[Time, Fraction]) -> Fraction:
    """A time in ns, exactly."""
    return time if isinstance(time, Fraction) else Fraction(_giusto.time(time))


def per_ns(rate: Value) -> Fraction:
    """A rate in a ns: a number, or a text such as ``"1000/s"``."""
    return Fraction(*_giusto.rate(rate)) if isinstance(rate, str) else number(rate)


def number(value: Value) -> Fraction:
    """A number, exactly."""
    try:
        return Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"{value!r} is no number of a curve; expected a finite one, such as 3, 0.5 or Fraction(1, 3)") from None


def other_curve(given: Any) -> Curve:
    """What an operation of two curves has on its other side."""
    if isinstance(given, Curve):
        return given
    raise InputError(f"{given!r} is no curve; expected one, such as constant(3) or line('1000/s')")


class Curve:
    """How much comes, or is served, in a window of each length: a line in pieces, for ever; continuous from the right, and never
    falling where it comes from this module's makers."""

    def __init__(self, points: Sequence[Tuple[Value, Value, Value]]) -> None:
        """``points``: (from, value there, slope from there on), ascending, the first from 0."""
        try:
            exact = [(number(start), number(value), number(slope)) for start, value, slope in points]
        except InputError:
            raise
        except (TypeError, ValueError):
            expected = "(from, value there, slope from there on), such as [(0, 4, 0), (1000, 4, 0.5)]"
            raise InputError(f"a curve has points {expected}") from None
        starts = [start for start, _, _ in exact]
        if not exact or starts[0] != 0 or any(b <= a for a, b in zip(starts, starts[1:])):
            raise InputError("a curve has pieces that begin at 0 and at later and later times")
        ends: List[Optional[Fraction]] = [*starts[1:], None]
        self.pieces: Tuple[Piece, ...] = tuple(
            joined(Piece(start, end, value, slope) for end, (start, value, slope) in zip(ends, exact))
        )

    @classmethod
    def _of(cls, pieces: Sequence[Piece]) -> Curve:
        return cls([(piece.start, piece.value, piece.slope) for piece in pieces])

    def __call__(self, window: Any) -> Any:
        """The value at a length in ns, exactly; of an array an array of floating point."""
        if isinstance(window, (int, str, Fraction)):
            t = ns(window)
            if t < 0:
                raise InputError("a window is not shorter than 0")
            return self._piece(t).at(t)
        return self.array(window)

    def _piece(self, t: Fraction) -> Piece:
        low, high = 0, len(self.pieces)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.pieces[middle].start <= t else (low, middle)
        return self.pieces[low]

    def array(self, windows: Any) -> "numpy.ndarray[Any, Any]":
        """The values at many lengths, in floating point."""
        import numpy

        at = numpy.asarray(windows, dtype=float)
        starts, values, slopes = (
            numpy.array([float(getattr(piece, name)) for piece in self.pieces]) for name in ("start", "value", "slope")
        )
        place = numpy.searchsorted(starts, at, side="right") - 1
        found: "numpy.ndarray[Any, Any]" = values[place] + slopes[place] * (at - starts[place])
        return found

    @property
    def rate(self) -> Fraction:
        """In the long run, in a ns."""
        return self.pieces[-1].slope

    def _each(self, other: Union[Curve, Value], of: Callable[[Fraction, Fraction], Fraction]) -> Curve:
        """Both at the same time; ``of`` is linear."""
        second = other if isinstance(other, Curve) else constant(other)
        starts = sorted({piece.start for piece in self.pieces} | {piece.start for piece in second.pieces})
        points = []
        for start in starts:
            a, b = self._piece(start), second._piece(start)
            points.append((start, of(a.at(start), b.at(start)), of(a.slope, b.slope)))
        return Curve(points)

    def __add__(self, other: Union[Curve, Value]) -> Curve:
        return self._each(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Union[Curve, Value]) -> Curve:
        return self._each(other, lambda a, b: a - b)

    def __mul__(self, factor: Value) -> Curve:
        by = number(factor)
        return Curve([(piece.start, piece.value * by, piece.slope * by) for piece in self.pieces])

    __rmul__ = __mul__

    def min(self, other: Curve) -> Curve:
        """The lower one at each length."""
        return Curve._of(lowest([*self.pieces, *other_curve(other).pieces]))

    def max(self, other: Curve) -> Curve:
        """The higher one at each length."""
        return Curve._of(lowest([*self.pieces, *other_curve(other).pieces], -1))

    def after(self, delay: Time) -> Curve:
        """The same so much later, 0 before."""
        by = ns(delay)
        if by == 0:
            return self
        return Curve._of(
            [Piece(Fraction(0), by, Fraction(0), Fraction(0)), *(piece.moved(by, Fraction(0)) for piece in self.pieces)]
        )

    def __matmul__(self, other: Curve) -> Curve:
        """Min-plus convolution: inf over s in [0, t] of self(s) + other(t - s). Two servers one after the other. O(n m log(n m))
        for n and m pieces where the least is of few. Where a curve jumps, the value before the jump counts, too."""
        pieces = [piece for a in self.pieces for b in other_curve(other).pieces for piece in convolved(a, b)]
        return Curve._of(lowest(pieces))

    def __truediv__(self, other: Curve) -> Curve:
        """Min-plus deconvolution: sup over s of self(t + s) - other(s). What leaves a server of service ``other``.

        :class:`giusto.DoesNotFit` where it grows without bound.
        """
        if self.rate > other_curve(other).rate:
            raise DoesNotFit(
                f"{float(self.rate):g} in a ns come and {float(other.rate):g} are served: the backlog grows for ever"
            )
        # For a fixed s it is self, s earlier, less a number: a line in pieces. The supremum is at an end of a piece of one of
        # them.
        lines: List[Piece] = []
        for a in self.pieces:
            for b in other.pieces:
                lines.extend(_deconvolved(a, b))
        return Curve._of(lowest(lines, -1))

    def backlog(self, served: Curve) -> Fraction:
        """The most that waits: the greatest vertical distance to a service curve."""
        if self.rate > other_curve(served).rate:
            raise DoesNotFit("more comes than is served: the backlog grows for ever")
        ends = {piece.start for piece in (*self.pieces, *served.pieces)}
        differences: List[Fraction] = [self(t) - served(t) for t in ends]
        # Just before a jump of the service.
        differences += [self._before(t) - served._before(t) for t in ends if t > 0]
        return max([Fraction(0), *differences])

    def _before(self, t: Fraction) -> Fraction:
        before = [piece for piece in self.pieces if piece.start < t]
        return before[-1].at(t)

    def delay(self, served: Curve) -> Fraction:
        """The longest wait in ns, first come, first served: the greatest horizontal distance to a service curve.

        :class:`giusto.DoesNotFit` where it grows without bound.
        """
        if self.rate > other_curve(served).rate or (
            self.rate == 0 == served.rate and self.pieces[-1].value > served.pieces[-1].value
        ):
            raise DoesNotFit("more comes than is served: the delay grows for ever")
        # At a turn of the arrivals, or where their value is one at which the service turns.
        times = {piece.start for piece in self.pieces}
        levels = {piece.value for piece in served.pieces} | {
            served._before(piece.start) for piece in served.pieces if piece.start > 0
        }
        times |= {found for level in levels if (found := self.inverse(level)) is not None}
        waits = []
        for t in times:
            for value in (self(t), self._before(t) if t > 0 else self(t)):
                served_at = served.inverse(value)
                waits.append(Fraction(0) if served_at is None else served_at - t)
            if self._piece(t).slope > 0:
                # Just after it a little more has come, for which a flat stretch of the service has to end.
                served_at = served._above(self(t))
                waits.append(Fraction(0) if served_at is None else served_at - t)
        return max(Fraction(0), *waits)

    def inverse(self, value: Value) -> Optional[Fraction]:
        """The shortest window in which as much comes, in ns; ``None``: never as much."""
        return self._first(number(value), operator.ge)

    def _above(self, value: Fraction) -> Optional[Fraction]:
        """The shortest window after which more than that comes."""
        return self._first(value, operator.gt)

    def _first(self, value: Fraction, enough: Callable[[Fraction, Fraction], bool]) -> Optional[Fraction]:
        """The shortest window in which, or after which, what comes is `enough` beside that."""
        for piece in self.pieces:
            if enough(piece.value, value):
                return piece.start
            if piece.slope > 0:
                t = piece.start + (value - piece.value) / piece.slope
                if piece.end is None or t < piece.end:
                    return t
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Curve) and self.pieces == other.pieces

    def __hash__(self) -> int:
        return hash(self.pieces)

    def __repr__(self) -> str:
        shown = ", ".join(f"({float(p.start):g} ns: {float(p.value):g} + {float(p.slope):g}/ns)" for p in self.pieces[:4])
        return f"Curve({shown}{', ...' if len(self.pieces) > 4 else ''})"

    def plot(self, until: Time, **more: Any) -> Any:
        """Draws it up to a length (:func:`giusto.plot.curves`)."""
        from ..plot import curves

        return curves([self], until, **more)


def _deconvolved(a: Piece, b: Piece) -> List[Piece]:
    """sup over s of a(t + s) - b(s), s on b and t + s on a: s as small as may be where b is steeper, else as large; t from 0."""
    zero = Fraction(0)
    found = []
    if b.end is None and a.end is None:
        if a.slope > b.slope:
            return []  # refused before, by the rates
        ends: List[Optional[Fraction]] = [b.start]
    else:
        ends = [b.start, b.end]
    for s in ends:
        if s is None:
            continue
        start, end = a.start - s, None if a.end is None else a.end - s
        if end is None or end > zero:
            begin = max(start, zero)
            found.append(Piece(begin, end, a.at(begin + s) - b.at(s), a.slope))
    for u in (a.start, a.end):
        if u is None:
            continue
        # t + s = u: s = u - t, on b while b.start <= u - t < b.end.
        latest, earliest = u - b.start, zero if b.end is None else max(zero, u - b.end)
        if latest > earliest:
            found.append(Piece(earliest, latest, a.at(u) - b.at(u - earliest), b.slope))
    return found


def line(rate: Value, start: Value = 0) -> Curve:
    """``start`` at once, and ``rate`` from then on (in a ns, or as a text such as ``"1000/s"``)."""
    return Curve([(0, start, per_ns(rate))])


def constant(value: Value) -> Curve:
    """Always the same."""
    return Curve([(0, value, 0)])


def bucket(rate: Value, depth: Value) -> Curve:
    """What a token bucket lets through: ``depth`` at once, and ``rate`` in the long run."""
    return line(rate, depth)


def service(rate: Value, latency: Time = 0) -> Curve:
    """A service curve: nothing for ``latency``, then ``rate``."""
    return line(rate).after(latency)


def periodic(period: Time, jitter: Time = 0, *, size: Value = 1, steps: int = 16) -> Curve:
    """Arrivals of ``size`` in each ``period``, each at most ``jitter`` late: the first ``steps`` exactly, then the line above
    them.

    >>> periodic("10ms")(0), periodic("10ms")("10ms"), periodic("10ms", "4ms")("6ms")
    (Fraction(1, 1), Fraction(2, 1), Fraction(2, 1))
    """
    length, late, each = ns(period), ns(jitter), number(size)
    if length == 0 or steps < 0:
        raise InputError("expected a period of more than 0 and steps from 0")
    first = int(late // length) + 1
    points: List[Tuple[Value, Value, Value]] = [(0, first * each, 0)]
    for nth in range(first, first + steps):
        points.append((nth * length - late, (nth + 1) * each, 0))
    last = points[-1]
    points[-1] = (last[0], last[1], each / length)
    # The line through the corners is above all later steps.
    return Curve(points)
