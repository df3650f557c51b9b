"""The policy core stepped from Python: the same C source that runs on hosts, in the simulator and in the kernel.

A :class:`Pool` holds servers and says at each time who has which core. Calls carry the time and are in the order of time; at
one instant: charge each core, then owe, ready, set and boost, then decide (policy/README.md). All times are whole ns or texts.

>>> pool = Pool("edf")
>>> a, b = pool.add("constant_bandwidth", "2ms", "5ms"), pool.add("deferrable", "1ms", "4ms")
>>> pool.ready(a, True), pool.ready(b, True)
(None, None)
>>> pool.decide(0), pool.running() == b
(Decision(until=1000000, changed=[0]), True)

A :class:`Scheduler` is one of your own, in Python, with the same calls: :meth:`giusto.System.simulate` plays it. A
:class:`Kind` is a kind of server of your own, of which a :class:`Prototype` makes a scheduler.
"""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional

from ._giusto import PoolData, kinds
from ._kinds import Kind, Prototype, Unlimited
from ._words import Time

__all__ = ["Decision", "KINDS", "Kind", "Place", "Pool", "Prototype", "Scheduler", "Unlimited", "steps"]

KINDS: List[str] = kinds()
"""The kinds of servers (policy/README.md, "Kinds")."""


class Decision(NamedTuple):
    """``until``: decide again at the latest then, in ns (``None``: nothing will change by itself). ``changed``: the cores that
    another server, or none, has now."""

    until: Optional[int]
    changed: List[int]


class Place(NamedTuple):
    """A place in the order of a pool: ``keeps_core``: it is idle and its budget burns; ``leftovers``: it has no claim to a
    core."""

    server: int
    keeps_core: bool
    leftovers: bool


class Pool:
    """``cores`` that are scheduled together, and their servers, by numbers from 0 in the order in which they are added.

    ``order`` is ``"fixed-priority"``, ``"edf"`` or, on one core, ``"mixed-criticality"``. Every call is O(log n + cores).
    """

    def __init__(self, order: str = "edf", cores: int = 1) -> None:
        self._data = PoolData(order, cores)

    def add(self, kind: str, budget: Time = 0, period: Time = 0, *, priority: int = 0, first: Time = 0, now: Time = 0) -> int:
        """Adds a server, idle. ``first``: its first replenishment, before which it has no budget; 0: now, with full budget.
        ``priority``: smaller is higher. An ``"unlimited"`` one needs no budget."""
        if kind == "unlimited" and not budget:
            budget = period = 1
        return self._data.add(kind, budget, period, priority, first, now)

    def add_mixed(
        self,
        optimistic: Time,
        period: Time,
        *,
        worst: Optional[Time] = None,
        virtual_deadline: Optional[Time] = None,
        first: Time = 0,
        now: Time = 0,
    ) -> int:
        """Adds a server of mixed criticality [Asy20]: high with a ``worst`` budget, else low."""
        deadline = period if virtual_deadline is None else virtual_deadline
        return self._data.add_mixed(optimistic, worst, period, deadline, first, now)

    def set(self, server: int, budget: Time, period: Time, *, priority: int = 0, next_period: bool = False, now: Time) -> None:
        """Changes a reservation at once, or with its next period."""
        self._data.set(server, budget, period, priority, next_period, now)

    def remove(self, server: int, now: Time) -> int:
        """Takes a server out; from the returned time on (ns) its bandwidth is free."""
        return self._data.remove(server, now)

    def boost(self, server: int, until: Time, now: Time) -> None:
        """Puts a server above all others until then, beyond its budget."""
        self._data.boost(server, until, now)

    def charge(self, ran: Time, now: Time, core: int = 0) -> None:
        """The server on ``core`` really had the processor for ``ran`` since the last charge. What is not charged counts in
        full."""
        self._data.charge(core, ran, now)

    def owe(self, server: int, ran: Time, now: Time) -> None:
        """The server had the processor for ``ran`` besides that, and pays, into debt."""
        self._data.owe(server, ran, now)

    def ready(self, server: int, is_ready: bool = True, now: Time = 0) -> None:
        """Its workload became ready or went idle. Takes effect at the next decision."""
        self._data.ready(server, is_ready, now)

    def decide(self, now: Time) -> Decision:
        """Replenishes what is due and assigns all cores."""
        return Decision(*self._data.decide(now))

    def running(self, core: int = 0) -> Optional[int]:
        """The server that has ``core``."""
        return self._data.running(core)

    def payer(self, core: int = 0) -> Optional[int]:
        """The server that is charged for what runs on ``core``; ``None`` on a lent budget."""
        return self._data.payer(core)

    def left_ns(self, server: int) -> int:
        """Its budget left at the time of the last call; below 0 is debt."""
        return self._data.left_ns(server)

    def deadline_ns(self, server: int) -> Optional[int]:
        """Its next replenishment or deadline; ``None`` of an unlimited one."""
        return self._data.deadline_ns(server)

    def boost_ns(self, server: int) -> int:
        """What it has consumed boosted beyond its budget."""
        return self._data.boost_ns(server)

    def order(self, capacity: int = 1024) -> List[Place]:
        """Who may run, highest first, the idle at the places that they would have if they woke."""
        return [Place(*place) for place in self._data.order(capacity)]

    def is_critical(self) -> bool:
        """Whether a core of mixed criticality is in HI, as the last decision left it."""
        return self._data.is_critical()

    def cooling(self, degrees: int, *, by_temperature: bool = False) -> None:
        """For how many periods a high server that asked is hot, and whether HI ends by temperature alone."""
        self._data.cooling(degrees, by_temperature)

    def copy(self) -> Pool:
        """Another pool that stands where this one does."""
        other = Pool.__new__(Pool)
        other._data = self._data.copy()
        return other


class Scheduler:
    """A scheduler of your own: override what differs, and give it to :meth:`giusto.System.simulate`.

    Servers, and each virtual CPU of one by itself, are numbered in the order of the system, cores from 0; times are whole ns.
    At one instant: ``charge`` for each core, then ``ready``, then ``decide``, then ``running`` for each core, which names no
    server on two. This one runs the ready server of the lowest number on the first core.
    """

    def __init__(self) -> None:
        self.waiting: List[int] = []

    def charge(self, core: int, ran: int, now: int) -> None:
        """The server on ``core`` had the processor for ``ran`` ns since the last charge."""

    def ready(self, server: int, is_ready: bool, now: int) -> None:
        """The server's workload became ready or went idle."""
        if is_ready:
            self.waiting.append(server)
        else:
            self.waiting.remove(server)

    def decide(self, now: int) -> Optional[int]:
        """Assigns all cores; when to decide again at the latest, in ns, or ``None``."""
        self.waiting.sort()
        return None

    def running(self, core: int) -> Optional[int]:
        """Who has ``core``."""
        return self.waiting[core] if core < len(self.waiting) else None


def steps(pool: Pool, until: int, now: int = 0) -> Iterator[int]:
    """The times at which a pool decides by itself, from ``now`` to ``until`` (ns): each is decided when it is yielded.

    >>> pool = Pool("edf")
    >>> server = pool.add("periodic_strict", "1ms", "3ms")
    >>> pool.ready(server)
    >>> [(now // 1000, pool.running()) for now in steps(pool, 6_000_000)]
    [(0, 0), (1000, None), (3000, 0), (4000, None), (6000, 0)]
    """
    at: Optional[int] = now
    while at is not None and at <= until:
        following = pool.decide(at).until
        yield at
        at = None if following is not None and following <= at else following
