"""The table and the gates of bench-interface.sh, which calls it: bench-interface.py PROGRAM SETS."""
import statistics
import subprocess
import sys
import time

MS = 1_000_000
PYTHON = 10  # tasks up to which the Python search takes seconds
PATIENCE = 50_000  # deadlines after which it gives a set up
GATES = {10: (1, 100), 30: (3,), 100: (10,)}  # times as fast as the Rust, and as the Python search


def supply(period, budget, t):
    """sbf of the periodic resource [Lee11, eq. 1]."""
    gap = period - budget
    if t < gap:
        return 0
    y = (t - gap) // period
    return y * budget + max(0, t - 2 * gap - y * period)


def rate_monotonic(tasks):
    """A test of (period, budget): for each task one of its points must have enough."""
    tasks = sorted(tasks)
    points = []
    for i, (own, _) in enumerate(tasks):
        times = {k * period for period, _ in tasks[: i + 1] for k in range(1, own // period + 1)}
        points.append([(t, sum(-(-t // period) * wcet for period, wcet in tasks[: i + 1])) for t in sorted(times)])
    return lambda *resource: all(any(supply(*resource, t) >= work for t, work in own) for own in points)


class GivenUp(Exception):
    pass


def earliest_deadline_first(tasks):
    """A test of (period, budget): every deadline until the lines of supply and demand have crossed."""
    load = sum(wcet / period for period, wcet in tasks)
    patience = PATIENCE

    def enough(period, budget):
        nonlocal patience
        share = budget / period
        until, t = share * 2 * (period - budget) / (share - load) + 1, min(tasks)[0]
        while t <= until:
            if supply(period, budget, t) < sum(t // own * wcet for own, wcet in tasks):
                return False
            patience -= 1
            if patience == 0:
                raise GivenUp
            t = min((t // own + 1) * own for own, _ in tasks)
        return True

    return enough


def plain(tasks, enough):
    """Every period, every budget, in whole ms."""
    load = sum(wcet / period for period, wcet in tasks)
    best, period = (MS, MS), 0
    while True:
        period += MS
        if 2 * (period - best[1] * period // best[0]) > min(tasks)[0] + 2 * MS:
            return best
        budget = (int(load * period) // MS + 1) * MS
        while budget * best[0] < best[1] * period:
            if enough(period, budget):
                best = (period, budget)
                break
            budget += MS


def main(program, sets):
    failed = []
    print("medians; 'up': sets that a peer gave up, which count with the time until then")
    print(f"{'':<6}{'tasks':>6}{'ours ms':>10}{'Rust ms':>12}{'ratio':>9}{'up':>4}{'Python ms':>12}{'ratio':>9}{'up':>4}")
    for count in GATES:
        lines = subprocess.run([program, "pair", str(count), str(sets), "1"], check=True, capture_output=True, text=True)
        rows = {}
        for line in lines.stdout.splitlines():
            scheduler, period, budget, ours, rust, up, *words = line.split()
            row = [float(ours), (float(rust), int(up))]
            if count <= PYTHON:
                tasks = [tuple(map(int, word.split(":"))) for word in words]
                start = time.perf_counter()
                try:
                    found = plain(tasks, {"rm": rate_monotonic, "edf": earliest_deadline_first}[scheduler](tasks))
                except GivenUp:
                    found = None
                row.append(((time.perf_counter() - start) * 1e3, int(found is None)))
                if found not in (None, (int(period), int(budget))):
                    failed.append(f"{scheduler}, {count} tasks: Python finds {found}, we {period}, {budget}")
            rows.setdefault(scheduler, []).append(row)
        for scheduler, all_rows in rows.items():
            ours, *peers = zip(*all_rows)
            text = f"{scheduler:<6}{count:>6}{statistics.median(ours):>10.2f}"
            for peer, gate in zip(peers, GATES[count]):
                ratio = statistics.median(took / own for (took, _), own in zip(peer, ours))
                text += f"{statistics.median(took for took, _ in peer):>12.2f}{ratio:>9.0f}{sum(up for _, up in peer):>4}"
                if ratio < gate:
                    failed.append(f"{scheduler}, {count} tasks: {ratio:.1f} times as fast, the gate is {gate}")
            print(text, flush=True)
    print(subprocess.run([program, "scale"], check=True, capture_output=True, text=True).stdout, end="")
    for why in failed:
        print(why, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
