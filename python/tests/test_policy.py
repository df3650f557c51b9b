"""The policy core and the simulator from Python."""

import gc
import random
import resource
import subprocess
import sys

import numpy
import pandas
import polars
import pyarrow
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


def test_a_job_has_one_slice_more_than_it_was_preempted():
    system = giusto.System()
    system.run(["2ms/7ms+0ms", "4ms/9ms+0ms", "1ms/20ms+0ms"], "rm")
    run = system.simulate("1260ms", slices=True)
    # At the ns at which a job comes that has a shorter period, while one runs: the first and second task preempt.
    came = {(job[1], job[2]): job[4] for job in run.array.tolist()}
    stretches = {}
    for _, task, job, start, end in run.slices.array.tolist():
        assert start < end
        stretches.setdefault((task, job), []).append((start, end))
    assert sum(end - start for each in stretches.values() for start, end in each) == run.servers[0].consumed_ns
    preempted = 0
    for (task, _), each in stretches.items():
        for (_, stopped), (again, _) in zip(each, each[1:]):
            assert stopped < again
            assert any(release == stopped and other < task for (other, _), release in came.items())
            preempted += 1
    assert preempted == len(run.slices) - len(stretches) > 20


def test_missed_deadlines_are_those_of_each_job_by_itself():
    system = giusto.System("fixed-priority")
    tasks = [("1ms", "4ms", "2ms", 0), ("2ms", "6ms", None, 0, 2), ("1ms", "9ms", "3ms", 0)]
    system.run(tasks[:2], "rm")
    system.server("deferrable", "1ms", "5ms", priority=1, tasks=tasks[2:])
    run = system.simulate("3600ms")
    deadlines = [[2_000_000, 6_000_000, 6_000_000], [3_000_000]]
    assert run.deadlines_ns == deadlines
    late = [job for job in run.array.tolist() if job[5] - job[4] > deadlines[job[0]][job[1]]]
    assert run.missed.tolist() == late and 0 < len(late) < len(run)


def test_worst_cases_on_a_whole_core_are_the_points_of_its_certificate():
    rng, seen = random.Random(3), 0
    for _ in range(40):
        tasks = []
        for _ in range(rng.randint(2, 6)):
            period = rng.choice([4, 5, 7, 8, 10, 12, 20, 25, 40])
            wcet = rng.randint(1, period * 1000 // 3)
            tasks.append((f"{wcet}us", f"{period}ms", f"{rng.randint(wcet, period * 1000)}us", 0))
        found = giusto.analyze.given(tasks, "dm", "1ms/1ms")
        if not found:
            continue
        system = giusto.System()
        system.run(tasks, "dm")
        run = system.simulate("1s")
        for point in found.certificate.points:
            own = run.of(task=point.task)
            assert point.at_ns == (own["finish_ns"] - own["release_ns"]).max()
            seen += 1
        assert not len(run.missed)
    assert seen > 50


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
    columns = {name: run.array[name] for name in run.array.dtype.names}
    assert polars.DataFrame(run).equals(polars.DataFrame(columns)) and run.to_polars().equals(polars.DataFrame(columns))
    assert polars.DataFrame(run.slices)["to_ns"].max() == 28_000_000
    table = pyarrow.table(run)
    assert table.schema.names == list(run.array.dtype.names) and table.schema.types[:3] == ["uint32", "uint32", "int64"]
    assert pyarrow.table(run.slices).schema.types[:2] == ["uint32", "int32"]
    for records in (run, run.slices):
        for name, column in pyarrow.table(records).to_pydict().items():
            assert column == records.array[name].tolist()
    none = giusto.System()
    none.server("unlimited")
    assert pyarrow.table(none.simulate("1ms")).num_rows == 0


def test_arrow_has_batches_that_outlive_all_else_and_leaves_nothing():
    system = giusto.System()
    system.run(["1us/2us", "1us/4us"], "rm")
    run = system.simulate("6s")
    finish = run.array["finish_ns"].copy()
    reader = pyarrow.RecordBatchReader.from_stream(run)
    before, first = run, reader.read_next_batch()
    del run
    gc.collect()
    rest = list(reader)
    assert len(rest) > 2 and all(len(batch) == len(first) for batch in rest[:-1]) and pyarrow.total_allocated_bytes() == 0
    batches = [first, *rest]
    del reader, rest, first
    for batch in batches:
        batch.validate(full=True)
    assert (numpy.concatenate([batch["finish_ns"].to_numpy() for batch in batches]) == finish).all()
    column = batches[0]["finish_ns"]
    del batches
    assert column.to_numpy(zero_copy_only=True)[7] == finish[7]
    # Capsules that are never read, streams that are left half way, columns that are taken out of their batch.
    for _ in range(3):
        before.__arrow_c_stream__()
        pyarrow.RecordBatchReader.from_stream(before).read_next_batch().column(3)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        before.__arrow_c_stream__(None)
        pyarrow.RecordBatchReader.from_stream(before).read_next_batch().column(3)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most
    assert grown < 5 * 40 * 1024, f"{grown} KiB after batches of 40 MiB"


def test_arrow_needs_no_library():
    code = (
        "import sys, giusto; system = giusto.System(); system.run(['1ms/3ms']); run = system.simulate('30ms'); "
        "print(type(run.__arrow_c_stream__()).__name__, [m for m in ('numpy', 'pyarrow', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "PyCapsule []\n"
