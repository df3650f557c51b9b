"""Words that all of Giusto shares."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

Time = Union[int, str]
"""A time: a whole number of ns, or a text with its unit, such as ``"2ms"`` or ``"1.5 s"`` (ns, us, ms, s, min, h, d)."""

Share = Union[Fraction, int, str]
"""A share of a core: a fraction, or a text such as ``"5%"`` or ``"19/25"``."""

Percentile = Union[float, str]
"""A percentile: a number such as 99.9, or a text such as ``"p99.9"``."""


class Task(NamedTuple):
    """A task: jobs of at most ``wcet`` each, released one ``period`` apart or more.

    ``deadline`` counts from the release; the period when none is given. An ``offset`` is one that is kept, also 0; ``None``:
    the task is sporadic. Instead of a task the notation of the command line will do everywhere:
    ``"2ms/7ms@6ms+1ms"`` is ``Task("2ms", "7ms", "6ms", "1ms")``.
    """

    wcet: Time
    period: Time
    deadline: Optional[Time] = None
    offset: Optional[Time] = None
    copies: int = 1


TaskLike = Union[str, Task, Tuple[Any, ...]]
"""A :class:`Task`, a tuple of its fields, or its notation as a text."""

Tasks = Sequence[TaskLike]


def some(given: Any) -> Any:
    """One value or several, as a list; a text and a tuple are one value."""
    if given is None:
        return []
    return [given] if isinstance(given, (str, tuple)) or not hasattr(given, "__iter__") else list(given)


def several(given: Any) -> Any:
    """The same of values that are no tuples themselves."""
    return list(given) if isinstance(given, tuple) else some(given)
