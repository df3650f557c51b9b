"""The policy core and the simulator from Python."""

import gc

import numpy
import pandas
import polars
import pytest

import giusto
from giusto import policy


def test_a_polling_server_loses_its_budget_when_it_goes_idle():
    pool = policy.Pool("edf")
    server = pool.add("polling", "2ms", "5ms")
    pool.ready(server)
    assert pool.decide(0) == policy.Decision(2_000_000, [0])
    assert pool.running() == server and pool.payer() == server
    pool.ready(server, False, "1ms")
    pool.decide("1ms")
    assert pool.left_ns(server) == 0 and pool.running() is None


def test_calls_that_make_no_sense_are_refused():
    pool = policy.Pool("edf")
    for call in [
        lambda: pool.add("lottery", "1ms", "2ms"),
        lambda: pool.add("deferrable", "3ms", "2ms"),
        lambda: pool.ready(7),
        lambda: pool.running(1),
        lambda: pool.charge("1ms", "1ms", core=3),
        lambda: policy.Pool("edf", 65),
        lambda: policy.Pool("mixed-criticality", 2),
        lambda: policy.Pool("sideways"),
    ]:
        with pytest.raises(giusto.InputError):
            call()
    server = pool.add("deferrable", "1ms", "2ms")
    pool.remove(server, "1ms")
    with pytest.raises(giusto.InputError):
        pool.left_ns(server)


def test_servers_keep_their_numbers_when_others_are_removed():
    pool = policy.Pool("fixed-priority", 2)
    first, second = (pool.add("deferrable", "1ms", "4ms", priority=p) for p in (1, 2))
    pool.remove(first, 0)
    third = pool.add("sporadic", "1ms", "4ms", priority=0)
    for server in (second, third):
        pool.ready(server)
    pool.decide(0)
    assert {pool.running(0), pool.running(1)} == {second, third}
    assert [place.server for place in pool.order()] == [third, second]
    other = pool.copy()
    other.ready(third, False, "1ms")
    other.decide("1ms")
    assert pool.running(0) is not None and pool.running(1) is not None


def test_the_pool_stepped_in_python_makes_the_schedule_of_the_simulator():
    # Servers that are always ready: the only events are those of the pool itself.
    reservations = [("deferrable", 2, 5), ("periodic_strict", 3, 10), ("constant_bandwidth", 1, 4)]
    horizon = 200_000_000
    pool, system = policy.Pool("edf"), giusto.System("edf")
    for kind, budget, period in reservations:
        pool.ready(pool.add(kind, f"{budget}ms", f"{period}ms"))
        system.server(kind, f"{budget}ms", f"{period}ms")
    mine = numpy.zeros(len(reservations), dtype=int)
    before, running = 0, None
    for now in policy.steps(pool, horizon):
        if running is not None:
            mine[running] += now - before
        before, running = now, pool.running()
    if running is not None:
        mine[running] += horizon - before
    run = system.simulate(horizon, slices=True)
    assert [server.consumed_ns for server in run.servers] == list(mine)
    slices = run.slices.array
    for server in range(len(reservations)):
        own = slices[slices["server"] == server]
        assert (own["to_ns"] - own["from_ns"]).sum() == mine[server]


class Edf(policy.Scheduler):
    """EDF among servers with one periodic task each, in Python."""

    def __init__(self, periods):
        super().__init__()
        self.periods, self.deadlines = periods, [0] * len(periods)

    def ready(self, server, is_ready, now):
        super().ready(server, is_ready, now)
        if is_ready:
            self.deadlines[server] = now + self.periods[server]

    def decide(self, now):
        self.waiting.sort(key=lambda server: (self.deadlines[server], server))


def test_a_scheduler_in_python_is_played():
    tasks = [("2ms", "7ms"), ("1ms", "8ms"), ("3ms", "10ms")]
    system, plain = giusto.System(), giusto.System()
    for task in tasks:
        system.run([(*task, None, 0)])
    plain.run([(*task, None, 0) for task in tasks], "edf")
    mine = system.simulate("560ms", scheduler=Edf([7_000_000, 8_000_000, 10_000_000]))
    theirs = plain.simulate("560ms")
    for nth in range(len(tasks)):
        assert (mine.of(server=nth)["finish_ns"] == theirs.of(task=nth)["finish_ns"]).all()


