"""The turns, the table and the gates of bench-simso.sh, which calls it: bench-simso.py SPEED ROUNDS SECONDS."""
import re
import statistics
import subprocess
import sys
import time

OURS = 3000  # simulated seconds a round: SimSo's 20 are over in milliseconds
GATE, GROWTH = 1000, 1.05


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def simso(speed, seconds):
    """In a process of its own: plays the tasks of speed.rs with SimSo, a cycle being a ns, so that nothing is rounded."""
    from simso.configuration import Configuration
    from simso.core import Model

    configuration = Configuration()
    configuration.cycles_per_ms = 1
    configuration.duration = seconds * 10**9
    for index, line in enumerate(run(speed, str(seconds), "tasks").splitlines()):
        period, wcet, offset = map(int, line.split())
        configuration.add_task(
            f"T{index}", index + 1, period=period, deadline=period, wcet=wcet, activation_date=offset, abort_on_miss=False
        )
    configuration.add_processor("CPU", 1)
    configuration.scheduler_info.clas = "simso.schedulers.RM"
    configuration.check_all()
    model = Model(configuration)
    start = time.perf_counter()
    model.run_model()
    took = time.perf_counter() - start
    peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read()).group(1)
    done = [[job for job in task.jobs if job.end_date is not None] for task in model.task_list]
    print(sum(map(len, done)), took, peak)
    for jobs in done:
        responses = [int(job.response_time) for job in jobs]
        print(len(responses), max(responses), sum(responses))


def ours(speed, seconds):
    jobs, took, peak = re.fullmatch(r"(\d+) jobs in (\S+) s: .*, (\d+) kB\n", run(speed, str(seconds))).groups()
    return int(jobs), float(took), int(peak)


def row(name, round_, jobs, took, peak):
    print(f"{name:<8}{round_:>6}{jobs:>13,}{took:>11.3f}{jobs / took:>15,.0f}{peak:>13,}", flush=True)


def main(speed, rounds, seconds):
    failed = []
    ratios, peaks = [], []
    print(f"{'':<8}{'round':>6}{'jobs':>13}{'seconds':>11}{'jobs/s':>15}{'peak kB':>13}")
    for round_ in range(1, rounds + 1):
        first, *peer = run(sys.executable, __file__, "simso", speed, str(seconds)).splitlines()
        jobs, took, peak = first.split()
        row("SimSo", round_, int(jobs), float(took), int(peak))
        mine = ours(speed, OURS)
        row("Giusto", round_, *mine)
        ratios.append(mine[0] / mine[1] / (int(jobs) / float(took)))
        peaks.append(mine[2])
    ratio = statistics.median(ratios)
    print(f"ratio of jobs/s: {', '.join(f'{r:,.0f}' for r in ratios)}; median {ratio:,.0f} (gate: >= {GATE:,})")
    if ratio < GATE:
        failed.append("too slow")

    longer = ours(speed, 10 * OURS)
    growth = longer[2] / max(peaks)
    row("Giusto", "x 10", *longer)
    print(f"peak memory at 10 times the length: {growth:.3f} of that at 1 (gate: <= {GROWTH})")
    if not 0 < growth <= GROWTH:
        failed.append("memory grows")

    mine = run(speed, str(seconds), "jobs").splitlines()
    print(f"in {seconds} s      jobs finished        worst response, ns         sum of responses, ns")
    print("  task   SimSo  Giusto       SimSo      Giusto           SimSo          Giusto")
    for task, (theirs, line) in enumerate(zip(peer, mine)):
        (jobs, worst, total), (our_jobs, our_worst, our_total) = theirs.split(), line.split()
        differ = "" if theirs == line else "  DIFFER"
        print(f"{task:>6}{jobs:>8}{our_jobs:>8}{worst:>12}{our_worst:>12}{total:>16}{our_total:>16}{differ}")
    if peer != mine or not mine:
        failed.append("the schedules differ")
    print(f"SimSo and Giusto {'agree' if peer == mine else 'do not agree'} on {len(mine)} tasks")
    sys.exit(f"gate missed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    if sys.argv[1] == "simso":
        simso(sys.argv[2], int(sys.argv[3]))
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
