"""Shares of a core that are as good as the whole [LiH21, chapter 3]."""

from __future__ import annotations

from fractions import Fraction
from typing import List, Optional

from .._answer import Answer
from .._giusto import Question
from .._words import Share, Tasks, Time
from ._ask import ask


class Hold(Answer):
    """How long the server holds the core at most: while the tasks keep to their parameters, and whatever they do. ``None``:
    for ever."""

    conforming: Optional[int]
    enforced: Optional[int]


class InPractice(Answer):
    """The same with a margin."""

    margin: Fraction
    budget_ns: int
    bandwidth: Fraction
    enforced_hold_ns: Optional[int]
    left_for_others: Optional[Fraction]


class CurvePoint(Answer):
    """The least budget of a period."""

    period_ns: int
    budget_ns: int
    bandwidth: Fraction


class Shared(Answer):
    """The least share on which tasks have the response times of a whole core."""

    period_ns: int
    budget_ns: int
    bandwidth: Fraction
    utilization: Fraction
    hyperperiod_ns: int
    releases: str
    hold_ns: Hold
    left_for_others: Optional[Fraction]
    with_margin: Optional[InPractice]
    curve: List[CurvePoint]


def share(
    tasks: Tasks,
    *,
    releases: Optional[str] = None,
    period: Optional[Time] = None,
    max_period: Optional[Time] = None,
    margin: Share = "5%",
) -> Shared:
    """The least share of a core on which ``tasks`` have the response times of a whole core [LiH21, Theorem 2, § 3.2].

    ``releases``: ``"kept"`` (strictly periodic with offsets that are kept) or ``"sporadic"``; ``None``: kept if any task has
    an offset. Without ``period`` and ``max_period`` the server's period is the hyperperiod. ``margin``: percentage points
    of a core to add in practice. O(jobs of a hyperperiod).

    >>> share(["40ms/250ms+150ms", "200ms/500ms+100ms", "100ms/1000ms+50ms", "200ms/2000ms"]).bandwidth
    Fraction(19, 25)
    """
    return ask(Question.share(tasks, releases, period, max_period, margin), Shared)
