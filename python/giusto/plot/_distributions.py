"""Distributions of response times, and percentiles over shares of a core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from .._errors import InputError
from .._jobs import Jobs
from ..analyze import Map, Response, Sweep
from ._style import axes, look, unit
from ._sweep import sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Distribution = Union[Jobs, Response, Any]
Number = Union[str, Callable[[Any], Any]]


def cdf(
    of: Union[Distribution, Mapping[str, Distribution]],
    *,
    tail: bool = False,
    interval: bool = True,
    ax: Optional[Axes] = None,
) -> Axes:
    """Distribution functions: of jobs that were simulated, of response times in ns, or of an analysis that was asked for ``at``
    times.

    Several by name in a dictionary. ``tail`` draws what is above each time instead, on a logarithmic scale. ``interval``: around
    measured or simulated ones the 95 % band of Dvoretzky, Kiefer and Wolfowitz, which holds for independent samples.
    """
    import numpy

    given: Mapping[str, Any] = of if isinstance(of, Mapping) else {"": of}
    ax = axes(ax)
    lines = {}
    for name, each in given.items():
        if isinstance(each, Response):
            lines[name] = numpy.array([[at.at_ns, at.p] for at in each.cdf], dtype=float).reshape(-1, 2), 0
        else:
            times = numpy.sort(numpy.asarray(each.response_ns if isinstance(each, Jobs) else each, dtype=float))
            lines[name] = numpy.column_stack([times, numpy.arange(1, len(times) + 1) / max(len(times), 1)]), len(times)
    empty = [f" of {name}" if name else "" for name, (points, _) in lines.items() if not len(points)]
    if empty:
        raise InputError(f"there is nothing to draw{','.join(empty)}: no job has ended, or no time was asked for with at=")
    size, word = unit(max((points[:, 0].max() for points, _ in lines.values()), default=1.0))
    for nth, (name, (points, count)) in enumerate(lines.items()):
        at, share = points[:, 0] / size, points[:, 1]
        drawn = 1 - share if tail else share
        ax.plot(at, drawn, drawstyle="steps-post" if count else "default", label=name or None, **look(nth))
        if interval and count > 1:
            off = numpy.sqrt(numpy.log(2 / 0.05) / (2 * count))
            ax.fill_between(
                at,
                numpy.clip(drawn - off, 0, 1),
                numpy.clip(drawn + off, 0, 1),
                step="post",
                alpha=0.15,
                color=look(nth)["color"],
                linewidth=0,
            )
    ax.set(xlabel=f"response time ({word})", ylabel="share of jobs above" if tail else "share of jobs within")
    if tail:
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, 1.02)
    if any(given):
        ax.legend()
    return ax


def heatmap(
    found: Union[Map, Sweep], of: Optional[Number] = None, *, percentile: int = 0, most: float = 6.0, ax: Optional[Axes] = None
) -> Axes:
    """A heat map: of :func:`giusto.analyze.map`, or of interfaces (or any answers) that :func:`giusto.analyze.each` has found.

    Of a map: a percentile (its place in the map) over bandwidths and server periods, cut off at ``most`` times what a whole core
    has. Of a sweep over two axes: the number ``of`` each answer, as :func:`sweep` has it; the bandwidth where none is named.
    Empty where there is no answer.
    """
    import numpy

    if isinstance(found, Sweep):
        return sweep(found, "bandwidth" if of is None else of, ax=ax)
    periods = sorted({cell.period_ns for cell in found.cells})
    width = len(found.cells) // len(periods)
    shares = [float(cell.bandwidth) for cell in found.cells[:width]]
    whole = found.whole_ns[percentile]
    size, word = unit(whole)
    values = numpy.array([cell.at_ns[percentile] if cell.at_ns else numpy.nan for cell in found.cells], dtype=float)
    values = numpy.minimum(values.reshape(len(periods), width), most * whole) / size
    ax = axes(ax)
    length, name = unit(max(periods))
    mesh = ax.pcolormesh(
        [100 * share for share in shares], [period / length for period in periods], values, shading="nearest", cmap="cividis_r"
    )
    ax.set(xlabel="bandwidth (% of a core)", ylabel=f"server period ({name})", yscale="log")
    ax.grid(visible=False)
    bar = ax.get_figure().colorbar(mesh, ax=ax)  # type: ignore[union-attr]
    bar.set_label(f"p{found.percentiles[percentile]:g} ({word}); a whole core: {whole / size:.3g}")
    return ax
