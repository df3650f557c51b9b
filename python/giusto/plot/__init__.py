"""Figures with Matplotlib: schedules, distributions, planes, supply and demand, heat maps, timelines. Print-ready, in colours
that the colour-blind tell apart. Every function draws into ``ax`` (a new figure when ``None``) and returns it.
"""

from ._distributions import cdf, heatmap
from ._schedules import gantt
from ._style import COLOURS, style
from ._sweep import sweep
from ._theory import curves, plane, supply_and_demand
from ._timeline import timeline

__all__ = ["COLOURS", "cdf", "curves", "gantt", "heatmap", "plane", "style", "supply_and_demand", "sweep", "timeline"]
