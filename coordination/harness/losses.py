"""How long an ensemble is without a leader, whatever it was lost to: ZooKeeper, stock's and ours, with 100 ms x 4 and as planned;
etcd with its defaults and as planned.

    python3 coordination/harness/losses.py [--servers 3] [--losses 10] [--arms giusto,etcd-defaults,etcd] [--faults kill,stop,cut]
        [--latency 10ms --delay 1ms --write 10ms --recovery 1s] [--watch S --busy N] [--seed 1] [--out DIR] [--gate]

Arms (stock, stock-planned, giusto, giusto-planned, etcd-defaults, etcd) and faults take turns. The leader is killed (SIGKILL),
stopped (SIGSTOP), cut off from the other servers both ways (cut), or so that nothing it sends arrives (mute) or that nothing
arrives that is sent to it (deaf), or a forced write of its disk does not end (disk); nothing is closed but with kill. A client
polls every survivor every 5 ms, and the first acknowledged write counts, against the bound of the first write: of ZooKeeper
the one its servers export, and tickTime x syncLimit where nothing is closed, or what was planned for it; of etcd that of
`giusto plan`, from what the flags say of this machine. (With disk the leader may go on, as the others are a quorum: then it is
asked, too, and no bound counts.) Meanwhile a client writes to each ensemble of etcd; in the end all that was acknowledged must
be there. A loss during which others had the processors is void (recovery.py). --watch: no server is lost for so long, beside N
processes that never sleep; elections are counted.
--gate: exit 5 where a planned one that is not void lasted longer than the bound; a lost write always is exit 1.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import etcd
import machine
import recovery
import wire
from ensemble import ROOM, Ensemble, die_with_parent
from wires import WiredEnsemble

POLL_S = recovery.POLL_S
TICKS = {"tickTime": 100, "syncLimit": 4, "initLimit": 20, "minSessionTimeout": 200, "maxSessionTimeout": 10000}
# Longer than any loss lasts.
HUNG_US = 60_000_000


def planned(directory, args):
    """(lines of zoo.cfg, plan) of an ensemble of ours, from what the flags say of this machine."""
    measured = {"latency": args.latency, "delay": args.delay, "write": args.write}
    site = etcd.site(directory, "zookeeper", args.servers, f"{args.recovery}, machine-loss: {args.recovery}" if args.promise
                     else args.recovery, measured)
    def giusto(*words):
        return json.loads(subprocess.run([etcd.GIUSTO, *words, site, "--json"], check=True, capture_output=True).stdout)

    texts, plan = giusto("export", "zookeeper"), giusto("plan")
    lines = (line.split("=", 1) for line in texts[0]["config"].splitlines() if not line.startswith("#"))
    ours = ("tickTime", "initLimit", "syncLimit", "giusto.step-down")
    return {**TICKS, **{key: value for key, value in lines if key in ours}, "minSessionTimeout": 200}, plan["coordination"]


class ZooKeeper:
    """An arm of recovery.py."""

    def __init__(self, name, directory, args, lines=None, plan=None):
        self.plan, self.config = plan, lines or TICKS
        # Relays are late themselves, which nothing may be where elections for nothing are counted.
        self.ensemble = (Ensemble if args.watch else Hanging)(directory, [name] * args.servers, self.config)

    def begin(self):
        self.ensemble.__enter__()
        session = wire.Session(self.ensemble.ports()[0], timeout=30)
        session.create("/recovery")
        session.close()

    def bound_ms(self, fault, left):
        first = [int(s.metrics().get("giusto_first_write_bound_us", 0)) / 1000 for s in left]
        if not max(first) or fault == "disk":
            return None
        lost = int(self.config["tickTime"]) * int(self.config["syncLimit"])
        if self.plan:
            lost = (self.plan["machine_loss_ns"] - self.plan["bound_ns"]) / 1e6
        return max(first) + (0 if fault == "kill" else lost)

    def first_write(self, ports):
        return recovery.first_write(ports)

    def term(self):
        """The epoch of the ensemble."""
        lines = (line for s in self.ensemble.servers for line in wire.ask(s.client, "srvr").splitlines())
        zxids = [line[6:] for line in lines if line.startswith("Zxid:")]
        return max((int(zxid, 16) >> 32 for zxid in zxids), default=None)

    def end(self):
        self.ensemble.__exit__()
        return 0


class Hanging(WiredEnsemble):
    """Whose disks can hang, so that a forced write does not end. All know the same addresses, since a server that is called back
    takes the one that it is told; who connects to a peer is led through a wire."""

    def hang(self, server):
        (server.dir / "hangs").touch()

    def mend(self, server):
        (server.dir / "hangs").unlink(missing_ok=True)

    def route(self, source, target):
        return target.quorum, target.election

    def environment_of(self, server):
        slow = self.dir / "slowdisk.so"
        if not slow.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", slow, ROOM / "harness" / "slowdisk.c", "-ldl"], check=True)
            machine.build(self.dir)
        wires = [pair for (a, b), ports in self.routes.items() if a is server for pair in zip((b.quorum, b.election), ports)]
        return {"LD_PRELOAD": f"{slow}:{self.dir / 'machine.so'}", "GIUSTO_WIRES": ",".join(f"{a}:{b}" for a, b in wires),
                "GIUSTO_SLOW_FLAG": str(server.dir / "hangs"), "GIUSTO_SLOW_US": str(HUNG_US)}


class Etcd:
    def __init__(self, environment, plan, directory, args):
        self.plan = plan
        self.ensemble = etcd.Etcd(directory, environment, args.servers, wires=True)
        self.writes, self.writing = {}, threading.Event()

    def begin(self):
        self.ensemble.__enter__()
        self.writing.set()
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def _write(self):
        number = 0
        while self.writing.is_set():
            for s in self.ensemble.servers:
                # The same write again may happen twice, which is one.
                try:
                    etcd.put(s.client, f"w/{number}", str(number), 0.3)
                    self.writes[f"w/{number}"] = str(number)
                    number += 1
                    break
                except OSError:
                    pass
            time.sleep(0.02)

    def bound_ms(self, _fault, _left):
        return self.plan and self.plan["first_write_ns"] / 1e6

    def first_write(self, ports):
        return asyncio.run(poll(ports))

    def term(self):
        return self.ensemble.servers[0].status().get("raftTerm")

    def end(self):
        """How many writes are lost."""
        self.writing.clear()
        self.writer.join()
        try:
            self.ensemble.wait_whole()
            there = etcd.everything(self.ensemble.servers[-1].client, "w/")
            return sum(there.get(key) != value for key, value in self.writes.items())
        finally:
            self.ensemble.__exit__()


async def poll(ports, stop_after=30.0):
    """The wall time at which the first of many writes was acknowledged. It does not wait for those sent to a lost leader."""
    done = asyncio.get_running_loop().create_future()
    body = json.dumps({"key": etcd.text("recovery"), "value": etcd.text("x")})
    request = f"POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    async def write(port):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                line = await asyncio.wait_for(reader.readline(), 0.5)
                if b" 200 " in line and not done.done():
                    done.set_result(time.time())
            finally:
                writer.close()
        except (OSError, asyncio.TimeoutError):
            pass

    tasks, end = set(), time.monotonic() + stop_after
    while not done.done() and time.monotonic() < end:
        for port in ports:
            task = asyncio.create_task(write(port))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.wait([done], timeout=POLL_S)
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return done.result() if done.done() else None


def lose(arm, fault, pids):
    ensemble = arm.ensemble
    leader = ensemble.wait_whole()
    left = [s for s in ensemble.servers if s is not leader]
    bound = arm.bound_ms(fault, left)
    before = recovery.Machine(pids())
    at = time.time()
    {"kill": leader.kill, "stop": lambda: leader.kill(signal.SIGSTOP), "cut": lambda: ensemble.isolate(leader),
     "mute": lambda: ensemble.mute(leader), "deaf": lambda: ensemble.deafen(leader),
     "disk": lambda: ensemble.hang(leader)}[fault]()
    acknowledged = arm.first_write([s.client for s in (ensemble.servers if fault == "disk" else left)])
    after = recovery.Machine(before.pids)
    # Who takes no write any more is not waited for longer.
    acknowledged = acknowledged or time.time()
    if fault == "kill":
        leader.start()
    elif fault == "stop":
        leader.kill(signal.SIGCONT)
    elif fault == "disk":
        leader.kill()
        ensemble.mend(leader)
        leader.start()
    else:
        ensemble.heal()
    others, _ = after.since(before)
    ensemble.wait_whole()
    void = recovery.disturbed(others, after.at - before.at)
    return {"ms": 1000 * (acknowledged - at), "at": at, "bound_ms": bound, "others_s": others, "void": void}


def watch(arms, seconds, busy):
    """How many elections there are while no server is lost."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=die_with_parent) for _ in range(busy)]
    begun = {name: arm.term() for name, arm in arms.items()}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for arm in arms.values():
            # Some writes, so that disks are in the way.
            arm.first_write(arm.ensemble.ports())
        time.sleep(0.05)
    for process in spinning:
        process.kill()
        process.wait()
    print(f"{seconds} s without a loss beside {busy} processes that never sleep, load {os.getloadavg()[0]:.1f}")
    for name, arm in arms.items():
        arm.ensemble.wait_whole()
        print(f"{name:<14} elections for nothing: {arm.term() - begun[name]}", flush=True)


