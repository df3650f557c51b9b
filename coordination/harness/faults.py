"""Faults under load, each history checked (history.py): kazoo clients write and read while servers are killed, stopped, slowed and
cut off.

    coordination/.venv/bin/python3 coordination/harness/faults.py [--runs 20] [--seed 1] [--arm giusto|mixed] [--rolling]

Prints a line a run and what occurred; exit 1 where a history cannot be. --arm mixed: each server is stock or Giusto's by chance,
anew whenever it starts. Of a seed the first runs are always the same faults. --rolling: stock -> Giusto -> stock, one server after the other, under load.
"""
import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kazoo.client import KazooClient

from ensemble import ROOM
from load import count, judge, make_nodes, quiesce, start_clients
from wires import WiredEnsemble

# Nothing that makes a start longer: servers start often here.
CONFIG = {"giusto.features": "fcle,fqce,unanimous,snapshot", "tickTime": 200, "initLimit": 15, "syncLimit": 4, "maxSessionTimeout": 10000}


class Scene:
    """The ensemble and what can be done to it."""

    def __init__(self, ensemble, arms):
        self.e, self.rng, self.arms = ensemble, None, arms

    def server(self, leader):
        lead = self.e.wait_leader()
        return lead if leader else self.rng.choice([s for s in self.e.servers if s is not lead])

    def restart(self, *servers):
        for s in servers:
            s.start(self.rng.choice(self.arms))

    def kill_leader(self):
        s = self.server(True)
        s.kill()
        time.sleep(self.rng.random())
        self.restart(s)

    def kill_follower(self):
        s = self.server(False)
        s.kill()
        time.sleep(self.rng.random())
        self.restart(s)

    def kill_leader_and_the_next(self):
        first = self.server(True)
        first.kill()
        time.sleep(self.rng.random() * 0.4)
        second = self.rng.choice([s for s in self.e.servers if s is not first])
        second.kill()
        self.restart(first, second)

    def kill_all(self):
        for s in self.e.servers:
            s.kill()
        self.restart(*self.e.servers)

    def stop(self, leader):
        s = self.server(leader)
        s.kill(signal.SIGSTOP)
        time.sleep(0.5 + self.rng.random() * 1.5)
        s.kill(signal.SIGCONT)

    def stop_leader(self):
        self.stop(True)

    def stop_follower(self):
        self.stop(False)

    def slow_disks_and_kill_leader(self):
        self.e.slow.touch()
        time.sleep(0.3)
        self.kill_leader()
        time.sleep(0.5)
        self.e.slow.unlink()

    def cut(self, leader):
        self.e.isolate(self.server(leader))
        time.sleep(1 + self.rng.random() * 1.5)
        self.e.heal()

    def cut_off_leader(self):
        self.cut(True)

    def cut_off_follower(self):
        self.cut(False)

    def cut_off_leader_and_restart_a_follower(self):
        lead = self.server(True)
        other = self.server(False)
        self.e.isolate(lead)
        other.kill()
        self.restart(other)
        time.sleep(1 + self.rng.random())
        self.e.heal()


FAULTS = ("kill_leader", "cut_off_leader", "slow_disks_and_kill_leader", "stop_leader", "kill_leader_and_the_next",
          "cut_off_leader_and_restart_a_follower", "kill_follower", "kill_all", "cut_off_follower", "stop_follower")


def under_load(ensemble, clients, zk, run, what):
    """One run: nodes of its own, load, the fault, quiet, judgement."""
    nodes = make_nodes(zk, run)
    offsets = [len(c.ops) for c in clients]
    for c in clients:
        c.nodes = nodes
    time.sleep(0.4)
    what()
    ensemble.wait_whole()
    time.sleep(0.3)
    quiesce(clients)
    return judge(clients, zk, nodes, offsets)


def rolling(ensemble, arm):
    def go():
        for s in ensemble.servers:
            s.kill(signal.SIGTERM)
            s.start(arm)
            ensemble.wait_whole()
            time.sleep(0.5)
    return go


def slow_shim(directory):
    shim = directory / "slowdisk.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", shim, ROOM / "harness" / "slowdisk.c", "-ldl"], check=True)
    return shim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--arm", default="giusto")
    parser.add_argument("--rolling", action="store_true")
    parser.add_argument("--keep", action="store_true")
    a = parser.parse_args()
    rng = random.Random(a.seed)
    arms = ["stock", "giusto", "overlap"] if a.arm == "mixed" else [a.arm]
    if a.rolling:
        arms = ["stock"]
    base = Path(tempfile.mkdtemp(prefix="giusto-zk-faults-"))
    environment = {"LD_PRELOAD": str(slow_shim(base)), "GIUSTO_SLOW_US": "30000", "GIUSTO_SLOW_FLAG": str(base / "slow")}
    totals, bad = Counter(), 0
    with WiredEnsemble(base / "ensemble", [rng.choice(arms) for _ in range(a.servers)], CONFIG, environment=environment) as ensemble:
        ensemble.slow = base / "slow"
        hosts = ",".join(f"127.0.0.1:{p}" for p in ensemble.ports())
        clients = start_clients(hosts)
        observer = KazooClient(hosts, timeout=10, connection_retry={"max_delay": 0.1, "max_tries": -1})
        observer.start(30)
        scene = Scene(ensemble, arms)
        plans = [("stock -> giusto", rolling(ensemble, "giusto")), ("giusto -> stock", rolling(ensemble, "stock"))] if a.rolling else \
            [(FAULTS[i % len(FAULTS)], getattr(scene, FAULTS[i % len(FAULTS)])) for i in range(a.runs)]
        for run, (name, what) in enumerate(plans):
            # Each run has a seed of its own: the first runs of a longer series are the shorter one.
            scene.rng = random.Random(f"{a.seed}/{run}")
            for c in clients:
                c.random.seed(f"{a.seed}/{run}/{c.name_}")
            before = ensemble.leader()
            ops, violations = under_load(ensemble, clients, observer, run, what)
            result = count(ops)
            result["leader changes"] = ensemble.leader() is not before
            totals += result
            totals[name] += 1
            print(f"{run + 1}/{len(plans)} {name}: {', '.join(f'{v} {k}' for k, v in result.items())}"
                  + ("" if not violations else " VIOLATED"), flush=True)
            for v in violations:
                print(f"    {v}")
            bad += bool(violations)
        for c in clients:
            c.stopped = True
    print(f"seed {a.seed}: {len(plans)} runs, {bad} violated; {', '.join(f'{v} {k}' for k, v in totals.items())}")
    if bad:
        print(f"logs and data: {base}")
        sys.exit(1)
    if not a.keep:
        subprocess.run(["rm", "-rf", base], check=True)


if __name__ == "__main__":
    main()
