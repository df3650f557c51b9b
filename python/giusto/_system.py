"""Servers and tasks in virtual time, without a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence, Union

from . import _giusto
from ._errors import InputError
from ._giusto import SystemData
from ._jobs import Jobs, Slices
from ._words import TaskLike, Time, several

if TYPE_CHECKING:
    import numpy


class Server(NamedTuple):
    """What was played of a server: processor time that its jobs consumed, and jobs that had not ended."""

    consumed_ns: int
    unfinished: int


class Run(Jobs):
    """The jobs of all servers, and what was played of each server.

    ``deadlines_ns``: for each server the deadline of each of its tasks, counted from the release.
    """

    servers: List[Server]
    deadlines_ns: List[List[int]]

    @property
    def missed(self) -> "numpy.ndarray[Any, Any]":
        """The records of jobs that ended after their deadlines. What had not ended is in ``servers``.

        >>> system = System()
        >>> system.run(["2ms/5ms+0ms", "4ms/7ms+0ms"], "rm")
        0
        >>> run = system.simulate("35ms")
        >>> len(run), len(run.missed), run.missed["task"].tolist()
        (12, 1, [1])
        """
        import numpy

        array = self.array
        first = numpy.cumsum([0, *(len(each) for each in self.deadlines_ns)])
        deadlines = numpy.array([deadline for each in self.deadlines_ns for deadline in each], dtype=numpy.int64)
        own = deadlines[first[array["server"]] + array["task"]]
        return array[array["finish_ns"] > array["release_ns"] + own]  # type: ignore[no-any-return]


class System:
    """Cores, servers on them and tasks in the servers; plays them with the policy core that runs on hosts.

    ``order``: ``"edf"`` or ``"fixed-priority"`` among servers; ``tick``: ends of budgets are enforced at its multiples, as
    SCHED_DEADLINE does; ``switch``: processor time that the incoming server needs, on its budget.

    Three tasks under EDF on one core, as SimSo plays them:

    >>> system = System()
    >>> system.run(["2ms/7ms+0ms", "1ms/8ms+0ms", "1ms/10ms+0ms"], "edf")
    0
    >>> jobs = system.simulate("56ms")
    >>> len(jobs), jobs.percentile(100)
    (21, 4000000)
    """

    def __init__(self, order: str = "edf", cores: int = 1, *, tick: Optional[Time] = None, switch: Time = 0) -> None:
        if order in ("fifo", "rm", "dm", "listed"):
            raise InputError(
                f"{order!r} is a scheduler of tasks, for run() or server(); servers have the order 'edf' or 'fixed-priority'"
            )
        self._data = SystemData(order, cores, tick, switch)
        self._deadlines: List[List[int]] = []

    def server(
        self,
        kind: str,
        budget: Time = 0,
        period: Time = 0,
        *,
        tasks: Optional[Sequence[TaskLike]] = None,
        scheduler: str = "edf",
        priority: int = 0,
        vcpus: int = 1,
        first: Time = 0,
        execution: Union[None, int, Sequence[int]] = None,
        releases: str = "densest",
    ) -> int:
        """Adds a server of a kind (:data:`giusto.policy.KINDS`); returns its number.

        ``tasks`` run inside under ``scheduler`` (``"fifo"``, ``"rm"``, ``"dm"``, ``"listed"`` or ``"edf"``); without any it
        takes every cycle it can get. ``execution``: how long jobs run, the worst case when ``None``, uniform from so many
        percent of it, or drawn from a list of times in ns. ``releases`` of tasks without an offset: ``"densest"``, ``"random"``
        (gaps from T to 2T) or ``"poisson"``.
        """
        percent = execution if isinstance(execution, int) else None
        times = None if isinstance(execution, int) else execution
        if isinstance(execution, (str, float)):
            raise InputError(f"execution={execution!r}: expected percent of the worst case, such as 50, or a list of times in ns")
        tasks = tasks if tasks is None or isinstance(tasks, str) else several(tasks)
        number = self._data.server(kind, budget, period, priority, vcpus, first, tasks, scheduler, percent, times, releases)
        known = [_giusto.task(task) for task in tasks or ()]
        self._deadlines.append([deadline for _, _, deadline, _, copies in known for _ in range(copies)])
        return number

    def run(self, tasks: Sequence[TaskLike], scheduler: str = "edf", *, vcpus: int = 1, **more: Any) -> int:
        """Tasks that run as they would on cores of their own, ``vcpus`` of them: a server without limits."""
        listed = tasks if isinstance(tasks, str) else several(tasks)
        if not listed:
            raise InputError("there is no task; expected at least one, such as '2ms/7ms'")
        return self.server("unlimited", tasks=listed, scheduler=scheduler, vcpus=vcpus, **more)

    def simulate(self, horizon: Time, *, seed: int = 1, slices: bool = False, scheduler: Any = None) -> Run:
        """Plays it from 0 to ``horizon``; returns its jobs in the order of their ends, 40 bytes each.

        ``slices`` keeps the schedule, too. ``scheduler``: instead of the policy core ``"credit"`` (Xen's), ``"fair"`` or an
        object with the methods of :class:`giusto.policy.Scheduler`. The same seed gives the same run, to the byte.
        """
        if isinstance(scheduler, type):
            raise InputError(f"{scheduler.__name__} is a class; expected an object of it, such as {scheduler.__name__}()")
        jobs, schedule, left = self._data.simulate(horizon, seed, slices, scheduler)
        run = Run(jobs, Slices(schedule) if slices else None)
        run.servers = [Server(*each) for each in left]
        run.deadlines_ns = [list(each) for each in self._deadlines]
        return run
