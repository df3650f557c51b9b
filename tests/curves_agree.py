"""`giusto analyze path` for messages of an arrival curve, beside two other ways to the same bound.

Compositional performance analysis, as pycpa has it: chains of TDMA slots (a share at a fixed place of its period) and of cores
with one task (its static priority scheduler), periodic sources with jitter and a least distance. It is written in
tests/compositional.py; with pycpa itself at hand, that is asked too and must say the same. Ours must not be above

- the sum of worst response times, passed on by jitter or by busy windows;
- the path analysis of Schliecker et al. 2009, over the windows of all stages; nor below, as nothing that we do is closer.

The sum that we tell beside the bound may be above the sum by busy windows: we pass on each line of an arrival curve by itself,
and the largest of the smallest is no more than the smallest of the largest. It is exactly what that gives (`by_lines`).

The Deterministic Network Calculator: tandems of rate-latency servers, token-bucket arrivals, all in ns of a core. A share B/P has
the rate B/P and the latency P - B where it is alone, 2 (P - B) in company. Messages are atoms: the next stage begins with one
when it is whole. For a fluid that is a packetizer, which takes C/R of the service curve of each server but the last (Le Boudec
and Thiran 2001, theorem 1.7.1). Of two flows, which go the whole way, ours knows the sum. Ours must not be above the best of TFA,
SFA (flows in order, and in any), and PMOO; above the bound for bits, which wait for no message's end, it may be."""
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import compositional

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
GIUSTO = TARGET / "release/giusto"
SEED = int(os.environ.get("GIUSTO_SEED", "5"))


