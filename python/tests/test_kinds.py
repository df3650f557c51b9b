"""Kinds of servers in Python are played as those of the policy core are."""

import random

import numpy
import pytest

import giusto
from giusto import policy


class Polling(policy.Kind):
    """Budget only for a period at whose beginning it is ready; lost when it goes idle."""

    def replenish(self):
        self.left = self.budget if self.is_ready else 0

    def sleep(self, now):
        self.left = 0


class ConstantBandwidth(policy.Kind):
    """Hard CBS: replenished at its deadline, but only if it was used up; a new period where it wakes with too much left."""

    def settle(self, now):
        if self.left <= 0:
            super().settle(now)

    def wake(self, now):
        if self.left > 0 and self.left * self.period > self.budget * (self.deadline - now):
            self.left, self.deadline = self.budget, now + self.period


OWN = {"polling": Polling, "deferrable": policy.Kind, "constant_bandwidth": ConstantBandwidth}


@pytest.mark.parametrize("seed", range(40))
def test_servers_in_python_are_those_of_the_core(seed):
    rng = random.Random(seed)
    order, cores = rng.choice(["edf", "fixed-priority"]), rng.choice([1, 1, 2])
    system, kinds = giusto.System(order, cores), []
    for priority in range(rng.randint(1, 4)):
        name, period = rng.choice(list(OWN)), rng.randint(4, 20) * 100_000
        budget, first = rng.randint(1, period // 100_000) * 100_000, rng.choice([0, 0, rng.randint(1, period)])
        tasks = [f"{rng.randint(1, 9) * 100}us/{rng.randint(9, 30)}00us" for _ in range(rng.randint(1, 2))]
        releases, scheduler = rng.choice(["densest", "random", "poisson"]), rng.choice(["fifo", "rm", "edf"])
        system.server(name, budget, period, tasks=tasks, priority=priority, first=first, scheduler=scheduler, releases=releases)
        kinds.append(OWN[name](budget, period, priority=priority, first=first))
    system.server("unlimited", priority=9)
    kinds.append(policy.Unlimited(priority=9))
    core = system.simulate("2s", seed=seed, slices=True)
    mine = system.simulate("2s", seed=seed, slices=True, scheduler=policy.Prototype(kinds, order, cores))
    assert len(core) > 100 and mine.servers == core.servers
    a, b = (numpy.sort(run.array, order=["server", "task", "job"]) for run in (core, mine))
    assert a.tobytes() == b.tobytes()


def test_kinds_that_make_no_sense_are_refused():
    system = giusto.System()
    system.run(["1ms/2ms+0ms"])
    for call in [
        lambda: policy.Kind("3ms", "2ms"),
        lambda: policy.Kind(0, "2ms"),
        lambda: policy.Prototype([], "sideways"),
        lambda: system.simulate("1s", scheduler=policy.Prototype([])),
    ]:
        with pytest.raises(giusto.InputError):
            call()
