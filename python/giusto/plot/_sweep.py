"""Answers of a sweep over what was combined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Optional, Union

from .._errors import InputError
from ..analyze import Sweep
from ..curves._curve import ns
from ._style import axes, look, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _numbers(values: List[Any]) -> "tuple[List[float], str]":
    """Values as numbers on an axis, and their unit: times in their own, shares and numbers as they are, else their places."""
    try:
        times = [float(ns(value)) for value in values if isinstance(value, str)]
    except (InputError, ValueError):
        times = []
    if len(times) == len(values):
        size, name = unit(max(times))
        return [time / size for time in times], f" ({name})"
    try:
        return [float(value) for value in values], ""
    except (TypeError, ValueError):
        return [float(place) for place in range(len(values))], ""


def sweep(found: Sweep, of: Union[str, Callable[[Any], Any]], *, label: str = "", ax: Optional[Axes] = None) -> Axes:
    """A number of each answer of :func:`giusto.analyze.each`: a line over one axis, a heat map over two, such as the bandwidth
    of an interface over its period and the host's latency. Empty where there is no answer."""
    names = list(found.axes)
    values = found.array(of)
    title = label or (of if isinstance(of, str) else "")
    ax = axes(ax)
    across, unit_across = _numbers(found.axes[names[-1]])
    if len(found.shape) == 1:
        ax.plot(across, values, marker="o", markersize=3, **look(0))
        ax.set(xlabel=names[-1] + unit_across, ylabel=title)
        return ax
    if len(found.shape) != 2:
        raise InputError(f"a sweep over {len(found.shape)} axes cannot be drawn; expected one or two")
    up, unit_up = _numbers(found.axes[names[0]])
    mesh = ax.pcolormesh(across, up, values, shading="nearest", cmap="cividis")
    ax.set(xlabel=names[-1] + unit_across, ylabel=names[0] + unit_up)
    ax.grid(visible=False)
    ax.get_figure().colorbar(mesh, ax=ax).set_label(title)  # type: ignore[union-attr]
    return ax
