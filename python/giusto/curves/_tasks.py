"""Supply and demand of tasks, exact steps and slopes, in ns of work [Lee11, § II-A, eq. 1; Abe22]."""

from __future__ import annotations

from fractions import Fraction
from typing import Callable, List, Optional, Tuple

from .. import _giusto
from .._errors import InputError
from .._words import Tasks, Time
from ._curve import Curve, Value, ns


def _steps(tasks: Tasks, until: Time, of: Callable[[int], int]) -> Curve:
    """A staircase up to ``until``, and the line above it from then on."""
    end = _giusto.time(until)
    jumps: "dict[int, Fraction]" = {0: Fraction(0)}
    slope, ahead = Fraction(0), Fraction(0)
    for wcet, period, deadline, _, copies in map(_giusto.task, tasks):
        work = Fraction(wcet * copies)
        slope += work / period
        first = of(deadline)
        # Below the line u (t - first) + work, from its first step on.
        ahead += work - work / period * first
        for at in range(first, end + 1, period):
            jumps[at] = jumps.get(at, Fraction(0)) + work
    value = Fraction(0)
    points: List[Tuple[Value, Value, Value]] = []
    for at in sorted(jumps):
        value += jumps[at]
        points.append((at, value, 0))
    # All times are whole ns: the first that may differ.
    beyond = end + 1
    points.append((beyond, max(value, ahead + slope * beyond), slope))
    return Curve(points)


def dbf(tasks: Tasks, until: Time) -> Curve:
    """Work that is released and due within a window: exact up to ``until``, above it from then on. O(jobs up to then).

    >>> demand = dbf(["2ms/7ms", "1ms/8ms"], "56ms")
    >>> demand("7ms"), demand("8ms"), demand("14ms")
    (Fraction(2000000, 1), Fraction(3000000, 1), Fraction(5000000, 1))
    """
    return _steps(tasks, until, lambda deadline: deadline)


def rbf(tasks: Tasks, until: Time) -> Curve:
    """Work that a synchronous release brings in a window [0, t]: exact up to ``until``, above it from then on.

    >>> rbf(["2ms/7ms", "1ms/8ms"], "56ms")("1ns")
    Fraction(3000000, 1)
    """
    return _steps(tasks, until, lambda deadline: 0)


def sbf(budget: Time, period: Time, until: Time, *, deadline: Optional[Time] = None) -> Curve:
    """The least that a budget in every period supplies in a window [Lee11, eq. 1]; with a ``deadline`` the explicit deadline
    periodic resource. Exact up to ``until``, below it from then on.

    >>> supply = sbf("2ms", "3ms", "60ms")
    >>> supply("2ms"), supply("4ms"), supply("5ms")
    (Fraction(0, 1), Fraction(2000000, 1), Fraction(2000000, 1))
    """
    work, length, end = ns(budget), ns(period), ns(until)
    due = length if deadline is None else ns(deadline)
    if not 0 < work <= due <= length:
        raise InputError("a budget is more than 0 and at most its deadline, which is at most its period")
    first = length + due - 2 * work
    if work == length:
        return Curve([(0, 0, 1)])
    points: List[Tuple[Value, Value, Value]] = [(0, 0, 0)] if first > 0 else []
    nth = 0
    while first + nth * length <= end:
        begin = first + nth * length
        points.append((begin, nth * work, 1))
        points.append((begin + work, (nth + 1) * work, 0))
        nth += 1
    # At the end of each pause the line through the ends of all pauses touches it.
    points.append((first + nth * length, nth * work, work / length))
    return Curve(points)


def linear(bandwidth: Value, delay: Time) -> Curve:
    """α(t - Δ)⁺ [Abe22, "A Linear Approximation"], in ns of work."""
    return Curve([(0, 0, Fraction(bandwidth))]).after(delay)
