"""What a server costs while nothing fails, beside stock: time and processor time of a read and of a write, memory, and a start.

    python3 coordination/harness/steady.py [--arms stock,giusto] [--rounds 5] [--cold] [--clients 1,10,100]
        [--sizes 100,1000] [--gate]

Each arm has an ensemble of three; arms take turns, cell by cell, while the others idle. A cell: so many clients over all
servers, each with one request under way at a time (rate.c), for --seconds. Warm: after half a minute of all of it. --cold: each
cell is the first work of an ensemble that was started for it. An arm may have flags of java: "giusto -XX:TieredStopAtLevel=1".

Costs are ratios to the first arm's in the same round: time and servers' processor time of an operation, memory (RSS of all
servers), time from the start of all to the first acknowledged write. --gate: exit 5 where one of them is more than 1.05. A single
cell counts where all rounds but one say so; of all cells of reads, and of writes, the geometric mean of the medians counts.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import wire
from ensemble import ROOM, Ensemble
from recovery import Machine, first_write

LIMIT = 1.05
WARM_S = 30


def build(directory):
    program = Path(directory) / "rate"
    subprocess.run(["gcc", "-O2", "-o", program, ROOM / "harness" / "rate.c"], check=True)
    return program


class Arm:
    def __init__(self, text, directory, program):
        self.text, self.directory, self.program = text, directory, program
        self.name, *self.flags = text.split()
        self.ensemble, self.starts, self.memory = None, [], []

    def start(self, size):
        self.ensemble = Ensemble(self.directory, [self.name] * 3, flags=self.flags)
        begin = time.time()
        for s in self.ensemble.servers:
            s.start()
        acknowledged = first_write(self.ensemble.ports(), 60, make=True)
        if acknowledged is None:
            raise RuntimeError(f"{self.text} does not start; see {self.ensemble.dir}")
        self.starts.append(acknowledged - begin)
        self.ensemble.wait_whole()
        session = wire.Session(self.ensemble.wait_leader().client)
        session.create("/rate")
        session.close()
        self.rate(100, 0, size, "create")

    def stop(self):
        if self.ensemble:
            self.memory.append(sum(self.kilobytes(s) for s in self.ensemble.servers) / 1024)
            self.ensemble.__exit__()
            self.ensemble = None

    @staticmethod
    def kilobytes(server):
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def rate(self, clients, seconds, size, what):
        """Operations, seconds, median and p99 in us."""
        done = subprocess.run([self.program, *map(str, (clients, seconds, size, what, *self.ensemble.ports()))],
                              check=True, capture_output=True, text=True)
        return [float(x) for x in done.stdout.split()]

    def cell(self, clients, seconds, size, what):
        pids = [s.process.pid for s in self.ensemble.servers]
        before = Machine(pids)
        answers, took, median, p99 = self.rate(clients, seconds, size, what)
        after = Machine(pids)
        used = sum(after.of[p] - before.of[p] for p in pids)
        others, _ = after.since(before)
        return {"rate": answers / took, "us": 1e6 * took / answers, "cpu_us": 1e6 * used / answers, "p50_us": median,
                "p99_us": p99, "others_s": others}


def compared(rows, arms, rounds):
    """Prints a line a cell, and returns the lines' ratios to the first arm: {arm: {(op, measure): [(cell, ratios)]}}"""
    base, ratios = arms[0].text, {}
    print(f"{'':<22}" + "".join(f"{a.text[:30]:>32}" for a in arms))
    for cell in dict.fromkeys(cell for cell, _, _ in rows):
        line = f"{cell[2]:<6}{cell[0]:>4} x {cell[1]:>5} B  "
        for a in arms:
            mine = [r for c, name, r in rows if c == cell and name == a.text]
            theirs = [r for c, name, r in rows if c == cell and name == base]
            rate, used = (statistics.median(r[name] for r in mine) for name in ("rate", "cpu_us"))
            line += f"{rate:>8.0f}/s {used:>5.0f} us"
            if a.text != base:
                pair = {m: [x[m] / y[m] for x, y in zip(mine, theirs)] for m in ("us", "cpu_us")}
                line += f" ({statistics.median(pair['us']):.2f}, {statistics.median(pair['cpu_us']):.2f})"
                for measure, values in pair.items():
                    ratios.setdefault(a.text, {}).setdefault((cell[2], measure), []).append((cell, values))
            else:
                line += " " * 13
        print(line)
    return ratios


