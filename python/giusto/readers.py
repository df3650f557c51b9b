"""Files of other tools: CARTS, SimSo, SMFF, CARET, tracetools, rt-app, perf and ftrace. Writers where a format has one.

What a file lacks or says wrong raises :class:`giusto.InputError` with its name, and line and column where they are known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple, Union
from xml.etree import ElementTree

from . import _giusto, _xml, analyze
from ._errors import InputError
from ._jobs import Jobs
from ._ros import Caret, caret, tracetools
from ._smff import Smff, SmffTask, smff
from ._words import Task

if TYPE_CHECKING:
    import numpy

    from ._system import System

__all__ = [
    "Caret",
    "Component",
    "SimSo",
    "Smff",
    "SmffTask",
    "caret",
    "carts",
    "rtapp_log",
    "rtapp_tasks",
    "sched",
    "simso",
    "smff",
    "tracetools",
    "write_carts",
    "write_simso",
]

PathLike = Union[str, "os.PathLike[str]"]

MS = 1_000_000
"""ns in a ms."""


class Component(NamedTuple):
    """Tasks and components below one scheduler, as CARTS has them. ``period_ns``: from and to of its own interface's."""

    name: str
    scheduler: str
    period_ns: Optional[Tuple[int, int]]
    tasks: List[Task]
    components: "List[Component]"

    def interfaces(self, **more: Any) -> Dict[str, analyze.Interface]:
        """The interface of each component, from the leaves up, each a task of the component around it, as ``giusto analyze
        interface --carts`` finds them; ``more`` as of :func:`giusto.analyze.interface`. Of a component with a range of periods
        the ends must be one.
        """
        found: Dict[str, analyze.Interface] = {}
        tasks = list(self.tasks)
        for inner in self.components:
            found.update(inner.interfaces(**more))
            interface = found[inner.name]
            tasks.append(Task(interface.budget_ns, interface.period_ns))
        asked = dict(more)
        if self.period_ns is not None:
            if self.period_ns[0] != self.period_ns[1]:
                raise InputError(
                    f"component {self.name!r} has a range of periods; give it one, or use 'giusto analyze interface --carts'"
                )
            asked["period"] = self.period_ns[0]
        found[self.name] = analyze.interface(tasks, self.scheduler, **asked)
        return found


def _component(of: Dict[str, Any]) -> Component:
    tasks = [Task(*fields) for _, fields in of["tasks"]]
    inner = [_component(each) for each in of["components"]]
    return Component(of["name"], of["scheduler"], of["period_ns"], tasks, inner)


def carts(path: PathLike, unit: str = "ms") -> Component:
    """The system in a file of CARTS; its numbers are in ``unit`` (ns, us, ms or s). formats/carts.md says what is read."""
    return _component(_giusto.read_carts(os.fspath(path), unit))


def write_carts(path: PathLike, interfaces: Dict[str, analyze.Interface], unit: str = "ms") -> str:
    """The system in the file at ``path`` with the interfaces of its components, as CARTS writes results."""
    known = {name: (each.period_ns, each.budget_ns) for name, each in interfaces.items()}
    return _giusto.write_carts(os.fspath(path), unit, known)


class SimSo(NamedTuple):
    """A simulation of SimSo: its tasks by name, scheduler, processors and duration."""

    tasks: Dict[str, Task]
    scheduler: str
    processors: int
    duration_ns: int

    def system(self) -> "System":
        """A system that plays it: EDF or RM, on several processors global. A job that is late goes on here, whatever
        ``abort_on_miss`` says."""
        from ._system import System

        known = {"EDF": "edf", "EDF_mono": "edf", "RM": "rm", "RM_mono": "rm"}
        name = self.scheduler.rsplit(".", 1)[-1]
        if name not in known:
            raise InputError(f"SimSo's scheduler {self.scheduler!r} has no like here; expected one of {', '.join(known)}")
        if name.endswith("_mono") and self.processors > 1:
            raise InputError(f"SimSo's scheduler {self.scheduler!r} is for one processor, and there are {self.processors}")
        system = System(cores=self.processors)
        system.run(list(self.tasks.values()), known[name], vcpus=self.processors)
        return system


