"""A fault campaign: random faults at random phases of recoveries, one after or over another, each history checked (history.py).

    coordination/.venv/bin/python3 coordination/harness/campaign.py [--runs 1000] [--seed 1] [--jobs 2] [--arm giusto|stock]
        [--only RUN] [--kind KIND] [--patch NAME]

Prints a line a run, and at the end how often each fault struck in each phase. Exit 1 where a law is broken; the line names what, and
--only RUN plays that run again, --arm stock with stock servers. Faults and moments are the seed's; what servers do meanwhile is not.
--patch: servers with a deliberate fault (seeded.py); exit 0 as soon as it is found, 1 where it is not.

Broken is a history's law (history.py); that who was mended does not serve: it hangs and has to be killed, ends whenever it is started,
or says that it serves and for 90 s takes no session, no write, no read; and whatever else stops a run. Only an ensemble that does not
come up before the first fault is a machine that is too slow: void, and more than 1 % of those, or a run that is missing, are exit 1, too.

kill         kill -9                            slow-disk   forced writes take 20 to 400 ms longer
stop         SIGSTOP                            sync-fails  every fsync fails (EIO); a server that ends is started again
cut-off      no packet to it or from it         disk-full   every write fails (ENOSPC)
mute         nothing it sends arrives           power       its power is lost: what was not forced is gone
deaf         nothing arrives at it              power-all   that of all servers, at once
one-way      one direction to one peer          clock       its wall clock steps by up to an hour, and back
reconfig     it is removed as a member, and added again
"""
import argparse
import multiprocessing
import queue
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

import directed
import seeded
import wire
from history import agree, check, epochs_once, lifetimes
from kinds import KINDS
from load import count, lingering, look, make_nodes, quiesce, recorded, start_clients
from machine import WRITTEN_S, build
from strikes import FAULTS, OPENERS
from watch import PHASES, Watch

# How long a server that was mended may not answer, or not serve though it says so, and how long sessions have to expire.
SILENT_S, REFUSED_S, EXPIRE_S = 90, 90, 15
# Runs that share an ensemble, and what kinds take turns.
BLOCK = 25
TURNS = ("three", "observer", "dynamic", "three", "tls", "overlap", "three", "observer", "mixed", "dynamic", "five")


