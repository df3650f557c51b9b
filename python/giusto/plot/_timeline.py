"""Response times over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from .._jobs import Jobs
from .._words import Time
from ..curves._curve import ns
from ._style import axes, look, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 2000
"""Jobs that are drawn one by one; of more the median and the longest of each stretch of time are."""

STRETCHES = 200


def timeline(
    of: Union[Jobs, Mapping[str, Jobs]],
    *,
    start: Time = 0,
    end: Optional[Time] = None,
    deadline: Optional[Time] = None,
    ax: Optional[Axes] = None,
) -> Axes:
    """Response times over the times at which jobs came, of those that came from ``start`` to ``end`` and have ended; several runs
    by name in a dictionary.

    A dot for each job; where there are more than 2,000, the median and the longest of each of 200 stretches of time. ``deadline``
    is drawn across, to be seen against.
    """
    import numpy

    given: Mapping[str, Jobs] = of if isinstance(of, Mapping) else {"": of}
    first, last = float(ns(start)), None if end is None else float(ns(end))
    drawn = {}
    for name, jobs in given.items():
        array = jobs.array[jobs.array["finish_ns"] >= 0]
        array = array[array["release_ns"] >= first]
        array = array if last is None else array[array["release_ns"] <= last]
        drawn[name] = array["release_ns"], array["finish_ns"] - array["release_ns"]
    until = last if last is not None else max([first, *(float(at.max()) for at, _ in drawn.values() if len(at))])
    limit = 0.0 if deadline is None else float(ns(deadline))
    size, word = unit(until)
    high, high_word = unit(max([1.0, limit, *(float(took.max()) for _, took in drawn.values() if len(took))]))
    ax = axes(ax, 7.0)
    for nth, (name, (at, took)) in enumerate(drawn.items()):
        colour = look(nth)["color"]
        if len(at) <= MOST:
            ax.plot(at / size, took / high, ".", markersize=3, color=colour, label=name or None)
            continue
        stretch: "numpy.ndarray[Any, Any]" = ((at - first) * (STRETCHES / max(until - first, 1.0))).astype(int)
        order = numpy.lexsort((took, numpy.minimum(stretch, STRETCHES - 1)))
        places, begins, counts = numpy.unique(numpy.minimum(stretch, STRETCHES - 1)[order], return_index=True, return_counts=True)
        middle = (first + (places + 0.5) * (until - first) / STRETCHES) / size
        sorted_times = took[order] / high
        ax.plot(middle, sorted_times[begins + (counts - 1) // 2], color=colour, label=f"{name} median".strip())
        ax.plot(middle, sorted_times[begins + counts - 1], color=colour, linestyle=":", label=f"{name} longest".strip())
    if deadline is not None:
        ax.axhline(limit / high, color="black", linewidth=0.8, linestyle="--", label="deadline")
    ax.set(xlabel=f"time ({word})", ylabel=f"response time ({high_word})", xlim=(first / size, until / size))
    ax.set_ylim(bottom=0)
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
    return ax
