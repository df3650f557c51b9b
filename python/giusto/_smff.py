"""Systems of SMFF (System Models for Free), the XML that pyCPA reads, too."""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

from . import _giusto, _xml
from ._words import Task


class SmffTask(NamedTuple):
    """A task, or a link that takes time on a bus: between ``bcet_ns`` and ``wcet_ns`` on ``resource`` with its ``priority``
    (smaller is higher). It comes every ``period_ns`` with ``jitter_ns``, or, where these are ``None``, after those in ``after``.
    """

    name: str
    resource: str
    priority: int
    bcet_ns: int
    wcet_ns: int
    period_ns: Optional[int]
    jitter_ns: Optional[int]
    after: Tuple[str, ...]


class Smff(NamedTuple):
    """A system: resources with their schedulers, tasks by name, and constraints: from a task to another within so many ns."""

    resources: Dict[str, str]
    tasks: Dict[str, SmffTask]
    constraints: List[Tuple[str, str, int]]

    def sources(self, name: str) -> List[str]:
        """The tasks with periods that set off a task, itself or before it."""
        reached = [name]
        for each in reached:
            reached.extend(before for before in self.tasks[each].after if before not in reached)
        return [each for each in reached if self.tasks[each].period_ns is not None]

    def on(self, resource: str) -> List[Task]:
        """The tasks of a resource, the highest priority first, each with the periods of its sources (without jitter), as
        :func:`giusto.analyze.interface` takes them."""
        own = sorted((task for task in self.tasks.values() if task.resource == resource), key=lambda task: task.priority)
        return [Task(task.wcet_ns, self.tasks[source].period_ns or 0) for task in own for source in self.sources(task.name)]


def smff(path: Union[str, "os.PathLike[str]"], unit: str = "us") -> Smff:
    """The system in a file of SMFF, whose numbers are in ``unit``."""
    root = _xml.read(path, "SystemModel")
    each = _giusto.time(f"1{unit}")
    known: Dict[Tuple[str, str], str] = {}
    resources: Dict[str, str] = {}
    for kind in ("Resource", "CommResource"):
        for element in root.all("Platform", kind):
            name = element.text("shortName")
            known[kind, element.text("resID")] = name
            resources[name] = element.one("Scheduler").text("name")
    tasks: Dict[str, SmffTask] = {}
    constraints: List[Tuple[str, str, int]] = []
    for application in root.all("Applications", "Application"):
        _application(application, each, known, tasks, constraints)
    return Smff(resources, tasks, constraints)


def _application(
    application: _xml.Element,
    unit: int,
    known: Dict[Tuple[str, str], str],
    tasks: Dict[str, SmffTask],
    constraints: List[Tuple[str, str, int]],
) -> None:
    def resource(kind: str, element: _xml.Element, key: str) -> str:
        found = known.get((kind, element.text(key)))
        if found is None:
            raise element.bad(f"{key!r} is {element.text(key)!r}; expected the resID of a {kind}")
        return found

    mapping = application.one("Mapping")
    on = {each.text("tid"): resource("Resource", each, "rid") for each in mapping.all("mapTask")}
    bus = {
        each.text("lid"): resource("CommResource", each, "crid") for each in mapping.all("mapLink") if "crid" in each.attributes
    }
    names: Dict[str, str] = {}
    for element in application.all("Task"):
        task = _task(element, unit, on)
        tasks[task.name] = task
        names[element.text("ID")] = task.name

    def named(element: _xml.Element, key: str) -> str:
        if element.text(key) not in names:
            raise element.bad(f"{key!r} is {element.text(key)!r}; expected the ID of a task of this application")
        return names[element.text(key)]

    for link in application.all("TaskLink"):
        source, target = named(link, "src"), named(link, "trgt")
        if link.text("ID") in bus:
            between = _task(link, unit, bus)._replace(after=(source,))
            tasks[between.name] = between
            source = between.name
        tasks[target] = tasks[target]._replace(after=(*tasks[target].after, source))
    for limit in application.all("Constraints", "Constraint"):
        within = int(limit.number("Constraint") * unit)
        constraints.append((named(limit, "StartTaskId"), named(limit, "EndTaskId"), within))


def _task(element: _xml.Element, unit: int, on: Dict[str, str]) -> SmffTask:
    if element.text("ID") not in on:
        raise element.bad(f"{element.tag} {element.text('ID')!r} is mapped to no resource; expected one in 'Mapping'")
    active = [profile for profile in element.all("Profile") if profile.text("active") == "true"]
    if not active:
        raise element.bad(f"{element.tag} {element.text('ID')!r} has no active 'Profile'")
    profile, pattern = active[0], active[0].one("ActivationPattern")
    period: Optional[int] = None
    jitter: Optional[int] = None
    if pattern.text("name") == "PJActivation":
        period, jitter = pattern.ns("activationPeriod", unit), pattern.ns("activationJitter", unit)
    elif pattern.text("name") != "EventActivation":
        raise pattern.bad(f"'name' is {pattern.text('name')!r}; expected 'PJActivation' or 'EventActivation'")
    priority = int(element.one("SchedulingParameter").number("priority"))
    best, worst = profile.ns("bcet", unit), profile.ns("wcet", unit)
    return SmffTask(element.text("shortName"), on[element.text("ID")], priority, best, worst, period, jitter, ())
