"""How long an ensemble is without a leader: kill -9 the leader, time to the first acknowledged write.

    python3 coordination/harness/recovery.py [--servers 3] [--kills 30] [--arms stock,rtzk-l,giusto] [--out DIR] [--slow MS] [--tree MB]
        [--cold] [--busy CORES]

Arms take turns, kill by kill, each on an ensemble of its own; the others idle meanwhile. With --cold each kill is the first of an
ensemble that was started for it, up to two seconds after it serves.
A client polls every survivor every 5 ms with a new session and a write; the first acknowledgement counts. Writes DIR/recovery.json,
DIR/recovery.csv (the distribution: arm, ms, fraction) and a table. A kill during which others had the processors (disturbed()) is
void. --gate: exit 5 unless median and p95 of giusto are at most a third of stock's (with --cold: its p99 is at most 120 ms),
no sample is above the bound exported before it, no notification was lost, and at most 5 % of an arm's kills are void.
"""
import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import wire
from ensemble import ROOM, Ensemble, die_with_parent

POLL_S = 0.005
STAMP = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ")
PHASES = ("die", "detect", "election", "connect", "sync", "client")


def percentile(values, p):
    """Nearest rank: the smallest value that p percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def standing(pid):
    """The nice value that counts among sessions: the session's, where the kernel groups tasks by these (sched(7), autogroup)."""
    try:
        with open(f"/proc/{pid}/autogroup") as f:
            return int((f.read().split() or ["0"])[-1])
    except OSError:
        return 0


class Machine:
    """What the machine gave to others: an instant's state, and the difference of two."""

    def __init__(self, pids):
        self.pids = pids
        self.load, self.at = os.getloadavg()[0], time.monotonic()
        with open("/proc/stat") as f:
            fields = [int(x) / os.sysconf("SC_CLK_TCK") for x in f.readline().split()[1:9]]
        self.idle, self.stolen = fields[3] + fields[4], fields[7]
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.ended, self.self = ended.ru_utime + ended.ru_stime, time.process_time()
        self.of = {pid: self._cpu(pid) for pid in pids}
        # Tasks that run only, or almost only, when no other task needs the core are no disturbance.
        self.patient = sum(self._patient())

    def _patient(self):
        """Seconds of those of the idle class, and of those 20 steps of nice below us: all of a session have a ninetieth of a core beside one
        of ours. With those of the children they waited for: what has ended is not forgotten."""
        ours = standing("self")
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.sched_getscheduler(int(name)) == os.SCHED_IDLE or standing(name) >= ours + 20:
                        with open(f"/proc/{name}/stat") as f:
                            waited = f.read().rpartition(")")[2].split()[13:15]
                        yield (self._cpu(int(name)) or 0) + sum(map(int, waited)) / os.sysconf("SC_CLK_TCK")
                except OSError:
                    pass  # it has ended

    @staticmethod
    def _cpu(pid):
        try:
            return time.clock_gettime((~pid << 3) | 2)  # all threads of a process
        except OSError:
            return None  # it has ended: what it used is in 'ended'

    def since(self, before):
        """Seconds of processor time that others took from us and our servers; and of these, what the hypervisor took."""
        ours = self.self - before.self + self.ended - before.ended
        for pid, used in before.of.items():
            ours += (self.of[pid] or 0) - used
        elapsed = os.cpu_count() * (self.at - before.at)
        return elapsed - (self.idle - before.idle) - ours - (self.patient - before.patient), self.stolen - before.stolen


def disturbed(others_s, elapsed_s):
    """The rule that excuses a sample, fixed before anything is measured: others (patient ones left out) had more than a tenth of the
    processors and 30 ms, which is what the kernel's clock ticks can hide."""
    return others_s > 0.03 + 0.1 * os.cpu_count() * elapsed_s


def first_write(ports, stop_after=30.0, make=False):
    """Polls all ports until a write is acknowledged (which may make the node): its wall time, or None."""
    done = threading.Event()
    won = []

    def poll(port):
        while not done.is_set():
            session = None
            try:
                session = wire.Session(port)
                session.create("/recovery") if make else session.set("/recovery", b"x")
                won.append(time.time())
                done.set()
            except wire.Refused:
                pass
            finally:
                if session:
                    session.drop()
            done.wait(POLL_S)

    threads = [threading.Thread(target=poll, args=(p,), daemon=True) for p in ports]
    for t in threads:
        t.start()
    done.wait(stop_after)
    done.set()
    for t in threads:
        t.join(5)
    return min(won) if won else None


def events(server, offset):
    """(seconds, line) of a server's log since an offset in bytes."""
    with open(server.log, "rb") as f:
        f.seek(offset)
        for line in f.read().decode(errors="replace").splitlines():
            m = STAMP.match(line)
            if m:
                yield datetime.strptime(m[1], "%Y-%m-%d %H:%M:%S,%f").timestamp(), line


def when(log, text, after):
    return next((t for t, line in log if text in line and t >= after - 0.002), None)


