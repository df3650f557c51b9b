"""Curves, and what is enough for tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from .._words import Tasks, Time
from ..analyze import Plane
from ..curves import Curve, dbf, rbf, sbf
from ..curves._curve import ns
from ._style import COLOURS, axes, look, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curves(
    of: Union[Sequence[Curve], Mapping[str, Curve]],
    until: Time,
    *,
    value_in: float = 1.0,
    ylabel: str = "",
    ax: Optional[Axes] = None,
) -> Axes:
    """Curves up to a length of the window, several by name in a dictionary; values are divided by ``value_in``."""
    named: Mapping[str, Curve] = (
        of if isinstance(of, Mapping) else {"" if nth == 0 else f"{nth + 1}": c for nth, c in enumerate(of)}
    )
    ax = axes(ax)
    end = float(ns(until))
    size, word = unit(end)
    for nth, (name, curve) in enumerate(named.items()):
        at: "list[float]" = []
        values: "list[float]" = []
        for piece in curve.pieces:
            if piece.start > end:
                break
            stop = end if piece.end is None else min(float(piece.end), end)
            at += [float(piece.start) / size, stop / size]
            values += [
                float(piece.value) / value_in,
                (float(piece.value) + float(piece.slope) * (stop - float(piece.start))) / value_in,
            ]
        ax.plot(at, values, label=name or None, **look(nth))
    ax.set(xlabel=f"length of the window ({word})", ylabel=ylabel, xlim=(0, end / size))
    ax.set_ylim(bottom=0)
    if len(named) > 1:
        ax.legend()
    return ax


def supply_and_demand(
    tasks: Tasks, budget: Time, period: Time, *, until: Optional[Time] = None, requests: bool = False, ax: Optional[Axes] = None
) -> Axes:
    """The demand of tasks under EDF (``requests``: what a synchronous release brings) and the supply of a budget in every
    period."""
    end = until if until is not None else int(6 * ns(period))
    demand = (rbf if requests else dbf)(tasks, end)
    size, word = unit(float(ns(end)))
    named = {"demand" if not requests else "requests": demand, "supply": sbf(budget, period, end)}
    return curves(named, end, value_in=size, ylabel=f"processor time ({word})", ax=ax)


def plane(found: Plane, *, ax: Optional[Axes] = None, **more: Any) -> Axes:
    """The (α, Δ) plane: pairs of a bandwidth and a delay that are enough, below the boundary; the server that was asked for."""
    import numpy

    ax = axes(ax)
    at, delays = [], []
    for piece in found.pieces:
        for share in numpy.linspace(float(piece.from_), float(piece.to), 32):
            at.append(share)
            delays.append(max(0.0, float(piece.at_ns) - float(piece.demand_ns) / share))
    size, word = unit(max(delays, default=1.0))
    ax.plot(at, [delay / size for delay in delays], color=COLOURS[0], **more)
    ax.fill_between(at, 0, [delay / size for delay in delays], color=COLOURS[0], alpha=0.15, linewidth=0)
    if found.server is not None:
        ax.plot([float(found.server.bandwidth)], [found.server.delay_ns / size], "o", color=COLOURS[1], clip_on=False)
        ax.annotate(
            "server", (float(found.server.bandwidth), found.server.delay_ns / size), xytext=(6, 6), textcoords="offset points"
        )
    ax.set(xlabel="bandwidth α (share of a core)", ylabel=f"delay Δ ({word})")
    ax.set_ylim(bottom=0)
    return ax
