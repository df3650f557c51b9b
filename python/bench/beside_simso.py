"""SimSo and import giusto in one process, in turns, on the same task sets: RM and EDF on one processor.

beside_simso.py [ROUNDS] [SECONDS for SimSo to simulate]

Both must finish the same jobs with the same worst and total response time for each task, and each must read the other's files.
Gate: 1,000 times SimSo's jobs a second of processor time (of all threads), the median over all rounds. Ours keeps every job in an
array, as SimSo keeps its own.
tests/bench-python.sh runs it, with what tests/simso-pins.sh pins. Exit: 0 held, 1 not.
"""

import builtins
import random
import statistics
import sys
import tempfile
import time

import giusto

GATE = 1000
# Simulated seconds of ours for one of SimSo's, so that both run for a time that can be told.
MORE = 100


def task_set(rng):
    """(wcet, period, offset) in ns: a few tasks of different periods, U from 0.5 to 0.9. Of equal ranks the two take different
    ones."""
    periods = rng.sample([1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20], rng.randint(4, 10))
    load, shares = rng.uniform(0.5, 0.9), [rng.random() for _ in periods]
    found = []
    for share, ms in zip(shares, periods):
        period = ms * 1_000_000
        found.append((max(1000, int(share / sum(shares) * load * period) // 1000 * 1000), period, rng.randrange(1000) * 1000))
    return found


def same_files(tasks, scheduler):
    """Whether each reads what the other writes, as it was."""
    from simso.configuration import Configuration

    given = [giusto.Task(wcet, period, period, offset) for wcet, period, offset in tasks]
    ours = giusto.readers.SimSo({f"T{nth}": task for nth, task in enumerate(given)}, f"simso.schedulers.{scheduler}", 1, 10**9)
    with tempfile.TemporaryDirectory() as folder:
        giusto.readers.write_simso(ours, f"{folder}/ours.xml")
        theirs = Configuration(f"{folder}/ours.xml")
        theirs.check_all()
        read = [(task.wcet, task.period, task.deadline, task.activation_date) for task in theirs.task_info_list]
        told = [(task.wcet / 1e6, task.period / 1e6, task.deadline / 1e6, task.offset / 1e6) for task in given]
        theirs.save(f"{folder}/theirs.xml")
        return read == told and giusto.readers.simso(f"{folder}/theirs.xml") == ours


def simso(tasks, scheduler, seconds):
    """Jobs, seconds, and for each task its jobs, worst and total response time."""
    from simso.configuration import Configuration
    from simso.core import Model

    configuration = Configuration()
    configuration.cycles_per_ms = 1  # a cycle is a ns, so that nothing is rounded
    configuration.duration = seconds * 10**9
    for index, (wcet, period, offset) in enumerate(tasks):
        configuration.add_task(
            f"T{index}", index + 1, period=period, deadline=period, wcet=wcet, activation_date=offset, abort_on_miss=False
        )
    configuration.add_processor("CPU", 1)
    configuration.scheduler_info.clas = f"simso.schedulers.{scheduler}"
    configuration.check_all()
    model = Model(configuration)
    # Its EDF prints each job, which would be most of what it does.
    told, builtins.print = builtins.print, lambda *_, **__: None
    try:
        start = time.process_time()
        model.run_model()
        took = time.process_time() - start
    finally:
        builtins.print = told
    done = [[int(job.response_time) for job in task.jobs if job.end_date is not None] for task in model.task_list]
    return sum(map(len, done)), took, [(len(times), max(times), sum(times)) for times in done]


def ours(tasks, scheduler, seconds):
    """The same."""
    system = giusto.System()
    system.run([giusto.Task(wcet, period, None, offset) for wcet, period, offset in tasks], scheduler.lower())
    start = time.process_time()
    run = system.simulate(f"{seconds}s")
    took = time.process_time() - start
    each = []
    for index in range(len(tasks)):
        own = run.of(task=index)
        times = own["finish_ns"] - own["release_ns"]
        each.append((len(times), int(times.max()), int(times.sum())))
    return len(run), took, each


def main(rounds, seconds):
    rng, ratios, differ = random.Random(1), [], 0
    print(f"{'round':>5}  {'scheduler':<10}{'tasks':>5}{'SimSo jobs/s':>15}{'giusto jobs/s':>16}{'ratio':>9}  results")
    for round_ in range(1, rounds + 1):
        for scheduler in ("RM", "EDF"):
            tasks = task_set(rng)
            jobs, took, theirs = simso(tasks, scheduler, seconds)
            same = ours(tasks, scheduler, seconds)[2] == theirs and same_files(tasks, scheduler)
            differ += not same
            mine, mine_took, _ = ours(tasks, scheduler, seconds * MORE)
            ratios.append(mine / mine_took / (jobs / took))
            speeds = f"{jobs / took:>15,.0f}{mine / mine_took:>16,.0f}{ratios[-1]:>9,.0f}"
            print(f"{round_:>5}  {scheduler:<10}{len(tasks):>5}{speeds}  {'equal' if same else 'DIFFER'}", flush=True)
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:,.0f} (gate: >= {GATE:,}); {differ} of {len(ratios)} differ")
    return int(ratio < GATE or differ > 0)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(given + [5, 4][len(given) :])))
