"""Colours and axes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: List[str] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
"""Okabe and Ito's colours, which the colour-blind tell apart."""

DASHES: List[Any] = ["-", "--", "-.", ":", (0, (3, 1, 1, 1)), (0, (5, 1)), (0, (1, 1))]
"""Lines differ in their dashes, too, for print without colour."""

_RC = {
    "axes.prop_cycle": f"cycler('color', {COLOURS!r})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "font.size": 9,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.bbox": "tight",
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}


@contextmanager
def style() -> Iterator[None]:
    """The look of these figures, for a ``with`` statement around your own."""
    import matplotlib

    # Not rc_context, which puts back all settings: also that figures are shown, which a notebook makes with its first.
    params = cast("dict[str, Any]", matplotlib.rcParams)
    before = {name: params[name] for name in _RC}
    params.update(_RC)
    try:
        yield
    finally:
        params.update(before)


def axes(ax: Optional[Axes], width: float = 5.2, height: float = 3.0) -> Axes:
    """The axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as pyplot

    with style():
        return pyplot.subplots(figsize=(width, height))[1]


def unit(longest_ns: float) -> Tuple[float, str]:
    """The unit in which times up to so many ns are shown: ns in it, and its name."""
    for size, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if longest_ns >= 2 * size:
            return size, name
    return 1.0, "ns"


def look(nth: int) -> "dict[str, Any]":
    """Colour and dashes of the nth line."""
    return {"color": COLOURS[nth % len(COLOURS)], "linestyle": DASHES[nth % len(DASHES)]}
