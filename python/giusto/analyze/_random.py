"""Requests at random on shares of a core [LiH21, chapter 4]."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, List, Optional, Tuple, Union

from .._answer import Answer
from .._giusto import Question
from .._words import Percentile, Time, several, some
from ._ask import ask
from ._progress import Progress

Weighted = Union[Time, Tuple[Any, Any]]
"""A service time, or a pair of it and its share of all requests; a text may be ``"40ms:75%"``."""


class At(Answer):
    """The share ``p`` of response times up to ``at_ns``."""

    at_ns: int
    p: float


class Quantile(Answer):
    """The percentile ``p`` (in percent) is ``ns``."""

    p: float
    ns: int


class Sampled(Answer):
    """Intervals of a simulation, each with ``value``, ``low`` and ``high``; times in ns."""

    mean_ns: "dict[str, float]"
    cdf: List[Any]
    percentiles_ns: List[Any]
    jobs: int
    seed: int


class Response(Answer):
    """The distribution of response times. ``method``: ``"analysis"`` (the chain was solved), ``"simulation"`` (it is too
    large, ``simulated`` has intervals) or ``"line"`` (two ends, the later one in ``bound``)."""

    method: str
    mean_ns: int
    cdf: List[At]
    percentiles: List[Quantile]
    slots: float
    error: Optional[float]
    lost: float
    utilization: float
    bandwidth: Fraction
    bound: Optional["Response"]
    simulated: Optional[Sampled]


class Choice(Answer):
    """The least budget of a period, its hold (2B, what others may have to wait) and what is reached of each objective, in
    percent."""

    budget_ns: int
    period_ns: int
    bandwidth: Fraction
    hold_ns: int
    reached: List[float]


class Slo(Answer):
    """The cheapest server of each period, and the periods whose choice no other beats in bandwidth and hold."""

    choices: List[Choice]
    pareto_period_ns: List[int]


class Cell(Answer):
    """A share and its percentiles; ``refused`` says why it has none."""

    period_ns: int
    budget_ns: int
    bandwidth: Fraction
    at_ns: List[int]
    refused: Optional[str]


class Map(Answer):
    """Percentiles over bandwidths and periods, row by row of a period; ``whole_ns`` are those of a whole core."""

    percentiles: List[float]
    whole_ns: List[int]
    cells: List[Cell]


def response(
    rate: str,
    service: Union[Weighted, List[Weighted], None] = None,
    *,
    budget: Time,
    period: Time,
    at: Union[Time, List[Time], None] = None,
    percentile: Union[Percentile, List[Percentile], None] = None,
    batch: Any = 1,
    server: str = "deferrable",
    measured_ns: Optional[List[int]] = None,
    slots: Optional[int] = None,
    most: Optional[Time] = None,
) -> Response:
    """The distribution of response times of requests at random on ``budget`` in every ``period`` [LiH21, eq. 4.1–4.11].

    Requests come at ``rate`` (Poisson, such as ``"40/s"``), in batches of ``batch``, and take ``service``: a time, or a list of
    times with their shares such as ``["40ms:75%", "10ms"]``; or one of ``measured_ns`` each. ``server`` is ``"deferrable"``,
    ``"periodic"`` or ``"constant_bandwidth"``; a budget of the whole period is a whole core. Asked for are the shares ``at``
    some times and ``percentile`` s (50, 90, 99 and 99.9 where nothing is asked for). ``slots``: the paper's model on one grid,
    its bias included, instead of the limit. A chain that is not solved within 2 s (``most``/2) is simulated.

    Raises :class:`giusto.DoesNotFit` where more is asked for than given.

    >>> found = response("0.004/ms", "100ms", budget="120ms", period="200ms", percentile=99)
    >>> found.percentiles[0].ns // 1_000_000
    1039
    """
    times = None if service is None else some(service)
    question = Question.response(
        rate, times, measured_ns, some(batch), server, budget, period, several(at), several(percentile), slots, most
    )
    return ask(question, Response)


def slo(
    rate: str,
    service: Union[Weighted, List[Weighted], None] = None,
    *,
    objective: Any,
    period: Union[Time, List[Time], None] = None,
    quantum: Time = "1us",
    batch: Any = 1,
    server: str = "deferrable",
    measured_ns: Optional[List[int]] = None,
) -> Slo:
    """The cheapest servers with which all objectives are kept [LiH21, § 4.4].

    An objective is ``"p90=30ms"`` or ``(90, "30ms")``; several in a list. Periods to look at: from a quarter of the mean
    service time to 16 times it where none is given. Budgets are multiples of ``quantum``.

    Raises :class:`giusto.DoesNotFit` where even a whole core does not keep them.

    >>> slo("40/s", "5ms", objective="p90=30ms", period="10ms").choices[0].budget_ns
    3751000
    """
    times = None if service is None else some(service)
    question = Question.slo(rate, times, measured_ns, some(batch), server, some(objective), several(period), quantum)
    return ask(question, Slo)


def map(
    rate: str,
    service: Union[Weighted, List[Weighted], None] = None,
    *,
    percentile: Union[Percentile, List[Percentile]] = 90,
    bandwidth: Optional[Tuple[Any, Any]] = None,
    period: Optional[Tuple[Time, Time]] = None,
    steps: int = 40,
    batch: Any = 1,
    server: str = "deferrable",
    measured_ns: Optional[List[int]] = None,
    progress: Progress = False,
) -> Map:
    """Percentiles over ``steps`` bandwidths and as many server periods, on all processors [LiH21, Figures 4.10 to 4.13].

    ``bandwidth`` and ``period`` are ranges; when not given, from a little more than the load to the whole core, and from half the
    mean service time to 16 times it. ``progress``: ``True`` for a bar (of tqdm, if it is there), or a function of how many cells
    are done and how many there are.

    >>> found = map("40/s", "5ms", steps=3)
    >>> len(found.cells)
    9
    """
    times = None if service is None else some(service)
    question = Question.map(rate, times, measured_ns, some(batch), server, several(percentile), bandwidth, period, steps)
    return ask(question, Map, progress)
