"""Messages: token buckets, paths over several stages, and the recovery of an ensemble [LiC20, LiH21]."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from .._answer import Answer
from .._giusto import Question
from .._words import Percentile, Time, several
from ._ask import ask


class Part(Answer):
    """What a stage gets of the time, its load, and its part of what is beyond."""

    stage: str
    within_ns: int
    load: float
    stretch: float
    x: Optional[float]
    term: float


class OnPath(Answer):
    """All but ``beyond`` of the messages are through within ``within_ns``."""

    within_ns: int
    beyond: float
    stages: List[Part]


class Hop(Answer):
    """The longest delay at a stage."""

    stage: str
    within_ns: int


class Every(Answer):
    """No message takes longer than ``within_ns``; ``sum_ns`` is the sum over the stages."""

    within_ns: int
    sum_ns: int
    stages: List[Hop]


class Path(Answer):
    """Bounds of a path: ``percentiles`` of messages at random, or ``every`` one of those that keep to an arrival curve."""

    percentiles: List[OnPath]
    every: Optional[Every]


class Wait(Answer):
    """Waits for tokens: ``delayed`` is the share of messages that wait at all; ``bucket`` has ``rate`` and ``depth`` as texts."""

    shares: int
    bucket: Dict[str, str]
    delayed: float
    mean_ns: int
    percentiles_ns: List[int]


class Bucket(Answer):
    """Waits for each rate of tokens, and for each split; ``access``: the least depth was looked for, for that percentile."""

    arrivals: Dict[str, Any]
    access: Optional[str]
    percentiles: List[str]
    waits: List[Wait]


class Recorded(Answer):
    """The least bucket for each rate of tokens, of messages that were recorded."""

    messages: int
    rate: str
    access: str
    least: List[Dict[str, str]]


class Phases(Answer):
    """Phases of a recovery."""

    notice_ns: int
    leave_ns: int
    election_ns: int
    recovery_ns: int
    total_ns: int
    first_write_ns: int


class Paper(Answer):
    """The paper's bound."""

    flood_ns: int
    election_ns: int
    recovery_ns: int
    total_ns: int


class Recovery(Answer):
    """How long an ensemble is without a leader at most; ``paper`` is the bound of [LiH21, eq. 5.8]."""

    servers: int
    epochs: str
    forced_writes: int
    wait_ns: int
    times: Dict[str, int]
    bound: Phases
    paper: Paper


def path(
    stages: Sequence[str],
    *,
    rate: Optional[str] = None,
    burst: Optional[int] = None,
    period: Optional[Time] = None,
    jitter: Optional[Time] = None,
    distance: Optional[Time] = None,
    also: Sequence[str] = (),
    percentile: Union[Percentile, List[Percentile], None] = None,
    at: Union[Time, List[Time], None] = None,
) -> Path:
    """How long messages take over several stages (docs/decisions/0052-paths.md; network calculus for every message).

    A stage is ``"[KIND:]BUDGET/PERIOD:SERVICE"`` with KIND deferrable, periodic or company, ``"core:SERVICE"``,
    ``"bucket:RATE*DEPTH"``, ``"bound:TIME"`` or ``"measured:TIMES"``. Messages come at random (``rate``) or keep to a bucket
    (``rate`` and ``burst``) or a ``period`` with ``jitter``, at least ``distance`` apart: then the bound is for every one.
    ``also``: others at a stage, such as ``"2=100/s:1ms"``. Asked for are ``percentile`` s (99 where nothing is) and how many
    are within ``at``.

    >>> path(["2ms/4ms:1ms", "core:1ms"], rate="50/s").percentiles[0].beyond <= 0.01
    True
    >>> path(["2ms/4ms:1ms", "core:1ms"], period="10ms").every.within_ns
    4000000
    """
    question = Question.path(rate, burst, period, jitter, distance, stages, also, several(percentile), several(at))
    return ask(question, Path)


class Processed(Answer):
    """No packet of ``flow`` waits longer until it is processed."""

    flow: str
    within_ns: int


class Packets(Answer):
    """Bounds for each of ``flows``; the threads run ``busy_ns`` of any second at most."""

    capacity: str
    poll: int
    latency_ns: int
    busy_ns: int
    flows: List[Processed]


def packets(flows: Sequence[str], capacity: str, *, poll: int = 64, latency: Time = 0) -> Packets:
    """How long packets wait for the core that processes them by priority [LiC20, chapter 3] (docs/network.md).

    A flow is what one thread processes at most, ``"RATE*BURST"`` such as ``"5k/s*16"``; from the highest priority down, with
    ``+`` between threads that share one. ``capacity``: packets that the core processes (``giusto measure packets``); ``poll``:
    packets in a row, whatever else comes; ``latency``: until a thread that is woken runs.

    Raises :class:`giusto.DoesNotFit` where the kernel would stop the threads, as they may run for more than 950 ms of a second.

    >>> [flow.within_ns for flow in packets(["5k/s*16+5k/s*16", "2k/s*8"], "64k/s").flows]
    [1627119, 1925926]
    """
    return ask(Question.packets(flows, capacity, poll, latency), Packets)


def bucket(
    rate: str,
    *,
    batch: int = 1,
    tokens: Optional[str] = None,
    depth: Union[int, float, str, None] = None,
    access: Optional[Percentile] = None,
    split: int = 1,
    percentile: Union[Percentile, List[Percentile]] = "p99",
) -> Bucket:
    """Waits for the tokens of a bucket, and what splitting it over up to ``split`` brokers costs [LiC20, § 2.2.1].

    Messages come at ``rate`` (Poisson) in batches of ``batch``. Without ``tokens`` several rates above theirs are looked at,
    without ``depth`` the least with which ``access`` of them (99 %) do not wait.

    >>> found = bucket("10000/s", tokens="11000/s", depth=26)
    >>> round(found.waits[0].delayed, 4)
    0.0086
    """
    return ask(Question.bucket(rate, batch, tokens, depth, access, split, several(percentile)), Bucket)


def trace(arrivals_ns: Sequence[int], *, tokens: Optional[str] = None, access: Percentile = "p99") -> Recorded:
    """The least buckets with which ``access`` of messages that were recorded would not have waited; arrivals in ns, ascending.

    >>> trace([0, 1_000_000, 1_100_000, 5_000_000], tokens="1000/s").messages
    4
    """
    return ask(Question.trace(arrivals_ns, tokens, access), Recorded)


def recovery(
    servers: int = 3,
    *,
    epochs: str = "reserve",
    wait: Optional[Time] = None,
    leave: Time = "35ms",
    jitter: Time = "13ms",
    delay: Time = "3ms",
    message: Time = "3ms",
    recover: Time = "55ms",
    learner: Time = "25ms",
    write: Time = "5ms",
) -> Recovery:
    """How long an ensemble of so many servers is without a leader at most [LiH21, eq. 5.1–5.8].

    ``epochs``: how they reach the disk, ``"strict"``, ``"reserve"`` or ``"overlap"``. ``wait``: w, how long an election waits
    for votes. ``leave``: s_e, from a broken connection to the first vote; ``jitter``: j, how far apart servers notice a dead
    leader; ``delay``: d, of a message; ``message``: h, to handle a vote; ``recover``: s_r, of the recovery; ``learner``: h_r,
    of it for each server left; ``write``: b, a forced write of an epoch.

    >>> recovery(5).bound.total_ns < recovery(7).bound.total_ns
    True
    """
    question = Question.recovery(servers, epochs, wait, leave, jitter, delay, message, recover, learner, write)
    return ask(question, Recovery)