def test_an_exception_of_a_scheduler_ends_the_simulation():
    class Broken(policy.Scheduler):
        def decide(self, now):
            if now > 5_000_000:
                raise LookupError("lost")

    system = giusto.System()
    system.run([("1ms", "2ms", None, 0)])
    with pytest.raises(LookupError, match="lost"):
        system.simulate("1000s", scheduler=Broken())


@pytest.mark.parametrize("answers", [lambda core: 7, lambda core: 0, lambda core: -1])
def test_a_scheduler_may_name_no_server_that_is_not_there_or_twice(answers):
    class Confused(policy.Scheduler):
        def running(self, core):
            return answers(core)

    system = giusto.System(cores=2)
    for _ in range(2):
        system.run([("1ms", "2ms", None, 0)])
    with pytest.raises((giusto.InputError, OverflowError)) as caught:
        system.simulate("1s", scheduler=Confused())
    if answers(0) >= 0:
        assert "expected a server below 2" in str(caught.value)


def test_a_server_has_at_most_1024_virtual_cpus():
    system = giusto.System()
    for vcpus in (0, 1025, 2**31):
        with pytest.raises(giusto.InputError):
            system.run(["1ms/2ms"], vcpus=vcpus)


@pytest.mark.parametrize("scheduler", ["credit", "fair"])
def test_baselines_share_a_core(scheduler):
    system = giusto.System()
    for _ in range(2):
        system.server("unlimited")
    run = system.simulate("1s", scheduler=scheduler)
    assert abs(run.servers[0].consumed_ns - run.servers[1].consumed_ns) < 50_000_000


def test_arrays_are_the_memory_of_the_simulation_and_outlive_it():
    system = giusto.System()
    system.run(["1ms/3ms", "1ms/4ms"], "rm")
    run = system.simulate("12s")
    array = run.array
    assert len(array) == len(run) == 7000 and not array.flags.writeable and not array.flags.owndata
    assert array.__array_interface__["data"][0] == numpy.asarray(run).__array_interface__["data"][0]
    kept = array["finish_ns"][-1]
    del run, system
    gc.collect()
    assert array["finish_ns"][-1] == kept
    with pytest.raises(ValueError):
        array["task"] = 1


def test_percentiles_are_exact_and_seeds_repeat():
    system = giusto.System()
    system.run(["1ms/3ms", "2ms/8ms"], "edf", releases="poisson", execution=20)
    first, again, other = (system.simulate("30s", seed=seed) for seed in (1, 1, 2))
    assert first.array.tobytes() == again.array.tobytes() != other.array.tobytes()
    times = numpy.sort(first.response_ns)
    for p in (1, 50, 99, 99.9, 100):
        assert first.percentile(p) == numpy.percentile(times, p, method="inverted_cdf")
    for p in (-0.1, 100.1):
        with pytest.raises(giusto.InputError):
            first.percentile(p)


def test_a_percentile_is_of_the_number_that_is_written():
    class Known(giusto.Jobs):
        response_ns = numpy.arange(1, 3001)

    # 3000 * 1.1 / 100 is a little more than 33 in floating point.
    assert Known(None).percentile(1.1) == 33


def test_tables():
    system = giusto.System()
    system.run(["1ms/3ms"])
    run = system.simulate("30ms")
    table = run.to_pandas()
    assert isinstance(table, pandas.DataFrame) and list(table.columns) == list(run.array.dtype.names)
    assert (table["finish_ns"] - table["release_ns"] == 1_000_000).all()
    assert len(pandas.DataFrame(run.array)) == 10
    found = giusto.analyze.each(giusto.analyze.interface, {"period": ["2ms", "3ms"]}, tasks=["2ms/7ms"], scheduler="rm")
    assert list(found.to_pandas("budget_ns", "bandwidth").columns) == ["period", "budget_ns", "bandwidth"]


def test_what_reads_arrow_takes_jobs():
    system = giusto.System()
    system.run(["1ms/3ms"])
    run = system.simulate("30ms", slices=True)
    assert polars.DataFrame(run).equals(run.to_polars()) and len(run.to_polars()) == 10
    assert polars.DataFrame(run.slices)["to_ns"].max() == 28_000_000
