"""Files of other tools: CARTS, SimSo, rt-app, perf and ftrace. Writers where a format has one.

What a file lacks or says wrong raises :class:`giusto.InputError` with its name, and line and column where they are known.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple, Union
from xml.etree import ElementTree

from . import _giusto, analyze
from ._errors import InputError
from ._jobs import Jobs
from ._words import Task

if TYPE_CHECKING:
    import numpy

    from ._system import System

__all__ = ["Component", "SimSo", "carts", "rtapp_log", "rtapp_tasks", "sched", "simso", "write_carts", "write_simso"]

PathLike = Union[str, "os.PathLike[str]"]


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
        """A system that plays it: one core under EDF, RM or DM, or global EDF."""
        from ._system import System

        known = {"EDF": "edf", "EDF_mono": "edf", "RM": "rm", "RM_mono": "rm", "DM": "dm", "FP": "listed"}
        name = self.scheduler.rsplit(".", 1)[-1]
        if name not in known:
            raise InputError(f"SimSo's scheduler {self.scheduler!r} has no like here; expected one of {', '.join(known)}")
        system = System(cores=self.processors)
        system.run(list(self.tasks.values()), known[name], vcpus=self.processors)
        return system


def simso(path: PathLike) -> SimSo:
    """A simulation in SimSo's XML: periodic tasks, whose times are ms; sporadic ones come as densely as they may."""
    try:
        root = ElementTree.parse(os.fspath(path)).getroot()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise InputError(
            f"{os.fspath(path)}:{line}:{column + 1}: {error}", file=os.fspath(path), line=line, column=column + 1
        ) from None
    if root.tag != "simulation":
        raise InputError(f"{os.fspath(path)}: expected a 'simulation' of SimSo, not {root.tag!r}")
    tasks: Dict[str, Task] = {}
    for number, element in enumerate(root.iterfind("./tasks/task"), 1):
        name = element.get("name", f"task{number}")

        def time(key: str, name: str = name, element: ElementTree.Element = element) -> int:
            text = element.get(key)
            if text is None:
                raise InputError(f"{os.fspath(path)}: task {name!r} has no {key!r}")
            ns = Fraction(text) * 1_000_000
            if ns.denominator != 1:
                raise InputError(f"{os.fspath(path)}: {key!r} of task {name!r} is no whole number of ns")
            return int(ns)

        offset = time("activationDate") if element.get("activationDate") is not None else 0
        tasks[name] = Task(time("WCET"), time("period"), time("deadline"), offset)
    scheduler = root.find("./sched")
    klass = "EDF" if scheduler is None else scheduler.get("class", scheduler.get("className", "EDF"))
    processors = len(root.findall("./processors/processor"))
    per_ms = int(root.get("cycles_per_ms", "1000000"))
    duration = Fraction(root.get("duration", "0")) * 1_000_000 / per_ms
    return SimSo(tasks, klass, max(1, processors), int(duration))


def write_simso(simulation: SimSo, path: PathLike) -> None:
    """Writes it as SimSo reads it, a cycle being a ns."""
    root = ElementTree.Element("simulation", duration=str(simulation.duration_ns), cycles_per_ms="1000000", version="1.0")
    ElementTree.SubElement(root, "sched", {"class": simulation.scheduler, "overhead": "0"})
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
            {"name": name, "id": str(number), "task_type": "Periodic", "abort_on_miss": "no", "ACET": shown["WCET"], **shown},
        )
    ElementTree.ElementTree(root).write(os.fspath(path), encoding="utf-8", xml_declaration=True)


def _ms(ns: Union[int, str]) -> str:
    """A time in ns as a decimal number of ms, exactly."""
    if isinstance(ns, str):
        raise InputError("times of a simulation of SimSo are whole ns")
    whole, part = divmod(ns, 1_000_000)
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
