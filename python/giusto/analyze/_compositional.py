"""Compositional analysis: interfaces of task sets, and which servers share a core (Lee11, Abe22)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .._answer import Answer
from .._giusto import Question
from .._words import Share, Tasks, Time
from ._ask import ask


class Point(Answer):
    """A comparison: in a window of ``at_ns`` so much is asked for and so much supplied, in ns."""

    task: Optional[int]
    at_ns: int
    demand_ns: int
    supply_ns: int


class Certificate(Answer):
    """Why a resource is enough: the points that decide, and the resource in the form of the command line's JSON."""

    scheduler: str
    resource: Dict[str, Any]
    latency_ns: int
    points: List[Point]
    until_ns: Optional[int]


class Shortfall(Answer):
    """Why a resource is not enough: where the supply is less than the demand, and which task (from 0) misses."""

    point: Point
    task: int


class Limit(Answer):
    """How far a number may be off: ``what`` of ``task`` (from 0), its value ``now`` and at the ``limit`` in ns, the slack
    between them as a share of a core."""

    what: str
    task: Optional[int]
    now_ns: int
    limit_ns: int
    exact: bool
    slack: Fraction


class Interface(Answer):
    """The cheapest periodic resource for a task set: ``budget_ns`` in every ``period_ns`` (Θ in Π of Lee11).

    ``overhead_bandwidth`` is what it costs beyond the utilization of the tasks. ``at_least``: no interface has less
    bandwidth; the bandwidth itself, but where cheaper ones could not be tested in time.
    """

    period_ns: int
    budget_ns: int
    bandwidth: Fraction
    utilization: Fraction
    overhead_bandwidth: Fraction
    at_least: Fraction
    deadline_ns: Optional[int]
    exact_budget_ns: Optional[Fraction]
    searched_ns: Optional[int]
    supply: str
    quantum_ns: int
    preemption_ns: int
    certificate: Certificate
    sensitivity: Optional[List[Limit]]


class Given(Answer):
    """Whether a resource is enough: ``certificate`` if it is, else ``shortfall``. True where it is."""

    certificate: Optional[Certificate]
    shortfall: Optional[Shortfall]
    sensitivity: Optional[List[Limit]]

    def __bool__(self) -> bool:
        return self.certificate is not None


class Vcpus(Answer):
    """Virtual CPUs that share the tasks under global EDF: the budget of each in every ``period_ns``."""

    scheduler: str
    period_ns: int
    budget_ns: int
    vcpus_ns: List[int]
    grids: str
    bandwidth: Fraction
    utilization: Fraction
    quantum_ns: int
    latency_ns: int


class Piece(Answer):
    """A stretch of the boundary in the (α, Δ) plane: from ``from_`` to ``to`` the point (``at_ns``, ``demand_ns``) decides,
    so that Δ(α) = at − demand/α."""

    from_: Fraction
    to: Fraction
    task: Optional[int]
    at_ns: int
    demand_ns: int


class Server(Answer):
    """The server of the period that was asked for."""

    budget_ns: int
    period_ns: int
    bandwidth: Fraction
    delay_ns: int


class Plane(Answer):
    """The pairs of a bandwidth α and a delay Δ that are enough for tasks: all below the boundary."""

    scheduler: str
    pieces: List[Piece]
    server: Optional[Server]

    def delay_ns(self, bandwidth: Union[Fraction, float]) -> Optional[float]:
        """The longest Δ in ns that is enough at a bandwidth α; ``None`` below the least and above a whole core. O(pieces)."""
        for piece in self.pieces:
            if piece.from_ <= bandwidth <= piece.to:
                return float(piece.at_ns - piece.demand_ns / bandwidth)
        return None


class Admission(Answer):
    """Whether servers fit: ``admitted`` or ``refused``, in the form of the command line's JSON. True where they do."""

    scheduler: str
    grids: str
    capacity: Fraction
    cores: Optional[int]
    fit: Optional[str]
    servers: List[Dict[str, Any]]
    admitted: Optional[Dict[str, Any]]
    refused: Optional[Dict[str, Any]]
    sensitivity: Optional[List[Dict[str, Any]]]

    def __bool__(self) -> bool:
        return self.admitted is not None