def judged(ratios, arms):
    """What costs too much."""
    missed, base = [], arms[0]
    for a in arms[1:]:
        for (what, measure), cells in ratios[a.text].items():
            mean = math.exp(statistics.fmean(math.log(statistics.median(values)) for _, values in cells))
            name = {"us": "time", "cpu_us": "processor time"}[measure]
            print(f"{a.text}: {name} of a {what}, geometric mean over cells: {mean:.3f} of {base.text}'s")
            if mean > LIMIT:
                missed.append(f"{a.text}: {name} of a {what} {mean:.2f}")
            for cell, values in cells:
                if len(values) > 2 and sorted(values)[1] > LIMIT:
                    where = f"{name} of a {what}, {cell[0]} clients, {cell[1]} B"
                    missed.append(f"{a.text}: {where}: {statistics.median(values):.2f}")
        for name, unit, mine, theirs in (("start", "s", a.starts, base.starts), ("memory", "MB", a.memory, base.memory)):
            mine, theirs = statistics.median(mine), statistics.median(theirs)
            print(f"{a.text}: {name} {mine:.2f} {unit}, {mine / theirs:.2f} of {base.text}'s {theirs:.2f}")
            if mine > LIMIT * theirs:
                missed.append(f"{a.text}: {name} {mine / theirs:.2f}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", default="stock,giusto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--clients", default="1,10,100")
    parser.add_argument("--sizes", default="100,1000")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    parser.add_argument("--gate", action="store_true")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    cells = [(int(c), int(s), what) for what in ("read", "write") for s in a.sizes.split(",") for c in a.clients.split(",")]
    rows = []
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="giusto-zk-") as scratch:
        program = build(scratch)
        arms = [Arm(text, Path(scratch) / str(i), program) for i, text in enumerate(a.arms.split(","))]
        try:
            for arm in arms if not a.cold else ():
                arm.start(1000)
                for what in ("write", "read", "write", "read"):
                    arm.rate(30, WARM_S / 4, 500, what)
            for r in range(a.rounds):
                for cell in cells:
                    for arm in arms[r % len(arms):] + arms[:r % len(arms)]:
                        if a.cold:
                            arm.start(cell[1])
                        else:
                            arm.rate(100, 0, cell[1], "write")  # nodes of this size
                        rows.append((cell, arm.text, arm.cell(cell[0], a.seconds, cell[1], cell[2])))
                        if a.cold:
                            arm.stop()
                print(f"round {r + 1} of {a.rounds}", file=sys.stderr)
        finally:
            for arm in arms:
                arm.stop()
        print(f"{'cold' if a.cold else 'warm'}: operations a second, processor time of all servers for one (ratios of both)")
        missed = judged(compared(rows, arms, a.rounds), arms)
    others = statistics.median(r["others_s"] for _, _, r in rows) / a.seconds
    print(f"machine: {os.cpu_count()} cores, load before {load:.1f}; others had {others:.2f} of a core (median of cells)")
    kind = "cold" if a.cold else "warm"
    cells = [{"clients": c[0], "size": c[1], "op": c[2], "arm": arm, **r} for c, arm, r in rows]
    (a.out / f"steady-{kind}.json").write_text(json.dumps(cells))
    for what in missed:
        print(f"more than {LIMIT}: {what}")
    if a.gate and missed:
        sys.exit(5)


if __name__ == "__main__":
    main()