class Campaign:
    """One ensemble, its clients, and the runs played on it."""

    def __init__(self, ensemble):
        self.e, self.watch, self.rng = ensemble, Watch(ensemble), None
        self.cells, self.events = Counter(), Counter()
        hosts = ",".join(f"127.0.0.1:{p}" for p in ensemble.ports())
        self.clients = start_clients(hosts, session_s=3, answer_s=1.5, pause_s=0.03)
        self.zk = KazooClient(hosts, timeout=3, connection_retry={"max_delay": 0.1, "max_tries": -1})
        self.zk.start(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for c in self.clients:
            c.stopped = True
        for zk in (self.zk, *(c.zk for c in self.clients)):
            zk.stop()

    def alive(self):
        return [s for s in self.e.servers if s.process and s.process.poll() is None]

    def target(self, role):
        """A running server with this role; any running server if none has it, else any server."""
        self.watch.look()
        fit = [s for s in self.alive() if self.watch.leads(s) == (role == "leader")]
        return self.rng.choice(fit or self.alive() or self.e.servers)

    def strike(self, name, s, **how):
        self.watch.look()
        phase = self.watch.phase(s)
        fault = FAULTS[name](self, s, **how)
        if next(fault) is False:
            self.events[f"{name} refused"] += 1
        else:
            self.cells[name, phase] += 1
        return fault

    def await_phase(self, phase, timeout=2.5):
        """A server that is in a phase; any, where none comes to it in time."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.watch.look()
            there = [s for s in self.alive() if self.watch.phase(s) == phase]
            if there:
                return self.rng.choice(there)
            self.restart_some()
            time.sleep(0.001)
        return self.rng.choice(self.alive() or self.e.servers)

    def restart_some(self):
        """A machine comes back some time after it failed."""
        for s in self.e.servers:
            if s not in self.alive() and self.rng.random() < 0.01:
                self.start(s)

    def start(self, s):
        self.watch.started(s)
        s.start()

    def mend(self):
        """Every fault is over: until all serve. A server that ended by itself is started. One that hangs is a violation, unless it says
        that its promise keeps it out (docs/coordination.md, where reserve can be worse than stock): it is started again, too."""
        starts, fresh, end = Counter(), {s: time.monotonic() for s in self.e.servers}, time.monotonic() + 400
        while time.monotonic() < end:
            modes = []
            for s in self.e.servers:
                if s.process is None or s.process.poll() is not None:
                    if s.process is not None:
                        self.events["ended by itself"] += 1
                        starts[s] += 1
                    if starts[s] > 5:
                        return [f"server {s.number} does not start any more"]
                    self.start(s)
                    fresh[s] = time.monotonic()
                modes.append(s.mode())
                if not modes[-1] and time.monotonic() - fresh[s] > SILENT_S:
                    if "less than accepted epoch" not in s.text()[-20_000:]:
                        return self.dumped(f"server {s.number} runs, and has not served for {SILENT_S} s")
                    self.events["kept out by its promise, killed"] += 1
                    s.kill()
                    s.process = None
            if all(modes) and modes.count("leader") == 1:
                return []
            time.sleep(0.05)
        return self.dumped(f"the ensemble does not come up: {modes}")

    def dumped(self, violation):
        """With what every thread of every server does, in the servers' logs."""
        for s in self.alive():
            s.kill(signal.SIGQUIT)
        time.sleep(1)
        return [violation]

    def play(self):
        """Faults of a run, as its seed has them; at the end none is left."""
        # Where members can change, they often do.
        names = [n for n in FAULTS if n != "reconfig"] + ["reconfig"] * 6 * self.e.reconfigurable
        held = []
        for n in range(self.rng.choice([1, 2, 2, 2, 3])):
            first = n == 0
            name = self.rng.choice(OPENERS if first and self.rng.random() < 0.7 else names)
            phase = self.rng.choice(PHASES[1:])
            s = self.target(self.rng.choice(["leader", "leader", "other"])) if first else self.await_phase(phase)
            held.append((name, self.strike(name, s)))
            time.sleep(self.rng.random() * (0.15 if self.rng.random() < 0.5 else 0.8))
            if self.rng.random() < 0.3:
                next(held.pop(self.rng.randrange(len(held)))[1], None)
        # Silence is noticed after syncLimit ticks.
        time.sleep(self.rng.random() * 1.2)
        for _, fault in self.rng.sample(held, len(held)):
            next(fault, None)
        return " + ".join(name for name, _ in held)

    def run(self, number, seed, scenario=None):
        self.rng = random.Random(seed)
        for c in self.clients:
            c.random.seed(f"{seed}/{c.name_}")
        try:
            nodes = make_nodes(self.zk, number)
        except (KazooException, KazooTimeoutError) as e:
            return [], self.dumped(f"all say that they serve, and a write is not taken: {type(e).__name__} {e}"), "nothing"
        offsets, stayed = [len(c.ops) for c in self.clients], [len(c.stays) for c in self.clients]
        for c in self.clients:
            c.nodes = nodes
        time.sleep(0.2)
        before = self.cells.copy()
        if scenario:
            directed.SCENARIOS[scenario](self)
        else:
            self.play()
        bad = self.mend()
        if self.e.reconfigurable:
            end = time.monotonic() + REFUSED_S
            while not bad and not self.e.add():
                bad = self.mend()
                if not bad and time.monotonic() > end:
                    bad = self.dumped("all say that they serve, and a member is not taken in again")
        time.sleep(0.15)
        quiesce(self.clients)
        ops = recorded(self.clients, nodes, offsets)
        self.watch.look()
        bad = bad or self.judge(ops, nodes, stayed)
        self.watch.look()
        bad += epochs_once(self.watch.established)
        struck = self.cells - before
        return ops, bad, scenario or " + ".join(f"{n} ({p})" for n, p in struck.elements())

    def judge(self, ops, nodes, stayed):
        try:
            ends, stays = self.ends(nodes, stayed)
        except wire.Refused as e:
            return self.dumped(f"all say that they serve, and for {REFUSED_S} s one cannot be read: {e}") + check(ops)
        final, ports = ends[min(ends)], {s.number: s.client for s in self.e.servers}
        return agree(ends) + check(ops, final, {(epoch, ports[number]) for epoch, number in self.watch.established}) + lifetimes(stays, final[nodes[0]].stays)

    def ends(self, nodes, stayed):
        """What each server shows when it has caught up, and the nodes that go with sessions. A request of a client that was given up may
        still arrive: that is no difference."""
        before, begin = None, time.monotonic()
        while True:
            try:
                ends = {s.number: self.shown(s, nodes) for s in self.e.servers}
                stays = lingering(self.clients, stayed)
                late = [s for s in stays if s.over == "expired" and any(s.name in end[nodes[0]].stays for end in ends.values())]
                if (not agree(ends) or ends == before) and (not late or time.monotonic() - begin > EXPIRE_S):
                    return ends, stays
                before = ends
            except wire.Refused:
                if time.monotonic() - begin > REFUSED_S:
                    raise
            time.sleep(0.3)

    @staticmethod
    def shown(server, nodes):
        session, ends = wire.Session(server.client, 3.0), {}
        for node in nodes:
            session.sync(node)
            names, version = session.children(node)
            data, later, mzxid = session.get(node)
            while later != version:
                names, version = session.children(node)
                data, later, mzxid = session.get(node)
            ends[node] = look(names, version, mzxid, data.decode())
        session.close()
        return ends


def block(options, numbers, out):
    """Runs that share an ensemble; a new one after a law was broken."""
    number = numbers[0]
    kind = options.kind or TURNS[number // BLOCK % len(TURNS)]
    base = options.base / str(number)
    base.mkdir()
    library, before = build(base), f"{seeded.classes(options.patch, base)}:" if options.patch else ""
    todo, part = list(numbers), 0
    while todo:
        part += 1
        ensemble = KINDS[kind](base / f"{kind}{part}", library, [options.arm] * 3)
        ensemble.before = before
        up = False
        try:
            with ensemble:
                up = True
                # Faults begin only after the files of the first start are on disk.
                time.sleep(WRITTEN_S)
                with Campaign(ensemble) as campaign:
                    bad = play(options, kind, campaign, todo, out)
            if not bad:
                shutil.rmtree(ensemble.dir)
        except Exception as e:  # whatever it is, it is told
            ensemble.__exit__()
            if not todo:
                raise
            what, counts, bad = ("an exception", Counter(), traceback.format_exc().splitlines()[-8:]) if up else (f"void: {e}", Counter(void=1), [])
            out.put((todo.pop(0), kind, what, counts, bad, Counter(), Counter(), 0, str(ensemble.dir)))


def play(options, kind, campaign, todo, out):
    """Runs on one ensemble, until none is left or a law is broken; what was broken."""
    bad = []
    while todo and not bad:
        start, seed = time.monotonic(), f"{options.seed}/{todo[0]}"
        ops, bad, what = campaign.run(todo[0], seed, options.directed or directed.choose(random.Random(seed), kind))
        out.put((todo.pop(0), kind, what, count(ops), bad, campaign.cells, campaign.events, time.monotonic() - start, str(campaign.e.dir)))
        campaign.cells, campaign.events = Counter(), Counter()
    return bad


def work(options, blocks, out):
    while (numbers := blocks.get()) is not None:
        block(options, numbers, out)


def results(workers, out):
    """Until no worker is left, however it went."""
    while True:
        over = not any(w.is_alive() for w in workers)
        try:
            yield out.get(timeout=1)
        except queue.Empty:
            if over:
                return


def matrix(cells):
    print(f"{'fault':<12}" + "".join(f"{p:>12}" for p in PHASES))
    for fault in FAULTS:
        print(f"{fault:<12}" + "".join(f"{cells[fault, p]:>12}" for p in PHASES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--arm", default="giusto", choices=["giusto", "stock", "strict"])
    parser.add_argument("--only", type=int)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--directed", choices=directed.SCENARIOS, help="all runs are of one scenario (directed.py)")
    parser.add_argument("--patch", choices=seeded.PATCHES)
    a = parser.parse_args()
    runs = [a.only] if a.only is not None else list(range(a.runs))
    a.base = Path(tempfile.mkdtemp(prefix="giusto-zk-campaign-"))
    context = multiprocessing.get_context("fork")
    blocks, out = context.Queue(), context.Queue()
    for i in range(0, len(runs), BLOCK):
        blocks.put(runs[i:i + BLOCK])
    workers = [context.Process(target=work, args=(a, blocks, out)) for _ in range(a.jobs)]
    for w in workers:
        blocks.put(None)
        w.start()
    totals, cells, events, bad, start = Counter(), Counter(), Counter(), 0, time.monotonic()
    for run, kind, what, ops, violations, struck, happened, took, where in results(workers, out):
        cells += struck
        events += happened
        totals += ops + Counter(runs=1)
        bad += bool(violations)
        print(f"{run} {kind}: {what}; {', '.join(f'{v} {k}' for k, v in ops.items())}; {took:.1f} s" + (f" VIOLATED, see {where}" if violations else ""),
              flush=True)
        for v in violations[:8]:
            print(f"    {v}", flush=True)
        if violations and a.patch:
            print(f"campaign: {a.patch} found after {totals['runs']} runs")
            for w in workers:
                w.kill()  # servers die with who started them
                w.join()
            shutil.rmtree(a.base)
            sys.exit(0)
    played, void = totals.pop("runs", 0), totals["void"]
    failed = bad or played < len(runs) or any(w.exitcode for w in workers)
    if not failed and not void:
        shutil.rmtree(a.base)
    if a.patch:
        sys.exit(f"campaign: {a.patch} was not found in {played} runs")
    matrix(cells)
    print(f"campaign: seed {a.seed}, {played} of {len(runs)} runs in {time.monotonic() - start:.0f} s, {bad} violated; "
          f"{', '.join(f'{v} {k}' for k, v in (totals + events).items())}")
    sys.exit(1 if failed or void > 0.01 * len(runs) else 0)


if __name__ == "__main__":
    main()
