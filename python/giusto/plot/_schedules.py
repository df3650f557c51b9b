"""Schedules as Gantt charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from .._errors import InputError
from .._jobs import Jobs
from .._words import Time
from ._style import COLOURS, axes, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 20_000
"""Bars that a drawing can hold."""


def gantt(
    jobs: Jobs,
    *,
    start: Time = 0,
    end: Optional[Time] = None,
    names: Optional[Sequence[str]] = None,
    deadlines: Optional[Sequence[Time]] = None,
    ax: Optional[Axes] = None,
) -> Axes:
    """The schedule of a simulation that kept its ``slices``: a row for each task of each server, a bar for each stretch of
    processor time, a mark up where a job came, and one down at its deadline. ``names`` and relative ``deadlines`` are those of
    the rows, in their order: by server, then by task, each that runs in what is drawn.
    """
    import numpy

    from ..curves._curve import ns

    if jobs.slices is None:
        raise InputError("there is no schedule to draw; simulate with slices=True")
    all_slices = jobs.slices.array
    first = float(ns(start))
    last = float(ns(end)) if end is not None else float(all_slices["to_ns"].max(initial=1))
    drawn = all_slices[(all_slices["to_ns"] > first) & (all_slices["from_ns"] < last)]
    if len(drawn) > MOST:
        raise InputError(f"{len(drawn)} stretches are more than can be drawn; choose an earlier end")
    rows = sorted({(int(server), int(task)) for server, task in zip(drawn["server"], drawn["task"])})
    size, name = unit(last)
    ax = axes(ax, 7.0, 0.7 + 0.32 * len(rows))
    for place, (server, task) in enumerate(rows):
        own = drawn[(drawn["server"] == server) & (drawn["task"] == task)]
        begins = numpy.maximum(own["from_ns"], first) / size
        lengths = numpy.minimum(own["to_ns"], last) / size - begins
        ax.broken_barh(list(zip(begins, lengths)), (place - 0.32, 0.64), facecolors=COLOURS[place % len(COLOURS)], linewidth=0)
        came = jobs.of(server=server, task=task)["release_ns"] if task >= 0 else numpy.array([])
        came = came[(came >= first) & (came <= last)]
        _marks(ax, came / size, place, "^")
        if deadlines is not None and task >= 0 and place < len(deadlines):
            due = came + float(ns(deadlines[place]))
            _marks(ax, due[due <= last] / size, place, "v")
    labels = [names[place] if names and place < len(names) else _label(*row) for place, row in enumerate(rows)]
    ax.set_yticks(range(len(rows)), labels)
    ax.set(xlim=(first / size, last / size), ylim=(len(rows) - 0.5, -0.5), xlabel=f"time ({name})")
    ax.grid(axis="y", visible=False)
    return ax


def _marks(ax: Axes, times: Any, place: int, marker: str) -> None:
    ax.plot(times, [place + (0.4 if marker == "^" else -0.4)] * len(times), marker, color="black", markersize=3, clip_on=False)


def _label(server: int, task: int) -> str:
    if task < 0:
        return f"server {server}"
    return f"server {server}, task {task}" if server else f"task {task}"