def phases(survivors, offsets, killed, gone, acknowledged):
    """ms of each phase along the new leader: the kernel takes the old one apart, notice, elect, get a quorum connected and into the new epoch, synchronise, serve."""
    logs = {s: list(events(s, offsets[s])) for s in survivors}
    for s, log in logs.items():
        leading = when(log, "- LEADING - LEADER ELECTION TOOK", killed)
        broadcast = when(log, "leading - broadcast", killed)
        if not leading or not broadcast:
            continue
        # The last to lead counts, where the first one failed.
        looking = [t for t, line in log if line.endswith("- LOOKING") and killed - 0.002 <= t <= broadcast]
        # Sockets close before the process is gone.
        lost = looking[0] if looking else leading
        marks = [killed, min(gone, lost), lost, leading, when(log, "leading - synchronization", killed), broadcast,
                 acknowledged]
        row = {name: 1000 * (b - a) for name, a, b in zip(PHASES, marks, marks[1:])}
        every = [line for each in logs.values() for _, line in each]
        row["refused"] = sum("tries=" in line for line in every)
        row["resent"] = sum("Notification time out" in line for line in every)
        row["rounds"] = max(sum(line.endswith("- LOOKING") for _, line in each) for each in logs.values())
        return row
    return {}


def slow_disk(directory, ms):
    """The environment in which every forced write takes so much longer."""
    library, flag = directory / "slowdisk.so", directory / "slow"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, ROOM / "harness" / "slowdisk.c", "-ldl"], check=True)
    flag.touch()
    return {"LD_PRELOAD": str(library), "GIUSTO_SLOW_FLAG": str(flag), "GIUSTO_SLOW_US": str(1000 * ms)}


class Arm:
    def __init__(self, name, size, directory, config, flags, environment):
        self.name, self.size, self.directory, self.how = name, size, directory, (config, flags, environment)
        self.ensemble = None
        self.samples = []

    def start(self, tree=0):
        self.ensemble = Ensemble(self.directory / str(len(self.samples)), [self.name] * self.size, *self.how)
        self.ensemble.__enter__()
        session = wire.Session(self.ensemble.ports()[0], timeout=30)
        session.create("/recovery")
        for node in range(2 * tree):
            session.create(f"/tree{node}", bytes(500_000))
        session.close()

    def stop(self):
        if self.ensemble:
            self.ensemble.__exit__()
            self.ensemble = None

    def kill_leader(self, pids, back=True):
        leader = self.ensemble.wait_whole()
        survivors = [s for s in self.ensemble.servers if s is not leader]
        bounds = [int(s.metrics().get("giusto_first_write_bound_us", 0)) / 1000 for s in survivors]
        offsets = {s: s.log.stat().st_size for s in survivors}
        before = Machine(pids())
        killed = time.time()
        leader.kill()
        gone = time.time()
        acknowledged = first_write([s.client for s in survivors])
        after = Machine(before.pids)
        if acknowledged is None:
            raise RuntimeError(f"{self.name}: no write was acknowledged within 30 s; see {self.ensemble.dir}")
        time.sleep(0.6)  # ours writes its log a little later
        others, stolen = after.since(before)
        sample = {"arm": self.name, "total_ms": 1000 * (acknowledged - killed), "bound_ms": max(bounds), "load": before.load,
                  "others_s": others, "stolen_s": stolen, "void": disturbed(others, after.at - before.at),
                  **phases(survivors, offsets, killed, gone, acknowledged)}
        if back:
            leader.start()
            self.ensemble.wait_whole()
        self.samples.append(sample)
        return sample


def report(arms, out):
    print(f"{'ms':<10}{'n':>4}{'void':>5}{'min':>7}{'p50':>7}{'p95':>7}{'p99':>7}{'max':>7}   phases, p50/p95:",
          *(f"{p:>9}" for p in PHASES), f"{'refused':>8}{'resent':>7}{'> bound':>8}")
    rows, result = [], {}
    for arm in arms:
        good = [s for s in arm.samples if not s["void"]]
        if not good:
            print(f"{arm.name:<10}{0:>4}{len(arm.samples):>5}")
            result[arm.name] = {"n": 0, "void": len(arm.samples), "samples": arm.samples}
            continue
        totals = [s["total_ms"] for s in good]
        over = sum(s["total_ms"] > s["bound_ms"] > 0 for s in good)
        parts = {p: [s[p] for s in good if p in s] or [0] for p in PHASES}
        stats = {"n": len(good), "void": len(arm.samples) - len(good), "min": min(totals),
                 **{f"p{p}": percentile(totals, p) for p in (50, 95, 99)}, "max": max(totals)}
        refused, resent = (sum(s.get(k, 0) for s in good) for k in ("refused", "resent"))
        bounded = any(s["bound_ms"] for s in good)
        print(f"{arm.name:<10}{stats['n']:>4}{stats['void']:>5}", *(f"{stats[k]:>6.0f}" for k in ("min", "p50", "p95", "p99", "max")),
              " " * 18, *(f"{statistics.median(v):>5.0f}/{percentile(v, 95):<3.0f}" for v in parts.values()), f"{refused:>8}{resent:>7}",
              f"{over if bounded else '-':>7}")
        rows += [(arm.name, t, (i + 1) / len(totals)) for i, t in enumerate(sorted(totals))]
        result[arm.name] = {**stats, "phases_median_ms": {p: statistics.median(v) for p, v in parts.items()},
                            "phases_p95_ms": {p: percentile(v, 95) for p, v in parts.items()}, "refused": refused, "resent": resent,
                            "over_bound": over if bounded else None, "samples": arm.samples}
    (out / "recovery.csv").write_text("arm,ms,fraction\n" + "".join(f"{a},{t:.1f},{f:.4f}\n" for a, t, f in rows))
    every = [s for arm in arms for s in arm.samples]
    loads, others = [s["load"] for s in every], [1000 * s["others_s"] for s in every]
    stolen = sum(s["stolen_s"] for s in every)
    result["machine"] = {"cores": os.cpu_count(), "load_median": statistics.median(loads), "load_max": max(loads), "stolen_s": stolen,
                         "others_ms_median": statistics.median(others), "others_ms_max": max(others)}
    print(f"machine: {os.cpu_count()} cores, load {statistics.median(loads):.1f} (at most {max(loads):.1f}); of a recovery's processor time "
          f"others had {statistics.median(others):.0f} ms (at most {max(others):.0f}), stolen {stolen:.2f} s in all")
    (out / "recovery.json").write_text(json.dumps(result, indent=1))
    return result


