"""Supply and demand of tasks, exact steps and slopes, in ns of work [Lee11, § II-A, eq. 1; Abe22]."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, List, Optional, Tuple, Union

from .._errors import InputError
from .._words import Task, TaskLike, Tasks, Time
from ._curve import Curve, Value, ns


def _task(task: TaskLike) -> Tuple[Fraction, Fraction, Fraction, int]:
    """Wcet, period, deadline, copies."""
    if isinstance(task, str):
        rest = task.partition("+")[0]
        rest, _, deadline = rest.partition("@")
        wcet, slash, period = rest.partition("/")
        if not slash:
            raise InputError(f"{task!r} is not a task; expected wcet/period[@deadline][+offset]")
        return ns(wcet), ns(period), ns(deadline or period), 1
    full = Task(*task)
    return ns(full.wcet), ns(full.period), ns(full.period if full.deadline is None else full.deadline), full.copies


def _steps(tasks: Tasks, until: Union[Time, Fraction], of: Any) -> Curve:
    """A staircase up to ``until``, and the line above it from then on."""
    end = ns(until)
    jumps: "dict[Fraction, Fraction]" = {Fraction(0): Fraction(0)}
    slope, ahead = Fraction(0), Fraction(0)
    for wcet, period, deadline, copies in map(_task, tasks):
        work = wcet * copies
        slope += work / period
        first = of(deadline)
        # Below the line u (t - first) + work, from its first step on.
        ahead += work - work / period * first
        for nth in range(int((end - first) // period) + 1 if end >= first else 0):
            at = first + nth * period
            jumps[at] = jumps.get(at, Fraction(0)) + work
    value = Fraction(0)
    points: List[Tuple[Value, Value, Value]] = []
    for at in sorted(jumps):
        value += jumps[at]
        points.append((at, value, 0))
    last = points[-1][0]
    beyond = max(end, Fraction(last) + 1)
    points.append((beyond, max(value, ahead + slope * beyond), slope))
    return Curve(points)


def dbf(tasks: Tasks, until: Union[Time, Fraction]) -> Curve:
    """Work that is released and due within a window: exact up to ``until``, above it from then on. O(jobs up to then).

    >>> demand = dbf(["2ms/7ms", "1ms/8ms"], "56ms")
    >>> demand("7ms"), demand("8ms"), demand("14ms")
    (Fraction(2000000, 1), Fraction(3000000, 1), Fraction(5000000, 1))
    """
    return _steps(tasks, until, lambda deadline: deadline)


def rbf(tasks: Tasks, until: Union[Time, Fraction]) -> Curve:
    """Work that a synchronous release brings in a window [0, t]: exact up to ``until``, above it from then on.

    >>> rbf(["2ms/7ms", "1ms/8ms"], "56ms")("1ns")
    Fraction(3000000, 1)
    """
    return _steps(tasks, until, lambda deadline: Fraction(0))


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
