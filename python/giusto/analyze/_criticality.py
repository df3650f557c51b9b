"""High and low criticality on few cores [Asy20]."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Dict, List, Optional, Sequence, Union

from .._answer import Answer
from .._giusto import Question
from .._words import Share
from ._ask import ask


class Utilizations(Answer):
    """U1(1), U2(1) and U2(2)."""

    u1_1: Fraction
    u2_1: Fraction
    u2_2: Fraction


class Interval(Answer):
    """Of factors that would do."""

    from_: Fraction
    to: Fraction


class Vm(Answer):
    """What holds for one virtual CPU: ``kept`` is ``"always"``, ``"while-usual"`` or ``"not"``."""

    level: str
    optimistic_ns: int
    worst_ns: Optional[int]
    period_ns: int
    core: Optional[int]
    kept: str
    virtual_deadline_ns: Optional[int]
    most_optimistic_ns: Optional[int]
    most_worst_ns: Optional[int]


class Criticality(Answer):
    """Whether they go together; ``x`` is the factor of virtual deadlines. True where they do."""

    schedulable: bool
    capacity: Fraction
    test: Optional[str]
    x: Optional[Fraction]
    u1_1: Optional[Fraction]
    u2_1: Optional[Fraction]
    u2_2: Optional[Fraction]
    interval: Optional[Interval]
    slack: Optional[Dict[str, Any]]
    robustness: Optional[Utilizations]
    why: Union[str, Dict[str, Any], None]
    less_strict: Optional[bool]
    vms: List[Vm]
    nearest: Optional[Dict[str, Any]]
    placement: Optional[List[Dict[str, Any]]]

    def __bool__(self) -> bool:
        return bool(self.schedulable)


def criticality(vms: Sequence[str], *, capacity: Share = "100%", cores: Optional[int] = None) -> Criticality:
    """Whether virtual CPUs of high and low criticality go together on a core, or find ``cores`` [Asy20; EDF-VD].

    ``"hi:5ms:25ms/100ms"`` has a usual and a worst budget, ``"lo:25ms/100ms"`` one. With ``cores`` they are placed first-fit in
    their order, and best-fit and worst-fit are told for comparison. ``capacity``: most of a core that all on it may take.

    >>> found = criticality(["hi:5ms:25ms/100ms", "lo:25ms/100ms"])
    >>> bool(found), found.test
    (True, 'edf')
    """
    return ask(Question.criticality(vms, capacity, cores), Criticality)