def gate(result, cold, third=1 / 3, excused=0.05, first_ms=120):
    """What must hold of the samples; few may be excused, or the run says nothing."""
    ours, stock = result.get("giusto"), result.get("stock")
    if not ours or not (stock or cold):
        sys.exit("--gate compares the arms stock and giusto, or judges giusto alone with --cold")
    noisy = [f"{name}: {r['void']} of {r['n'] + r['void']}" for name, r in (("giusto", ours), ("stock", stock))
             if r and r["void"] > excused * (r["n"] + r["void"])]
    if noisy:
        print(f"gate missed: too noisy, more than {excused:.0%} of the kills are void ({', '.join(noisy)}); run it again")
        sys.exit(5)
    ok = ours["over_bound"] == 0 and ours["resent"] == 0
    print(f"over the exported bound: {ours['over_bound']}, second rounds of an election: {ours['resent']} (gate: 0)")
    if cold:
        ok &= ours["p99"] <= first_ms
        print(f"p99: {ours['p99']:.0f} ms (gate: <= {first_ms})")
    for key in ("p50", "p95") if stock else ():
        ratio = ours[key] / stock[key]
        ok &= ratio <= third
        print(f"{key}: {ratio:.2f} of stock (gate: <= 0.33)")
    if not ok:
        print("gate missed")
        sys.exit(5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--arms", default="stock,rtzk-l,giusto")
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a line of every zoo.cfg")
    parser.add_argument("--java", action="append", default=[], metavar="FLAG", help="a flag of every JVM")
    parser.add_argument("--slow", type=int, default=0, metavar="MS", help="every forced write takes so much longer")
    parser.add_argument("--tree", type=int, default=0, metavar="MB", help="data in the tree")
    parser.add_argument("--cold", action="store_true", help="an ensemble for each kill")
    parser.add_argument("--busy", type=int, default=0, metavar="CORES", help="so many processes that never sleep beside them")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep data and logs, and say where")
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    config = dict(line.split("=", 1) for line in a.config)
    with tempfile.TemporaryDirectory(prefix="giusto-zk-") as scratch:
        base = Path(tempfile.mkdtemp(prefix="giusto-zk-kept-")) if a.keep else Path(scratch)
        if a.keep:
            print(f"data and logs: {base}")
        environment = slow_disk(Path(scratch), a.slow) if a.slow else {}
        arms = [Arm(name, a.servers, base / name, config, a.java, environment) for name in a.arms.split(",")]
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=die_with_parent) for _ in range(a.busy)]
        try:
            for arm in arms:
                if not a.cold:
                    arm.start(a.tree)

            def pids():
                servers = [s for arm in arms if arm.ensemble for s in arm.ensemble.servers if s.process]
                return [p.pid for p in busy] + [s.process.pid for s in servers]

            for k in range(a.kills):
                # Order turns too, so that no arm always follows the same one.
                for arm in arms[k % len(arms):] + arms[:k % len(arms)]:
                    if a.cold:
                        arm.start(a.tree)
                    time.sleep(random.uniform(0, 2) if a.cold else 1.0)
                    sample = arm.kill_leader(pids, back=not a.cold)
                    if a.cold:
                        arm.stop()
                    void = " void" if sample["void"] else ""
                    print(f"{k + 1}/{a.kills} {arm.name}: {sample['total_ms']:.0f} ms{void}", file=sys.stderr)
        finally:
            for arm in arms:
                arm.stop()
            for p in busy:
                p.kill()
        result = report(arms, a.out)
    if a.gate:
        gate(result, a.cold)


if __name__ == "__main__":
    main()
