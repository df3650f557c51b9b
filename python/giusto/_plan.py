"""Plans: every real-time parameter of a site, each with its reason."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Union

from . import _giusto
from ._errors import InputError
from ._giusto import PlanData
from ._site import Site

PathLike = Union[str, "os.PathLike[str]"]


class Plan:
    """A plan, as ``giusto plan`` makes it (formats/plan.schema.json)."""

    def __init__(self, data: PlanData) -> None:
        self._data = data
        self._json: Optional[Dict[str, Any]] = None

    @classmethod
    def read(cls, path: PathLike) -> Plan:
        """The plan in a file."""
        return cls(PlanData.read(os.fspath(path)))

    def to_json(self) -> str:
        """plan.json, to the byte."""
        return self._data.text() + "\n"

    def to_dict(self) -> Dict[str, Any]:
        """The same as dictionaries; times in whole ns, bandwidths as texts such as ``"19/25"``."""
        if self._json is None:
            self._json = json.loads(self._data.text())
        return self._json

    def write(self, path: PathLike) -> None:
        """To a file that ``giusto run`` takes."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    @property
    def services(self) -> List[Dict[str, Any]]:
        """Services with a reservation, and one entry for each virtual CPU of a VM: ``name``, ``on``, ``core``, ``server``,
        ``reasons``, ..."""
        found: List[Dict[str, Any]] = self.to_dict()["services"]
        return found

    @property
    def hosts(self) -> List[Dict[str, Any]]:
        """The hosts."""
        found: List[Dict[str, Any]] = self.to_dict()["hosts"]
        return found

    @property
    def notes(self) -> List[str]:
        """What is doubtful of it, as the command line tells on standard error."""
        return self._data.notes

    def __getitem__(self, name: str) -> Dict[str, Any]:
        """The service of that name."""
        for service in self.services:
            if service["name"] == name:
                return service
        raise KeyError(name)

    def explain(self, name: str) -> str:
        """Where the numbers of a service come from, in words."""
        return self._data.explain(name)

    def on(self, host: str) -> Plan:
        """The part of one host."""
        return Plan(self._data.on(host))

    def to_html(self) -> str:
        """A page of its own with the picture of the plan, as ``giusto plan --html`` writes it."""
        return self._data.page()

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:32em;border:1px solid #ccc" title="plan"></iframe>'

    def __repr__(self) -> str:
        rows = [f"<Plan of {len(self.hosts)} hosts>"]
        for service in self.services:
            server = service["server"]
            rows.append(
                f"  {service['name']} on {service['on']}, core {service['core']}: "
                f"{server['budget_ns']:,} ns every {server['period_ns']:,} ns, {server['kind']}"
            )
        return "\n".join(rows)


def plan(
    site: Site,
    *,
    host: Optional[str] = None,
    backend: Optional[str] = None,
    latency: Optional[PathLike] = None,
    profiles: Optional[PathLike] = None,
    current: Optional[PathLike] = None,
    machine: str = "this",
    predict: bool = False,
    seed: int = 1,
) -> Plan:
    """Plans ``site``: every parameter, or :class:`giusto.Refusal` with why not and what would fit.

    ``machine``: ``"this"`` takes the facts of this machine as ``giusto plan`` does (its backends, limits and cores),
    ``"typical"`` those that are assumed of one that was not looked at. ``host`` says which of the site's hosts this machine is,
    ``backend`` insists on one mechanism, ``latency`` is a file of ``giusto measure latency``, ``profiles`` the folder of
    measured execution times, ``current`` a plan whose services stay where they are. ``predict`` fills in the predicted response
    times, as ``giusto plan --out`` does, with this ``seed``.

    >>> site = Site(hosts={"edge-1": {"cores": 0}}, services={"control": {
    ...     "start": "control", "promise": "as-if-alone", "tasks": [{"wcet": "1ms", "period": "10ms"}]}})
    >>> plan(site, machine="typical")["control"]["core"]
    0
    """
    if not isinstance(site, Site):
        raise InputError(f"{site!r:.60} is no site; expected a giusto.Site, such as Site.from_yaml(path) or Site.from_dict(keys)")
    if machine not in ("this", "typical"):
        raise InputError(f"{machine!r} is no machine; expected 'this' or 'typical'")
    name = os.uname().nodename
    predicts = seed if predict else None
    data = _giusto.plan(site._data, name, host, backend, latency, profiles, current, machine == "typical", predicts)
    return Plan(data)