def simso(path: PathLike) -> SimSo:
    """A simulation in SimSo's XML: periodic tasks, whose times are ms, that run for their WCET. Overheads, caches and speeds of
    processors are not read."""
    root = _xml.read(path, "simulation")
    if root.attributes.get("etm", "wcet") != "wcet":
        raise root.bad(f"the execution times are of the model {root.attributes['etm']!r}; expected 'wcet'")
    tasks: Dict[str, Task] = {}
    for number, element in enumerate(root.all("tasks", "task"), 1):
        if element.attributes.get("task_type", "Periodic") != "Periodic":
            raise element.bad(f"'task_type' is {element.attributes['task_type']!r}; expected 'Periodic'")
        offset = element.ns("activationDate", MS, "0")
        task = Task(element.ns("WCET", MS), element.ns("period", MS), element.ns("deadline", MS), offset)
        tasks[element.attributes.get("name", f"task{number}")] = task
    scheduler = next((found.attributes for found in root.all("sched")), {})
    klass = scheduler.get("class", scheduler.get("className", "EDF"))
    processors = len(list(root.all("processors", "processor")))
    per_ms = root.number("cycles_per_ms", "1000000")
    if per_ms == 0:
        raise root.bad("'cycles_per_ms' is 0; expected more")
    return SimSo(tasks, klass, max(1, processors), int(root.number("duration", "0") * MS / per_ms))


def write_simso(simulation: SimSo, path: PathLike) -> None:
    """Writes it as SimSo reads it, a cycle being a ns."""
    root = ElementTree.Element("simulation", duration=str(simulation.duration_ns), cycles_per_ms="1000000", etm="wcet")
    ElementTree.SubElement(root, "sched", {"class": simulation.scheduler, "overhead": "0"})
    # SimSo reads no file without them, also where they count for nothing.
    ElementTree.SubElement(root, "caches", memory_access_time="100")
    unused = {"instructions": "0", "mix": "0.5", "base_cpi": "1.0"}
    processors = ElementTree.SubElement(root, "processors")
    for number in range(simulation.processors):
        ElementTree.SubElement(processors, "processor", name=f"CPU {number + 1}", id=str(number + 1))
    tasks = ElementTree.SubElement(root, "tasks")
    for number, (name, task) in enumerate(simulation.tasks.items(), 1):
        deadline = task.period if task.deadline is None else task.deadline
        times = {"WCET": task.wcet, "period": task.period, "deadline": deadline, "activationDate": task.offset or 0}
        shown = {key: _ms(value) for key, value in times.items()}
        ElementTree.SubElement(
            tasks,
            "task",
            {
                "name": name,
                "id": str(number),
                "task_type": "Periodic",
                "abort_on_miss": "no",
                "ACET": shown["WCET"],
                **unused,
                **shown,
            },
        )
    ElementTree.ElementTree(root).write(os.fspath(path), encoding="utf-8", xml_declaration=True)


def _ms(ns: Union[int, str]) -> str:
    """A time in ns as a decimal number of ms, exactly."""
    if isinstance(ns, str):
        raise InputError("times of a simulation of SimSo are whole ns")
    whole, part = divmod(ns, MS)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


def rtapp_log(path: PathLike) -> Jobs:
    """The jobs in a log of rt-app."""
    return Jobs(_giusto.read_rtapp_log(os.fspath(path)))


def rtapp_tasks(path: PathLike) -> Dict[str, Task]:
    """The tasks in a configuration of rt-app: those that run for a time in every period of a timer."""
    return {name: Task(*fields) for name, fields in _giusto.read_rtapp_config(os.fspath(path))}


def sched(path: PathLike, thread: Union[int, str]) -> "Tuple[Jobs, numpy.ndarray[Any, Any]]":
    """The jobs of a thread (its number or name) in what ``perf script``, ``trace-cmd report`` or ftrace printed of sched
    events, and the execution time of each in ns."""
    import numpy

    jobs, execution = _giusto.read_sched(os.fspath(path), str(thread))
    return Jobs(jobs), numpy.array(execution, dtype=numpy.int64)
