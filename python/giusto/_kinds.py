"""Kinds of servers written in Python, and the pool that plays them."""

from __future__ import annotations

import math
from typing import List, Optional, Sequence, Union

from . import _giusto
from ._errors import InputError
from ._words import Time


class Kind:
    """A server of a kind of your own: override its rules, which answer to the events of ``policy/kinds/table.h``.

    At one instant ``charge`` comes first, then ``wake`` or ``sleep``, then ``settle``, then the decision. ``left`` is its budget
    in ns, ``deadline`` when it is next replenished, which is its place under EDF and when ``settle`` is called again at the
    latest, and ``is_ready`` whether its workload is. As it stands it is a deferrable server: replenished on a grid, idle or not.
    """

    left: float = 0
    deadline: float
    is_ready = False

    def __init__(self, budget: Time, period: Time, *, priority: int = 0, first: Time = 0) -> None:
        self.budget, self.period, self.deadline = (_giusto.time(time) for time in (budget, period, first))
        if not 0 < self.budget <= self.period:
            raise InputError(
                f"a budget of {budget!r} in a period of {period!r}; expected more than 0, and no more than the period"
            )
        self.priority = priority

    def charge(self, ran: int, now: int) -> None:
        """It had a core for ``ran`` ns since the last charge."""
        self.left -= ran

    def wake(self, now: int) -> None:
        """Its workload has become ready; ``settle`` has been called."""

    def sleep(self, now: int) -> None:
        """Its workload has gone idle."""

    def settle(self, now: int) -> None:
        """Time has passed: what became due by now."""
        while self.deadline <= now:
            self.replenish()
            self.deadline += self.period

    def replenish(self) -> None:
        """A period begins."""
        self.left = self.budget


class Unlimited(Kind):
    """Never throttled; under EDF after all others."""

    def __init__(self, *, priority: int = 0) -> None:
        self.left = self.deadline = math.inf
        self.priority = priority


class Prototype:
    """Cores that are scheduled together, as of :class:`giusto.policy.Pool`, with servers of kinds in Python: one for each server
    of a :class:`giusto.System` (each virtual CPU), whose own kinds do not count then.

    >>> import giusto
    >>> class Polling(giusto.policy.Kind):
    ...     def replenish(self):
    ...         self.left = self.budget if self.is_ready else 0
    ...     def sleep(self, now):
    ...         self.left = 0
    >>> system = giusto.System("fixed-priority")
    >>> polling, rest = system.run(["1ms/10ms"], releases="poisson"), system.server("unlimited")
    >>> run = system.simulate("10s", scheduler=Prototype([Polling("2ms", "5ms"), Unlimited(priority=1)], "fixed-priority"))
    >>> run.percentile(50) > 1_000_000
    True
    """

    def __init__(self, kinds: Sequence[Kind], order: str = "edf", cores: int = 1) -> None:
        if order not in ("edf", "fixed-priority"):
            raise InputError(f"{order!r} is no order; expected 'edf' or 'fixed-priority'")
        self.kinds = list(kinds)
        self._by_deadline = order == "edf"
        self._on: List[Optional[int]] = [None] * cores

    def charge(self, core: int, ran: int, now: int) -> None:
        """As of :class:`giusto.policy.Scheduler`, as all that follow."""
        server = self._on[core]
        if server is not None:
            self.kinds[server].charge(ran, now)

    def ready(self, server: int, is_ready: bool, now: int) -> None:
        """Its workload became ready or went idle."""
        if server >= len(self.kinds):
            raise InputError(f"server {server} has no kind; expected as many kinds as there are virtual CPUs")
        kind = self.kinds[server]
        kind.is_ready = is_ready
        if is_ready:
            kind.settle(now)
            kind.wake(now)
        else:
            kind.sleep(now)

    def decide(self, now: int) -> Optional[int]:
        """Replenishes what is due and assigns all cores; when to decide again at the latest."""
        for kind in self.kinds:
            kind.settle(now)
        able = [server for server, kind in enumerate(self.kinds) if kind.is_ready and kind.left > 0]
        chosen = sorted(able, key=self._place)[: len(self._on)]
        # Who ran keeps its core; the others take the free ones.
        self._on = [server if server in chosen else None for server in self._on]
        for server in chosen:
            if server not in self._on:
                self._on[self._on.index(None)] = server
        ends: List[float] = [now + self.kinds[server].left for server in chosen]
        until = min([*ends, *(kind.deadline for kind in self.kinds if kind.deadline > now)], default=math.inf)
        return None if until == math.inf else int(until)

    def running(self, core: int) -> Optional[int]:
        """The server that has ``core``."""
        return self._on[core]

    def _place(self, server: int) -> "tuple[Union[int, float], int]":
        kind = self.kinds[server]
        return (kind.deadline if self._by_deadline else kind.priority), server
