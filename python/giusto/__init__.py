"""Giusto: latency you can plan.

Plans, analyses and simulates real-time services of edge sites, with the code that the ``giusto`` command runs.

>>> import giusto
>>> giusto.analyze.interface(["2ms/7ms", "1ms/8ms", "1ms/10ms"], "rm", quantum="1ms").bandwidth
Fraction(2, 3)

:mod:`giusto.analyze` has one function a calculator, :class:`Site`, :func:`plan` and :func:`simulate` do what the commands of
those names do, :class:`System` simulates servers and tasks without a site, :mod:`giusto.policy` steps the policy core,
:mod:`giusto.curves` has supply, demand, arrival and service curves, :mod:`giusto.plot` draws (with Matplotlib).
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, List

from . import _giusto, analyze
from ._errors import DoesNotFit, Error, FailedError, InputError, LacksError, Refusal, SiteError
from ._giusto import __version__
from ._jobs import Jobs, Slices
from ._plan import Plan, plan
from ._simulate import Played, PlayedPath, Prediction, Simulated, simulate
from ._site import Site
from ._words import Task

if TYPE_CHECKING:
    from . import curves, plot, policy, readers, verify
    from ._system import Run, Server, System

__all__ = [
    "DoesNotFit",
    "Error",
    "FailedError",
    "InputError",
    "Jobs",
    "LacksError",
    "Plan",
    "Played",
    "PlayedPath",
    "Prediction",
    "Refusal",
    "Run",
    "Server",
    "Simulated",
    "Site",
    "SiteError",
    "Slices",
    "System",
    "Task",
    "__version__",
    "analyze",
    "curves",
    "plan",
    "plot",
    "policy",
    "readers",
    "simulate",
    "verify",
]

# A process that forks leaves threads behind.
os.register_at_fork(before=_giusto.settle)

_MODULES = ("curves", "plot", "policy", "readers", "verify")


def __getattr__(name: str) -> Any:
    # What is seldom used is imported when it is.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("Run", "Server", "System"):
        return getattr(importlib.import_module(f"{__name__}._system"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted(__all__)
