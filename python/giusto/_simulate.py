"""A plan in virtual time."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _giusto
from ._answer import Answer
from ._errors import InputError
from ._jobs import Jobs, Slices
from ._plan import Plan, plan
from ._site import Site
from ._words import Time, several


class Prediction(Answer):
    """Response times in ns; percentiles up to ``percentile_error`` above the exact ones, the longest exact."""

    jobs: int
    p50_ns: int
    p99_ns: int
    p99_9_ns: int
    max_ns: int


class Played(Answer):
    """A service under a scheduler (formats/simulate.schema.json)."""

    service: str
    on: str
    vcpu: Optional[int]
    scheduler: str
    seed: int
    seeds: int
    prediction: Optional[Prediction]
    overloaded: Optional[str]
    percentile_error: float
    mean_ns: Optional[float]
    unfinished: int
    competitor_share: Optional[float]
    promised: Optional[Dict[str, Any]]
    tasks: Optional[List[Dict[str, Any]]]


class PlayedPath(Answer):
    """A path: p50, p99, p99.9 and the longest of its messages, and of each stage."""

    path: str
    seed: int
    seeds: int
    messages: int
    unfinished: int
    response_ns: List[int]
    stages_ns: Dict[str, List[int]]
    percentile_error: float
    proven: List[Dict[str, Any]]
    promised: Optional[Dict[str, Any]]
    late: Optional[int]


class Simulated:
    """What was played: ``rows``, one a service and scheduler, then one a path; and the ``jobs`` of one of them."""

    def __init__(self, rows: List[Union[Played, PlayedPath]], recorded: Optional[str], jobs: Optional[Jobs]) -> None:
        self.rows = rows
        self.recorded = recorded
        self._jobs = jobs

    @property
    def jobs(self) -> Jobs:
        """The jobs of ``recorded`` in its first run."""
        if self._jobs is None:
            raise InputError("there are no jobs: no service of the plan has tasks")
        return self._jobs

    def __getitem__(self, name: str) -> Union[Played, PlayedPath]:
        """The first row of a service or path."""
        for row in self.rows:
            if name in (row.to_dict().get("service"), row.to_dict().get("path")):
                return row
        raise KeyError(name)

    def to_json(self) -> str:
        """As ``giusto simulate --json`` prints it."""
        return json.dumps([row.to_dict() for row in self.rows], indent=2)

    def __repr__(self) -> str:
        return "\n".join([f"<Simulated, jobs of {self.recorded}>", *(f"  {row!r}" for row in self.rows)])


def simulate(
    what: Union[Plan, Site],
    horizon: Time = "10s",
    *,
    seed: int = 1,
    seeds: int = 1,
    compare: Union[str, Sequence[str]] = (),
    profile: Union[str, "os.PathLike[str]", None] = None,
    record: Optional[str] = None,
    slices: bool = False,
) -> Simulated:
    """Plays a plan (of a site: its plan) for ``horizon`` of virtual time, as ``giusto simulate`` does: every service with the
    policy core that runs on hosts, beside a competitor that takes all that is left.

    ``seeds`` runs are pooled, of ``seed`` and the following. ``compare``: other schedulers, a kind of server, ``"credit"`` or
    ``"fair"``. ``profile``: a file of measured execution times, drawn from instead of the worst case. The jobs of ``record``, a
    service or path, are kept (the first with jobs when none is named), and with ``slices`` its schedule. 40 bytes a job.

    >>> site = Site(hosts={"edge-1": {"cores": 0}}, services={"control": {
    ...     "start": "control", "promise": "as-if-alone", "tasks": [{"wcet": "1ms", "period": "10ms"}]}})
    >>> found = simulate(plan(site, machine="typical"), "1s")
    >>> len(found.jobs), found["control"].unfinished
    (100, 1)
    """
    planned = what if isinstance(what, Plan) else plan(what)
    execution, transport = _giusto.profile(os.fspath(profile)) if profile is not None else (None, [])
    beside = several(compare)
    text, recorded = _giusto.simulate_plan(planned._data, horizon, seed, seeds, beside, execution, transport, record, slices)
    rows = [PlayedPath(row) if "path" in row else Played(row) for row in json.loads(text)]
    if not rows:
        raise InputError("there is nothing to simulate: no service of this plan has a reservation; promise one as-if-alone")
    if recorded is None:
        return Simulated(rows, None, None)
    name, jobs, schedule = recorded
    return Simulated(rows, name, Jobs(jobs, Slices(schedule) if slices else None))
