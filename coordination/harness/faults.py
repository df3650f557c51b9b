"""Faults under load, each history checked (history.py): kazoo clients write and read while servers are killed, stopped, slowed and
cut off.

    coordination/.venv/bin/python3 coordination/harness/faults.py [--runs 20] [--seed 1] [--arm giusto|mixed] [--rolling]

Prints a line a run and what occurred; exit 1 where a history cannot be. --arm mixed: each server is stock or Giusto's by chance,
anew whenever it starts. Of a seed the first runs are always the same faults. --rolling: stock -> Giusto -> stock, one server after the other, under load.
"""
import argparse
import logging
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, OperationTimeoutError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from ensemble import ROOM
from history import Op, check
from wires import WiredEnsemble

CLIENTS = 4
# Nothing that makes a start longer: servers start often here.
CONFIG = {"giusto.features": "fcle,fqce,unanimous,snapshot", "tickTime": 200, "initLimit": 15, "syncLimit": 4, "maxSessionTimeout": 10000}
logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class Client(threading.Thread):
    """One client in a loop: a write or a read of one of two nodes, recorded. A session that ends begins another client."""

    def __init__(self, name, hosts):
        super().__init__(daemon=True)
        self.name_, self.random = name, random.Random()
        self.zk = KazooClient(hosts, timeout=6, connection_retry={"max_delay": 0.1, "delay": 0.02, "max_tries": -1}, randomize_hosts=True)
        self.zk.start(30)
        self.ops, self.nodes, self.count, self.stopped = [], [], 0, False

    def run(self):
        while not self.stopped:
            nodes = self.nodes
            if not nodes:
                time.sleep(0.01)
                continue
            self.one(self.random.choice(nodes))
            time.sleep(self.random.random() * 0.01)

    def one(self, node):
        self.count += 1
        write = self.random.random() < 0.5
        op = Op(f"{self.name_}/{self.zk.client_id[0] if self.zk.client_id else 0:x}", "write" if write else "read", node,
                f"{self.name_}.{self.count}" if write else "", time.monotonic())
        self.ops.append(op)
        try:
            if write:
                stat = self.zk.set_async(node, op.value.encode()).get(timeout=4)
            else:
                data, stat = self.zk.get_async(node).get(timeout=4)
                op.value = data.decode()
            op.version, op.zxid = stat.version, stat.mzxid
            op.end = time.monotonic()
        except (ConnectionLoss, SessionExpiredError, OperationTimeoutError, KazooTimeoutError):
            pass  # its outcome is unknown
        except KazooException:
            op.failed, op.end = True, time.monotonic()
        # A session that was lost meanwhile is another client from here on; what it saw last does not bind the next.


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


def judge(clients, zk, nodes, offsets):
    """Ends a run: what clients recorded on these nodes, against the ends of the nodes."""
    time.sleep(0.2)
    # As it is now: an answer that comes while the ends are read must not make them look older than it.
    ops = [replace(op) for c, n in zip(clients, offsets) for op in c.ops[n:] if op.node in nodes]
    final = {}
    for node in nodes:
        for _ in range(100):
            try:
                zk.sync(node)
                data, stat = zk.get(node)
                break
            except (KazooException, KazooTimeoutError):
                time.sleep(0.2)
        final[node] = (stat.version, data.decode())
    return ops, check(ops, final)


def quiesce(clients):
    for c in clients:
        c.nodes = []
    time.sleep(0.05)
    end = time.monotonic() + 6
    while time.monotonic() < end and any(c.ops and c.ops[-1].end is None for c in clients):
        time.sleep(0.05)


def make_nodes(zk, run):
    nodes = [f"/r{run}a", f"/r{run}b"]
    for node in nodes:
        for _ in range(100):
            try:
                if not zk.exists(node):
                    zk.create(node, b"")
                break
            except (KazooException, KazooTimeoutError):
                time.sleep(0.2)
    return nodes


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
        clients = [Client("pqrstuvw"[i], hosts) for i in range(CLIENTS)]
        observer = KazooClient(hosts, timeout=10, connection_retry={"max_delay": 0.1, "max_tries": -1})
        observer.start(30)
        for c in clients:
            c.start()
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
            count = Counter(writes=sum(o.kind == "write" and o.end is not None and not o.failed for o in ops),
                            reads=sum(o.kind == "read" and o.end is not None and not o.failed for o in ops),
                            unknown=sum(o.kind == "write" and o.end is None for o in ops), failed=sum(o.failed for o in ops))
            count["leader changes"] = ensemble.leader() is not before
            totals += count
            totals[name] += 1
            print(f"{run + 1}/{len(plans)} {name}: {', '.join(f'{v} {k}' for k, v in count.items())}"
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
