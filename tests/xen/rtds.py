"""A model of the rules of Xen's scheduler RTDS (xen/common/sched/rt.c, 4.17), on cores of their own: virtual CPUs are pinned.

A virtual CPU has a period and a budget, a deadline and what is left of its budget. At the deadline the budget is replaced, by the
period and the budget of that moment; one that sleeps is renewed when it wakes up after it. The earliest deadline runs. With its
budget used up it waits, or, with extra time, goes on behind all that have budget. A change writes period and budget only. Times
are whole us.
"""
from dataclasses import dataclass, field


@dataclass
class Vcpu:
    period: int
    budget: int
    extra: bool
    core: object
    deadline: int
    switches: list  # instants at which it begins or ends to have work, ascending
    left: int = 0
    level: int = 0
    has_work: bool = True
    # Of the period that runs: what it had at its begin, what it got, and whether it had work all the time.
    begin: int = 0
    had: int = 0
    got: int = 0
    whole: bool = False
    periods: list = field(default_factory=list)  # (begin, end, had, got, whole) of those that ended

    def renew(self, now, woken):
        self.periods.append((self.begin, now, self.had, self.got, self.whole and not woken))
        while self.deadline <= now:
            self.deadline += self.period
        self.left, self.level = self.budget, 0
        self.begin, self.had, self.got, self.whole = now, self.budget, 0, not woken


def play(vcpus, actions, until):
    """`actions`: (instant, function), ascending; what they change counts as in rt.c."""
    now, actions = 0, list(actions)
    while now < until:
        running = {}
        for vcpu in vcpus:
            if vcpu.has_work and vcpu.left > 0:
                best = running.get(vcpu.core)
                if best is None or (vcpu.level, vcpu.deadline) < (best.level, best.deadline):
                    running[vcpu.core] = vcpu
        steps = [now + vcpu.left for vcpu in running.values()] + [until]
        steps += [vcpu.deadline for vcpu in vcpus if vcpu.has_work]
        steps += [vcpu.switches[0] for vcpu in vcpus if vcpu.switches]
        steps += [actions[0][0]] if actions else []
        then = max(now, min(steps))
        for vcpu in running.values():
            vcpu.left -= then - now
            if vcpu.level == 0:
                vcpu.got += then - now
        now = then
        for vcpu in vcpus:
            if vcpu.has_work and vcpu.deadline <= now:
                vcpu.renew(now, woken=False)
            if vcpu.switches and vcpu.switches[0] <= now:
                vcpu.switches.pop(0)
                vcpu.has_work = not vcpu.has_work
                vcpu.whole = False
                if vcpu.has_work and vcpu.deadline <= now:
                    vcpu.renew(now, woken=True)
            if vcpu.left == 0 and vcpu.extra:
                vcpu.left, vcpu.level = vcpu.budget, vcpu.level + 1
        while actions and actions[0][0] <= now:
            actions.pop(0)[1]()