def interface(
    tasks: Tasks,
    scheduler: str,
    *,
    supply: str = "general",
    quantum: Optional[Time] = None,
    period: Optional[Time] = None,
    deadline: Optional[Time] = None,
    overhead: Time = 0,
    latency: Time = 0,
    sensitivity: bool = False,
    most: Optional[Time] = None,
) -> Interface:
    """The cheapest interface of ``tasks`` under ``scheduler`` (``"rm"``, ``"dm"`` or ``"edf"``) [Lee11, Algorithm 1; Abe22].

    ``supply``: ``"general"`` (a budget somewhere in every period), ``"aligned"`` (all releases on the server's boundaries and
    periods that divide each other, which you assert) or ``"edp"`` (a budget within ``deadline`` of every period's begin).
    Budgets and searched periods are multiples of ``quantum`` (1 ms, or less where periods are below 10 ms); with ``period``
    that one alone is looked at. ``overhead`` is the cost of a preemption, ``latency`` how late the supply may come once.
    About a millisecond for a hundred tasks; ``most`` bounds the search for a proof that it is the least (a second).

    Raises :class:`giusto.DoesNotFit` with the shortfall as witness where not even a whole core is enough.

    >>> found = interface(["2ms/7ms", "1ms/8ms", "1ms/10ms"], "rm", quantum="1ms")
    >>> found.budget_ns, found.period_ns
    (2000000, 3000000)
    >>> found.utilization
    Fraction(143, 280)
    """
    question = Question.interface(tasks, scheduler, supply, quantum, period, deadline, overhead, latency, sensitivity, most)
    return ask(question, Interface)


def given(
    tasks: Tasks,
    scheduler: str,
    resource: Union[str, Tuple[Time, ...]],
    *,
    aligned: bool = False,
    latency: Time = 0,
    sensitivity: bool = False,
) -> Given:
    """Whether a resource is enough for ``tasks`` [Lee11, Lemma 1; Abe22].

    ``resource``: ``"2ms/5ms"`` or ``("2ms", "5ms")`` a budget in every period, ``"2ms/5ms@4ms"`` within a deadline,
    ``"40%+6ms"`` a share with a delay, ``"0ms-2ms,5ms-7ms/10ms"`` slots of a table.

    >>> bool(given(["2ms/7ms", "1ms/8ms"], "edf", "2ms/3ms"))
    True
    >>> given(["2ms/7ms", "1ms/8ms"], "edf", "1ms/3ms").shortfall.point.at_ns
    7000000
    """
    return ask(Question.given(tasks, scheduler, resource, aligned, latency, sensitivity), Given)


def vcpus(
    tasks: Tasks,
    count: Optional[int] = None,
    *,
    period: Optional[Time] = None,
    quantum: Optional[Time] = None,
    latency: Time = 0,
) -> Vcpus:
    """The least bandwidth of ``count`` virtual CPUs that share ``tasks`` under global EDF, or, without a count, the fewest of
    a ``period``.

    >>> vcpus(["5ms/10ms", "5ms/10ms", "5ms/10ms"], 2, period="5ms").bandwidth
    Fraction(2, 1)
    """
    return ask(Question.vcpus(tasks, count, period, quantum, latency), Vcpus)


def plane(
    tasks: Tasks,
    scheduler: str,
    *,
    start: Optional[Share] = None,
    period: Optional[Time] = None,
    quantum: Time = "1us",
) -> Plane:
    """The pairs of a bandwidth and a delay that are enough for ``tasks`` [Abe22, "A Linear Approximation"].

    With ``period`` also the least budget of a server of that period, in multiples of ``quantum``. ``start`` is the least
    bandwidth to begin with.

    >>> found = plane(["2ms/7ms", "1ms/8ms"], "rm", period="3ms")
    >>> found.server.budget_ns
    1887000
    """
    return ask(Question.plane(tasks, scheduler, start, period, quantum), Plane)


def admission(
    servers: Sequence[Union[str, Tuple[str, Time, Time]]],
    scheduler: str,
    *,
    aligned: bool = False,
    capacity: Share = "100%",
    cores: Optional[int] = None,
    fit: Optional[str] = None,
    sensitivity: bool = False,
) -> Admission:
    """Whether servers fit on a core, on ``cores`` that all share, or core by core (``fit``: first, best or worst).

    A server is ``"kind:budget/period"`` or ``(kind, budget, period)``; ``scheduler`` is ``"fixed-priority"`` (in the order
    given, the first above all others) or ``"edf"``. ``aligned``: all periods are counted from one instant. ``capacity``: most
    of a core that all on it may take.

    >>> bool(admission(["periodic_strict:2ms/5ms", "deferrable:3ms/10ms"], "edf"))
    True
    """
    return ask(Question.admission(servers, scheduler, aligned, capacity, cores, fit, sensitivity), Admission)