def report(samples):
    """A row an arm and fault; whether all of etcd that count were within their bounds."""
    print(f"{'arm':<14}{'fault':<6}{'n':>4}{'void':>5}{'p50':>7}{'p99':>7}{'max':>7}{'bound':>7}{'max/bound':>10}")
    kept = True
    for (arm, fault), rows in sorted(samples.items()):
        good = [row for row in rows if not row["void"]]
        times = [row["ms"] for row in good]
        if not times:
            print(f"{arm:<14}{fault:<6}{0:>4}{len(rows):>5}")
            continue
        shares = [row["ms"] / row["bound_ms"] for row in good if row["bound_ms"]]
        kept &= max(shares, default=0) <= 1 or arm not in ("etcd", "giusto-planned")
        bound, share = (f"{max(row['bound_ms'] for row in good):.0f}", f"{max(shares):.2f}") if shares else ("-", "-")
        print(f"{arm:<14}{fault:<6}{len(good):>4}{len(rows) - len(good):>5}{recovery.percentile(times, 50):>7.0f}"
              f"{recovery.percentile(times, 99):>7.0f}{max(times):>7.0f}{bound:>7}{share:>10}")
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--losses", type=int, default=10, help="of each arm by each fault")
    parser.add_argument("--arms", default="giusto,etcd-defaults,etcd")
    parser.add_argument("--faults", default="kill,stop,cut")
    for key, value in (("latency", "10ms"), ("delay", "1ms"), ("write", "10ms"), ("recovery", "1s")):
        parser.add_argument(f"--{key}", default=value)
    parser.add_argument("--promise", action="store_true",
                        help="of ZooKeeper, too: the longest tick with which machine-loss is --recovery")
    parser.add_argument("--watch", type=int, default=0)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("target/bench"))
    parser.add_argument("--gate", action="store_true")
    a = parser.parse_args()
    rng, faults, names = random.Random(a.seed), a.faults.split(","), a.arms.split(",")
    a.out.mkdir(parents=True, exist_ok=True)
    lost, quiet, samples = 0, [], {}
    with tempfile.TemporaryDirectory(prefix="giusto-losses-") as scratch:
        print(f"seed {a.seed}, load {os.getloadavg()[0]:.1f}; planned from {a.latency}, {a.delay}, {a.write}:", end="")
        if "etcd" in names:
            environment, plan = etcd.planned(scratch, a.servers, a.recovery, latency=a.latency, delay=a.delay, write=a.write)
            print(f" heartbeat {plan['heartbeat_ns'] // 10**6} ms, election timeout {plan['election_ns'] // 10**6} ms, "
                  f"{plan['rounds']} elections", end="")
        if any(name.endswith("-planned") for name in names):
            lines, ours = planned(scratch, a)
            print(f" {lines['tickTime']} ms x {lines['syncLimit']}, step-down {lines['giusto.step-down']}", end="")
        print(flush=True)
        arms = {}
        for name in names:
            where = Path(scratch) / name
            if name == "etcd":
                arms[name] = Etcd(environment, plan, where, a)
            elif name == "etcd-defaults":
                arms[name] = Etcd(etcd.STOCK, None, where, a)
            elif name.endswith("-planned"):
                arms[name] = ZooKeeper(name.removesuffix("-planned"), where, a, lines, ours)
            else:
                arms[name] = ZooKeeper(name, where, a)
        try:
            for arm in arms.values():
                arm.begin()

            def pids():
                return [s.process.pid for arm in arms.values() for s in arm.ensemble.servers if s.process]

            if a.watch:
                watch(arms, a.watch, a.busy)
            for k in range(0 if a.watch else a.losses * len(faults)):
                for name, arm in arms.items():
                    term = arm.term()
                    time.sleep(rng.uniform(0.5, 1.5))
                    quiet.append((name, arm.term() == term))
                    fault = faults[k % len(faults)]
                    row = lose(arm, fault, pids)
                    samples.setdefault((name, fault), []).append(row)
                    print(f"{k + 1} {name} {fault}: {row['ms']:.0f} ms{' void' if row['void'] else ''}", file=sys.stderr)
        finally:
            for name, arm in arms.items():
                gone = arm.end()
                lost += gone
                if gone:
                    print(f"{name}: {gone} acknowledged writes are lost")
    kept = report(samples)
    etcds = [arm for arm in arms.values() if isinstance(arm, Etcd)]
    print(f"etcd: {sum(len(arm.writes) for arm in etcds)} writes acknowledged, {lost} lost")
    for name in names:
        pauses = [calm for other, calm in quiet if other == name]
        print(f"{name}: elections for nothing in {pauses.count(False)} of {len(pauses)} pauses")
    all_rows = [{"arm": arm, "fault": fault, **row} for (arm, fault), rows in samples.items() for row in rows]
    (a.out / "losses.json").write_text(json.dumps(all_rows))
    if lost:
        sys.exit(1)
    if a.gate and not kept:
        print("gate missed")
        sys.exit(5)


if __name__ == "__main__":
    main()