def giusto(*args):
    # Much time, as all of this runs in what others leave.
    command = [GIUSTO, "analyze", "path", "--json", "--for", "10min", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{' '.join(args)}: {done.stderr}"
    return json.loads(done.stdout)["every"]


class Below:
    """How often ours is below, and how far; it may be above by `rounding` ns and a billionth."""

    def __init__(self, what, rounding):
        self.what, self.rounding, self.cases, self.below, self.above = what, rounding, 0, [], []

    def add(self, ours, theirs, case):
        self.cases += 1
        slack = self.rounding + 1e-9 * theirs
        if ours > theirs + slack:
            self.above.append((ours / theirs - 1, f"{ours} ns beside {theirs}: {case}"))
        elif ours < theirs - slack:
            self.below.append(1 - ours / theirs)

    def __str__(self):
        if not self.below:
            return f"{self.what}: {self.cases}, equal"
        median, most = statistics.median(self.below), max(self.below)
        return (f"{self.what}: {self.cases}, below in {len(self.below)} by {100 * median:.0f} % (median), "
                f"{100 * most:.0f} % (most)")

    def never_above(self):
        assert not self.above, f"{self.what}: above in {len(self.above)} of {self.cases}; the most: {max(self.above)[1]}"


def draw_chain(rng):
    """(period, jitter, distance) of the source; stages (budget, period, least service time, most), of a core 0, 0, ..."""
    period = rng.randrange(2_000, 20_000) * rng.choice([1, 777, 1000])
    stages = []
    for _ in range(rng.randint(1, 5)):
        load, budget, cycle = rng.uniform(0.1, 0.95), 0, 0
        most = int(load * period)
        if rng.random() < 0.75:
            cycle = int(period * 10 ** rng.uniform(-1.3, 1))
            budget = max(1, int(cycle * rng.uniform(0.1, 0.9)))
            most = max(1, int(load * period * budget / cycle))
        least = most if rng.random() < 0.6 else rng.randint(max(1, most // 3), most)
        stages.append((budget, cycle, least, most))
    jitter = int(period * rng.choice([0, rng.uniform(0, 1), rng.uniform(1, 6)]))
    distance = int(period * rng.choice([0, rng.uniform(0.01, 0.6)]))
    return (period, jitter, distance), stages


def ours_of_chain(arrival, stages):
    args = []
    for name, time in zip(("--period", "--jitter", "--distance"), arrival):
        args += [name, f"{time}ns"] if time else []
    for budget, cycle, least, most in stages:
        service = f"{most}ns" if least == most else f"{least}ns*50%,{most}ns"
        args += ["--stage", f"periodic:{budget}ns/{cycle}ns:{service}" if cycle else f"core:{service}"]
    return giusto(*args)


def pycpa_of_chain(arrival, stages, propagation, whole):
    """What pycpa itself says: the sum, or with `whole` its improved analysis of the path."""
    from pycpa import analysis, model, options, path_analysis, schedulers
    options.set_opt("propagation", propagation)
    system, tasks = model.System(), []
    for number, (budget, cycle, least, most) in enumerate(stages):
        scheduler = schedulers.TDMAScheduler() if cycle else schedulers.SPPScheduler()
        resource = system.bind_resource(model.Resource(f"r{number}", scheduler))
        tasks.append(resource.bind_task(model.Task(f"t{number}", wcet=most, bcet=least, scheduling_parameter=budget)))
        if cycle > budget:
            # The rest of the cycle is a slot of another, of which nothing else is asked.
            rest = resource.bind_task(model.Task(f"rest{number}", wcet=0, bcet=0, scheduling_parameter=cycle - budget))
            rest.in_event_model = model.PJdEventModel(P=10**15)
    for before, after in zip(tasks, tasks[1:]):
        before.link_dependent_task(after)
    tasks[0].in_event_model = model.PJdEventModel(P=arrival[0], J=arrival[1], dmin=arrival[2])
    path = system.bind_path(model.Path("path", tasks))
    found = analysis.analyze_system(system)
    way = path_analysis.end_to_end_latency_improved if whole else path_analysis.end_to_end_latency_classic
    return way(path, found, 1)[1]


def chains(count, pycpa):
    rng = random.Random(SEED)
    jitter, busy, path = Below("sums by jitter", 0), Below("sums by busy windows", 0), Below("path analysis", 0)
    by_line, asked = 0, 0
    for _ in range(count):
        case = draw_chain(rng)
        ours = ours_of_chain(*case)
        sum_jitter = sum(compositional.local(*case, compositional.by_jitter)[1])
        found, times = compositional.local(*case, compositional.by_windows)
        whole = compositional.chain(case[0], found)
        jitter.add(ours["within_ns"], sum_jitter, case)
        busy.add(ours["within_ns"], sum(times), case)
        path.add(ours["within_ns"], whole, case)
        lines = sum(compositional.by_lines(*case))
        assert ours["sum_ns"] == lines, f"sum of {case}: {ours['sum_ns']} ns, line by line {lines}"
        by_line += lines > sum(times)
        ways = 1
        for windows in found:
            ways *= len(windows)
        # pycpa walks through all combinations of windows.
        if pycpa and ways < 5000:
            asked += 1
            for what, theirs in ((("jitter_dmin", False), sum_jitter), (("busy_window", False), sum(times)),
                                 (("busy_window", True), whole)):
                said = pycpa_of_chain(*case, *what)
                assert said == theirs, f"pycpa, {what}, {case}: {said} ns, tests/compositional.py {theirs}"
    for one in (jitter, busy, path):
        one.never_above()
    # A bound of ours that is closer than that needs a proof first.
    assert not path.below, f"path analysis: below in {len(path.below)}, by a part of {max(path.below):.2g} at most"
    also = f", and pycpa itself of {asked}" if pycpa else ""
    print(f"compositional analysis{also}: never above; {jitter}; {busy}; {path}; our sum above that by busy windows in {by_line}")


def draw_tandem(rng):
    """Service time in ns; servers (kind, budget, period); flows (messages a second, burst)."""
    servers = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(["periodic", "deferrable", "company", "core"])
        period = rng.randrange(200_000, 20_000_000)
        servers.append((kind, period if kind == "core" else int(period * rng.uniform(0.1, 0.9)), period))
    slowest = min(budget / period for _, budget, period in servers)
    service = int(10 ** rng.uniform(4.5, 7))
    rate = max(2, int(rng.uniform(0.1, 0.95) * slowest * 1e9 / service))
    if rate * service >= 0.97e9 * slowest:
        return draw_tandem(rng)
    flows = [(rate, rng.randint(1, 20))]
    if rng.random() < 0.5:
        part = rng.randint(1, rate - 1)
        flows = [(part, flows[0][1]), (rate - part, rng.randint(1, 20))]
    return service, servers, flows


def ours_of_tandem(service, servers, flows):
    args = ["--rate", f"{sum(rate for rate, _ in flows)}/s", "--burst", str(sum(burst for _, burst in flows))]
    for kind, budget, period in servers:
        args += ["--stage", f"core:{service}ns" if kind == "core" else f"{kind}:{budget}ns/{period}ns:{service}ns"]
    return giusto(*args)["within_ns"]


def rate_latency(service, servers, whole):
    """Rate and latency in ns; `whole`: as messages are passed on when they are."""
    for number, (kind, budget, period) in enumerate(servers, 1):
        latency = (period - budget) * {"company": 2, "core": 0}.get(kind, 1)
        yield budget / period, latency + (service * period / budget if whole and number < len(servers) else 0)


def dnc(tandems):
    """TFA and SFA in order, SFA and PMOO in any order, for each (servers, flows)."""
    lines = []
    for servers, flows in tandems:
        pairs = [", ".join(f"{one!r} {other!r}" for one, other in part) for part in (servers, flows)]
        lines.append("; ".join(pairs))
    classes = f"{TARGET}/dnc/classes:{TARGET}/dnc/jars/*"
    done = subprocess.run(["java", "-XX:+UseSerialGC", "-cp", classes, "Bounds"], input="\n".join(lines), capture_output=True,
                          text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def tandems(count):
    rng = random.Random(SEED + 1)
    drawn = [draw_tandem(rng) for _ in range(count)]
    asked = []
    for whole in (True, False):
        for service, servers, flows in drawn:
            arrivals = [(rate * service / 1e9, float(burst * service)) for rate, burst in flows]
            asked.append((list(rate_latency(service, servers, whole)), arrivals))
    bounds = dnc(asked)
    assert len(bounds) == 2 * count
    best = Below("the best of TFA, SFA, PMOO", 2)
    ways = [Below(way, 2) for way in ("TFA", "SFA", "SFA in any order", "PMOO")]
    bits = Below("bits", 2)
    for number, case in enumerate(drawn):
        servers, flows = asked[number]
        theirs = bounds[number]
        if len(flows) == 1:
            # What the DNC was asked is what was meant: of one flow its PMOO is known.
            known = sum(latency for _, latency in servers) + flows[0][1] / min(rate for rate, _ in servers)
            assert abs(theirs[3] / known - 1) < 1e-6, (theirs, known, case)
        ours = ours_of_tandem(*case)
        best.add(ours, min(theirs), case)
        bits.add(ours, min(bounds[count + number]), case)
        for way, bound in zip(ways, theirs):
            way.add(ours, bound, case)
    best.never_above()
    two = sum(len(flows) == 2 for _, _, flows in drawn)
    print(f"DNC 2.4.3: never above; {best}, {two} of them of two flows; {'; '.join(map(str, ways))}; above the bound for bits in "
          f"{len(bits.above)}, by {100 * max(bits.above, default=(0,))[0]:.0f} % at most")


def main(what, count):
    print(f"seed {SEED}")
    if what == "chains":
        try:
            import pycpa
        except ImportError:
            pycpa = None
        chains(count, pycpa)
    else:
        tandems(count)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
